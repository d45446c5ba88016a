"""All three transforms of an algorithm together, with the scalings between them free.

Row a of B^T, row a of G and column a of A^T may be multiplied by factors whose product is 1. So the
input transform may compute any multiple of each row, the output transform may want any multiple of
each product, and the filter transform, which runs once and not for every tile, makes up for both:

    y1 = 5/8 (p1 - p2) + 3/2 (p3 - p4)      ->      y1 = (p1 - p2) + 2/3 (p3 - p4)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from winogen.algebra.iterated import iterate
from winogen.errors import VerificationError
from winogen.program import iterated
from winogen.program.ir import Program, magnitude
from winogen.program.search.candidate import OBJECTIVES, PricedProgram, check_objective
from winogen.program.search.lower import Names, lower, statements
from winogen.program.search.rank import candidates, scheduled

if TYPE_CHECKING:
    from winogen.algebra.bilinear import BilinearAlgorithm
    from winogen.algebra.scalar import Matrix, Scalar
    from winogen.program.search.network import GateNetwork

ERROR_LIMIT = 1.75
# Transforms that run for every tile -> which of their scales are free, and names.
RANKED = {
    "input": ("free_outputs", Names("d", "v")),
    "output": ("free_inputs", Names("p", "y")),
}
_CHOICES = 4  # equally good programs for input and output that are combined


class ShortTransforms(NamedTuple):
    """A rescaled algorithm and the programs of its three matrices."""

    algorithm: BilinearAlgorithm
    input: Program
    filter: Program
    output: Program

    @property
    def programs(self) -> dict[str, Program]:
        """The programs by kind."""
        return {"input": self.input, "filter": self.filter, "output": self.output}


def shortest_transforms(
    algorithm: BilinearAlgorithm,
    objective: str = "instructions",
    filter_objective: str | None = None,
    *,
    registers: int | None = None,
    error_limit: float | None = ERROR_LIMIT,
    ranked: Mapping[str, list[PricedProgram]] | None = None,
) -> ShortTransforms:
    """Programs for B^T, G and A^T of a bilinear algorithm, rows and columns rescaled to suit.

    ``objective`` is for the transforms of inputs and outputs, which run for every tile, and by
    default for the filters, too; ``registers`` and ``error_limit`` as in ``simplify``. ``ranked``:
    what ``ranking`` found for input and output, with the same objective and limit, perhaps in
    another process. The result is exact: every program computes its matrix of the rescaled
    algorithm, which is verified.

    >>> from winogen.algebra import cook_toom
    >>> short = shortest_transforms(cook_toom(4, 3, "0, 5/8, -5/8, 3/2, -3/2, inf"))
    >>> [short.programs[kind].counts().instructions for kind in ("input", "filter", "output")]
    [12, 8, 10]
    """
    check_objective(objective)
    filter_objective = filter_objective or objective
    check_objective(filter_objective)
    if (found := iterated.parts(algorithm)) is not None:
        sizes, *both = found
        outer, inner = (
            shortest_transforms(
                part, objective, filter_objective, registers=registers, error_limit=error_limit
            )
            for part in both
        )
        programs = iterated.composed(sizes, outer.programs, inner.programs)
        whole = iterate(outer.algorithm, inner.algorithm)
        for kind, matrix in whole.matrices.items():
            programs[kind].verify(matrix)
        return ShortTransforms(whole, **programs)
    if ranked is None:
        ranked = {kind: ranking(algorithm, kind, objective, error_limit) for kind in RANKED}
    inputs, outputs = (ranked[kind] for kind in RANKED)
    filters = _filter_networks(algorithm.g, filter_objective)
    best: tuple[tuple[float, ...], PricedProgram, PricedProgram] | None = None
    for first in inputs:
        for last in outputs:
            factors = _factors(first, last)
            rounded = first.constants[0] + last.constants[0]
            cost = (_filter_cost(filters, factors), rounded, _distortion(factors))
            if best is None or cost < best[0]:
                best = (cost, first, last)
    assert best is not None
    _, first, last = best
    pool = [_input_factors(candidate) for candidate in inputs]
    first = _refined(algorithm, first, last, pool, filters, objective)
    filter_ranking = candidates(
        algorithm.g,
        filter_objective,
        names=Names("g", "u"),
        error_limit=error_limit,
        factors=tuple(_factors(first, last)),
    )
    filter_program = scheduled(filter_ranking, Names("g", "u"), filter_objective, registers)
    input_program = scheduled([first], RANKED["input"][1], objective, registers)
    output_program = scheduled([last], RANKED["output"][1], objective, registers)
    scaled = algorithm.scale(input=_input_factors(first), output=_output_factors(last))
    if not scaled.verify():
        raise VerificationError("the rescaled algorithm is wrong")
    input_program.verify(scaled.bt)
    filter_program.verify(scaled.g)
    output_program.verify(scaled.at)
    return ShortTransforms(scaled, input_program, filter_program, output_program)


def ranking(
    algorithm: BilinearAlgorithm,
    kind: str,
    objective: str = "instructions",
    error_limit: float | None = ERROR_LIMIT,
) -> list[PricedProgram]:
    """Equally good programs of "input" or "output", which differ in the scales left to filters."""
    free, names = RANKED[kind]
    matrix = algorithm.matrices[kind]
    # The matrices as they are take part: where freedom saves nothing, the filters decide.
    found = candidates(matrix, objective, names=names, error_limit=error_limit)[:1]
    found += candidates(matrix, objective, names=names, error_limit=error_limit, **{free: True})
    return _equal(found, objective)


def _equal(ranking: Sequence[PricedProgram], objective: str) -> list[PricedProgram]:
    """The candidates that are as good as the first but for rounding, and differ in their scales."""
    cost = OBJECTIVES[objective]
    best = min(cost(candidate)[0] for candidate in ranking)
    growth = min(candidate.growth for candidate in ranking if cost(candidate)[0] == best)
    choices: dict[object, PricedProgram] = {}  # by their scales
    for candidate in ranking:
        same = cost(candidate)[0] == best and candidate.growth <= 1.1 * growth
        scales = (candidate.lowered.output_scales, candidate.lowered.input_scales)
        if same and len(choices) < _CHOICES:
            choices.setdefault(scales, candidate)
    return list(choices.values())


def _input_factors(candidate: PricedProgram) -> tuple[Scalar, ...]:
    return candidate.lowered.output_scales


def _output_factors(candidate: PricedProgram) -> list[Scalar]:
    return [1 / scale for scale in candidate.lowered.input_scales]


def _factors(first: PricedProgram, last: PricedProgram) -> list[Scalar]:
    """What the rows of G are multiplied by."""
    return [1 / (b * a) for b, a in zip(_input_factors(first), _output_factors(last))]


def _refined(
    algorithm: BilinearAlgorithm,
    first: PricedProgram,
    last: PricedProgram,
    pool: list[tuple[Scalar, ...]],
    filters: tuple[GateNetwork, ...],
    objective: str,
) -> PricedProgram:
    """An input program that is as good as ``first`` and makes the filter transform cheaper.

    Scales of rows that mirror each other change together; tried are the scales of other candidates,
    and scales that make the first constant of a row of G vanish.
    """
    cost = OBJECTIVES[objective]
    after = _output_factors(last)
    current = _filter_cost(filters, _factors(first, last))
    groups: dict[tuple[Scalar, ...], list[int]] = {}
    for a, row in enumerate(algorithm.bt):
        groups.setdefault(tuple(magnitude(c) for c in row), []).append(a)
    for rows in groups.values():
        lead = rows[0]
        values = [magnitude(factors[lead]) for factors in pool]
        constants = [c for c in algorithm.g[lead] if c != 0]
        values += [magnitude(c / after[lead]) for c in constants]
        for value in dict.fromkeys(values):
            factors = list(_input_factors(first))
            for a in rows:
                factors[a] = value if factors[a] > 0 else -value
            cheaper = _filter_cost(filters, [1 / (b * a) for b, a in zip(factors, after)])
            if cheaper >= current:
                continue
            scaled = first.network.scaled(factors)
            for item in lower(scaled, Names("d", "v"), tries=6):
                other = PricedProgram(first.network, item._replace(output_scales=tuple(factors)))
                if cost(other)[0] <= cost(first)[0] and other.growth <= 1.1 * first.growth:
                    first, current = other, cheaper
                    break
    return first


def _filter_networks(matrix: Matrix, objective: str) -> tuple[GateNetwork, ...]:
    networks = dict.fromkeys(candidate.network for candidate in candidates(matrix, objective))
    return tuple(networks)[:2]


def _filter_cost(networks: tuple[GateNetwork, ...], factors: Sequence[Scalar]) -> int:
    """The fewest statements of the filter transform when its rows are multiplied by ``factors``."""
    return min(statements(network.scaled(factors)) for network in networks)


def _distortion(factors: Sequence[Scalar]) -> float:
    """How far factors are from one: products that keep their size are easier to look at."""
    return sum(abs(math.log2(abs(float(factor)))) for factor in factors)
