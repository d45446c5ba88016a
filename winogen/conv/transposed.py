"""Transposed convolution: planned as ordinary layers whose outputs lie apart, and run.

Either all phases of a plane are one call of a Winograd kernel, which transforms every input once,
or each phase is a call of a direct one. Both write outputs to where they lie.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any, ClassVar, Literal, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from winogen.conv import arguments, contest, memory, planner
from winogen.conv.convolution import Arrays, layout_of, parameters
from winogen.conv.execute import Environment, Prepared, remembered
from winogen.conv.options import Options
from winogen.conv.phases import joined_weight, ordinary, phase_weight
from winogen.conv.plan import Plan, Prediction
from winogen.conv.problem import Layer, Seams
from winogen.conv.query import Query
from winogen.conv.request import Request
from winogen.conv.solver import Offer, Solver
from winogen.conv.solvers import chosen
from winogen.conv.stock import Stock
from winogen.conv.tolerance import Tolerance
from winogen.conv.transposed_problem import Part, TransposedLayer, TransposedProblem
from winogen.conv.weighted import WeightedFloats
from winogen.conv.wisdom import NOTHING, Wisdom
from winogen.errors import CompilerNotFound, InvalidValue
from winogen.records import Machine, Precision, Target
from winogen.toolchain import host_target
from winogen.toolchain.machine import current, described
from winogen.typing import Array, IntOrInts, NDArray

# Parts that make up a whole problem, and what is asked of them.
Asked = list[tuple[list[Part], Request]]


class Phased(NamedTuple):
    """The parts of a transposed problem, and what is offered for each."""

    parts: list[Part]
    offers: list[Offer]

    @property
    def seconds(self) -> float:
        """Predicted, of a call."""
        return sum(one.best.seconds for one in self.offers)


class TransposedWay(NamedTuple):
    """A transposed problem bound to kernels: all its parts."""

    offer: Offer
    parts: tuple[tuple[Part, Prepared], ...]


class Phases(Solver):
    """Ordinary convolutions whose outputs lie apart; ``seams``: of the arrays of all of them."""

    def __init__(self, seams: Seams):
        self._seams = seams

    def offer(self, query: Query, best: Offer | None = None) -> Offer:
        """Return the best parts that keep to the limits."""
        problem, _, target, machine, known, stock = query
        asked = ways(problem, self._seams, target, machine, known, stock)
        for number, (parts, request) in enumerate(asked, 1):
            try:
                offers = [
                    chosen(query._replace(problem=part.problem, request=own))
                    for part, own in requests(parts, request)
                ]
                return Offer(self, query, target, [Phased(parts, offers)], offers[0].threads)
            except InvalidValue:  # others may keep to the limits
                if number == len(asked):
                    raise
        raise AssertionError("nothing was asked for")

    def bind(self, offer: Offer, environment: Environment) -> TransposedWay:
        """Return all parts bound to kernels."""
        bound = [one.bind(environment) for one in offer.best.offers]
        return TransposedWay(offer, tuple(zip(offer.best.parts, bound)))

    def prediction(self, offer: Offer, candidate: Phased) -> Prediction:
        """Return what is expected of the whole call, and the error of its worst part."""
        parts = [one.prediction for one in candidate.offers]
        error = max(one.error for one in parts)
        return parts[0]._replace(seconds=candidate.seconds, error=error)

    def described(self, offer: Offer) -> dict[str, Any]:
        """Return the plans of all parts; the first says what computes them."""
        parts = tuple(map(Plan.of, offer.best.offers))
        alike = "variant tile points moduli order edge border isa precision sizes".split()
        return {
            **{name: getattr(parts[0], name) for name in alike},
            "workspace_bytes": max(one.workspace_bytes for one in parts),  # one after the other
            "packed_weight_bytes": sum(one.packed_weight_bytes for one in parts),
            "multiplications": sum(one.multiplications for one in parts),
            "source": "\n".join(dict.fromkeys(one.source for one in parts)),
            "operation": "conv_transpose",
            "parts": parts,
        }


class _PhasesCandidate(NamedTuple):
    """Parts that make up a transposed problem, before anything is compiled."""

    seconds: float  # on one thread, so that results do not depend on how many there are
    error: float
    parts: list[Part]
    request: Request


class _Phases(contest.Contest[_PhasesCandidate]):
    """The phases of a transposed problem, together or alone; each part has a contest of its own."""

    def __init__(self, layer: Layer, asked: Asked):
        self._layer, self._asked = layer, asked

    def candidates(self, query: Query) -> list[_PhasesCandidate]:
        """Return what is asked for, but for what keeps to no limit or is not at hand."""
        found: list[_PhasesCandidate] = []
        for parts, request in self._asked:
            seconds = error = 0.0
            try:
                for part, own in requests(parts, replace(request, threads=1)):
                    best, *_ = planner.rank(query._replace(problem=part.problem, request=own), 1)
                    seconds += best.seconds
                    layer, target = part.problem.layer, best.target or query.target
                    error = max(error, planner.predicted_error(layer, best.choice, target))
            except (InvalidValue, CompilerNotFound):
                continue
            found.append(_PhasesCandidate(seconds, error, parts, request))
        return found

    def wanted(self, query: Query) -> str:
        """Return in words what a stock may lack."""
        return "transposed layer"

    def fitting(self, query: Query, candidates: list[_PhasesCandidate]) -> list[_PhasesCandidate]:
        """Return all, whose parts are at hand."""
        return candidates

    def tolerance(self, query: Query, fitting: Sequence[_PhasesCandidate]) -> Tolerance:
        """Return that of the layer."""
        return Tolerance.of(self._layer, fitting[0].request.tolerance)

    def error(self, query: Query, candidate: _PhasesCandidate) -> float:
        """Return that of the worst part."""
        return candidate.error


@remembered(256)
def _way(
    problem: TransposedProblem,
    seams: Seams,
    target: Target,
    machine: Machine,
    environment: Environment,
) -> TransposedWay:
    """The way by which a problem is computed, bound to kernels."""
    query = Query.here(problem, Request(), target, machine)
    found: TransposedWay = Phases(seams).offer(query).bind(environment)
    return found


def ways(
    problem: TransposedProblem,
    seams: Seams,
    target: Target,
    machine: Machine,
    known: Wisdom | None = None,
    stock: Stock | None = None,
) -> Asked:
    """Return the ways to compute a problem, the best first: with the phases of a plane together, by
    tiles or as one product, or each alone.

    Which is best is predicted, with what is ``known`` by measurements, and plans that keep to a
    ``stock``.
    """
    layer = problem.layer
    lanes = Precision.of(layer.sample.dtype).lanes(target.vector_bytes)
    together = problem.together(seams, lanes)
    asked: Asked = [
        (parts, request)
        for parts, request in (
            (together, layer.together),
            (together, layer.alone if layer.one_tap_each else None),
            (problem.apart(seams), layer.alone),
        )
        if request is not None
    ]
    if len(asked) == 1:
        return asked
    sample = asked[0][0][0].problem
    query = Query(sample, Request(), target, machine, known or NOTHING, stock)
    found = contest.judged(_Phases(layer.sample, asked), query)
    return [(one.parts, one.request) for one in found] or asked  # whose last says what is wrong


def requests(parts: list[Part], request: Request) -> list[tuple[Part, Request]]:
    """What is asked of each part: of those that see no input just to be computed."""
    simple = Request("direct", threads=request.threads, workspace_limit=request.workspace_limit)
    return [(part, simple if part.weight == ("none",) else request) for part in parts]


class TransposedConvolution(WeightedFloats):
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
    ) -> Plan:
        """Return what a call with an input of this shape does; see `winogen.Conv2d.plan`."""
        layer = self._named(dtype)._layer
        seams = Seams(layer.sample.channels, layer.sample.filters)
        way = self._planned(layer.problem(input_shape, output_size), seams)
        return replace(Plan.of(way.offer), machine=described())

    def __repr__(self) -> str:
        name, sample = type(self).__name__, self._layer.sample
        return f"<{name} weight {self._layer.weight_shape} {sample.dtype}>"

    _STATE = ("_layer", "_dtype", "_weight", "_bias", "_slopes")

    def _forget(self) -> None:
        super()._forget()
        self._filters: dict[tuple, MutableMapping[Any, np.ndarray]] = {}  # packed, by their taps

    def _retyped(self, dtype: str) -> dict[str, Any]:
        sample = replace(self._layer.sample, dtype=dtype)
        return {"_layer": replace(self._layer, sample=sample)}

    def _planned(self, problem: TransposedProblem, seams: Seams) -> TransposedWay:
        return _way(problem, seams, host_target(), current(), Environment.now())

    def _bind(
        self, problem: TransposedProblem, seams: Seams
    ) -> tuple[TransposedWay, list[tuple[Any, ...]]]:
        """What computes a problem, and its packed filters; they are packed only once."""
        key = problem, seams
        entry = self._bound.get(key)
        if entry is None:
            way = self._planned(problem, seams)
            with self._lock:
                packed = [self._pack(part, prepared) for part, prepared in way.parts]
                entry = self._keep(key, (way, packed))
        return entry

    def _pack(self, part: Part, prepared: Prepared) -> tuple[Any, ...]:
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
