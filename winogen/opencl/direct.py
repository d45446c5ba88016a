"""Direct convolution on devices, in up to four kernels: pad, sum over windows, add, crop.

The padded input is written only where a point asks for that; chunks are added only where a window
has several; a kernel crops only where a point asks for it. What is left out of these is in the
indices of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

from winogen.codegen.devices.expressions import Expr, Id, Load, Name, Number
from winogen.codegen.devices.statements import (
    Assign,
    Declare,
    DeviceArray,
    DeviceKernel,
    DeviceWork,
    ForLoop,
    If,
    Let,
    Statement,
    Store,
)
from winogen.conv.problem import Problem, plane_of
from winogen.opencl.constraints import Collector
from winogen.opencl.devices import DeviceInfo
from winogen.opencl.epilogue import DeviceEpilogue
from winogen.opencl.lets import Lets, chosen
from winogen.opencl.maps import IndexView, ReadPlace
from winogen.opencl.operations import YES
from winogen.opencl.scheme import DirectPoint, Scheme, numbers, scheme
from winogen.opencl.stores import output_view, stored, weight_array
from winogen.opencl.windows import WindowSums

GROUP = 64  # items of a work-group of kernels that move numbers


def direct_work(
    problem: Problem, point: DirectPoint, device: DeviceInfo, *, bias: bool = False
) -> DeviceWork:
    """Return the kernels of direct convolution with these parameters, for float32 or float16.

    Sums are in float32. ``device``: whose limits the kernels keep to. ``bias``: whether there is
    one, a number for each filter.

    The arrays have the names of their roles; "packed" are weights as G, M/G, KH, KW, channels,
    where the channels may end with zeros. Workspaces are "padded" (N, height, width, G, channels),
    "partial" (N, G, tiles, windows of a tile, M/G, chunks) and "sums" (N, height, width, M).

    Raises InvalidValue for a point that the problem or the device does not allow, saying why, and
    Unsupported for problems that no kernel of devices computes.
    """
    collector = Collector(device)
    plan = scheme(problem, numbers(point), collector)
    layer = problem.layer
    weights = weight_array(problem)
    packed = DeviceArray("packed", plan.taps.sizes, "float32", "packed")
    source = DeviceArray("input", problem.input_shape, layer.dtype, "input")
    output = DeviceArray("output", stored(problem).output_shape, layer.dtype, "output")
    finish = DeviceEpilogue(problem, bias)
    pack = moved(
        "pack_weights", "Weights with channels last, and zeros behind them.", plan.taps,
        weights, packed, device,
    )  # fmt: skip
    kernels: list[DeviceKernel] = []
    if point.pad:
        padded = DeviceArray("padded", plan.image.sizes, layer.dtype, "workspace")
        kernels.append(moved(
            "pad_input", "The padded input with channels last, and zeros behind them.",
            plan.image, source, padded, device,
        ))  # fmt: skip
        source = padded
    last = DeviceArray("sums", plan.sums.sizes, "float32", "workspace") if point.crop else output
    target = last
    if chosen(plan.chunks) > 1:
        target = DeviceArray("partial", plan.partial.sizes, "float32", "workspace")
    reads = (source, packed, *(finish.arrays if target is output else ()))
    kernels.append(WindowSums(problem, point, plan, finish).kernel(reads, target))
    if target is not last:
        kernels.append(_added(problem, plan, finish, target, last, device))
    if point.crop:
        kernels.append(_cropped(problem, plan, finish, last, output, device))
    return DeviceWork((pack,), tuple(kernels))


def direct_bytes(work: DeviceWork) -> dict[str, int]:
    """Return the bytes of every array of a work by name."""
    return {array.name: array.nbytes for array in work.arrays}


# Statements and a value, from the indices of an element and the block that they stand in.
_Value = Callable[[Lets, Sequence[Expr], Expr], tuple[list[Statement], Expr]]
# Where an element goes, from its indices.
_Into = Callable[[Lets, Sequence[Expr]], ReadPlace]


def elementwise(
    name: str,
    comment: str,
    reads: tuple[DeviceArray, ...],
    target: DeviceArray,
    axes: tuple[tuple[str, int], ...],
    value: _Value,
    device: DeviceInfo,
    into: _Into | None = None,
) -> DeviceKernel:
    """Return a kernel with an item for each number of an array, which is of these axes.

    ``value`` gets their indices, and where the number lies. The first axis is along the second one
    of the items. ``into``: of an array that has them elsewhere, or not at all.
    """
    lets = Lets()
    (lead, leads), *others = axes
    names, sizes = [axis for axis, _ in others], tuple(size for _, size in others)
    count = prod(sizes)
    group = min(GROUP, device.group, device.items[0])
    at = lets.let("at", Id("global", 0), max(2, count))
    first = lets.let(lead, Id("global", 1), leads)
    begin, lets = lets.statements, lets.inner()
    indices = lets.digits(at, sizes, tuple(names))
    place: Expr = first * count + at
    inside: Expr = YES
    if into is not None:
        found = into(lets, [first, *indices])
        place, inside = lets.let("place", found.index, 1 << 30), found.inside
    before, what = value(lets, [first, *indices], place)
    store: list[Statement] = [*before, Store(target.name, place, what)]
    body = [*lets.statements, *(store if inside == YES else [If(inside, tuple(store))])]
    if count % group:
        body = [If(at < count, tuple(body))]
    items = -(-count // group) * group
    return DeviceKernel(
        name, comment, reads, (target,), (items, leads, 1), (group, 1, 1), (*begin, *body)
    )


def moved(
    name: str,
    comment: str,
    view: IndexView,
    source: DeviceArray,
    target: DeviceArray,
    device: DeviceInfo,
) -> DeviceKernel:
    """Return a kernel that writes a view of an array to an array of its own."""
    axes = tuple(zip(_ORDINALS, view.sizes))

    def value(lets: Lets, indices: Sequence[Expr], to: Expr) -> tuple[list[Statement], Expr]:
        place = view.at(*indices, bounds=lets.bounds)
        if isinstance(place.inside, Number):
            return [], place.load
        inside = Let("inside", lets.read(place.inside))
        return [inside], replace(place, inside=inside.read).load

    return elementwise(name, comment, (source,), target, axes, value, device)


_ORDINALS = ("first", "second", "third", "fourth", "fifth")


def _output_axes(problem: Problem, size: Sequence[int], planar: bool) -> list[tuple[str, int]]:
    rows, columns = ("row", size[0]), ("column", size[1])
    filters = ("filter", problem.layer.filters)
    order = [filters, rows, columns] if planar else [rows, columns, filters]
    return [("image", problem.batch), *order]


def _added(
    problem: Problem,
    plan: Scheme,
    finish: DeviceEpilogue,
    partial: DeviceArray,
    target: DeviceArray,
    device: DeviceInfo,
) -> DeviceKernel:
    """The kernel that adds the sums of all chunks, and finishes them if they go to the output."""
    is_last = target.role == "output"
    planar = is_last and problem.layer.planar
    size = plane_of(problem.output_size) if is_last else plan.sums.sizes[1:3]
    chunks = chosen(plan.chunks)
    into = _interleaved(problem) if is_last else None

    def value(lets: Lets, indices: Sequence[Expr], place: Expr) -> tuple[list[Statement], Expr]:
        image, row, column, filter = _channels_last(indices, planar)
        read = plan.gathered.at(image, row, column, filter, 0, bounds=lets.bounds)
        first = Let("chunks_at", lets.read(read.index))
        total = Declare("total", value=Number(0.0))
        chunk = Name("chunk")
        more = Assign(total.read, total.read + Load("partial", first.read + chunk))
        loop = ForLoop("chunk", Number(0), Number(chunks), Number(1), (more,), unroll=True)
        statements: list[Statement] = [first, total, loop]
        if not is_last:
            return statements, total.read
        after, what = finish(total.read, filter, place)
        return [*statements, *after], what

    return elementwise(
        "add_chunks", f"Adds the sums of {chunks} chunks.",
        (partial, *(finish.arrays if is_last else ())), target,
        tuple(_output_axes(problem, size, planar)), value, device, into,
    )  # fmt: skip


def _cropped(
    problem: Problem,
    plan: Scheme,
    finish: DeviceEpilogue,
    sums: DeviceArray,
    output: DeviceArray,
    device: DeviceInfo,
) -> DeviceKernel:
    """The kernel that leaves out what no output is, and finishes the others."""
    planar = problem.layer.planar
    height, width = plane_of(problem.output_size)
    view = plan.sums.first(1, height).first(2, width)

    def value(lets: Lets, indices: Sequence[Expr], place: Expr) -> tuple[list[Statement], Expr]:
        image, row, column, filter = _channels_last(indices, planar)
        read = view.at(image, row, column, filter, bounds=lets.bounds)
        return finish(read.load, filter, place)

    return elementwise(
        "crop_output", "Leaves out the sums that are no outputs.", (sums, *finish.arrays), output,
        tuple(_output_axes(problem, (height, width), planar)), value, device,
        _interleaved(problem),
    )  # fmt: skip


def _interleaved(problem: Problem) -> _Into | None:
    """Where phases are stored; None: outputs lie where they are counted."""
    if problem.spread is None:
        return None

    def into(lets: Lets, indices: Sequence[Expr]) -> ReadPlace:
        at = _channels_last(indices, problem.layer.planar)
        return output_view(problem).at(*at, bounds=lets.bounds)

    return into


def _channels_last(indices: Sequence[Expr], planar: bool) -> list[Expr]:
    if not planar:
        return list(indices)
    image, channel, row, column = indices
    return [image, row, column, channel]
