"""Parameters for a layer of which nothing is known but its shape: a few lines, no search."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from winogen.loops.parameters import LoopProblem, Parameters, copies, fits
from winogen.records import NUMBERS, Target

# The least part of the lanes that pixels of a row have to fill; else filters fill them.
_LEAST_FILLED = 0.75
# Bytes of a copy of inputs that leave room for filters in the L2 of a core.
_TILE = 192 << 10


def usual(problem: LoopProblem, target: Target) -> Parameters:
    """Return a sensible legal nest: one whole sum per output, as many registers as there are.

    Filters fill the lanes where they are neighbours in the output, pixels where those are and their
    rows are long. The input is copied if it is padded or lies otherwise, a few rows at a time.

    >>> from winogen.records import TARGETS
    >>> layer = LoopProblem.of("NHWC", 64, 64, (56, 56), (3, 3), padding=(1, 1, 1, 1))
    >>> nest = usual(layer, TARGETS["avx512"])
    >>> nest.strategy, nest.pixels, nest.filters, nest.order, nest.blocks
    ('filters-yxc', 14, 2, ('H.o', 'M', 'H.i', 'W'), (('H', 7),))
    """
    lanes, registers = target.lanes(problem.dtype), target.registers
    width, filters = problem.extent("W"), problem.filters
    vectors = -(-width // lanes)
    filled = width / (vectors * lanes)
    by_pixels = problem.stride[1] == 1 and filled >= _LEAST_FILLED
    if problem.layout == "NCHW" and (by_pixels or filters <= lanes // 4):
        strategy, image, output = "outer-yxc", "CHW", "MHW"
        across = _even(vectors, 4)
        down = _even(filters, _most(strategy, across, lanes, registers, pixels_fixed=True))
    else:
        strategy, image, output = "filters-yxc", "HWC", "HWM"
        down = min(2, -(-filters // lanes))
        across = _even(width, _most(strategy, down, lanes, registers, pixels_fixed=False))
    how = copies(problem, image)
    explicit = problem.is_padded or "implicit" not in how
    nest = Parameters(
        strategy, image, "MYXCm", output, ("M", "H", "W"), pixels=across, filters=down,
        copies="explicit" if explicit else "implicit", dtype=problem.dtype,
    )  # fmt: skip
    rows = _rows(problem) if explicit else problem.extent("H")
    if rows < problem.extent("H"):
        return _with_rows(nest, _even(problem.extent("H"), rows))
    return nest


def _with_rows(nest: Parameters, rows: int) -> Parameters:
    return replace(nest, order=("H.o", "M", "H.i", "W"), blocks=(("H", rows),))


def _most(strategy: str, fixed: int, lanes: int, registers: int, *, pixels_fixed: bool) -> int:
    """The largest register block along one side, given the other."""
    sides = range(registers, 0, -1)
    blocks = ((side, (fixed, side) if pixels_fixed else (side, fixed)) for side in sides)
    return next(side for side, block in blocks if fits(strategy, *block, lanes, registers))


def _even(count: int, most: int) -> int:
    """The size of as few pieces of at most ``most`` as there may be, all about the same."""
    return -(-count // -(-count // most))


def _rows(problem: LoopProblem) -> int:
    """Rows of outputs whose inputs fit into the room for a copy."""
    size = NUMBERS[problem.dtype].itemsize
    (_, width), (step, _) = problem.size, problem.stride
    row = width * problem.channels * size
    reach = (problem.kernel[0] - 1) * problem.dilation[0]
    if prod(problem.size) * problem.channels * size <= _TILE:
        return problem.extent("H")
    return max(1, (_TILE // row - reach) // step)
