"""Sets of values that compute one another: which sums there are, and at which level each one is."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TypeAlias

from winogen.program.search.adders.forms import Forms

Sums: TypeAlias = Mapping[int, Collection[tuple[int, int]]]


class Closure:
    """Values and all ways to add two of them, inputs included, to make a third."""

    def __init__(self, forms: Forms, values: Iterable[int] = ()) -> None:
        self.forms = forms
        made = dict.fromkeys(values)
        for unit in forms.units:
            made.pop(unit, None)
        self.values = {*forms.units, *made}
        self.multiples: dict[int, int] = {}  # shifted value of either sign -> value
        for value in (*forms.units, *made):
            self._list(value)
        self.sums = {value: self.sums_of(value) for value in made}

    def _list(self, value: int) -> None:
        for form, _, _ in self.forms.multiples(value):
            self.multiples[form] = value

    def add(self, value: int) -> None:
        """Take in a value."""
        if value in self.values:
            return
        self.sums[value] = self.sums_of(value)
        for target, pair in self.uses_of(value, self.sums):
            self.sums[target].add(pair)
        self.values.add(value)
        self._list(value)

    def remove(self, value: int) -> None:
        """Forget a value."""
        self.values.remove(value)
        for form, _, _ in self.forms.multiples(value):
            del self.multiples[form]
        del self.sums[value]
        for pairs in self.sums.values():
            for pair in [pair for pair in pairs if value in pair]:
                pairs.remove(pair)

    def sums_of(self, value: int) -> set[tuple[int, int]]:
        """The pairs of members whose sum a value is: one of the two is not shifted."""
        found = set()
        get = self.multiples.get
        for member in self.values:
            for rest in (value - member, value + member):
                other = get(rest)
                if other is not None and other != value:
                    found.add((member, other) if member < other else (other, member))
        return found

    def uses_of(self, value: int, among: Iterable[int]) -> list[tuple[int, tuple[int, int]]]:
        """(member, pair) for all pairs of a new value and a member whose sum is one ``among``."""
        found = []
        get = self.multiples.get
        own = {form for form, _, _ in self.forms.multiples(value)}
        for target in among:
            for form in own:
                rest = target - form
                other = get(rest)
                if other is None and rest in own:
                    other = value
                if other is not None and other != target:
                    found.append((target, (value, other) if value < other else (other, value)))
        return found

    def levels(self, without: Collection[int] = (), depth: int | None = None) -> dict[int, int]:
        """Return the level of every value that can be computed without some of them."""
        return levels(self.forms.units, self.sums, without, depth)


def levels(
    units: Iterable[int], sums: Sums, without: Collection[int] = (), depth: int | None = None
) -> dict[int, int]:
    """Return the least level of every value that can be computed, in order of levels."""
    level = dict.fromkeys(units, 0)
    waiting = [value for value in sums if value not in without]
    k = 1
    while waiting and (depth is None or k <= depth):
        reached, left = [], []
        for value in waiting:
            for a, b in sums[value]:
                if a in level and b in level:
                    reached.append(value)
                    break
            else:
                left.append(value)
        if not reached:
            break
        for value in reached:
            level[value] = k
        waiting = left
        k += 1
    return level


def further(level: Mapping[int, int], sums: Sums, depth: int | None) -> dict[int, int]:
    """Return levels of values that can be computed of others, which may not be the least."""
    known = dict(level)
    waiting = list(sums)
    while waiting:
        left = []
        for value in waiting:
            there = (
                1 + max(known[a], known[b]) for a, b in sums[value] if a in known and b in known
            )
            least = min(there, default=None)
            if least is not None and (depth is None or least <= depth):
                known[value] = least
            else:
                left.append(value)
        if len(left) == len(waiting):
            break
        waiting = left
    return known
