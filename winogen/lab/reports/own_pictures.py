"""The pictures of the report on one layer, drawn from its document."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from winogen.lab.reports.charts import Sheet

from winogen.lab.reports.catalog_pictures import shares
from winogen.lab.reports.charts import COLORS, GREY, INK, PAPER, draw, few_ticks
from winogen.lab.reports.labels import label
from winogen.lab.reports.own import cost

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
    if document["narrow"]:
        wanted["numbers"] = (numbers, 1.2)
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
    rows = _with_errors(document, lambda row: row["numbers"] == "float32")
    for kind in _KINDS:
        for best in (True, False):
            part = [row for row in rows if row["algorithm"] == kind and row["pareto"] is best]
            if part:
                axes.plot(
                    [cost(row) for row in part],
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
    _frame(sheet, axes, document)
    _name_the_best(axes, rows)


def numbers(sheet: Sheet, document: dict) -> None:
    """The same for all number formats, one colour each; what nothing beats is joined by a line."""
    (axes,) = sheet.axes()
    axes.set_xscale("log")
    axes.set_yscale("log")
    rows = _with_errors(document, lambda row: row["algorithm"] in _KINDS)
    names = list(dict.fromkeys(row["numbers"] for row in rows))
    colors = dict(zip(names, (INK, *COLORS)))
    for name in names:
        for row in rows:
            if row["numbers"] == name:
                axes.plot(
                    cost(row),
                    row["relative_max"],
                    linestyle="none",
                    marker=_MARKERS[row["algorithm"]],
                    color=colors[name],
                    markerfacecolor=colors[name] if row["pareto"] else PAPER,
                )
        axes.plot([], [], linestyle="none", marker="o", color=colors[name], label=name)
    best = sorted((cost(row), row["relative_max"]) for row in rows if row["pareto"])
    axes.plot(*zip(*best), color=GREY, linewidth=0.8, drawstyle="steps-post", zorder=0)
    _frame(sheet, axes, document)
    _name_the_best(axes, rows)


def _with_errors(document: dict, chosen: Callable[[dict], bool]) -> list[dict]:
    """Rows that have a place on a logarithmic axis."""
    return [row for row in document["rows"] if row["relative_max"] and chosen(row)]


def _frame(sheet: Sheet, axes: Axes, document: dict) -> None:
    axes.axhline(document["tolerance"], color=GREY, linewidth=1, linestyle="--", label="tolerance")
    axes.margins(x=0.15, y=0.12)
    few_ticks(axes.xaxis)
    few_ticks(axes.yaxis)
    timed = document["timed"]
    axes.set_xlabel("measured ms" if timed else "predicted time in ms (the planner's model)")
    axes.set_ylabel("max |error| / max |output|")
    sheet.legend()


def _name_the_best(axes: Axes, rows: list[dict]) -> None:
    named: dict[tuple[float, float], str] = {}
    for row in rows:
        if row["pareto"]:  # "auto" is there once more under its own name
            named.setdefault((cost(row), row["relative_max"]), row["label"])
    places = [(cost(row), row["relative_max"]) for row in rows]
    label(axes, [(*place, text) for place, text in named.items()], places)


def histogram(sheet: Sheet, document: dict) -> None:
    """Shares of errors per logarithmic bin."""
    shares(sheet, document["histogram"], {})
