"""The stages of every layer against their limits, as a picture."""

from __future__ import annotations

from pathlib import Path

from winogen.charts import OURS, add_legend, name_places, new_figure, save
from winogen_lab.bench.plot import label_of
from winogen_lab.bench.profile import STAGES

# Of input transform, multiply, output transform and the rest; told apart in grey, too.
_COLORS = ("#4292c6", "#08306b", "#9ecae1", "#969696")
_FADED = 0.35


def save_plot(document: dict, path: str | Path) -> None:
    """Draw each layer's time as 100 %: of every stage its limit, and pale what it takes beyond it.

    A red line is the roofline of the layer. The suffix of ``path`` is the format.
    """
    layers = [layer for layer in document["layers"] if "seconds" in layer]
    figure, axes = new_figure(max(8.0, 2.0 + 0.42 * len(layers)), 5.8)
    for place, layer in enumerate(layers):
        bottom = 0.0
        for stage in layer["stages"]:
            share = 100 * stage["share"]
            limit = min(share, 100 * stage["limit"]["seconds"] / layer["seconds"]) if (
                "limit" in stage
            ) else 0.0  # fmt: skip
            color = _COLORS[STAGES.index(stage["name"])]
            axes.bar(place, limit, 0.8, bottom, color=color)
            axes.bar(place, share - limit, 0.8, bottom + limit, color=color, alpha=_FADED)
            bottom += share
        reached = 100 * layer["roofline"]["reached"]
        axes.plot((place - 0.4, place + 0.4), (reached, reached), color=OURS[0], linewidth=2)
    for name, color in zip(STAGES, _COLORS):
        axes.bar(0, 0, color=color, label=name)
    axes.plot((), (), color=OURS[0], linewidth=2, label="roofline of the layer")
    name_places(axes, [label_of(layer) for layer in layers])
    axes.set_ylabel("% of the layer's time")
    machine, settings = document["machine"], document["settings"]
    threads = "1 thread" if machine["threads"] == 1 else f"{machine['threads']} threads"
    title = f"{machine['cpu']}, {threads}, {settings['layout']}; pale: beyond the stage's limit"
    axes.set_title(title, loc="left", fontsize=10)
    add_legend(figure)
    save(figure, path)
