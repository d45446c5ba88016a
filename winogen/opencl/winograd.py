"""Winograd convolution on a device, as records of kernels: "mcmr".

Three kernels transform all tiles, multiply position by position, and transform the sums. A fused
one does all that tile by tile, without memory in between. All of F(m, r) along each axis comes from
the catalog and the planner that kernels for CPUs have, strides included.
"""

from __future__ import annotations

from dataclasses import dataclass

from winogen.codegen.devices.expressions import Expr, Id, Load, Name, Number
from winogen.codegen.devices.statements import (
    Array,
    Assign,
    Declare,
    If,
    Kernel,
    Store,
    Work,
)
from winogen.codegen.transform import Transform
from winogen.conv.problem import Problem
from winogen.opencl.devices import Device
from winogen.opencl.epilogue import Finish
from winogen.opencl.filters import transformed
from winogen.opencl.fused import convolve_tiles, local_bytes
from winogen.opencl.product import Block, multiply
from winogen.opencl.tiles import Tiles, both, index, padded
from winogen.opencl.transforming import (
    Gather,
    Scatter,
    group_id,
    launched,
    loop,
    transform_input,
    transform_output,
)


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
    fused: bool = False  # whether one kernel does it all, which has no ``staged`` and no ``depth``

    def block(self, planar: bool) -> Block:
        """How products are cut."""
        rows, columns = (self.filters, self.tiles) if planar else (self.tiles, self.filters)
        return Block(rows, columns // self.vector, self.vector, self.group, self.staged, self.depth)

    def problems(self, tiles: Tiles, device: Device) -> list[str]:
        """Return what is wrong with them on a device, in words; nothing if they are fine."""
        planar = tiles.problem.layer.planar
        lanes = "tiles" if planar else "filters"
        shared = self.block(planar).local_bytes
        if self.fused:
            shared = local_bytes(tiles, self.tiles)
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


def mcmr_work(
    problem: Problem,
    transforms: tuple[Transform, Transform],
    parameters: Parameters,
    bias: bool = False,
) -> Work:
    """Return the kernels that compute a problem of two axes by tiles.

    ``transforms``: the algorithms along the height and the width, made for the layer's taps and
    strides. ``bias``: whether a call brings one. Arrays are float32 or float16, the arithmetic is
    float32, and a work-item's factors of products are what the parameters say.
    """
    tiles = Tiles(problem, *transforms)
    layer, planar = problem.layer, problem.layer.planar
    groups, positions = layer.groups, tiles.positions
    channels, filters = layer.channels // groups, layer.filters // groups
    lead, lanes = (positions, groups), parameters.vector
    input_, output = arrays_of(problem)
    gather = Gather(tiles, input_, lanes_of(planar, channels, lanes))
    out_lanes = lanes_of(planar, filters, lanes)
    scatter = Scatter(tiles, output, Finish(problem, bias, filters_in_lanes=True), out_lanes)
    if parameters.fused:
        packed = Array("packed", (*lead, channels, filters), "float32", "packed")
        return Work(
            (pack_filters(tiles, packed, filters_last=True, items=parameters.items),),
            (convolve_tiles(gather, scatter, packed, parameters.tiles, parameters.items),),
            (*gather.routines, *scatter.routines),
        )
    block = parameters.block(planar)
    tall, wide = block.tile
    terms = padded(channels, lanes)
    if planar:
        room = padded(filters, tall), padded(tiles.count, wide)
        shapes = (room[0], terms), (channels, room[1]), room
    else:
        room = padded(tiles.count, tall), padded(filters, wide)
        shapes = (channels, room[1]), (room[0], terms), room
    packed = Array("packed", (*lead, *shapes[0]), "float32", "packed")
    v = Array("tiles", (*lead, *shapes[1]), "float32", "workspace")
    sums = Array("sums", (*lead, *shapes[2]), "float32", "workspace")
    rows, columns = (packed, v) if planar else (v, packed)
    comment = (
        f"Products of {positions} positions: of filters and tiles {parameters.filters} x "
        f"{parameters.tiles} for each work-item."
    )
    return Work(
        (pack_filters(tiles, packed, filters_last=not planar, items=parameters.items),),
        (
            transform_input(gather, v, parameters.items),
            multiply("multiply", comment, rows, columns, sums, channels, block),
            transform_output(scatter, sums, parameters.items),
        ),
        (*gather.routines, *scatter.routines),
    )


def arrays_of(problem: Problem) -> tuple[Array, Array]:
    """Return the input and the output of a problem."""
    dtype = problem.layer.dtype
    return (
        Array("input", problem.input_shape, dtype, "input"),
        Array("output", problem.output_shape, dtype, "output"),
    )


def lanes_of(planar: bool, count: int, vector: int) -> int:
    """Return how many neighbouring channels or filters are read at once."""
    return vector if not planar and count % vector == 0 else 1


def pack_filters(tiles: Tiles, packed: Array, filters_last: bool, items: int) -> Kernel:
    """Return the kernel that transforms the filters.

    ``packed``: (positions, groups, channels, filters), or with ``filters_last`` false (positions,
    groups, filters, channels); what does not exist becomes zero.
    """
    layer = tiles.problem.layer
    channels, filters = layer.channels // layer.groups, layer.filters // layer.groups
    weights = Array("weights", layer.weight_shape, "float32", "weights")
    _, groups, across, along = packed.shape
    first, second, group = Id("global", 0), Id("global", 1), group_id(groups)
    filter, channel = (first, second) if filters_last else (second, first)
    room = (along, across) if filters_last else (across, along)
    exists = both(
        filter < filters if filters < room[0] else Number(1),
        channel < channels if channels < room[1] else Number(1),
    )
    taps_h, taps_w = layer.kernel
    k, q, a = Name("k"), Name("q"), Name("a")
    taps = Declare("taps", (taps_h, taps_w))
    from_: Expr = index(weights.shape, group * filters + filter, channel, k, q)
    read = (Assign(taps[k, q], Load(weights.name, from_)),)
    columns, row, numbers = transformed(tiles.height, tiles.width, taps)
    width = tiles.width.products
    stores = [
        Store(packed.name, index(packed.shape, a * width + b, group, second, first), number)
        for b, number in enumerate(numbers)
    ]
    clear = Assign(taps[k, q], Number(0.0))
    body = [
        taps,
        loop("k", taps_h, loop("q", taps_w, clear, If(exists, read))),
        *columns,
        loop("a", tiles.height.products, *row, *stores, unroll=False),
    ]
    body, counts, size = launched([*body], items, (first, along), (second, across))
    return Kernel(
        "pack_filters",
        "Filters, transformed and rounded once.",
        (weights,),
        (packed,),
        (*counts, groups),
        (*size, 1),
        tuple(body),
    )
