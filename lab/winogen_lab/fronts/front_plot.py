"""Error against products per output as a picture, a panel for each size of kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from winogen.charts import (
    COLORS,
    GREY,
    INK,
    MARKERS,
    PAPER,
    add_legend,
    few_ticks,
    new_panels,
    save,
)
from winogen.tasks.pareto import staircase
from winogen_lab.fronts.front import KINDS, MOST_ERROR, Way, ways_of


def save_plot(document: dict[str, Any], path: str | Path) -> None:
    """Draw what `winogen_lab.fronts.front.fronts` found; the suffix of ``path`` is the format."""
    pages = document["kernels"]
    figure, panels = new_panels(len(pages), 5.2 * len(pages), 5.6)
    for axes, page in zip(panels, pages):
        ways = ways_of(page)
        direct = next(way.predicted for way in ways if way.kind == "direct")
        for kind, color, marker in zip(KINDS, COLORS, MARKERS):
            some = [way for way in ways if way.kind == kind and way.predicted < MOST_ERROR * direct]
            axes.plot(
                [way.per_output for way in some],
                [way.predicted / direct for way in some],
                marker, color=color, label=kind, markersize=5, alpha=0.85,
            )  # fmt: skip
        stairs = staircase((way.per_output, way.predicted / direct) for way in ways)
        stairs = [step for step in stairs if step[1] < MOST_ERROR]
        axes.step(*zip(*stairs), where="post", color=GREY, linewidth=1, zorder=0)
        _name([way for way in ways if way.mark], direct, axes)
        axes.set(xscale="log", yscale="log", xlabel="multiplications per output")
        few_ticks(axes.xaxis)
        few_ticks(axes.yaxis)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter("{x:g}")
        axes.set_title(f"{page['kernel']}×{page['kernel']}", loc="left", fontsize=10)
    panels[0].set_ylabel("predicted error over that of direct convolution")
    add_legend(figure)
    save(figure, path)


def _name(marked: list[Way], direct: float, axes: Any) -> None:
    """Put a letter beside each tile with a mark, and say at the top right which it is."""
    texts = []
    for letter, way in zip("abcdefgh", marked):
        at = way.per_output, way.predicted / direct
        axes.plot(*at, "o", markersize=11, markerfacecolor="none", color=INK)
        axes.annotate(letter, at, xytext=(8, 5), textcoords="offset points", fontsize=9, color=INK)
        name = f"{way.tile}, {way.mark}".replace("x^2", "x²").replace("x", "×").replace("×²", "x²")
        texts.append(f"{letter}  {way.products} for {way.nested}: {name}")
    axes.text(
        0.99, 0.99, "\n".join(texts), transform=axes.transAxes, ha="right", va="top", fontsize=8.5,
        bbox={"facecolor": PAPER, "edgecolor": GREY, "linewidth": 0.5},
    )  # fmt: skip
