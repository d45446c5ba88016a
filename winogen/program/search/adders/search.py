"""From an integer matrix to a program of adders and shifts."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from winogen.errors import InvalidType, InvalidValue
from winogen.program.adders import adder_bits, adder_depth, adders
from winogen.program.ir import Program, Rows, exact
from winogen.program.search.adders.closure import Closure
from winogen.program.search.adders.emit import emit
from winogen.program.search.adders.exchange import Weight, exchange, prune
from winogen.program.search.adders.forms import LinearForms
from winogen.program.search.adders.rebuilding import rebuild
from winogen.program.search.adders.sharing import share
from winogen.program.search.adders.splitting import split
from winogen.program.search.adders.transposing import transposed
from winogen.program.search.lower import Names
from winogen.program.search.passes import rename
from winogen.program.search.schedule import schedule
from winogen.program.widths import signed

if TYPE_CHECKING:
    from winogen.algebra.scalar import Scalar

Objective: TypeAlias = Literal["adders", "bits"]
OBJECTIVES = ("adders", "bits")
# With what probability a start splits rows in halves, and takes differences for rows.
_CHANCES = ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0), (0.7, 0.7), (0.9, 0.4), (0.5, 0.9))
_STARTS = 64  # sets that are made of the matrix
_BEST = 3  # of them that are improved, twice: rebuilt so many times, then so many exchanges
_DIGITS = 450  # of larger matrices fewer sets are improved, in about the same time
_REBUILDS, _MOVES = 75, 100
ADDER = 1000  # what an adder counts, beside its bits


def adder_program(
    matrix: Rows,
    *,
    objective: Objective = "adders",
    depth: int | None = None,
    bits: int = 8,
    free_signs: bool = False,
    inputs: str = "d",
    outputs: str = "v",
    temporaries: str = "t",
) -> Program:
    """Return the best program found for a matrix of integers whose constants are all shifts.

    Every statement is ``±2^a x ± 2^b y`` or ``±2^a x``; it is proven equal to the matrix.
    ``objective``: "adders" for the fewest adders, and of these for the fewest bits; "bits" for the
    least sum of the bits of the adders' results, for inputs of so many ``bits`` in two's
    complement (see `winogen.program.adders`). ``depth``: the most levels of adders,
    beside a negation that no choice of signs saves.
    ``free_signs``: rows may come out negated, where that saves a negation; the program's own matrix
    says which. ``inputs``, ``outputs``, ``temporaries``: prefixes of names. The same arguments give
    the same program.

    Raises InvalidValue for an unknown objective, a matrix that is empty, ragged or not of integers,
    and a depth that is less than a row of the matrix takes.

    >>> print(adder_program([[4, 0, -5, 0, 1], [0, 7, 0, 7, 0]]))
    t0 = d0 - d2
    t1 = d4 - d2
    v0 = t1 + 4*t0
    t2 = d1 + d3
    t3 = 8*t2
    v1 = t3 - t2
    outputs: v0, v1
    """
    if objective not in OBJECTIVES:
        raise InvalidValue(f"objective: got {objective!r}; allowed: {', '.join(OBJECTIVES)}")
    rows = integers(matrix)
    check_bits(bits)
    if depth is not None:
        _check_integer("depth", depth)
    return _search(rows, objective, depth, bits, free_signs, Names(inputs, outputs, temporaries))


def _check_integer(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidType(f"{name}: got {value!r}; allowed: an integer")


def check_bits(bits: int) -> None:
    """Raise InvalidType or InvalidValue unless these are bits of inputs."""
    _check_integer("bits", bits)
    if bits < 1:
        raise InvalidValue(f"bits: got {bits}; allowed: 1 or more")


def integers(matrix: Rows) -> tuple[tuple[int, ...], ...]:
    """Return a matrix as rows of integers; raise InvalidType or InvalidValue if it is none."""
    try:
        rows = [list(row) for row in matrix]
    except TypeError:
        raise InvalidType(f"matrix: got {matrix!r}; allowed: rows of integers") from None
    if not rows or len({len(row) for row in rows}) > 1 or not rows[0]:
        raise InvalidValue("matrix: got no or unequal rows; allowed: rows of one length, 1 or more")
    return tuple(tuple(map(_integer, row)) for row in rows)


def _integer(entry: Any) -> int:
    if hasattr(entry, "__index__"):  # those of numpy, too
        return int(entry)
    number = exact(entry)
    if isinstance(number, Fraction) and number.denominator == 1:
        return int(number)
    raise InvalidValue(
        f"matrix: got {entry}; allowed: integers, as `winogen.fixed.integral` makes them"
    )


@lru_cache(maxsize=256)
def _search(
    matrix: tuple[tuple[int, ...], ...],
    objective: str,
    depth: int | None,
    bits: int,
    free_signs: bool,
    names: Names,
) -> Program:
    given = signed(bits)
    forms = LinearForms(len(matrix[0]), max(abs(c) for row in matrix for c in row), given)
    rows = [forms.encode(row) for row in matrix]
    targets = {forms.value(row) for row in rows if row} - set(forms.units)
    least = max((_least_depth(forms, target) for target in targets), default=0)
    if depth is not None and depth < least:
        raise InvalidValue(f"depth: got {depth}; allowed: {least} or more for this matrix")
    by_bits = objective == "bits"

    def weight(value: int) -> int:
        return ADDER + forms.bits(value)

    def price(program: Program) -> tuple[int, ...]:
        count, width = adders(program), adder_bits(program, given)
        deep = adder_depth(program)
        order = (width, count) if by_bits else (count, width)
        return (depth is not None and deep > depth, *order, deep, len(program.statements))

    def improved(
        values: list[int], weight: Weight, rng: random.Random, heats: Sequence[float]
    ) -> list[int]:
        for heat in heats:
            values = rebuild(forms, values, targets, depth, weight, rng, _REBUILDS)
            closure = Closure(forms, values)
            values = sorted(exchange(closure, targets, depth, weight, rng, _MOVES, heat))
        return values

    def program_of(values: list[int]) -> Program:
        return emit(forms, rows, values, depth, free_signs, names, price)

    digits = sum(map(forms.weight, targets))
    most = max(1, min(_BEST, _DIGITS // max(digits, 1)))
    sets = [
        improved(values, weight, random.Random(f"exchange {k}"), (30.0, 0.0))
        for k, values in enumerate(_starts(forms, matrix, targets, depth, weight)[:most])
    ]
    if by_bits:  # few adders have few bits; what is left to do is an exchange for narrower ones
        narrow = min(sets, key=lambda values: sum(map(forms.bits, values)))
        sets.append(improved(narrow, forms.bits, random.Random("bits"), (4.0, 0.0)))
    program = schedule(min(map(program_of, sets), key=price))
    program = rename(program, names.outputs, names.temporaries)
    computed = matrix
    if free_signs:
        computed = tuple(map(signed_as, matrix, program.to_matrix()))
    program.verify(computed)
    return program


def signed_as(row: Sequence[int], computed: Sequence[Scalar]) -> tuple[int, ...]:
    """Return the row, or its negative if that is what was computed."""
    return tuple(row) if tuple(computed) == tuple(row) else tuple(-c for c in row)


def _least_depth(forms: LinearForms, value: int) -> int:
    return (forms.weight(value) - 1).bit_length()


def _starts(
    forms: LinearForms,
    matrix: Sequence[Sequence[int]],
    targets: Collection[int],
    depth: int | None,
    weight: Weight,
) -> list[list[int]]:
    """Sets of values that compute the targets, the cheapest first."""
    found: dict[frozenset[int], int] = {}
    columns = [list(column) for column in zip(*matrix)]
    turned = LinearForms(len(matrix), max(abs(c) for row in matrix for c in row), forms.inputs)
    encoded = [turned.encode(column) for column in columns]
    others = {turned.value(column) for column in encoded if column} - set(turned.units)
    least = max((_least_depth(forms, target) for target in targets), default=0)
    bounds = [*range(least, depth + 1 if depth is not None else least + 3), depth, depth]
    for k in range(_STARTS):
        rng = random.Random(f"start {k}")
        halves, differences = _CHANCES[k % len(_CHANCES)]
        noise = (0.05, 0.4, 0.2)[k // len(_CHANCES) % 3]
        turn = k % 4 == 3
        rows = (
            split(turned, others, None, rng, halves, differences)
            if turn
            else split(forms, targets, rng.choice(bounds), rng, halves, differences)
        )
        if rows is None:
            continue
        values: Collection[int] | None
        if turn:
            found_there = sorted(share(turned, rows, rng, noise))
            values = transposed(turned, encoded, found_there, forms, rng)
        else:
            values = share(forms, rows, rng, noise)
        if values is None:
            continue
        closure = Closure(forms, sorted(values))
        level = closure.levels(depth=depth)
        if all(target in level for target in targets):
            prune(closure, targets, depth, weight, rng)
            kept = frozenset(closure.sums)
            found.setdefault(kept, sum(map(weight, kept)))
    order: Sequence[frozenset[int]] = sorted(found, key=lambda one: (found[one], sorted(one)))
    return [sorted(one) for one in order]
