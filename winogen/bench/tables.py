"""The report for people: rich tables and the lines around them, from the JSON document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table

from winogen.bench import report

_BAR = 0.1  # more preempted calls than this make times doubtful
_SPARE = 0.3  # of a core, which bookkeeping may take beside the threads
_CAPTIONS = {
    "float32": "GFLOP/s of the direct convolution; roof: the time that the chosen multiplications "
    "need at the FMA peak, or weights, inputs and outputs to be moved, over ours; error: "
    "max |y - y64| / max |y64|; ratio: fastest rival's time / ours",
    "int8": "GOP/s; peak: over the FMA peak of float32; error: max |y - exact| / max |exact| of "
    "integers, 8e-03 for one step; ratio: fastest rival's time / ours",
}


def render(document: dict) -> Group:
    """Return everything there is to show of a run."""
    parts: list[RenderableType] = [*_machine_lines(document), comparison(document)]
    if any("algorithms" in layer for layer in document["layers"]):
        parts.append(algorithms(document))
    if any("profile" in layer for layer in document["layers"]):
        parts.append(profiles(document))
    return Group(*parts, *_closing_lines(document))


def comparison(document: dict) -> Table:
    """Ours beside every rival, one layer per row."""
    names = _timed_peers(document)
    settings, machine = document["settings"], document["machine"]
    forced = settings["algorithm"] if settings["algorithm"] != "auto" else ""
    within = f", tolerance {settings['tolerance']:.2g}" if settings.get("tolerance") else ""
    dtype = settings.get("dtype", "float32")
    title = f"winogen {forced} {settings['layout']}, {dtype}, {threads_text(machine)}{within}"
    table = plain_table(title.replace("  ", " "), _CAPTIONS[dtype])
    table.add_column("layer", no_wrap=True)
    table.add_column("algorithm", no_wrap=True)
    for name in ("ms", "winogen", "roof" if dtype == "float32" else "peak", "error", *names):
        table.add_column(name, justify="right")
    if names:
        table.add_column("ratio", justify="right")
    for layer in document["layers"]:
        table.add_row(*_comparison_row(layer, names))
    table.add_section()
    for row in _comparison_footer(document, names):
        table.add_row(*row, style="bold")
    return table


def _comparison_row(layer: dict, names: list[str]) -> Iterator[str]:
    fastest = report.fastest_peer(layer)
    yield escape(layer["name"])
    if "median_s" in layer:
        ratio = report.best_ratio(layer)
        ahead = ratio is None or ratio >= 1
        yield how(layer)
        yield _milliseconds(layer["median_s"])
        yield f"[{'bold green' if ahead else 'bold'}]{layer['gflops']:.0f}[/]"
        yield _share(layer)
        yield f"{layer['rel_error']:.0e}"
    else:
        ratio, ahead = None, False
        yield from ("[red]failed[/]", "", "", "", "")
    for name in names:
        row = layer["peers"].get(name, {})
        if "median_s" not in row:
            yield "[red]failed[/]"
            continue
        gflops = f"{report.flops(layer) / row['median_s'] / 1e9:.0f}"
        yield f"[bold]{gflops}[/]" if name == fastest else gflops
    if names:
        yield "" if ratio is None else f"[{'green' if ahead else 'red'}]{ratio:.2f}[/]"


def _share(layer: dict) -> str:
    """Our time as a share of the roof, or our speed as a multiple of the FMA peak."""
    if "roofline_s" in layer:
        return f"{layer['roofline_s'] / layer['median_s']:.0%}"
    return f"{layer['gflops'] / layer['fma_peak_gflops']:.2f}"


def _comparison_footer(document: dict, names: list[str]) -> Iterator[list[str]]:
    summary = document["summary"]
    peers = [summary["peers"][name] for name in names]
    ours, share = summary["gflops"], number(summary["roofline_share"], ".0%")
    if not share:
        share = number(summary.get("peak_ratio"), ".2f")
    yield [
        "geometric mean", "", "", number(ours, ".0f"), share, "",
        *(number(peer["gflops"], ".0f") for peer in peers),
        *([number(summary["ratio"], ".2f")] if names else []),
    ]  # fmt: skip
    if not names:
        return
    for title, key in (("their time / ours, mean", "ratio"), ("... worst layer", "worst_ratio")):
        cells = [number(peer[key], ".2f") for peer in peers]
        last = "" if key == "ratio" else number(summary["worst_ratio"], ".2f")
        yield [title, "", "", "", "", "", *cells, last]
    errors = [number(peer["max_rel_error"], ".0e") for peer in peers]
    yield ["largest error", "", "", "", "", number(summary["max_rel_error"], ".0e"), *errors, ""]
    # Documents of earlier versions lack it.
    counts = [f"{p['as_accurate']}/{p['layers']}" if "as_accurate" in p else "" for p in peers]
    yield ["layers where ours is no larger", "", "", "", "", "", *counts, ""]


def algorithms(document: dict) -> Table:
    """All of our algorithms with each other: GFLOP/s and tile."""
    table = plain_table(
        "winogen's algorithms", "GFLOP/s of the direct convolution, and the tile; -: does not apply"
    )
    names = next(list(row["algorithms"]) for row in document["layers"] if "algorithms" in row)
    table.add_column("layer", no_wrap=True)
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    speeds: dict[str, list[float]] = {name: [] for name in names}
    for layer in document["layers"]:
        rows = layer.get("algorithms", {})
        timed = {name: row["median_s"] for name, row in rows.items() if "median_s" in row}
        cells = []
        for name in names:
            if name not in timed:
                cells.append("-")
                continue
            speed = report.flops(layer) / timed[name] / 1e9
            speeds[name].append(speed)
            tile = f" [dim]{_tile(rows[name]['tile'], rows[name]['algorithm']):>5}[/]"
            text = f"{speed:.0f}{tile if rows[name]['tile'] else ''}"
            cells.append(f"[bold]{text}[/]" if timed[name] == min(timed.values()) else text)
        table.add_row(escape(layer["name"]), *cells)
    table.add_section()
    means = [number(report.geometric_mean(speeds[name]), ".0f") for name in names]
    table.add_row("geometric mean, where it applies", *means, style="bold")
    return table


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
        table.add_row(escape(layer["name"]), how(kernel), _milliseconds(found["seconds"]), *stages)
    return table


def _stage(stage: dict) -> str:
    text = f"{stage['share']:.0%}"
    if "rate" not in stage:
        return text
    return f"{text:>4}  {stage['rate']:.0f} of {stage['limit']:.0f} {stage['unit']}"


def machine_title(machine: dict) -> str:
    """Return the line about CPU, cores and compiler."""
    return (
        f"{escape(machine['cpu'])}, {machine['cores']} cores, kernels for {machine['isa']} by "
        f"{escape(str(machine['compiler']))}"
    )


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


def speed_lines(machine: dict) -> Iterator[str]:
    """The speeds of reading and writing, by level; documents of earlier versions lack the latter.

    ``machine``: as in the JSON document.
    """
    for title, key in (("reading", "read_gbytes_per_s"), ("writing", "write_gbytes_per_s")):
        if key in machine:
            levels = ", ".join(
                f"{level} {row['gbytes_per_s']:.0f} ({size_text(row['bytes'])})"
                for level, row in machine[key].items()
            )
            yield f"{title}, GB/s: {levels}"


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
    yield from _too_many_cores(document)
    for layer in document["layers"]:
        if "error" in layer:
            yield f"[red]{escape(layer['name'])}: winogen: {escape(layer['error'])}[/]"
        for name, row in layer["peers"].items():
            if "error" in row:
                yield f"[red]{escape(layer['name'])}: {name}: {escape(row['error'])}[/]"


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


def how(row: dict) -> str:
    """Return an algorithm and its F(m, r) as short text.

    >>> how({"algorithm": "mcmr", "tile": [4, 6], "weight": [8, 8, 3, 3]})
    'mcmr F(4x6,3x3)'
    """
    if row["tile"] is None:
        return row["algorithm"]
    taps = row["weight"][2:]
    kernel = str(taps[1]) if row["algorithm"] == "winograd1d" else f"{taps[0]}x{taps[1]}"
    return f"{row['algorithm']} F({_tile(row['tile'], row['algorithm'])},{kernel})"


def _tile(tile: Sequence[int] | None, algorithm: str) -> str:
    if tile is None:
        return ""
    return str(tile[1]) if algorithm == "winograd1d" else f"{tile[0]}x{tile[1]}"


def _timed_peers(document: dict) -> list[str]:
    return [name for name, row in document["peers"].items() if "absent" not in row]


def plain_table(title: str, caption: str) -> Table:
    """Return an empty table without lines between its columns."""
    return Table(
        title=title, caption=caption, title_justify="left", caption_justify="left",
        title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0),
    )  # fmt: skip


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g}" if seconds < 1 else f"{seconds * 1e3:.0f}"


def number(value: float | None, form: str) -> str:
    """Return a number as text, "" for None."""
    return "" if value is None else format(value, form)


def size_text(size: float) -> str:
    """Return bytes as text.

    >>> size_text(3 << 20)
    '3 MiB'
    """
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            break
        size, unit = size / 1024, {"bytes": "KiB", "KiB": "MiB", "MiB": "GiB"}[unit]
    return f"{size:.3g} {unit}"


def threads_text(machine: dict) -> str:
    """Return how many threads everybody had."""
    return "1 thread" if machine["threads"] == 1 else f"{machine['threads']} threads"
