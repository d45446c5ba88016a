"""What an algorithm along one axis is made of: points, moduli, or an entry of the catalog."""

from __future__ import annotations

from dataclasses import dataclass


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
        return ", ".join(self.items)

    @property
    def tag(self) -> str:
        """What its entry of the catalog is called besides m and r, "gaussian" say; else ""."""
        return self.items[0] if self.kind == "catalog" else ""
