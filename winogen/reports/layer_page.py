"""The page on one layer: its words, pictures and tables, from the document."""

from __future__ import annotations

from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

from winogen.charts import COLORS, GREY, INK, PAPER, few_ticks
from winogen.reports.catalog_page import dots, histogram
from winogen.reports.own import cost
from winogen.reports.page import Section

_KINDS = ("direct", "im2col", "mcmr", "winograd1d", "winograd2d")
_MARKERS = dict(zip(_KINDS, "sDo^v"))
# Arguments of `Conv2d` that need no mention, as JSON has them.
_DEFAULTS = {"stride": [1, 1], "padding": [[0, 0], [0, 0]], "dilation": [1, 1], "groups": 1}


def page(document: dict) -> tuple[str, list[Section]]:
    """Return the title and the sections."""
    rows, layer = document["rows"], document["layer"]
    sections = [
        Section("", [_shapes(document)]),
        Section("What to use", _advice(document)),
        Section(
            "Errors",
            ["‖error‖ / ‖output‖ as measured, and as predicted from the input."],
            partial(ways, rows=rows),
            [_row(row) for row in rows],
            1.6 + 0.23 * len(rows),
        ),
        Section("", [f"{item['algorithm']} needs {item['why']}." for item in document["refused"]]),
    ]
    if any(row["relative_max"] for row in rows):  # else exact, as with weights that are all 0
        text = "Error against time; filled marks are beaten by nothing in both respects."
        floats = [row for row in rows if row["numbers"] == "float32"]
        sections.append(
            Section("Time", [text], partial(tradeoff, rows=floats, document=document, by=_kind))
        )
        if document["narrow"]:
            paint = partial(tradeoff, rows=rows, document=document, by=_numbers)
            sections.append(Section("Number formats", [text], paint))
        text = "Share of outputs by the size of their error, over the root mean square output."
        sections.append(Section("Distribution", [text], partial(histogram, document=document)))
    data = [{"": name, **facts} for name, facts in document["data"].items()]
    sections.append(Section("The data", rows=data))
    return f"How accurate each algorithm is on {layer['name']}", sections


def _shapes(document: dict) -> str:
    shapes = [
        f"{name} {'×'.join(map(str, document['layer'][key]))}"
        for key, name in (("input", "Input"), ("weight", "weights"), ("output", "output"))
    ]
    narrow = " and narrower" if document["narrow"] else ""
    return (
        f"{', '.join(shapes)}. Every algorithm that applies, on these weights and this input, "
        f"float32{narrow}, against direct convolution in float64."
    )


def _advice(document: dict) -> list[str]:
    rows, best = document["rows"], document["recommended"]
    within = best["within_tolerance"]
    tolerance = f"{document['tolerance']:.2e}"
    accurate = rows[best["most_accurate"]]
    fast = "as measured here" if document["timed"] else "in the planner's model of the machine"
    chosen = (
        f"Nothing keeps max |error| / max |output| within {tolerance}."
        if within is None
        else f"The fastest within {tolerance}: {_call(document['layer'], rows[within])}"
    )
    direct = rows[best["as_accurate_as_direct"]]
    return [
        chosen,
        f"The fastest that is as accurate as direct: {_call(document['layer'], direct)}",
        f"The most accurate: {_call(document['layer'], accurate)}",
        f"Fast means {fast}.",
    ]


def _call(layer: dict, row: dict) -> str:
    """What computes a row, as one would type it."""
    given = {key: layer[key] for key, usual in _DEFAULTS.items() if layer[key] != usual}
    asked = {key: value for key, value in row["asked"].items() if value != "auto"}
    options = "".join(f", {key}={python_text(value)}" for key, value in {**given, **asked}.items())
    return f"Conv2d(weights{options}), {row['label']}, {row['relative_max']:.2e}"


def python_text(value: Any) -> str:
    """A value of JSON as one would type it: pairs as tuples, twice the same number once.

    >>> python_text([[1, 1], [1, 1]]), python_text([1, 2]), python_text("mcmr")
    ('1', '(1, 2)', "'mcmr'")
    """
    if isinstance(value, list):
        texts = [python_text(item) for item in value]
        if len(texts) == 2 and texts[0] == texts[1]:
            return texts[0]
        return f"({', '.join(texts)})"
    return repr(value)


def _row(row: dict) -> dict[str, Any]:
    points = [one or other for one, other in zip_longest(row["points"], row["moduli"])]
    return {
        "algorithm": row["label"],
        "max / max": row["relative_max"],
        "relative L2": row["relative_l2"],
        "median ulps": row["ulp_median"],
        "max": row["maximum"],
        "mean": row["mean"],
        "planner expects": row["planned_relative_max"],
        "predicted L2": row["predicted_relative_l2"],
        "bound of max": row["bound"],
        "fewer products": row["direct_multiplications"] / row["multiplications"],
        "filters, bytes": row["packed_weight_bytes"],
        "workspace, bytes": row["workspace_bytes"],
        "predicted ms": row["predicted_ms"],
        **({"measured ms": row["measured_ms"]} if "measured_ms" in row else {}),
        "points or moduli": points,
    }


def ways(axes: Axes, rows: list[dict]) -> None:
    """Measured and predicted error, one row per way."""
    axes.set_xscale("log")
    series = {
        "measured": [row["relative_l2"] or None for row in rows],  # no place for an error of 0
        "predicted": [row["predicted_relative_l2"] or None for row in rows],
    }
    dots(axes, [row["label"] for row in rows], series, "‖error‖ / ‖output‖")
    few_ticks(axes.xaxis)


def _kind(row: dict) -> str:
    return str(row["algorithm"])


def _numbers(row: dict) -> str:
    return str(row["numbers"])


def tradeoff(axes: Axes, rows: list[dict], document: dict, by: Any) -> None:
    """Error against time, a color for each of what ``by`` tells; what nothing beats is named."""
    rows = [row for row in rows if row["relative_max"] and row["algorithm"] in _KINDS]
    colors = dict(zip(dict.fromkeys(map(by, rows)), (INK, *COLORS * 4)))
    named: dict[tuple[float, float], str] = {}
    for row in rows:
        place, color = (cost(row), row["relative_max"]), colors[by(row)]
        axes.plot(
            *place, linestyle="none", marker=_MARKERS[row["algorithm"]], color=color,
            markerfacecolor=color if row["pareto"] else PAPER,
        )  # fmt: skip
        if row["pareto"]:  # "auto" is there once more under its own name
            named.setdefault(place, row["label"])
    for place, name in named.items():
        axes.annotate(name, place, (5, 4), textcoords="offset points", fontsize=8)
    for name, color in colors.items():
        marker = _MARKERS.get(name, "o")
        axes.plot([], [], linestyle="none", marker=marker, color=color, label=name)
    axes.axhline(document["tolerance"], color=GREY, linewidth=1, linestyle="--", label="tolerance")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.margins(x=0.15, y=0.12)
    few_ticks(axes.xaxis)
    few_ticks(axes.yaxis)
    axes.set_xlabel("measured ms" if document["timed"] else "ms in the planner's model")
    axes.set_ylabel("max |error| / max |output|")
