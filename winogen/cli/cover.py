"""`winogen lab cover`: which kernels to compile ahead, and what all others would gain."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import typer

EXAMPLE = "Example: winogen lab cover --layers resnet50 --no-nets --loss 0.02"


def cover(
    layers: str = typer.Option(
        "all", metavar="SET,…|FILE", help="Layer sets or a JSON file, as for bench; all of them."
    ),
    nets: bool = typer.Option(
        True, help="Layers of the benchmark's nets, too, all that can be built; needs torch."
    ),
    loss: float = typer.Option(
        0.01, min=0.0, help="Choose until the mean loss of a target is no more than this."
    ),
    most: int = typer.Option(200, min=1, help="Kernels of a target, at most."),
    write: Path = typer.Option(None, help="Write the list of kernels here, for a wheel."),
) -> None:
    """Choose kernels that keep all usual problems near their best predicted time.

    Problems are the layers in both layouts, of one image and of 32, with the default tolerance and
    with 1e-3, on machines known by their figures: Zen 3, Zen 4, Sapphire and Emerald Rapids, and a
    laptop of four cores; with AVX-512, AVX2 and SSE2. Layers of 8-bit integers and gradients count
    apart.

    One kernel after the other is chosen, always that which avoids most loss for its bytes. The loss
    of a problem is the predicted time of the best chosen kernel over the best of all.
    """
    from rich.console import Console

    from winogen.lab.cover import listing
    from winogen.lab.cover.greedy import cover as chosen
    from winogen.lab.cover.problems import instances, layers_of
    from winogen.tuning.layers import layer_sets

    console = Console(highlight=False, soft_wrap=True)
    sets = layer_sets() if layers == "all" else layers.split(",")
    with console.status("predicting"):
        problems = list(instances(layers_of(sets, nets)))
        steps = chosen(problems, loss, most)
    console.print(_ROW.format("", "kernels", "kB", "mean loss", "one of ten", "worst"))
    for group, path in groupby(steps, key=lambda step: step.group):
        curve = list(path)
        places = sorted({*(1 << k for k in range(10)), len(curve)} & {*range(1, len(curve) + 1)})
        for place in places:
            step = curve[place - 1]
            losses = [
                f"{100 * (one - 1):.1f} %" if one < 1e3 else "none"
                for one in (step.mean, step.tenth, step.worst)
            ]
            console.print(_ROW.format(group, place, f"{step.bytes / 1e3:.0f}", *losses))
            group = ""
    if write is not None:
        listing.write((step.kernel for step in steps), write)


_ROW = "{:<28} {:>8} {:>8} {:>10} {:>10} {:>10}"
