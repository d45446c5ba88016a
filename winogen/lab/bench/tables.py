"""The report for people: rich tables and the lines around them, from the JSON document."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table

from winogen.lab.bench import report, tables_own
from winogen.lab.bench.texts import (
    against,
    doubts,
    how,
    machine_title,
    milliseconds,
    number,
    plain_table,
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
    "GOP/s; peak: over the FMA peak of float32; error: max |y - exact| / max |exact| of integers, "
    "8e-03 for one step; ratio: fastest rival's time / ours"
)
_ALWAYS = ("ms", "winogen", "roof", "peak", "error")
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
    table = plain_table(title, _INTEGERS if integers else _FLOATS)
    table.add_column("layer", no_wrap=True)
    table.add_column("algorithm", no_wrap=True)
    facts = _facts(document)
    for name in (*facts, *names):
        table.add_column(name.strip(), justify="right", no_wrap=name == "instructions")
    if names:
        table.add_column("ratio", justify="right")
    for layer in document["layers"]:
        table.add_row(*_comparison_row(layer, facts, names))
    table.add_section()
    for row in _comparison_footer(document, list(facts), names):
        table.add_row(*row, style="bold")
    return table


_FACTS: dict[str, Callable[[dict], str]] = {
    "instructions": lambda layer: layer.get("instructions", ""),
    "ms": lambda layer: milliseconds(layer["median_s"]),
    "predicted": lambda layer: against(layer, "time"),
    "winogen": lambda layer: f"{layer['gflops']:.0f}",
    "roof": lambda layer: number(_of_roof(layer), ".0%"),
    "peak": lambda layer: f"{layer['gflops'] / layer['fma_peak_gflops']:.2f}",
    "error": lambda layer: f"{layer['rel_error']:.0e}",
    "predicted ": lambda layer: against(layer, "error"),
}


def _facts(document: dict) -> dict[str, Callable[[dict], str]]:
    """Columns of ours: those that have something to say."""
    timed = [layer for layer in document["layers"] if "median_s" in layer]
    integers = document["settings"].get("dtype") == "int8"
    left_out = "roof" if integers else "peak"
    return {
        title: cell
        for title, cell in _FACTS.items()
        if title != left_out and (title in _ALWAYS or any(map(cell, timed)))
    }


def _comparison_row(
    layer: dict, facts: dict[str, Callable[[dict], str]], names: list[str]
) -> Iterator[str]:
    fastest = report.fastest_peer(layer)
    yield escape(layer["name"])
    if "median_s" in layer:
        ratio = report.best_ratio(layer)
        ahead = ratio is None or ratio >= 1
        yield how(layer)
        for title, cell in facts.items():
            style = "bold green" if ahead else "bold"
            yield f"[{style}]{cell(layer)}[/]" if title == "winogen" else cell(layer)
    else:
        ratio, ahead = None, False
        yield from ("[red]failed[/]", *([""] * len(facts)))
    for name in names:
        row = layer["peers"].get(name, {})
        if "median_s" not in row:
            yield "[red]failed[/]"
            continue
        gflops = f"{report.flops(layer) / row['median_s'] / 1e9:.0f}"
        yield f"[bold]{gflops}[/]" if name == fastest else gflops
    if names:
        yield "" if ratio is None else f"[{'green' if ahead else 'red'}]{ratio:.2f}[/]"


def _of_roof(layer: dict) -> float | None:
    """The least possible time as a share of ours."""
    return layer["roofline_s"] / layer["median_s"] if "roofline_s" in layer else None


def _comparison_footer(document: dict, facts: list[str], names: list[str]) -> Iterator[list[str]]:
    summary = document["summary"]
    peers = [summary["peers"][name] for name in names]

    def row(title: str, cells: dict[str, str], others: list[str], last: str = "") -> list[str]:
        ours = [cells.get(fact, "") for fact in facts]
        return [title, "", *ours, *others, *([last] if names else [])]

    means = {
        "winogen": number(summary["gflops"], ".0f"),
        "roof": number(summary["roofline_share"], ".0%"),
        "peak": number(summary.get("peak_ratio"), ".2f"),
    }
    speeds = [number(peer["gflops"], ".0f") for peer in peers]
    yield row("geometric mean", means, speeds, number(summary["ratio"], ".2f"))
    if not names:
        return
    for title, key in (("their time / ours, mean", "ratio"), ("... worst layer", "worst_ratio")):
        cells = [number(peer[key], ".2f") for peer in peers]
        yield row(title, {}, cells, "" if key == "ratio" else number(summary[key], ".2f"))
    errors = [number(peer["max_rel_error"], ".0e") for peer in peers]
    yield row("largest error", {"error": number(summary["max_rel_error"], ".0e")}, errors)
    counts = [f"{p['as_accurate']}/{p['layers']}" for p in peers]
    yield row("layers where ours is no larger", {}, counts)


def profiles(document: dict) -> Table:
    """Where the time goes."""
    table = plain_table(
        f"stages, {threads_text(document['machine'])}",
        "share of the time; rate of the limit that binds: GFLOP/s (transforms: 2 per instruction "
        "and number) or GB/s",
    )
    table.add_column("layer", no_wrap=True)
    table.add_column("algorithm", no_wrap=True)
    table.add_column("ms", justify="right")
    for name in ("input transform", "multiply", "output transform", "other"):
        table.add_column(name, justify="right", no_wrap=True)
    for layer in document["layers"]:
        found = layer.get("profile")
        if not found:
            continue
        if "error" in found:
            table.add_row(escape(layer["name"]), f"[red]{escape(found['error'])}[/]")
            continue
        stages = [_stage(stage) for stage in found["stages"].values()]
        kernel = {"algorithm": found["algorithm"], "tile": found["tile"], "weight": layer["weight"]}
        table.add_row(escape(layer["name"]), how(kernel), milliseconds(found["seconds"]), *stages)
    return table


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
