"""The page on the catalog: its words, pictures and tables, from the document."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

from winogen.charts import COLORS, GREY, INK, MARKERS, PAPER, few_ticks
from winogen.reports.catalog import USUAL_POINTS
from winogen.reports.layers import TORCH
from winogen.reports.page import Section
from winogen.tasks.pareto import staircase

_ERROR = "mean |error| of one 2D tile"


def page(document: dict) -> tuple[str, list[Section]]:
    """Return the title and the sections."""
    direct, theirs = document["direct"]["2d"], document["published"]["sets"]
    entries = document["entries"]
    compared = [entry for entry in entries if entry["published"] is not None]
    better = sum(entry["ratio_to_published"] < 1 for entry in compared)
    ratios = sorted(known["ratio"] for known in theirs)
    trials = f"{document['settings']['trials']:,}"
    taps = document["channels"]["taps"]
    sections = [
        Section(
            "Error against n",
            [
                f"Mean error of one 2D tile, float32, transforms added in Huffman order; hollow "
                f"marks: with a modulus of degree 2. {better} of {len(compared)} entries that have "
                f"a published error are below it. Published: {document['published']['source']}."
            ],
            partial(error_over_n, document=document),
        ),
        Section(
            "The catalog",
            [
                f"Mean |error| in 2D by the protocol of the literature, {trials} tiles. Huffman "
                "adds small coefficients first, naive each row from left to right; mixed has the "
                "transforms in float64. The estimate is what winogen predicts without measuring; ± "
                "is the half width of the 95 % confidence interval. Instructions are those of one "
                "1D transform, FMAs fused; multiplications those of the nested 2D algorithm."
            ],
            rows=[_row(entry) for entry in entries],
        ),
        Section(
            "Many channels",
            ["Normally distributed data, channels summed in chains as the kernels do."],
            partial(error_over_channels, document=document),
        ),
        Section(
            "What is worth having: instructions",
            [
                "Filled marks are beaten by no other algorithm in both respects. Entries of one "
                "F(m, r) with equally many multiplications compare with each other. Only "
                f"F(m, {taps}) with up to ten inputs per tile."
            ],
            partial(instructions, document=document),
        ),
        Section(
            "What is worth having: multiplications",
            ["Over all sizes of tiles; the line joins what no other algorithm beats."],
            partial(multiplications, document=document),
        ),
        Section(
            "Distribution of errors",
            [f"Over the root mean square output; {document['histogram']['title']}."],
            partial(histogram, document=document),
        ),
        *_of_layers(document["layers"]),
        Section(
            "Published points",
            [f"Measured here they have {ratios[0]:.2f} to {ratios[-1]:.2f} of the published error."]
            if ratios
            else (),
            rows=[
                {"algorithm": f"F({known['m']},{known['r']})", "published": known["error"],
                 "measured": known["measured"]["mean"], "ratio": known["ratio"],
                 "points": known["points"]}
                for known in theirs
            ],
        ),
        Section(
            "How it is measured",
            [
                "One tile, one channel, kernel and input independent, uniform in (−1, 1), all in "
                "float32; the reference is direct convolution in float64 of the same data. The "
                "figure is the mean of |error| over outputs and tiles.",
                f"Direct convolution measures {direct['mean']:.2e} in 2D (published "
                f"{direct['published']:.2e}). Seed {document['settings']['seed']}: the same "
                "command on the same machine gives the same report.",
            ],
        ),
    ]  # fmt: skip
    return "How accurate the catalog of transforms is", sections


def short_name(entry: dict) -> str:
    """F(4,3) for default points, F(4,3) classic for others."""
    tag = entry["name"].partition("_")[2].partition("_")[2]
    return f"F({entry['m']},{entry['r']})" + (f" {tag}" if tag else "")


def _row(entry: dict) -> dict[str, Any]:
    found = entry["huffman"]
    return {
        "algorithm": short_name(entry),
        "Huffman": found["mean"],
        "±": f"{100 * found['half_width'] / found['mean']:.1f} %",
        "naive": entry["naive"]["mean"],
        "mixed": entry["mixed"]["mean"],
        "estimate": entry["estimate"],
        "published": entry["published"],
        "over published": entry["ratio_to_published"],
        "n": entry["n"],
        "products": entry["products"],
        "instructions in, filter, out": list(entry["instructions"].values()),
        "multiplications per output": entry["multiplications_per_output"],
        "points or moduli": entry["moduli"] or entry["points"],
        "from": entry["source"],
    }


def _of_layers(part: dict) -> list[Section]:
    if not part["rows"]:
        return []
    beside = (
        f"PyTorch {part['torch']}, channels-last: winogen is at least as accurate on "
        f"{part['as_accurate_as_torch']} of {part['compared']} layers."
        if part["torch"]
        else "PyTorch, which is not installed here."
    )
    names = {"winogen": "winogen", "direct": "direct", TORCH: "torch"}
    rows = [
        {
            "layer": row["name"],
            **{
                f"{name}, {what}": row["errors"].get(key, {}).get(figure)
                for what, figure in (("max / max", "relative_max"), ("L2", "relative_l2"))
                for key, name in names.items()
            },
            "by default": " ".join([row["algorithm"], "x".join(map(str, row["tile"] or ()))]),
        }
        for row in part["rows"]
    ]
    text = (
        "Normally distributed data against float64: what conv2d does by default, its direct "
        f"algorithm, and {beside}"
    )
    paint = partial(layers, part=part)
    return [Section("Layers", [text], paint, rows, 1.6 + 0.23 * len(rows))]


def error_over_n(axes: Axes, document: dict) -> None:
    """Error against n, one color per number of taps; published values as a line."""
    theirs = document["published"]["sets"]
    for number, taps in enumerate(sorted({entry["r"] for entry in document["entries"]})):
        color, marker = COLORS[number % len(COLORS)], MARKERS[number % len(MARKERS)]
        for hollow in (False, True):
            places = [
                (entry["n"], entry["huffman"]["mean"])
                for entry in document["entries"]
                if entry["r"] == taps and bool(entry["moduli"]) is hollow
            ]
            if places:
                axes.plot(
                    *zip(*places), linestyle="none", marker=marker, color=color,
                    markerfacecolor=PAPER if hollow else color,
                    label=f"r = {taps}" + (", modulus" if hollow else ""),
                )  # fmt: skip
    axes.plot(
        [known["n"] for known in theirs], [known["error"] for known in theirs],
        color=GREY, marker="o", markerfacecolor=PAPER, label="published, r = 3", zorder=1,
    )  # fmt: skip
    direct = document["direct"]["2d"]["mean"]
    axes.axhline(direct, color=INK, linestyle="--", linewidth=1, label="direct 3x3")
    axes.set_yscale("log")
    axes.set_xlabel("n = m + r − 1, inputs of a tile along each axis")
    axes.set_ylabel(_ERROR)


def error_over_channels(axes: Axes, document: dict) -> None:
    """Relative error against the number of channels: a color per size of tile, moduli dotted."""
    part = document["channels"]
    known = {entry["name"]: entry for entry in document["entries"]}
    sizes = sorted({known[row["name"]]["m"] for row in part["series"] if row["name"] in known})
    for row in part["series"]:
        style: dict[str, Any] = {"color": INK, "linestyle": "--", "label": "direct"}
        entry = known.get(row["name"])
        if entry is not None:
            number = sizes.index(entry["m"])
            style = {
                "color": COLORS[number % len(COLORS)],
                "linestyle": ":" if entry["moduli"] else "-",
                "marker": MARKERS[number % len(MARKERS)],
                "label": short_name(entry),
            }
        axes.plot(part["channels"], row["relative_l2"], **style)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(part["channels"], [str(count) for count in part["channels"]])
    axes.set_xlabel("channels")
    axes.set_ylabel("‖error‖ / ‖output‖")


def _usual(document: dict) -> list[dict]:
    """The entries for the commonest taps, but for those whose error nobody would take."""
    taps = document["channels"]["taps"]
    return [e for e in document["entries"] if e["r"] == taps and e["n"] <= USUAL_POINTS]


def instructions(axes: Axes, document: dict) -> None:
    """Error against instructions of the run-time transforms, sizes of tiles apart."""
    entries = _usual(document)
    _scatter(axes, entries, "instructions", "run_time_instructions")
    axes.set_yscale("log")
    axes.set_xlabel("instructions of input and output transform, 1D, FMAs fused")


def multiplications(axes: Axes, document: dict) -> None:
    """Error against multiplications per output, with the front over all sizes of tiles."""
    taps, entries = document["channels"]["taps"], _usual(document)
    places = [(e["multiplications_per_output"], e["huffman"]["mean"]) for e in entries]
    if taps == 3:
        direct = (float(taps**2), document["direct"]["2d"]["mean"])
        places.append(direct)
        axes.plot(*direct, "x", color=INK, label="direct")
    steps = staircase(places)
    axes.plot(*zip(*steps), color=GREY, drawstyle="steps-post", linewidth=1, zorder=1)
    _scatter(axes, entries, "multiplications", "multiplications_per_output")
    axes.set_xscale("log")
    axes.set_yscale("log")
    few_ticks(axes.xaxis)
    axes.set_xlabel("multiplications per output and channel")


def _scatter(axes: Axes, entries: list[dict], front: str, cost: str) -> None:
    """A color and a mark for each size of tile; filled and named what no other one beats."""
    sizes = sorted({entry["m"] for entry in entries})
    for entry in entries:
        number, best = sizes.index(entry["m"]), entry["pareto"][front]
        color = COLORS[number % len(COLORS)]
        place = (entry[cost], entry["huffman"]["mean"])
        axes.plot(
            *place, linestyle="none", marker=MARKERS[number % len(MARKERS)], color=color,
            markerfacecolor=color if best else PAPER,
        )  # fmt: skip
        if best:
            axes.annotate(short_name(entry), place, (5, 4), textcoords="offset points", fontsize=8)
    axes.margins(x=0.12, y=0.1)
    axes.set_ylabel(_ERROR)


def histogram(axes: Axes, document: dict) -> None:
    """Shares of errors per logarithmic bin."""
    names = {entry["name"]: short_name(entry) for entry in document.get("entries", ())}
    part, colors = document["histogram"], iter(COLORS * 8)
    for row in part["series"]:
        direct = row["name"] == "direct"
        axes.stairs(
            [100 * share for share in row["shares"]], part["edges"],
            color=INK if direct else next(colors), linestyle="--" if direct else "-",
            label=names.get(row["name"], row["name"]),
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("|error| / rms output")
    axes.set_ylabel("% of outputs per bin")


def dots(axes: Axes, names: list[str], series: dict[str, list[float | None]], label: str) -> None:
    """A row of dots for each name, from top to bottom; ``series``: name -> a figure per row."""
    colors = (COLORS[1], COLORS[0], GREY, *COLORS[2:])
    for number, (name, figures) in enumerate(series.items()):
        # A little apart, so that none hides another of the same place.
        apart = 0.5 / len(series) * (number - (len(series) - 1) / 2)
        found = [(x, -k - apart) for k, x in enumerate(figures) if x is not None]
        if found:
            axes.plot(
                *zip(*found), linestyle="none", marker=MARKERS[number % len(MARKERS)],
                color=colors[number % len(colors)], label=name, alpha=0.8,
            )  # fmt: skip
    axes.set_yticks([-k for k in range(len(names))], names)
    axes.set_xlabel(label)


def layers(axes: Axes, part: dict) -> None:
    """One row of dots per layer."""
    axes.set_xscale("log")
    names = {"winogen": "winogen by default", "direct": "winogen direct", TORCH: TORCH}
    series = {
        name: [row["errors"].get(key, {}).get("relative_max") or None for row in part["rows"]]
        for key, name in names.items()
    }
    dots(axes, [row["name"] for row in part["rows"]], series, "max |error| / max |output|")
    few_ticks(axes.xaxis)
