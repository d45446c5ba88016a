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
        self.values = set(forms.units)
        self.multiples: dict[int, int] = {}  # shifted value of either sign -> value
        for unit in forms.units:
            self._list(unit)
        self.sums: dict[int, set[tuple[int, int]]] = {}
        for value in values:
            self.add(value)

    def _list(self, value: int) -> None:
        for form, _, _ in self.forms.multiples(value):
            self.multiples[form] = value

    def add(self, value: int) -> None:
        """Take in a value."""
        if value in self.values:
            return
        self.sums[value] = self.sums_of(value)
        for target, pair in self.uses_of(value):
            self.sums[target].add(pair)
        self.values.add(value)
        self._list(value)
        # 2^k v - v and the like
        self.sums[value].discard((value, value))

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

    def uses_of(self, value: int) -> list[tuple[int, tuple[int, int]]]:
        """(member, pair) for all pairs of a new value and a member whose sum a member is."""
        found = []
        get = self.multiples.get
        own = {form for form, _, _ in self.forms.multiples(value)}
        for target in self.sums:
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
