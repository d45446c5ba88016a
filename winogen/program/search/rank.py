"""From strategies to programs: the best result under an objective."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from winogen.errors import InvalidValue
from winogen.program.analysis import network_growth
from winogen.program.ir import Program, magnitude
from winogen.program.search.candidate import OBJECTIVES, PricedProgram, check_objective
from winogen.program.search.lower import NAMES, Names, lower
from winogen.program.search.passes import rename, tidy
from winogen.program.search.polish import polished
from winogen.program.search.schedule import schedule
from winogen.program.search.strategies import FAST, strategy

if TYPE_CHECKING:
    from winogen.algebra.scalar import Matrix, Scalar
    from winogen.program.search.network import GateNetwork

_FIRST, _SECOND = 5, 24  # tries of lowering: for every network, for the best ones
_NETWORKS, _FINALISTS = 10, 3
_LARGE = 24  # rows or columns; with more, one network counts, and few tries of lowering it
_DIGITS = 50  # of the entries of a matrix
_ORDERED = 16  # programs that are scheduled where registers are what counts
_COUNTED = ("instructions", "additions")  # objectives that no network of more gates is better at
_SLACK = 2  # networks with so many gates more than the best may need fewer multiplications


@lru_cache(maxsize=16)
def candidates(
    matrix: Matrix,
    objective: str,
    strategies: tuple[str, ...] | None = None,
    free_outputs: bool = False,
    free_inputs: bool = False,
    names: Names = NAMES,
    error_limit: float | None = None,
    factors: tuple[Scalar, ...] | None = None,
) -> list[PricedProgram]:
    """Candidates (``PricedProgram``, not scheduled) in the order of the objective, best first.

    Kept, because algorithms with the same points have the same input transform.
    ``strategies``: names, by default the fast ones. For ``free_outputs``, ``free_inputs`` see
    ``lower``, for ``error_limit`` ``simplify``. ``factors``: of the rows; the candidates compute
    the rows of ``matrix`` multiplied by these.
    """
    check_objective(objective)
    _check_range(matrix)
    growth = dict(networks_of(matrix, tuple(strategies or FAST)))
    careful = dict(networks_of(matrix, ("direct",)))
    if factors is not None:
        growth = {network.scaled(factors): value for network, value in growth.items()}
        careful = {network.scaled(factors): value for network, value in careful.items()}
    limit = math.inf
    if error_limit is not None or objective == "error":
        growth.update(careful)
        limit = _careful_growth(matrix) * (error_limit or math.inf)

    def cost(candidate: PricedProgram) -> tuple[float, ...]:
        return candidate.growth > limit, *OBJECTIVES[objective](candidate)

    if objective == "error":
        chosen = sorted(growth, key=lambda network: (growth[network], len(network.gates)))
    else:
        chosen = sorted(growth, key=lambda n: (growth[n] > limit, len(n.gates), growth[n]))
    if objective in _COUNTED:
        chosen = [n for n in chosen if len(n.gates) <= len(chosen[0].gates) + _SLACK]
    large = max(len(matrix), len(matrix[0])) > _LARGE
    networks, finalists, early, late = (
        (2, 1, 1, 3) if large else (_NETWORKS, _FINALISTS, _FIRST, _SECOND)
    )
    chosen = chosen[:networks]

    def lowered(network: GateNetwork, tries: int) -> list[PricedProgram]:
        return lowered_candidates(network, names, free_outputs, free_inputs, tries)

    first = {network: min(map(cost, lowered(network, early))) for network in chosen}
    result: list[PricedProgram] = []
    for network in sorted(chosen, key=lambda network: first[network])[:finalists]:
        result += lowered(network, late)
    fewest = min((c.counts.instructions for c in result if c.growth <= limit), default=math.inf)
    for network in careful:  # what is found never costs more than that
        if objective not in _COUNTED or len(network.gates) <= fewest:
            result += lowered(network, 2)
    within = [candidate for candidate in result if candidate.growth <= limit]
    return sorted(within or result, key=cost)


def _check_range(matrix: Matrix) -> None:
    """Errors are compared in double precision, whose range the squares of values must not leave."""
    largest = Fraction(10) ** _DIGITS
    for entry in (magnitude(entry) for row in matrix for entry in row if entry != 0):
        if not 1 / largest <= entry <= largest:
            size = "above" if entry > 1 else "below"
            raise InvalidValue(
                f"matrix: got an entry {size} the range of the search;"
                f" allowed: 0, 1e-{_DIGITS} to 1e{_DIGITS}"
            )


@lru_cache(maxsize=64)
def networks_of(
    matrix: Matrix, strategies: tuple[str, ...]
) -> tuple[tuple[GateNetwork, float], ...]:
    """Pairs of each network that the named strategies find and its growth of errors.

    Kept, because the same matrix is searched again and again, with scales fixed and free.
    """
    networks: dict[GateNetwork, None] = {}
    for name in strategies:
        for network in strategy(name)(matrix):
            networks.setdefault(network.compact(), None)
    if not networks:
        raise InvalidValue(f"strategies: got {strategies}; allowed: one that applies to the matrix")
    return tuple((network, round(network_growth(network), 3)) for network in networks)


@lru_cache(maxsize=64)
def _careful_growth(matrix: Matrix) -> float:
    """The growth of errors of the most careful row-by-row program."""
    networks = networks_of(matrix, ("direct",))
    return min(lowered_candidates(network, NAMES)[0].growth for network, _ in networks)


def lowered_candidates(
    network: GateNetwork,
    names: Names,
    free_outputs: bool = False,
    free_inputs: bool = False,
    tries: int = 1,
) -> list[PricedProgram]:
    """Candidates of fewest statements from one network; see ``lower``."""
    programs = lower(network, names, free_outputs, free_inputs, tries)
    return [PricedProgram(network, program) for program in programs]


def scheduled(
    ranking: Sequence[PricedProgram], names: Names, objective: str, registers: int | None = None
) -> Program:
    """The program of the best candidate, its constants polished, that needs fewest registers.

    ``ranking``: best first. Its statements are in their final order and its values have their final
    names.
    """
    few_registers = objective == "registers"
    equal = ranking[:_ORDERED] if few_registers else polished(ranking, names, objective)
    result = []
    for candidate in equal:
        program = schedule(candidate.program, registers)
        program = rename(tidy(program), names.outputs, names.temporaries)
        program.verify(candidate.program.to_matrix())
        result.append(program)
    cost = OBJECTIVES[objective]
    return min(result, key=lambda p: (cost(PricedProgram.of(p))[0], p.counts().registers))
