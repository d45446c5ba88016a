"""What is worth having of several things: nothing else beats it in all respects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log
from operator import le


def front(pairs: Iterable[tuple[float, float]], slacks: Iterable[float] = ()) -> list[bool]:
    """Return for each (cost, error) whether no other pair is as good in both and better in one.

    ``slacks``: how uncertain each error is. At the same cost an error must be smaller by more than
    both slacks to count as better.

    >>> front([(3, 1.0), (1, 3.0), (2, 2.0), (2, 2.5), (4, 1.0)])
    [True, True, True, False, False]
    >>> front([(2, 2.0), (2, 2.5)], [0.3, 0.3])
    [True, True]
    """
    pairs = list(pairs)
    slacks = list(slacks) or [0.0] * len(pairs)

    def beats(other: int, one: int) -> bool:
        (their_cost, their_error), (cost, error) = pairs[other], pairs[one]
        if their_cost == cost:
            return their_error + slacks[other] + slacks[one] < error
        return their_cost < cost and their_error <= error

    every = range(len(pairs))
    return [not any(beats(other, one) for other in every) for one in every]


def staircase(pairs: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the pairs of the front, by rising cost, each once.

    >>> staircase([(3, 1.0), (1, 3.0), (2, 4.0)])
    [(1, 3.0), (3, 1.0)]
    """
    pairs = list(pairs)
    return sorted({pair for pair, best in zip(pairs, front(pairs)) if best})


def worth_having(costs: Sequence[tuple[float, ...]], margin: float = 0.0) -> list[bool]:
    """Return which of these are worth having, each costing several things, all more than nothing.

    Each of the others has one among them that costs at most ``margin`` more of every thing. Without
    a margin that is the Pareto front, of equal ones the first.

    >>> worth_having([(1, 4, 9), (2, 4, 9), (4, 1, 9), (5, 5, 1)])
    [True, False, True, True]
    >>> worth_having([(100, 1), (95, 5)], 0.1)
    [True, False]
    """
    kept: list[int] = []
    # Whatever beats another costs less as a product, so that it comes first.
    for one in sorted(range(len(costs)), key=lambda one: (sum(map(log, costs[one])), one)):
        limits = [cost * (1 + margin) for cost in costs[one]]
        if not any(all(map(le, costs[other], limits)) for other in kept):
            kept.append(one)
    chosen = set(kept)
    return [one in chosen for one in range(len(costs))]
