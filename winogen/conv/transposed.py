"""Transposed convolution: a layer as ordinary ones whose outputs lie apart, planned and run.

`winogen.conv.phases` says what these ordinary layers are. Either all phases of a plane are one call
of a Winograd kernel, which transforms every input once, or each phase is a call of a direct one.
Both write outputs to where they lie.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any, ClassVar, Literal, NamedTuple, cast, get_args
from weakref import WeakValueDictionary

import numpy as np

from winogen.codegen import transforms
from winogen.conv import arguments, memory, planner
from winogen.conv.convolution import Arrays, layout_of, parameters
from winogen.conv.execute import Environment, Prepared, prepare, remembered
from winogen.conv.options import Options
from winogen.conv.phases import (
    Phase,
    joined,
    joined_weight,
    ordinary,
    outputs,
    phase_weight,
    phases,
)
from winogen.conv.plan import TransposedPlan
from winogen.conv.problem import Layer, Pair, Problem, Seams, Sizes, Spread
from winogen.conv.request import Request
from winogen.errors import InvalidValue, Unsupported
from winogen.kernels.work import round_up
from winogen.records import ARRAY_TYPES, AXES, Axis, Machine, Precision, Target
from winogen.toolchain import host_target
from winogen.toolchain.fork import Lock
from winogen.toolchain.machine import current, described
from winogen.typing import Algorithm, Array, IntOrInts, NDArray

# How phases are computed, by the algorithms that users name.
_TOGETHER: Algorithm = "mcmr"
_ALONE = ("direct", "im2col")
_SHAPES_KEPT = 256  # input shapes whose bound kernels one layer remembers


@dataclass(frozen=True)
class TransposedLayer:
    """A transposed layer and how it is asked for, checked before any input is known.

    ``sample`` is an ordinary layer with its weights' `ordinary` shape, without stride and padding.
    """

    sample: Layer
    stride: Sizes
    ends: tuple[Pair, ...]  # of the padding, which is left out of the output
    dilation: Sizes
    output_padding: Sizes
    # What is asked of all phases of a plane in one call, and of each in a call; None: not that.
    together: Request | None
    alone: Request | None

    @classmethod
    def of(cls, shape: Sizes, dtype: str, options: Options, more: IntOrInts) -> TransposedLayer:
        """Return the checked layer; ``shape`` is the weights', ``more`` the output padding."""
        rank = len(arguments.choice("layout", options.layout, _LAYOUTS)) - 2
        if len(shape) != rank + 2 or min(shape) <= 0:
            taps = ", ".join(f"K{name[0].upper()}" for name in AXES[-rank:])
            raise InvalidValue(
                f"weight: got shape {tuple(shape)}; allowed: {rank + 2} axes of at least 1 "
                f"(C, M/groups, {taps})"
            )
        channels, filters, *kernel = shape
        stride = arguments.per_axis("stride", options.stride, 1, rank)
        dilation = arguments.per_axis("dilation", options.dilation, 1, rank)
        groups = arguments.whole("groups", options.groups, 1, "a positive int")
        if channels % groups:
            raise InvalidValue(
                f"groups: got {groups}; allowed: a divisor of the {channels} channels of weight"
            )
        if isinstance(options.padding, str):
            raise InvalidValue(
                f"padding: got {options.padding!r}; allowed: numbers, with a transposed layer"
            )
        ends = arguments.padding(options.padding, kernel, stride, dilation)
        padded = arguments.per_axis("output_padding", more, 0, rank)
        for one, s, d in zip(padded, stride, dilation):
            if one >= max(s, d):
                raise InvalidValue(
                    f"output_padding: got {padded}; allowed: less than stride {stride} or dilation "
                    f"{dilation} along each axis"
                )
        plain = replace(options, stride=1, padding=0, dilation=1)
        sample = Layer.from_options((groups * filters, channels // groups, *kernel), dtype, plain)
        ways = _requests(sample, stride, dilation, plain)
        return cls(sample, stride, ends, dilation, padded, *ways)

    def problem(self, shape: Any, output_size: Any = None) -> TransposedProblem:
        """Return the problem of applying it to an input of this shape; raises InvalidValue."""
        one = replace(self.sample, axes=tuple(map(Axis, (1,) * self.sample.rank)))
        read = one.problem(shape)
        axes = list(zip(read.size, self.sample.kernel, self.stride, self.dilation, self.ends))
        if output_size is None:
            size = tuple(outputs(*axis, more) for axis, more in zip(axes, self.output_padding))
        else:
            size = self._asked(output_size, read, [outputs(*axis) for axis in axes])
        if min(size) < 1:
            raise InvalidValue(
                f"padding: got {self.ends}, that leaves an output of {size}; allowed: less, so "
                "that there is an output along each axis"
            )
        problem = TransposedProblem(self, read.batch, read.size, size, read.batched)
        one.problem(problem.output_shape_of(one.channels))  # as large as arrays may be
        return problem

    def _asked(self, asked: Any, read: Problem, least: Sequence[int]) -> Sizes:
        rank, allowed = self.sample.rank, f"{self.sample.rank} sizes, or a shape of the output"
        if not isinstance(asked, (tuple, list)) or len(asked) not in (rank, rank + 1, rank + 2):
            raise InvalidValue(f"output_size: got {asked!r}; allowed: {allowed}")
        extra = len(asked) - rank
        sizes = asked[extra:] if self.sample.planar or not extra else asked[extra - 1 : -1]
        numbers = tuple(arguments.whole("output_size", one, 0, allowed) for one in sizes)
        for one, few, stride in zip(numbers, least, self.stride):
            if not few <= one < few + stride:
                most = tuple(size + step - 1 for size, step in zip(least, self.stride))
                raise InvalidValue(
                    f"output_size: got {numbers}; allowed: from {tuple(least)} to {most}, with an "
                    f"input of {read.size}"
                )
        return numbers


_LAYOUTS = tuple(name for names in arguments.LAYOUTS.values() for name in names)
_ALGORITHMS: tuple[Algorithm, ...] = get_args(Algorithm)
_MOST_STRIDE = 4


def _requests(
    sample: Layer, stride: Sizes, dilation: Sizes, options: Options
) -> tuple[Request | None, Request | None]:
    """What is asked of all phases together, and of each alone; raises Unsupported for neither."""
    algorithm = arguments.choice("algorithm", options.algorithm, _ALGORITHMS)
    if algorithm not in ("auto", _TOGETHER, *_ALONE):
        raise Unsupported(
            f'algorithm: got "{algorithm}" for a transposed layer; allowed: auto, {_TOGETHER}, '
            f"{', '.join(_ALONE)}"
        )
    if options.product_dtype == "int16":
        raise Unsupported(
            'product_dtype: got "int16" for a transposed layer; allowed: None, "float16" or '
            '"bfloat16"'
        )
    # Whatever only Winograd algorithms have asks for one.
    tiles = algorithm == _TOGETHER or any(
        one is not None for one in (options.tile, options.points, options.moduli)
    )
    alone = together = None
    if not tiles:
        way = replace(options, algorithm="direct", order=None) if algorithm == "auto" else options
        alone = Request.from_options(sample, way)
    if algorithm in _ALONE:
        if tiles:
            Request.from_options(sample, options)  # says what is wrong
        return None, alone
    few = [-(-k // s) for k, s in zip(sample.kernel, stride)]
    plane = few[-2:]
    joins = (
        max(dilation[-2:]) == 1
        and max(stride[-2:]) <= _MOST_STRIDE
        and max(plane) > 1
        and all(taps == 1 or transforms.is_shipped(2, taps) for taps in plane)
    )
    if tiles and not joins:
        raise Unsupported(
            f'algorithm: got "{_TOGETHER}" or a tile for a transposed layer with kernel '
            f"{sample.kernel}, stride {stride} and dilation {dilation}; allowed: stride up to "
            f"{_MOST_STRIDE}, dilation 1 and a kernel longer than the stride, or algorithm "
            f"{', '.join(_ALONE)}"
        )
    if joins:
        inner = replace(sample, axes=tuple(map(Axis, (*[1] * (len(few) - len(plane)), *plane))))
        try:
            together = Request.from_options(inner, replace(options, algorithm=_TOGETHER))
        except Unsupported:  # of numbers that its kernels lack
            if tiles:
                raise
    return together, alone


@dataclass(frozen=True)
class TransposedProblem:
    """A transposed layer with all its sizes."""

    layer: TransposedLayer
    batch: int
    size: Sizes
    output_size: Sizes
    batched: bool

    @property
    def input_shape(self) -> Sizes:
        """The shape of the input, in its layout."""
        return self._shape(self.layer.sample.channels, self.size)

    @property
    def output_shape(self) -> Sizes:
        """The shape of the output, in its layout."""
        return self.output_shape_of(self.layer.sample.filters)

    def output_shape_of(self, channels: int) -> Sizes:
        """The same with other channels."""
        return self._shape(channels, self.output_size)

    def _shape(self, channels: int, size: Sizes) -> Sizes:
        image = (channels, *size) if self.layer.sample.planar else (*size, channels)
        return (self.batch, *image) if self.batched else image

    def together(self, seams: Seams, lanes: int) -> list[Part]:
        """Return it with all phases of a plane in one call; one for each phase of the depth."""
        layer, sample = self.layer, self.layer.sample
        rank, deep = sample.rank, sample.rank - 2 if sample.rank > 2 else 0
        kernel, ends, groups = sample.kernel, layer.ends, sample.groups
        inner = [
            joined(k, s, before, count)
            for k, s, (before, _), count in zip(
                kernel[deep:], layer.stride[deep:], ends[deep:], self.output_size[deep:]
            )
        ]
        own = sample.filters // groups
        filters = int(round_up(own, lanes))
        crop = (0, *(one.crop for one in inner))[-2:]
        parts = []
        for outer in self._phases(deep):
            taken = [phase.taps for phase in outer]
            axes = [_axis(p.dilation, len(p.taps), p.before) for p in outer]
            axes += [_axis(1, one.taps, one.before) for one in inner]
            if not all(taken) or self._leaves_nothing(axes):
                parts.append(self._nothing(outer, seams))
                continue
            count = prod(layer.stride[deep:])
            ordinary_layer = replace(
                sample, filters=groups * count * filters, axes=tuple(axis for axis, _ in axes)
            )
            spread = Spread(layer.stride, self.output_size, filters, own, (crop[0], crop[1]))
            sizes = tuple(phase.outputs for phase in outer) + tuple(one.pixels for one in inner)
            parts.append(
                self._part(
                    ordinary_layer, sizes, spread, seams, [cut for _, cut in axes],
                    [phase.first for phase in outer] + [0] * (rank - deep), ("all", *taken),
                )
            )  # fmt: skip
        return parts

    def apart(self, seams: Seams) -> list[Part]:
        """Return it as a problem for each phase."""
        parts = []
        for all_axes in self._phases(self.layer.sample.rank):
            axes = [_axis(phase.dilation, len(phase.taps), phase.before) for phase in all_axes]
            cut = [one for _, one in axes]
            if not all(phase.taps for phase in all_axes) or self._leaves_nothing(axes):
                parts.append(self._nothing(all_axes, seams))
                continue
            layer = replace(self.layer.sample, axes=tuple(axis for axis, _ in axes))
            parts.append(
                self._part(
                    layer, tuple(phase.outputs for phase in all_axes),
                    Spread(self.layer.stride, self.output_size), seams, cut,
                    [phase.first for phase in all_axes],
                    ("one", *(phase.taps for phase in all_axes)),
                )
            )  # fmt: skip
        return parts

    def _phases(self, axes: int) -> list[tuple[Phase, ...]]:
        """The phases of the first ``axes`` axes, each with each."""
        layer = self.layer
        along = [
            phases(k, s, d, before, count)
            for k, s, d, (before, _), count in zip(
                layer.sample.kernel, layer.stride, layer.dilation, layer.ends, self.output_size
            )
        ]
        return list(product(*along[:axes]))

    def _nothing(self, outer: Sequence[Phase], seams: Seams) -> Part:
        """Outputs that see no input, as a layer of one tap that sees zeros.

        All outputs of axes behind those that have a phase.
        """
        sample, count = self.layer.sample, len(outer)
        layer = replace(sample, channels=1, groups=1, axes=(Axis(1),) * sample.rank)
        sizes = (*(phase.outputs for phase in outer), *self.output_size[count:])
        rest = (1,) * (sample.rank - count)
        spread = Spread((*self.layer.stride[:count], *rest), self.output_size)
        problem = Problem(
            layer, self.batch, sizes, sizes, seams._replace(input=1), self.batched, spread
        )
        first = (*(phase.first for phase in outer), *(0 for _ in rest))
        return Part(problem, ("none",), first, ())

    def _leaves_nothing(self, axes: Sequence[tuple[Axis, int]]) -> bool:
        return any(cut >= size for (_, cut), size in zip(axes, self.size))

    def _part(
        self, layer: Layer, sizes: Sizes, spread: Spread, seams: Seams, cut: Sequence[int],
        first: Sequence[int], key: tuple[Any, ...],
    ) -> Part:  # fmt: skip
        size = tuple(count - less for count, less in zip(self.size, cut))
        if any(cut):
            seams = seams._replace(input=layer.channels)  # what is left of it is copied
        problem = Problem(layer, self.batch, size, sizes, seams, self.batched, spread)
        return Part(problem, key, tuple(first), tuple(cut) if any(cut) else ())


def _axis(dilation: int, taps: int, before: int) -> tuple[Axis, int]:
    """An axis with this padding before it, and the inputs that are left out instead."""
    return Axis(max(1, taps), 1, dilation, max(0, before)), max(0, -before)


class Part(NamedTuple):
    """Some phases of a transposed problem as an ordinary one, and where its arrays begin."""

    problem: Problem
    weight: tuple[Any, ...]  # which filters: "all" phases or "one", and taps along axes
    first: Sizes  # output along each axis
    cut: Sizes  # inputs that are left out along each axis; (): none


class Way(NamedTuple):
    """A transposed problem bound to kernels: all its parts."""

    problem: TransposedProblem
    parts: tuple[tuple[Part, Prepared], ...]

    @property
    def seconds(self) -> float:
        """Predicted, of a call."""
        return sum(prepared.ranked[0].seconds for _, prepared in self.parts)

    @property
    def error(self) -> float:
        """Predicted, the largest of all parts."""
        return max(
            planner.predicted_error(part.problem.layer, prepared.choice, prepared.target)
            for part, prepared in self.parts
        )


@remembered(256)
def _way(
    problem: TransposedProblem,
    seams: Seams,
    target: Target,
    machine: Machine,
    environment: Environment,
) -> Way:
    """The fastest way by prediction, among those as accurate as `planner.ranked` has it."""
    layer = problem.layer
    lanes = Precision.of(layer.sample.dtype).lanes(target.vector_bytes)
    asked = [
        (layer.together, lambda: problem.together(seams, lanes)),
        (layer.alone, lambda: problem.apart(seams)),
    ]
    found: list[Way] = []
    refusal: InvalidValue | None = None
    for request, parts in asked:
        if request is None:
            continue
        try:
            found.append(_bound(problem, parts(), request, target, machine, environment))
        except InvalidValue as error:  # the other may keep to the limits
            refusal = error
    if not found:
        assert refusal is not None
        raise refusal
    *_, (request, _) = ((r, p) for r, p in asked if r is not None)
    if len(found) == 1 or request is None:
        return found[0]
    most = planner.tolerance_of(layer.sample, request.tolerance) / planner.MARGIN
    usual = min(planner.usual_error(layer.sample), most)
    found.sort(key=lambda way: way.seconds)
    fastest = next((way for way in found if way.error <= most), min(found, key=lambda w: w.error))
    if request.tolerance is not None:
        return fastest
    return cast(
        Way,
        planner.preferred(fastest, found, lambda way: way.error <= usual, planner.PATIENCE),
    )


def _bound(
    problem: TransposedProblem,
    parts: list[Part],
    request: Request,
    target: Target,
    machine: Machine,
    environment: Environment,
) -> Way:
    simple = Request("direct", threads=request.threads, workspace_limit=request.workspace_limit)
    ways = (simple if part.weight == ("none",) else request for part in parts)
    bound = (
        (part, prepare(part.problem, way, target, machine, environment))
        for part, way in zip(parts, ways)
    )
    return Way(problem, tuple(bound))


class TransposedConvolution:
    """The base of `ConvTranspose1d`, `ConvTranspose2d` and `ConvTranspose3d`."""

    rank: ClassVar[int]

    def __init__(self, weight: Array, bias: Array | None, asked: Options, more: IntOrInts):
        layout_of(asked, self.rank)
        w, b = parameters(weight, bias, _filters(weight, asked))
        self._layer = TransposedLayer.of(w.shape, arguments.dtype_name(w.dtype), asked, more)
        self._dtype = w.dtype
        groups = self._layer.sample.groups
        self._weight = np.array(ordinary(arguments.computed_with(w), groups), order="C")
        self._bias = None if b is None else np.array(arguments.computed_with(b), order="C")
        filters, kind = self._layer.sample.filters, self._weight.dtype
        self._slopes = arguments.slopes(asked.activation, filters, kind)
        self._forget()

    def __call__(
        self,
        input: Array,
        output_size: Sequence[int] | None = None,
        *,
        out: NDArray | None = None,
        add: Array | None = None,
        add_after: Array | None = None,
    ) -> NDArray:
        """Return activation(transposed conv + bias + add) + add_after, in ``out`` if given.

        ``output_size``: of the output along each axis, or its shape, instead of what
        ``output_padding`` says. See `winogen.conv_transpose2d`.
        """
        return self.once(input, out, add, add_after, {}, output_size)

    def once(
        self, input: Array, out: Any, add: Any, add_after: Any, others: dict[str, Any],
        output_size: Any = None,
    ) -> NDArray:  # fmt: skip
        """The same; ``out`` shares no memory with ``others`` either."""
        x = arguments.array("input", input)
        if x.dtype != self._dtype:
            arguments.layer_array("input", x)
            return self._for(x.dtype).once(x, out, add, add_after, others, output_size)
        problem = self._layer.problem(x.shape, output_size)
        sample = self._layer.sample
        others = {name: np.asarray(one) for name, one in others.items() if one is not None}
        arrays = Arrays.of(
            sample.layout, sample.filters, problem.output_shape, x, out, add, add_after, others
        )
        y = arrays.out
        if y is None:
            y = memory.empty(problem.output_shape, self._dtype, "output")
        if y.size:
            self._run(problem, arrays, y)
        return y if out is None else out

    def plan(
        self,
        input_shape: tuple[int, ...] | list[int],
        output_size: Sequence[int] | None = None,
        dtype: Literal["float32", "float64", "float16", "bfloat16"] | None = None,
    ) -> TransposedPlan:
        """Return what a call with an input of this shape does; see `winogen.Conv2d.plan`."""
        if dtype is not None:
            asked = arguments.dtype_named(arguments.choice("dtype", dtype, ARRAY_TYPES))
            if asked != self._dtype:
                return self._for(asked).plan(input_shape, output_size)
        problem = self._layer.problem(input_shape, output_size)
        sample = self._layer.sample
        way = self._planned(problem, Seams(sample.channels, sample.filters))
        shape = (sample.channels, sample.filters // sample.groups, *sample.kernel)
        plans = tuple(replace(one.plan(), machine=described()) for _, one in way.parts)
        return TransposedPlan(
            problem.input_shape, shape, problem.output_shape, self._layer.stride,
            sample.layout, sample.dtype, way.seconds, plans,
        )  # fmt: skip

    def __repr__(self) -> str:
        sample, name = self._layer.sample, type(self).__name__
        shape = (sample.channels, sample.filters // sample.groups, *sample.kernel)
        return f"<{name} weight {shape} {sample.dtype}>"

    _STATE = ("_layer", "_dtype", "_weight", "_bias", "_slopes")

    def __getstate__(self) -> dict:
        """Copies and pickles carry the weights; C pointers are made again where they arrive."""
        return {name: getattr(self, name) for name in self._STATE}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        self._forget()

    def _forget(self) -> None:
        self._bound: dict[tuple, tuple[Way, list[tuple[Any, ...]]]] = {}
        self._filters: dict[tuple, MutableMapping[Any, np.ndarray]] = {}  # packed, see Prepared
        self._lock = Lock()
        self._twins: dict[np.dtype, TransposedConvolution] = {}

    def _for(self, dtype: np.dtype) -> TransposedConvolution:
        """The same with inputs of another type: raises InvalidType unless it goes with weights."""
        twin = self._twins.get(dtype)
        if twin is None:
            name = arguments.layer_dtype(dtype, self._dtype)
            layer = replace(self._layer, sample=replace(self._layer.sample, dtype=name))
            twin = self.__class__.__new__(self.__class__)
            twin.__setstate__(self.__getstate__() | {"_dtype": dtype, "_layer": layer})
            self._twins[dtype] = twin
        return twin

    def _planned(self, problem: TransposedProblem, seams: Seams) -> Way:
        return _way(problem, seams, host_target(), current(), Environment.now())

    def _bind(self, problem: TransposedProblem, seams: Seams) -> tuple[Way, list[tuple[Any, ...]]]:
        """What computes a problem, and its packed filters; they are packed only once."""
        key = problem, seams
        entry = self._bound.get(key)
        if entry is None:
            way = self._planned(problem, seams)
            with self._lock:
                packed = [self._packed(part, prepared) for part, prepared in way.parts]
                if len(self._bound) >= _SHAPES_KEPT:
                    del self._bound[next(iter(self._bound))]
                entry = self._bound[key] = way, packed
        return entry

    def _packed(self, part: Part, prepared: Prepared) -> tuple[Any, ...]:
        kind, *taps = part.weight
        layer = part.problem.layer
        if kind == "none":
            weight = np.zeros(layer.weight_shape, self._weight.dtype)
        elif kind == "one":
            weight = phase_weight(self._weight, taps)
        else:
            deep, spread = len(taps), part.problem.spread
            assert spread is not None
            planes = phase_weight(
                self._weight, [*taps, *map(range, self._weight.shape[2 + deep :])]
            )
            weight = joined_planes(planes, deep, self._layer, spread.filters)
        kept = self._filters.setdefault(part.weight, WeakValueDictionary())
        return prepared.pack(weight, kept)

    def _run(self, problem: TransposedProblem, arrays: Arrays, y: np.ndarray) -> None:
        way, packed = self._bind(problem, arrays.seams)
        spatial = self._layer.sample.planar
        for (part, prepared), filters in zip(way.parts, packed):
            inner = arrays.x
            if part.weight == ("none",):
                inner = np.zeros(part.problem.input_shape, self._dtype)
            elif part.cut:
                inner = memory.contiguous(
                    inner[_at(spatial, [slice(n, None) for n in part.cut])], "input"
                )
            spread = part.problem.spread
            assert spread is not None
            # Where phases are filters the kernel steps over the others itself.
            joint = 2 if spread.filters and self.rank > 1 else 1 if spread.filters else 0
            steps = [*spread.step[: self.rank - joint], *(1,) * joint]
            place = _at(spatial, [slice(n, None, s) for n, s in zip(part.first, steps)])
            views = (None if one is None else one[place] for one in (arrays.add, arrays.add_after))
            prepared.run(inner, filters, self._bias, y[place], self._slopes, *views)


def joined_planes(
    weight: np.ndarray, deep: int, layer: TransposedLayer, filters: int
) -> np.ndarray:
    """The filters of all phases of a plane; along ``deep`` axes before it taps stay as they are."""
    stride = layer.stride[deep:]
    groups = layer.sample.groups
    total, channels, *kernel = weight.shape
    # Taps along the depth count as channels until the others are in their places.
    flat = weight.reshape(total, channels * prod(kernel[:deep]), *kernel[deep:])
    made = joined_weight(flat, stride, groups, filters)
    return made.reshape(len(made), channels, *kernel[:deep], *made.shape[2:])


def _at(planar: bool, places: Sequence[slice]) -> tuple[Any, ...]:
    """An index of the last axes, or of those before the channels."""
    return (..., *places) if planar else (..., *places, slice(None))


def _filters(weight: Any, asked: Options) -> int | None:
    """How many filters weights (C, M/groups, ...) have; None where that is not known yet."""
    w = arguments.layer_array("weight", weight)
    if w.ndim < 3:
        return None
    return int(w.shape[1]) * arguments.whole("groups", asked.groups, 1, "a positive int")
