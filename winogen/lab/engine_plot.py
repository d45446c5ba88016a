"""Engines as pictures: time against storage, utilisation layer by layer and by schedule."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from winogen.hardware import figures
from winogen.hardware.schedules import SCHEDULES
from winogen.lab.charts import (
    COLORS,
    INK,
    MARKERS,
    add_legend,
    few_ticks,
    name_places,
    new_figure,
    new_panels,
    save,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from winogen.hardware.sizing import Demands, Sized


def save_front(engines: Sequence[Sized], demands: Demands, net: str, path: str | Path) -> None:
    """Draw the time of a net against the multipliers; the suffix of ``path`` is the format."""
    from winogen.hardware.sizing import algorithm_name

    figure, axes = new_figure(8.0, 5.2)
    names = sorted({algorithm_name(one.engine) for one in engines})
    for number, (name, color, marker) in enumerate(zip(names, COLORS, MARKERS)):
        side: dict[str, Any] = {"xytext": (6, 3)}
        if number % 2 == 0:
            side = {"xytext": (-6, -9), "ha": "right"}
        some = [one for one in engines if algorithm_name(one.engine) == name]
        label = f"{name}, error {some[0].error:.1%}" if some[0].error else name
        axes.plot(
            [one.engine.multipliers for one in some], [1e3 * one.seconds for one in some],
            marker, color=color, label=label, markersize=6,
        )  # fmt: skip
        for one in some:
            axes.annotate(
                str(one.engine), (one.engine.multipliers, 1e3 * one.seconds), fontsize=7,
                textcoords="offset points", color=INK, **side,
            )  # fmt: skip
    axes.set(xscale="log", yscale="log", xlabel="multipliers", ylabel="ms, by the model")
    for axis in (axes.xaxis, axes.yaxis):
        few_ticks(axis)
        axis.set_major_formatter("{x:g}")
    axes.set_title(f"{net}: engines worth having, {demands.bits} bits", loc="left", fontsize=10)
    add_legend(figure, 3)
    save(figure, path)


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
