"""Rows as sums of other rows: what is left of them has fewer digits.

Two rows may be sum and difference of two shorter ones, as those of opposite points are; a row may
be another one and a short rest. Which is done, and in which order, chance decides.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping

from winogen.program.search.adders.forms import LinearForms
from winogen.program.search.adders.sharing import Digit, Row

UNBOUNDED = 64  # levels


def split(
    forms: LinearForms,
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
    chain(forms, waiting, rows, rng, differences)
    return bounded(forms, rows, bound)


def _halves(
    forms: LinearForms, waiting: list[int], rng: random.Random, halves: float
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


def chain(
    forms: LinearForms,
    waiting: Iterable[int],
    rows: dict[int, list[Digit]],
    rng: random.Random,
    differences: float,
    given: Collection[int] = (),
) -> None:
    """Give every value its digits, or those of what it differs by from one that has them.

    ``given``: values that are there already.
    """
    cheap = {value: (forms.weight(value), forms.digits(value)) for value in waiting}

    def compare(value: int) -> None:
        multiples = list(forms.multiples(value))
        for other in sorted(cheap):
            if rng.random() >= differences:
                continue
            for form, shift, sign in multiples:
                cost = 1 + forms.weight(other - form)
                if cost < cheap[other][0] or (cost == cheap[other][0] and rng.random() < 0.3):
                    digits = forms.digits(other - form)
                    cheap[other] = (cost, [(value, shift, sign), *digits])

    for value in given:
        compare(value)
    while cheap:
        value = min(sorted(cheap), key=lambda v: cheap[v][0] + rng.random())
        rows[value] = cheap.pop(value)[1]
        compare(value)


def bounded(
    forms: LinearForms,
    rows: dict[int, list[Digit]],
    bound: dict[int, int],
    given: Mapping[int, int] | None = None,
) -> list[Row] | None:
    """Return rows with the level of each, or None where the terms of one do not fit into its.

    ``given``: levels of values that are there already.
    """
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
    there = given or {}
    for value in order:
        depth = bound.get(value, UNBOUNDED)
        if depth < 1 and len(rows[value]) > 1:
            return None
        levels = (bound[v] if v in rows else there.get(v, 0) for v, _, _ in rows[value])
        if sum(1 << level for level in levels) > 1 << depth:
            return None
        made.append(Row(value, rows[value], depth))
    return made
