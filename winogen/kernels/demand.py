"""What each stage of a kernel call asks of the machine, counted: instructions, and bytes moved.

The counts are of the blocks that the call was cut into, so that filters which are read once per
block count as often. They leave out what no program needs: addresses, ends of loops, lines that a
cache lost. `Variant.demands` gives them stage by stage, with the functions of this file and of
`winogen.kernels.demand_tiles`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from winogen.kernels.geometry import strip_size
from winogen.kernels.work import Pair, Work, blocks

if TYPE_CHECKING:
    from winogen.kernels.variant import Buffer


@dataclass(frozen=True)
class Move:
    """Numbers read from an array or a buffer, or written to it."""

    # "input", "output", "U", "V", "Y"; "strip" and "columns" between the steps of a transform. With
    # " again" behind it: not for the first time, so that it is nearer by.
    what: str
    bytes: int  # of the whole call
    size: int  # of what must stay in a cache to be moved at the speed of that cache
    writes: bool = False
    private: bool = False  # every thread has one of its own


@dataclass(frozen=True)
class Demand:
    """What one stage of a whole call does, on all threads together."""

    products: int = 0  # multiply-adds that the result needs, waste of tiles included
    steps: float = 0.0  # multiply-adds of vectors by which they are made, idle lanes included
    instructions: float = 0.0  # of vectors besides: of transforms and transpositions
    loads: float = 0.0  # of vectors, or of numbers for all lanes, by the micro-kernel
    moves: tuple[Move, ...] = ()

    def __add__(self, other: Demand) -> Demand:
        return Demand(
            self.products + other.products,
            self.steps + other.steps,
            self.instructions + other.instructions,
            self.loads + other.loads,
            self.moves + other.moves,
        )


Stages = tuple[Demand, Demand, Demand]  # input, multiply, output


def of_buffer(what: str, size: int, buffer: Buffer, writes: bool = False) -> Move:
    """Return the reading or writing of ``size`` bytes in a buffer of the workspace."""
    return Move(what, size, int(buffer.bytes), writes, private=not buffer.shared)


def call_bytes(work: Work, packed: int) -> int:
    """Return the bytes of all that one call reads and writes, ``packed`` of them filters.

    Each pass by between two uses of the others.
    """
    height, width = work.size
    inputs = work.channels * height * width
    height, width = work.output_size
    outputs = work.filters * height * width
    return work.batch * work.groups * (inputs + outputs) * work.array_itemsize + packed


def input_read(work: Work, packed: int, extent: Pair, step: Pair) -> Move:
    """Return the reading of the input by all blocks.

    Each of them reads ``extent`` rows and columns of the padded input, and begins ``step`` of them
    behind the last: the blocks overlap.
    """
    area = 1
    for cuts, size, whole, own in zip(work.grid, work.size, extent, step):
        area *= int(min(size + (cuts - 1) * max(0, whole - own), cuts * whole))
    planes = work.batch * work.groups * work.channels * work.array_itemsize
    return Move("input", planes * area, call_bytes(work, packed))


def output_written(work: Work, packed: int) -> Move:
    """Return the writing of the outputs to compute."""
    return Move("output", work.batch * work.output_bytes, call_bytes(work, packed), writes=True)


def filters_read(work: Work, packed: int, buffers: Iterable[Buffer] = ()) -> Move:
    """Return the reading of ``packed`` bytes of filters: those of a group once for each block.

    What a block keeps in ``buffers`` passes by from one time to the next.
    """
    times = int(work.items) // work.groups
    held = packed + sum(int(buffer.bytes) for buffer in buffers)
    return Move("U", times * packed, held if times > 1 else call_bytes(work, packed), private=True)


def transposition(work: Work, pixels: int, channels: int) -> int:
    """Instructions to exchange pixels and channels, none in NHWC: log2(lanes) for each vector."""
    if work.layout != "NCHW":
        return 0
    return pixels * blocks(channels, work.lanes) * (work.lanes.bit_length() - 1)


def without_tiles(
    work: Work,
    packed: int,
    strip: Buffer | None,
    *,
    pixels_in_lanes: bool = False,
    summed: int | None = None,
    loads: float = 0.0,
    at_once: int = 0,
    written_last: bool = False,
) -> Stages:
    """Return the demands of a kernel that fills a strip, multiplies and writes.

    ``packed``: bytes of the filters. ``strip``: the buffer that padded inputs are copied to; None
    where they are read in place. ``summed``: channels of one output, those of the group by default.
    ``loads``: of the micro-kernel per multiply-add. ``at_once``: filters of a register block, for
    each of which the strip is read again; 0 where it is read once. ``written_last``: whether
    outputs have a stage of their own.
    """
    (high, wide), lanes = work.out, work.lanes
    summed = (work.channels if summed is None else summed) * work.taps
    maps = work.batch * work.groups
    if pixels_in_lanes:
        vectors = work.filters * high * blocks(wide, lanes)
    else:
        vectors = high * wide * blocks(work.filters, lanes)
    steps = maps * summed * vectors
    step = work.block[0] * work.stride[0], work.block[1] * work.stride[1]
    read = input_read(work, packed, strip_size(work), step)
    fill, moves = Demand(), [filters_read(work, packed, () if strip is None else (strip,))]
    if strip is None:
        moves.append(read)
    else:
        fill = Demand(moves=(read, of_buffer("strip", read.bytes, strip, writes=True)))
        times = blocks(work.filters, at_once) if at_once else 1
        moves.append(of_buffer("strip", times * read.bytes, strip))
    output = Demand()
    if written_last:
        turned = transposition(work, maps * high * wide, work.filters)
        output = Demand(instructions=turned, moves=(output_written(work, packed),))
    else:
        moves.append(output_written(work, packed))
    products = maps * summed * work.filters * high * wide
    return fill, Demand(products, steps, 0.0, loads * steps, tuple(moves)), output
