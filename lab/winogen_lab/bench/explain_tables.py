"""What `winogen lab explain` prints: a table for people, or in Markdown for a page."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group
from rich.markup import escape
from rich.table import Table

from winogen.tables import plain_table
from winogen_lab.bench.texts import how, machine_title, size_text, speed_lines, threads_text

_HEAD = ("layer and stages", "ms", "of it", "limit", "reached", "of peak", "why")


def render(document: dict) -> Group:
    """Return the machine, the table of all layers, and the summary."""
    machine, settings = document["machine"], document["settings"]
    low, high = machine["fma_peak_gflops_range"]
    table = plain_table(
        f"winogen {settings['layout']}, {settings['dtype']}, {threads_text(machine)}",
        "limit: ms of what binds: arithmetic, loads of the micro-kernel, traffic between levels; "
        "of a layer: its roofline. reached: limit / time. of peak: the multiply-adds of numbers "
        "that were executed, over the FMA peak of the same run.",
    )
    last = len(_HEAD) - 1
    for number, title in enumerate(_HEAD):
        table.add_column(
            title, justify="right" if 0 < number < last else "left", no_wrap=number < last
        )
    for layer in document["layers"]:
        _add_layer(table, layer)
    return Group(
        machine_title(machine),
        f"FMA peak on {threads_text(machine)}: {low:.0f} to {high:.0f} GFLOP/s",
        *speed_lines(machine),
        "",
        table,
        *closing_lines(document["summary"]),
    )


def _add_layer(table: Table, layer: dict) -> None:
    table.add_section()
    if "error" in layer:
        table.add_row(
            escape(layer["name"]), *[""] * (len(_HEAD) - 2), f"[red]{escape(layer['error'])}[/]"
        )
        return
    for number, row in enumerate(_rows(layer)):
        table.add_row(*map(escape, row), style="" if number else "bold")


def _rows(layer: dict) -> Iterator[tuple[str, ...]]:
    """The row of a layer, then one for each stage that takes time."""
    roof = layer["roofline"]
    predicted = f"predicted {_ms(layer['predicted_s'])} ms"
    choice = f"{choice_text(layer)}, {predicted}; {roof['binds']} binds the roofline"
    yield (
        layer["name"], _ms(layer["seconds"]), "", _ms(roof["seconds"]), f"{roof['reached']:.0%}",
        f"{layer['peak_share']:.0%}", choice,
    )  # fmt: skip
    for stage in layer["stages"]:
        if not stage["seconds"]:
            continue
        limit = stage.get("limit")
        yield (
            f"  {stage['name']}",
            _ms(stage["seconds"]),
            f"{stage['share']:.0%}",
            _ms(limit["seconds"]) if limit else "",
            f"{stage['reached']:.0%}" if limit else "",
            f"{stage['peak_share']:.0%}" if "peak_share" in stage else "",
            stage.get("verdict", ""),
        )


def choice_text(layer: dict) -> str:
    """Return what computes a layer, as "mcmr F(4x4,3x3), 4 blocks of 4x14 tiles"."""
    main = layer["blocks"][0]
    text = how(layer)
    if layer["variant"] != layer["algorithm"]:
        text += f", variant {layer['variant']}"
    what = "outputs" if layer["tile"] is None else "tiles"
    high, wide = main["block"]
    size = f"{high}x{wide}" if main["images"] == 1 else f"{main['images']}x{high}x{wide}"
    count = main["items"]
    text += f", {count} block{'s' if count > 1 else ''} of {size} {what}"
    if main["shared"]:
        text += ", each shared by the threads"
    return f"{text}, U {size_text(layer['packed_weight_bytes'])}"


def closing_lines(summary: dict) -> Iterator[str]:
    """Return the figures over all layers as sentences."""
    if summary["roofline_share"] is None:
        return
    mean, geometric = summary["roofline_mean"], summary["roofline_share"]
    count = summary["layers"] - len(summary["failed"])
    yield (
        f"{count} layer{'' if count == 1 else 's'} in {1e3 * summary['seconds']:.1f} ms; "
        f"share of the roofline: mean {mean:.0%}, geometric mean {geometric:.0%}"
    )
    parts = [
        f"{name} {summary['spent'][name]:.0%} (lost {share:.0%})"
        for name, share in summary["lost"].items()
    ]
    yield f"time by stage, and what it takes beyond its limits: {', '.join(parts)}"
    yield f"most is lost in: {summary['worst_stage']}"


def markdown(document: dict) -> str:
    """Return the table of all layers and the summary as Markdown, one row for each stage."""
    machine, settings = document["machine"], document["settings"]
    low, high = machine["fma_peak_gflops_range"]
    lines = [
        f"{machine['cpu']}, {threads_text(machine)}, {settings['layout']}, {settings['dtype']}, "
        f"kernels for {machine['isa']} by {machine['compiler']}, {document['date']}; "
        f"FMA peak {low:.0f} to {high:.0f} GFLOP/s; {'; '.join(speed_lines(machine))}.",
        "",
        "| layer | stage | ms | limit | reached | of peak | why |",
        "|---|---|---:|---:|---:|---:|---|",
    ]
    for layer in document["layers"]:
        if "error" in layer:
            lines.append(f"| {layer['name']} | | | | | | {layer['error']} |")
            continue
        for number, (name, ms, share, limit, reached, peak, why) in enumerate(_rows(layer)):
            if not number:
                name, stage, reached = f"**{name}**", "", f"**{reached}**"
            else:
                name, stage = "", f"{name.strip()}, {share}"
            lines.append(f"| {name} | {stage} | {ms} | {limit} | {reached} | {peak} | {why} |")
    lines += ["", *(f"- {line}" for line in closing_lines(document["summary"]))]
    return "\n".join(lines).replace("%", " %") + "\n"


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3f}" if seconds < 0.1 else f"{1e3 * seconds:.0f}"
