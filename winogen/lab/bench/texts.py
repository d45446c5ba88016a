"""What all reports for people share: a plain table, and figures as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from winogen.lab.bench import report
from winogen.records import FILTER_TYPES, PRODUCT_TYPES


def machine_title(machine: dict) -> str:
    """Return the line about CPU, cores and compiler."""
    names = ", ".join(machine["extensions"])
    extensions = f" with {names}" if names else ""
    return (
        f"{escape(machine['cpu'])}, {machine['cores']} cores, kernels for {machine['isa']}"
        f"{extensions} by {escape(str(machine['compiler']))}"
    )


def speed_lines(machine: dict) -> Iterator[str]:
    """The speeds of reading and writing, by level; ``machine``: as in the JSON document."""
    for title, key in (("reading", "read_gbytes_per_s"), ("writing", "write_gbytes_per_s")):
        if key in machine:  # writing is not always measured
            levels = ", ".join(
                f"{level} {row['gbytes_per_s']:.0f} ({size_text(row['bytes'])})"
                for level, row in machine[key].items()
            )
            yield f"{title}, GB/s: {levels}"


def how(row: dict) -> str:
    """Return an algorithm, its F(m, r) and its narrow numbers as short text.

    >>> how({"algorithm": "mcmr", "tile": [4, 6], "weight": [8, 8, 3, 3]})
    'mcmr F(4x6,3x3)'
    """
    narrow = ""
    if row.get("product_dtype") in PRODUCT_TYPES:
        narrow = f", {row['product_dtype']}"
    elif row.get("filter_dtype") in FILTER_TYPES:
        narrow = f", {row['filter_dtype']} filters"
    if row["tile"] is None:
        return f"{row['algorithm']}{narrow}"
    along = slice(-1, None) if row["algorithm"] == "winograd1d" else slice(None)
    tile, taps = ("x".join(map(str, sizes[along])) for sizes in (row["tile"], _taps(row)))
    return f"{row['algorithm']} F({tile},{taps}){narrow}"


def kernel_of(layer: dict) -> dict:
    """Return what `how` reads of a layer, for a row that somebody else has."""
    return {name: layer[name] for name in ("weight", "stride", "transposed") if name in layer}


def _taps(row: dict) -> list[int]:
    """Taps along each axis; of a transposed layer those of a phase."""
    taps = row["weight"][2:]
    if not row.get("transposed"):
        return list(taps)
    stride = row["stride"]
    steps = stride if isinstance(stride, list) else [stride] * len(taps)
    return [-(-kernel // step) for kernel, step in zip(taps, steps)]


def plain_table(title: str, caption: str) -> Table:
    """Return an empty table without lines between its columns."""
    return Table(
        title=title, caption=caption, title_justify="left", caption_justify="left",
        title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0),
    )  # fmt: skip


def table_of(
    title: str,
    caption: str,
    columns: Mapping[str, Callable[[Any], str]],
    rows: Iterable[Any],
    *,
    left: int = 1,
    footer: Sequence[Mapping[str, str]] = (),
    bold: Callable[[Any], bool] = lambda row: False,
) -> Table:
    """Return a table of what each of ``columns`` says of each row, in rich's markup.

    Empty columns are left out, but for the first, ``left`` of which are flush left. ``footer``:
    rows below a line, each with the words of some columns. ``bold``: of which rows.
    """
    rows = list(rows)
    cells = {head: [cell(row) for row in rows] for head, cell in columns.items()}
    shown = [
        head
        for number, head in enumerate(columns)
        if number < left or any(cells[head]) or any(line.get(head) for line in footer)
    ]
    table = plain_table(title, caption)
    for number, head in enumerate(shown):
        flush = number < left
        table.add_column(head.strip(), justify="left" if flush else "right", no_wrap=flush)
    for number, row in enumerate(rows):
        table.add_row(*(cells[head][number] for head in shown), style="bold" if bold(row) else None)
    table.add_section()
    for line in footer:
        table.add_row(*(line.get(head, "") for head in shown), style="bold")
    return table


def milliseconds(seconds: float) -> str:
    """Return seconds as milliseconds in three digits."""
    return f"{seconds * 1e3:.3g}" if seconds < 1 else f"{seconds * 1e3:.0f}"


def number(value: float | None, form: str) -> str:
    """Return a number as text, "" for None."""
    return "" if value is None else format(value, form)


def size_text(size: float) -> str:
    """Return bytes as text.

    >>> size_text(3 << 20)
    '3 MiB'
    """
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            break
        size, unit = size / 1024, {"bytes": "KiB", "KiB": "MiB", "MiB": "GiB"}[unit]
    return f"{size:.3g} {unit}"


def threads_text(machine: dict) -> str:
    """Return how many threads everybody had."""
    return "1 thread" if machine["threads"] == 1 else f"{machine['threads']} threads"


def doubts(rows: Iterable[dict]) -> Iterator[str]:
    """Name the layers, or nets, beside which other programs computed."""
    for row in rows:
        if row.get("disturbed"):
            why = " and ".join(row["disturbed"])
            yield f"[yellow]{escape(row['name'])}: {why}: its times are doubtful[/]"


def against(row: dict, what: str) -> str:
    """Return what was predicted of a row, "error" or "time", and what was measured of it.

    >>> against({"predicted_s": 0.002, "median_s": 0.003}, "time")
    '2 x1.50'
    """
    share = report.over_predicted(row, what)
    if share is None:
        return ""
    expected = f"{row['predicted_error']:.0e}" if what == "error" else None
    return f"{expected or milliseconds(row['predicted_s'])} x{share:.2f}"
