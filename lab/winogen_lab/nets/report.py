"""What the benchmark found about whole nets, as one JSON document, and the figures that follow.

``{"machine", "settings", "contestants", "beside", "nets", "summary"}``. A net has ``name, title,
input, output, gmac, share_3x3`` (of the multiplications, in 3x3 layers of stride 1),
``contestants``: name ->
``{"way", "median_s", "best_s", "rel_error", "max_error", "peak_rss_bytes", ...}`` or
``{"error": message}``, and ``ratio``: the fastest rival's time over the faster of ours; null where
one of them has no time. ``rel_error`` is the L2 norm of y - y64 over that of y64; ``max_error`` is
max |y - y64| / max |y64|. With ours run once more in other places, by another winogen, say, a net
has ``beside``: place -> name -> such a row of ours, whose ``difference`` is that of the outputs,
max |y - y of the main one| / max |y64|. ``summary["doors"]`` has each of ours beside the framework
that it starts from, see `door`, where both were measured.
"""

from __future__ import annotations

from pathlib import Path

from winogen.errors import InvalidValue
from winogen.files import read_json, write_document
from winogen_lab.bench.report import geometric_mean
from winogen_lab.peers import FRAMEWORKS, OUR_NETS

# From this share of 3x3 multiplications on, a net is one for Winograd's algorithms.
DENSE = 0.9
# What is asked of each of ours beside its framework: the framework's time over ours at least, and
# at most an error in the largest element, as a multiple of the framework's or by itself.
LEAST_RATIO, MOST_ERROR_RATIO, SMALL_ERROR = 0.97, 2.0, 2e-6


def tolerance(document: dict) -> float | None:
    """Return the tolerance that ours were made within, of layers or of the output."""
    settings = document["settings"]
    found: float | None = settings.get("tolerance") or settings.get("output_tolerance")
    return found


def times(net: dict, ours: bool) -> dict[str, float]:
    """Return name -> seconds of ours, or of the rivals, without failures."""
    return {
        name: row["median_s"]
        for name, row in net["contestants"].items()
        if "median_s" in row and (name in OUR_NETS) == ours
    }


def fastest(net: dict, ours: bool) -> str | None:
    """Return who of ours, or of the rivals, is fastest; None if nobody has a time."""
    seconds = times(net, ours)
    return min(seconds, key=lambda name: seconds[name]) if seconds else None


def ratio(net: dict) -> float | None:
    """Return (the fastest rival's time) / (the faster of ours)."""
    theirs, mine = times(net, ours=False), times(net, ours=True)
    return min(theirs.values()) / min(mine.values()) if theirs and mine else None


def error_over_torch(net: dict) -> float | None:
    """Return the L2 error of the faster of ours over torch's; None where one has none."""
    mine = fastest(net, ours=True)
    torch = net["contestants"].get("torch", {}).get("rel_error")
    return net["contestants"][mine]["rel_error"] / torch if mine and torch else None


def door(net: dict, name: str) -> dict | None:
    """Return one of ours beside the framework that it starts from; None where one has no time.

    ``ratio`` is the framework's time over ours, ``error_ratio`` our ``max_error`` over the
    framework's; ``fast`` and ``exact`` say whether they are what is asked.
    """
    ours, theirs = (net["contestants"].get(one, {}) for one in (name, FRAMEWORKS[name]))
    if "median_s" not in ours or "median_s" not in theirs:
        return None
    ratio = theirs["median_s"] / ours["median_s"]
    most = max(MOST_ERROR_RATIO * theirs["max_error"], SMALL_ERROR)
    return {
        "ratio": ratio,
        "error_ratio": ours["max_error"] / theirs["max_error"] if theirs["max_error"] else None,
        "fast": ratio >= LEAST_RATIO,
        "exact": ours["max_error"] <= most,
    }


def over_main(net: dict, place: str, name: str) -> float | None:
    """Return the time of one of ours in a place beside over that of the main one."""
    row, main = net.get("beside", {}).get(place, {}).get(name, {}), net["contestants"].get(name, {})
    return row["median_s"] / main["median_s"] if "median_s" in row and "median_s" in main else None


def summarize(nets: list[dict]) -> dict:
    """Return the figures over all nets, and over nets of nearly nothing but 3x3."""
    names = dict.fromkeys(name for net in nets for name in net["contestants"])
    over = [value for net in nets if (value := error_over_torch(net)) is not None]
    return {
        **_ratios(nets),
        "dense": _ratios([net for net in nets if net["share_3x3"] >= DENSE]),
        "max_error_over_torch": max(over, default=None),
        "contestants": {name: _contestant(nets, name) for name in names},
        "doors": {
            name: _door(nets, name)
            for name, framework in FRAMEWORKS.items()
            if {name, framework} <= set(names)
        },
        "beside": {
            place: {
                name: _beside(nets, place, name)
                for name in dict.fromkeys(
                    name for net in nets for name in net.get("beside", {}).get(place, {})
                )
            }
            for place in dict.fromkeys(place for net in nets for place in net.get("beside", {}))
        },
    }


def _door(nets: list[dict], name: str) -> dict:
    """The figures of one of ours beside its framework, and the nets where less is reached."""
    found = {net["name"]: one for net in nets if (one := door(net, name)) is not None}
    return {
        "framework": FRAMEWORKS[name],
        "nets": len(found),
        "ratio": geometric_mean(one["ratio"] for one in found.values()),
        "slower": [net for net, one in found.items() if not one["fast"]],
        "inexact": [net for net, one in found.items() if not one["exact"]],
        "failed": [net["name"] for net in nets if net["name"] not in found],
    }


def _beside(nets: list[dict], place: str, name: str) -> dict:
    """The figures of one of ours in another place: its time / that of the main one."""
    ratios = {
        net["name"]: ratio for net in nets if (ratio := over_main(net, place, name)) is not None
    }
    rows = [net.get("beside", {}).get(place, {}).get(name, {}) for net in nets]
    return {
        "nets": len(ratios),
        "ratio": geometric_mean(ratios.values()),
        "least_ratio": min(ratios.values(), default=None),
        "least_net": min(ratios, key=lambda key: ratios[key], default=None),
        "most_ratio": max(ratios.values(), default=None),
        "most_net": max(ratios, key=lambda key: ratios[key], default=None),
        "max_difference": max(
            (row["difference"] for row in rows if "difference" in row), default=None
        ),
    }


def _ratios(nets: list[dict]) -> dict:
    compared = [(net["ratio"], net["name"]) for net in nets if net["ratio"] is not None]
    worst = min(compared, default=(None, None))
    return {
        "nets": len(nets),
        "ratio": geometric_mean(value for value, _ in compared),
        "worst_ratio": worst[0],
        "worst_net": worst[1],
    }


def _contestant(nets: list[dict], name: str) -> dict:
    rows = [net["contestants"].get(name, {}) for net in nets]
    timed = [(net, row) for net, row in zip(nets, rows) if "median_s" in row]
    mine = [(row["median_s"], times(net, ours=True).values()) for net, row in timed]
    return {
        "nets": len(timed),
        # (its time) / (the faster of ours)
        "ratio": geometric_mean(seconds / min(ours) for seconds, ours in mine if ours),
        "max_rel_error": max((row["rel_error"] for _, row in timed), default=None),
        "max_peak_rss_bytes": max(
            (row["peak_rss_bytes"] for _, row in timed if "peak_rss_bytes" in row), default=None
        ),
    }


def save(document: dict, path: str | Path) -> None:
    """Write the document; a line for each net."""
    write_document(document, path, "nets")


def load(path: str | Path, option: str = "show") -> dict:
    """Read what `save` wrote, for an option of this name.

    Raises InvalidValue for a file that is something else.
    """
    what = "what `winogen bench --nets --results` wrote"
    document = read_json(option, path, what)
    if not isinstance(document, dict) or not {"machine", "contestants", "nets"} <= set(document):
        raise InvalidValue(f"{option}: got {path}; allowed: {what}")
    return {**document, "summary": summarize(document["nets"])}
