"""Rows of shifted terms in, a set of values out: pairs of terms that rows share become values.

The pair that most rows have is taken first, its shifts and signs aside; which one of equals, chance
decides. A value that is there already costs nothing, so its pairs count once more.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from winogen.program.search.adders.forms import LinearForms

Digit: TypeAlias = tuple[int, int, int]  # value, shift, sign


@dataclass
class Row:
    """A value as a sum of terms, to be computed in so many levels of adders."""

    value: int
    terms: list[Digit]
    depth: int


class _Sharing:
    def __init__(
        self,
        forms: LinearForms,
        rows: list[Row],
        rng: random.Random,
        noise: float,
        given: Mapping[int, int],
    ) -> None:
        self.forms, self.rows, self.rng = forms, rows, rng
        self.noise = noise
        self.level = dict.fromkeys(forms.units, 0) | dict(given)
        for row in rows:
            self.level.setdefault(row.value, row.depth)
        self.own = {row.value for row in rows}  # values that will be there anyway
        self.made: set[int] = set(given)
        self._pairs: dict[tuple[int, int, int, int], tuple[int, int, int]] = {}
        self.found = [self._count(row) for row in rows]
        self.total: Counter[int] = Counter()
        for one in self.found:
            self.total.update({value: len(places) for value, places in one.items()})

    def pair(self, p: Digit, q: Digit) -> Digit:
        """The sum of two terms as a term of its own."""
        value, shift, sign = self._of_shapes(p[0], q[0], p[1] - q[1], p[2] * q[2])
        return value, shift + min(p[1], q[1]), sign * p[2]

    def _of_shapes(self, p: int, q: int, apart: int, sign: int) -> Digit:
        """The sum of two values, the first shifted by so much more, the second with this sign."""
        key = p, q, apart, sign
        if key not in self._pairs:
            form = (p << max(apart, 0)) + sign * (q << max(-apart, 0))
            self._pairs[key] = self.forms.canonical(form) if form else (0, 0, 1)
        return self._pairs[key]

    def _count(self, row: Row) -> dict[int, list[tuple[int, int, Digit]]]:
        """Value -> disjoint pairs of terms of the row whose sum it is."""
        terms, pairs = row.terms, self._pairs
        levels = [self.level[term[0]] for term in terms]
        room = (1 << row.depth) - sum(1 << level for level in levels)
        found: dict[int, list[tuple[int, int, Digit]]] = {}
        used: dict[int, set[int]] = {}  # of every value, the terms of its pairs
        for i, (v, s, g) in enumerate(terms):
            a = levels[i]
            for j in range(i + 1, len(terms)):
                w, t, h = terms[j]
                b = levels[j]
                if (2 << (a if a > b else b)) - (1 << a) - (1 << b) > room:
                    continue
                known = pairs.get((v, w, s - t, g * h))
                value, shift, sign = known or self._of_shapes(v, w, s - t, g * h)
                if not value or (value == row.value and len(terms) > 2):
                    continue
                total = value, shift + (s if s < t else t), sign * g
                if value not in found:
                    found[value] = [(i, j, total)]
                    used[value] = {i, j}
                elif i not in used[value] and j not in used[value]:
                    found[value].append((i, j, total))
                    used[value] |= {i, j}
        return found

    def run(self) -> set[int]:
        """All values that are computed."""
        while True:
            best, most = None, 1.0
            for value, count in self.total.items():
                if count < 1:
                    continue
                gain: float = count + (value in self.made or value in self.own)
                if gain < 2:
                    continue
                gain *= 1 + self.noise * self.rng.random()
                if gain > most:
                    best, most = value, gain
            if best is None:
                break
            self._replace(best)
        for row in self.rows:
            self._finish(row)
        return self.made | self.own

    def _replace(self, value: int) -> None:
        changed = [k for k, found in enumerate(self.found) if value in found]
        first = changed[0]
        i, j, _ = self.found[first][value][0]
        terms = self.rows[first].terms
        level = 1 + max(self.level[terms[i][0]], self.level[terms[j][0]])
        self.level[value] = min(level, self.level.get(value, level))
        self.made.add(value)
        for k in changed:
            row = self.rows[k]
            gone: set[int] = set()
            added = []
            for i, j, total in self.found[k][value]:
                gone |= {i, j}
                added.append(total)
            row.terms = [term for i, term in enumerate(row.terms) if i not in gone] + added
            self._update(k)

    def _update(self, k: int) -> None:
        row = self.rows[k]
        self.total.subtract({value: len(places) for value, places in self.found[k].items()})
        row.terms = self._merged(row.terms)
        self.found[k] = self._count(row)
        self.total.update({value: len(places) for value, places in self.found[k].items()})

    def _merged(self, terms: Iterable[Digit]) -> list[Digit]:
        """Terms of one value and shift cancel or are shifted once more."""
        left: list[Digit] = []
        for value, shift, sign in terms:
            if (value, shift, -sign) in left:
                left.remove((value, shift, -sign))
                continue
            while (value, shift, sign) in left:
                left.remove((value, shift, sign))
                shift += 1
            left.append((value, shift, sign))
        return left

    def _finish(self, row: Row) -> None:
        """Sum what is left of a row, the terms of the lowest levels first."""
        terms = [(self.level[term[0]], self.rng.random(), term) for term in row.terms]
        while len(terms) > 1:
            terms.sort()
            (a, _, p), (b, _, q) = terms[:2]
            total = self.pair(p, q)
            terms = terms[2:]
            if total[0]:
                level = 1 + max(a, b)
                self.level[total[0]] = min(level, self.level.get(total[0], level))
                self.made.add(total[0])
                terms.append((level, self.rng.random(), total))


def share(
    forms: LinearForms,
    rows: list[Row],
    rng: random.Random,
    noise: float = 0.3,
    given: Mapping[int, int] | None = None,
) -> set[int]:
    """Return the values that compute all rows. The rows' terms are used up.

    ``given``: levels of values that are there already.
    """
    return _Sharing(forms, rows, rng, noise, given or {}).run() - set(forms.units)
