"""Tables and sentences as plain text, no wider than a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

WIDTH = 100
_LEAST = 8  # characters of a text that is cut


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


def filled(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the rows without the columns that are empty below the first row, the head.

    >>> filled([["layer", "ms", "error"], ["a", "", "1e-6"]])
    [['layer', 'error'], ['a', '1e-6']]
    """
    kept = [place for place, (_, *column) in enumerate(zip(*rows)) if any(column)]
    return [[row[place] for place in kept] for row in rows]


def fitted(rows: Sequence[Sequence[str]], texts: int, width: int = WIDTH) -> list[list[str]]:
    """Return the rows with the first ``texts`` columns shortened until all fit into ``width``.

    The widest column gives first, and down to 8 characters. What is cut out is the middle.

    >>> fitted([["encoder.layer4.0.conv1", "12"]], 1, 20)
    [['encoder....conv1', '12']]
    """
    widths = [max(map(len, column)) for column in zip(*rows)]
    over = sum(widths) + 2 * (len(widths) - 1) - width
    while over > 0 and max(widths[:texts]) > _LEAST:
        widths[widths.index(max(widths[:texts]))] -= 1
        over -= 1
    return [[_shortened(text, size) for text, size in zip(row, widths)] for row in rows]


def _shortened(text: str, size: int) -> str:
    if len(text) <= size:
        return text
    end = (size - 3) // 2
    return f"{text[: size - 3 - end]}...{text[-end:]}"


def wrapped(text: str, width: int = WIDTH) -> list[str]:
    """Return the lines of a sentence, indented from the second on; words stay whole."""
    return textwrap.wrap(
        text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
