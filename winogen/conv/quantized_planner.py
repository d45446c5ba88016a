"""Convolutions of 8-bit integers: which kernel is predicted to be fastest, bound to its call.

All ways but Winograd's give the same integers, so that time alone decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from winogen.conv import contest, memory
from winogen.conv.choice import Choice, Cut
from winogen.conv.cuts import MeasuredChoice
from winogen.conv.execute import Call, Environment
from winogen.conv.one_call import CallSolver, OneCall
from winogen.conv.plan import ALTERNATIVES, Prediction
from winogen.conv.problem import Layer, Problem, plane_of
from winogen.conv.query import Query
from winogen.conv.request import Request
from winogen.conv.solver import Offer
from winogen.conv.stock import Stock
from winogen.conv.wisdom import NOTHING, Wisdom
from winogen.kernels.dots import DOTS, SINGLE_DOTS, dots_of
from winogen.kernels.quantized import (
    ALGORITHMS,
    QuantizedSpec,
    QuantizedWork,
    Reals,
    RealsSpec,
)
from winogen.kernels.quantized_depthwise import DepthwiseWork
from winogen.records import Machine, Precision, Target

_DEPTHWISE = "depthwise"  # as variants begin whose kernels are of that kind
_SHORTER = (4, 2, 1)  # vectors of a register block, than `DEPTHWISE_ROWS`


@dataclass(frozen=True)
class CallNumbers:
    """What the numbers of a call mean, as `QuantizedWork` has it."""

    sums: bool = True  # whether outputs are sums in int32, else bytes
    signed_input: bool = False
    x_zero: int = 0
    y_zero: int = 0
    limits: tuple[int, int] = (-(1 << 31), (1 << 31) - 1)  # of outputs
    w_zeros: bool = False  # whether filters have zero points
    reals: Reals | None = None  # what sums go through besides, if that is anything


def ranked(
    problem: Problem,
    request: Request,
    numbers: CallNumbers,
    target: Target,
    machine: Machine | None = None,
    wisdom: Wisdom | None = None,
    stock: Stock | None = None,
) -> list[OneCall]:
    """Return the ways to compute a problem: first the one to run, then others by predicted time.

    What was measured comes first, if the ``wisdom`` has an entry. ``request``: algorithm and
    threads. ``stock``: what all ways must be in, as for `winogen.conv.planner.ranked`.

    >>> from winogen.records import TARGETS
    >>> problem = Layer.of((64, 3, 3, 3), "uint8", padding=1).problem((1, 3, 56, 56))
    >>> ways = ranked(problem, Request(), CallNumbers(), TARGETS["avx512"].adjusted("+vnni"))
    >>> len(ways), ways[0].choice.variant
    (4, 'im2col_vpdpbusd')
    """
    query = Query(problem, request, target, machine or Machine(), wisdom or NOTHING, stock)
    return contest.rank(QuantizedKernels(numbers), query)[:ALTERNATIVES]


def applies(choice: Choice, problem: Problem, target: Target) -> bool:
    """Return whether a choice of unknown origin can compute a problem."""
    plain = replace(choice, cut=None, threads=1, sizes=())
    able = plain in choices(problem.layer, Request(choice.algorithm), target)
    if not (able and choice.sizes):
        return able
    sizes = dict(choice.sizes)
    spec = _spec(problem.layer, choice, CallNumbers(), target)
    return set(sizes) == {"rows"} and not spec.tiles and 1 <= sizes["rows"] <= spec.most_rows


class QuantizedKernels(CallSolver):
    """Kernels of 8-bit integers: they give the same integers, so that time alone decides."""

    def __init__(self, numbers: CallNumbers):
        self._numbers = numbers

    def candidates(self, query: Query) -> list[OneCall]:
        """Return all algorithms of the request with all instructions of the target."""
        found = choices(query.problem.layer, query.request, query.target)
        return [self._evaluated(query, choice) for choice in found]

    def wanted(self, query: Query) -> str:
        """Return in words what a stock may lack."""
        outputs = "sums" if self._numbers.sums else "bytes"
        name, layout = query.request.algorithm, query.problem.layer.layout
        return f'algorithm "{name}" from bytes to {outputs}, {layout}'

    def measured(self, query: Query) -> tuple[OneCall, MeasuredChoice] | None:
        """Return what the wisdom has."""
        problem, request, target, _, wisdom, _ = query
        entry = wisdom.entry(problem, request, target, applies)
        return None if entry is None else (self._evaluated(query, entry.choice), entry.measured)

    def _evaluated(self, query: Query, choice: Choice) -> OneCall:
        return evaluated(query.problem, choice, self._numbers, query.target, query.machine)

    def bind(self, offer: Offer, environment: Environment) -> QuantizedCall:
        """Return a call of the best kernel, which lacks packed filters."""
        return QuantizedCall(offer.candidates, environment)

    def prediction(self, offer: Offer, candidate: OneCall) -> Prediction:
        """Return what is expected of a call, and its instruction."""
        usual = super().prediction(offer, candidate)
        return usual._replace(tag=candidate.work.spec.dot.name)

    def described(self, offer: Offer) -> dict[str, Any]:
        """Return the choice, the sizes and the C of its kernel."""
        numbers = Precision("int8", "int8", "int8", "int8", "int32", "int8")
        return {**super().described(offer), "dtype": "int8", "precision": numbers}


def choices(layer: Layer, request: Request, target: Target) -> Iterator[Choice]:
    """Yield every algorithm of the request with every instruction of the target."""
    algorithm = request.algorithm
    if is_depthwise(layer) and algorithm in ("auto", "direct"):
        for dot in dots_of(target, SINGLE_DOTS):
            variant = f"{_DEPTHWISE}_{dot.name}"
            usual = Choice("direct", variant=variant, threads=request.threads)
            yield usual
            if layer.layout == "NCHW":  # where a register block may be longer than a row
                yield from (replace(usual, sizes=(("rows", rows),)) for rows in _SHORTER)
        return
    names = ALGORITHMS if layer.kernel[1] > 1 else ALGORITHMS[:1]  # a tap alone is no row of them
    for name in names if algorithm == "auto" else (algorithm,):
        if name in ALGORITHMS:
            for dot in dots_of(target):
                yield Choice(name, variant=f"{name}_{dot.name}", threads=request.threads)


def is_depthwise(layer: Layer) -> bool:
    """Whether every group, of several, has one channel and one filter."""
    return layer.groups > 1 and layer.channels == layer.filters == layer.groups


def evaluated(
    problem: Problem, choice: Choice, numbers: CallNumbers, target: Target, machine: Machine
) -> OneCall:
    """Return a choice with its kernel call and its predicted time."""
    work = work_of(problem, choice, numbers, target, machine)
    return OneCall(choice, work, work.cycles(machine) / (machine.clock_ghz * 1e9))


def work_of(
    problem: Problem, choice: Choice, numbers: CallNumbers, target: Target, machine: Machine
) -> QuantizedWork:
    """Return the kernel call that computes a problem as a choice says."""
    layer = problem.layer
    groups, channels = layer.groups, layer.channels // layer.groups
    filters = layer.filters // groups
    size, output_size = problem.sizes(in_row=False)
    kind = QuantizedWork
    if choice.variant.startswith(_DEPTHWISE):
        groups, filters, kind = 1, groups, DepthwiseWork
    elif layer.pointwise:  # pixels have no neighbours: one row of all of them
        size = output_size = (1, prod(size))
    work = kind(
        _spec(layer, choice, numbers, target),
        batch=problem.batch,
        groups=groups,
        channels=channels,
        filters=filters,
        size=size,
        output_size=output_size,
        kernel=plane_of(layer.kernel),
        stride=plane_of(problem.stride),
        dilation=plane_of(layer.dilation),
        padding=(layer.plane[0].before, layer.plane[1].before),
        around=problem.seams[:2],
        signed_input=numbers.signed_input,
        x_zero=numbers.x_zero,
        y_zero=numbers.y_zero,
        limits=numbers.limits,
        w_zeros=numbers.w_zeros,
        reals=numbers.reals or Reals(),
        threads=choice.threads,
        machine=machine,
    )
    return work if choice.cut is None else _cut(work, choice.cut)


def _spec(layer: Layer, choice: Choice, numbers: CallNumbers, target: Target) -> QuantizedSpec:
    """The kernel that a choice names."""
    algorithm, _, name = choice.variant.partition("_")
    depthwise = algorithm == _DEPTHWISE
    dots = dots_of(target, SINGLE_DOTS if depthwise else DOTS)
    kind = QuantizedSpec if numbers.reals is None else RealsSpec
    spec = kind.of(
        algorithm,
        layer.layout,
        numbers.sums,
        target,
        next(dot for dot in dots if dot.name == name),
    )
    return replace(spec, rows=dict(choice.sizes).get("rows", spec.rows))


def _cut(work: QuantizedWork, cut: Cut) -> QuantizedWork:
    """The same call in other blocks, as far as the map allows it."""
    rows, cols = (min(size, most) for size, most in zip(cut.block, work.output_size))
    return replace(work, block=(rows, work.output_size[1] if work.depthwise else cols))


class QuantizedCall(Call):
    """A call for inputs of one shape, bound to its kernel and to packed filters."""

    def __init__(self, ranked: Sequence[OneCall], environment: Environment):
        best = ranked[0]
        super().__init__(best.work.spec, best.work, environment, best.seconds)
        self.packed = np.empty(0, np.uint8)  # `QConv2d` packs them at once

    def __call__(self, x: np.ndarray, y: np.ndarray, add: np.ndarray | None = None) -> None:
        """Compute ``y``; nothing is checked. ``add`` is of its shape."""
        pointer = self.kernel.pointer
        arrays = [pointer(x), pointer(self.packed)]
        if self.work.spec.in_reals:
            if add is not None and add.strides != y.strides:
                add = _laid_out_as(y, add)
            arrays.append(pointer(add))
        self.run(*arrays, pointer(y))


def _laid_out_as(array: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return a copy of another array of its shape whose numbers lie as far apart."""
    last = sum(step * (size - 1) for step, size in zip(array.strides, array.shape))
    room = memory.empty((last + other.itemsize,), np.dtype(np.uint8), "add")
    copy = np.ndarray(array.shape, other.dtype, room, strides=array.strides)
    copy[...] = other
    return copy
