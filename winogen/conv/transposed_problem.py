"""What a transposed layer computes, and the ordinary problems that it is made of.

`winogen.conv.phases` has the rule along an axis. Here its phases meet: those of a plane are one
problem with as many times the filters, or a problem each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any, NamedTuple, get_args

from winogen.codegen import shipped
from winogen.conv import arguments
from winogen.conv.options import Options
from winogen.conv.phases import Phase, joined, outputs, phases
from winogen.conv.problem import Layer, Pair, Problem, Seams, Sizes, Spread
from winogen.conv.request import MOST_STRIDE, Request
from winogen.errors import InvalidValue, Unsupported
from winogen.kernels.work import round_up
from winogen.records import AXES, Axis
from winogen.typing import Algorithm, IntOrInts

# How phases are computed, by the algorithms that users name.
_TOGETHER: Algorithm = "mcmr"
_ALONE = ("direct", "im2col")
ORDINARY = ("padding_mode", "edge")  # options that transposed layers lack


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
        for name in ORDINARY:
            if getattr(options, name) != getattr(Options(), name):
                raise InvalidValue(
                    f'{name}: got "{getattr(options, name)}"; allowed: '
                    f'"{getattr(Options(), name)}", with a transposed layer'
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
        ways = _asked(sample, stride, dilation, plain)
        return cls(sample, stride, ends, dilation, padded, *ways)

    @property
    def weight_shape(self) -> Sizes:
        """(C, M/groups, KH, KW), with the taps of each axis."""
        sample = self.sample
        return (sample.channels, sample.filters // sample.groups, *sample.kernel)

    @property
    def one_tap_each(self) -> bool:
        """Whether each phase of a plane has one tap, so that all phases are filters of a product
        that computes nothing in vain.
        """
        axes = list(zip(self.sample.kernel, self.stride, self.dilation))
        return all(k == s and d == 1 for k, s, d in axes[-2:])

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


def _asked(
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
        and max(stride[-2:]) <= MOST_STRIDE
        and max(plane) > 1
        and all(taps == 1 or shipped.is_shipped(2, taps) for taps in plane)
    )
    if tiles and not joins:
        raise Unsupported(
            f'algorithm: got "{_TOGETHER}" or a tile for a transposed layer with kernel '
            f"{sample.kernel}, stride {stride} and dilation {dilation}; allowed: stride up to "
            f"{MOST_STRIDE}, dilation 1 and a kernel longer than the stride, or algorithm "
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

    @property
    def direct_multiplications(self) -> int:
        """Multiplications of the definition, over the batch: N·H·W·C·(M/groups)·KH·KW, with the
        inputs and taps of each axis. Those for outputs that padding leaves out count, too.
        """
        return self.batch * prod(self.size) * prod(self.layer.sample.weight_shape)

    @property
    def shapes(self) -> dict[str, Any]:
        """What a plan says of it."""
        return {
            "input_shape": self.input_shape,
            "weight_shape": self.layer.weight_shape,
            "output_shape": self.output_shape,
            "layout": self.layer.sample.layout,
            "dtype": self.layer.sample.dtype,
            "stride": self.layer.stride,
            "direct_multiplications": self.direct_multiplications,
        }

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
