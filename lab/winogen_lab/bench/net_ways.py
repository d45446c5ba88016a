"""The convolutions of whole nets by im2col, directly and as planned, all and the Winograd ones.

A net is the list of its convolutions, each as often as the net has it; their time is the sum of
all. Beside it stands the time of what lies between them, as PyTorch computes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from winogen.charts import COLORS, add_legend, name_places, new_figure, save
from winogen.tuning.layers import BenchLayer
from winogen_lab.bench.other_layers import KINDS, REST, other_seconds
from winogen_lab.bench.texts import milliseconds
from winogen_lab.bench.ways import compare
from winogen_lab.bench.ways_tables import table
from winogen_lab.nets import Net
from winogen_lab.nets.layers import layers_called

WAYS = ("im2col", "direct", "auto")
PARTS = ("fast", "direct", "other")


def compare_nets(
    nets: Sequence[Net],
    *,
    layout: str = "NCHW",
    rounds: int = 20,
    say: Callable[[str], None] = lambda text: None,
) -> list[dict[str, Any]]:
    """Return a row for each net: how many layers it has, and the seconds of each of `WAYS`.

    ``rounds``: in which the ways of a layer take turns. "winograd" in a row has the same of those
    layers whose plan has tiles. "others" has the seconds of its other layers by kind, None for ONNX
    files; "parts" of each way its fast layers, with tiles, its direct ones and the others. Raises
    NotInstalled for what a net needs.
    """
    known: dict[BenchLayer, dict[str, Any]] = {}
    rows = []
    for net in nets:
        times = Counter(replace(layer, name="layer", net="") for layer in layers_called(net.name))
        new = [layer for layer in times if layer not in known]
        found = compare(
            new,
            "nets",
            layout=layout,
            rounds=rounds,
            say=partial(_of_net, say, net.name),
        )
        known.update(zip(new, (row["ways"] for row in found)))
        tiled = {layer for layer in times if known[layer]["auto"]["tile"] is not None}
        fast = _sums(Counter({one: times[one] for one in tiled}), known)
        row = {"net": net.name, **_sums(times, known), "winograd": fast, "others": None}
        if not net.is_onnx:
            say(f"{net.name}: other layers")
            row["others"] = other_seconds(net.module(), net.input, rounds)
            other = sum(row["others"].values())
            row["parts"] = {
                way: dict(zip(PARTS, (seconds, row["seconds"][way] - seconds, other)))
                for way, seconds in fast["seconds"].items()
            }
        rows.append(row)
    return rows


def _of_net(say: Callable[[str], None], net: str, text: str) -> None:
    say(f"{net}: {text}")


def _sums(times: Counter[BenchLayer], known: dict[BenchLayer, dict[str, Any]]) -> dict[str, Any]:
    """Layers, multiplications of the definition, and seconds by way, of layers with repetitions."""
    seconds = {
        way: sum(count * known[layer][way]["seconds"] for layer, count in times.items())
        for way in WAYS
    }
    products = sum(count * layer.flops // 2 for layer, count in times.items())
    return {"layers": sum(times.values()), "products": products, "seconds": seconds}


def render(rows: Sequence[dict[str, Any]], markdown: bool = False) -> str:
    """Return the tables: whole nets and their Winograd layers; other layers; all three parts."""
    tables = [_convolutions(rows), *_of_parts([row for row in rows if row["others"] is not None])]
    return "\n\n".join("\n".join(table(cells, markdown)) for cells in tables)


def _convolutions(rows: Sequence[dict[str, Any]]) -> list[list[str]]:
    head = ["net", "layers", "products, G", *(f"{way}, ms" for way in WAYS), "im2col / auto",
            "direct / auto"]  # fmt: skip
    cells = [head]
    for row in rows:
        for part, name in ((row, row["net"]), (row["winograd"], "its Winograd layers")):
            seconds = part["seconds"]
            if not part["layers"]:
                continue
            cells.append(
                [
                    name,
                    str(part["layers"]),
                    f"{part['products'] / 1e9:.2f}",
                    *(milliseconds(seconds[way]) for way in WAYS),
                    *(f"{seconds[way] / seconds['auto']:.2f}" for way in WAYS[:2]),
                ]
            )
    return cells


def _of_parts(rows: Sequence[dict[str, Any]]) -> Iterator[list[list[str]]]:
    """The other layers by kind, and the shares of fast, direct and other layers."""
    if not rows:
        return
    kinds = [kind for kind in (*KINDS, REST) if any(kind in row["others"] for row in rows)]
    yield [["others in PyTorch, ms", *kinds], *(
        [row["net"], *(milliseconds(row["others"].get(kind, 0.0)) for kind in kinds)]
        for row in rows
    )]  # fmt: skip
    cells = [["net", "way", *(f"{part}, ms" for part in PARTS), *PARTS]]
    for row in rows:
        for way in WAYS[::2]:
            seconds = [row["parts"][way][part] for part in PARTS]
            shares = (f"{one / sum(seconds):.0%}" for one in seconds)
            cells.append([row["net"], way, *map(milliseconds, seconds), *shares])
    yield cells


def save_parts(rows: Sequence[dict[str, Any]], path: str | Path) -> None:
    """Draw fast, direct and other layers of nets, by im2col and as planned, as parts of the first's
    time; the suffix of ``path`` is the format.
    """
    rows = [row for row in rows if row["others"] is not None]
    names = [f"{row['net']}, {way}" for row in rows for way in WAYS[::2]]
    figure, axes = new_figure(max(6.0, 2.0 + 0.6 * len(names)), 4.8)
    bottom = [0.0] * len(names)
    for part, color in zip(PARTS, COLORS):
        heights = [
            row["parts"][way][part] / sum(row["parts"][WAYS[0]].values())
            for row in rows
            for way in WAYS[::2]
        ]
        axes.bar(range(len(names)), heights, 0.7, bottom, label=part, color=color)
        bottom = [sum(pair) for pair in zip(bottom, heights)]
    name_places(axes, names)
    axes.set_ylabel("time, as a part of that with im2col")
    add_legend(figure)
    save(figure, path)
