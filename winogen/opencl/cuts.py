"""How Winograd's kernels of a device are cut: parameters, buffers, and what each kernel demands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from winogen.codegen.devices.statements import DeviceArray
from winogen.codegen.transform import Transform
from winogen.kernels.work import round_up
from winogen.opencl.counting import KernelDemand
from winogen.opencl.devices import DeviceInfo
from winogen.opencl.product import ProductBlock
from winogen.opencl.stores import phase_filters, stored
from winogen.opencl.tiles import TileGrid
from winogen.opencl.transforming import spread

# Sums of a work-item: so many numbers, where the device has no vectors, or vectors.
_MOST_SUMS, _MOST_VECTORS = 64, 16
# ... that keep a CPU busy, in two units of four cycles. It has more only where registers hold them,
# beside a row's number, which is spread as it is read, and a vector.
_BUSY = 8


@dataclass(frozen=True)
class Parameters:
    """How the kernels of a layer are cut: what a search may change, besides tile and points.

    In NHWC filters are in the lanes of products, in NCHW tiles.
    """

    filters: int = 8  # κ: of a work-item that multiplies
    tiles: int = 8  # σ: of a work-item that multiplies
    vector: int = 4  # v: lanes
    group: tuple[int, int] = (8, 8)  # work-items that multiply: along the lanes, across them
    staged: int = 0  # channels that a group copies to its memory at once; 0: none
    depth: int = 64  # channels of a chain of additions; 0: all
    items: int = 64  # the most work-items of a group that transforms
    tiles_in_lanes: bool = False  # whether one that transforms has a vector of them, in NCHW
    fused: bool = False  # whether one kernel does it all, which has no ``staged`` and no ``depth``

    def block(self, planar: bool) -> ProductBlock:
        """How products are cut."""
        rows, columns = (self.filters, self.tiles) if planar else (self.tiles, self.filters)
        return ProductBlock(
            rows, columns // self.vector, self.vector, self.group, self.staged, self.depth
        )

    def problems(self, tiles: TileGrid, device: DeviceInfo) -> list[str]:
        """Return what is wrong with them on a device, in words; nothing if they are fine."""
        planar = tiles.problem.layer.planar
        lanes = "tiles" if planar else "filters"
        shared = self.block(planar).local_bytes
        if self.fused:
            layer = tiles.problem.layer
            shared = 4 * tiles.positions * (layer.channels // layer.groups) * self.tiles
        conditions = {
            f"{lanes} are a multiple of vector": getattr(self, lanes) % self.vector == 0,
            "vector is 1, 2, 4, 8 or 16": self.vector in (1, 2, 4, 8, 16),
            "staged is a multiple of vector": self.staged % self.vector == 0,
            "depth is a multiple of vector": self.depth % self.vector == 0,
            f"a group has at most {device.group} items": self.group[0] * self.group[1]
            <= device.group
            and self.items <= device.group,
            f"groups have at most {device.items} items along each axis": self.group[0]
            <= device.items[0]
            and self.group[1] <= device.items[1]
            and self.items <= min(device.items[:2]),
            f"a group shares at most {device.local_bytes} bytes": shared <= device.local_bytes,
        }
        return [text for text, holds in conditions.items() if not holds]


class Buffers(NamedTuple):
    """What kernels of a problem keep between them; None: nothing, as one kernel does it all."""

    packed: DeviceArray
    tiles: DeviceArray | None = None
    sums: DeviceArray | None = None

    @classmethod
    def of(cls, tiles: TileGrid, parameters: Parameters) -> Buffers:
        """Return those of a problem, with rows and columns that make up whole blocks.

        In NHWC: packed filters (positions, groups, channels, filters), tiles (…, tiles, channels)
        and sums (…, tiles, filters). In NCHW: (…, filters, channels), (…, channels, tiles) and
        (…, filters, tiles).
        """
        layer, planar = tiles.problem.layer, tiles.problem.layer.planar
        lead = tiles.positions, layer.groups
        channels, filters = layer.channels // layer.groups, layer.filters // layer.groups
        if parameters.fused:
            return cls(DeviceArray("packed", (*lead, channels, filters), "float32", "packed"))
        tall, wide = parameters.block(planar).tile
        terms = round_up(channels, parameters.vector)
        if planar:
            room = round_up(filters, tall), round_up(tiles.count, wide)
            shapes = (room[0], terms), (channels, room[1]), room
        else:
            room = round_up(tiles.count, tall), round_up(filters, wide)
            shapes = (channels, room[1]), (room[0], terms), room
        packed, transformed, sums = ((*lead, *shape) for shape in shapes)
        return cls(
            DeviceArray("packed", packed, "float32", "packed"),
            DeviceArray("tiles", transformed, "float32", "workspace"),
            DeviceArray("sums", sums, "float32", "workspace"),
        )

    @property
    def workspace_bytes(self) -> int:
        """Of a call, besides its arrays and packed filters."""
        return sum(one.nbytes for one in self[1:] if one is not None)


def usual(tiles: TileGrid, device: DeviceInfo) -> Iterator[Parameters]:
    """Yield ways to cut products that a device has room for, the usual one first."""
    layer = tiles.problem.layer
    planar = layer.planar
    channels, filters = layer.channels // layer.groups, layer.filters // layer.groups
    in_lanes, in_rows = (tiles.count, filters) if planar else (filters, tiles.count)
    vector = _vector(device, in_lanes)
    staged = 16 if device.local_is_near and channels > 16 else 0
    # Of sums: of a chain, and of those before it.
    copies = 2 if channels > Parameters.depth else 1
    for rows, wide, group in product((8, 4, 2, 1), (2, 1, 4), ((8, 8), (2, 2))):
        if rows >= 2 * in_rows or (wide > 1 and (wide - 1) * vector >= in_lanes):
            continue
        if rows * wide * vector > max(_MOST_SUMS, _MOST_VECTORS * device.vector):
            continue
        held = copies * rows * wide + min(rows, wide) + 1
        if device.kind == "cpu" and rows * wide > _BUSY and held > device.registers:
            continue
        sizes = (rows, wide * vector) if planar else (wide * vector, rows)
        cut = Parameters(*sizes, vector, group, staged, items=_items(device))
        if not cut.problems(tiles, device):
            yield cut


def usual_fused(tiles: TileGrid, device: DeviceInfo) -> Iterator[Parameters]:
    """Yield ways to compute all in one kernel, where a group has room for the tiles."""
    layer = tiles.problem.layer
    filters = phase_filters(tiles.problem)
    lanes = 1 if layer.planar else _vector(device, filters)
    while filters % lanes:
        lanes //= 2
    for at_once in (16, 8, 32, 4):
        cut = Parameters(lanes, at_once, lanes, (1, 1), 0, 0, _items(device), fused=True)
        if not cut.problems(tiles, device):
            yield cut


def _vector(device: DeviceInfo, count: int) -> int:
    """The lanes of vectors of so many neighbours."""
    vector = device.vector if device.vector > 1 else 4
    while vector > 1 and vector >= 2 * count:
        vector //= 2
    return vector


def _items(device: DeviceInfo) -> int:
    """Work-items of a group that transforms."""
    return min(64, device.group, *device.items[:2])


def lanes_of(parameters: Parameters, planar: bool, count: int) -> int:
    """Return how many neighbours a work-item transforms: so many channels or filters, or tiles."""
    if planar:
        return parameters.vector if parameters.tiles_in_lanes and not parameters.fused else 1
    return parameters.vector if count % parameters.vector == 0 else 1


def demands(tiles: TileGrid, parameters: Parameters, device: DeviceInfo) -> list[KernelDemand]:
    """Return what each kernel of a call demands, without making them.

    `counting.demands` says nearly the same of the kernels when they are made, which takes longer.
    """
    problem, layer, planar = tiles.problem, tiles.problem.layer, tiles.problem.layer.planar
    channels, filters = layer.channels // layer.groups, layer.filters // layer.groups
    buffers, vector = Buffers.of(tiles, parameters), device.vector
    in_lanes, out_lanes = (
        lanes_of(parameters, planar, count) for count in (channels, phase_filters(problem))
    )
    input_bytes, output_bytes = (
        layer.itemsize * _numbers(shape)
        for shape in (problem.input_shape, stored(problem).output_shape)
    )
    gather = round_up(in_lanes, vector) * _gathered(tiles.height, tiles.width)
    scatter = round_up(out_lanes, vector) * _scattered(tiles.height, tiles.width)
    if planar:  # pixels and outputs of neighbouring tiles are no neighbours
        apart = in_lanes * round_up(1, vector) - round_up(in_lanes, vector)
        gather += tiles.height.n * tiles.width.n * apart
        scatter += tiles.height.m * tiles.width.m * apart
    added = problem.epilogue.add + problem.epilogue.add_after
    output_bytes *= 1 + added
    if parameters.fused:
        at_once, items = parameters.tiles, parameters.items
        blocks = -(-tiles.count // at_once) * layer.groups
        # Lanes are stored one by one.
        apart = in_lanes * round_up(1, vector) - round_up(in_lanes, vector)
        gather += tiles.positions * apart
        into = round_up(at_once * channels // in_lanes, items) * gather
        lanes = round_up(out_lanes, vector)
        scatter -= tiles.positions * lanes  # sums need not be read
        # A factor, a number and a multiply-add for each product.
        summed = tiles.positions * channels * (2 * lanes + round_up(1, vector))
        out = round_up(at_once * filters // out_lanes, items) * (summed + scatter)
        size = input_bytes + buffers.packed.nbytes + output_bytes
        # Every group reads all filters.
        moved = size + (blocks // layer.groups - 1) * buffers.packed.nbytes
        return [KernelDemand(blocks * (into + out), moved, size, blocks, items)]
    assert buffers.tiles is not None and buffers.sums is not None
    *_, across, along = buffers.tiles.shape
    first = along // in_lanes
    inputs = _transforming(first, across, layer.groups, parameters.items, gather)
    counts = filters // out_lanes, tiles.count
    if planar:
        counts = -(-tiles.count // out_lanes), filters
    outputs = _transforming(*counts, layer.groups, parameters.items, scatter)
    sizes = input_bytes + buffers.tiles.nbytes, buffers.sums.nbytes + output_bytes
    return [
        KernelDemand(inputs[0], sizes[0], sizes[0], *inputs[1:]),
        _product(buffers, parameters.block(planar), channels, device),
        KernelDemand(outputs[0], sizes[1], sizes[1], *outputs[1:]),
    ]


def _numbers(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _transforming(
    first: int, second: int, groups: int, items: int, each: int
) -> tuple[int, int, int]:
    """Operations, groups and items of a group of a kernel that transforms."""
    along, across = spread(items, first, second)
    count = round_up(first, along) * round_up(second, across) * groups
    return count * each, count // (along * across), along * across


def _gathered(height: Transform, width: Transform) -> int:
    """Operations on vectors of an input tile: its pixels, transformed, and stored."""
    into = width.n * height.instructions[0] + height.products * width.instructions[0]
    return height.n * width.n + into + height.products * width.products


def _scattered(height: Transform, width: Transform) -> int:
    """Operations on vectors of an output tile, the epilogue left out."""
    out = width.products * height.instructions[2] + height.m * width.instructions[2]
    return height.products * width.products + out + height.m * width.m


def _product(buffers: Buffers, block: ProductBlock, terms: int, device: DeviceInfo) -> KernelDemand:
    """What the products of all positions demand."""
    assert buffers.tiles is not None and buffers.sums is not None
    positions, groups, rows, columns = buffers.sums.shape
    tall, wide = block.tile
    count = rows // tall * (columns // wide) * positions * groups
    items = block.group[0] * block.group[1]
    lanes = round_up(block.lanes, device.vector)
    loads = block.rows * -(-terms // block.lanes) + block.vectors * terms
    sums = block.rows * block.vectors
    chains = -(-terms // block.depth) if block.depth and block.depth < terms else 0
    each = lanes * (loads + sums * (terms + chains + 1))
    if block.staged:
        each += 2 * lanes * _copied(block, terms)
    size = sum(one.nbytes for one in buffers if one is not None)
    return KernelDemand(count * items * each, size, size, count, items)


def _copied(block: ProductBlock, terms: int) -> int:
    """Vectors that an item copies to the memory of its group."""
    items = block.group[0] * block.group[1]
    tall, wide = block.tile

    def stage(count: int) -> int:
        rows = tall * -(-count // block.lanes)
        return -(-rows // items) + -(-(count * wide // block.lanes) // items)

    def chain(count: int) -> int:
        return count // block.staged * stage(block.staged) + stage(count % block.staged)

    length = min(block.depth or terms, terms)
    return terms // length * chain(length) + chain(terms % length)
