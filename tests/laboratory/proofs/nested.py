"""Two-dimensional transforms: Y = L X R^T of a tile, as nested 1D programs or truly 2D ones.

Nested, the 1D program runs on every column and then on every row of the result. The Kronecker
product of two matrices can need fewer gates than that, though not by much: two gates on each of two
columns and two rows are eight nested, yet seven are enough for

    (1, a; 1, b) (x) (1, c; 1, d)        a, b, c, d any constants

by adding across the diagonal. Every pair of even or odd parts contains such blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from winogen.errors import InvalidValue
from winogen.program.ir import Program, Rows, Statement, Term, exact
from winogen.program.search import pairs
from winogen.program.search.candidate import OBJECTIVES, PricedProgram, check_objective
from winogen.program.search.lower import Names
from winogen.program.search.network import ONE, Builder
from winogen.program.search.passes import rename
from winogen.program.search.rank import lowered_candidates
from winogen.program.search.schedule import schedule
from winogen.program.search.simplify import simplify
from winogen.program.search.strategies import best_networks, in_reach

if TYPE_CHECKING:
    from winogen.algebra.scalar import Matrix, Scalar
    from winogen.program.search.network import GateNetwork, Signal
    from winogen.program.search.pairs import Join, Part


def kronecker(left: Rows, right: Rows) -> Matrix:
    """The matrix of X -> left X right^T, with X and the result written row by row.

    >>> [[int(c) for c in row] for row in kronecker([[1, 2]], [[1, 0], [3, 1]])]
    [[1, 0, 2, 0], [3, 1, 6, 2]]
    """
    return tuple(
        tuple(exact(p) * exact(q) for p in rows for q in columns)
        for rows in left
        for columns in right
    )


def nested_instructions(vertical: Program, horizontal: Program) -> int:
    """Instructions of the nested program: columns first, then rows of the result.

    >>> four = simplify([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]])
    >>> nested_instructions(four, four)
    32
    """
    first = vertical.counts().instructions * len(horizontal.inputs)
    return first + horizontal.counts().instructions * len(vertical.outputs)


def nest_programs(
    vertical: Program,
    horizontal: Program,
    inputs: str = "d",
    outputs: str = "v",
    temporaries: str = "t",
) -> Program:
    """The 2D program of two 1D ones: ``vertical`` on every column, ``horizontal`` on every row.

    Inputs and outputs are numbered row by row.

    >>> pair = simplify([[1, 1], [1, -1]])
    >>> nest_programs(pair, pair).counts().instructions
    8
    """
    height, width = len(vertical.inputs), len(horizontal.inputs)
    statements: list[Statement] = []

    def inline(program: Program, values: Sequence[str]) -> list[str]:
        local = {"0": "0", **dict(zip(program.inputs, values))}
        for s in program.statements:
            terms = [
                Term(t.coefficient, local[t.operand]) for t in s.terms if local[t.operand] != "0"
            ]
            local[s.target] = "0"
            if terms:
                local[s.target] = f"_{len(statements)}"
                statements.append(Statement(local[s.target], tuple(terms)))
        return [local[name] for name in program.outputs]

    flat = [f"{inputs}{k}" for k in range(height * width)]
    columns = [inline(vertical, flat[j::width]) for j in range(width)]
    result: list[str] = []
    for i in range(len(vertical.outputs)):
        result += inline(horizontal, [column[i] for column in columns])
    return rename(Program(tuple(flat), tuple(statements), tuple(result)), outputs, temporaries)


def simplify_2d(
    left: Rows,
    right: Rows | None = None,
    objective: str = "instructions",
    inputs: str = "d",
    outputs: str = "v",
    temporaries: str = "t",
) -> Program:
    """The best program found for Y = left X right^T, nested or not; proven equal to it.

    ``right`` is ``left`` by default. Inputs and outputs are numbered row by row. Takes seconds to a
    minute where parts have more than two columns. Raises ``InvalidValue`` as ``simplify``.

    >>> square = simplify_2d([[1, 1], [1, 4]])
    >>> square.counts().instructions, nested_instructions(*2 * [simplify([[1, 1], [1, 4]])])
    (7, 8)
    """
    check_objective(objective)
    right = left if right is None else right
    for matrix in (left, right):
        if not matrix or not matrix[0]:
            raise InvalidValue("matrix: got no rows or columns; allowed: 1 or more")
    down, across = (tuple(tuple(exact(c) for c in row) for row in m) for m in (left, right))
    names = Names(inputs, outputs, temporaries)
    programs = [simplify(matrix, objective, *names) for matrix in (down, across)]
    best = nest_programs(programs[0], programs[1], *names)
    cost = OBJECTIVES[objective]
    limit = cost(PricedProgram.of(best))[:2]
    for network in networks_2d(down, across):
        for candidate in lowered_candidates(network, names, tries=8):
            if cost(candidate)[:2] < limit:
                best, limit = candidate.program, cost(candidate)[:2]
    best = rename(schedule(best), outputs, temporaries)
    best.verify(kronecker(down, across))
    return best


def networks_2d(left: Matrix, right: Matrix) -> list[GateNetwork]:
    """Networks of the Kronecker product, some not nested, those of fewest gates first."""
    networks = {network.compact(): None for network in _blocks(left, right)}
    turned = _blocks(tuple(zip(*left)), tuple(zip(*right)))
    networks.update({network.transposed().compact(): None for network in turned})
    return sorted(networks, key=lambda network: len(network.gates))


def in_reach_2d(left: Matrix, right: Matrix | None = None) -> bool:
    """Whether ``networks_2d`` searches all blocks of the matrix, or of the transposed one.

    Where it does not, blocks are too large for all but the greedy strategy.
    """
    right = left if right is None else right
    turned = (tuple(zip(*left)), tuple(zip(*right)))
    for down, across in ((left, right), turned):
        parts = [[rows for _, rows in _parts(matrix)[0]] for matrix in (down, across)]
        if all(in_reach(kronecker(p, q)) for p in parts[0] for q in parts[1]):
            return True
    return False


def _blocks(left: Matrix, right: Matrix) -> Iterator[GateNetwork]:
    """Networks by parts: blocks of even and odd columns by even and odd rows, then their joins."""
    (upper, joins_down), (side, joins_across) = _parts(left), _parts(right)
    width = len(right[0])
    options = {}
    for u, (_, lefts) in enumerate(upper):
        for s, (_, rights) in enumerate(side):
            block = kronecker(lefts, rights)
            options[u, s] = best_networks(block, ("greedy", "wide"))
    for k in range(max(map(len, options.values()))):
        build = Builder(len(left[0]) * width)
        # (part down, row of it, part across, row of it) -> signal
        value: dict[tuple[int, int, int, int], Signal | None] = {}
        for (u, s), networks in options.items():
            rows, _ = upper[u]
            columns, rights = side[s]
            signals: list[Signal] = [(ONE, i * width + j) for i in rows for j in columns]
            result = build.embed(networks[k % len(networks)], signals)
            for index, signal in enumerate(result):
                value[u, index // len(rights), s, index % len(rights)] = signal
        outputs = []
        for down in joins_down:
            half: dict[tuple[int, int], Signal | None] = {}
            for s, (_, rights) in enumerate(side):
                for q in range(len(rights)):
                    half[s, q] = build.chain([_scaled(c, value[u, p, s, q]) for c, u, p in down])
            for across in joins_across:
                outputs.append(build.chain([_scaled(c, half[s, q]) for c, s, q in across]))
        yield build.network(outputs)


def _parts(matrix: Matrix) -> tuple[list[Part], list[list[Join]]]:
    halves = pairs.split(matrix)
    if halves is not None:
        return halves
    whole: list[Part] = [(range(len(matrix[0])), [tuple(row) for row in matrix])]
    return whole, [[(ONE, 0, i)] for i in range(len(matrix))]


def _scaled(constant: Scalar, signal: Signal | None) -> Signal | None:
    return None if signal is None else (constant * signal[0], signal[1])
