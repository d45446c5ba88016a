"""Transposed convolution: planned as ordinary layers whose outputs lie apart, and run.

Either all phases of a plane are one call of a Winograd kernel, which transforms every input once,
or each phase is a call of a direct one. Both write outputs to where they lie.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any, ClassVar, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from winogen.conv import arguments, flytes, memory
from winogen.conv.contest import Contest, judged
from winogen.conv.convolution import Arrays, layout_of, parameters
from winogen.conv.execute import Environment, Prepared, remembered
from winogen.conv.options import Options
from winogen.conv.phases import joined_weight, ordinary, phase_weight
from winogen.conv.plan import Plan, Prediction
from winogen.conv.problem import Seams
from winogen.conv.query import Query
from winogen.conv.request import Request
from winogen.conv.solver import Offer, Solver
from winogen.conv.solvers import chosen
from winogen.conv.tolerance import Tolerance
from winogen.conv.transposed_problem import Part, TransposedLayer, TransposedProblem
from winogen.conv.weighted import WeightedFloats
from winogen.errors import CompilerNotFound, InvalidValue
from winogen.records import Machine, Precision, Target
from winogen.toolchain import host_target
from winogen.toolchain.machine import current, described
from winogen.typing import Array, ArrayType, IntOrInts, NDArray


class Phased(NamedTuple):
    """Parts that make up a transposed problem, what is asked of them, and what is offered."""

    parts: list[Part]
    request: Request
    offers: list[Offer]

    @property
    def seconds(self) -> float:
        """Predicted, on one thread, so that results do not depend on how many there are."""
        return sum(one.solver.alone(one) for one in self.offers)


class TransposedWay(NamedTuple):
    """A transposed problem bound to kernels: all its parts."""

    offer: Offer
    parts: tuple[tuple[Part, Prepared], ...]


class TransposedSolver(Contest[Phased], Solver):
    """Ordinary convolutions whose outputs lie apart; ``seams``: of the arrays of all of them."""

    def __init__(self, seams: Seams):
        self._seams = seams

    def offer(self, query: Query, best: Offer | None = None) -> Offer:
        """Return the best parts, and others that are accurate enough."""
        found = ways(query, self._seams)
        return Offer(self, query, query.target, found, found[0].offers[0].threads)

    def bind(self, offer: Offer, environment: Environment) -> TransposedWay:
        """Return all parts bound to kernels."""
        bound = [one.bind(environment) for one in offer.best.offers]
        return TransposedWay(offer, tuple(zip(offer.best.parts, bound)))

    def candidates(self, query: Query) -> list[Phased]:
        """Return the phases of a plane together, by tiles or as one product, and each alone.

        Raises what the last of them raises if none keeps to the limits, or is at hand.
        """
        found, refused, layer = [], None, query.problem.layer
        lanes = Precision.of(layer.sample.dtype).lanes(query.target.vector_bytes)
        together = query.problem.together(self._seams, lanes)
        for parts, request in (
            (together, layer.together),
            (together, layer.alone if layer.one_tap_each else None),
            (query.problem.apart(self._seams), layer.alone),
        ):
            if request is None:
                continue
            try:
                offers = [
                    chosen(query._replace(problem=part.problem, request=own))
                    for part, own in requests(parts, request)
                ]
                found.append(Phased(parts, request, offers))
            except (InvalidValue, CompilerNotFound) as error:
                refused = error
        if refused and not found:
            raise refused
        return found

    def wanted(self, query: Query) -> str:
        """Return in words what a stock may lack."""
        return "transposed layer"

    def fitting(self, query: Query, candidates: list[Phased]) -> list[Phased]:
        """Return all, whose parts are at hand."""
        return candidates

    def tolerance(self, query: Query, fitting: Sequence[Phased]) -> Tolerance:
        """Return that of the layer."""
        return Tolerance.of(query.problem.layer.sample, fitting[0].request.tolerance)

    def error(self, query: Query, candidate: Phased) -> float:
        """Return that of the worst part."""
        return max(one.prediction.error for one in candidate.offers)

    def prediction(self, offer: Offer, candidate: Phased) -> Prediction:
        """Return what is expected of the whole call."""
        seconds = sum(one.best.seconds for one in candidate.offers)
        error = self.error(offer.query, candidate)
        return candidate.offers[0].prediction._replace(seconds=seconds, error=error)

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
    found: TransposedWay = TransposedSolver(seams).offer(query).bind(environment)
    return found


def ways(query: Query, seams: Seams) -> list[Phased]:
    """Return the ways to compute a `TransposedProblem`, the best first.

    Which is best is predicted, with what is known by measurements, and plans that keep to a stock.
    """
    return judged(TransposedSolver(seams), query)


def requests(parts: list[Part], request: Request) -> list[tuple[Part, Request]]:
    """What is asked of each part: of those that see no input just to be computed."""
    simple = Request("direct", threads=request.threads, workspace_limit=request.workspace_limit)
    return [(part, simple if part.weight == ("none",) else request) for part in parts]


class TransposedConvolution(WeightedFloats):
    """The base of `ConvTranspose1d`, `ConvTranspose2d` and `ConvTranspose3d`."""

    rank: ClassVar[int]

    def __init__(self, weight: Array, bias: Array | None, asked: Options, more: IntOrInts):
        layout_of(asked, self.rank)
        w, b = parameters(weight, bias, filters_of(weight, asked))
        self._layer = TransposedLayer.of(w.shape, arguments.dtype_name(w.dtype), asked, more)
        self._dtype = w.dtype
        groups = self._layer.sample.groups
        self._weight = np.array(ordinary(flytes.computed_with(w), groups), order="C")
        self._bias = None if b is None else np.array(flytes.computed_with(b), order="C")
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
        dtype: ArrayType | None = None,
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


def filters_of(weight: Any, asked: Options) -> int | None:
    """Return how many filters weights (C, M/groups, ...) have; None where that is not known yet."""
    w = arguments.layer_array("weight", weight)
    if w.ndim < 3:
        return None
    return int(w.shape[1]) * arguments.whole("groups", asked.groups, 1, "a positive int")
