"""What the benchmark found, as one JSON document, and the figures that follow from it.

``{"machine", "settings", "peers", "yardstick", "layers", "summary"}``. A layer has the fields of
its set plus ``algorithm, tile, median_s, gflops, rel_error, workspace_bytes, ...`` for winogen, and
``peers``: name -> ``{"median_s", "rel_error", ...}`` or ``{"error": message}``. GFLOP/s are those
of the direct convolution over the time, whatever the algorithm; rel_error is
max |y - y64| / max |y64|. With ``settings["dtype"]`` "int8", y are integers less their zero point,
and there is no roofline, as the limits of the machine are those of float32.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path

from winogen.errors import InvalidValue
from winogen.files import read_json


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


def summarize(layers: list[dict]) -> dict:
    """Return the figures over all layers: means, the worst layer, errors."""
    timed = [layer for layer in layers if "median_s" in layer]
    compared = [
        (value, layer["name"]) for layer in timed if (value := best_ratio(layer)) is not None
    ]
    worst = min(compared, default=(None, None))
    rows = [row for layer in layers for row in (layer, *layer["peers"].values())]
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
        "max_workspace_bytes": max((layer["workspace_bytes"] for layer in timed), default=None),
        "preempted": sum(shares) / len(shares) if shares else None,
        "ratio": geometric_mean(value for value, _ in compared),
        "worst_ratio": worst[0],
        "worst_layer": worst[1],
        "peers": {name: _peer_summary(timed, name) for name in names},
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


def save(document: dict, path: str | Path, rows_of: str = "layers") -> None:
    """Write the document; one line per layer, so that two runs can be compared line by line.

    ``rows_of``: the key of what has lines of its own.
    """
    parts = []
    for key, value in document.items():
        text = json.dumps(value, allow_nan=False)
        if key == rows_of:
            rows = ",\n".join(f"  {json.dumps(row, allow_nan=False)}" for row in value)
            text = f"[\n{rows}\n ]"
        parts.append(f" {json.dumps(key)}: {text}")
    Path(path).write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def load(path: str | Path) -> dict:
    """Read what `save` wrote; raises InvalidValue for a file that is something else."""
    document = read_json("show", path, "what `winogen bench --json` wrote")
    parts = {"machine", "settings", "peers", "yardstick", "layers"}
    if not isinstance(document, dict) or not parts <= set(document):
        raise InvalidValue(f"show: got {path}; allowed: what `winogen bench --json` wrote")
    return {**document, "summary": summarize(document["layers"])}
