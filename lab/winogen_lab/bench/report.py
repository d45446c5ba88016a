"""What the benchmark found, as one JSON document, and the figures that follow from it.

``{"machine", "settings", "peers", "beside", "yardstick", "layers", "summary"}``. A layer has the
fields of its set plus ``algorithm, tile, median_s, gflops, rel_error, workspace_bytes, ...`` for
winogen, and ``peers``: name -> ``{"median_s", "rel_error", ...}`` or ``{"error": message}``. So has
``beside``, for more contestants of our own. GFLOP/s are those of the direct convolution over the
time, whatever the algorithm; rel_error is max |y - y64| / max |y64|. With ``settings["dtype"]``
"int8", y are integers less their zero point.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from winogen.errors import InvalidValue
from winogen.files import read_json, write_document


def geometric_mean(numbers: Iterable[float]) -> float | None:
    """Return the geometric mean of positive numbers; None if there are none.

    >>> geometric_mean([1.0, 4.0])
    2.0
    """
    logs = [math.log(number) for number in numbers]
    return math.exp(sum(logs) / len(logs)) if logs else None


def flops(layer: dict) -> float:
    """Return the operations of the direct convolution of a measured layer."""
    return layer["gflop"] * 1e9


def ratio(layer: dict, peer: str) -> float | None:
    """Return (a rival's time) / (ours) on a layer; None where one of them has no time."""
    theirs = layer["peers"].get(peer, {}).get("median_s")
    ours = layer.get("median_s")
    return theirs / ours if theirs and ours else None


def fastest_peer(layer: dict) -> str | None:
    """Return the name of the fastest rival on a layer; None if none has a time."""
    timed = {name: row["median_s"] for name, row in layer["peers"].items() if "median_s" in row}
    return min(timed, key=lambda name: timed[name]) if timed else None


def best_ratio(layer: dict) -> float | None:
    """Return (the fastest rival's time) / (ours) on a layer."""
    peer = fastest_peer(layer)
    return None if peer is None else ratio(layer, peer)


# What was predicted, and what was measured of it.
_PREDICTED = {"error": ("predicted_error", "rel_error"), "time": ("predicted_s", "median_s")}


def over_predicted(row: dict, what: str) -> float | None:
    """Return the measured "error" or "time" over the predicted one; None where one is missing.

    >>> over_predicted({"median_s": 0.75, "predicted_s": 0.5}, "time")
    1.5
    """
    expected, found = (row.get(key) for key in _PREDICTED[what])
    return found / expected if found is not None and expected else None


def predictions(rows: Mapping[str, dict]) -> dict:
    """Return how far predictions were off: their mean, the extremes, and the worst layer.

    ``rows``: those of a contestant, by layer.
    """
    found = {}
    for what in _PREDICTED:
        shares = {name: share for name, row in rows.items() if (share := over_predicted(row, what))}
        worst = max(shares, key=lambda name: abs(math.log(shares[name])), default=None)
        found[f"{what}_over_predicted"] = {
            "mean": geometric_mean(shares.values()),
            "least": min(shares.values(), default=None),
            "most": max(shares.values(), default=None),
            "worst_layer": worst,
        }
    return found


def over_main(layer: dict, row: dict) -> float:
    """Return the time of one of our own over that of the main one on a layer."""
    return float(row["median_s"] / layer["median_s"])


def over_peak(layer: dict, row: dict) -> float:
    """Return the speed of one of our own over the FMA peak of float32 of its instruction set."""
    peak = row.get("fma_peak_gflops", layer["fma_peak_gflops"])
    return flops(layer) / float(row["median_s"]) / 1e9 / peak


def beside(layers: list[dict], name: str) -> dict:
    """Return the figures of one of our own beside the main one: its time / that of the main one."""
    rows = {
        layer["name"]: {**layer["beside"][name], "main": layer}
        for layer in layers
        if "median_s" in layer.get("beside", {}).get(name, {}) and "median_s" in layer
    }
    ratios = {key: over_main(row["main"], row) for key, row in rows.items()}
    packed = [
        row["packed_weight_bytes"] / row["main"]["packed_weight_bytes"]
        for row in rows.values()
        if row.get("packed_weight_bytes") and row["main"].get("packed_weight_bytes")
    ]
    return {
        "layers": len(rows),
        "ratio": geometric_mean(ratios.values()),
        "worst_ratio": min(ratios.values(), default=None),
        "worst_layer": min(ratios, key=lambda key: ratios[key], default=None),
        "best_ratio": max(ratios.values(), default=None),
        "max_rel_error": max((row["rel_error"] for row in rows.values()), default=None),
        "peak_ratio": geometric_mean(over_peak(row["main"], row) for row in rows.values()),
        "packed_ratio": geometric_mean(packed),
        **predictions(rows),
    }


def summarize(layers: list[dict]) -> dict:
    """Return the figures over all layers: means, the worst layer, errors."""
    timed = [layer for layer in layers if "median_s" in layer]
    compared = [
        (value, layer["name"]) for layer in timed if (value := best_ratio(layer)) is not None
    ]
    worst = min(compared, default=(None, None))
    groups = [{**layer["peers"], **layer.get("beside", {})} for layer in layers]
    rows = [row for layer, group in zip(layers, groups) for row in (layer, *group.values())]
    shares = [row["preempted"] for row in rows if "preempted" in row]
    names = dict.fromkeys(name for layer in layers for name in layer["peers"])
    return {
        "layers": len(layers),
        "failed": [layer["name"] for layer in layers if "median_s" not in layer],
        "gflops": geometric_mean(layer["gflops"] for layer in timed),
        "roofline_share": geometric_mean(
            layer["roofline_s"] / layer["median_s"] for layer in timed if "roofline_s" in layer
        ),
        "peak_ratio": geometric_mean(layer["gflops"] / layer["fma_peak_gflops"] for layer in timed),
        "max_rel_error": max((layer["rel_error"] for layer in timed), default=None),
        "max_workspace_bytes": max(
            (layer["workspace_bytes"] for layer in timed if "workspace_bytes" in layer),
            default=None,
        ),
        **predictions({layer["name"]: layer for layer in timed}),
        "preempted": sum(shares) / len(shares) if shares else None,
        "ratio": geometric_mean(value for value, _ in compared),
        "worst_ratio": worst[0],
        "worst_layer": worst[1],
        "peers": {name: _peer_summary(timed, name) for name in names},
        "beside": {
            name: beside(layers, name)
            for name in dict.fromkeys(name for layer in layers for name in layer.get("beside", {}))
        },
    }


def _peer_summary(layers: list[dict], name: str) -> dict:
    rows = [layer["peers"][name] for layer in layers if "median_s" in layer["peers"].get(name, {})]
    ratios = [value for layer in layers if (value := ratio(layer, name)) is not None]
    return {
        "layers": len(rows),
        "gflops": geometric_mean(
            flops(layer) / layer["peers"][name]["median_s"] / 1e9
            for layer in layers
            if "median_s" in layer["peers"].get(name, {})
        ),
        "ratio": geometric_mean(ratios),
        "worst_ratio": min(ratios, default=None),
        "max_rel_error": max((row["rel_error"] for row in rows), default=None),
        # layers where winogen's error is no larger than this one's
        "as_accurate": sum(
            layer["rel_error"] <= layer["peers"][name]["rel_error"]
            for layer in layers
            if "median_s" in layer["peers"].get(name, {})
        ),
    }


def save(document: dict, path: str | Path) -> None:
    """Write the document, a line for each layer."""
    write_document(document, path, "layers")


def load(path: str | Path) -> dict:
    """Read what `save` wrote; raises InvalidValue for a file that is something else."""
    document = read_json("show", path, "what `winogen bench --results` wrote")
    parts = {"machine", "settings", "peers", "yardstick", "layers"}
    if not isinstance(document, dict) or not parts <= set(document):
        raise InvalidValue(f"show: got {path}; allowed: what `winogen bench --results` wrote")
    return {**document, "summary": summarize(document["layers"])}
