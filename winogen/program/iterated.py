"""Programs of iterated algorithms: those of both parts, one after the other, with nothing searched.

The matrices of F(m, r) by two short algorithms are Kronecker products, and their programs run the
program of one part along every row of a small array, that of the other part across. What comes of
it is proven equal to the matrix, as every program is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from winogen.program.ir import ZERO, Program, Statement, Term
from winogen.program.kinds import KINDS
from winogen.program.summation import PROGRAM, shorten
from winogen.spelling import WITHIN

if TYPE_CHECKING:
    from winogen.algebra.bilinear import BilinearAlgorithm
    from winogen.algebra.iterated import Sizes

Grid = Sequence[Sequence[str]]  # names of values, of the outer index and the inner one
Programs = Mapping[str, Program]
Parts = tuple["Sizes", "BilinearAlgorithm", "BilinearAlgorithm"]


def parts(algorithm: BilinearAlgorithm) -> Parts | None:
    """Return the sizes, the outer and the inner algorithm; None where it is not made of two.

    Neither is it where rows of its matrices were scaled since.
    """
    if WITHIN not in (getattr(algorithm, "points", None) or ()):
        return None
    return _parts(algorithm)


@lru_cache(maxsize=32)
def _parts(algorithm: BilinearAlgorithm) -> Parts | None:
    from winogen.algebra import cooktoom, iterate, parse_points

    points = parse_points(algorithm.points or ())
    sizes, outer, inner = cooktoom.parts(algorithm.m, algorithm.r, points)
    same = iterate(outer, inner).matrices == dict(algorithm.matrices)
    return (sizes, outer, inner) if same else None


def programs_of(algorithm: BilinearAlgorithm, order: str = PROGRAM) -> dict[str, Program]:
    """Return {"input" | "filter" | "output": Program} of any algorithm, each proven.

    ``order``: as of `summation.ordered`; in iterated algorithms that of the sums of each part.

    >>> from winogen.algebra import cook_toom
    >>> made = programs_of(cook_toom(4, 4, "0,1,inf; 0,1,inf"))
    >>> [program.counts().add for program in made.values()]
    [12, 5, 10]
    """
    found = parts(algorithm)
    if found is None:
        return shorten(algorithm.matrices, order)
    sizes, outer, inner = found
    return composed(sizes, shorten(outer.matrices, order), shorten(inner.matrices, order))


def composed(sizes: Sizes, outer: Programs, inner: Programs) -> dict[str, Program]:
    """Return the programs of the whole of those of its parts, each in the cheaper order."""
    step, rows, places = sizes.inner_r, range(sizes.outer_r), range(sizes.inner_r)
    windows = [
        [f"d{step * u + v}" for v in range(sizes.inner_m + step - 1)]
        for u in range(sizes.outer_m + sizes.outer_r - 1)
    ]
    taps = [[f"g{step * a + b}" for b in places] for a in rows]
    columns = len(inner["output"].inputs)
    products = [
        [f"p{columns * a + b}" for b in range(columns)] for a in range(len(outer["output"].inputs))
    ]
    made = {}
    for kind, grid in (("input", windows), ("filter", taps), ("output", products)):
        both = (_run(grid, outer[kind], inner[kind], first) for first in ("inner", "outer"))
        statements, values = min(both, key=lambda one: len(one[0]))
        if kind == "output":
            outputs = [values[p][q] for p, q in map(sizes.output, range(sizes.m))]
        else:
            outputs = [name for row in values for name in row]
        inputs = sorted({name for row in grid for name in row}, key=lambda name: int(name[1:]))
        made[kind] = _trimmed(inputs, statements, outputs, KINDS[kind].target)
    return made


def _run(
    grid: Grid, outer: Program, inner: Program, first: str
) -> tuple[list[Statement], list[list[str]]]:
    """Statements that run one program along the rows, and one across them, and their results."""
    statements: list[Statement] = []
    seen: dict[tuple[Term, ...], str] = {}  # windows overlap: the same sums are made once

    def run(program: Program, values: Sequence[str]) -> list[str]:
        names = {**dict(zip(program.inputs, values)), ZERO: ZERO}
        for statement in program.statements:
            terms = tuple(Term(term.coefficient, names[term.operand]) for term in statement.terms)
            key = tuple(sorted(terms, key=lambda term: term.operand))
            if key not in seen:
                seen[key] = f"x{len(statements)}"
                statements.append(Statement(seen[key], terms))
            names[statement.target] = seen[key]
        return [names[name] for name in program.outputs]

    def along(values: Grid) -> list[list[str]]:
        return [run(inner, row) for row in values]

    def across(values: Grid) -> list[list[str]]:
        return _turned([run(outer, column) for column in _turned(values)])

    return statements, across(along(grid)) if first == "inner" else along(across(grid))


def _turned(values: Grid) -> list[list[str]]:
    return [list(column) for column in zip(*values)]


def _trimmed(
    inputs: Sequence[str], statements: Sequence[Statement], outputs: Sequence[str], letter: str
) -> Program:
    """The program without statements that no output needs, results called by their letter."""
    needed = set(outputs)
    kept = []
    for statement in reversed(statements):
        if statement.target in needed:
            kept.append(statement)
            needed.update(statement.operands)
    names = {name: name for name in (*inputs, ZERO)}
    for place, name in enumerate(outputs):
        names.setdefault(name, f"{letter}{place}")
    count = 0
    renamed = []
    for statement in reversed(kept):
        if statement.target not in names:
            names[statement.target] = f"t{count}"
            count += 1
        terms = tuple(Term(term.coefficient, names[term.operand]) for term in statement.terms)
        renamed.append(Statement(names[statement.target], terms))
    return Program(tuple(inputs), tuple(renamed), tuple(names[name] for name in outputs))
