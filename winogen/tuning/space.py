"""What may be tried for a layer: every algorithm and variant, and what lies beside a choice.

The cycle model comes first: only what it predicts within some factor is compiled and measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

import numpy as np

from winogen.conv import planner
from winogen.conv.candidates import applies, candidates, is_winograd_worth_it
from winogen.conv.choice import Choice, Cut, axes, rectangles
from winogen.conv.cuts import Candidate, cuts, evaluate, work_of
from winogen.conv.problem import Problem
from winogen.conv.request import EDGES, Request
from winogen.conv.tolerance import Tolerance
from winogen.kernels import Work, algorithms, family, first_that_applies, is_tiled, named
from winogen.kernels.sizes import steps
from winogen.kernels.spec import BORDERS
from winogen.records import Machine, Sizes, Target
from winogen.records.tuning import AT_RUN_TIME, PREFETCHING, SIZES

# Of all algorithms, what is predicted to take at most so many times as long as the best, and how
# many in all and of one variant; of the neighbours of a choice likewise.
_WITHIN, _MOST, _MOST_OF_A_VARIANT = 1.5, 12, 5
_BESIDE = 1.3
_PARAMETERS = 4  # that only its variant has: sets of them to begin with
# The steps of coordinate descent: what needs no compiler first, then what is worth most. Of each,
# so many neighbours at most.
COORDINATES = {
    "blocks": 8, "at run time": 6, "register block": 6, "edge": 1, "parameters": 4,
    "tile": 4, "points": 3, "band": 3, "prefetch": 5, "border": 2, "others": 4,
}  # fmt: skip
_BLOCK = ("rows", "vectors", "chains")


class Scope(NamedTuple):
    """What is tuned, and for which machine."""

    problem: Problem
    request: Request
    target: Target
    machine: Machine

    @staticmethod
    def applies(choice: Choice, problem: Problem, target: Target) -> bool:
        """Return whether a choice of unknown origin can compute a problem."""
        return applies(choice, problem, target)

    @property
    def tolerance(self) -> Tolerance:
        """The planner's rule for errors."""
        return Tolerance.of(self.problem.layer, self.request.tolerance)

    def price(self, choice: Choice) -> float:
        """Return how many times its time counts by that rule."""
        error = planner.predicted_error(self.problem.layer, choice, self.target)
        return self.tolerance.price(error)

    def promising(self, choices: Iterable[Choice], most: float) -> Iterator[Candidate]:
        """Yield the choices that are accurate enough, from the least predicted time on.

        Up to ``most`` seconds, and up to `_WITHIN` times the least. Errors are predicted only as
        far as they are needed, because that takes longer than predicting times.
        """
        evaluated = evaluate(self.problem, list(choices), self.target, self.machine, None)
        for way in sorted(evaluated, key=lambda way: way.seconds):
            if way.seconds > most:
                return
            error = planner.predicted_error(self.problem.layer, way.choice, self.target)
            if self.tolerance.allows(error):
                most = min(most, _WITHIN * way.seconds)
                yield way

    def starting(self) -> list[Candidate]:
        """Return what is measured first: see `starting`."""
        return starting(self)

    def neighbours(self, way: Candidate, coordinate: str) -> list[Candidate]:
        """Return what lies beside a candidate: see `neighbours`."""
        return neighbours(self, way, coordinate)


def starting(scope: Scope) -> list[Candidate]:
    """Return the planner's choice, then the most promising of all algorithms and variants."""
    problem, request, target, machine = scope
    first = planner.ranked(problem, request, target, machine)[0]
    chosen, of_variant = [first], Counter[tuple[str, str]]()
    for way in scope.promising(dict.fromkeys(_of_all_algorithms(scope)), _WITHIN * first.seconds):
        kind = way.choice.algorithm, way.cut[0][0].variant
        of_variant[kind] += 1
        if of_variant[kind] <= _MOST_OF_A_VARIANT and way.choice != first.choice:
            chosen.append(way)
        if len(chosen) > _MOST:
            break
    return chosen


def _of_all_algorithms(scope: Scope) -> Iterator[Choice]:
    """Every algorithm, also the ones `auto` leaves out, by each of its variants that applies."""
    problem, request, target, _ = scope
    named_ = request.algorithm  # as of phases of transposed layers
    for algorithm in algorithms() if named_ == "auto" else (named_,):
        if is_tiled(algorithm) and not is_winograd_worth_it(problem.layer):
            continue
        asked = replace(request, algorithm=algorithm)
        for choice in candidates(problem, asked, target):
            work = work_of(problem, choice, target, None, axes(problem.layer, choice))
            usual = first_that_applies(work)
            sets = list(islice(usual.parameters(work), _PARAMETERS))
            if sets:
                yield from (replace(choice, parameters=one) for one in sets)
                continue
            yield choice
            for variant in family(algorithm):
                able = variant.computes(work.precision) and variant.applies(work)
                if variant is not usual and not choice.sizes and able:
                    yield replace(choice, variant=variant.name)


def neighbours(scope: Scope, way: Candidate, coordinate: str) -> list[Candidate]:
    """Return what differs from ``way`` in one coordinate, the most promising first.

    Predicted at most `_BESIDE` times as long.
    """
    choices = dict.fromkeys(_beside(scope, way, coordinate))
    choices.pop(way.choice, None)
    plain = replace(way.choice, cut=None)
    (present,) = evaluate(scope.problem, [plain], scope.target, scope.machine, None)
    close = scope.promising(choices, _BESIDE * present.seconds)
    return list(islice(close, COORDINATES[coordinate]))


def _beside(scope: Scope, way: Candidate, coordinate: str) -> Iterator[Choice]:
    choice = way.choice
    free = replace(choice, cut=None)  # what else changes wants other blocks
    if coordinate == "blocks":
        yield from (replace(choice, cut=cut) for cut in _cuts(scope, way))
    elif coordinate == "edge" and choice.tile:
        yield from (replace(free, edge=edge) for edge in EDGES)
    elif coordinate == "border" and choice.tile:
        yield from (replace(choice, border=border) for border in BORDERS)
    elif coordinate == "parameters":
        work = way.works(scope.problem)[0]
        if work.parameters is not None:
            sets = named(work.variant).parameters(work)
            yield from (replace(free, parameters=one) for one in islice(sets, 4 * _PARAMETERS))
    elif coordinate in ("tile", "points") and choice.tile:
        request = replace(scope.request, algorithm=choice.algorithm)
        for other in candidates(scope.problem, request, scope.target):
            assert other.tile is not None
            moved = sum(abs(a - b) for a, b in zip(other.tile, choice.tile))
            if moved == (coordinate == "tile"):
                yield replace(free, tile=other.tile, points=other.points)
    elif coordinate not in COORDINATES:
        raise ValueError(coordinate)
    else:
        kept = choice if coordinate in ("prefetch", "at run time") else free
        work = way.works(scope.problem)[0]
        for sizes in steps(work):
            if _coordinate_of(sizes, work) == coordinate:
                yield replace(kept, sizes=sizes)


def _coordinate_of(sizes: Sizes, work: Work) -> str:
    """The coordinate along which sizes differ from the sizes of a work."""
    # A choice may name sizes that are as usual: what counts is what they amount to.
    tuning = named(work.variant).tuning(work.target, work.precision).with_sizes(sizes)
    names = {name for name in SIZES if getattr(tuning, name) != getattr(work.tuning, name)}
    if names & set(_BLOCK):
        return "register block"
    if names <= set(AT_RUN_TIME):
        return "at run time"
    if names <= set(PREFETCHING):
        return "prefetch"
    return "band" if names == {"band"} else "others"


def _cuts(scope: Scope, way: Candidate) -> Iterator[Cut]:
    """Other blocks: the model's favourites, and the neighbours of the present ones."""
    problem, target, machine = scope.problem, scope.target, scope.machine
    choice = replace(way.choice, cut=None)
    part = rectangles(problem, choice)[0]
    many, _, cycles = cuts(problem, [choice], part, target, machine, None)
    high, wide, images, split = (
        np.broadcast_to(values, cycles.shape)[0]
        for values in (*many.block, many.images, many.split)
    )
    for index in np.argsort(cycles[0], kind="stable"):
        block = int(high[index]), int(wide[index])
        yield Cut(block, int(images[index]), bool(split[index]))
    work = way.works(problem)[0]
    rows, cols = work.block
    for block in (
        *((rows + 1, cols), (rows - 1, cols), (2 * rows, cols), (-(-rows // 2), cols)),
        *((rows, 2 * cols), (rows, -(-cols // 2)), (2 * rows, -(-cols // 2))),
    ):
        if min(block) > 0:
            yield Cut(block, int(work.images), bool(work.split))
