"""What variants without tiles count and predict alike: a strip is filled, multiplied, and written.

The stages are counted by `filled`, by the product of the variant, and by what `moved` adds to it.
The other functions price such counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from winogen.kernels import costs as cost
from winogen.kernels.count import (
    Demand,
    Move,
    filters_read,
    input_read,
    of_buffer,
    output_written,
)
from winogen.kernels.geometry import strip_size
from winogen.kernels.variant import Buffer, Cycles
from winogen.kernels.work import Work, blocks
from winogen.records import Machine
from winogen.records.machine import L1_BYTES

NEAR_BYTES = L1_BYTES * 3 // 4  # of the first cache, which can be counted on


def strip_bytes(work: Work, channels: int) -> Any:
    """Bytes of the strip of a block, of so many channels."""
    rows, cols = strip_size(work)
    return rows * cols * channels * work.itemsize


def filled(work: Work, packed: int, strip: Buffer, channels: int) -> Demand:
    """Count how the strip of a block is filled. ``packed``: bytes of all filters."""
    written = of_buffer("strip", strip_bytes(work, channels), strip, writes=True)
    return Demand(moves=(input_read(work, packed, strip_size(work)), written))


def moved(work: Work, packed: int, buffers: Mapping[str, Buffer]) -> tuple[Move, ...]:
    """Count what the product of a block reads and writes besides its operands in the strip."""
    kept = [buffers["strip"]] if "strip" in buffers else []
    read = () if kept else (input_read(work, packed, strip_size(work)),)
    return filters_read(work, packed, kept), *read, output_written(work, packed)


def multiplications(work: Work, channels: int | None = None, taps: float | None = None) -> Any:
    """Multiply-adds of numbers of a block.

    ``channels`` and ``taps`` of one output, by default those of the group and of the kernel.
    """
    rows, cols = work.block
    channels = work.channels if channels is None else channels
    return rows * cols * work.filters * channels * (work.taps if taps is None else taps)


def fill(work: Work, machine: Machine, counted: Demand) -> Any:
    """Cycles to fill the strip of a block, and what is copied of it once more.

    Vectors that are partly empty are fetched like whole ones; narrow numbers are widened.
    """
    strip = counted.bytes("strip", writes=True)
    fetched = strip / machine.read_rate(work.input_bytes)
    moved = cost.roof(copied(machine, counted), fetched, machine.costs.shows)
    widened = strip / (work.itemsize * work.lanes) if work.precision.narrow else 0.0
    return moved + 2 * machine.costs.instruction * widened


def copied(machine: Machine, counted: Demand) -> Any:
    """Cycles to copy all that is written on the way to the product.

    Each line is fetched before it is written, and read afterwards.
    """
    written = sum(move.bytes for move in counted.moves if move.writes)
    return 3 * written / machine.l2_rate


def fetched(work: Work, machine: Machine, counted: Demand) -> Any:
    """Cycles to fetch what is read of the image by a product that reads it where it lies."""
    return counted.bytes("input") / machine.read_rate(work.input_bytes)


def multiply(work: Work, machine: Machine, counted: Demand, arithmetic: Any) -> Any:
    """Cycles of a block's product, the filters read for each."""
    filters = cost.read_again(machine, counted.bytes("U"), work.items)
    return cost.roof(arithmetic, filters, machine.costs.shows)


def read_again(work: Work, packed: int) -> Move:
    """Count how the filters of a group are read again: by each panel of pixels but the first."""
    depth = work.channels * work.taps * work.precision.filter_itemsize
    rows, cols = work.block
    times = rows * blocks(cols, work.tuning.rows) - 1
    near = depth * work.lanes * work.tuning.vectors  # filters of a register block
    return Move("U again", times * (packed // work.groups), near, private=True)


def again(machine: Machine, counted: Demand) -> Any:
    """Cycles in which the filters of a block come from L2: once per panel of pixels, unless the
    filters of a register block stay in L1.
    """
    move = next(move for move in counted.moves if move.what == "U again")
    if move.size <= NEAR_BYTES:
        return 0.0
    return (move.bytes + counted.bytes("U")) / machine.l2_rate


def block_written(work: Work, machine: Machine, counted: Demand, non_temporal: bool) -> Any:
    """Cycles to write the outputs of a block."""
    return cost.written(work, machine, counted.bytes("output", writes=True), non_temporal)


def stored_meanwhile(machine: Machine, filled: Any, product: Any, stores: Any) -> Cycles:
    """Return the stages where sums are stored where they belong, while others are made."""
    return Cycles(filled, cost.roof(product, stores, machine.costs.streamed), 0.0)
