"""The pictures of the catalog's report, drawn from its document."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from winogen.lab.reports.charts import Sheet

from winogen.lab.reports.catalog import USUAL_POINTS
from winogen.lab.reports.charts import COLORS, GREY, INK, MARKERS, PAPER, draw, few_ticks
from winogen.lab.reports.labels import label
from winogen.lab.reports.layers import TORCH
from winogen.lab.reports.pareto import staircase

_ERROR = "mean |error| of one 2D tile"


def pictures(document: dict) -> dict[str, dict[str, str]]:
    """Return name -> {"wide": svg, "narrow": svg}; without a picture where there are no data."""
    wanted = {
        "sizes": (error_over_n, 1.05),
        "channels": (error_over_channels, 1.0),
        "instructions": (instructions, 1.0),
        "multiplications": (multiplications, 1.1),
        "histogram": (histogram, 0.9),
    }
    if document["layers"]["rows"]:
        wanted["layers"] = (layers, 0.35 + 0.05 * len(document["layers"]["rows"]))
    return {
        name: draw(partial(paint, document=document), name, height=height)
        for name, (paint, height) in wanted.items()
    }


def short_name(entry: dict) -> str:
    """F(4,3) for default points, F(4,3) classic for others."""
    tag = entry["name"].partition("_")[2].partition("_")[2]
    return f"F({entry['m']},{entry['r']})" + (f" {tag}" if tag else "")


def error_over_n(sheet: Sheet, document: dict) -> None:
    """Error against n, one colour per number of taps; published values as a line."""
    (axes,) = sheet.axes()
    theirs = document["published"]["sets"]
    largest = max([entry["n"] for entry in document["entries"]] + [known["n"] for known in theirs])
    for number, taps in enumerate(sorted({entry["r"] for entry in document["entries"]})):
        style: dict[str, Any] = {
            "linestyle": "none",
            "marker": MARKERS[number % len(MARKERS)],
            "color": COLORS[number % len(COLORS)],
            "alpha": 0.9,
        }
        axes.plot([], [], **style, label=f"r = {taps}")
        for hollow in (False, True):
            entries = [
                entry
                for entry in document["entries"]
                if entry["r"] == taps and bool(entry["moduli"]) is hollow
            ]
            axes.plot(
                [entry["n"] for entry in entries],
                [entry["huffman"]["mean"] for entry in entries],
                **style,
                markerfacecolor=PAPER if hollow else None,
            )
    axes.plot(
        [known["n"] for known in theirs],
        [known["error"] for known in theirs],
        color=GREY,
        marker="o",
        markerfacecolor=PAPER,
        label="published, r = 3",
        zorder=1,
    )
    axes.axhline(
        document["direct"]["2d"]["mean"], color=INK, linestyle="--", linewidth=1, label="direct 3x3"
    )
    axes.set_yscale("log")
    axes.set_xticks(range(3, largest + 1, 1 + sheet.narrow))
    axes.set_xlabel(sheet.wrap("n = m + r − 1, inputs of a tile along each axis"))
    axes.set_ylabel(_ERROR)
    sheet.legend(
        columns=9, title=sheet.wrap("F(m, r) of the catalog; hollow: with a modulus of degree 2")
    )


def error_over_channels(sheet: Sheet, document: dict) -> None:
    """Relative error against the number of channels: a colour per size of tile, moduli dotted."""
    (axes,) = sheet.axes()
    part = document["channels"]
    known = {entry["name"]: entry for entry in document["entries"]}
    sizes = sorted({known[row["name"]]["m"] for row in part["series"] if row["name"] in known})
    style: dict[str, Any]
    for row in part["series"]:
        entry = known.get(row["name"])
        if entry is None:
            style = {"color": INK, "linestyle": "--", "label": "direct"}
        else:
            number = sizes.index(entry["m"])
            style = {
                "color": COLORS[number % len(COLORS)],
                "linestyle": ":" if entry["moduli"] else "-",
                "marker": MARKERS[number % len(MARKERS)],
                "markerfacecolor": PAPER if entry["moduli"] else None,
                "label": short_name(entry),
            }
        axes.plot(part["channels"], row["relative_l2"], **style)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(part["channels"], [str(count) for count in part["channels"]])
    axes.minorticks_off()
    axes.set_xlabel("channels")
    axes.set_ylabel("‖error‖ / ‖output‖")
    sheet.legend(columns=9)


def _usual(document: dict) -> list[dict]:
    """The entries for the commonest taps, but for those whose error nobody would take."""
    taps = document["channels"]["taps"]
    return [e for e in document["entries"] if e["r"] == taps and e["n"] <= USUAL_POINTS]


def instructions(sheet: Sheet, document: dict) -> None:
    """Error against instructions of the run-time transforms, sizes of tiles apart."""
    taps = document["channels"]["taps"]
    entries = _usual(document)
    (axes,) = sheet.axes()
    axes.set_yscale("log")
    sizes = sorted({entry["m"] for entry in entries})
    for number, m in enumerate(sizes):
        color = COLORS[number % len(COLORS)]
        rows = [entry for entry in entries if entry["m"] == m]
        for best in (False, True):  # what is worth having lies on top
            part = [row for row in rows if row["pareto"]["instructions"] is best]
            axes.plot(
                [row["run_time_instructions"] for row in part],
                [row["huffman"]["mean"] for row in part],
                linestyle="none",
                marker=MARKERS[number % len(MARKERS)],
                color=color,
                markerfacecolor=color if best else PAPER,
                label=f"F({m},{taps})" if best else None,
            )
    axes.margins(x=0.12, y=0.1)
    axes.set_xlabel(sheet.wrap("instructions of input and output transform, 1D, FMAs fused"))
    axes.set_ylabel(_ERROR)
    sheet.legend(columns=9)
    _name_points(axes, sheet, entries, "run_time_instructions", ())


def multiplications(sheet: Sheet, document: dict) -> None:
    """Error against multiplications per output, with the front over all sizes of tiles."""
    taps = document["channels"]["taps"]
    entries = _usual(document)
    direct = (float(taps**2), document["direct"]["2d"]["mean"])
    (axes,) = sheet.axes()
    axes.set_xscale("log")
    axes.set_yscale("log")
    places = [(e["multiplications_per_output"], e["huffman"]["mean"]) for e in entries]
    with_direct = [*places, *([direct] if taps == 3 else [])]
    steps = staircase(with_direct)
    axes.plot(
        *zip(*steps), color=GREY, drawstyle="steps-post", linewidth=1, label="front", zorder=1
    )
    groups = (
        ("points, on the front", False, True, COLORS[0], "o"),
        ("points, beaten", False, False, COLORS[0], "o"),
        ("moduli of degree 2, on the front", True, True, COLORS[1], "*"),
        ("moduli of degree 2, beaten", True, False, COLORS[1], "*"),
    )
    for name, moduli, best, color, marker in groups:
        rows = [
            place
            for place, entry in zip(places, entries)
            if bool(entry["moduli"]) is moduli and entry["pareto"]["multiplications"] is best
        ]
        if rows:
            axes.plot(
                *zip(*rows),
                linestyle="none",
                marker=marker,
                markersize=9 if moduli else None,
                color=color,
                markerfacecolor=color if best else PAPER,
                label=name,
            )
    if taps == 3:
        axes.plot(*direct, linestyle="none", marker="s", color=INK, label="direct 3x3")
    axes.margins(x=0.1, y=0.1)
    ticks = [1.5, 2, 2.5, 3, 4, 5, 6, 9]
    axes.set_xticks([t for t in ticks if axes.get_xlim()[0] < t < axes.get_xlim()[1]])
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.minorticks_off()
    axes.set_xlabel(sheet.wrap("multiplications per output and channel, 2D"))
    axes.set_ylabel(_ERROR)
    sheet.legend(columns=5)
    _name_points(axes, sheet, entries, "multiplications_per_output", steps)


def _name_points(
    axes: Axes, sheet: Sheet, entries: list[dict], cost: str, steps: Sequence[tuple[float, float]]
) -> None:
    """Label the entries; on a phone only those with a name of their own."""
    rows = [(e[cost], e["huffman"]["mean"], short_name(e)) for e in entries]
    named = [row for row in rows if " " in row[2] or not sheet.narrow]
    label(axes, named, [row[:2] for row in rows], steps)


def histogram(sheet: Sheet, document: dict) -> None:
    """Shares of errors per logarithmic bin."""
    names = {entry["name"]: short_name(entry) for entry in document["entries"]}
    shares(sheet, document["histogram"], names)


def shares(sheet: Sheet, part: dict, names: dict[str, str], unit: str = "rms output") -> None:
    """Draw what `catalog.shares` returned, one outline per series."""
    (axes,) = sheet.axes()
    number = 0
    for row in part["series"]:
        direct = row["name"] == "direct"
        axes.stairs(
            [100 * share for share in row["shares"]],
            part["edges"],
            color=INK if direct else COLORS[number % len(COLORS)],
            linestyle="--" if direct else "-",
            zorder=3 if direct else 2,
            linewidth=1.4,
            label=names.get(row["name"], row["name"]),
        )
        number += not direct
    axes.set_xscale("log")
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.set_xlabel(f"|error| / {unit}")
    axes.set_ylabel("% of outputs per bin")
    sheet.legend(columns=9)


def layers(sheet: Sheet, document: dict) -> None:
    """One row of dots per layer."""
    (axes,) = sheet.axes()
    rows = document["layers"]["rows"][::-1]
    series = (
        ("winogen", "winogen by default", COLORS[1], "o"),
        ("direct", "winogen direct", COLORS[0], "|"),
        (TORCH, TORCH, GREY, "x"),
    )
    for key, name, color, marker in series:
        found = [
            (row["errors"][key]["relative_max"], k)
            for k, row in enumerate(rows)
            if key in row["errors"]
        ]
        if found:
            size = 9 if marker == "|" else None
            axes.plot(
                *zip(*found), linestyle="none", marker=marker, color=color, label=name,
                markersize=size, markeredgewidth=1.6 if marker in "|x" else None,
            )  # fmt: skip
    axes.set_xscale("log")
    sheet.name_rows(axes, [row["name"] for row in rows])
    few_ticks(axes.xaxis)
    axes.set_xlabel("max |error| / max |output|")
    sheet.legend()
