"""From strategies to programs: the best result under an objective."""

import math
from functools import cached_property, lru_cache

from winogen.errors import InvalidValue
from winogen.program.analysis import error_growth, network_growth
from winogen.program.lower import NAMES, Lowered, lower
from winogen.program.passes import rename
from winogen.program.schedule import schedule
from winogen.program.strategies import FAST, strategy

_FIRST, _SECOND = 5, 24  # tries of lowering: for every network, for the best ones
_NETWORKS, _FINALISTS = 10, 3
_EQUAL = 4  # equally good programs that are scheduled
_SLACK = 2  # networks with so many gates more than the best may need fewer multiplications


class Candidate:
    """A program that computes what is wanted (up to scales, where those are free) and its costs."""

    def __init__(self, network, lowered):
        self.network, self.lowered = network, lowered
        self.program = lowered.program
        self.counts = self.program.counts()

    @classmethod
    def of(cls, program):
        """A candidate from a program that is there already."""
        return cls(None, Lowered(program, (), ()))

    @cached_property
    def growth(self):
        """:func:`winogen.program.analysis.error_growth`, to three digits: less is no difference."""
        return round(error_growth(self.program), 3)

    @cached_property
    def depth(self):
        """Statements on the critical path."""
        return self.program.depth()


# Objective -> what to compare, most important first. Registers are known after scheduling only.
OBJECTIVES = {
    "instructions": lambda c: (c.counts.instructions, c.growth, c.depth, c.counts.mul),
    "additions": lambda c: (c.counts.add, c.counts.instructions, c.growth, c.depth),
    "depth": lambda c: (c.depth, c.counts.instructions, c.growth),
    "registers": lambda c: (c.counts.registers, c.counts.instructions, c.growth),
    "error": lambda c: (c.growth, c.counts.instructions, c.depth),
}


def check_objective(objective):
    """Raise :class:`InvalidValue` for an unknown objective."""
    if objective not in OBJECTIVES:
        raise InvalidValue(f"objective: got {objective!r}; allowed: {', '.join(OBJECTIVES)}")


def candidates(
    matrix,
    objective,
    strategies=None,
    free_outputs=False,
    free_inputs=False,
    names=NAMES,
    error_limit=None,
):
    """Candidates (:class:`Candidate`, not scheduled) in the order of the objective, best first.

    ``strategies``: names, by default the fast ones. For ``free_outputs``, ``free_inputs`` see
    :func:`winogen.program.lower.lower`, for ``error_limit`` ``simplify``.
    """
    check_objective(objective)
    growth = dict(networks_of(matrix, tuple(strategies or FAST)))
    limit = math.inf
    if error_limit is not None or objective == "error":
        careful = dict(networks_of(matrix, ("direct",)))
        growth.update(careful)
        grown = [
            lowered_candidates(network, names, False, False, 1)[0].growth for network in careful
        ]
        limit = min(grown) * (error_limit or math.inf)

    def cost(candidate):
        return candidate.growth > limit, *OBJECTIVES[objective](candidate)

    if objective == "error":
        chosen = sorted(growth, key=lambda network: (growth[network], len(network.gates)))
    else:
        chosen = sorted(growth, key=lambda n: (growth[n] > limit, len(n.gates), growth[n]))
    if objective in ("instructions", "additions"):
        chosen = [n for n in chosen if len(n.gates) <= len(chosen[0].gates) + _SLACK]
    chosen = chosen[:_NETWORKS]
    free = (free_outputs, free_inputs)
    first = {n: min(map(cost, lowered_candidates(n, names, *free, _FIRST))) for n in chosen}
    result = []
    for network in sorted(chosen, key=first.get)[:_FINALISTS]:
        result += lowered_candidates(network, names, *free, _SECOND)
    for network, _ in networks_of(matrix, ("direct",)):  # what is found never costs more than that
        result += lowered_candidates(network, names, *free, 2)
    within = [candidate for candidate in result if candidate.growth <= limit]
    return sorted(within or result, key=cost)


@lru_cache(maxsize=64)
def networks_of(matrix, strategies):
    """Pairs of each network that the named strategies find and its growth of errors.

    Kept, because the same matrix is searched again and again: with scales fixed and free, and
    rescaled by what other transforms want.
    """
    networks = {}
    for name in strategies:
        for network in strategy(name)(matrix):
            networks.setdefault(network.compact(), None)
    if not networks:
        raise InvalidValue(f"strategies: got {strategies}; allowed: one that applies to the matrix")
    return tuple((network, round(network_growth(network), 3)) for network in networks)


def lowered_candidates(network, names, free_outputs=False, free_inputs=False, tries=1):
    """Candidates from one network, those of fewest statements; see ``lower``."""
    found = lower(network, names, free_outputs, free_inputs, tries)
    return [Candidate(network, item) for item in found]


def scheduled(found, names, objective, registers=None) -> Candidate:
    """Of the candidates that are as good as the first, the one that needs fewest registers.

    Its statements are in their final order and its values have their final names.
    """
    cost = OBJECTIVES[objective]
    if objective == "registers":
        equal = found[: 4 * _EQUAL]
    else:
        equal = [c for c in found if cost(c) == cost(found[0])][:_EQUAL]
    result = []
    for candidate in equal:
        program = schedule(candidate.program, registers)
        program.verify(candidate.program.to_matrix())
        program = rename(program, names.outputs, names.temporaries)
        program.verify(candidate.program.to_matrix())
        lowered = candidate.lowered._replace(program=program)
        result.append(Candidate(candidate.network, lowered))
    return min(result, key=lambda c: (*cost(c), c.counts.registers))
