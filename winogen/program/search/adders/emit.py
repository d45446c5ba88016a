"""From a set of values to a program: which sums, in which order, with which signs."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from fractions import Fraction
from typing import NamedTuple

from winogen.program.ir import ZERO, Program, Statement, Term
from winogen.program.search.adders.closure import Closure
from winogen.program.search.adders.forms import LinearForms
from winogen.program.search.lower import Names
from winogen.program.search.passes import rename, tidy

_TRIES = 12


class _Sum(NamedTuple):
    """A value as x * a + y * b, x and y being powers of two of either sign."""

    x: int
    a: int
    y: int
    b: int


def emit(
    forms: LinearForms,
    rows: Sequence[int],
    values: Collection[int],
    depth: int | None,
    free_signs: bool,
    names: Names,
    price: Callable[[Program], tuple[int, ...]],
) -> Program:
    """Return the cheapest program found of a set of values that compute the rows.

    ``price``: what a program costs; signs and sums are chosen for it. Where they are free, signs of
    rows change only if that makes a program cheaper.
    """
    closure = Closure(forms, values)
    level = closure.levels(depth=depth)
    order = [value for value in level if level[value]]
    options = {value: _sums(closure, level, value) for value in order}
    as_given: dict[int, list[int]] = {}
    for row in rows:
        if row:
            value, _, sign = forms.canonical(row)
            as_given.setdefault(value, []).append(sign)
    wanted = {} if free_signs else as_given
    best: tuple[tuple[int, ...], Program] | None = None
    rng = random.Random(len(values))
    for attempt in range(_TRIES + free_signs):
        first = attempt in (0, _TRIES)
        chosen = {v: sums[0] if first else rng.choice(sums) for v, sums in options.items()}
        start = as_given if attempt == _TRIES else wanted
        signs = _signs(forms, order, chosen, start, wanted, None if first else rng)
        given = [row if not free_signs else _as_computed(forms, row, signs) for row in rows]
        made = _spelled(forms, given, order, chosen, signs, names)
        cost = *price(made), sum(a != b for a, b in zip(given, rows))
        if best is None or cost < best[0]:
            best = cost, made
    assert best is not None
    return best[1]


def _sums(closure: Closure, level: dict[int, int], value: int) -> list[_Sum]:
    """All sums of two values of lower levels that make a value, if possible of different ones."""
    found: dict[_Sum, None] = {}
    for a in closure.values:
        if level.get(a, level[value]) >= level[value]:
            continue
        for x in (1, -1):
            rest = value - x * a
            b = closure.multiples.get(rest)
            if b is not None and level[b] < level[value]:
                factor = rest // b
                found[_Sum(x, a, factor, b) if a <= b else _Sum(factor, b, x, a)] = None
    return sorted(one for one in found if one.a != one.b) or sorted(found)


def _as_computed(forms: LinearForms, row: int, signs: dict[int, int]) -> int:
    """A row with the sign of the value that it is a multiple of."""
    if not row:
        return row
    _, _, sign = forms.canonical(row)
    return row * sign * signs[forms.value(row)]


def _signs(
    forms: LinearForms,
    order: Sequence[int],
    chosen: dict[int, _Sum],
    start: dict[int, list[int]],
    wanted: dict[int, list[int]],
    rng: random.Random | None,
) -> dict[int, int]:
    """A sign for every value, changed until no change saves a negation.

    ``start``: signs of rows to begin with; ``wanted``: those that rows have to have.
    """
    signs = dict.fromkeys((*forms.units, *order), 1)
    for value in order:
        if value in start:
            signs[value] = 1 if sum(start[value]) >= 0 else -1
        elif rng:
            signs[value] = rng.choice((1, -1))
    readers: dict[int, list[int]] = {}
    for value in order:
        for operand in (chosen[value].a, chosen[value].b):
            readers.setdefault(operand, []).append(value)

    def awkward(value: int) -> int:
        one, own = chosen[value], signs[value]
        x, y = own * one.x * signs[one.a], own * one.y * signs[one.b]
        negated = sum(1 for sign in wanted.get(value, ()) if sign != own)
        return 8 * (negated + (x < 0 and y < 0)) + (x < 0) + (y < 0)

    improved = True
    while improved:
        improved = False
        for value in reversed(order):
            touched = {value, *readers.get(value, ())}
            before = sum(map(awkward, touched))
            signs[value] = -signs[value]
            if sum(map(awkward, touched)) < before:
                improved = True
            else:
                signs[value] = -signs[value]
    return signs


def _spelled(
    forms: LinearForms,
    rows: Sequence[int],
    order: Sequence[int],
    chosen: dict[int, _Sum],
    signs: dict[int, int],
    names: Names,
) -> Program:
    inputs = tuple(f"{names.inputs}{j}" for j in range(forms.width))
    name = dict(zip(forms.units, inputs))
    shifted: dict[tuple[int, int], str] = {}
    statements: list[Statement] = []
    for value in order:
        one, own = chosen[value], signs[value]
        x, y = own * one.x * signs[one.a], own * one.y * signs[one.b]
        first, second = name[one.a], name[one.b]
        if one.a == one.b:  # x + 4x reads two names, so the shift has one of its own
            x, y = sorted((x, y), key=abs)
            if (one.a, abs(y)) not in shifted:
                shifted[one.a, abs(y)] = f"w{len(statements)}"
                statements.append(_state(shifted[one.a, abs(y)], (abs(y), first)))
            second, y = shifted[one.a, abs(y)], 1 if y > 0 else -1
        name[value] = f"w{len(statements)}"
        statements.append(_state(name[value], (x, first), (y, second)))
    outputs: list[str] = []
    done: dict[int, str] = {}
    for i, row in enumerate(rows):
        if not row:
            outputs.append(ZERO)
            continue
        value, shift, sign = forms.canonical(row)
        factor = (sign * signs[value]) << shift
        if factor == 1:
            done.setdefault(row, name[value])
        elif row not in done:
            done[row] = f"w{i}o"
            statements.append(_state(done[row], (factor, name[value])))
        outputs.append(done[row])
    return rename(
        tidy(Program(inputs, tuple(statements), tuple(outputs))), names.outputs, names.temporaries
    )


def _state(target: str, *terms: tuple[int, str]) -> Statement:
    return Statement(target, tuple(Term(Fraction(factor), operand) for factor, operand in terms))
