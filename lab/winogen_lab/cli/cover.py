"""`winogen lab cover`: which kernels to compile ahead, and what all others would gain."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from winogen.kernels.kind import Spec
    from winogen.tuning.layers import BenchLayer
    from winogen_lab.cover.promises import Promise

EXAMPLE = "Example: winogen lab cover --layers resnet50 --no-nets --loss 0.02"


def cover(
    layers: str = typer.Option(
        "all", metavar="SET,…|FILE", help="Layer sets or a JSON file, as for bench; all of them."
    ),
    nets: bool = typer.Option(
        True, help="Layers of the benchmark's nets, too, all that can be built; needs torch."
    ),
    loss: float = typer.Option(
        0.03, min=0.0, help="Choose until the mean loss of a target is no more than this."
    ),
    most: int = typer.Option(200, min=1, help="Kernels of a target, at most."),
    write: Path = typer.Option(None, help="Write the list of kernels here, for a wheel."),
    check: Path = typer.Option(
        None, help="Choose nothing: say what whole nets lose by the kernels of this list."
    ),
) -> None:
    """Choose kernels that keep all usual problems near their best predicted time.

    Problems are the layers in both layouts, of one image and of 32, with the default tolerance and
    with 1e-3, on machines known by their figures: Zen 3, Zen 4, Sapphire and Emerald Rapids, and a
    laptop of four cores; with AVX-512, AVX2 and SSE2. Layers of 8-bit integers and gradients count
    apart.

    One kernel after the other is chosen, always that which avoids most loss for its bytes. The loss
    of a problem is the predicted time of the best chosen kernel over the best of all. ResNet-18,
    VGG-16, U-Net and ResNet-50 of 8-bit integers then lose 5 % at most in all, each on each
    machine: what that takes is chosen, too.
    """
    from rich.console import Console

    from winogen.progress import working
    from winogen.tuning.layers import layer_sets
    from winogen_lab.cover import listing, promises
    from winogen_lab.cover.greedy import cover as chosen
    from winogen_lab.cover.greedy import packed_bytes
    from winogen_lab.cover.problems import instances, layers_of

    console = Console(highlight=False, soft_wrap=True)
    kernels = listing.read(check) if check is not None else []
    sets = layer_sets() if layers == "all" else layers.split(",")
    known: list[BenchLayer] = layers_of(sets, nets) if check is None else []
    with working("predicting"):
        promised = list(promises.promises()) if nets or check else []
    if check is not None:
        _show_nets(console, promised, kernels)
        return
    with working("predicting"):
        steps = chosen(instances(known), loss, most)
        covering = [step.kernel for step in steps]
        kernels = promises.kept(covering, promised)
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
    more = kernels[len(covering) :]
    if promised:
        size = sum(map(packed_bytes, more)) / 1e3
        console.print(_ROW.format("for whole nets", f"+{len(more)}", f"{size:.0f}", *[""] * 3))
        _show_nets(console, promised, kernels)
    if write is not None:
        listing.write(kernels, write)


def _show_nets(console: Any, promised: Iterable[Promise], kernels: Iterable[Spec]) -> None:
    """Print a line for each net and machine: the predicted loss of all that is asked of it."""
    have = frozenset(kernels)
    console.print()
    for (net, target, cpu), some in groupby(
        promised, key=lambda one: (one.net, one.target, one.cpu)
    ):
        losses = ", ".join(f"{one.what} {100 * one.loss(have):.1f} %" for one in some)
        console.print(f"{net} by {target} on {cpu}: {losses}")


_ROW = "{:<28} {:>8} {:>8} {:>10} {:>10} {:>10}"
