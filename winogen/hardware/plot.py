"""Engines worth having as a picture: time against multipliers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from winogen.charts import COLORS, INK, MARKERS, add_legend, few_ticks, new_figure, save

if TYPE_CHECKING:
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
