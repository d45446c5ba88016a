"""The pictures of the report on one layer, drawn from its document."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from winogen.numerics.report.charts import Sheet

from winogen.numerics.report.catalog_pictures import shares
from winogen.numerics.report.charts import COLORS, GREY, INK, PAPER, draw, few_ticks
from winogen.numerics.report.labels import label

_KINDS = ("direct", "im2col", "mcmr", "winograd1d", "winograd2d")
_MARKERS = dict(zip(_KINDS, "sDo^v"))
_COLORS = {"direct": INK, "im2col": GREY, **dict(zip(_KINDS[2:], COLORS))}


def pictures(document: dict) -> dict[str, dict[str, str]]:
    """Return name -> {"wide": svg, "narrow": svg}."""
    wanted = {
        "ways": (ways, 0.4 + 0.05 * len(document["rows"])),
        "tradeoff": (tradeoff, 1.05),
        "histogram": (histogram, 0.9),
    }
    if not any(row["relative_max"] for row in document["rows"]):
        wanted = {"ways": wanted["ways"]}  # exact, as with weights that are all 0
    return {
        name: draw(partial(paint, document=document), name, height=height)
        for name, (paint, height) in wanted.items()
    }


def ways(sheet: Sheet, document: dict) -> None:
    """Measured and predicted error, one row per way."""
    (axes,) = sheet.axes()
    rows = document["rows"][::-1]
    # An error of 0 has no place on a logarithmic axis.
    measured = [(row["relative_l2"], k) for k, row in enumerate(rows) if row["relative_l2"]]
    expected = [(row["predicted_relative_l2"], k) for k, row in enumerate(rows)]
    axes.plot(*zip(*expected), linestyle="none", marker="|", markersize=10, markeredgewidth=1.6,
              color=GREY, label="predicted")  # fmt: skip
    if measured:
        axes.plot(*zip(*measured), linestyle="none", marker="o", color=COLORS[0], label="measured")
    axes.set_xscale("log")
    sheet.name_rows(axes, [row["label"] for row in rows])
    few_ticks(axes.xaxis)
    axes.set_xlabel("‖error‖ / ‖output‖")
    sheet.legend()


def tradeoff(sheet: Sheet, document: dict) -> None:
    """Error against the predicted time; what nothing beats is filled and labelled."""
    (axes,) = sheet.axes()
    axes.set_xscale("log")
    axes.set_yscale("log")
    rows = [row for row in document["rows"] if row["relative_max"]]
    for kind in _KINDS:
        for best in (True, False):
            part = [row for row in rows if row["algorithm"] == kind and row["pareto"] is best]
            if part:
                axes.plot(
                    [row["predicted_ms"] for row in part],
                    [row["relative_max"] for row in part],
                    linestyle="none",
                    marker=_MARKERS[kind],
                    color=_COLORS[kind],
                    markerfacecolor=_COLORS[kind] if best else PAPER,
                )
        if any(row["algorithm"] == kind for row in rows):
            axes.plot(
                [], [], linestyle="none", marker=_MARKERS[kind], color=_COLORS[kind], label=kind
            )
    axes.axhline(document["tolerance"], color=GREY, linewidth=1, linestyle="--", label="tolerance")
    axes.margins(x=0.15, y=0.12)
    few_ticks(axes.xaxis)
    few_ticks(axes.yaxis)
    axes.set_xlabel("predicted time in ms (the planner's model)")
    axes.set_ylabel("max |error| / max |output|")
    sheet.legend()
    named: dict[tuple[float, float], str] = {}
    for row in rows:
        if row["pareto"]:  # "auto" is there once more under its own name
            named.setdefault((row["predicted_ms"], row["relative_max"]), row["label"])
    places = [(row["predicted_ms"], row["relative_max"]) for row in rows]
    label(axes, [(*place, text) for place, text in named.items()], places)


def histogram(sheet: Sheet, document: dict) -> None:
    """Shares of errors per logarithmic bin."""
    shares(sheet, document["histogram"], {})
