"""A roofline model: how many cycles a way of computing a convolution takes, stage by stage.

Each stage does arithmetic and moves data; the slower of the two sets its time, and a part of the
other shows as well. What is counted: vector instructions of the transforms (from the programs),
steps of the GEMM's register block with its latency and its loads, bytes of filters, transformed
tiles, inputs and outputs by the cache level that they come from, and the waste of partial tiles,
lanes and panels.
"""

from __future__ import annotations

from dataclasses import dataclass

from winogen.codegen import kernels
from winogen.codegen.targets import Target
from winogen.conv.machine import Machine
from winogen.conv.work import Work, blocks

# The part of the faster of arithmetic and traffic that is not hidden behind the slower.
_SHOWS = 0.15
# Cycles to enter and leave the micro-kernel, and per accumulator that it loads, adds and stores.
_CALL = 20
_ACCUMULATOR = 1.0
# Latency of an FMA: with fewer accumulators than this times its rate, a step takes this long.
_LATENCY = 4
# A step's loads, two a cycle, besides the FMAs.
_LOADS = 2
# How much longer columns of few products take than their multiply-adds: each ends in a transform.
_DELAYS = 1.5
_LINE = 64
# The part of the first cache that can be counted on.
_L1 = 24 << 10
# Outputs that are stored while other data pass need this many times their size to stay in a cache.
_DISPLACED = 3


@dataclass(frozen=True)
class Prediction:
    """Cycles of one call on one of the threads that share it; `seconds` at the machine's clock."""

    input: float
    multiply: float
    output: float
    clock_ghz: float

    @property
    def cycles(self) -> float:
        """All stages, one after the other."""
        return self.input + self.multiply + self.output

    @property
    def seconds(self) -> float:
        """The predicted time of one call."""
        return self.cycles / (self.clock_ghz * 1e9)


def predict(work: Work, target: Target, machine: Machine) -> Prediction:
    """Return what ``work`` is predicted to cost."""
    few = _tile_lanes if work.layout == "NCHW" else _filter_lanes
    stage = few if work.few_channels else _tiles if work.tiled else _pixels
    input_, multiply, output = stage(work, target, machine)
    return Prediction(input_, multiply, output, machine.clock_ghz)


def _roof(arithmetic: float, traffic: float) -> float:
    return max(arithmetic, traffic) + _SHOWS * min(arithmetic, traffic)


def _product(work: Work, target: Target, rows: int, depth: int, channels: int, taps: int) -> float:
    """Cycles of the GEMM for ``rows`` rows against all filters, ``channels`` x ``taps`` deep."""
    height, vectors = kernels.register_block(target)
    panels = blocks(rows, height)
    panel = blocks(rows, panels)
    total = 0.0
    filters = blocks(work.filters, work.lanes(target))
    for width, count in ((vectors, filters // vectors), (filters % vectors, 1)):
        if not width or not count:
            continue
        for size, times in ((panel, rows // panel), (rows % panel, 1)):
            if size and times:
                step = max(size * width / 2, (size + width) / _LOADS, _LATENCY)
                chains = blocks(channels, depth)
                total += (
                    count
                    * times
                    * (channels * taps * step + _CALL + chains * _ACCUMULATOR * size * width)
                )
    return total


def _share(work: Work, items: int) -> float:
    """The items of the busiest thread, as a part of all; with split every item is shared."""
    if work.split:
        return 1 / work.threads
    return blocks(items, work.threads) / max(1, items)


def _tiles(work: Work, target: Target, machine: Machine) -> tuple[float, float, float]:
    along_h, along_w = work.transforms
    one_d = work.algorithm == "winograd1d"
    taps = work.kernel[0] if one_d else 1
    lanes, size = work.lanes(target), work.itemsize
    rows, cols = work.block
    items = work.items
    positions = along_h.products * along_w.products
    channel_vectors = blocks(work.channels, lanes)
    filter_vectors = blocks(work.filters, lanes)
    share = _share(work, items) * items  # blocks that one thread pays for

    # Input: pixels become channel vectors (NCHW: by transposition), then columns, then rows.
    lines = rows + taps - 1
    in_rows, in_cols = work.strip
    pixels = in_rows * in_cols
    arrange = (lanes.bit_length() + 1) * pixels if work.layout == "NCHW" else 0
    columns = lines * in_cols * (along_h.instructions[0] / 2 + along_h.products)
    across = lines * cols * along_h.products * (along_w.instructions[0] / 2 + along_w.products)
    transform = channel_vectors * (arrange + columns + across)
    fetched = pixels * work.channels * size / machine.read_rate(work.input_bytes)
    input_ = share * _roof(transform, fetched)

    # Product: filters are read once per block, transformed tiles once per band of filters, the sums
    # written and read again.
    filters = positions * taps * work.channels * filter_vectors * lanes * size
    v_bytes = positions * lines * cols * channel_vectors * lanes * size
    band = kernels.BAND * kernels.register_block(target)[1]
    if work.algorithm == "winograd2d":
        band = filter_vectors
    bands = blocks(filter_vectors, band)
    y_bytes = positions * rows * cols * min(filter_vectors, band) * lanes * size
    depth = kernels.DEPTH[work.algorithm]
    line_rows = (cols, rows) if one_d else (rows * cols, 1)
    arithmetic = (
        positions * line_rows[1] * _product(work, target, line_rows[0], depth, work.channels, taps)
    )
    again = machine.read_rate(filters) if items > 1 else machine.memory_rate
    traffic = filters / again
    if v_bytes + y_bytes > machine.l2_bytes * 3 // 4:
        traffic += (v_bytes + 2 * y_bytes) * bands / machine.l3_rate
    multiply = share * _roof(arithmetic, traffic)

    # Output: columns, then rows; NCHW transposes back. A written line is read first.
    columns = along_w.products * (along_h.instructions[2] / 2 + along_h.products / 2 + along_h.m)
    across = along_h.m * (along_w.instructions[2] / 2 + along_w.m)
    arrange = (lanes.bit_length() + 2) * along_h.m * along_w.m if work.layout == "NCHW" else 0
    transform = rows * cols * filter_vectors * (columns + across + arrange)
    written = 2 * rows * cols * along_h.m * along_w.m * work.filters * size
    written /= machine.read_rate(work.output_bytes)
    output = share * _roof(transform, written)
    return input_, multiply, output


def _lanes_of_tiles(work: Work, target: Target) -> tuple[int, float]:
    """Groups of tiles in a block that fill the lanes, and the cycles of their input transform."""
    along_h, along_w = work.transforms
    rows, cols = work.block
    groups = rows * blocks(cols, work.lanes(target))
    in_rows, in_cols = work.strip
    columns = along_w.n * (along_h.instructions[0] + along_h.n) / 2
    across = along_h.products * (along_w.instructions[0] / 2 + along_w.products)
    return groups, work.channels * (in_rows * in_cols / 2 + groups * (columns + across))


def _tile_lanes(work: Work, target: Target, machine: Machine) -> tuple[float, float, float]:
    along_h, along_w = work.transforms
    share = _share(work, work.items) * work.items
    groups, input_ = _lanes_of_tiles(work, target)

    # Three operands of two multiply-adds are loaded. Products need not be stored, columns must; rows
    # are zipped if their tiles are powers of two, else written one by one.
    products = 0.75 * along_h.products * along_w.products * work.channels
    columns = along_w.products * (along_h.instructions[2] + along_h.m) / 2
    across = along_h.m * along_w.instructions[2] / 2
    m = along_w.m
    placing = work.lanes(target) if m & (m - 1) else m.bit_length() / 2
    arithmetic = groups * work.filters * (products + columns + across + along_h.m * m * placing)
    written = 2 * work.out[0] * work.out[1] * work.filters * work.itemsize
    # Outputs are stored meanwhile, every row of a tile in a stream of its own.
    written *= work.batch * work.groups / machine.read_rate(_DISPLACED * work.output_bytes)
    written *= along_h.m / 2
    multiply = _roof(share * arithmetic, written / min(work.threads, max(1, work.items)))
    return share * input_, multiply, 0.0


def _filter_lanes(work: Work, target: Target, machine: Machine) -> tuple[float, float, float]:
    """Columns of positions pass, tile by tile: see `tiles_block` in csrc/filter_lanes.h.j2."""
    along_h, along_w = work.transforms
    rows, cols = work.block
    share = _share(work, work.items) * work.items
    _, input_ = _lanes_of_tiles(work, target)

    # For tiles * vectors products of a register block, tiles + vectors operands are loaded.
    # Additions and stores keep up with the multiply-adds unless they are more: most often they have
    # units of their own.
    tiles, vectors = kernels.TILES, kernels.register_block(target)[1]
    filters = blocks(work.filters, work.lanes(target))
    vectors = min(vectors, filters)
    loads = max(1, (tiles + vectors) / (tiles * vectors))
    products = along_h.products * along_w.products * work.channels * loads
    columns = along_w.products * along_h.ops["output"]["mul"]
    across = along_h.m * along_w.ops["output"]["mul"]
    stores = along_h.m * (along_w.products + along_w.m)
    transform = (
        along_w.products * along_h.instructions[2] + along_h.m * along_w.instructions[2]
    ) / 2
    arithmetic = max(_DELAYS * (products + columns + across) / 2, stores + transform)
    # What a register block works with: U and V, and columns of sums that wait for the rows.
    vector = work.lanes(target) * work.itemsize
    u_bytes = along_h.products * along_w.products * work.channels * vectors * vector
    v_bytes = u_bytes / vectors
    waiting = tiles * vectors * along_h.m * along_w.products * vector
    if u_bytes + v_bytes + waiting > _L1:
        arithmetic = _roof(arithmetic, u_bytes / machine.l2_rate / (tiles * vectors))
    arithmetic *= rows * cols * filters
    written = work.batch * work.output_bytes
    lines = vector == _LINE and work.filters * work.itemsize % _LINE == 0
    if lines and written >= kernels.PAST_CACHES:
        written /= machine.memory_rate
    else:  # lines are read first
        written *= 2 / machine.read_rate(work.output_bytes)
    multiply = _roof(share * arithmetic, written / min(work.threads, max(1, work.items)))
    return share * input_, multiply, 0.0


def _pixels(work: Work, target: Target, machine: Machine) -> tuple[float, float, float]:
    lanes, size = work.lanes(target), work.itemsize
    taps = work.kernel[0] * work.kernel[1]
    rows, cols = work.block
    items = work.items
    share = _share(work, items) * items
    in_rows, in_cols = work.strip
    channels = work.channels if work.layout == "NCHW" else blocks(work.channels, lanes) * lanes
    strip = in_rows * in_cols * channels * size
    copies = 1 + (taps if work.algorithm == "im2col" else 0)
    fetched = strip / machine.read_rate(work.input_bytes)
    input_ = share * _roof(copies * 2 * strip / machine.l2_rate, fetched)

    filter_vectors = blocks(work.filters, lanes)
    if work.narrow(target) == "pixels":
        # Panels of filters, pairs of vectors of pixels.
        most = kernels.register_block(target)[0]
        rows_of_filters = blocks(work.filters, most)
        step = max(blocks(work.filters, rows_of_filters), _LATENCY)
        arithmetic = (
            rows
            * blocks(cols, 2 * lanes)
            * rows_of_filters
            * (work.channels * taps * step + _CALL + 2 * _ACCUMULATOR * step)
        )
    elif work.narrow(target) == "groups":
        arithmetic = rows * cols * taps / lanes
    else:
        depth = lanes * max(1, kernels.DEPTH[work.algorithm] // (taps * lanes))
        arithmetic = rows * _product(work, target, cols, depth, work.channels, taps)
    filters = taps * work.channels * filter_vectors * lanes * size
    again = machine.read_rate(filters) if items > 1 else machine.memory_rate
    multiply = share * _roof(arithmetic, filters / again)
    written = 2 * rows * cols * work.filters * size / machine.read_rate(work.output_bytes)
    if work.layout == "NHWC" or work.narrow(target):  # sums are stored where they belong, meanwhile
        return input_, _roof(multiply, share * written), 0.0
    arrange = (lanes.bit_length() + 2) * rows * cols * filter_vectors
    return input_, multiply, share * _roof(arrange, written)
