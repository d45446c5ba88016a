"""A roofline model: how many cycles a way of computing a convolution takes, stage by stage.

Each stage does arithmetic and moves data; the slower of the two sets its time, and a part of the
other shows as well. What is counted: vector instructions of the transforms (from the programs),
steps of the GEMM's register block with its latency and its loads, bytes of filters, transformed
tiles, inputs and outputs by the cache level that they come from, and the waste of partial tiles,
lanes and panels.

A `Work` may stand for many kernel calls; then a prediction is made of arrays, one number for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from winogen.codegen import kernels
from winogen.codegen.targets import Target
from winogen.conv.work import Work, blocks
from winogen.records import Machine

# The part of the faster of arithmetic and traffic that is not hidden behind the slower: between a
# stage and its data, and where nothing but outputs stream past.
_SHOWS = 0.28
_STREAMED = 0.15
# Cycles to enter and leave the micro-kernel, and per sum that it loads, adds and stores; by the chains
# of a sum, for two of them hide both behind each other's latency.
_CALL = {1: 20, 2: 4}
_SUM = {1: 1.0, 2: 0.3}
# Cycles per instruction of a transform (additions and multiply-adds may run side by side), per vector
# that it stores, and per pixel and halving step of a transposition.
_INSTRUCTION = 0.39
_STORE = 0.84
_ARRANGE = 0.78
# Cycles that threads wait for each other.
_BARRIER = 1000
# Latency of an FMA: with fewer accumulators than this times its rate, a step takes this long.
_LATENCY = 4
# A step's loads, two a cycle, besides the FMAs.
_LOADS = 2.8
# Cycles per tap and vector of a depthwise layer.
_DEPTHWISE = 1.05
# How much longer columns of few products take than their multiply-adds: each ends in a transform.
_DELAYS = 1.5
_LINE = 64
# The part of the first cache that can be counted on.
_L1 = 24 << 10
# What other data pass by between two uses needs this many times its size to stay in a cache.
_DISPLACED = 2


@dataclass(frozen=True)
class Prediction:
    """Cycles of one call on one of the threads that share it; `seconds` at the machine's clock."""

    input: Any
    multiply: Any
    output: Any
    clock_ghz: float

    @property
    def cycles(self):
        """All stages, one after the other."""
        return self.input + self.multiply + self.output

    @property
    def seconds(self):
        """The predicted time of one call."""
        return self.cycles / (self.clock_ghz * 1e9)


def predict(work: Work, target: Target, machine: Machine) -> Prediction:
    """Return what ``work`` is predicted to cost."""
    few = _tile_lanes if work.layout == "NCHW" else _filter_lanes
    stage = few if work.few_channels else _tiles if work.tiled else _pixels
    input_, multiply, output = stage(work, target, machine)
    return Prediction(input_, multiply, output, machine.clock_ghz)


def _roof(arithmetic, traffic, shows=_SHOWS):
    return np.maximum(arithmetic, traffic) + shows * np.minimum(arithmetic, traffic)


def _pass(instructions, stored):
    """Cycles of a transform along one axis, per row or column."""
    return _INSTRUCTION * instructions + _STORE * stored


def _product(work: Work, target: Target, rows, depth: int, channels: int, taps: int):
    """Cycles of the GEMM for ``rows`` rows against all filters, ``channels`` x ``taps`` deep."""
    height, vectors, chains = kernels.register_block(target, work.algorithm)
    panels = blocks(rows, height)
    panel = blocks(rows, panels)
    total = 0.0
    lanes = work.lanes(target)
    whole, left = divmod(work.filters, vectors * lanes)
    half = kernels.leaves_half(target, work.algorithm, work.filters, lanes)
    for width, count in ((vectors, whole), (left and (0.5 if half else blocks(left, lanes)), 1)):
        if not width or not count:
            continue
        rest = rows % panel
        for size, times in ((panel, rows // panel), (rest, rest > 0)):
            step = np.maximum(
                np.maximum(size * width / 2, (size + width) * min(width, 1) / _LOADS),
                _LATENCY / chains,
            )
            stored = blocks(channels, depth) * size * width
            total = total + count * times * (
                channels * taps * step + _CALL[chains] + stored * _SUM[chains]
            )
    return total


def _paid(work: Work, target: Target) -> tuple:
    """What the busiest thread pays for: (blocks that it fills or transforms, blocks it multiplies).

    With split the threads share every block. Regions share its channels and then its filters, direct
    convolution only the filters, while each fills the strip; other kernels cannot.
    """
    whole, threads = blocks(work.items, work.threads), work.threads
    if work.algorithm == "winograd2d" or work.narrow(target):
        return whole, whole
    lanes = work.lanes(target)
    panels = blocks(work.filters, lanes * kernels.register_block(target, work.algorithm).vectors)
    if work.tiled:
        counts = blocks(work.channels, lanes), panels
        shared = (work.items * blocks(count, threads) / count for count in counts)
    else:
        parts = min(threads, panels)
        filled = blocks(work.items * parts, threads)
        shared = filled, filled * blocks(panels, parts) / panels
    return tuple(np.where(work.split, part, whole) for part in shared)


def _tiles(work: Work, target: Target, machine: Machine) -> tuple:
    along_h, along_w = work.transforms
    one_d = work.algorithm == "winograd1d"
    taps = work.kernel[0] if one_d else 1
    lanes, size = work.lanes(target), work.itemsize
    rows, cols = work.block
    items, images = work.items, work.images
    positions = along_h.products * along_w.products
    channel_vectors = blocks(work.channels, lanes)
    filter_vectors = blocks(work.filters, lanes)
    transformed, multiplied = _paid(work, target)

    # Input: pixels become channel vectors (NCHW: by transposition), then columns, then rows.
    lines = rows + taps - 1
    in_rows, in_cols = work.strip
    pixels = in_rows * in_cols
    arrange = _ARRANGE * lanes.bit_length() * pixels if work.layout == "NCHW" else 0
    columns = lines * in_cols * _pass(along_h.instructions[0], along_h.products)
    across = lines * cols * along_h.products * _pass(along_w.instructions[0], along_w.products)
    transform = channel_vectors * (arrange + columns + across)
    fetched = pixels * work.channels * size / machine.read_rate(work.input_bytes)
    input_ = transformed * images * _roof(transform, fetched)

    # Product: filters are read once per block, transformed tiles once per band of filters, the sums
    # written and read again.
    filters = positions * taps * work.channels * filter_vectors * lanes * size
    v_bytes = images * positions * lines * cols * channel_vectors * lanes * size
    band = kernels.BAND
    if work.algorithm == "winograd2d":
        band = filter_vectors
    bands = blocks(filter_vectors, band)
    y_bytes = images * positions * rows * cols * min(filter_vectors, band) * lanes * size
    depth = kernels.summation(work.algorithm, target, work.channels)["block"]
    line_rows = (cols, images * rows) if one_d else (images * rows * cols, 1)
    arithmetic = (
        positions * line_rows[1] * _product(work, target, line_rows[0], depth, work.channels, taps)
    )
    spilled = (v_bytes + 2 * y_bytes) * bands / machine.l3_rate
    spills = v_bytes + y_bytes > machine.l2_bytes * 3 // 4
    traffic = filters / _again(machine, filters, items) + spills * spilled
    # Threads that share a block wait for each other, and read what the others have transformed.
    foreign = v_bytes * (1 - 1 / work.threads) / machine.l3_rate
    waits = items * work.split * (foreign + 2 * _BARRIER)
    multiply = multiplied * _roof(arithmetic, traffic) + waits

    # Output: columns, then rows; NCHW transposes back. A written line is read first, if not past caches.
    columns = along_w.products * _pass(along_h.instructions[2], along_h.m)
    across = along_h.m * _pass(along_w.instructions[2], along_w.m)
    arrange = 0
    if work.layout == "NCHW":
        arrange = _ARRANGE * lanes.bit_length() * along_h.m * along_w.m
    transform = rows * cols * filter_vectors * (columns + across + arrange)
    written = rows * cols * along_h.m * along_w.m * work.filters * size
    if work.layout == "NHWC" and _past_caches(work, target):
        written = written / machine.memory_rate
    else:
        written = written * 2 / machine.read_rate(work.output_bytes)
    output = multiplied * images * _roof(transform, written)
    return input_, multiply, output


def _again(machine: Machine, filters, items):
    """The rate at which all filters are read for each of the items; if there is one, once per call."""
    return machine.read_rate(np.where(items > 1, 1, _DISPLACED) * filters)


def _lanes_of_tiles(work: Work, target: Target) -> tuple:
    """Groups of tiles in a block that fill the lanes, and the cycles of their input transform."""
    along_h, along_w = work.transforms
    rows, cols = work.block
    groups = rows * blocks(cols, work.lanes(target))
    in_rows, in_cols = work.strip
    columns = along_w.n * (along_h.instructions[0] + along_h.n) / 2
    across = along_h.products * (along_w.instructions[0] / 2 + along_w.products)
    return groups, work.channels * (in_rows * in_cols / 2 + groups * (columns + across))


def _past_caches(work: Work, target: Target) -> bool:
    """Whether outputs are stored past the caches, as whole lines."""
    whole = work.lanes(target) * work.itemsize == _LINE
    whole = whole and (work.layout == "NCHW" or work.filters * work.itemsize % _LINE == 0)
    return whole and work.batch * work.output_bytes >= kernels.PAST_CACHES[work.algorithm]


def _tile_lanes(work: Work, target: Target, machine: Machine) -> tuple:
    along_h, along_w = work.transforms
    share, _ = _paid(work, target)
    groups, input_ = _lanes_of_tiles(work, target)

    # Products need not be stored, columns must; rows are zipped if their tiles are powers of two, else
    # written one by one.
    products = _INSTRUCTION * along_h.products * along_w.products * work.channels
    columns = along_w.products * _pass(along_h.instructions[2], along_h.m)
    across = along_h.m * _pass(along_w.instructions[2], 0)
    m = along_w.m
    placing = np.where(m & (m - 1), work.lanes(target) / 2, (np.log2(m) + 1) / 4)
    arithmetic = groups * work.filters * (products + columns + across + along_h.m * m * placing)
    # Outputs are written row of tiles by row of tiles, in bursts.
    written = work.batch * work.output_bytes
    if _past_caches(work, target):
        written /= machine.memory_rate
    else:
        written /= machine.read_rate(_DISPLACED * work.output_bytes)
    busy = np.minimum(work.threads, np.maximum(1, work.items))
    multiply = share * arithmetic + written / busy
    return share * input_, multiply, 0.0


def _filter_lanes(work: Work, target: Target, machine: Machine) -> tuple:
    """Columns of positions pass, tile by tile: see `tiles_block` in csrc/filter_lanes.h.j2."""
    along_h, along_w = work.transforms
    rows, cols = work.block
    share, _ = _paid(work, target)
    _, input_ = _lanes_of_tiles(work, target)

    # For tiles * vectors products of a register block, tiles + vectors operands are loaded.
    # Additions and stores keep up with the multiply-adds unless they are more: most often they have
    # units of their own.
    tiles, vectors = kernels.TILES, kernels.register_block(target, work.algorithm).vectors
    filters = blocks(work.filters, work.lanes(target))
    vectors = min(vectors, filters)
    loads = max(1, (tiles + vectors) / (tiles * vectors))
    products = along_h.products * along_w.products * work.channels * loads
    columns = along_w.products * along_h.output_multiplies
    across = along_h.m * along_w.output_multiplies
    stores = along_h.m * (along_w.products + along_w.m)
    transform = (
        along_w.products * along_h.instructions[2] + along_h.m * along_w.instructions[2]
    ) / 2
    arithmetic = np.maximum(_DELAYS * (products + columns + across) / 2, stores + transform)
    # What a register block works with: U and V, and columns of sums that wait for the rows.
    vector = work.lanes(target) * work.itemsize
    u_bytes = along_h.products * along_w.products * work.channels * vectors * vector
    v_bytes = u_bytes / vectors
    waiting = tiles * vectors * along_h.m * along_w.products * vector
    fetched = u_bytes / machine.l2_rate / (tiles * vectors)
    spills = u_bytes + v_bytes + waiting > _L1
    arithmetic = np.where(spills, _roof(arithmetic, fetched, _STREAMED), arithmetic)
    arithmetic = arithmetic * (rows * cols * filters)
    written = work.batch * work.output_bytes
    if _past_caches(work, target):
        written /= machine.memory_rate
    else:  # lines are read first
        written *= 2 / machine.read_rate(work.output_bytes)
    busy = np.minimum(work.threads, np.maximum(1, work.items))
    multiply = _roof(share * arithmetic, written / busy, _STREAMED)
    return share * input_, multiply, 0.0


def _pixels(work: Work, target: Target, machine: Machine) -> tuple:
    lanes, size = work.lanes(target), work.itemsize
    taps = work.kernel[0] * work.kernel[1]
    rows, cols = work.block
    items = work.items
    filled, multiplied = _paid(work, target)
    in_rows, in_cols = work.strip
    channels = work.channels
    if work.layout == "NHWC" and not work.narrow(target):
        channels = blocks(channels, lanes) * lanes
    strip = in_rows * in_cols * channels * size
    copies = 1 + (taps if work.algorithm == "im2col" else 0)
    fetched = strip / machine.read_rate(work.input_bytes)
    input_ = filled * _roof(copies * 2 * strip / machine.l2_rate, fetched)

    filter_vectors = blocks(work.filters, lanes)
    if work.in_planes(target):
        high, vectors = kernels.plane_rows(target), blocks(cols, lanes)
        calls = blocks(work.filters, high)
        sums = _CALL[1] * blocks(vectors, kernels.PLANE_VECTORS) + _SUM[1] * high * vectors
        arithmetic = calls * (work.channels * high * vectors / 2 + sums)
        input_ = filled * fetched
    elif work.usual_depthwise:
        vectors = rows * blocks(cols, lanes) if work.layout == "NCHW" else rows * cols
        arithmetic = _DEPTHWISE * taps * vectors
        if work.layout == "NHWC":
            arithmetic, input_ = (
                arithmetic * blocks(work.groups, lanes) / work.groups,
                filled * fetched,
            )
    elif work.narrow(target) == "pixels":
        # Panels of filters, pairs of vectors of pixels.
        most = kernels.register_block(target, work.algorithm).rows
        rows_of_filters = blocks(work.filters, most)
        step = max(blocks(work.filters, rows_of_filters), _LATENCY)
        arithmetic = (
            rows
            * blocks(cols, 2 * lanes)
            * rows_of_filters
            * (work.channels * taps * step + _CALL[1] + 2 * _SUM[1] * step)
        )
    elif work.narrow(target) == "groups":
        arithmetic = rows * cols * taps / lanes
    else:
        depth = lanes * max(1, kernels.DEPTH[work.algorithm] // (taps * lanes))
        arithmetic = rows * _product(work, target, cols, depth, work.channels, taps)
    filters = taps * work.channels * filter_vectors * lanes * size
    multiply = multiplied * _roof(arithmetic, filters / _again(machine, filters, items))
    written = rows * cols * work.filters * size
    if work.layout == "NHWC" and _past_caches(work, target):
        written = written / machine.memory_rate
    else:
        written = written * 2 / machine.read_rate(work.output_bytes)
    if work.layout == "NHWC" or work.narrow(target):  # sums are stored where they belong, meanwhile
        return input_, _roof(multiply, multiplied * written, _STREAMED), 0.0
    arrange = _ARRANGE * lanes.bit_length() * rows * cols * filter_vectors
    return input_, multiply, multiplied * _roof(arrange, written)
