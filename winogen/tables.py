"""Tables of figures for a terminal, and numbers in them; `columns` has those of plain text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table


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


def number(value: float | None, form: str) -> str:
    """Return a number as text, "" for None."""
    return "" if value is None else format(value, form)
