"""`winogen lab strassen`: fast products of blocks within a Winograd layer, measured."""

from __future__ import annotations

import typer

from winogen.cli.options import integers

EXAMPLE = "Example: winogen lab strassen --sizes 14,28,56 --channels 512 --filters 512"


def strassen(
    sizes: str = typer.Option("14,28,56", metavar="N,...", help="Sizes of square maps, in pixels."),
    channels: int = typer.Option(512, min=1, help="Channels of the input."),
    filters: int = typer.Option(512, min=1, help="Filters."),
    algorithm: str = typer.Option(
        "strassen", metavar="NAME", help="strassen, strassen_winograd or laderman."
    ),
    tile: int = typer.Option(4, min=1, help="Outputs of a tile along each axis."),
    rounds: int = typer.Option(15, min=3, help="Rounds in which both ways take turns."),
) -> None:
    """Measure one level of Strassen in the products of a 3x3 layer by F(TILE x TILE, 3x3).

    It prints the times of the products, with and without, on one thread, their ratio with its 95 %
    interval, and the errors of the layer, max |y - y64| / max |y64|. No plan uses such products.
    """
    from winogen.toolchain.machine_file import cpu_name
    from winogen_lab.bench.fast_products import compare

    chosen = integers("sizes", sizes, *range(1, 9))
    typer.echo(f"{cpu_name()}, one thread, {channels} -> {filters}, {algorithm}")
    typer.echo(_ROW.format("map", "tiles", "plain", algorithm, "time ratio", "error", "error", "x"))
    for row in compare(chosen, channels, filters, algorithm, tile, rounds):
        median, low, high = row.ratio
        typer.echo(
            _ROW.format(
                f"{row.size}x{row.size}", row.tiles, f"{row.plain_s * 1e3:.2f} ms",
                f"{row.fast_s * 1e3:.2f} ms", f"{median:.3f} ({low:.3f}-{high:.3f})",
                f"{row.plain_error:.2e}", f"{row.fast_error:.2e}",
                f"{row.fast_error / row.plain_error:.2f}",
            )
        )  # fmt: skip


_ROW = "{:>9} {:>6} {:>11} {:>17} {:>21} {:>9} {:>9} {:>5}"
