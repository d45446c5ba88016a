"""The report on whole nets for people: tables and lines from the JSON document."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table

from winogen.lab.bench.texts import machine_title, number, plain_table, size_text, threads_text
from winogen.lab.nets import report
from winogen.lab.peers import OUR_NETS


def render(document: dict) -> Group:
    """Return everything there is to show of a run."""
    parts: list[RenderableType] = [
        machine_title(document["machine"]),
        _contestants_line(document),
        times(document),
        accuracy(document),
    ]
    if document["summary"]["beside"]:
        parts.append(beside(document))
    return Group(*parts, *_closing_lines(document))


def quality(document: dict) -> Table:
    """PSNR of a net's output: one row per number format, one column per algorithm."""
    net = document["net"]
    table = plain_table(
        f"{net['title']}: PSNR in dB against float64, peak 1, of {net['layers']} layers in",
        "*: by numpy, for no kernel does that",
    )
    table.add_column("numbers", no_wrap=True)
    for column in document["columns"]:
        table.add_column(column, justify="right", no_wrap=True)
    for row in document["rows"]:
        cells = [
            number(row["psnr"].get(column), ".1f") + ("*" if by == "numpy" else "")
            for column in document["columns"]
            for by in [row["by"].get(column)]
        ]
        table.add_row(escape(row["numbers"]), *cells)
    return table


def times(document: dict) -> Table:
    """Milliseconds of everybody, images per second of ours."""
    names = _present(document)
    table = plain_table(
        f"ms per call, float32, {threads_text(document['machine'])}",
        "3x3: share of the multiplications in 3x3 layers of stride 1; images/s: of the fastest of "
        "ours; ratio: fastest rival's time / the faster of ours",
    )
    table.add_column("net", no_wrap=True)
    for name in ("input", "GMAC", "3x3", *names, "images/s", "ratio"):
        table.add_column(name, justify="right", no_wrap=True)
    for net in document["nets"]:
        mine, theirs = report.fastest(net, ours=True), report.fastest(net, ours=False)
        cells = [
            _cell(net["contestants"].get(name, {}), name in (mine, theirs), _milliseconds)
            for name in names
        ]
        speed = net["input"][0] / net["contestants"][mine]["median_s"] if mine else None
        color = "green" if (net["ratio"] or 0) >= 1 else "red"
        ratio = f"[{color}]{net['ratio']:.2f}[/]" if net["ratio"] is not None else ""
        table.add_row(
            escape(net["name"]),
            "x".join(map(str, net["input"])),
            f"{net['gmac']:.2f}",
            f"{net['share_3x3']:.0%}",
            *cells,
            number(speed, ".3g"),
            ratio,
        )
    table.add_section()
    found = document["summary"]["contestants"]
    cells = [number(found[name]["ratio"], ".2f") for name in names]
    mean = number(document["summary"]["ratio"], ".2f")
    table.add_row("time / ours, mean", "", "", "", *cells, "", mean, style="bold")
    return table


def accuracy(document: dict) -> Table:
    """Error at the output of everybody, and the largest resident memory."""
    names = _present(document)
    table = plain_table(
        "error at the output, L2 norm beside float64; peak resident memory",
        "memory includes the libraries themselves, and begins when the net has been prepared",
    )
    table.add_column("net", no_wrap=True)
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for net in document["nets"]:
        rows = [net["contestants"].get(name, {}) for name in names]
        table.add_row(escape(net["name"]), *(_cell(row, False, _error_and_memory) for row in rows))
    return table


def beside(document: dict) -> Table:
    """Ours in other places, by another winogen, say: a row for each net, place and contestant."""
    table = plain_table(
        "winogen beside itself",
        "ratio: time / that of the main one; difference: max |y - y of the main one| / max |y64|, "
        "0 for the same bits",
    )
    for column in ("net", "place", "contestant"):
        table.add_column(column, no_wrap=column != "place")
    for column in ("ms", "of the main one", "ratio", "error", "difference"):
        table.add_column(column, justify="right", no_wrap=True)
    for net in document["nets"]:
        for place, rows in net.get("beside", {}).items():
            for name, row in rows.items():
                main = net["contestants"][name]
                cells = [
                    _cell(row, False, _milliseconds), _cell(main, False, _milliseconds),
                    number(report.over_main(net, place, name), ".3f"),
                    number(row.get("rel_error"), ".1e"), number(row.get("difference"), ".1e"),
                ]  # fmt: skip
                table.add_row(escape(net["name"]), escape(place), name, *cells)
    table.add_section()
    for place, figures in document["summary"]["beside"].items():
        for name, one in figures.items():
            cells = ["", "", number(one["ratio"], ".3f"), "", number(one["max_difference"], ".1e")]
            table.add_row("geometric mean", escape(place), name, *cells, style="bold")
    return table


def _error_and_memory(row: dict) -> str:
    memory = f" {size_text(row['peak_rss_bytes'])}" if "peak_rss_bytes" in row else ""
    return f"{row['rel_error']:.1e}{memory}"


def _milliseconds(row: dict) -> str:
    milliseconds = row["median_s"] * 1e3
    return f"{milliseconds:.3g}" if milliseconds < 1000 else f"{milliseconds:.0f}"


def _cell(row: dict, bold: bool, text: Callable[[dict], str]) -> str:
    if "median_s" not in row:
        return "[red]failed[/]" if row else ""
    return f"[bold]{text(row)}[/]" if bold else text(row)


def _present(document: dict) -> list[str]:
    return [name for name, row in document["contestants"].items() if "absent" not in row]


def _contestants_line(document: dict) -> str:
    texts = [
        f"{name} {row['version']}".strip() if "version" in row else f"{name} ({row['absent']})"
        for name, row in document["contestants"].items()
        if name not in OUR_NETS
    ]
    return escape(f"rivals: {', '.join(texts) or 'none'}")


def _closing_lines(document: dict) -> Iterator[str]:
    summary = document["summary"]
    for what, part in (("", summary), (" (nine tenths 3x3 or more)", summary["dense"])):
        if part["ratio"] is not None:
            yield (
                f"geometric mean of (fastest rival's time / ours) over {part['nets']} nets{what}: "
                f"{part['ratio']:.3f}; worst {escape(part['worst_net'])}: {part['worst_ratio']:.3f}"
            )
    if summary["max_error_over_torch"] is not None:
        yield f"largest error of ours over torch's: {summary['max_error_over_torch']:.2f}"
    for place, facts in document.get("beside", {}).items():
        for name, why in facts["absent"].items():
            yield f"[yellow]{escape(place)}: {name} is left out: {escape(why)}[/]"
    for net in document["nets"]:
        others = {
            f"{name}, {escape(place)}": row
            for place, rows in net.get("beside", {}).items()
            for name, row in rows.items()
        }
        for name, row in {**net["contestants"], **others}.items():
            if "error" in row:
                yield f"[red]{escape(net['name'])}: {name}: {escape(row['error'])}[/]"
