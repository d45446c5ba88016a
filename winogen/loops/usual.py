"""Parameters for a layer of which nothing is known but its shape: a few lines, no search."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from winogen.loops.parameters import LoopProblem, Parameters, copies, fits
from winogen.records import NUMBERS, Target

# Bytes of a copy of inputs that leave room for filters in the L2 of a core.
_TILE = 192 << 10


def usual(problem: LoopProblem, target: Target) -> Parameters:
    """Return a sensible legal nest: one whole sum per output, as many registers as there are.

    Filters fill the lanes, or pixels where they are neighbours and filters are few. The input is
    copied if it is padded or lies otherwise, a few rows at a time.

    >>> from winogen.records import TARGETS
    >>> layer = LoopProblem.of("NHWC", 64, 64, (56, 56), (3, 3), padding=(1, 1, 1, 1))
    >>> nest = usual(layer, TARGETS["avx512"])
    >>> nest.strategy, nest.pixels, nest.filters, nest.order, nest.blocks
    ('filters-yxc', 14, 2, ('H.o', 'M', 'H.i', 'W'), (('H', 7),))
    """
    lanes, registers = target.lanes(problem.dtype), target.registers
    width, filters = problem.extent("W"), problem.filters
    vectors = -(-width // lanes)
    if problem.layout == "NCHW" and filters <= lanes // 2:
        strategy, image, output = "outer-yxc", "CHW", "MHW"
        across = _even(vectors, 4)
        down = _even(filters, _most(strategy, across, lanes, registers, pixels_fixed=True))
    else:
        strategy, image, output = "filters-yxc", "HWC", "HWM"
        down = min(2, -(-filters // lanes))
        across = _even(width, _most(strategy, down, lanes, registers, pixels_fixed=False))
    explicit = problem.is_padded or "implicit" not in copies(problem, image)
    nest = Parameters(
        strategy, image, "MYXCm", output, ("M", "H", "W"), pixels=across, filters=down,
        copies="explicit" if explicit else "implicit", dtype=problem.dtype,
    )  # fmt: skip
    if not explicit:
        return nest
    # Along the height, or along the width where all pixels are one row.
    dim = "H" if problem.extent("H") > 1 else "W"
    step, extent = nest.step(dim, lanes), problem.extent(dim)
    block = max(1, _room(problem, dim) // step) * step
    if block >= extent and prod(problem.kernel) == 1:
        # A copy for every step of filters would take long beside so few products.
        block = -(-extent // 2 // step) * step
    if block >= extent:
        return nest
    block = -(-_even(extent, block) // step) * step
    order = (f"{dim}.o", "M", *(f"{one}.i" if one == dim else one for one in "HW"))
    return replace(nest, order=order, blocks=((dim, block),))


def _most(strategy: str, fixed: int, lanes: int, registers: int, *, pixels_fixed: bool) -> int:
    """The largest register block along one side, given the other."""
    sides = range(registers, 0, -1)
    blocks = ((side, (fixed, side) if pixels_fixed else (side, fixed)) for side in sides)
    return next(side for side, block in blocks if fits(strategy, *block, lanes, registers))


def _even(count: int, most: int) -> int:
    """The size of as few pieces of at most ``most`` as there may be, all about the same."""
    return -(-count // -(-count // most))


def _room(problem: LoopProblem, dim: str) -> int:
    """Rows or columns of outputs whose inputs fit into the room for a copy."""
    axis = "HW".index(dim)
    size = problem.channels * NUMBERS[problem.dtype].itemsize
    across = size * (problem.size[1] if dim == "H" else 1)
    reach = (problem.kernel[axis] - 1) * problem.dilation[axis]
    return (_TILE // across - reach) // problem.stride[axis]
