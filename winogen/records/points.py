"""What an algorithm along one axis is made of: points, moduli, or an entry of the catalog."""

from __future__ import annotations

from dataclasses import dataclass

from winogen.spelling import ITERATED, WITHIN, in_one_line


@dataclass(frozen=True)
class Points:
    """One set, as exact texts: hashable, printable, and known without any algebra.

    ``kind`` is "points", "moduli" or "catalog"; of an entry of the catalog the only
    text is its tag.

    >>> Points("points", ("0", "1", "-1", "inf")).text
    '0, 1, -1, inf'
    """

    kind: str
    items: tuple[str, ...]

    @property
    def text(self) -> str:
        """All of them in one line."""
        return in_one_line(self.items)

    @property
    def iterated(self) -> bool:
        """Whether it is of two algorithms, whose products are more than m + r - 1."""
        return self.kind == "points" and (WITHIN in self.items or self.items == (ITERATED,))

    @property
    def tag(self) -> str:
        """What its entry of the catalog is called besides m and r, "gaussian" say; else ""."""
        return self.items[0] if self.kind == "catalog" else ""
