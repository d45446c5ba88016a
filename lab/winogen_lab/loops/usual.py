"""Parameters for a layer of which nothing is known but its shape: a few lines, no search."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import prod

from winogen.records import NUMBERS, Target
from winogen_lab.loops.parameters import DIMS, STRATEGIES, LoopProblem, Parameters
from winogen_lab.loops.rules import (
    copies,
    image_layouts,
    kernel_layouts,
    loops,
    output_layouts,
    register_blocks,
)

# Bytes of a copy of inputs that leave room for filters in the L2 of a core.
_TILE = 192 << 10
# Cycles between an FMA and the next one that adds to its result.
_LATENCY = 4
# Cycles of a step besides: a loop's own, addresses, the first load.
_OVERHEAD = 1


def usual(problem: LoopProblem, target: Target, strategy: str | None = None) -> Parameters:
    """Return a sensible legal nest: one whole sum per output, as many registers as there are.

    Filters fill the lanes, or pixels where they are neighbours and filters are few. The input is
    copied if it is padded or lies otherwise, a few rows at a time. With a ``strategy`` the rest
    follows from that.

    >>> from winogen.records import TARGETS
    >>> layer = LoopProblem.of("NHWC", 64, 64, (56, 56), (3, 3), padding=(1, 1, 1, 1))
    >>> nest = usual(layer, TARGETS["avx512"])
    >>> nest.strategy, nest.pixels, nest.filters, nest.order, nest.blocks
    ('filters-yxc', 14, 2, ('H.o', 'M', 'H.i', 'W'), (('H', 10),))
    """
    lanes = target.lanes(problem.dtype)
    if strategy is None:
        few = problem.layout == "NCHW" and problem.filters <= lanes // 2
        strategy = "outer-yxc" if few else "filters-yxc"
    # One after the other in memory are the numbers that a loop over channels reads.
    image = _preferred("HWC", image_layouts(problem, strategy))
    explicit = problem.is_padded or "implicit" not in copies(problem, image)
    pixels, filters = register_block(problem, target, strategy)
    nest = Parameters(
        strategy,
        image,
        _preferred("MYXCm", kernel_layouts(strategy)),
        _preferred(problem.output_layout, output_layouts(strategy)),
        usual_order(strategy, ()),
        copies="explicit" if explicit else "implicit",
        pixels=pixels,
        filters=filters,
        dtype=problem.dtype,
    )
    if not explicit:
        return nest
    # Blocks along the height, or along the width where all pixels are one row.
    dim = "H" if problem.extent("H") > 1 else "W"
    step, extent = nest.step(dim, lanes), problem.extent(dim)
    block = max(1, _room(problem, dim) // step) * step
    if block >= extent and prod(problem.kernel) == 1:
        # A copy for every step of filters would take long beside so few products.
        block = -(-extent // 2 // step) * step
    if block >= extent:
        return nest
    even = -(-extent // -(-extent // block))
    block = -(-even // step) * step
    return replace(nest, order=usual_order(strategy, (dim,)), blocks=((dim, block),))


def usual_order(strategy: str, blocked: Iterable[str]) -> tuple[str, ...]:
    """Return a legal order: outer loops, then filters, rows, columns, and what is summed.

    >>> usual_order("filters-c", ("H",))
    ('H.o', 'M', 'H.i', 'W', 'Y', 'X')
    """
    names = loops(strategy, tuple(blocked))
    return tuple(sorted(names, key=lambda name: (not name.endswith(".o"), DIMS.index(name[0]))))


def register_block(problem: LoopProblem, target: Target, strategy: str) -> tuple[int, int]:
    """Return the register block (pixels, filters) with the fewest cycles for all outputs.

    A step takes as long as its FMAs, two a cycle, or its loads, two a cycle, or the latency of one
    FMA; the last steps along the width and the filters count as whole ones.
    """
    lanes, kind = target.lanes(problem.dtype), STRATEGIES[strategy]

    def cycles(block: tuple[int, int]) -> tuple[float, float]:
        steps = prod(-(-problem.extent(dim) // kind.step(dim, *block, lanes)) for dim in "MW")
        step = max(kind.sums(*block, lanes) / 2, sum(block) / 2, _LATENCY) + _OVERHEAD
        return steps * step, sum(block) / prod(block)  # then the fewest loads

    return min(register_blocks(strategy, lanes, target.registers), key=cycles)


def _preferred(layout: str, allowed: tuple[str, ...]) -> str:
    return layout if layout in allowed else allowed[0]


def _room(problem: LoopProblem, dim: str) -> int:
    """Rows or columns of outputs whose inputs fit into the room for a copy."""
    axis = "HW".index(dim)
    size = problem.channels * NUMBERS[problem.dtype].itemsize
    across = size * (problem.size[1] if dim == "H" else 1)
    reach = (problem.kernel[axis] - 1) * problem.dilation[axis]
    return (_TILE // across - reach) // problem.stride[axis]
