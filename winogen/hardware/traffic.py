"""Bytes between an engine and its memory: which block stays, in an SRAM of a finite size.

A layer is cut into bands of tiles along its longer axis, blocks of channels and blocks of filters.
The SRAM has two halves: one for maps, that is a block of inputs, the next one, and the sums of the
block; one for filters, a block and the next. With sigma bands, alpha blocks of channels and beta of
filters, inputs, filters and sums are moved

    schedule   inputs   filters   sums
    OS         beta     sigma     1
    IS         1        sigma     alpha
    WS         beta     1         alpha

times, unless what would come again is still there, since the loops within have one turn. Sums that
are moved more than once are written and read as words of 32 bits, transformed tiles as they are:
that is why schedules differ. Inputs and outputs are bytes, and so are transformed filters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from winogen.conv.arguments import whole
from winogen.conv.problem import plane_of
from winogen.errors import Unsupported
from winogen.hardware.mapping import Mapping, blocks
from winogen.hardware.schedules import SCHEDULES, loops

if TYPE_CHECKING:
    from winogen.records import Axis

SUM_BYTES = 4
# The source's three, small, medium and large; each is split in halves.
SRAMS = {"S": 512 << 10, "M": 1 << 20, "L": 2 << 20}


@dataclass(frozen=True)
class Block:
    """What is in the SRAM at a time: so many channels, filters and rows of tiles."""

    channels: int
    filters: int
    rows: int
    alpha: int  # blocks of channels
    beta: int  # of filters
    sigma: int  # bands
    maps: int  # bytes of the half for maps
    weights: int  # of the half for filters


@dataclass(frozen=True)
class Traffic:
    """Bytes that a layer moves to and from memory by a schedule, with the best block for it."""

    schedule: str
    block: Block
    inputs: int
    weights: int
    sums: int  # partial ones, written and read
    outputs: int

    @property
    def bytes(self) -> int:
        """All of them."""
        return self.inputs + self.weights + self.sums + self.outputs


def traffic(
    mapping: Mapping, schedule: str, sram: int, filter_bits: int = 8, held: int = 0
) -> Traffic:
    """Return the least traffic of a layer by a schedule, with an SRAM of so many bytes.

    ``filter_bits``: of transformed filters. ``held``: bytes of the half for maps that a ring takes.
    Raises InvalidType and InvalidValue, and Unsupported where the smallest block does not fit.

    >>> from winogen.hardware import Engine
    >>> layer = Engine(16, 4, 16, 2).mapping((1, 512, 28, 28), (512, 512, 3, 3), padding=1)
    >>> [round(traffic(layer, name, 512 << 10).bytes / 1e6, 1) for name in ("OS", "IS", "WS")]
    [15.7, 30.3, 17.4]
    """
    loops(schedule)
    whole("sram", sram, 1, "a positive number of bytes", 1 << 40)
    whole("held", held, 0, "a number of bytes", 1 << 40)
    shape = _shape(mapping, whole("filter_bits", filter_bits, 1, "an int from 1 to 32", 32), held)
    least = _least(shape, sram // 2, schedule)
    if least is None:
        raise Unsupported(
            f"sram: got {sram} bytes; allowed: at least {_needed(shape)}, for the smallest block "
            f"of a layer of {mapping.problem.input_shape}, {mapping.problem.layer.weight_shape}"
        )
    block, moved = least
    inputs, weights, sums = (mapping.turns * one for one in moved)
    outputs = mapping.problem.layer.filters * mapping.pixels
    return Traffic(schedule, block, inputs, weights, sums, outputs)


def best_traffic(mapping: Mapping, sram: int, filter_bits: int = 8) -> Traffic:
    """Return the least of the three schedules."""
    return min((traffic(mapping, name, sram, filter_bits) for name in SCHEDULES), key=_bytes)


def _bytes(moved: Traffic) -> int:
    return moved.bytes


def seconds(mapping: Mapping, moved: Traffic, clock: float, bandwidth: float) -> float:
    """Return how long a layer takes: multiplying or moving, whichever is longer, with the fill and
    the drain of the engine. Blocks come while others are multiplied.
    """
    from winogen.hardware.events import fill_and_drain

    cycles = mapping.cycles + sum(fill_and_drain(mapping))
    return max(cycles / clock, moved.bytes / bandwidth)


@dataclass(frozen=True)
class _Shape:
    """What blocks depend on: the groups that stand side by side, in numbers of the definition."""

    channels: int
    filters: int
    positions: int  # bits of a channel of a transformed filter, of all its pieces
    groups: int  # whose filters see their own channels only
    batch: int
    rows: int  # of tiles of an image
    row_inputs: int  # bytes of a channel for a row of tiles, without the halo
    halo: int  # bytes of a channel that a band has more
    inputs: int  # bytes of a channel of an image
    row_sums: int  # words of a filter
    least: tuple[int, int]  # channels and filters that fill the engine
    held: int  # bytes for maps that are taken


def _shape(mapping: Mapping, filter_bits: int, held: int) -> _Shape:
    layer, engine, problem = mapping.problem.layer, mapping.engine, mapping.problem
    size = plane_of(problem.size)
    along = int(size[1] > size[0])  # the longer axis is cut into bands
    part, across = mapping.parts[along], mapping.parts[1 - along]
    axis: Axis = layer.plane[along]
    columns = size[1 - along]
    if mapping.transformed:
        rows, high, sums = part.tiles, part.outputs, across.tiles * engine.T**2
    else:
        rows, high, sums = mapping.map[along], 1, mapping.map[1 - along]
    side_by_side = mapping.groups_at_once
    return _Shape(
        channels=layer.channels // layer.groups * side_by_side,
        filters=mapping.filters,
        positions=filter_bits * mapping.pieces * (engine.T**2 if mapping.transformed else 1),
        groups=side_by_side,
        batch=problem.batch,
        rows=rows,
        row_inputs=high * axis.stride * columns,
        halo=max(axis.reach - axis.stride, 0) * columns,
        inputs=prod(size),
        row_sums=sums,
        least=(engine.f_i, engine.f_o),
        held=held,
    )


@lru_cache(maxsize=4096)
def _least(shape: _Shape, half: int, schedule: str) -> tuple[Block, tuple[int, int, int]] | None:
    """The block that moves least, and what it moves: inputs, filters, sums. None: nothing fits."""
    moved = ((block, _moved(shape, block, schedule)) for block in _blocks(shape, half))
    return min(moved, key=lambda one: sum(one[1]), default=None)


@lru_cache(maxsize=4096)
def _blocks(shape: _Shape, half: int) -> tuple[Block, ...]:
    """Of each size of blocks of channels and filters those of most rows that fit the halves."""
    return tuple(_fitting(shape, half))


def _needed(shape: _Shape) -> int:
    """The bytes of the smallest SRAM that holds a block."""
    low, high = 0, 1
    while not _blocks(shape, high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _blocks(shape, middle) else (middle, high)
    return 2 * high


def _fitting(shape: _Shape, half: int) -> Iterator[Block]:
    some = (
        _sizes(count, size) for count, size in zip((shape.channels, shape.filters), shape.least)
    )
    for channels, filters in product(*some):
        alpha, beta = blocks(shape.channels, channels), blocks(shape.filters, filters)
        weights = channels * filters * shape.positions // (8 * shape.groups)
        weights *= 1 if alpha == beta == 1 else 2
        if weights > half:
            continue
        for rows in _sizes(shape.rows, 1):
            sigma = shape.batch * blocks(shape.rows, rows)
            inputs = channels * (rows * shape.row_inputs + shape.halo)
            sums = filters * rows * shape.row_sums * SUM_BYTES
            maps = (1 if alpha == sigma == 1 else 2) * inputs + sums + shape.held
            if maps <= half:
                yield Block(channels, filters, rows, alpha, beta, sigma, maps, weights)
                break


def _sizes(count: int, least: int) -> list[int]:
    """All, and ``least`` times powers of two below, from the largest."""
    doubled = reversed(range(blocks(count, least).bit_length()))
    return [count, *(least << k for k in doubled if least << k < count)]


def _moved(shape: _Shape, block: Block, schedule: str) -> tuple[int, int, int]:
    """The bytes of inputs, filters and sums, by the table above."""
    alpha, beta, sigma = block.alpha, block.beta, block.sigma
    inputs, weights, sums = {  # how often they are moved
        "OS": (beta if alpha > 1 else 1, sigma if alpha * beta > 1 else 1, 1),
        "IS": (1, sigma if alpha * beta > 1 else 1, alpha if beta > 1 else 1),
        "WS": (beta if alpha * sigma > 1 else 1, 1, alpha if sigma > 1 else 1),
    }[schedule]
    image = min(shape.rows * shape.row_inputs + shape.halo, shape.inputs)
    band = shape.batch * image + (sigma - shape.batch) * shape.halo
    filters = shape.channels * shape.filters * shape.positions // (8 * shape.groups)
    swapped = shape.batch * shape.filters * shape.rows * shape.row_sums * SUM_BYTES
    return shape.channels * band * inputs, filters * weights, swapped * 2 * (sums - 1)
