"""The report for people: rich tables and the lines around them, from the JSON document."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table

from winogen.tables import number, table_of
from winogen_lab.bench import report, tables_own
from winogen_lab.bench.texts import (
    against,
    doubts,
    how,
    kernel_of,
    machine_title,
    milliseconds,
    size_text,
    speed_lines,
    threads_text,
)

_BAR = 0.1  # more preempted calls than this make times doubtful
_SPARE = 0.3  # of a core, which bookkeeping may take beside the threads
_FLOATS = (
    "GFLOP/s of the direct convolution; predicted: x measured over predicted; roof: the time that "
    "the chosen multiplications need at the peak, or weights, inputs and outputs to be moved, over "
    "ours; error: max |y - y64| / max |y64|; ratio: fastest rival's time / ours"
)
_INTEGERS = (
    "GOP/s; predicted: x measured over predicted; roof: the time that the multiplications need at "
    "the peak of their instruction, or weights, inputs and outputs to be moved, over ours; peak: "
    "over the FMA peak of float32; error: max |y - exact| / max |exact| of integers, 8e-03 for one "
    "step; ratio: fastest rival's time / ours"
)
# What the title says in its own place, or the table itself.
_TITLED = {"algorithm", "layout", "dtype", "tile", "rounds", "min_time_s"}


def render(document: dict) -> Group:
    """Return everything there is to show of a run."""
    parts: list[RenderableType] = [*_machine_lines(document), comparison(document)]
    if document["summary"]["beside"]:
        parts.append(tables_own.contestants(document))
    parts += filter(None, [tables_own.over_all_layers(document)])
    if any("profile" in layer for layer in document["layers"]):
        parts.append(profiles(document))
    return Group(*parts, *_closing_lines(document))


def comparison(document: dict) -> Table:
    """Ours beside every rival, one layer per row."""
    names = _timed_peers(document)
    settings, machine = document["settings"], document["machine"]
    forced = settings["algorithm"] if settings["algorithm"] != "auto" else ""
    dtype = settings.get("dtype", "float32")
    asked = [
        f"{key} {value:.2g}" if isinstance(value, float) else f"{key} {value}"
        for key, value in settings.items()
        if key not in _TITLED and value is not None
    ]
    head = " ".join(filter(None, ["winogen", forced, settings["layout"]]))
    title = ", ".join([head, dtype, threads_text(machine), *asked])
    integers = dtype == "int8"
    columns: dict[str, Callable[[dict], str]] = {
        "layer": lambda layer: escape(layer["name"]),
        "algorithm": lambda layer: how(layer) if "median_s" in layer else "[red]failed[/]",
        **{
            title: partial(_if_timed, cell)
            for title, cell in _FACTS.items()
            if integers or title != "peak"
        },
        **{name: partial(_speed, name) for name in names},
        "ratio": _ratio,
    }
    return table_of(
        title, _INTEGERS if integers else _FLOATS, columns, document["layers"], left=2,
        footer=list(_footer(document["summary"], names)),
    )  # fmt: skip


_FACTS: dict[str, Callable[[dict], str]] = {
    "instructions": lambda layer: layer.get("instructions", ""),
    "ms": lambda layer: milliseconds(layer["median_s"]),
    "predicted": lambda layer: against(layer, "time"),
    "winogen": lambda layer: (
        f"[{'bold green' if _ahead(layer) else 'bold'}]{layer['gflops']:.0f}[/]"
    ),
    "roof": lambda layer: number(_of_roof(layer), ".0%"),
    "peak": lambda layer: f"{layer['gflops'] / layer['fma_peak_gflops']:.2f}",
    "error": lambda layer: f"{layer['rel_error']:.0e}",
    "predicted ": lambda layer: against(layer, "error"),
}


def _if_timed(cell: Callable[[dict], str], layer: dict) -> str:
    return cell(layer) if "median_s" in layer else ""


def _ahead(layer: dict) -> bool:
    ratio = report.best_ratio(layer)
    return ratio is None or ratio >= 1


def _speed(name: str, layer: dict) -> str:
    """GFLOP/s of a rival, bold if it is the fastest."""
    row = layer["peers"].get(name, {})
    if "median_s" not in row:
        return "[red]failed[/]"
    gflops = f"{report.flops(layer) / row['median_s'] / 1e9:.0f}"
    return f"[bold]{gflops}[/]" if name == report.fastest_peer(layer) else gflops


def _ratio(layer: dict) -> str:
    ratio = report.best_ratio(layer)
    return "" if ratio is None else f"[{'green' if ratio >= 1 else 'red'}]{ratio:.2f}[/]"


def _of_roof(layer: dict) -> float | None:
    """The least possible time as a share of ours."""
    return layer["roofline_s"] / layer["median_s"] if "roofline_s" in layer else None


def _footer(summary: dict, names: list[str]) -> Iterator[dict[str, str]]:
    peers = {name: summary["peers"][name] for name in names}

    def of_peers(key: str, form: str) -> dict[str, str]:
        return {name: number(peer[key], form) for name, peer in peers.items()}

    yield {
        "layer": "geometric mean",
        "winogen": number(summary["gflops"], ".0f"),
        "roof": number(summary["roofline_share"], ".0%"),
        "peak": number(summary.get("peak_ratio"), ".2f"),
        "ratio": number(summary["ratio"], ".2f"),
        **of_peers("gflops", ".0f"),
    }
    if not names:
        return
    yield {"layer": "their time / ours, mean", **of_peers("ratio", ".2f")}
    worst = number(summary["worst_ratio"], ".2f")
    yield {"layer": "... worst layer", "ratio": worst, **of_peers("worst_ratio", ".2f")}
    error = number(summary["max_rel_error"], ".0e")
    yield {"layer": "largest error", "error": error, **of_peers("max_rel_error", ".0e")}
    counts = {name: f"{peer['as_accurate']}/{peer['layers']}" for name, peer in peers.items()}
    yield {"layer": "layers where ours is no larger", **counts}


def profiles(document: dict) -> Table:
    """Where the time goes."""
    names = ("input transform", "multiply", "output transform", "other")
    return table_of(
        f"stages, {threads_text(document['machine'])}",
        "share of the time; rate of the limit that binds: GFLOP/s (transforms: 2 per instruction "
        "and number) or GB/s",
        {
            "layer": lambda layer: escape(layer["name"]),
            "algorithm": _profiled,
            "ms": _profiled_ms,
            **{name: partial(_stage_of, name) for name in names},
        },
        [layer for layer in document["layers"] if layer.get("profile")],
        left=2,
    )


def _profiled(layer: dict) -> str:
    found = layer["profile"]
    if "error" in found:
        return f"[red]{escape(found['error'])}[/]"
    return how({**found, **kernel_of(layer)})


def _profiled_ms(layer: dict) -> str:
    seconds = layer["profile"].get("seconds")
    return "" if seconds is None else milliseconds(seconds)


def _stage_of(name: str, layer: dict) -> str:
    stage = layer["profile"].get("stages", {}).get(name)
    return _stage(stage) if stage else ""


def _stage(stage: dict) -> str:
    text = f"{stage['share']:.0%}"
    if "rate" not in stage:
        return text
    return f"{text:>4}  {stage['rate']:.0f} of {stage['limit']:.0f} {stage['unit']}"


def _machine_lines(document: dict) -> Iterator[str]:
    machine, peers = document["machine"], document["peers"]
    low, high = machine["fma_peak_gflops_range"]
    yield machine_title(machine)
    by_threads = ", ".join(
        f"{peak:.0f} on {count}" for count, peak in machine["fma_peak_gflops_by_threads"].items()
    )
    yield (
        f"FMA peak on {threads_text(machine)}: {machine['fma_peak_gflops']:.0f} GFLOP/s "
        f"({low:.0f} to {high:.0f} during the run; best before it: {by_threads})"
    )
    yield from speed_lines(machine)
    present = [f"{name} {row['version']}" for name, row in peers.items() if "version" in row]
    absent = [f"{name} ({row['absent']})" for name, row in peers.items() if "absent" in row]
    yield f"rivals: {', '.join(present) or 'none'}" + (
        f"; absent: {', '.join(absent)}" if absent else ""
    )
    yield _yardstick(document["yardstick"])
    yield ""


def _yardstick(found: dict) -> str:
    name = found["layer"]["name"]
    if "mcmr_over_direct" not in found:
        errors = [found[key]["error"] for key in ("direct", "mcmr") if "error" in found[key]]
        return f"[red]yardstick {name}: {escape('; '.join(errors))}[/]"
    return (
        f"yardstick {name}: direct {found['direct_gflops']:.0f} GFLOP/s, "
        f"{found['direct_share_of_peak']:.0%} of the FMA peak; "
        f"mcmr {found['mcmr_over_direct']:.2f} x direct"
    )


def _closing_lines(document: dict) -> Iterator[str]:
    summary = document["summary"]
    if summary["ratio"] is not None:
        yield (
            f"geometric mean of (fastest rival's time / ours): {summary['ratio']:.3f}; worst layer "
            f"{escape(summary['worst_layer'])}: {summary['worst_ratio']:.3f}"
        )
    if summary["max_workspace_bytes"] is not None:
        yield (
            f"largest workspace {size_text(summary['max_workspace_bytes'])}, "
            f"largest error {summary['max_rel_error']:.1e}"
        )
    if (summary["preempted"] or 0) > _BAR:
        yield (
            f"[yellow]other programs took the CPU away in {summary['preempted']:.0%} of the calls: "
            "these times are doubtful[/]"
        )
    yield from doubts(document["layers"])
    yield from _too_many_cores(document)
    for layer in document["layers"]:
        if "error" in layer:
            yield f"[red]{escape(layer['name'])}: winogen: {escape(layer['error'])}[/]"
        ours = {
            name: row
            for name, row in layer.get("beside", {}).items()
            if not tables_own.inapplicable(row)
        }
        for name, row in {**layer["peers"], **ours}.items():
            if "error" in row:
                yield f"[red]{escape(layer['name'])}: {escape(name)}: {escape(row['error'])}[/]"


def _too_many_cores(document: dict) -> Iterator[str]:
    """Name whoever ran on more threads than it was allowed."""
    threads = document["machine"]["threads"]
    for name in ("winogen", *_timed_peers(document)):
        rows = [
            row if name == "winogen" else row["peers"].get(name, {}) for row in document["layers"]
        ]
        cores = max((row["cores"] for row in rows if "cores" in row), default=0)
        if cores > threads + _SPARE:
            yield f"[yellow]{name} kept {cores:.1f} cores busy, {threads} allowed[/]"


def _timed_peers(document: dict) -> list[str]:
    return [name for name, row in document["peers"].items() if "absent" not in row]
