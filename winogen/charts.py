"""Charts by matplotlib: one style for all of them, grouped bars, and files."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

# Told apart in this order, without seeing red and green, too; and by their markers in any case.
COLORS = ("#3a86d8", "#e07b2c", "#2b9f69", "#b757c4", "#525252", "#1899a8", "#a9851c", "#7b7fd6")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h")
INK, GREY, PAPER = "black", "#8b919b", "white"
OURS = ("#c1272d", "#f28e8e")  # colors of winogen, where there are two of it


def empty_figure(width: float, height: float, **options: Any) -> Figure:
    """Return a figure without axes: no pyplot, so nothing global, and no window system."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), **options)
    FigureCanvasAgg(figure)
    return figure


def new_figure(width: float = 10.0, height: float = 4.8) -> tuple[Figure, Axes]:
    """Return a figure of this size, in inches, and its only axes, with faint lines across."""
    figure, (axes,) = new_panels(1, width, height)
    return figure, axes


def new_panels(count: int, width: float, height: float, rows: int = 1) -> tuple[Figure, list[Axes]]:
    """Return a figure of this size with so many axes side by side, in rows of as many."""
    figure = empty_figure(width, height, layout="constrained")
    panels = [figure.add_subplot(rows, count // rows, place + 1) for place in range(count)]
    for axes in panels:
        axes.grid(True, color="0.88", linewidth=0.8)
        axes.set_axisbelow(True)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    return figure, panels


def add_legend(figure: Figure, columns: int = 6) -> None:
    """Name what has a label, below the axes."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    place: Any = "outside lower center"  # which matplotlib's types do not know
    if handles:
        figure.legend(
            handles, labels, loc=place, ncols=min(columns, len(labels)), frameon=False, fontsize=8.5
        )


def save(figure: Figure, path: str | Path) -> None:
    """Write a figure; the suffix of ``path`` is the format."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def svg_text(figure: Figure) -> str:
    """Return a figure as SVG; equal data give equal text."""
    import matplotlib

    text = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "winogen"}):
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return text.getvalue()


def name_places(axes: Axes, names: Sequence[str]) -> None:
    """Name the places 0, 1, ... along the width, aslant."""
    axes.set_xticks(range(len(names)), names, rotation=50)
    for label in axes.get_xticklabels():
        label.set(ha="right", rotation_mode="anchor", fontsize=8)
    axes.set_xlim(-0.6, len(names) - 0.4)


def few_ticks(axis: Axis) -> None:
    """Ticks on a logarithmic axis that may span less than a decade: 1, 2, 5 as far as they fit."""
    from matplotlib.ticker import LogFormatterSciNotation, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0) if high < 150 * low else (1.0,)))
    axis.set_major_formatter(LogFormatterSciNotation(minor_thresholds=(99, 99)))
    axis.set_minor_formatter(NullFormatter())


def save_bars(
    path: str | Path,
    title: str,
    unit: str,
    places: Sequence[str],
    series: Mapping[str, Sequence[float]],
    line: tuple[float, str],
) -> None:
    """Draw a group of bars for each of ``places``: name -> a height at each; a line across.

    ``line``: its height and its name. Names that begin with "winogen" get winogen's colors.
    """
    width = 0.84 / len(series)
    figure, axes = new_figure(max(8.0, 2.0 + 0.13 * len(places) * len(series)), 5.8)
    ours, others = iter(OURS), iter(COLORS * len(series))
    for number, (name, heights) in enumerate(series.items()):
        at = [place + (number - (len(series) - 1) / 2) * width for place in range(len(places))]
        color = next(ours if name.startswith("winogen") else others)
        axes.bar(at, heights, width, label=name, color=color)
    height, label = line  # bars that have the name of the line are in the legend already
    axes.axhline(height, color=INK, linewidth=1, linestyle="--",
                 label=None if label in series else label)  # fmt: skip
    name_places(axes, places)
    axes.set_ylabel(unit)
    axes.set_title(title, loc="left", fontsize=10)
    add_legend(figure)
    save(figure, path)
