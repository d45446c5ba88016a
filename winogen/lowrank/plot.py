"""What a compressed model loses against what it takes, over budgets, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from winogen.charts import COLORS, INK, OURS, add_legend, new_figure, save


class PlotPoint(NamedTuple):
    """One compressed model."""

    budget: str
    seconds: float  # predicted, of its convolutions
    psnr: float  # on the inputs held out, in dB


def save_plot(
    points: Sequence[PlotPoint], exact: float, asked: PlotPoint, path: str | Path
) -> None:
    """Draw PSNR against the predicted time of the convolutions, and the time by ``exact``
    algorithms as a line; the model that was ``asked`` for stands out. The suffix of ``path`` is the
    format.
    """
    figure, axes = new_figure(7.0, 4.8)
    ordered = sorted({*points, asked}, key=lambda one: one.seconds)
    times, found = [1e3 * one.seconds for one in ordered], [one.psnr for one in ordered]
    axes.plot(times, found, color=COLORS[0], marker="o", label="columns and rows of taps")
    for one in ordered:
        axes.annotate(one.budget, (1e3 * one.seconds, one.psnr), xytext=(5, -11), fontsize=8,
                      textcoords="offset points", color=INK)  # fmt: skip
    axes.plot(1e3 * asked.seconds, asked.psnr, color=OURS[0], marker="o", linestyle="",
              markersize=9, label="written")  # fmt: skip
    axes.axvline(1e3 * exact, color=INK, linestyle="--", label="as it was: no loss")
    axes.set_xlabel("predicted time of the convolutions, ms")
    axes.set_ylabel("PSNR on the inputs held out, dB")
    add_legend(figure, 3)
    save(figure, path)
