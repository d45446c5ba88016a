"""Tables of our own contestants: what each needs on every layer, and how good predictions were."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rich.markup import escape
from rich.table import Table

from winogen.tables import number, table_of
from winogen_lab.bench import report
from winogen_lab.bench.own import MAIN
from winogen_lab.bench.texts import against, how, kernel_of, milliseconds

_CAPTION = (
    "GFLOP/s of the direct convolution; peak: these over the FMA peak of float32, of the same "
    "instruction set; ratio: time / that of the first; predicted, and what was measured of it; "
    "inexact: share of the outputs; packed: bytes of packed weights; -: does not apply"
)
_SUMMARY_CAPTION = (
    "geometric means; ratio: time / that of the first; error / predicted, time / predicted: "
    "measured over predicted; packed: bytes of packed weights / those of the first"
)
# Of a layer and a contestant's row. Each is shown if some row has something to say there.
_CELLS: dict[str, Callable[[dict, dict], str]] = {
    "instructions": lambda layer, row: row.get("instructions", ""),
    "ms": lambda layer, row: milliseconds(row["median_s"]),
    "predicted": lambda layer, row: against(row, "time"),
    "GFLOP/s": lambda layer, row: f"{_gflops(layer, row):.0f}",
    "peak": lambda layer, row: f"{report.over_peak(layer, row):.2f}",
    "ratio": lambda layer, row: (
        f"{report.over_main(layer, row):.2f}" if "median_s" in layer else ""
    ),
    "error": lambda layer, row: f"{row['rel_error']:.0e}",
    "inexact": lambda layer, row: number(row.get("inexact"), ".2%"),
    "predicted ": lambda layer, row: against(row, "error"),
    "packed": lambda layer, row: number(row.get("packed_weight_bytes"), ",d"),
}


def contestants(document: dict) -> Table:
    """All of ours with each other: a row for each layer and contestant."""
    integers = document["settings"].get("dtype") == "int8"
    rows = [
        (layer, name, row)
        for layer in document["layers"]
        for name, row in {MAIN: layer, **layer.get("beside", {})}.items()
    ]
    return table_of(
        "winogen beside itself",
        _CAPTION,
        {
            "layer": lambda one: escape(one[0]["name"]) if one[1] == MAIN else "",
            "": lambda one: escape(one[1]),
            "algorithm": lambda one: _algorithm({**one[2], **kernel_of(one[0])}),
            **{
                title: partial(_if_timed, cell)
                for title, cell in _CELLS.items()
                if integers or title != "peak"
            },
        },
        rows,
        left=3,
        bold=lambda one: one[1] == MAIN,
    )


def _if_timed(cell: Callable[[dict, dict], str], one: tuple[dict, str, dict]) -> str:
    layer, _, row = one
    return cell(layer, row) if "median_s" in row else ""


def over_all_layers(document: dict) -> Table | None:
    """A row for each of ours: means and extremes; None where there is nothing to compare."""
    summary = document["summary"]
    predicted = ("error_over_predicted", "time_over_predicted")
    if not summary["beside"] and all(summary[what]["mean"] is None for what in predicted):
        return None
    # The ratio of the main one is that to rivals, and has its place elsewhere.
    rows = {MAIN: {**summary, "ratio": None}, **summary["beside"]}
    integers = document["settings"].get("dtype") == "int8"
    columns: dict[str, Callable[[tuple[str, dict]], str]] = {"": lambda one: escape(one[0])}
    for title, cell in _SUMMARIES.items():
        if integers or title != "peak":
            columns[title] = partial(lambda cell, one: cell(one[1]), cell)
    return table_of("winogen over all layers", _SUMMARY_CAPTION, columns, rows.items())


def _ratios(row: dict) -> str:
    if row["ratio"] is None:
        return ""
    least, most = row["worst_ratio"], row["best_ratio"]
    if row["layers"] == 1:
        return f"{least:.2f}"
    return f"{row['ratio']:.2f}; {least:.2f} ({escape(row['worst_layer'])}) to {most:.2f}"


def _spread(found: dict) -> str:
    """The mean of some shares, their extremes, and where they are farthest from 1."""
    if found["mean"] is None:
        return ""
    if found["least"] == found["most"]:
        return f"{found['mean']:.2f}"
    return (
        f"{found['mean']:.2f}; {found['least']:.2f} to {found['most']:.2f}, worst "
        f"{escape(found['worst_layer'])}"
    )


_SUMMARIES: dict[str, Callable[[dict], str]] = {
    "ratio": _ratios,
    "peak": lambda row: number(row["peak_ratio"], ".2f"),
    "largest error": lambda row: number(row["max_rel_error"], ".1e"),
    "error / predicted": lambda row: _spread(row["error_over_predicted"]),
    "time / predicted": lambda row: _spread(row["time_over_predicted"]),
    "packed": lambda row: number(row.get("packed_ratio"), ".2f"),
}


def _gflops(layer: dict, row: dict) -> float:
    return report.flops(layer) / float(row["median_s"]) / 1e9


def _algorithm(row: dict) -> str:
    if "median_s" in row:
        return how(row)
    return "-" if inapplicable(row) else "[red]failed[/]"


def inapplicable(row: dict) -> bool:
    """Whether one of ours was refused because it does not apply to the layer: no failure."""
    return str(row.get("error", "")).startswith("Unsupported")
