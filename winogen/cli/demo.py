"""`winogen demo`: a VGG-sized layer and a photograph by every algorithm, as tables and pictures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from winogen.demo.workload import TableRow

EXAMPLE = "Example: winogen demo --threads 1"


def demo(
    output: Path = typer.Option(Path("demo"), "--output", "-o", help="Folder for the pictures."),
    threads: int = typer.Option(None, help="Threads (default: all CPUs of this process)."),
) -> None:
    """Run a VGG-sized layer and filter a photograph by every algorithm, against float64."""
    from rich.console import Console

    from winogen import demo
    from winogen.progress import compiling
    from winogen.toolchain import host_target
    from winogen.toolchain.compiler import compiler_name

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 160  # a log has no width; nothing is gained by folding the table
    narrow = console.width < _NARROW
    console.print(f"kernels for {host_target().name}, by {compiler_name()}")
    photo = demo.photograph()
    console.print(f"\n{_INTRODUCTION}\n")
    banks, by_size, compared = demo.banks(), {}, {}
    with compiling() as say:
        for layer in demo.layers(photo):
            table = _table(narrow)
            for row, y, error in demo.measure(layer, threads, say):
                _add(table, row, narrow)
                table.title = f"{layer.title}; {row.threads} thread{'s' * (row.threads > 1)}"
                size = layer.weight.shape[-1]
                if layer.x.shape[1] == 1:
                    by_size[size] = (banks[size], y)
                    if size == 5:
                        compared[f"{row.algorithm} {row.tile}"] = (y[:, 3], error[:, 3])
            console.print(table)
        say("drawing")
        demo.filter_sheet(output / "filters.png", photo, by_size)
        demo.algorithm_sheet(output / "algorithms.png", banks[5][3], compared)
    console.print(f"pictures: {output / 'filters.png'}, {output / 'algorithms.png'}")


_INTRODUCTION = """\
direct and im2col multiply every weight with every pixel. Winograd's algorithms transform tiles of
the image and of the filters, and then need fewer multiplications: winograd2d takes a few tiles at
a time, winograd1d treats rows of the image one by one, and mcmr transforms many tiles of all
channels first and leaves the multiplications to one matrix product for each position in a tile.

With many channels, as in the first table, each transform serves many multiplications and pays.
The photograph has one channel: there a transform may cost more time than it saves."""
_NARROW = 140  # columns; the whole table needs that many


def _table(narrow: bool) -> Table:
    from rich import box
    from rich.table import Table

    caption = "GFLOP/s as direct convolution counts them; errors relative to the largest output"
    table = Table(
        caption=caption, title_justify="left", caption_justify="left", title_style="bold",
        box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0 if narrow else 1),
    )  # fmt: skip
    table.add_column("algorithm", no_wrap=True)
    table.add_column("F(m, r)", no_wrap=True)
    if not narrow:
        table.add_column("points", overflow="fold")
    sizes = ("products", "workspace") if narrow else ("multiplications", "workspace bytes")
    errors = ("max err", "mean err") if narrow else ("max error", "mean error")
    for name in (*sizes, "time", "GFLOP/s", *errors):
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _add(table: Table, row: TableRow, narrow: bool) -> None:
    if narrow:
        # Exact counts and points do not fit: round the former, list the latter underneath.
        sizes = [f"{row.multiplications / 1e6:.1f} M", f"{row.workspace_bytes / 1024:,.0f} KiB"]
        line = f"{row.tile}: points {row.points}".replace("\n", ", ")
        if row.points and line not in str(table.caption):
            table.caption = f"{table.caption}\n{line}"
    else:
        sizes = [row.points or "-", f"{row.multiplications:,}", f"{row.workspace_bytes:,}"]
    table.add_row(
        row.algorithm,
        (row.tile.replace(" ", "") if narrow else row.tile) or "-",
        *sizes,
        f"{row.seconds * 1e3:.2f} ms",
        f"{row.gflops:.1f}",
        f"{row.max_error:.1e}",
        f"{row.mean_error:.1e}",
    )
