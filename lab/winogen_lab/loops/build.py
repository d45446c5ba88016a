"""From a problem and parameters to a loop nest.

The loops stand in the order of the parameters around one run of the micro-kernel. Then come the
passes of `winogen_lab.loops.passes`: copies of inputs and guards against padding move outwards as
far as their indices are known, loops are unrolled, accesses prefetch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from winogen.records import NUMBERS, Target
from winogen_lab.loops import micro, passes
from winogen_lab.loops.nest import (
    Affine,
    Begin,
    Body,
    Bound,
    Copy,
    Finish,
    For,
    Guard,
    Nest,
    Region,
    TileLayout,
    Widen,
)
from winogen_lab.loops.parameters import DIMS, IMAGE_DIMS, SUMMED, LoopProblem, Parameters
from winogen_lab.loops.rules import check


@lru_cache(maxsize=256)
def build(problem: LoopProblem, nest: Parameters, target: Target) -> Nest:
    """Return the loop nest, all passes done; raises InvalidValue if the parameters are illegal.

    >>> from winogen.records import TARGETS
    >>> layer = LoopProblem.of("NHWC", 8, 16, (6, 6), (3, 3))
    >>> nest = Parameters("filters-yxc", "HWC", "MYXCm", "HWM", ("H", "M", "W"), pixels=4)
    >>> build(layer, nest, TARGETS["generic"]).tile    # inputs are read where they lie
    0
    """
    made = _Builder(check(problem, nest, target), problem, target)
    return passes.lowered(made.nest(), nest)


@dataclass(frozen=True)
class _Span:
    """What a part of the nest goes through along a dim: from `low` on, at most `size`."""

    low: Affine
    size: int


class _Builder:
    """Everything that follows from problem and parameters; sizes are in numbers."""

    def __init__(self, nest: Parameters, problem: LoopProblem, target: Target):
        self.parameters, self.problem = nest, problem
        self.lanes = target.lanes(problem.dtype)
        self.block = 16 // NUMBERS[problem.dtype].itemsize
        self.kind = nest.kind
        self.step = {dim: nest.step(dim, self.lanes) for dim in DIMS}
        self.taps = self.kind.taps(problem.kernel)
        self.parallel = nest.order[:1] if nest.order and nest.order[0][0] in "MHW" else ()
        # Loops of more than one step over what is summed, around the micro-kernel.
        summed = [
            place
            for place, loop in enumerate(nest.order)
            if loop[0] in SUMMED and problem.extent(loop[0]) > self._block_of(loop)
        ]
        self.writes = not summed
        outers = [place + 1 for place, loop in enumerate(nest.order) if loop.endswith(".o")]
        head = max([*outers, len(self.parallel)], default=0)
        # Outputs begin and are finished inside of so many loops.
        self.finished_at = min([*summed[:1], head])
        done = nest.order[: self.finished_at]
        self.outputs = {dim: self._span(dim, done) for dim in "MHW"}
        # Tiles are copied inside of the outer loops and of the parallel one.
        fixed = tuple(loop for loop in nest.order if loop.endswith(".o") or loop in self.parallel)
        self.inputs = {dim: self._span(dim, fixed) for dim in IMAGE_DIMS}
        self._lay_out()

    def _block_of(self, loop: str) -> int:
        """How much of its dim one step of a loop goes through."""
        dim = loop[0]
        block = self.parameters.block(dim)
        return block if loop.endswith(".o") and block else self.step[dim]

    def _span(self, dim: str, loops: tuple[str, ...]) -> _Span:
        """What is left of a dim inside of these loops."""
        for loop in (dim, f"{dim}.i"):
            if loop in loops:
                return _Span(Affine.of(dim.lower()), min(self.step[dim], self.problem.extent(dim)))
        if f"{dim}.o" in loops:
            return _Span(Affine.of(f"{dim.lower()}_o"), self.parameters.block(dim) or 0)
        return _Span(Affine(), self.problem.extent(dim))

    def _lay_out(self) -> None:
        """Sizes and pitches of the tile, of waiting sums and of packed filters."""
        problem, nest, step = self.problem, self.parameters, self.step
        (s_h, s_w), (d_h, d_w) = problem.stride, problem.dilation
        size = {dim: -(-span.size // step[dim]) * step[dim] for dim, span in self.inputs.items()}
        self.tile_size = (
            (size["H"] - 1) * s_h + (size["Y"] - 1) * d_h + 1,
            (size["W"] - 1) * s_w + (size["X"] - 1) * d_w + 1,
            size["C"],
        )
        blocked = nest.image.endswith("w")
        pitch, pitches = 1, {}
        counts = dict(zip("HWC", self.tile_size))
        for dim in reversed("HWC" if blocked else nest.image):
            pitches[dim] = pitch
            pitch *= counts[dim]
        if blocked:  # H (W/L) C L
            pitches |= {"C": self.lanes, "W": counts["C"]}
        self.tile = TileLayout(
            pitches["H"], pitches["W"], pitches["C"], self.lanes if blocked else 0
        )
        self.tile_numbers = pitch if nest.copies == "explicit" else 0

        # Narrow outputs are rounded when they are complete.
        self.waits = nest.output != problem.output_layout or bool(problem.arrays)
        pitch, of_sums, self.region = 1, {}, {}
        for dim in reversed(nest.output):
            of_sums[dim] = pitch
            self.region[dim] = -(-self.outputs[dim].size // step[dim]) * step[dim]
            pitch *= self.region[dim]
        self.sums_numbers = pitch if self.waits else 0
        strides = problem.output
        self.output_pitch = (
            of_sums if self.waits
            else {"M": strides.channel, "H": strides.row, "W": strides.pixel}
        )  # fmt: skip

        whole = {dim: -(-problem.extent(dim) // step[dim]) * step[dim] for dim in "MC"}
        whole |= {dim: problem.extent(dim) for dim in "YX"}
        pitch, self.kernel_pitch, loops = 1, {}, []
        for dim in reversed(nest.kernel):
            inner = dim == "m"
            count = step["M"] if inner else whole[dim]
            if dim == "M" and nest.kernel.endswith("m"):
                count //= step["M"]
            self.kernel_pitch[dim] = pitch
            loops.append((dim, count, step["M"] if count != whole.get(dim) and dim == "M" else 1))
            pitch *= count
        if nest.kernel.endswith("m"):  # an m that is a multiple of the step
            self.kernel_pitch["M"] //= step["M"]
        self.packed, self.packed_order = pitch, tuple(reversed(loops))
        self.widens = nest.widened == "once"
        self.wide_numbers = self.kernel_pitch["M"] * step["M"] if self.widens else 0

    # --- the tree

    def nest(self) -> Nest:
        """Return the nest before any pass."""
        body = self._micro_kernel()
        order = self.parameters.order
        for place in reversed(range(len(order) + 1)):
            if place == self.finished_at:
                region = Region(
                    tuple(self.outputs[dim].low for dim in "MHW"),  # type: ignore[arg-type]
                    tuple(self._count(dim) for dim in "MHW"),  # type: ignore[arg-type]
                )
                begin = () if self.writes else (Begin(region, *self._first_sum()),)
                body = (*begin, *body, Finish(region, self.waits))
            if place:
                body = (self._loop(order[place - 1], body),)
        return Nest(
            body,
            self.lanes,
            tile=self.tile_numbers,
            sums=self.sums_numbers,
            wide=self.wide_numbers,
            region=tuple(self.region[dim] for dim in "MHW"),  # type: ignore[arg-type]
            pitch=tuple(self.output_pitch[dim] for dim in "MHW"),  # type: ignore[arg-type]
            packed=self.packed,
            packed_order=self.packed_order,
            parts=self._parts(),
            stores_all=self.writes,
        )

    def _parts(self) -> int:
        """How many steps the parallel loop has."""
        if not self.parallel:
            return 1
        (loop,) = self.parallel
        return -(-self.problem.extent(loop[0]) // self._block_of(loop))

    def _count(self, dim: str) -> Bound:
        """How many outputs a region has along a dim."""
        span, extent = self.outputs[dim], self.problem.extent(dim)
        if extent % span.size == 0 or not span.low.names:
            return (Affine(span.size),)
        return Affine(span.size), Affine(extent) - span.low

    def _first_sum(self) -> tuple[str, Affine]:
        """Where the sums of a region begin."""
        address = Affine()
        if self.waits:
            return "sums", address
        for dim in "MHW":
            address += self.outputs[dim].low * self.output_pitch[dim]
        return "output", address

    def _loop(self, loop: str, body: Body) -> For:
        dim, _, role = loop.partition(".")
        name, extent = dim.lower(), self.problem.extent(dim)
        block = self.parameters.block(dim)
        unroll = dict(self.parameters.unroll).get(loop, 1)
        parallel = loop in self.parallel
        if role == "o":
            assert block
            return For(f"{name}_o", Affine(), (Affine(extent),), block, body, "outer",
                       parallel=parallel)  # fmt: skip
        step = self.step[dim]
        if role == "i":
            return For(name, *self._inner_ends(dim), step, body, "inner", unroll)
        return For(name, Affine(), (Affine(extent),), step, body, "full", unroll, parallel)

    def _inner_ends(self, dim: str) -> tuple[Affine, Bound]:
        """Ends of the loop over one block."""
        block, extent = self.parameters.block(dim), self.problem.extent(dim)
        assert block
        low = Affine.of(f"{dim.lower()}_o")
        ends = (low + block,) if extent % block == 0 else (low + block, Affine(extent))
        return low, ends

    def _micro_kernel(self) -> Body:
        """One run of the micro-kernel, with the loops that it has, guards and a copy before it."""
        implicit = self.parameters.copies == "implicit"
        places = self._places()
        plain = micro.update(places, masked=False)
        body = plain
        if implicit:
            columns = self._column_guard()
            body = (Guard(columns, plain, micro.update(places, masked=True)),)
            rows = self._row_guard()
            # Where outputs are read and written, nothing happens beside the image; where they are
            # only written, that has to be done.
            if self.writes or "Y" in self.kind.loops:
                body, outer = (Guard(rows, body),), None
            else:
                outer = rows
        summed = [dim for dim in self.kind.loops if dim in SUMMED]
        for dim in reversed(summed):
            body = (self._own_loop(dim, body),)
        body = (*micro.start(places), *body, *micro.stop(places))
        if "M" in self.kind.loops:
            body = (self._own_loop("M", body),)
        if not implicit:
            low = self._input_position({dim: span.low for dim, span in self.inputs.items()})
            body = (Copy(low, self.tile_size, self.tile), *body)
        elif outer is not None:
            body = (Guard(outer, body),)
        if self.widens:
            body = (Widen(self._first_filter(), self.wide_numbers), *body)
        return body

    def _first_filter(self) -> Affine:
        """Where the packed filters of a step along M begin."""
        return Affine.of("m") * self.kernel_pitch["M"]

    def _own_loop(self, dim: str, body: Body) -> For:
        """A loop that the micro-kernel has: over a block, if the dim is blocked."""
        step, unroll = self.step[dim], dict(self.parameters.unroll).get(dim, 1)
        low: Affine = Affine()
        ends: Bound = (Affine(self.problem.extent(dim)),)
        if self.parameters.block(dim):
            low, ends = self._inner_ends(dim)
        return For(dim.lower(), low, ends, step, body, "micro", unroll)

    def _input_position(self, at: dict[str, Affine] | None = None) -> tuple[Affine, Affine, Affine]:
        """Row, column and channel of the input that a pixel sees through a tap, of those that stay
        in registers the first.
        """
        problem = self.problem
        index = {dim: Affine.of(dim.lower()) for dim in IMAGE_DIMS}
        index |= dict.fromkeys(self.kind.resident, Affine()) | (at or {})
        (s_h, s_w), (d_h, d_w), (top, left) = problem.stride, problem.dilation, problem.before
        row = index["H"] * s_h + index["Y"] * d_h - top
        col = index["W"] * s_w + index["X"] * d_w - left
        return row, col, index["C"]

    def _row_guard(self) -> tuple[Affine, Affine]:
        row, _, _ = self._input_position()
        return row, Affine(self.problem.size[0] - 1) - row

    def _column_guard(self) -> tuple[Affine, Affine]:
        """That all pixels of the register block lie within the image."""
        _, col, _ = self._input_position()
        last = col + (self.step["W"] - 1) * self.problem.stride[1]
        last += (self.taps[1] - 1) * self.problem.dilation[1]
        return col, Affine(self.problem.size[1] - 1) - last

    def _places(self) -> micro.Places:
        problem, step = self.problem, self.step
        explicit = self.parameters.copies == "explicit"
        row, col, channel = self._input_position()
        if explicit:
            low = self._input_position({dim: span.low for dim, span in self.inputs.items()})
            row, col, channel = row - low[0], col - low[1], channel - low[2]
            tile = self.tile
            pitch = tile.row, tile.col, tile.channel
        else:
            pitch = problem.input.row, problem.input.pixel, problem.input.channel
        input_ = row * pitch[0] + col * pitch[1] + channel * pitch[2]
        pixel_stride = problem.stride[1] * (1 if explicit and self.tile.block else pitch[1])
        # From one vector of pixels to the next, blocks of them lie further apart.
        pixel_pitch = problem.stride[1] * pitch[1]

        def image(pixel: Affine, channel: Affine) -> tuple[str, Affine]:
            address = input_ + pixel * pixel_pitch + channel * pitch[2]
            return ("tile" if explicit else "image"), address

        kernel_at = self.kernel_pitch
        inner = kernel_at.get("m", kernel_at["M"])
        filters_at = Affine.of("m") * kernel_at["M"] + Affine.of("c") * kernel_at["C"]
        filters_at += Affine.of("y") * kernel_at["Y"] + Affine.of("x") * kernel_at["X"]
        filters_at -= self._first_filter() if self.widens else Affine()

        def kernel(filter_: Affine, channel: Affine) -> tuple[str, Affine]:
            address = filters_at + filter_ * inner + channel * kernel_at["C"]
            return ("wide" if self.widens else "kernel"), address

        to = self.output_pitch
        lows = {dim: self.outputs[dim].low if self.waits else Affine() for dim in "MHW"}
        outputs_at = Affine()
        for dim in "MHW":
            outputs_at += (Affine.of(dim.lower()) - lows[dim]) * to[dim]

        def output(filter_: Affine, pixel: Affine) -> tuple[str, Affine]:
            address = outputs_at + filter_ * to["M"] + pixel * to["W"]
            return ("sums" if self.waits else "output"), address

        def left(dim: str) -> Affine | None:
            extent = problem.extent(dim)
            return None if extent % step[dim] == 0 else Affine(extent) - Affine.of(dim.lower())

        return micro.Places(
            kind=self.kind,
            rows=self.parameters.rows,
            pixels=self.parameters.pixels,
            filters=self.parameters.filters,
            lanes=self.lanes,
            block=self.block,
            filters_left=left("M"),
            rows_left=left("H"),
            columns_left=left("W"),
            channels_left=None if explicit else left("C"),
            position=self._input_position()[1],
            steps=problem.stride,
            spread=problem.dilation,
            taps=self.taps,
            width=problem.size[1],
            image=image,
            pitch=pitch[:2],
            pixel_stride=pixel_stride,
            kernel=kernel,
            output=output,
            output_row=to["H"],
            writes=self.writes,
            by_pixel=self.parameters.output.endswith("M"),
        )
