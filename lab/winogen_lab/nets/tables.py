"""The report on whole nets for people: tables and lines from the JSON document."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table

from winogen.tables import number, table_of
from winogen_lab.bench.texts import doubts, machine_title, size_text, threads_text
from winogen_lab.nets import report
from winogen_lab.peers import FRAMEWORKS, OUR_NETS


def render(document: dict) -> Group:
    """Return everything there is to show of a run."""
    parts: list[RenderableType] = [
        machine_title(document["machine"]),
        _contestants_line(document),
        times(document),
        accuracy(document),
    ]
    if _doors(document):
        parts.append(doors(document))
    if document["summary"]["beside"]:
        parts.append(beside(document))
    return Group(*parts, *_closing_lines(document))


def times(document: dict) -> Table:
    """Milliseconds of everybody, images per second of ours."""
    names = _present(document)
    found = document["summary"]["contestants"]  # without whoever ran no net
    return table_of(
        f"ms per call, {_numbers(document)}, {threads_text(document['machine'])}",
        "3x3: share of the multiplications in 3x3 layers of stride 1; images/s: of the fastest of "
        "ours; ratio: fastest rival's time / the faster of ours",
        {
            "net": lambda net: escape(net["name"]),
            "input": lambda net: "x".join(map(str, net["input"])),
            "GMAC": lambda net: f"{net['gmac']:.2f}",
            "3x3": lambda net: f"{net['share_3x3']:.0%}",
            **{name: partial(_time, name) for name in names},
            "images/s": _speed,
            "ratio": _ratio,
        },
        document["nets"],
        footer=[
            {
                "net": "time / ours, mean",
                **{name: number(one["ratio"], ".2f") for name, one in found.items()},
                "ratio": number(document["summary"]["ratio"], ".2f"),
            }
        ],
    )


def _numbers(document: dict) -> str:
    """Which numbers are multiplied."""
    tolerance = report.tolerance(document)
    return f"float32 or less, ours within {tolerance:g}" if tolerance else "float32"


def _time(name: str, net: dict) -> str:
    fastest = (report.fastest(net, ours=True), report.fastest(net, ours=False))
    return _cell(net["contestants"].get(name, {}), name in fastest, _milliseconds)


def _speed(net: dict) -> str:
    mine = report.fastest(net, ours=True)
    speed = net["input"][0] / net["contestants"][mine]["median_s"] if mine else None
    return number(speed, ".3g")


def _ratio(net: dict) -> str:
    ratio = net["ratio"]
    return "" if ratio is None else f"[{'green' if ratio >= 1 else 'red'}]{ratio:.2f}[/]"


def accuracy(document: dict) -> Table:
    """Error at the output of everybody, and the largest resident memory."""

    def cell(name: str, net: dict) -> str:
        return _cell(net["contestants"].get(name, {}), False, _error_and_memory)

    return table_of(
        "error at the output, L2 norm beside float64; peak resident memory",
        "memory includes the libraries themselves, and begins when the net has been prepared",
        {
            "net": lambda net: escape(net["name"]),
            **{name: partial(cell, name) for name in _present(document)},
        },
        document["nets"],
    )


def _doors(document: dict) -> dict:
    """What is compared with what is asked: nothing within a tolerance."""
    found: dict = {} if report.tolerance(document) else document["summary"]["doors"]
    return found


def doors(document: dict) -> Table:
    """Each of ours beside the framework that it starts from."""
    names = list(_doors(document))

    def cell(name: str, figure: str, verdict: str, digits: str) -> Callable[[dict], str]:
        def text(net: dict) -> str:
            found = report.door(net, name)
            if found is None:
                return ""
            return f"[{'green' if found[verdict] else 'red'}]{number(found[figure], digits)}[/]"

        return text

    columns: dict[str, Callable[[dict], str]] = {}
    for name in names:
        columns[f"{FRAMEWORKS[name]} / {name}"] = cell(name, "ratio", "fast", ".2f")
        columns[f"error, {name}"] = cell(name, "error_ratio", "exact", ".2f")
    return table_of(
        "each of ours beside its framework",
        "time of the framework / ours; error: our largest one / the framework's. Asked: "
        f"{report.LEAST_RATIO} or more; {report.MOST_ERROR_RATIO:g} or less, or an error of at "
        f"most {report.SMALL_ERROR:g} of the largest output",
        {"net": lambda net: escape(net["name"]), **columns},
        document["nets"],
        footer=[
            {
                "net": "geometric mean",
                **{
                    f"{FRAMEWORKS[name]} / {name}": number(
                        document["summary"]["doors"][name]["ratio"], ".2f"
                    )
                    for name in names
                },
            }
        ],
    )


def beside(document: dict) -> Table:
    """Ours in other places, by another winogen, say: a row for each net, place and contestant."""
    summary = document["summary"]["beside"]
    return table_of(
        "winogen beside itself",
        "ratio: time / that of the main one; difference: max |y - y of the main one| / max |y64|, "
        "0 for the same bits",
        {
            "net": lambda one: escape(one["net"]["name"]),
            "place": lambda one: escape(one["place"]),
            "contestant": lambda one: one["name"],
            "ms": lambda one: _cell(one["row"], False, _milliseconds),
            "of the main one": lambda one: _cell(
                one["net"]["contestants"][one["name"]], False, _milliseconds
            ),
            "ratio": lambda one: number(
                report.over_main(one["net"], one["place"], one["name"]), ".3f"
            ),
            "error": lambda one: number(one["row"].get("rel_error"), ".1e"),
            "difference": lambda one: number(one["row"].get("difference"), ".1e"),
        },
        [
            {"net": net, "place": place, "name": name, "row": row}
            for net in document["nets"]
            for place, rows in net.get("beside", {}).items()
            for name, row in rows.items()
        ],
        left=3,
        footer=[
            {"net": "geometric mean", "place": escape(place), "contestant": name,
             "ratio": number(one["ratio"], ".3f"),
             "difference": number(one["max_difference"], ".1e")}
            for place, figures in summary.items()
            for name, one in figures.items()
        ],
    )  # fmt: skip


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


def _missing_doors(contestants: dict[str, dict]) -> Iterator[str]:
    """Which of ours have nothing to be compared with, why, and what to do about it."""
    for name, framework in FRAMEWORKS.items():
        extra = name.split(".")[1]
        for one in (name, framework):
            absent = contestants.get(one, {}).get("absent")
            if absent:
                yield escape(
                    f"{name} beside {framework}: not compared, {one} is left out ({absent}); "
                    f"allowed: pip install 'winogen[{extra}]'"
                )
                break
            if one not in contestants:
                yield f"{name} beside {framework}: not compared, {one} did not take part"
                break


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
    for name, one in _doors(document).items():
        for what, nets in (("fast", one["slower"]), ("exact", one["inexact"])):
            count = f"{one['nets'] - len(nets)} of {one['nets']} nets are as {what} as asked"
            but = f", not {escape(', '.join(nets))}" if nets else ""
            yield f"{name} beside {one['framework']}: {count}{but}"
    yield from _missing_doors(document["contestants"])
    yield from doubts(document["nets"])
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
