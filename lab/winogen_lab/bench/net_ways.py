"""The convolutions of whole nets by im2col, directly and as planned, all and the Winograd ones.

A net is the list of its convolutions, each as often as the net has it; its time is the sum of
theirs. What lies between them is not counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from winogen.tuning.layers import BenchLayer
from winogen_lab.bench.texts import milliseconds
from winogen_lab.bench.ways import compare
from winogen_lab.bench.ways_tables import table
from winogen_lab.nets import Net
from winogen_lab.nets.layers import layers_called

WAYS = ("im2col", "direct", "auto")


def compare_nets(
    nets: Sequence[Net],
    *,
    layout: str = "NCHW",
    rounds: int = 20,
    say: Callable[[str], None] = lambda text: None,
) -> list[dict[str, Any]]:
    """Return a row for each net: how many layers it has, and the seconds of each of `WAYS`.

    ``rounds``: in which the ways of a layer take turns. "winograd" in a row has the same of those
    layers whose plan has tiles. Raises NotInstalled for what a net needs.
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
        rows.append(
            {
                "net": net.name,
                **_sums(times, known),
                "winograd": _sums(Counter({one: times[one] for one in tiled}), known),
            }
        )
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
    """Return the table of whole nets and of their Winograd layers."""
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
    return "\n".join(table(cells, markdown))
