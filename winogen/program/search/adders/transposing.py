"""Values for a matrix from those of its transpose: every sum becomes a branch, and conversely.

The adders change only by the difference of rows and columns, so what is easier to find in one of
the two serves both.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence

from winogen.program.search.adders.closure import Closure
from winogen.program.search.adders.forms import LinearForms


def transposed(
    forms: LinearForms,
    columns: Sequence[int],
    values: Collection[int],
    into: LinearForms,
    rng: random.Random,
) -> set[int] | None:
    """Return values that compute the transpose of ``columns``, in forms of its inputs.

    ``values``: those of ``columns``, which are forms of the inputs of ``forms``. None where they
    do not compute them, or where a coefficient exceeds what the forms hold.
    """
    closure = Closure(forms, values)
    level = closure.levels()
    if not all(forms.value(column) in level for column in columns if column):
        return None
    arriving: dict[int, list[int]] = {value: [] for value in level}
    for column, unit in zip(columns, into.units):
        if column:
            value, shift, sign = forms.canonical(column)
            arriving[value].append(sign * unit << shift)
    depth = dict.fromkeys(into.units, 0)
    for value in reversed(level):
        total = _sum(arriving[value], depth, into, rng)
        if total is None or not level[value]:
            continue
        if max(map(abs, into.decode(total))) > into.limit:
            return None
        a, x, b, y = _operands(closure, level, value, rng)
        arriving[a].append(x * total)
        arriving[b].append(y * total)
    return set(depth) - set(into.units)


def _sum(
    terms: list[int], depth: dict[int, int], into: LinearForms, rng: random.Random
) -> int | None:
    """The sum of forms, those of the lowest levels first; ``depth`` learns of its values."""
    waiting = [(depth[into.value(term)], rng.random(), term) for term in terms]
    while len(waiting) > 1:
        waiting.sort()
        (a, _, p), (b, _, q), *waiting = waiting
        if p + q:
            value, level = into.value(p + q), 1 + max(a, b)
            depth[value] = min(level, depth.get(value, level))
            waiting.append((depth[value], rng.random(), p + q))
    return waiting[0][2] if waiting else None


def _operands(
    closure: Closure, level: dict[int, int], value: int, rng: random.Random
) -> tuple[int, int, int, int]:
    """(a, x, b, y): the value is x * a + y * b, x and y being powers of two of either sign."""
    pairs = [
        (a, b)
        for a, b in sorted(closure.sums[value])
        if max(level.get(one, level[value]) for one in (a, b)) < level[value]
    ]
    a, b = rng.choice(pairs)
    for x in (1, -1):
        for p, q in ((a, b), (b, a)):
            rest = value - x * p
            if closure.multiples.get(rest) == q:
                return p, x, q, rest // q
    raise AssertionError("a pair of a closure is a sum")
