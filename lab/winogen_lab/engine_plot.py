"""Engines as pictures: utilisation layer by layer and by schedule."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from winogen.charts import (
    COLORS,
    MARKERS,
    add_legend,
    name_places,
    new_panels,
    save,
)
from winogen.hardware import figures
from winogen.hardware.schedules import SCHEDULES

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def save_utilisation(path: str | Path, net: str | None = None) -> None:
    """Draw utilisation layer by layer of nets on engines M and L, and by schedule: Figures 6.14 to
    6.20. ``net``: only this one's layers.
    """
    nets = figures.NETS[:3] if net is None else (net,)
    figure, panels = new_panels(len(nets) + 1, 4.6 * (len(nets) + 1), 4.6)
    for axes, name in zip(panels, nets):
        for engine, color, marker, markersize in zip("ML", COLORS, MARKERS, (8, 4)):
            some = figures.mappings(name, figures.ENGINES[engine])
            axes.plot(
                range(1, len(some) + 1), [one.utilisation for one in some], marker, color=color,
                label=f"{engine} {figures.ENGINES[engine]}", markersize=markersize,
            )  # fmt: skip
        axes.set(ylim=(0, 1.05), xlabel="convolution, in the order of the net")
        axes.set_title(name, loc="left", fontsize=10)
        axes.locator_params("x", integer=True)
    panels[0].set_ylabel("utilisation of the multipliers, by the model")
    _by_schedule(panels[-1], figures.NETS if net is None else (net,))
    add_legend(figure)
    panels[-1].legend(frameon=False, fontsize=8)
    save(figure, path)


def _by_schedule(axes: Axes, nets: Sequence[str]) -> None:
    """Bars of each net and schedule, on the large engine, whose memory binds."""
    busy = {net: figures.by_schedule(net, figures.LARGE) for net in nets}
    width = 0.8 / len(SCHEDULES)
    for number, (name, color) in enumerate(zip(SCHEDULES, COLORS[2:])):
        at = [index + (number - 1) * width for index in range(len(nets))]
        axes.bar(at, [busy[net][name] for net in nets], width, label=name, color=color)
    name_places(axes, nets)
    sram, bandwidth = figures.SRAM >> 10, figures.BANDWIDTH / 1e9
    title = f"L, {sram} KB of SRAM, {bandwidth:g} GB/s"
    axes.set_title(title, loc="left", fontsize=10)
