"""Kernels for convolutions of floats: what the ranking has to know of their candidates.

Nothing here touches data or compiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from winogen.conv import contest
from winogen.conv.accuracy import predicted_error
from winogen.conv.candidates import applies, candidates, other_variants
from winogen.conv.choice import Choice
from winogen.conv.cuts import Candidate, MeasuredChoice, evaluate
from winogen.conv.plan import ALTERNATIVES
from winogen.conv.problem import Layer, Problem
from winogen.conv.query import Query
from winogen.conv.request import MOST_STRIDE, Request
from winogen.conv.tolerance import Tolerance
from winogen.conv.wisdom import NOTHING, Wisdom
from winogen.errors import InvalidValue, Unsupported
from winogen.kernels import algorithms
from winogen.records import Machine, Precision, Target

if TYPE_CHECKING:
    from winogen.conv.stock import Stock

# With named types of numbers and no tolerance, errors may be so many times the least possible. It
# allows F(4, 3), nine times as coarse as F(1, 1), and little more.
_TIMES_THE_LEAST = 10
# Another register block than a variant's own is another kernel to compile, to find at hand and to
# keep in caches. Predicted to be less than so many times as fast, it is not worth that.
_ANOTHER_KERNEL = 1.02


def choose(
    problem: Problem, request: Request, target: Target, machine: Machine | None = None
) -> Candidate:
    """Return the candidate that runs: see `ranked`.

    >>> from winogen.records import TARGETS
    >>> layer = Layer.of((64, 64, 3, 3), "float32", padding=1)
    >>> choose(layer.problem((1, 64, 56, 56)), Request(), TARGETS["avx512"]).choice.algorithm
    'mcmr'
    """
    return ranked(problem, request, target, machine, ALTERNATIVES)[0]


def ranked(
    problem: Problem,
    request: Request,
    target: Target,
    machine: Machine | None = None,
    most: int | None = None,
    wisdom: Wisdom | None = None,
    stock: Stock | None = None,
) -> list[Candidate]:
    """Return `rank` of a query; ``machine``: None for the default one."""
    query = Query(problem, request, target, machine or Machine(), wisdom or NOTHING, stock)
    return rank(query, most)


def rank(query: Query, most: int | None = None) -> list[Candidate]:
    """Return the ``most`` fastest candidates that keep to the request: see `contest.rank`."""
    return contest.rank(_Floats(), query, most)


class _Floats(contest.Contest[Candidate]):
    """Candidates whose errors differ, and which may need too much memory."""

    def candidates(self, query: Query) -> list[Candidate]:
        """Return all that the request leaves open. Raises Unsupported if there is none."""
        problem, request, target, machine, *_ = query
        choices = list(candidates(problem, request, target))
        if not choices:
            raise _unable(problem.layer, request)
        return evaluate(problem, choices, target, machine, request.workspace_limit)

    def wanted(self, query: Query) -> str:
        """Return in words what a stock may lack."""
        layer, request = query.problem.layer, query.request
        named = {
            "tile": request.tile or None,
            "points": request.points if any(request.points) else None,
            "filter_dtype": request.filter_dtype,
            "product_dtype": request.product_dtype,
        }
        words = [f'algorithm "{request.algorithm}" in {layer.dtype}, {layer.layout}']
        return ", ".join([*words, *(f"{name} {value}" for name, value in named.items() if value)])

    def what(self, query: Query) -> str:
        """Return in words what a tolerance is for."""
        return f'layer with algorithm "{query.request.algorithm}"'

    def tolerance(self, query: Query, fitting: Sequence[Candidate]) -> Tolerance:
        """Return that of the layer; where narrow numbers are named, what their least error is."""
        request, rule = query.request, Tolerance.of(query.problem.layer, query.request.tolerance)
        if request.tolerance is None and request.asks_for_numbers:
            least = min(self.error(query, one) for one in fitting)
            return replace(rule, most=_TIMES_THE_LEAST * least)
        return rule

    def error(self, query: Query, candidate: Candidate) -> float:
        """Return the predicted error of its choice."""
        return predicted_error(query.problem.layer, candidate.choice, query.target)

    def on_threads(self, query: Query, chosen: list[Candidate]) -> list[Candidate]:
        """Return the same choices, cut for all threads."""
        problem, request, target, machine, *_ = query
        if request.threads == 1:
            return chosen
        choices = [replace(candidate.choice, threads=request.threads) for candidate in chosen]
        return evaluate(problem, choices, target, machine, request.workspace_limit)

    def measured(self, query: Query) -> tuple[Candidate, MeasuredChoice] | None:
        """Return what the wisdom has; no limit was asked for."""
        problem, request, target, machine, wisdom, _ = query
        entry = wisdom.entry(problem, request, target, applies)
        if entry is None:
            return None
        return evaluate(problem, [entry.choice], target, machine, None)[0], entry.measured

    def fitting(self, query: Query, candidates: list[Candidate]) -> list[Candidate]:
        """Return those whose workspace keeps to the limit; of a stock also by other variants."""
        problem, request, target, machine, _, stock = query
        limit = request.workspace_limit
        if stock is not None:
            others = list(other_variants(problem, request, target))
            more = evaluate(problem, others, target, machine, limit)
            candidates = stock.among(problem, [*candidates, *more])
            if not candidates:
                return []
        least = min(candidate.workspace_bytes for candidate in candidates)
        if limit is not None and least > limit:
            raise InvalidValue(
                f"workspace_limit: got {limit}; allowed: at least {least} bytes for this problem "
                "and algorithm"
            )
        fits = [limit is None or candidate.workspace_bytes <= limit for candidate in candidates]
        if request.threads > 1:
            alone = [replace(candidate.choice, threads=1) for candidate in candidates]
            candidates = evaluate(problem, alone, target, machine, limit)
        fitting = [candidate for candidate, fit in zip(candidates, fits) if fit]

        def seconds(candidate: Candidate) -> float:
            return candidate.seconds * (_ANOTHER_KERNEL if candidate.choice.sizes else 1.0)

        # Of choices that differ in their register block only, the fastest.
        best: dict[Choice, Candidate] = {}
        for candidate in sorted(fitting, key=seconds):
            choice = candidate.choice
            best.setdefault(replace(choice, sizes=()) if choice.sizes else choice, candidate)
        return list(best.values())


def _unable(layer: Layer, request: Request) -> Unsupported:
    """What "auto" says of types of numbers if none of its kernels for the layer has them."""
    name = "product_dtype" if request.product_dtype else "filter_dtype"
    allowed = "None"
    # Where tiles gain nothing they still apply.
    if layer.in_tiles and max(layer.stride[-2:]) <= MOST_STRIDE:
        numbers = Precision.of(layer.dtype, request.filter_dtype, request.product_dtype)
        allowed += f", or algorithm {', '.join(algorithms(numbers))}"
    return Unsupported(
        f'{name}: got "{getattr(request, name)}" for a layer with stride {layer.stride}, dilation '
        f"{layer.dilation}, {layer.groups} groups and kernel {layer.kernel}; allowed: {allowed}"
    )
