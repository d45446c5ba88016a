"""Rows as sums of other rows: what is left of them has fewer digits.

Two rows may be sum and difference of two shorter ones, as those of opposite points are; a row may
be another one and a short rest. Which is done, and in which order, chance decides.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable

from winogen.program.search.adders.forms import Forms
from winogen.program.search.adders.sharing import Digit, Row

UNBOUNDED = 64  # levels


def split(
    forms: Forms,
    targets: Collection[int],
    depth: int | None,
    rng: random.Random,
    halves: float,
    differences: float,
) -> list[Row] | None:
    """Return rows whose values include all targets, or None if that takes too many levels.

    ``halves``, ``differences``: with what probability a split that saves digits is taken.
    """
    rows: dict[int, list[Digit]] = {}
    bound = dict.fromkeys(targets, UNBOUNDED if depth is None else depth)
    waiting = sorted(targets)
    while True:
        pair = _halves(forms, waiting, rng, halves)
        if pair is None:
            break
        p, q, parts, terms = pair
        below = min(bound[p], bound[q]) - 1
        for value in (p, q):
            waiting.remove(value)
            rows[value] = terms[value]
        for part in parts:
            bound[part] = min(below, bound.get(part, below))
            if part not in forms.units and part not in rows and part not in waiting:
                waiting.append(part)
    _chain(forms, waiting, rows, rng, differences)
    return _bounded(forms, rows, bound)


def _halves(
    forms: Forms, waiting: list[int], rng: random.Random, halves: float
) -> tuple[int, int, list[int], dict[int, list[Digit]]] | None:
    """Two values, the parts whose sum and difference they are, and the values as such sums."""
    options = []
    for k, p in enumerate(waiting):
        for q in waiting[:k]:
            even, odd = p + q, p - q
            if not forms.is_even(even):
                continue
            saved = forms.weight(p) + forms.weight(q) - forms.weight(even) - forms.weight(odd)
            if saved > 1:
                options.append((saved + 2 * rng.random(), p, q))
    if not options or rng.random() > halves:
        return None
    _, p, q = max(options)
    first, second = forms.canonical(p + q), forms.canonical(p - q)
    e, o = ((value, shift - 1, sign) for value, shift, sign in (first, second))
    return p, q, [e[0], o[0]], {p: [e, o], q: [e, (o[0], o[1], -o[2])]}


def _chain(
    forms: Forms,
    waiting: Iterable[int],
    rows: dict[int, list[Digit]],
    rng: random.Random,
    differences: float,
) -> None:
    """Give every value its digits, or those of what it differs by from one that has them."""
    cheap = {value: (forms.weight(value), forms.digits(value)) for value in waiting}
    while cheap:
        value = min(sorted(cheap), key=lambda v: cheap[v][0] + rng.random())
        rows[value] = cheap.pop(value)[1]
        for other in sorted(cheap):
            for form, shift, sign in forms.multiples(value):
                rest = other - form
                cost = 1 + forms.weight(rest)
                if cost < cheap[other][0] and rng.random() < differences:
                    cheap[other] = (cost, [(value, shift, sign), *forms.digits(rest)])


def _bounded(forms: Forms, rows: dict[int, list[Digit]], bound: dict[int, int]) -> list[Row] | None:
    """The rows with the level of each, or None where the terms of one do not fit into its."""
    order: list[int] = []
    seen: set[int] = set()

    def visit(value: int) -> None:
        if value in rows and value not in seen:
            seen.add(value)
            for term in rows[value]:
                visit(term[0])
            order.append(value)

    for value in rows:
        visit(value)
    for value in reversed(order):
        for term in rows[value]:
            if term[0] in rows:
                below = bound.get(value, UNBOUNDED) - 1
                bound[term[0]] = min(below, bound.get(term[0], below))
    made = []
    for value in order:
        depth = bound[value]
        if depth < 1 and len(rows[value]) > 1:
            return None
        taken = sum(1 << bound[term[0]] if term[0] in rows else 1 for term in rows[value])
        if taken > 1 << depth:
            return None
        made.append(Row(value, rows[value], depth))
    return made
