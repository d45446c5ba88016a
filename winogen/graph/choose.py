"""How every step runs: the fastest ways whose packed filters fit a limit, and the better layout."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from winogen.conv import accuracy, planner, rankings
from winogen.conv.cuts import Candidate
from winogen.conv.problem import Problem
from winogen.conv.query import Query
from winogen.conv.request import Request
from winogen.conv.stock import Stock
from winogen.conv.streaming import long_signal, pinned
from winogen.conv.tolerance import measured_error
from winogen.conv.wisdom import NOTHING
from winogen.errors import CompilerNotFound, InvalidValue
from winogen.kernels import named
from winogen.records import Machine, Target


class Way(NamedTuple):
    """One way to compute a problem, and the bytes of its packed filters."""

    candidate: Candidate
    packed_bytes: int


@dataclass(frozen=True)
class Choice:
    """The ways of one problem: the one that runs first, the others by time."""

    ways: tuple[Way, ...]
    moving: float = 0.0  # seconds of a step whose ways are not chosen from here

    @property
    def seconds(self) -> float:
        """Predicted, of one call."""
        return self.ways[0].candidate.seconds if self.ways else self.moving

    @property
    def packed_bytes(self) -> int:
        """Of the filters as the kernel reads them."""
        return self.ways[0].packed_bytes if self.ways else 0


def ways(
    problem: Problem,
    request: Request,
    target: Target,
    machine: Machine,
    most_error: float | None = None,
    stock: Stock | None = None,
) -> tuple[Way, ...]:
    """Return the ways that the planner considers, its own choice first.

    Behind the fastest come all with smaller filters than every faster one: a limit of memory finds
    smaller tiles before it gives up tiles. Among them is one without tiles, whose packed filters
    are about as large as the filters. Predicted errors are at most ``most_error``, as far as
    anything's are. ``stock``: what all ways must be in; None for what can be used here. Raises
    CompilerNotFound if it has nothing.
    """
    return _ways(Query.here(problem, request, target, machine, stock), most_error)


@lru_cache(maxsize=4096)
def _ways(query: Query, most_error: float | None) -> tuple[Way, ...]:
    def candidates() -> list[Candidate]:
        return [way.candidate for way in _found(query, most_error)]

    kept = rankings.kept(f"ways {most_error}", query, candidates)
    return tuple(map(Way, kept, packed_bytes(kept)))


def _found(query: Query, most_error: float | None) -> list[Way]:
    problem, request, target, *_ = query
    ranked = planner.rank(query)
    error = partial(error_of, problem, target=target)

    if most_error is not None and error(ranked[0]) > most_error:
        careful = replace(request, tolerance=measured_error(most_error))
        with suppress(InvalidValue, CompilerNotFound):  # nothing is so accurate
            ranked = planner.rank(query._replace(request=careful))
    if request.algorithm == "auto" and all(c.choice.tile is not None for c in ranked):
        plain = Request(
            algorithm="direct",
            threads=request.threads,
            workspace_limit=request.workspace_limit,
            filter_dtype=request.filter_dtype,
        )
        with suppress(CompilerNotFound):
            ranked += planner.rank(query._replace(request=plain, wisdom=NOTHING), 1)
    kept: list[Way] = []
    for way in map(Way, ranked, packed_bytes(ranked)):
        smaller = all(way.packed_bytes < other.packed_bytes for other in kept)
        if not (smaller or len(kept) < planner.ALTERNATIVES):
            continue
        if not kept or most_error is None or error(way.candidate) <= most_error:
            kept.append(way)
    return kept


@lru_cache(maxsize=1024)
def way_of_piece(
    problem: Problem, before: int, request: Request, target: Target, machine: Machine
) -> Way:
    """Return how a piece of a signal is computed, by the kernel of a long one.

    ``before``: of its samples, those of pieces before, where the layer itself has padding.
    ``request``: of direct convolution.
    """
    *others, axis = problem.layer.axes
    padded = replace(axis, before=axis.before + before)
    long = long_signal(replace(problem.layer, axes=(*others, padded)), problem)
    candidate, _ = pinned(problem, long, request, target, machine)
    return Way(candidate, *packed_bytes([candidate]))


def error_of(problem: Problem, candidate: Candidate, target: Target) -> float:
    """Return the predicted error of a candidate, planned for a target."""
    return planner.predicted_error(problem.layer, candidate.choice, candidate.target or target)


def norm_error_of(problem: Problem, candidate: Candidate, target: Target) -> float:
    """Return the same in the L2 norm, of all outputs."""
    return accuracy.norm_error(problem.layer, candidate.choice, candidate.target or target)


def forget() -> None:
    """Forget the ways of all problems, which hold every way to cut them."""
    _ways.cache_clear()


def packed_bytes(candidates: Iterable[Candidate]) -> Iterator[int]:
    """Yield for each candidate the bytes of the filters as its kernels read them."""
    known: dict[int, list[int]] = {}  # by works that candidates share, in each a row of arrays
    for candidate in candidates:
        kernels = {(many.variant, many.algorithm): (many, row) for many, row, _ in candidate.cut}
        total = 0
        for many, row in kernels.values():
            sizes = known.get(id(many))
            if sizes is None:
                column = np.atleast_2d(named(many.variant).packed_bytes(many))[:, 0]
                sizes = known[id(many)] = column.tolist()
            total += sizes[min(row, len(sizes) - 1)]
        yield total


def within(limit: int | None, steps: Sequence[tuple[str, tuple[Way, ...]]]) -> list[Choice]:
    """Return the choices of steps, given with their keys, whose packed filters fit ``limit`` bytes.

    Steps of one key share their filters. While the sum is too large, the step that loses the least
    time per byte saved takes a way with smaller filters. Raises InvalidValue if all together cannot
    fit, with the least sum.
    """
    chosen = [0] * len(steps)

    def total() -> int:
        largest: dict[str, int] = {}
        for (key, options), index in zip(steps, chosen):
            largest[key] = max(largest.get(key, 0), options[index].packed_bytes)
        return sum(largest.values())

    size = total()
    while limit is not None and size > limit:
        best: tuple[float, int, int] | None = None
        for place, (_, options) in enumerate(steps):
            now = options[chosen[place]]
            for index, way in enumerate(options):
                saved = now.packed_bytes - way.packed_bytes
                if saved <= 0:
                    continue
                lost = way.candidate.seconds - now.candidate.seconds
                rank = (max(lost, 0.0) / saved, place, index)
                if best is None or rank < best:
                    best = rank
        if best is None:
            raise InvalidValue(
                f"memory_limit: got {limit}; allowed: at least {size} bytes, which the packed "
                "filters of these layers need"
            )
        chosen[best[1]] = best[2]
        size = total()
    return [
        Choice((options[index], *(way for i, way in enumerate(options) if i != index)))
        for (_, options), index in zip(steps, chosen)
    ]
