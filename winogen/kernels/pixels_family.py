"""What variants without tiles predict alike: a strip is filled, multiplied, and written."""

from __future__ import annotations

from typing import Any

from winogen.kernels import costs as cost
from winogen.kernels.geometry import strip_size
from winogen.kernels.variant import Cycles
from winogen.kernels.work import Work, blocks
from winogen.records import Machine
from winogen.records.machine import L1_BYTES


def fill(work: Work, machine: Machine, channels: int, copies: int = 1) -> tuple[Any, Any]:
    """Cycles to fill the strip of a block, and those to fetch what is in it."""
    rows, cols = strip_size(work)
    strip = rows * cols * channels * work.itemsize
    fetched = strip / machine.read_rate(work.input_bytes)
    return (
        cost.roof(copies * 2 * strip / machine.l2_rate, fetched, machine.costs.shows),
        fetched,
    )


def multiply(work: Work, machine: Machine, arithmetic: Any) -> Any:
    """Cycles of a block's product, the filters read for each."""
    filters = work.taps * work.channels * work.padded_filters * work.precision.filter_itemsize
    rate = cost.read_again(machine, filters, work.items)
    return cost.roof(arithmetic, filters / rate, machine.costs.shows)


def panels(work: Work, machine: Machine) -> Any:
    """Cycles in which the filters of a block come from L2: once per panel of pixels, unless those
    of a register block stay in L1.
    """
    depth = work.channels * work.taps * work.precision.filter_itemsize
    if depth * work.lanes * work.tuning.vectors <= L1_BYTES * 3 // 4:
        return 0.0
    rows, cols = work.block
    return rows * blocks(cols, work.tuning.rows) * depth * work.padded_filters / machine.l2_rate


def block_written(work: Work, machine: Machine, non_temporal: bool) -> Any:
    """Cycles to write the outputs of a block."""
    size = work.block[0] * work.block[1] * work.filters * work.array_itemsize
    return cost.written(work, machine, size, non_temporal)


def stored_meanwhile(machine: Machine, filled: Any, product: Any, stores: Any) -> Cycles:
    """Return the stages where sums are stored where they belong, while others are made."""
    return Cycles(filled, cost.roof(product, stores, machine.costs.streamed), 0.0)
