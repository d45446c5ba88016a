"""What a convolution of 8-bit integers does, counted once, and the price of that in cycles.

As `winogen.kernels.count` says of all kernels: a block is counted stage by stage, the planner
prices the count, and the roofline adds it up over all blocks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from winogen.kernels import costs as cost
from winogen.kernels.count import (
    Demand,
    PanelProduct,
    Stages,
    filters_read,
    input_read,
    of_buffer,
    output_written,
    panels,
)
from winogen.kernels.work import blocks, even, round_up
from winogen.records import Machine

if TYPE_CHECKING:
    from winogen.kernels.quantized import QuantizedWork

VECTORS = 2  # of filters in a register block
# Instructions for a number of a row that is split into phases: with a stride of 2 compilers make
# shuffles of that, else it takes a division.
_SPLIT, _DIVIDED = 4, 16


def count(work: QuantizedWork) -> Stages:
    """Return what a block does: it fills the strip, multiplies, and finishes the sums."""
    spec, (rows, cols) = work.spec, work.block
    lanes, packed, buffers = spec.lanes, work.packed_bytes, work.buffers
    high, wide = work.strip_size
    chunks = blocks(work.words, work.chunk)
    columns = cols if work.patches else wide
    strip = high * columns * chunks
    # Columns are turned a vector at a time, whether there are as many or not.
    turned = high * round_up(columns, lanes) * chunks if spec.layout == "NCHW" else 0
    split = 0
    if spec.layout == "NCHW" and work.stride[1] > 1:
        split = high * wide * work.channels * (_SPLIT if work.stride[1] == 2 else _DIVIDED)
    into = Demand(
        stored=strip,
        turned=turned,
        instructions=split,
        moves=(
            input_read(work, packed, (high, wide)),
            of_buffer("strip", strip * lanes * 4, buffers["strip"], writes=True),
        ),
    )
    passes = blocks(work.filters, VECTORS * lanes)
    multiply = _product(work).demand(
        rows * cols * work.filters * work.channels * work.kernel[0] * work.kernel[1],
        (
            filters_read(work, packed, (buffers["strip"],)),
            of_buffer("strip", passes * strip * lanes * 4, buffers["strip"]),
        ),
    )
    if spec.tiles:  # which load pixels by the vector, too, and do not broadcast their words
        product = multiply.product
        loads = sum((one.rows / lanes + one.vectors) * one.times for one in product.panels)
        multiply = replace(multiply, loads=product.times * product.depth * loads)
    sums = rows * cols * blocks(work.filters, lanes)
    windows = 0
    if work.sums_windows:  # of inputs, for the zero points of the filters
        windows = 2 * rows * cols * chunks * work.taps + 3 * sums
    return work.shares * into, multiply, _finished(work, sums, windows)


def _product(work: QuantizedWork) -> PanelProduct:
    """The product of a block, whose pixels are lines: its rows, or all of them in one."""
    spec, (rows, cols) = work.spec, work.block
    length, lines = (work.flat_length, 1) if work.flat else (cols, rows)
    if spec.tiles:  # of which none is half empty to the instruction
        length = round_up(length, spec.lanes)
    most = min(length, spec.rows) if spec.tiles else even(length, spec.rows)
    deep = spec.dot.deep  # where it multiplies two words, pixels are loaded by the vector
    return PanelProduct(
        panels(
            length, most, blocks(work.filters, spec.lanes), VECTORS, spec.lanes if deep > 1 else 1
        ),
        work.words * work.taps,
        times=lines,
        more=spec.dot.instructions - 1 + spec.dot.adds + _joined(work),
    )


def _joined(work: QuantizedWork) -> float:
    """Instructions that join the words of neighbouring pixels, for each vector of products."""
    return 1 / (work.spec.lanes * VECTORS) if work.spec.dot.deep > 1 else 0


def _finished(work: QuantizedWork, sums: int, instructions: int) -> Demand:
    """Vectors of sums that become outputs."""
    turned = sums if work.spec.layout == "NCHW" else 0
    return Demand(
        stored=sums,
        turned=turned,
        instructions=instructions,
        moves=(output_written(work, work.packed_bytes),),
    )


def count_depthwise(work: QuantizedWork) -> Stages:
    """Return the same of depthwise layers, of all channels; see `count`."""
    spec, (rows, cols) = work.spec, work.block
    lanes, nhwc, packed = spec.lanes, work.spec.layout == "NHWC", work.packed_bytes
    high, wide = work.strip_size
    buffer = work.buffers["strip"]
    if nhwc:
        across = blocks(work.filters, lanes)
        strip, sums = high * wide * across, rows * round_up(cols, spec.rows) * across
    else:
        strip = high * blocks(wide, lanes) * work.filters
        sums = rows * round_up(cols, spec.rows * lanes) // lanes * work.filters
    divided = 0 if nhwc or work.stride[1] == 1 else high * wide * work.filters
    into = Demand(
        stored=strip,
        instructions=_DIVIDED * divided,
        moves=(
            input_read(work, packed, (high, wide)),
            of_buffer("strip", strip * lanes * 4, buffer, writes=True),
        ),
    )
    multiply = Demand(
        products=rows * cols * work.filters * work.taps,
        steps=sums * work.taps,
        loads=(sums + blocks(sums, spec.rows)) * work.taps,  # of inputs, and of the filters
        instructions=sums * work.taps * (spec.dot.instructions - 1 + spec.dot.adds),
        moves=(filters_read(work, packed), of_buffer("strip", strip * lanes * 4, buffer)),
    )
    return into, multiply, _finished(work, sums, 0)


def _rows(work: QuantizedWork) -> int:
    """Rows of all channels that a block fills, and rows of its outputs: each is a call."""
    lanes = work.spec.lanes if work.spec.layout == "NHWC" else 1
    return int((work.strip_size[0] + work.block[0]) * blocks(work.filters, lanes))


def cycles(work: QuantizedWork, machine: Machine) -> float:
    """Return the predicted cycles of a call on the busiest of its threads: the price of its count.

    All blocks count as whole ones, of which there are few others.
    """
    costs, spec = machine.costs, work.spec
    into, multiply, output = work.count()
    dot = spec.dot
    instructions = dot.instructions / dot.at_once + costs.byte_add * dot.adds + _joined(work)
    filled = costs.byte_fill * into.stored + costs.byte_turn * into.turned
    filled += costs.instruction * into.instructions
    fill = cost.roof(filled, _traffic(machine, into), costs.shows)
    if work.depthwise:
        filters = multiply.loads - multiply.steps
        arithmetic: Any = costs.byte_depthwise * (instructions * multiply.steps + filters)
        arithmetic += costs.call_of_one * _rows(work)
    elif spec.tiles:
        arithmetic = _product_of_tiles(work, machine, multiply.product)
    else:
        counted = replace(multiply.product, more=instructions - 1)
        arithmetic = costs.byte_product * cost.product_of_integers(machine, counted)
    product = cost.roof(arithmetic, _traffic(machine, multiply), costs.shows)
    finish = costs.byte_sum * output.stored + costs.byte_turn * output.turned / 4
    finish += costs.instruction * output.instructions
    total = fill + product + cost.roof(finish, _traffic(machine, output), costs.shows)
    # The busiest thread takes so many of all parts.
    _, parts = work.schedule
    return float(total * work.counted * blocks(parts, work.threads) / max(1, parts))


def _product_of_tiles(work: QuantizedWork, machine: Machine, counted: PanelProduct) -> float:
    """Cycles of a product by AMX: a step multiplies tiles of pixels with tiles of filters."""
    costs, total = machine.costs, 0.0
    for panel in counted.panels:
        pixels, filters = panel.rows / work.spec.lanes, panel.vectors
        step = max(
            costs.tile_product * pixels * filters,
            costs.tile_load * (pixels + filters),
            costs.tile_latency,
        )
        ends = costs.call_of_one + (costs.tile_load + costs.tile_store) * pixels * filters
        total += panel.times * (counted.depth / work.chunk * step + ends)
    return counted.times * total


def _traffic(machine: Machine, stage: Demand) -> Any:
    """Cycles to move the bytes of a stage from and to where they lie; lines are read before they
    are written.
    """
    return sum(
        move.bytes * (2 if move.what == "output" else 1) / machine.read_rate(move.size)
        for move in stage.moves
    )
