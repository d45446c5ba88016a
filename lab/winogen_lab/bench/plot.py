"""The report as a picture: one group of bars per layer, and the FMA peak as a line."""

from __future__ import annotations

from pathlib import Path

from winogen.charts import save_bars
from winogen_lab.bench import report


def save_plot(document: dict, path: str | Path) -> None:
    """Draw GFLOP/s of winogen and every rival per layer; the suffix of ``path`` is the format."""
    layers, peak = document["layers"], document["machine"]["fma_peak_gflops"]
    names = [name for name, row in document["peers"].items() if "absent" not in row]
    save_bars(
        path,
        title_of(document, document["settings"]["layout"]),
        "GFLOP/s of the direct convolution",
        [label_of(layer) for layer in layers],
        {name: [_gflops(layer, name) for layer in layers] for name in (*names, "winogen")},
        (peak, f"FMA peak, {peak:.0f}"),
    )


def _gflops(layer: dict, name: str) -> float:
    row = layer if name == "winogen" else layer["peers"].get(name, {})
    return report.flops(layer) / row["median_s"] / 1e9 if "median_s" in row else 0.0


def label_of(layer: dict) -> str:
    """Return what tells layers apart in little room: size and channels, kernel, stride.

    A stride divides the size, or multiplies it where the layer is transposed.
    """
    _, channels, *sizes = layer["input"]
    filters, own, *taps = layer["weight"]
    if layer.get("transposed"):
        filters = own * layer.get("groups", 1)
    square = len(sizes) == 2 and sizes[0] == sizes[1]
    size = f"{sizes[0]}²" if square else "x".join(map(str, sizes))
    text = f"{size} {channels}→{filters} {'x'.join(map(str, taps))}"
    if layer["stride"] == 1:
        return text
    return f"{text} {'*' if layer.get('transposed') else '/'}{layer['stride']}"


def title_of(document: dict, *facts: str) -> str:
    """Return the machine, the facts, and the gain over the fastest rival."""
    machine, summary = document["machine"], document["summary"]
    threads = "1 thread" if machine["threads"] == 1 else f"{machine['threads']} threads"
    dtype = document.get("settings", {}).get("dtype", "float32")
    text = ", ".join([machine["cpu"], threads, *facts, dtype])
    if summary["ratio"] is not None:
        text += f"; {summary['ratio']:.2f} x the fastest rival (geometric mean)"
    return text
