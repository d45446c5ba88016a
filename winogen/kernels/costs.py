"""The price of what variants count, in cycles: a roofline and its pieces.

Each stage does arithmetic and moves data. The slower of the two sets its time, and a part of the
other is added. Arithmetic is the vector instructions of the transforms, from their programs, and
the steps of the micro-kernel, with its latency and its loads. Data are filters, transformed tiles,
inputs and outputs, by the cache level that they come from. The waste of partial tiles, lanes and
panels is counted. `winogen.records.Costs` has the constants.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from winogen.kernels.count import Panel, PanelProduct, panels
from winogen.kernels.tuning import passes_halves
from winogen.kernels.work import Work, blocks, even
from winogen.records import Costs, Machine, Target


def clocks(machine: Machine, target: Target) -> int:
    """Return how many cycles of the clock one of a machine's is: of vectors that pass in halves it
    counts two in a cycle, unless its record says one.
    """
    return 2 if passes_halves(target) and machine.vectors_per_cycle > 1 else 1


def roof(arithmetic: Any, traffic: Any, shows: float) -> Any:
    """Cycles of arithmetic beside traffic: the slower, and the part ``shows`` of the faster."""
    return np.maximum(arithmetic, traffic) + shows * np.minimum(arithmetic, traffic)


def transform(costs: Costs, instructions: Any, stored: Any) -> Any:
    """Cycles of transforms of so many instructions, and vectors that they store."""
    return costs.instruction * instructions + costs.store * stored


def leaves_half(work: Work) -> bool:
    """Whether the last filters of a group get a kernel of half vectors, which they fit into.

    It is worth it where half a vector takes half the time: on CPUs that compute AVX-512 256 bits at
    a time. Numbers that are narrower have no such kernel.
    """
    last = work.filters % work.lanes
    widened = work.precision.narrow_filter or work.precision.format.together > 1
    return 0 < last <= work.lanes // 2 and passes_halves(work.target) and not widened


def register_blocks(work: Work, rows: Any, half: bool = False) -> tuple[Panel, ...]:
    """Return the register blocks of ``rows`` rows, cut evenly, against all filters.

    ``half``: whether the last filters get a kernel of half vectors.
    """
    vectors = blocks(work.filters, work.lanes) - (0.5 if half else 0)
    high, wide = even(rows, work.tuning.rows), work.tuning.vectors
    return panels(rows, high, vectors, wide, work.together)


def product(work: Work, machine: Machine, counted: PanelProduct) -> Any:
    """Cycles of a micro-kernel that multiplies panel by panel."""
    costs, rate = machine.costs, machine.vectors_per_cycle
    chains, total = work.tuning.chains, 0.0
    call, per_sum = costs.call(chains), costs.sum(chains)
    narrow = work.precision.narrow_filter
    widening = work.target.widening(work.precision.filters) if narrow else 0
    for panel in counted.panels:
        size, width = panel.rows, panel.vectors
        step = np.maximum(
            np.maximum(
                (size * (1 + counted.more) + widening) * width / rate, panel.loads / costs.loads
            ),
            costs.latency / chains,
        )
        sums = counted.rounds * panel.sums
        total = total + panel.times * (counted.depth * step + call + sums * per_sum)
    return counted.times * total


def step(machine: Machine, panel: Panel) -> Any:
    """Cycles of one step of a register block of one chain, where numbers are broadcast by loads."""
    multiplied, loaded = panel.sums / machine.vectors_per_cycle, panel.loads / machine.costs.loads
    return np.maximum(np.maximum(multiplied, loaded), machine.costs.latency)


def product_of_integers(machine: Machine, counted: PanelProduct) -> Any:
    """The same where words of two integers are multiplied."""
    costs, total = machine.costs, 0.0
    instructions = 1 + counted.more
    for panel in counted.panels:
        step = np.maximum(
            np.maximum(
                instructions * panel.sums / machine.vectors_per_cycle, panel.loads / costs.loads
            ),
            instructions * costs.latency,
        )
        sums = counted.rounds * panel.sums * costs.sum_of_one
        total = total + panel.times * (counted.depth * step + costs.call_of_one + sums)
    return counted.times * total


def shared_filters(work: Work, unit: int) -> Any:
    """Shares of the filters of a block, in units that stay whole."""
    return np.where(work.split, min(work.threads, blocks(work.filters, unit)), 1)


def busiest(work: Work, unit: int = 0) -> tuple[Any, Any]:
    """The work of the busiest thread: (blocks to fill or transform, blocks to multiply).

    Where threads share the filters of a block, in units of ``unit``, each of them fills the whole
    strip.
    """
    whole = blocks(work.items, work.threads)
    if not unit:
        return whole, whole
    panels = blocks(work.filters, unit)
    parts = min(work.threads, panels)
    filled = blocks(work.items * parts, work.threads)
    return (
        np.where(work.split, filled, whole),
        np.where(work.split, filled * blocks(panels, parts) / panels, whole),
    )


def each_read(machine: Machine, filters: Any, items: Any, again: Any) -> Any:
    """Cycles per item in which all filters are read, by all items but the first in ``again``.

    The first finds them where the call before left them, or others that were read since.
    """
    first = filters / machine.read_rate(machine.costs.filters_displaced * filters)
    return again + (first - again) / np.maximum(items, 1)


def read_again(machine: Machine, filters: Any, items: Any) -> Any:
    """Cycles per item in which all filters are read, for each item once."""
    return each_read(machine, filters, items, filters / machine.read_rate(filters))


def read_beside(machine: Machine, filters: Any, items: Any, kept: Any) -> Any:
    """The same for items that work in buffers of ``kept`` bytes.

    The buffers pass by from one item to the next. Filters without room in L2 beside them come from
    afar.
    """
    far = np.clip((filters + kept - machine.l2_room) / filters, 0, 1)
    beyond = machine.read_rate(np.maximum(filters, machine.l2_bytes))
    again = filters * (far / beyond + (1 - far) / machine.l2_rate)
    return each_read(machine, filters, items, again)


def written(work: Work, machine: Machine, size: Any, non_temporal: bool) -> Any:
    """Cycles to write ``size`` bytes of outputs; lines are read first unless non-temporal."""
    if non_temporal:
        return size / machine.memory_rate
    return size * 2 / machine.read_rate(work.output_bytes)


def arrange(work: Work, costs: Costs) -> Any:
    """Cycles per vector to exchange pixels and channels: a transposition in NCHW, else none."""
    return costs.arrange * work.lanes.bit_length() if work.layout == "NCHW" else 0


def busy_threads(work: Work) -> Any:
    """Threads that have something to do."""
    return np.minimum(work.threads, np.maximum(1, work.items))
