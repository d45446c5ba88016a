"""How much memory filters and tiles of F(m, r) take over the tile: Maji's Figures 4.6 and 4.7."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path


@dataclass(frozen=True)
class Growth:
    """F(m, r) along one axis, as multiples of the filters and of the map."""

    tile: int
    taps: int

    @property
    def filters(self) -> Fraction:
        """Transformed filters over filters, n/r for n = m + r - 1.

        >>> Growth(4, 3).filters, Growth(4, 3).tiles
        (Fraction(2, 1), Fraction(3, 2))
        """
        return Fraction(self.tile + self.taps - 1, self.taps)

    @property
    def tiles(self) -> Fraction:
        """Tiles, which overlap, over the map: n/m, which is also the products of an output."""
        return Fraction(self.tile + self.taps - 1, self.tile)


def growth(kernels: Iterable[int], most: int) -> list[Growth]:
    """Return all tiles of each kernel, from 1, which is direct convolution, to ``most`` outputs."""
    return [Growth(tile, taps) for taps in kernels for tile in range(1, most + 1)]


def save_growth(kernels: Sequence[int], most: int, path: str | Path) -> None:
    """Draw memory of filters over the tile, in one and in two dimensions, beside products."""
    from winogen.charts import COLORS, MARKERS, add_legend, new_panels, save

    figure, panels = new_panels(len(kernels), 4.8 * len(kernels), 4.6)
    for axes, taps in zip(panels, kernels):
        rows = growth([taps], most)
        x = [row.tile for row in rows]
        lines = {
            "filters, two axes": [row.filters**2 for row in rows],
            "filters, one axis": [row.filters for row in rows],
            "tiles, two axes": [row.tiles**2 for row in rows],
            "direct over products, two axes": [(taps / row.tiles) ** 2 for row in rows],
        }
        for (label, y), color, marker in zip(lines.items(), COLORS, MARKERS):
            axes.plot(x, list(map(float, y)), f"{marker}-", color=color, label=label, markersize=4)
        axes.set(yscale="log", xlabel="outputs of a tile along an axis, m")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.set_title(f"{taps}×{taps}", loc="left", fontsize=10)
    panels[0].set_ylabel("multiple of what direct convolution has")
    add_legend(figure)
    save(figure, path)
