"""Which candidate of a problem runs: the one ranking, by time, error, memory, and what is at hand.

Nothing here touches data or compiles.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from math import inf
from typing import Any, Generic, TypeVar

from winogen.conv.cuts import MeasuredChoice, Missed
from winogen.conv.query import Query
from winogen.conv.tolerance import Tolerance
from winogen.conv.wisdom import NOTHING
from winogen.errors import InvalidValue, Unsupported
from winogen.records import Target

C = TypeVar("C", bound=Any)  # with `seconds`, `choice` and `specs`

EXACT = Tolerance(None, inf, inf)  # of candidates whose results are all the same, or as asked for


class Contest(ABC, Generic[C]):
    """What the ranking has to know of the candidates of one kind of problems."""

    @abstractmethod
    def candidates(self, query: Query) -> list[C]:
        """Return all candidates that the request leaves open on the target, evaluated.

        Raises Unsupported if there is none.
        """

    @abstractmethod
    def wanted(self, query: Query) -> str:
        """Return in words what a stock may lack."""

    def what(self, query: Query) -> str:
        """Return in words what a tolerance is for; "": the most accurate one always will do."""
        return ""

    def fitting(self, query: Query, candidates: list[C]) -> list[C]:
        """Return those that are in the stock and keep to the limits, as they run on one thread."""
        stock = query.stock
        return candidates if stock is None else stock.among(query.problem, candidates)

    def tolerance(self, query: Query, fitting: Sequence[C]) -> Tolerance:
        """Return the rule that their errors are judged by."""
        return EXACT

    def error(self, query: Query, candidate: C) -> float:
        """Return the expected max |y - y_exact| / max |y_exact| on normal data."""
        return 0.0

    def on_threads(self, query: Query, chosen: list[C]) -> list[C]:
        """Return the same candidates, cut for all threads."""
        return chosen

    def measured(self, query: Query) -> tuple[C, MeasuredChoice] | None:
        """Return the candidate that was measured to be faster than the predicted one, and how."""
        return None


def rank(contest: Contest[C], query: Query, most: int | None = None) -> list[C]:
    """Return the ``most`` fastest candidates that keep to the request, for a machine.

    Measured choices, the wisdom, come first; the rest is prediction. With a stock all that is
    returned is in it. Where a compiler would allow something faster, the first says what; it is
    for a lesser target where there is nothing for this one.

    The chosen one is first, the others follow by time. It is the fastest within the ``tolerance``
    of the request. Without a tolerance, it is the one within the usual one whose seconds times the
    `Tolerance.price` of its error are the least: as accurate as direct convolution usually is, if
    that costs little.

    Fastest means on one thread, whatever the threads of the request. So every bit of the result is
    the same for any number of threads, which only change the blocks. A measured choice, too, holds
    for any number of threads. A ``workspace_limit`` may still change the candidates, because more
    threads need more memory.

    Raises InvalidValue if nothing keeps to the ``workspace_limit`` or the ``tolerance``,
    CompilerNotFound if the stock has nothing.
    """
    problem, stock = query.problem, query.stock

    # Once for each target, though a stock is asked after what a compiler would allow.
    @cache
    def candidates(target: Target) -> list[C]:
        return contest.candidates(query._replace(target=target))

    if stock is None:
        return _ranked(contest, query, most, candidates)
    found: list[C] = []
    try:
        if stock.tells:
            found = _ranked(contest, query._replace(stock=None), most, candidates)
    except Unsupported:
        raise
    except InvalidValue:  # another variant may keep to the limits
        pass

    def on(one: Target) -> list[C]:
        usual = query.wisdom if one.name == query.target.name else NOTHING
        return _ranked(contest, query._replace(target=one, wisdom=usual), most, candidates)

    at_hand = stock.first(problem, found, query.target, on, contest.wanted(query))
    return Missed.told(problem, found, at_hand, stock)


def judged(contest: Contest[C], query: Query) -> list[C]:
    """Return the same without a look at what the stock lacks, if anything fits at all."""
    return _ranked(contest, query, None, lambda target: contest.candidates(query))


def _ranked(
    contest: Contest[C], query: Query, most: int | None, candidates: Callable[[Target], list[C]]
) -> list[C]:
    """What `rank` returns; nothing where the stock has nothing."""
    request, stock = query.request, query.stock
    fitting = contest.fitting(query, candidates(query.target))
    if not fitting:
        return []
    fitting = sorted(fitting, key=lambda one: one.seconds)
    rule, chosen, accurate = EXACT, fitting[0], iter(fitting)
    # Tiles and points of the user are taken as they are. Errors are predicted only as far as they
    # are needed, because predicting them takes longer than predicting times.
    if not request.asks_for_tiles:
        rule = contest.tolerance(query, fitting)
        chosen = rule.best(fitting, lambda one: contest.error(query, one), contest.what(query))
        accurate = (one for one in fitting if rule.allows(contest.error(query, one)))
    others = [one for one in islice(accurate, most) if one is not chosen]
    first, *rest = contest.on_threads(query, [chosen, *others][:most])
    found = [first, *sorted(rest, key=lambda one: one.seconds)]
    best = _measured(contest, query, first, rule)
    if best is None or not (stock is None or stock.has(best.specs(query.problem))):
        return found
    return [best, *(one for one in found if one.choice != best.choice)][:most]


def _measured(contest: Contest[C], query: Query, predicted: C, rule: Tolerance) -> C | None:
    """What was measured to be faster than the predicted candidate, if it is accurate enough.

    Its seconds are the predicted one's over the gain. So they compare with other layers and
    layouts, which were never measured.
    """
    found = contest.measured(query)
    if found is None or not rule.allows(contest.error(query, found[0])):
        return None
    best, measured = found
    return replace(best, seconds=predicted.seconds / measured.gain, measured=measured)
