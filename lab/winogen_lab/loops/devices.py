"""A loop nest as one kernel of a device: its outermost loops over outputs become work-items.

Statements of nests become the records of `winogen.codegen.devices`, which are printed as OpenCL C,
CUDA, WGSL and C. Groups and images are ids, too; what a nest copies or keeps waiting has a place in
the device's memory for each item.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from winogen.codegen.devices import statements as records
from winogen.codegen.devices.expressions import (
    Element,
    Expr,
    Id,
    Lane,
    Name,
    Number,
    Select,
    Splat,
    Vector,
)
from winogen.codegen.devices.expressions import Load as Read
from winogen.codegen.devices.statements import (
    Assign,
    Declare,
    DeviceArray,
    DeviceKernel,
    DeviceWork,
    ForLoop,
    If,
    Statement,
)
from winogen.conv.problem import Problem
from winogen.errors import Unsupported
from winogen.opencl.epilogue import DeviceEpilogue
from winogen.records import Target
from winogen_lab.loops.build import build
from winogen_lab.loops.items import ZERO, Places
from winogen_lab.loops.nest import (
    Add,
    Begin,
    Body,
    Copy,
    Fetch,
    Finish,
    Fma,
    For,
    Guard,
    HAdd,
    Let,
    Load,
    Nest,
    Node,
    Permute,
    Region,
    Store,
    Unscramble,
    substituted,
    walk,
)
from winogen_lab.loops.parameters import LoopProblem, Parameters

_GROUP = 64  # the most work-items of a group


def nest_work(
    problem: Problem, parameters: Parameters, target: Target, bias: bool = True
) -> DeviceWork:
    """Return the kernels of a layer by a nest: one that packs the filters, one that computes.

    ``target``: its vectors have the lanes. Raises InvalidValue for illegal parameters, Unsupported
    for other layers than float32 of two axes.
    """
    layer = problem.layer
    if layer.dtype != "float32" or layer.rank != 2:
        raise Unsupported(
            f"layer: got {layer.rank} axes of {layer.dtype}; allowed: two axes of float32"
        )
    size = problem.size[0], problem.size[1]
    ends = [end for axis in layer.axes for end in (axis.before, axis.after)]
    seen = LoopProblem.of(
        layer.layout, layer.channels, layer.filters, size, layer.kernel,  # type: ignore[arg-type]
        tuple(ends), layer.stride, layer.dilation, layer.groups,  # type: ignore[arg-type]
        layer.padding_mode,
    )  # fmt: skip
    nest = build(seen, parameters, target)
    return _Writer(problem, seen, nest, bias).work()


class _Writer(Places):
    """Statements of a nest as records."""

    def __init__(self, problem: Problem, seen: LoopProblem, nest: Nest, bias: bool):
        super().__init__(problem, seen, nest, bias)
        self.finish = DeviceEpilogue(problem, bias=False)

    def work(self) -> DeviceWork:
        """The kernel that packs the filters, and the one that computes."""
        return DeviceWork((self._pack(),), (self._kernel(),))

    def _kernel(self) -> DeviceKernel:
        count = self.items.count
        group = min(_GROUP, 1 << (count - 1).bit_length())
        part = records.Let("part", Id("global", 0))
        lets: list[Statement] = []
        left: Expr = part.read
        for index, low, step, size in reversed(self.items.loops):
            digit = left % size if lets or len(self.items.loops) > 1 else left
            left = left // size
            lets.append(records.Let(index, digit * step + low))
        used = {one for node in walk(self.nest.body) for one in self._used(node)}
        starts = self._starts([one for one in self.arrays if one in used or self._is_own(one)])
        body: tuple[Statement, ...] = (*reversed(lets), *starts, *self._body(self.items.body))
        if count % group:
            body = (If(part.read < count, body),)
        reads = [self.arrays[one] for one in ("image", "kernel") if one in used]
        if "bias" in used and self.bias:
            reads.append(self.arrays["bias"])
        inner = [self.arrays[one] for one in ("tile", "sums") if self._is_own(one)]
        return DeviceKernel(
            "convolve",
            "Direct convolution by a loop nest, whose outermost loops are the items: "
            f"{', '.join(index for index, *_ in self.items.loops) or 'none'}.",
            (*reads, *self.finish.arrays),
            (*inner, self.arrays["output"]),
            (-(-count // group) * group, self.problem.layer.groups, self.problem.batch),
            (group, 1, 1),
            (part, *body),
        )

    @staticmethod
    def _used(node: Node) -> tuple[str, ...]:
        match node:
            case Load() | Store():
                return (node.array,)
            case Copy():
                return ("image",)
            case Begin():
                return ("bias",)
        return ()

    # ---- the filters -------------------------------------------------------------------------

    def _pack(self) -> DeviceKernel:
        """Filters in the order in which the nest reads them; what fills up steps is zero."""
        layer, nest = self.problem.layer, self.nest
        weights = DeviceArray("weights", layer.weight_shape, "float32", "weights")
        at = records.Let("at", Id("global", 0))
        groups = [] if layer.groups == 1 else [records.Let("group", Id("global", 1))]
        group = min(_GROUP, 1 << (nest.packed - 1).bit_length())
        statements: list[Statement] = [at]
        place: dict[str, Expr] = {}
        left: Expr = at.read
        for dim, count, step in reversed(nest.packed_order):
            digit = records.Let(f"{'inner' if dim == 'm' else dim.lower()}", left % count * step)
            left = left // count
            statements.append(digit)
            place[dim] = digit.read
        m = place["M"] + place.get("m", Number(0))
        seen = self.seen
        index = (self.group * seen.filters + m) * seen.channels + place["C"]
        index = (index * seen.kernel[0] + place["Y"]) * seen.kernel[1] + place["X"]
        exists = (m < seen.filters) & (place["C"] < seen.channels)
        store = records.Store(
            "packed",
            self.group * nest.packed + at.read,
            Select(exists, Read("weights", index), ZERO),
        )
        body: tuple[Statement, ...] = (*statements[1:], store)
        if nest.packed % group:
            body = (If(at.read < nest.packed, body),)
        return DeviceKernel(
            "pack_filters",
            "Filters in the order in which the nest reads them, zeros where there are none.",
            (weights,),
            (self.arrays["kernel"],),
            (-(-nest.packed // group) * group, layer.groups, 1),
            (group, 1, 1),
            (at, *groups, *body),
        )

    # ---- statements --------------------------------------------------------------------------

    def _body(self, body: Body) -> tuple[Statement, ...]:
        found: list[Statement] = []
        before: For | None = None
        for node in body:
            start = None
            if isinstance(node, For) and node.resumes and before is not None:
                start = self._end(before)
            found += self._statement(node, start)
            before = node if isinstance(node, For) else None
        return tuple(found)

    def _statement(self, node: Node, start: Expr | None) -> Sequence[Statement]:
        match node:
            case For():
                return self._loop(node, start)
            case Guard(conditions, body, otherwise):
                holds = [self._affine(one) >= 0 for one in conditions]
                test = reduce(lambda one, other: one & other, holds)
                return [If(test, self._body(body), self._body(otherwise))]
            case Let(symbol, zero):
                lanes = self.lanes if symbol.kind == "vector" else 1
                return [Declare(symbol.name, symbol.shape, lanes, True, ZERO if zero else None)]
            case Load():
                return [Assign(self._register(node.to), self._loaded(node))]
            case Store():
                return self._stored(node)
            case Fma(sum_, a, b, lane):
                target, factor = self._register(sum_), self._register(b)
                if lane is not None:
                    factor = Lane(factor, lane.const)  # type: ignore[assignment]
                return [Assign(target, target + self._register(a) * factor)]
            case Add(sum_, a):
                target = self._register(sum_)
                return [Assign(target, target + self._register(a))]
            case HAdd(sum_, a):
                target, vector = self._register(sum_), self._register(a)
                lanes_ = [Lane(vector, k) for k in range(self.lanes)]
                return [Assign(target, target + reduce(lambda x, y: x + y, lanes_))]  # type: ignore[arg-type, return-value]
            case Permute(to, a, lanes):
                vector = self._register(a)
                return [Assign(self._register(to), Vector(tuple(Lane(vector, k) for k in lanes)))]
            case Unscramble():
                return self._unscrambled(node)
            case Copy():
                return self._copied(node)
            case Begin():
                return self._begun(node)
            case Finish():
                return self._finished(node)
            case Fetch():
                return []
        raise TypeError(f"{type(node).__name__} has no kernel")

    def _loop(self, node: For, start: Expr | None) -> Sequence[Statement]:
        lanes = (one.lane for one in walk(node.body) if isinstance(one, Fma) and one.lane)
        # Lanes of vectors are known ones.
        if node.role == "register" and any(node.index in lane.names for lane in lanes):
            values = range(node.low.const, node.high[0].const, node.step)
            return [self._once(node, value) for value in values]
        (end, *others) = node.high
        known = not (node.low.names or end.names or others or start)
        if known and node.low.const < end.const <= node.low.const + node.step:
            return [self._once(node, node.low.const)]
        low = self._affine(node.low) if start is None else start
        unroll = node.role == "register"
        inner = self._body(node.body)
        return [ForLoop(node.index, low, self._least(node.high), Number(node.step), inner, unroll)]

    def _once(self, node: For, value: int) -> If:
        """The body of a loop for one value of its index, whose names are its own."""
        body: Body = substituted(node.body, {node.index: value}, {})
        return If(Number(1), self._body(body))

    def _loaded(self, node: Load) -> Expr:
        address = self._affine(node.address)
        if node.kind != "vector":
            one = self._read(node.array, address)
            if node.inside is not None:
                one = Select(self._is_inside(node.inside, 0), one, ZERO)
            return one if node.kind == "scalar" else Splat(one, self.lanes)
        run = node.run or self.lanes
        whole = node.some is None and (run == self.lanes or (run == 1 and node.stride == 1))
        if whole and (node.inside is None or run == self.lanes):
            vector = self._read(node.array, address, self.lanes)
            if node.inside is None:
                return vector
            return Select(self._is_inside(node.inside, 0), vector, Splat(ZERO, self.lanes))
        numbers = []
        for lane in range(self.lanes):
            place, within = divmod(lane, run)
            test: Expr = Number(1)
            if node.some is not None:
                test = test & (within < self._affine(node.some))
            if node.inside is not None:
                test = test & self._is_inside(node.inside, place)
            one = self._read(node.array, address + (place * node.stride + within))
            numbers.append(one if test == Number(1) else Select(test, one, ZERO))
        return Vector(tuple(numbers))

    def _stored(self, node: Store) -> Sequence[Statement]:
        address, value = self._affine(node.address), self._register(node.value)
        if node.scalar or node.some is None:
            return [self._write(node.array, address, value)]
        some = self._affine(node.some)
        one_by_one = tuple(
            If(lane < some, (self._write(node.array, address + lane, Lane(value, lane)),))
            for lane in range(self.lanes)
        )
        whole = (self._write(node.array, address, value),)
        return [If(some >= self.lanes, whole, one_by_one)]

    def _unscrambled(self, node: Unscramble) -> Sequence[Statement]:
        lanes, block = self.lanes, node.block
        place = tuple(map(self._affine, node.sums.place))

        def lane_of(pixel: int, filter_: int) -> Expr:
            moved = (pixel // block - filter_ // block) % (lanes // block)
            turned = (filter_ - pixel) % block
            index = (*place, Number(moved * block + turned))
            vector = Element(node.sums.name, index, True, lanes)
            return Lane(vector, filter_ // block * block + pixel % block)

        by_pixel = node.by == "W"
        return [
            Assign(
                Element(node.to, (Number(i),), True, lanes),
                Vector(tuple(lane_of(i, j) if by_pixel else lane_of(j, i) for j in range(lanes))),
            )
            for i in range(lanes)
        ]

    # ---- regions -----------------------------------------------------------------------------

    def _copied(self, node: Copy) -> Sequence[Statement]:
        rows, columns, channels = node.size
        low = [self._affine(one) for one in node.low]
        r, q, k = Name("tile_row"), Name("tile_column"), Name("tile_channel")
        row, column = records.Let("row", low[0] + r), records.Let("column", low[1] + q)
        y, is_row = self._source(row.read, 0)
        x, is_column = self._source(column.read, 1)
        exists = is_row & is_column
        if channels > self.seen.channels or node.low[2].names:
            exists = exists & (low[2] + k < self.seen.channels)
        strides, layout = self.seen.input, node.layout
        index = y * strides.row + x * strides.pixel + (low[2] + k) * strides.channel
        across = q * layout.col
        if layout.block:
            across = q // layout.block * (layout.block * layout.col) + q % layout.block
        to = r * layout.row + across + k * layout.channel
        value = Select(exists, self._read("image", index), ZERO)
        body: tuple[Statement, ...] = (self._write("tile", to, value),)
        for name, size, let in ((k, channels, None), (q, columns, column), (r, rows, row)):
            inner = body if let is None else (let, *body)
            body = (ForLoop(name.name, Number(0), Number(size), Number(1), inner),)
        return body

    def _each(self, region: Region, one: Callable[..., Sequence[Statement]]) -> Sequence[Statement]:
        """Loops over the outputs of a region; ``one`` gets each, and its place in the region."""
        k, r, q = Name("output_filter"), Name("output_row"), Name("output_column")
        low = [self._affine(form) for form in region.low]
        sizes = [self._least(bound) for bound in region.size]
        body = tuple(one(low[0] + k, low[1] + r, low[2] + q, (k, r, q)))
        names = (k, r, q) if self.problem.layer.planar else (r, q, k)
        by_name = dict(zip((k.name, r.name, q.name), sizes))
        for name in reversed(names):
            body = (ForLoop(name.name, Number(0), by_name[name.name], Number(1), body),)
        return body

    def _begun(self, node: Begin) -> Sequence[Statement]:
        address = self._affine(node.address)

        def start(m: Expr, h: Expr, w: Expr, place: tuple[Expr, Expr, Expr]) -> list[Statement]:
            return [self._write(node.array, address + self._in_sums(place), self._read("bias", m))]

        zeros: tuple[Statement, ...] = ()
        if node.array == "sums":
            # Steps of the micro-kernel may go beyond the outputs.
            zero = (self._write("sums", Name("sum_place"), ZERO),)
            zeros = (ForLoop("sum_place", Number(0), Number(self.nest.sums), Number(1), zero),)
        return [*zeros, *self._each(node.region, start)]

    def _finished(self, node: Finish) -> Sequence[Statement]:
        epilogue, to, seen = self.problem.epilogue, self.seen.output, self.seen
        if not node.waits and not epilogue.means:
            return []

        def deliver(m: Expr, h: Expr, w: Expr, place: tuple[Expr, Expr, Expr]) -> list[Statement]:
            address = m * to.channel + h * to.row + w * to.pixel
            value = (
                self._read("sums", self._in_sums(place))
                if node.waits
                else self._read("output", address)
            )
            named = records.Let("sum_of_one", value)
            index = self._base("output") + address
            before, result = self.finish(named.read, self.group * seen.filters + m, index)
            return [named, *before, records.Store("output", index, result)]

        return self._each(node.region, deliver)
