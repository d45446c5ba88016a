"""Winograd convolution on a device, as records of kernels: "mcmr".

Three kernels transform all tiles, multiply position by position, and transform the sums. A fused
one does all that tile by tile, without memory in between. All of F(m, r) along each axis comes from
the catalog and the planner that kernels for CPUs have, strides included.
"""

from __future__ import annotations

from winogen.codegen.devices.expressions import Id, Name, Number
from winogen.codegen.devices.statements import (
    Assign,
    Declare,
    DeviceArray,
    DeviceKernel,
    DeviceWork,
    If,
    Store,
)
from winogen.codegen.transform import Transform
from winogen.conv.problem import Problem
from winogen.opencl.cuts import Buffers, Parameters, lanes_of
from winogen.opencl.epilogue import DeviceEpilogue
from winogen.opencl.filters import transformed
from winogen.opencl.fused import convolve_tiles
from winogen.opencl.indices import Bounds
from winogen.opencl.product import multiply
from winogen.opencl.stores import phase_filters, stored, weight_array, weight_view
from winogen.opencl.tiles import TileGrid, both, index
from winogen.opencl.transforming import (
    Gather,
    Scatter,
    group_id,
    launched,
    loop,
    transform_input,
    transform_output,
)


def mcmr_work(
    problem: Problem,
    transforms: tuple[Transform, Transform],
    parameters: Parameters,
    bias: bool = False,
) -> DeviceWork:
    """Return the kernels that compute a problem of two axes by tiles.

    ``transforms``: the algorithms along the height and the width, made for the layer's taps and
    strides. ``bias``: whether a call brings one. Arrays are float32 or float16, the arithmetic is
    float32, and a work-item's factors of products are what the parameters say.
    """
    tiles = TileGrid(problem, *transforms)
    layer, planar = problem.layer, problem.layer.planar
    groups, block = layer.groups, parameters.block(planar)
    channels = layer.channels // groups
    buffers = Buffers.of(tiles, parameters)
    input_, output = arrays_of(problem)
    in_lanes, out_lanes = (
        lanes_of(parameters, planar, count) for count in (channels, phase_filters(problem))
    )
    gather = Gather(tiles, input_, in_lanes, planar and in_lanes > 1)
    finish = DeviceEpilogue(problem, bias, filters_in_lanes=not planar)
    scatter = Scatter(tiles, output, finish, out_lanes, planar and out_lanes > 1)
    packed, items = buffers.packed, parameters.items
    pack = pack_filters(tiles, packed, not planar or parameters.fused, items)
    routines = *gather.routines, *scatter.routines
    if buffers.tiles is None or buffers.sums is None:
        one = convolve_tiles(gather, scatter, packed, parameters.tiles, items)
        return DeviceWork((pack,), (one,), routines)
    rows, columns = (packed, buffers.tiles) if planar else (buffers.tiles, packed)
    comment = (
        f"Products of {tiles.positions} positions: of filters and tiles {parameters.filters} x "
        f"{parameters.tiles} for each work-item."
    )
    kernels = (
        transform_input(gather, buffers.tiles, items),
        multiply("multiply", comment, rows, columns, buffers.sums, channels, block),
        transform_output(scatter, buffers.sums, items),
    )
    return DeviceWork((pack,), kernels, routines)


def arrays_of(problem: Problem) -> tuple[DeviceArray, DeviceArray]:
    """Return the input and the output of a problem."""
    dtype = problem.layer.dtype
    return (
        DeviceArray("input", problem.input_shape, dtype, "input"),
        DeviceArray("output", stored(problem).output_shape, dtype, "output"),
    )


def pack_filters(
    tiles: TileGrid, packed: DeviceArray, filters_last: bool, items: int
) -> DeviceKernel:
    """Return the kernel that transforms the filters.

    ``packed``: (positions, groups, channels, filters), or with ``filters_last`` false (positions,
    groups, filters, channels); what does not exist becomes zero.
    """
    layer = tiles.problem.layer
    channels, filters = layer.channels // layer.groups, layer.filters // layer.groups
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
    bounds = Bounds({group: groups, filter: filters, channel: channels, k: taps_h, q: taps_w})
    place = weight_view(tiles.problem).at(group * filters + filter, channel, k, q, bounds=bounds)
    read = (Assign(taps[k, q], place.load),)
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
    return DeviceKernel(
        "pack_filters",
        "Filters, transformed and rounded once.",
        (weight_array(tiles.problem),),
        (packed,),
        (*counts, groups),
        (*size, 1),
        tuple(body),
    )
