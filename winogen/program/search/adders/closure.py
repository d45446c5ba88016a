"""Sets of values that compute one another: which sums there are, and at which level each one is."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TypeAlias

from winogen.program.search.adders.forms import LinearForms

Sums: TypeAlias = Mapping[int, Collection[tuple[int, int]]]


class Closure:
    """Values and all ways to add two of them, inputs included, to make a third."""

    def __init__(self, forms: LinearForms, values: Iterable[int] = ()) -> None:
        self.forms = forms
        made = dict.fromkeys(values)
        for unit in forms.units:
            made.pop(unit, None)
        self.values = {*forms.units, *made}
        self.multiples: dict[int, int] = {}  # shifted value of either sign -> value
        self._units = dict.fromkeys(forms.units, 0)
        self._order: dict[int, int] | None = None  # of the values, kept until one comes or goes
        for value in (*forms.units, *made):
            self._list(value)
        self.sums = {value: self.sums_of(value) for value in made}
        # The values with a sum that a value is in.
        self.readers: dict[int, set[int]] = {value: set() for value in self.values}
        for value, pairs in self.sums.items():
            self._read(value, pairs)

    def _list(self, value: int) -> None:
        for form, _, _ in self.forms.multiples(value):
            self.multiples[form] = value

    def _read(self, value: int, pairs: Iterable[tuple[int, int]]) -> None:
        for a, b in pairs:
            self.readers[a].add(value)
            self.readers[b].add(value)

    def add(self, value: int) -> None:
        """Take in a value."""
        if value in self.values:
            return
        self._order = None
        self.readers[value] = set()
        self.sums[value] = self.sums_of(value)
        self._read(value, self.sums[value])
        for target, pair in self.uses_of(value, self.sums):
            self.sums[target].add(pair)
            self._read(target, (pair,))
        self.values.add(value)
        self._list(value)

    def remove(self, value: int) -> None:
        """Forget a value."""
        self._order = None
        self.values.remove(value)
        for form, _, _ in self.forms.multiples(value):
            del self.multiples[form]
        for pair in self.sums.pop(value):
            for operand in pair:
                self.readers[operand].discard(value)
        for target in self.readers.pop(value):
            for pair in [pair for pair in self.sums[target] if value in pair]:
                self.sums[target].remove(pair)
                for operand in pair:
                    # It may be in another sum of the target.
                    if operand != value and not any(operand in p for p in self.sums[target]):
                        self.readers[operand].discard(target)

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

    def needed(self, targets: Iterable[int]) -> set[int]:
        """Return members that are in every sum of a target, or of another such member.

        Without one of them the targets cannot be computed, whatever else there is.
        """
        found = {value for value in targets if value in self.sums}
        waiting = list(found)
        while waiting:
            pairs = iter(self.sums[waiting.pop()])
            common = set(next(pairs, ()))
            for pair in pairs:
                common.intersection_update(pair)
            for value in common - found:
                if value in self.sums:
                    found.add(value)
                    waiting.append(value)
        return found

    def reached(self, without: int | None = None, depth: int | None = None) -> dict[int, int]:
        """Return what can be computed, without a value, as by `levels` where these are bounded.

        Where they are not, numbers rise from the operands of a sum to the sum.
        """
        if depth is not None:
            return self.levels(() if without is None else (without,), depth)
        if self._order is None:
            self._order = {v: k for k, v in enumerate(further(self._units, self.sums, None))}
        if without is None:
            return self._order
        lost = self._lost(without, self._order)
        return {value: k for value, k in self._order.items() if value not in lost}

    def _lost(self, gone: int, order: dict[int, int]) -> set[int]:
        """What cannot be computed any more without a value: what only it led to."""
        lost = {gone}
        waiting = [gone]
        while waiting:
            for value in self.readers[waiting.pop()]:
                own = order.get(value)
                if own is None or value in lost:
                    continue
                for a, b in self.sums[value]:
                    before = max(order.get(a, own), order.get(b, own)) < own
                    if before and a not in lost and b not in lost:
                        break
                else:
                    lost.add(value)
                    waiting.append(value)
        found = True
        while found:  # some have sums of values that come later
            found = False
            for value in lost - {gone}:
                for a, b in self.sums[value]:
                    if a in order and b in order and a not in lost and b not in lost:
                        lost.remove(value)
                        found = True
                        break
        return lost

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
