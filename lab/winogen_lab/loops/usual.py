"""Parameters for a layer of which nothing is known but its shape: a few lines, no search."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import prod

from winogen.errors import InvalidValue
from winogen.records import NUMBERS, Target
from winogen_lab.loops.parameters import DIMS, STRATEGIES, LoopProblem, Parameters
from winogen_lab.loops.rules import (
    copies,
    image_layouts,
    kernel_layouts,
    loops,
    output_layouts,
    register_blocks,
    rows,
    strategies,
)

# Bytes of a copy of inputs that leave room for filters in the L2 of a core.
_TILE = 192 << 10
# Rows of so few pixels leave registers empty, so that register blocks may have several rows.
_SMALL = 14
# Method 1 of Kelefouras and Keramidas, Method 2, and Method 2 for taps of several rows.
_METHODS = ("filters-yxc", "filters-yc-row", "filters-c-window")
# Cycles between an FMA and the next one that adds to its result.
_LATENCY = 4
# Cycles of a step besides: a loop's own, addresses, the first load.
_OVERHEAD = 1

Block = tuple[int, int, int]  # rows, pixels, filters


def usual(
    problem: LoopProblem, target: Target, strategy: str | None = None, rule: str = "cycles"
) -> Parameters:
    """Return a sensible legal nest: one whole sum per output, as many registers as there are.

    Filters fill the lanes, or pixels where they are neighbours and filters are few. The input is
    copied if it is padded or lies otherwise, a few rows at a time. With a ``strategy`` the rest
    follows from that. The ``rule`` "loads" takes the micro-kernel and register block of the fewest
    loads, be it with taps in registers or without; raises InvalidValue if none fits.

    >>> from winogen.records import TARGETS
    >>> layer = LoopProblem.of("NHWC", 64, 64, (56, 56), (3, 3), padding=(1, 1, 1, 1))
    >>> nest = usual(layer, TARGETS["avx512"])
    >>> nest.strategy, nest.pixels, nest.filters, nest.order, nest.blocks
    ('filters-yxc', 14, 2, ('H.o', 'M', 'H.i', 'W'), (('H', 10),))
    """
    lanes = target.lanes(problem.dtype)
    if strategy is None and rule == "loads":
        strategy = _of_fewest_loads(problem, target)
    if strategy is None:
        few = problem.layout == "NCHW" and problem.filters <= lanes // 2
        strategy = "outer-yxc" if few else "filters-yxc"
    # One after the other in memory are the numbers that a loop over channels reads.
    image = _preferred("HWC", image_layouts(problem, strategy))
    explicit = _is_copied(problem, strategy)
    _, (rows_, pixels, filters) = register_block(problem, target, strategy, rule)
    nest = Parameters(
        strategy,
        image,
        _preferred("MYXCm", kernel_layouts(strategy)),
        _preferred(problem.output_layout, output_layouts(strategy)),
        usual_order(strategy, ()),
        copies="explicit" if explicit else "implicit",
        pixels=pixels,
        filters=filters,
        rows=rows_,
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


def register_block(
    problem: LoopProblem, target: Target, strategy: str, rule: str = "cycles"
) -> tuple[tuple[float, float], Block]:
    """Return what the best register block (rows, pixels, filters) costs by a rule, and the block.

    "cycles" of all outputs: a step takes as long as its FMAs, two a cycle, or its loads, two a
    cycle, where vectors of filters come from L2 and count twice, or the latency of one FMA.
    "loads": of inputs and filters for each useful FMA. The last steps along rows, width and filters
    count as whole ones. Blocks of several rows are for small maps.

    Raises InvalidValue if no block fits.
    """
    lanes, kind, kernel = target.lanes(problem.dtype), STRATEGIES[strategy], problem.kernel
    small = _is_copied(problem, strategy) and problem.extent("W") <= _SMALL
    outputs = problem.filters * prod(problem.output_size)
    # What widens filters that are narrow has a register for the places of their bytes.
    registers = target.registers - bool(problem.weights)

    def cost(block: Block) -> tuple[float, float]:
        high, pixels, filters = block
        sizes = pixels, filters, lanes, high
        steps = prod(-(-problem.extent(dim) // kind.step(dim, *sizes)) for dim in "MHW")
        inputs = kind.inputs(pixels, high, kernel, problem.stride, problem.dilation)
        of_filters = filters * (2 if kind.lanes == "M" else 1)
        step = max(kind.sums(*sizes) / 2, (inputs + of_filters) / 2, _LATENCY) + _OVERHEAD
        loads = steps * lanes * (inputs + filters) / outputs
        # Of equal ones that with the fewest loads, or with the fewest filters.
        return (loads, filters) if rule == "loads" else (steps * step, loads)

    blocks = [
        (high, *wide)
        for high in rows(problem, strategy, "explicit" if small else "implicit")
        for wide in register_blocks(strategy, lanes, registers, high, kernel)
    ]
    if not blocks:
        taps = prod(kind.taps(kernel))
        raise InvalidValue(
            f"strategy: got {strategy} of {taps} taps; allowed: fewer taps than registers, "
            f"{registers}"
        )
    return min((cost(block), block) for block in blocks)


def _of_fewest_loads(problem: LoopProblem, target: Target) -> str:
    """The micro-kernel whose best register block loads least: of both methods of the source."""
    names = [name for name in _METHODS if name in strategies(target, problem.kernel)]
    return min(names, key=lambda name: register_block(problem, target, name, "loads"))


def _is_copied(problem: LoopProblem, strategy: str) -> bool:
    image = _preferred("HWC", image_layouts(problem, strategy))
    return problem.is_padded or "implicit" not in copies(problem, image, strategy)


def _preferred(layout: str, allowed: tuple[str, ...]) -> str:
    return layout if layout in allowed else allowed[0]


def _room(problem: LoopProblem, dim: str) -> int:
    """Rows or columns of outputs whose inputs fit into the room for a copy."""
    axis = "HW".index(dim)
    size = problem.channels * NUMBERS[problem.dtype].itemsize
    across = size * (problem.size[1] if dim == "H" else 1)
    reach = (problem.kernel[axis] - 1) * problem.dilation[axis]
    return (_TILE // across - reach) // problem.stride[axis]
