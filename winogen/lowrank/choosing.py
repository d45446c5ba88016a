"""Which rank each layer gets, so that all together err least within a limit, or cost least.

Errors of layers are taken to be independent: their squares add up at the output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple


class Option(NamedTuple):
    """One rank of a layer; None is the layer as it was."""

    rank: int | None
    cost: float
    error: float  # expected mean square at the output


def least_error(layers: Sequence[Sequence[Option]], limit: float) -> list[Option] | None:
    """Return an option for each layer whose costs add up to ``limit`` at most; None: none do.

    >>> layer = [Option(None, 8, 0), Option(4, 4, 1), Option(2, 2, 5)]
    >>> [option.rank for option in least_error([layer, layer], 10)]
    [4, 4]
    """
    return _chosen(layers, limit, swapped=False)


def least_cost(layers: Sequence[Sequence[Option]], error: float) -> list[Option] | None:
    """Return an option for each layer whose errors add up to ``error`` at most; None: none do."""
    return _chosen(layers, error, swapped=True)


def uniform(layers: Sequence[Sequence[Option]], limit: float) -> list[Option] | None:
    """Return the options that cost the same part of each layer, within a limit; None: none do.

    Ranks are the largest that cost at most that part of the layer as it was, and the least where
    none does. A layer without any rank stays as it was.

    >>> layer = [Option(None, 8, 0), Option(4, 4, 1), Option(2, 2, 5)]
    >>> [option.rank for option in uniform([layer, layer, layer[:1]], 17)]
    [4, 4, None]
    """

    def at(part: float) -> list[Option]:
        return [_of_part(options, part) for options in layers]

    def fits(options: Sequence[Option]) -> bool:
        return sum(one.cost for one in options) <= limit * (1 + 1e-9)

    low, high = 0.0, 1.0
    if not fits(at(low)):
        return None
    for _ in range(50):
        part = (low + high) / 2
        if fits(at(part)):
            low = part
        else:
            high = part
    return at(low)


def filled(
    layers: Sequence[Sequence[Option]], start: Sequence[Option], limit: float
) -> list[Option]:
    """Return a choice with what it leaves of ``limit`` spent where that helps most.

    >>> layer = [Option(None, 8, 0), Option(4, 4, 1), Option(2, 2, 5)]
    >>> [option.rank for option in filled([layer, layer], [layer[2], layer[2]], 7)]
    [4, 2]
    """
    return _filled(layers, start, limit, lambda one: one.cost, lambda one: one.error)


def _of_part(options: Sequence[Option], part: float) -> Option:
    """The rank that costs at most a part of the layer as it was, or what is nearest to that."""
    whole = next(one.cost for one in options if one.rank is None)
    ranks = [one for one in options if one.rank is not None]
    within = [one for one in ranks if one.cost <= part * whole]
    if within:
        return max(within, key=lambda one: one.cost)
    return min(ranks or options, key=lambda one: one.cost)


def halfway(
    layers: Sequence[Sequence[Option]],
    some: Sequence[Option],
    others: Sequence[Option],
    limit: float,
) -> list[Option]:
    """Return the options between those of two choices, layer by layer; within a limit if both are.

    >>> layer = [Option(None, 8, 0), Option(6, 6, .5), Option(4, 4, 1), Option(2, 2, 5)]
    >>> [option.rank for option in halfway([layer, layer], [layer[1], layer[3]], [layer[3]] * 2, 9)]
    [4, 2]
    """
    found = []
    for options, one, other in zip(layers, some, others):
        middle = (one.cost + other.cost) / 2 * (1 + 1e-9)
        within = [option for option in options if option.cost <= middle]
        found.append(max(within, key=lambda option: option.cost))
    left = limit - sum(option.cost for option in found)
    return found if left >= 0 else list(some)


def _chosen(layers: Sequence[Sequence[Option]], limit: float, swapped: bool) -> list[Option] | None:
    """By a price of what is limited, and what is left over spent where it helps most."""

    def limited(option: Option) -> float:
        return option.error if swapped else option.cost

    def other(option: Option) -> float:
        return option.cost if swapped else option.error

    def at(price: float) -> list[Option]:
        return [
            min(options, key=lambda one: (other(one) + price * limited(one), limited(one)))
            for options in layers
        ]

    def spent(options: Sequence[Option]) -> float:
        return sum(map(limited, options))

    least = [min(options, key=lambda one: (limited(one), other(one))) for options in layers]
    slack = 1 + 1e-9
    if spent(least) > limit * slack:
        return None
    free = at(0.0)
    if spent(free) <= limit * slack:
        return free
    found = least
    largest = max((other(one) for options in layers for one in options), default=1.0)
    smallest = min((limited(o) for options in layers for o in options if limited(o) > 0), default=1)
    high = max(largest, 1e-300) / smallest * 1e9
    low = high * 1e-30
    for _ in range(200):
        price = (low * high) ** 0.5
        options = at(price)
        if spent(options) <= limit * slack:
            high, found = price, options
        else:
            low = price
    if spent(found) > limit * slack:
        found = least
    return _filled(layers, found, limit * slack, limited, other)


def _filled(
    layers: Sequence[Sequence[Option]],
    start: Sequence[Option],
    limit: float,
    limited: Callable[[Option], float],
    other: Callable[[Option], float],
) -> list[Option]:
    """Spend what is left: always on the option that gains most for what it takes."""
    found = list(start)
    while True:
        left = limit - sum(map(limited, found))
        best: tuple[float, int, Option] | None = None
        for place, (now, options) in enumerate(zip(found, layers)):
            for option in options:
                gain, more = other(now) - other(option), limited(option) - limited(now)
                if gain > 0 and more <= left:
                    worth = gain / max(more, 1e-300)
                    if best is None or worth > best[0]:
                        best = worth, place, option
        if best is None:
            return found
        found[best[1]] = best[2]
