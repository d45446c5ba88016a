"""The report as a picture: one group of bars per layer, and the FMA peak as a line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

from winogen.lab.bench import report

OUR_COLOR = "#c1272d"
# Quiet colours that can be told apart without seeing red and green, and in grey.
COLORS = ("#08306b", "#4292c6", "#9ecae1", "#525252", "#969696", "#d9d9d9", "#c7a76c")


def save_plot(document: dict, path: str | Path) -> None:
    """Draw GFLOP/s of winogen and every rival per layer; the suffix of ``path`` is the format."""
    layers = document["layers"]
    rivals = [name for name, row in document["peers"].items() if "absent" not in row]
    names = [*rivals, "winogen"]
    width = 0.84 / len(names)
    figure, axes = new_figure(max(8.0, 2.0 + 0.52 * len(layers)))
    for number, name in enumerate(names):
        heights = [_gflops(layer, name) for layer in layers]
        places = [at + (number - (len(names) - 1) / 2) * width for at in range(len(layers))]
        color = OUR_COLOR if name == "winogen" else COLORS[number % len(COLORS)]
        axes.bar(places, heights, width, label=name, color=color)
    peak = document["machine"]["fma_peak_gflops"]
    axes.axhline(peak, color="black", linewidth=1, linestyle="--", label=f"FMA peak, {peak:.0f}")
    axes.set_xticks(range(len(layers)), [label_of(layer) for layer in layers], rotation=50)
    for label in axes.get_xticklabels():
        label.set(ha="right", rotation_mode="anchor", fontsize=8)
    axes.set_xlim(-0.6, len(layers) - 0.4)
    axes.set_ylabel("GFLOP/s of the direct convolution")
    axes.set_title(title_of(document, document["settings"]["layout"]), loc="left", fontsize=10)
    figure.legend(loc="outside lower center", ncols=len(names) + 1, frameon=False, fontsize=8.5)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def new_figure(width: float) -> tuple[Figure, Axes]:
    """Return a figure that wide, in inches, and its only axes, with faint lines across."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, 5.8), layout="constrained")
    FigureCanvasAgg(figure)  # no window system needed
    axes = figure.add_subplot()
    axes.yaxis.grid(True, color="0.88", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure, axes


def _gflops(layer: dict, name: str) -> float:
    row = layer if name == "winogen" else layer["peers"].get(name, {})
    return report.flops(layer) / row["median_s"] / 1e9 if "median_s" in row else 0.0


def label_of(layer: dict) -> str:
    """Return what tells layers apart in little room: size and channels, kernel, stride."""
    _, channels, height, width = layer["input"]
    filters, _, kh, kw = layer["weight"]
    size = str(height) if height == width else f"{height}x{width}"
    text = f"{size}² " if height == width else f"{size} "
    text += f"{channels}→{filters} {kh}x{kw}"
    return text if layer["stride"] == 1 else f"{text} /{layer['stride']}"


def title_of(document: dict, *facts: str) -> str:
    """Return the machine, the facts, and the gain over the fastest rival."""
    machine, summary = document["machine"], document["summary"]
    threads = "1 thread" if machine["threads"] == 1 else f"{machine['threads']} threads"
    dtype = document.get("settings", {}).get("dtype", "float32")
    text = ", ".join([machine["cpu"], threads, *facts, dtype])
    if summary["ratio"] is not None:
        text += f"; {summary['ratio']:.2f} x the fastest rival (geometric mean)"
    return text
