"""Tables of our own contestants: what each needs on every layer, and how good predictions were."""

from __future__ import annotations

from collections.abc import Callable

from rich.markup import escape
from rich.table import Table

from winogen.lab.bench import report
from winogen.lab.bench.own import MAIN
from winogen.lab.bench.texts import against, how, milliseconds, number, plain_table

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
    columns = {
        title: [cell(layer, row) if "median_s" in row else "" for layer, _, row in rows]
        for title, cell in _CELLS.items()
        if integers or title != "peak"
    }
    shown = {title: cells for title, cells in columns.items() if any(cells)}
    table = plain_table("winogen beside itself", _CAPTION)
    for title in ("layer", "", "algorithm"):
        table.add_column(title, no_wrap=bool(title))
    for title in shown:
        table.add_column(title.strip(), justify="right", no_wrap=True)
    for number_, (layer, name, row) in enumerate(rows):
        first = name == MAIN
        table.add_row(
            escape(layer["name"]) if first else "",
            escape(name),
            _algorithm({**row, "weight": layer["weight"]}),
            *(cells[number_] for cells in shown.values()),
            style="bold" if first else None,
        )
    return table


def over_all_layers(document: dict) -> Table | None:
    """A row for each of ours: means and extremes; None where there is nothing to compare."""
    summary = document["summary"]
    # The ratio of the main one is that to rivals, and has its place elsewhere.
    rows = {MAIN: {**summary, "ratio": None}, **summary["beside"]}
    columns = {title: [cell(row) for row in rows.values()] for title, cell in _SUMMARIES.items()}
    integers = document["settings"].get("dtype") == "int8"
    shown = {
        title: cells
        for title, cells in columns.items()
        if any(cells) and (integers or title != "peak")
    }
    if len(rows) == 1 and "error / predicted" not in shown:
        return None
    table = plain_table("winogen over all layers", _SUMMARY_CAPTION)
    table.add_column("", no_wrap=True)
    for title in shown:
        table.add_column(title)
    for number_, name in enumerate(rows):
        table.add_row(escape(name), *(cells[number_] for cells in shown.values()))
    return table


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
