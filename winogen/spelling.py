"""How points of one algorithm, and of one within another, are written in one line."""

from __future__ import annotations

from collections.abc import Iterable

WITHIN = ";"  # between the points of an algorithm and of the one that is iterated within it
ITERATED = "iterated"  # default points of two such algorithms, whatever m and r are


def in_one_line(items: Iterable[object], comma: str = ", ") -> str:
    """Return points or moduli as text, as they are read, too.

    >>> in_one_line(["0", "1", "inf", ";", "0", "1", "-1", "inf"])
    '0, 1, inf; 0, 1, -1, inf'
    """
    lists: list[list[str]] = [[]]
    for item in map(str, items):
        if item == WITHIN:
            lists.append([])
        else:
            lists[-1].append(item)
    return f"{WITHIN}{comma[1:]}".join(map(comma.join, lists))
