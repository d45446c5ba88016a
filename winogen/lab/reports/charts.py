"""Pictures as SVG that fit into a page: its colours, its light or dark, no fonts to load.

Every picture is drawn twice, for a wide window and for a phone: text that shrinks with the picture
could not be read there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

import io
import re
import textwrap
from collections.abc import Callable

# Stand-ins that are replaced by what the page decides.
INK, GRID, PAPER = "#010101", "#020202", "#030303"
_PAGE = {INK: "currentColor", GRID: "var(--grid)", PAPER: "var(--paper)"}
# Told apart on white and on black, in this order, and by their markers in any case.
COLORS = ("#3a86d8", "#e07b2c", "#2b9f69", "#b757c4", "#d64550", "#1899a8", "#a9851c", "#7b7fd6")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h")
GREY = "#8b919b"
_SIZES = {"wide": (10.0, 4.6), "narrow": (3.8, 4.4)}  # inches; the page scales them to its width
_FONT = {"wide": 9.0, "narrow": 9.4}  # points; a phone shows 1.3 pixels for each


class Sheet:
    """A figure of one of the two widths."""

    def __init__(self, kind: str, figure: Figure):
        self.kind, self.figure = kind, figure
        self.narrow = kind == "narrow"

    def axes(self, rows: int = 1, columns: int = 1, **options: Any) -> list[Axes]:
        """Return ``rows * columns`` axes, one below the other where the sheet is narrow."""
        if self.narrow:
            rows, columns = rows * columns, 1
        grid = self.figure.subplots(rows, columns, squeeze=False, **options)
        return [_plain(axes) for row in grid for axes in row]

    def wrap(self, text: str) -> str:
        """The label of an axis, on several lines where one would be wider than the sheet."""
        return textwrap.fill(text, 42) if self.narrow else text

    def name_rows(self, axes: Axes, names: list[str]) -> None:
        """Name the rows of dots at y = 0, 1, ...: beside them, or above if there is no room."""
        axes.set_ylim(-0.7, len(names) - 0.3)
        if not self.narrow:
            axes.set_yticks(range(len(names)), names)
            return
        axes.set_yticks(range(len(names)), [""] * len(names))
        for row, name in enumerate(names):
            axes.annotate(
                name, (0, row), (2, 4), xycoords=("axes fraction", "data"),
                textcoords="offset points", va="bottom",
            )  # fmt: skip

    def legend(
        self, handles: list | None = None, columns: int = 6, title: str | None = None
    ) -> None:
        """A legend below the whole figure."""
        if handles is None:
            handles, labels = self.figure.axes[0].get_legend_handles_labels()
        else:
            labels = [handle.get_label() for handle in handles]
        place: Any = "outside lower center"  # which matplotlib's types do not know
        self.figure.legend(
            handles,
            labels,
            loc=place,
            ncols=_columns(labels, 2 if self.narrow else columns, self.kind),
            title=title,
            frameon=False,
            handlelength=1.6,
            columnspacing=1.4,
        )


def _columns(labels: list[str], most: int, kind: str) -> int:
    """How many columns a legend may have, at most ``most``, to be no wider than the sheet.

    >>> _columns(["short"] * 8, 6, "wide"), _columns(["a label that is much longer"] * 8, 6, "wide")
    (6, 3)
    """
    size, width = _FONT[kind], 72 * _SIZES[kind][0]
    for count in range(min(most, len(labels)), 1, -1):
        rows = -(-len(labels) // count)
        longest = [max(map(len, labels[k : k + rows])) for k in range(0, len(labels), rows)]
        # A letter is 0.6 of the size wide at most on average; line, its gap, the column's follow.
        if size * (0.6 * sum(longest) + 4.2 * len(longest)) <= width:
            return count
    return 1


def draw(paint: Callable[[Sheet], None], name: str, *, height: float = 1.0) -> dict[str, str]:
    """Return {"wide": svg, "narrow": svg} of what ``paint(sheet)`` draws.

    ``name`` begins all ids, which must differ in a page. ``height`` scales the height of both.
    """
    return {kind: _svg(paint, kind, f"{name}-{kind}", height) for kind in _SIZES}


def _svg(paint: Callable[[Sheet], None], kind: str, name: str, height: float) -> str:
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_style(kind)):
        width, usual = _SIZES[kind]
        # SVG counts in points, so that what is placed by pixels is placed by points.
        figure = Figure(figsize=(width, usual * height), dpi=72, layout="constrained")
        FigureCanvasSVG(figure)
        paint(Sheet(kind, figure))
        text = io.StringIO()
        # Without a date, equal data give equal bytes.
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return _for_page(text.getvalue(), name)


def _style(kind: str) -> dict:
    size = _FONT[kind]
    return {
        "svg.fonttype": "path",
        "svg.hashsalt": "winogen",
        "font.family": "DejaVu Sans",  # comes with matplotlib
        "font.size": size,
        "axes.titlesize": size + 0.5,
        "axes.titlelocation": "left",
        "figure.facecolor": "none",
        "axes.facecolor": "none",
        "savefig.facecolor": "none",
        "legend.fontsize": size,
        "lines.linewidth": 1.4,
        "lines.markersize": 5.0 if kind == "wide" else 4.0,
        **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
        "axes.edgecolor": GRID,
        "grid.color": GRID,
        "grid.linewidth": 0.6,
        "axes.spines.top": False,
        "axes.spines.right": False,
    }


def _plain(axes: Axes) -> Axes:
    axes.grid(True)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", length=0)
    return axes


def few_ticks(axis: Axis) -> None:
    """Ticks on a logarithmic axis that may span less than a decade: 1, 2, 5 as far as they fit."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0) if high < 150 * low else (1.0,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: _tick(value)))
    axis.set_minor_formatter(NullFormatter())


def _tick(value: float) -> str:
    """2e-7, or 0.5 where that is short."""
    if 1e-2 <= value < 1e4:
        return f"{value:g}"
    digits, exponent = f"{value:.0e}".split("e")
    return f"{digits}e{int(exponent)}"


def _for_page(svg: str, name: str) -> str:
    """The picture without XML declarations, in the page's colours, with ids of its own."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<svg ([^>]*?)width="[^"]*" ?', r"<svg \1", svg, count=1)
    svg = re.sub(r'<svg ([^>]*?)height="[^"]*" ?', r"<svg \1", svg, count=1)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", svg)
    for stand_in, color in _PAGE.items():
        svg = svg.replace(stand_in, color)
    # Five digits are finer than any screen.
    svg = re.sub(r"-?\d+\.\d{3,}", lambda number: f"{float(number[0]):.5g}", svg)
    return re.sub(r">\s+<", "><", svg).strip()
