"""Tables as plain text."""

from __future__ import annotations

from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]], left: int | None = None, indent: str = "") -> list[str]:
    """Return lines of columns, the first ``left`` of them aligned to the left; None: all.

    >>> aligned([["layer", "ms"], ["a", "10"]], left=1)
    ['layer  ms', 'a      10']
    """
    widths = [max(map(len, column)) for column in zip(*rows)]
    return [
        indent
        + "  ".join(
            text.ljust(width) if left is None or place < left else text.rjust(width)
            for place, (text, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    ]
