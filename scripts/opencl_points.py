"""Points of direct convolution on devices, counted and checked: `opencl_figures.py --points`.

All valid points of each layer of VGG-16, counted exactly: equal subtrees of the decisions are
counted once. Draws of layer 4, which the source calls layer 7, are checked against all constraints;
the bytes that are predicted of some, against the arrays of their kernels. On a space so small that
every combination can be looked at, the draws are compared with these.
"""

from __future__ import annotations

from itertools import product
from math import prod
from random import Random
from time import perf_counter

from winogen.conv.problem import Layer, Problem
from winogen.opencl.devices import DeviceInfo
from winogen.opencl.direct import direct_bytes, direct_work
from winogen.opencl.scheme import PARAMETERS, DirectPoint
from winogen.opencl.space import DirectSpace
from winogen.tuning.layers import BenchLayer

_DRAWS = 100_000
_BUILT = 1000
_SMALL = {
    "tile_height": (3, 4, 6), "tile_width": (3, 5), "extra_height": (0, 1), "extra_width": (0,),
    "filters": (1, 3, 4), "windows": (1, 2, 3), "vector": (1, 4), "chunk": (2, 9),
    "local_chunks": (1, 2), "local_windows": (1, 2), "dot": (0,), "unroll": (0,),
}  # fmt: skip


def small_space() -> tuple[int, set[DirectPoint], set[DirectPoint]]:
    """Return how many combinations a small space has, those that are valid, and what is drawn.

    Draws end when nothing new came for as long as there are valid points, twenty times.
    """
    layer = Layer.of((4, 4, 3, 3), "float32", layout="NHWC", padding=(1, 0))
    space = DirectSpace(layer.problem((1, 6, 5, 4)), DeviceInfo(), **_SMALL)
    every = [DirectPoint(*one) for one in product(*(space.ranges[name] for name in PARAMETERS))]
    valid = {one for one in every if space.valid(one)}
    random, drawn, since = Random(0), set[DirectPoint](), 0
    while since < 20 * len(valid):
        one = space.draw(random)
        since = 0 if one not in drawn else since + 1
        drawn.add(one)
    return len(every), valid, drawn


def multiplications(space: DirectSpace, point: DirectPoint) -> int:
    """Return what the kernels of a point multiply, outputs included that nobody wants."""
    facts = space.facts_of(point)
    sums = space.problem.batch * facts["tiles"] * facts["tile_windows"]
    return sums * facts["window_vectors"] * point.vector * space.problem.layer.filters


def check_draws(problem: Problem, device: DeviceInfo, count: int, built: int) -> tuple[int, int]:
    """Return how many of so many draws are invalid, and of how many bytes are predicted wrongly."""
    space, random = DirectSpace(problem, device), Random(0)
    points = [space.draw(random) for _ in range(count)]
    invalid = sum(not space.valid(one) for one in points)
    wrong = 0
    for one in points[:built]:
        predicted = {name: size for name, size in space.sizes_of(one).items() if size}
        wrong += predicted != direct_bytes(direct_work(problem, one, device))
    return invalid, wrong


def show_points(layers: list[BenchLayer], drawn: BenchLayer, device: DeviceInfo) -> None:
    """Print the figures; it takes some minutes."""
    every, valid, found = small_space()
    same = "the draws are these" if found == valid else f"the draws are OTHERS, {len(found)}"
    print(f"A small space: {len(valid):,} of {every:,} combinations are valid; {same}")
    print("\nPoints of the layers of VGG-16, in NHWC")
    print(f"  {'layer':<28} {'combinations':>22} {'valid':>16} {'share':>9} {'s':>6}")
    for layer in layers:
        begin = perf_counter()
        space = DirectSpace(layer.problem("NHWC"), device)
        size, count = prod(map(len, space.ranges.values())), space.count()
        seconds = perf_counter() - begin
        print(
            f"  {layer.name:<28} {size:>22,} {count:>16,} {count / size:>9.1e} {seconds:>6.1f}",
            flush=True,
        )
    invalid, wrong = check_draws(drawn.problem("NHWC"), device, _DRAWS, _BUILT)
    print(f"\n{drawn.name}: {invalid} of {_DRAWS:,} draws are invalid")
    print(f"{wrong} of {_BUILT:,} take other bytes than predicted")
