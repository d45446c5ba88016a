"""The calls of a network in their order, and loops over strips that differ only in addresses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

STRIP, PICTURE = "strip", "picture"  # the variables of loops in C
# Strips that are one turn: an enlarged map may be read twice before rows of the small one follow.
_PERIODS = (1, 2, 3, 4)
_FEWEST = 3  # turns of a loop: two may be the end of one and the beginning of another


@dataclass(frozen=True)
class Spot:
    """An address: so far behind the beginning of an array, and further in each turn of a loop."""

    array: str | None  # in C; None: the arena
    offset: int  # bytes in the arena, numbers of an array
    further: tuple[tuple[str, int], ...] = ()  # for each loop its variable, and how far a turn goes

    def __str__(self) -> str:
        terms = [str(self.offset)] if self.offset else []
        terms += [f"{variable} * {step}" for variable, step in self.further if step]
        behind = " + ".join(terms)
        if self.array is None:
            return f"AT({behind or 0})"
        return f"{self.array} + {behind}" if behind else self.array


@dataclass(frozen=True)
class Call:
    """One call of a function; a string among its arguments is the same in all turns of a loop."""

    label: str
    function: str
    arguments: tuple[str | Spot, ...]


@dataclass(frozen=True)
class Loop:
    """Calls, and loops, that are made so often; ``variable`` counts the turns from 0."""

    variable: str
    turns: int
    items: tuple[Call | Loop, ...]


def folded(strips: Sequence[Sequence[Call]]) -> list[Call | Loop]:
    """Return the calls of strips in their order: what comes again at other addresses is a loop.

    >>> strips = [[Call("", "f", (Spot(None, 64), Spot("y", 5 * i)))] for i in range(3)]
    >>> (loop,) = folded([*strips])
    >>> loop.turns, *map(str, loop.items[0].arguments)
    (3, 'AT(64)', 'y + strip * 5')
    """
    items: list[Call | Loop] = []
    place = 0
    while place < len(strips):
        for period in _PERIODS:
            turns, steps = _turns(strips, place, period)
            if turns >= _FEWEST:
                calls = map(_going_on, _together(strips, place, period), steps)
                items.append(Loop(STRIP, turns, tuple(calls)))
                place += period * turns
                break
        else:
            items += strips[place]
            place += 1
    return items


def _together(strips: Sequence[Sequence[Call]], place: int, count: int) -> list[Call]:
    return [call for strip in strips[place : place + count] for call in strip]


def _turns(
    strips: Sequence[Sequence[Call]], place: int, period: int
) -> tuple[int, list[tuple[int, ...]]]:
    """How often so many strips follow each other, and how far their addresses go on each time."""
    turns, steps = 1, list[tuple[int, ...]]()
    here = _together(strips, place, period)
    while place + (turns + 1) * period <= len(strips):
        following = _together(strips, place + turns * period, period)
        found = _steps(here, following)
        if found is None or (turns > 1 and found != steps):
            break
        here, steps, turns = following, found, turns + 1
    return turns, steps


def _steps(one: Sequence[Call], other: Sequence[Call]) -> list[tuple[int, ...]] | None:
    """How far each address goes on; None where the calls differ in more, or one goes back."""
    if len(one) != len(other):
        return None
    found = []
    for before, after in zip(one, other):
        both = list(zip(before.arguments, after.arguments))
        same = [a if isinstance(a, str) else replace(a, offset=0) for a, _ in both]
        if before.function != after.function or same != [
            b if isinstance(b, str) else replace(b, offset=0) for _, b in both
        ]:
            return None
        spots = [
            (a.offset, b.offset) for a, b in both if isinstance(a, Spot) and not isinstance(b, str)
        ]
        if any(b < a for a, b in spots):
            return None
        found.append(tuple(b - a for a, b in spots))
    return found


def _going_on(call: Call, steps: tuple[int, ...]) -> Call:
    """A call in a loop over strips."""
    left = iter(steps)
    arguments = tuple(
        one if isinstance(one, str) else replace(one, further=(*one.further, (STRIP, next(left))))
        for one in call.arguments
    )
    return replace(call, arguments=arguments)
