"""Quality against bits as a picture: a row for each net, a panel for each kind of words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from winogen.charts import COLORS, GREY, MARKERS, new_panels, save
from winogen_lab.nets.word_lengths import KINDS


def save_plot(document: dict[str, Any], path: str | Path) -> None:
    """Draw what `winogen_lab.nets.word_lengths` found; the suffix of ``path`` is the format.

    The dashed line is int8 direct convolution, the dotted one what is still enough. Algorithms of
    the same number have the same mark in each row; they are named in the first panel of it.
    """
    from matplotlib.ticker import MaxNLocator

    nets = document["nets"]
    figure, panels = new_panels(len(KINDS) * len(nets), 10.0, 0.6 + 2.4 * len(nets), len(nets))
    for number, net in enumerate(nets):
        row = panels[number * len(KINDS) : (number + 1) * len(KINDS)]
        low = net["direct"] - 12 * document["loss"]
        for axes, kind in zip(row, KINDS):
            for place, one in enumerate(net["rows"]):
                some = [(bits, quality) for bits, quality in one["curves"][kind] if quality > low]
                axes.plot(
                    *zip(*some), MARKERS[place % len(MARKERS)] + "-", markersize=3, linewidth=1,
                    color=COLORS[place % len(COLORS)], label=one["algorithm"],
                )  # fmt: skip
            axes.axhline(net["direct"], color=GREY, linewidth=1, linestyle="--")
            axes.axhline(net["direct"] - document["loss"], color=GREY, linewidth=1, linestyle=":")
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            axes.set_xlabel(f"bits of {kind}")
        row[0].set_ylabel(f"{net['name']}, {net['unit']}")
        row[0].legend(fontsize=6.5, frameon=False)
    save(figure, path)
