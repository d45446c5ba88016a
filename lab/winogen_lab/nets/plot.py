"""The report on whole nets as a picture: how many times as fast as the fastest rival each is."""

from __future__ import annotations

from pathlib import Path

from winogen.charts import INK, OURS, PAPER, new_figure, save
from winogen_lab.peers import OUR_NETS


def save_plot(document: dict, path: str | Path) -> None:
    """Draw a bar for each net, as long as its ratio; nets without one are left out.

    The suffix of ``path`` is the format.
    """
    nets = [net for net in document["nets"] if net["ratio"]][::-1]
    figure, axes = new_figure(8.0, 1.4 + 0.42 * len(nets))
    ratios = [net["ratio"] for net in nets]
    axes.barh(range(len(nets)), ratios, 0.62, color=OURS[0])
    for place, ratio in enumerate(ratios):  # where no line crosses them
        axes.annotate(
            f"{ratio:.2f}", (0, place), (6, 0), textcoords="offset points",
            va="center", color=PAPER, fontweight="bold",
        )  # fmt: skip
    axes.axvline(1.0, color=INK, linewidth=1, linestyle="--")
    axes.set_yticks(range(len(nets)), [net["title"] for net in nets])
    axes.tick_params(axis="y", length=0)
    axes.grid(False, axis="y")
    axes.set_xlabel(f"speed of winogen; 1 is the fastest of {listed(rivals(document))}")
    axes.set_title("Whole networks, times as fast as the fastest rival", loc="left")
    save(figure, path)


def rivals(document: dict) -> list[str]:
    """Return who took part beside winogen."""
    rows = document["contestants"].items()
    return [name for name, row in rows if "absent" not in row and name not in OUR_NETS]


def listed(names: list[str]) -> str:
    """Return names in a sentence.

    >>> listed(["torch"]), listed(["torch", "onnxruntime", "openvino"])
    ('torch', 'torch, onnxruntime and openvino')
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
