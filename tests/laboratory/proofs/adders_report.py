"""The part of the page of operation counts about adders: winogen beside others.

``python tests/laboratory/proofs/adders_report.py`` prints it, in some minutes. With the extra
``hardware`` da4ml 0.6 is there to compare with; without it its columns stay empty.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parents[2]))

from winogen.codegen.fixed_planner import of_catalog
from winogen.codegen.shipped import catalog
from winogen.fixed.integral import Integral
from winogen.program import Program, adder_program, adder_program_2d
from winogen.program.adders import adder_bits, adder_depth, adders, adders_of
from winogen.program.kinds import KINDS
from winogen.program.search.adders.closure import Closure
from winogen.program.search.adders.forms import LinearForms, signed_digits
from winogen.program.search.adders.sharing import share
from winogen.program.search.adders.splitting import split
from winogen.program.widths import forms, of_products, signed

Rows: TypeAlias = tuple[tuple[int, ...], ...]

BITS = 8  # of inputs
LARGEST = 8  # n = m + r - 1
# (method, depth beyond the least): da4ml's ways to search; no other finds fewer adders here.
_WAYS = tuple(product(("wmc", "mc", "wmc-dc", "mc-dc", "wmc-pdc", "mc-pdc"), (-1, 0, 1, 2, 3, 4)))


class Cost(NamedTuple):
    """Adders, the bits of their results, and levels."""

    adders: int
    bits: int
    depth: int

    def __str__(self) -> str:
        return f"{self.adders} ({self.bits}, {self.depth})"


def entries() -> Iterator[tuple[str, Integral]]:
    """The catalog's algorithms of up to `LARGEST` inputs whose coefficients are fractions."""
    sizes = dict.fromkeys((e["m"], e["r"]) for e in catalog().values() if e.get("stride", 1) == 1)
    for m, r in sizes:
        if 1 < m + r - 1 <= LARGEST:
            yield from of_catalog(m, r)


def by_rows(matrix: Rows) -> int:
    """Adders of every row on its own, its constants in canonical signed digits."""
    digits = [sum(len(signed_digits(c)) for c in row) for row in matrix]
    return sum(max(count - 1, 0) for count in digits)


def by_pairs(matrix: Rows) -> int:
    """Adders where the pair of terms that most rows share is taken out, again and again."""
    space = LinearForms(len(matrix[0]), max(abs(c) for row in matrix for c in row), signed(BITS))
    targets = {space.value(space.encode(row)) for row in matrix if any(row)} - set(space.units)
    rng = random.Random(0)
    rows = split(space, targets, None, rng, 0.0, 0.0)
    assert rows is not None
    return len(Closure(space, share(space, rows, rng, noise=0.0)).sums)


def ours(matrix: Rows, kind: str, depth: int | None) -> Program:
    """winogen's program; B^T and G have free signs."""
    return adder_program(matrix, depth=depth, bits=BITS, free_signs=kind != "output")


def cost(program: Program) -> Cost:
    """What a program costs."""
    return Cost(adders(program), adder_bits(program, signed(BITS)), adder_depth(program))


def nested(program: Program) -> int:
    """Adders of a transform of both axes: of every column, then of every row."""
    return adders(program) * (len(program.inputs) + len(program.outputs))


def nested_bits(program: Program) -> int:
    """The bits of their results, each as wide as in its place."""
    made = forms(program)
    first = adder_bits(program, signed(BITS)) * len(program.inputs)
    for name, one in product(program.outputs, program.statements):
        if count := adders_of(one):
            width = of_products([made[name]], [made[one.target]], signed(BITS)).bits
            first += count * width
    return first


# ---- da4ml --------------------------------------------------------------------------------------


def has_da4ml() -> bool:
    """Whether the extra ``hardware`` is installed."""
    return find_spec("da4ml") is not None


@lru_cache(maxsize=512)
def da4ml(
    matrix: Rows, ways: tuple[tuple[str, int], ...] = _WAYS, sizes: tuple[int, ...] = (-1, 1)
) -> tuple[Cost, ...]:
    """What da4ml's graphs cost, those that no other beats in all three; negations are free there.

    ``sizes``: how it weighs adders while it searches, -1 by their number, 1 by their bits. Each
    graph is run on the columns of the identity and compared with the matrix.
    """
    import numpy as np
    from da4ml.cmvm import solve

    given = signed(BITS)
    kernel = np.array(matrix, np.float32).T.copy()
    found = set()
    for (method, depth), size in product(ways, sizes):
        graph = solve(
            kernel,
            method0=method,
            hard_dc=depth,
            adder_size=size,
            qintervals=[(float(given.low), float(given.high), 1.0)] * len(kernel),
        )
        found.add(_cost(graph, matrix))
    return tuple(
        sorted(a for a in found if not any(b != a and all(map(int.__le__, b, a)) for b in found))
    )


def _cost(graph: Any, matrix: Rows) -> Cost:
    width = len(matrix[0])
    values = [tuple(Fraction(int(k == j)) for k in range(width)) for j in range(width)]
    levels = [0] * width
    count = bits = 0
    for stage in graph.solutions:
        rows: list[tuple[Fraction, ...]] = []
        level: list[int] = []
        for op in stage.ops:
            if op.opcode == -1:
                shift = Fraction(2) ** stage.inp_shifts[op.id0]
                rows.append(tuple(shift * c for c in values[op.id0]))
                level.append(levels[op.id0])
                continue
            assert op.opcode in (0, 1), f"{op} is neither a sum nor a difference"
            factor = Fraction(2) ** op.data * (1 - 2 * op.opcode)
            rows.append(tuple(a + factor * b for a, b in zip(rows[op.id0], rows[op.id1])))
            level.append(1 + max(level[op.id0], level[op.id1]))
            count += 1
            bits += of_products([(1,)], [_whole(rows[-1])], signed(BITS)).bits
        picked = list(zip(stage.out_idxs, stage.out_shifts, stage.out_negs))
        values = [
            (Fraction(0),) * width
            if i < 0
            else tuple(Fraction(2) ** shift * (-c if negative else c) for c in rows[i])
            for i, shift, negative in picked
        ]
        levels = [0 if i < 0 else level[i] for i, _, _ in picked]
    assert [list(map(int, row)) for row in values] == [list(row) for row in matrix]
    return Cost(count, bits, max(levels))


def _whole(row: Sequence[Fraction]) -> list[int]:
    """A value shifted to where its lowest bit may be set."""
    power = max(c.denominator for c in row)
    numbers = [int(c * power) for c in row]
    while any(numbers) and not any(c & 1 for c in numbers):
        numbers = [c >> 1 for c in numbers]
    return numbers


# ---- the part of the page -----------------------------------------------------------------------

HEAD = f"""
## Adders

For hardware, and processors without a fast multiplier: every constant is a sum of signed powers of
two, shifts are free, and what counts are additions and subtractions, adders, and the bits of their
results, for inputs of {BITS} bits. Matrices are integers, as `winogen.fixed.integral` makes them.
*Rows*: every row on its own, constants in canonical signed digits. *Pairs*: the pair of terms that
most rows share is taken out, again and again. *da4ml*: version 0.6 by each of its methods, the
graph of fewest adders, as adders (bits, levels). *winogen*: `winogen.program.adder_program`,
limited to as many levels. Every program is proven equal to its matrix. da4ml negates outputs
freely. winogen's rows of B^T and G have free signs, too, because the columns of A^T make up for
them; a negation in A^T counts as an adder.
"""

WHOLE = ("f2_3", "f4_3_gaussian")  # whose tiles are searched as a whole, in a minute
SQUARE_HEAD = """
In two dimensions *nested* is winogen's program on every column, then on every row. Others have the
Kronecker product of the matrix with itself, on which there may be more to share: da4ml, and
`winogen.program.adder_program_2d`, *whole*, which begins with the nested program. It was run where
that takes less than a minute. *Minimal*: no program has fewer.
Each different result that is no input takes an adder; and a matrix takes as many as its transpose,
and one more for each input that it has beyond its results.
"""

SQUARE = ("f2_3", "f3_3", "f4_3_classic", "f4_3_gaussian", "f6_3")
# Matrices are large there: the ways that found the fewest adders of smaller ones.
_SQUARE_WAYS = (
    *(("wmc", depth) for depth in (-1, 0, 1, 2)),
    ("wmc-dc", 1),
    ("mc", -1),
    ("wmc-pdc", -1),
)


def part(square: Sequence[str] = SQUARE, names: Sequence[str] | None = None) -> list[str]:
    """All lines: of these entries, by default of all, and of some along both axes."""
    known = dict(entries())
    rows = [
        _line("transform", "", "rows", "pairs", "da4ml", "winogen"),
        "|---|---|---|---|---|---|",
    ]
    for name in known if names is None else names:
        for kind, matrix in known[name].matrices.items():
            theirs = da4ml(matrix)[0] if has_da4ml() else None
            mine = cost(ours(matrix, kind, theirs.depth if theirs else None))
            label = f"`{name}`" if kind == "input" else ""
            cells = by_rows(matrix), by_pairs(matrix), theirs or "–", mine
            rows.append(_line(label, KINDS[kind].symbol, *cells))
    both = [_line("transform", "", "da4ml", "nested", "whole"), "|---|---|---|---|---|"]
    for name in square:
        for kind, matrix in known[name].matrices.items():
            label = f"`{name}`" if kind == "input" else ""
            cells = _both_axes(matrix, kind, name in WHOLE)
            both.append(_line(label, KINDS[kind].symbol, *cells))
    return [*HEAD.splitlines(), "", *rows, *SQUARE_HEAD.splitlines(), "", *both]


def _both_axes(matrix: Rows, kind: str, as_whole: bool) -> Iterable[object]:
    program = ours(matrix, kind, None)
    mine = Cost(nested(program), nested_bits(program), 2 * adder_depth(program))
    kron = tuple(tuple(a * b for a in p for b in q) for p in matrix for q in matrix)
    whole = "–"
    if as_whole:
        found = cost(adder_program_2d(matrix, bits=BITS, free_signs=kind != "output"))
        whole = f"{found}{', minimal' if found.adders == least(kron) else ''}"
    if not has_da4ml():
        return "–", mine, whole
    if max(abs(c) for row in kron for c in row) >= 1 << 24:
        return "more than its constants hold", mine, whole
    return da4ml(kron, _SQUARE_WAYS, (-1,))[0], mine, whole


def least(matrix: Rows) -> int:
    """Adders that no program of a matrix can do without; it has no row or column of zeros.

    >>> least(((1, 1, 1, 0), (0, 1, -1, -1))), least(((1, 0), (2, 0), (1, 1)))
    (4, 1)
    """
    turned = tuple(zip(*matrix))
    return max(_different(matrix), _different(turned) + len(turned) - len(matrix))


def _different(matrix: Rows) -> int:
    """How many rows there are, up to shifts and signs, that are no inputs."""
    space = LinearForms(len(matrix[0]), max(abs(c) for row in matrix for c in row), signed(BITS))
    return len({space.value(space.encode(row)) for row in matrix} - set(space.units))


def _line(*cells: object) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


if __name__ == "__main__":
    sys.stdout.write("\n".join([*part(), ""]))
