"""The kernel of direct convolution that sums over windows, chunk by chunk."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from math import gcd
from operator import add

from winogen.codegen.devices.expressions import (
    Expr,
    FunctionCall,
    Id,
    Lane,
    Load,
    Name,
    Number,
    Select,
    expr,
    splat,
)
from winogen.codegen.devices.statements import (
    Assign,
    Declare,
    DeviceArray,
    DeviceKernel,
    ForLoop,
    If,
    Let,
    Statement,
    Store,
)
from winogen.conv.problem import Problem, plane_of
from winogen.opencl.epilogue import DeviceEpilogue
from winogen.opencl.indices import quotient, remainder
from winogen.opencl.lets import Lets, apart, chosen
from winogen.opencl.maps import ReadPlace
from winogen.opencl.operations import YES
from winogen.opencl.scheme import DirectPoint, Scheme

COMMENT = """\
An item sums {chunk} of a window for {filters} and {windows}.
Work-groups: blocks of filters, tiles, images; items of one: chunks, windows of the tile."""


class WindowSums:
    """Makes the kernel: ids, loops, sums, and where they go."""

    def __init__(
        self, problem: Problem, point: DirectPoint, scheme: Scheme, finish: DeviceEpilogue
    ):
        self.problem = problem
        self.point = point
        self.scheme = scheme
        self.finish = finish
        (self.batch, self.groups, self.tiles, self.window_rounds, _, _,
         self.chunk_rounds, _, _) = scheme.inputs.sizes  # fmt: skip
        self.blocks = scheme.weights.sizes[1]
        self.lanes = 1 if point.dot else point.vector
        self.sums = Declare(
            "total", (point.filters, point.windows), self.lanes, value=splat(0, self.lanes)
        )

    def kernel(self, reads: tuple[DeviceArray, ...], target: DeviceArray) -> DeviceKernel:
        """Return the kernel that reads the padded input and packed weights, writing ``target``."""
        point, lets = self.point, Lets()
        block = lets.let("block", Id("group", 0), self.groups * self.blocks)
        self.group, self.block = lets.digits(
            block, (self.groups, self.blocks), ("filter_group", "filter_block")
        )
        self.tile = lets.let("tile", Id("group", 1), self.tiles)
        self.image = lets.let("image", Id("group", 2), self.batch)
        chunk = lets.let("local_chunk", Id("local", 0), point.local_chunks)
        window = lets.let("local_window", Id("local", 1), point.local_windows)
        within = lets.inner()
        window_round = within.loop("window_round", self.window_rounds)
        chunk_round = within.loop("chunk_round", self.chunk_rounds)
        body = self._rounds(within, (window_round, window), (chunk_round, chunk), target)
        body = [*within.statements, *body]
        for at, count in ((chunk_round, self.chunk_rounds), (window_round, self.window_rounds)):
            if isinstance(at, Name):
                body = [ForLoop(at.name, Number(0), Number(count), Number(1), tuple(body))]
        return DeviceKernel(
            "sum_windows",
            COMMENT.format(
                chunk=_some(point.chunk * point.vector, "number"),
                filters=_some(point.filters, "filter"),
                windows=_some(point.windows, "window"),
            ),
            reads,
            (target,),
            (
                self.groups * self.blocks * point.local_chunks,
                self.tiles * point.local_windows,
                self.batch,
            ),
            (point.local_chunks, point.local_windows, 1),
            (*lets.statements, *body),
        )

    def _rounds(
        self, lets: Lets, window: tuple[Expr, Expr], chunk: tuple[Expr, Expr], target: DeviceArray
    ) -> list[Statement]:
        """The sums of an item's windows over one chunk, and where they go."""
        first = (window[0] * self.point.local_windows + window[1]) * self.point.windows
        of_all = chunk[0] * self.point.local_chunks + chunk[1]
        stores: list[Statement] = []
        for s in range(self.point.windows):
            if target.name == "partial":
                stores += self._to_partial(lets, first + s, s, of_all)
            else:
                stores += self._to_output(lets, first + s, s, target.name == "output")
        return [self.sums, *self._summed(lets, window, chunk), *stores]

    # ---- sums --------------------------------------------------------------------------------

    def _summed(
        self, lets: Lets, window: tuple[Expr, Expr], chunk: tuple[Expr, Expr]
    ) -> list[Statement]:
        """Loops over the vectors of a chunk: taps outside, channels inside."""
        point = self.point
        run = self._run()
        rows, columns = self._taps(point.chunk // run)
        loops = [("tap_row", rows), ("tap", columns), ("vector", run)]
        outer = lets.inner()
        row, tap, vector = (outer.loop(name, count) for name, count in loops)
        at = (row * columns + tap) * run + vector
        moving = frozenset(("vector",))

        def read(place: ReadPlace, name: str) -> Expr:
            """What is there; all that stays the same in the inner loop gets a name outside."""
            still, moved = apart(place.index, moving)
            if place.inside != YES:
                outer.statements.append(there := Let(f"{name}_inside", outer.read(place.inside)))
                place = replace(place, inside=there.read)
                still = Select(there.read, outer.read(still), Number(0))
            else:
                still = outer.read(still)
            base = self._named(outer, f"{name}_at", still)
            return place.or_zero(Load(place.array, base + moved, place.lanes, place.aligned))

        inner: list[Statement] = []
        pixels, weights = [], []
        for s in range(point.windows):
            place = self.scheme.inputs.at(
                self.image, self.group, self.tile, *window, s, *chunk, at, bounds=outer.bounds
            )
            inner.append(let := Let(f"x{s}", read(place, f"x{s}")))
            pixels.append(let.read)
        for k in range(point.filters):
            place = self.scheme.weights.at(
                self.group, self.block, k, *chunk, at, bounds=outer.bounds
            )
            inner.append(let := Let(f"w{k}", read(place, f"w{k}")))
            weights.append(let.read)
        inner += [
            Assign(self.sums[k, s], self._product(w, x, self.sums[k, s]))
            for k, w in enumerate(weights)
            for s, x in enumerate(pixels)
        ]
        unroll = bool(point.unroll)
        body = _loop("vector", run, inner, unroll)
        body = _loop("tap", columns, [*outer.statements, *body], unroll)
        return _loop("tap_row", rows, body, unroll)

    def _named(self, lets: Lets, name: str, base: Expr) -> Expr:
        if isinstance(base, Name | Number):
            return base
        lets.statements.append(one := Let(name, base))
        return one.read

    def _product(self, weight: Expr, pixel: Expr, sums: Expr) -> Expr:
        if not self.point.dot or self.point.vector == 1:
            return FunctionCall("fma", (weight, pixel, sums))
        for lane in range(self.point.vector):
            sums = FunctionCall("fma", (Lane(weight, lane), Lane(pixel, lane), sums))
        return sums

    def _run(self) -> int:
        """How many vectors of a chunk, one behind the other, are of the same pixel."""
        vectors = self.scheme.taps.sizes[-1] // self.point.vector
        chunks = chosen(self.scheme.chunks)
        if self.point.coalesced:
            return vectors // chunks if vectors % chunks == 0 else 1
        return gcd(self.point.chunk, vectors)

    def _taps(self, taps: int) -> tuple[int, int]:
        """Loops over so many taps: over rows of the filter and the taps of one, if that is even."""
        width = self.problem.layer.plane[1].kernel
        return (taps // width, width) if taps % width == 0 else (1, taps)

    # ---- results -----------------------------------------------------------------------------

    def _to_partial(self, lets: Lets, window: Expr, s: int, chunk: Expr) -> list[Statement]:
        place = self.scheme.partial.at(
            self.image, self.group, self.tile, window, self._filter(0), chunk, bounds=lets.bounds
        )
        base = self._named(lets, f"at{s}", lets.read(place.index))
        step = chosen(self.scheme.chunks)
        return [
            Store("partial", base + k * step, self._all_lanes(k, s))
            for k in range(self.point.filters)
        ]

    def _to_output(self, lets: Lets, window: Expr, s: int, is_last: bool) -> list[Statement]:
        """To the output, finished, or to what is cropped later."""
        wide, tiles_wide = chosen(self.scheme.windows[1]), chosen(self.scheme.tiles[1])
        bounds = lets.bounds
        row = quotient(self.tile, tiles_wide, bounds) * chosen(self.scheme.windows[0])
        column = remainder(self.tile, tiles_wide, bounds) * wide
        y = lets.let(f"out_y{s}", lets.read(row + quotient(window, wide, bounds)), 1 << 30)
        x = lets.let(f"out_x{s}", lets.read(column + remainder(window, wide, bounds)), 1 << 30)
        filters = self.group * (self.blocks * self.point.filters) + self._filter(0)
        view = self.scheme.output if is_last else self.scheme.sums
        stores: list[Statement] = []
        for k in range(self.point.filters):
            place = view.at(self.image, y, x, filters + k, bounds=bounds)
            value = self._all_lanes(k, s)
            store: list[Statement] = []
            if is_last:
                store, value = self.finish(value, filters + k, place.index, f"f{k}_{s}")
            store.append(Store(view.array, place.index, value))
            stores += store if place.inside == YES else [If(place.inside, tuple(store))]
        if not is_last:
            return stores
        exists: Expr = Number(1)
        outputs = plane_of(self.problem.output_size)
        computed = [chosen(t) * chosen(w) for t, w in zip(self.scheme.tiles, self.scheme.windows)]
        for at, count, most in zip((y, x), outputs, computed):
            if most > count:
                exists = exists & (at < count)
        return stores if exists == Number(1) else [If(exists, tuple(stores))]

    def _filter(self, k: int) -> Expr:
        """A filter of the item, counted within its group."""
        return self.block * self.point.filters + k

    def _all_lanes(self, k: int, s: int) -> Expr:
        kept = self.sums[k, s]
        if self.lanes == 1:
            return kept
        return reduce(add, [Lane(kept, lane) for lane in range(self.lanes)])


def _loop(name: str, count: int, body: list[Statement], unroll: bool) -> list[Statement]:
    """A loop; only its body where it runs once."""
    if count == 1:
        return body
    return [ForLoop(name, Number(0), expr(count), Number(1), tuple(body), unroll)]


def _some(count: int, noun: str) -> str:
    return f"{count} {noun}" + "s" * (count != 1)
