"""In which order transforms add: row by row in a stated order, or as the shortest program does.

Summing each row on its own shares nothing between rows, so these programs are long; but the order
in which the terms of a row are added is explicit. It fixes how large the partial sums are, and with
them the rounding.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TypeAlias

from winogen.errors import InvalidValue
from winogen.program.ir import ZERO, Program, Rows, Statement, Term, exact
from winogen.program.kinds import KINDS

PROGRAM = "program"  # the order of the shortest program, whatever it is

# What is added to what: the index of a term, or a pair of trees.
Tree: TypeAlias = "int | tuple[Tree, Tree]"


def ordered(matrix: Rows, order: str = PROGRAM, inputs: str = "d", outputs: str = "v") -> Program:
    """The program of ``matrix`` that adds in ``order``: "program" for the shortest, or row by row.

    >>> [len(ordered([[1, 1], [1, 1]], order).statements) for order in ("program", "naive")]
    [1, 2]
    """
    if order == PROGRAM:
        # The search is loaded when there is something to search for; what ships needs none.
        from winogen.program.search.simplify import simplify

        return simplify(matrix, inputs=inputs, outputs=outputs)
    return summation(matrix, order, inputs=inputs, outputs=outputs)


def shorten(matrices: Mapping[str, Rows], order: str = PROGRAM) -> dict[str, Program]:
    """Return {"input" | "filter" | "output": Program} for such matrices, each proven equal to its.

    The shortest ones that are found, unless ``order`` asks for sums row by row.
    """
    return {
        kind: ordered(matrix, order, KINDS[kind].source, KINDS[kind].target)
        for kind, matrix in matrices.items()
    }


def check_order(order: object, allowed: tuple[str, ...] | None = None) -> str:
    """Return ``order`` if there is one of that name; raises InvalidValue."""
    allowed = allowed or NAMES
    if not isinstance(order, str) or order not in allowed:
        raise InvalidValue(f"order: got {order!r}; allowed: {', '.join(allowed)}")
    return order


def summation(
    matrix: Rows,
    order: str = "huffman",
    inputs: str = "d",
    outputs: str = "v",
    temporaries: str = "t",
) -> Program:
    """A program that computes every row of ``matrix`` (exact rows) as one sum in the given order.

    ``order``: "naive" adds the terms from left to right; "pairwise" halves the row again and
    again; "huffman" adds the two smallest partial sums first, the size of a sum being the sum of
    the |coefficients| in it. That is the tree with the least total size of all partial sums, hence
    with the least bound on their rounding errors (Barabasz et al., arXiv 1803.10986, section 5).
    ``inputs``, ``outputs`` and ``temporaries`` are name prefixes.

    Raises InvalidValue for an unknown order or a ragged matrix.

    >>> print(summation([[4, 1, -1]], "naive"))
    t0 = 4*d0 + d1
    v0 = t0 - d2
    outputs: v0
    >>> print(summation([[4, 1, -1]]))
    t0 = d1 - d2
    v0 = t0 + 4*d0
    outputs: v0
    """
    check_order(order, tuple(ORDERS))
    rows = [[exact(c) for c in row] for row in matrix]
    if len({len(row) for row in rows}) > 1:
        raise InvalidValue("matrix: got rows of different lengths; allowed: equal lengths")
    names = tuple(f"{inputs}{j}" for j in range(len(rows[0]) if rows else 0))
    statements: list[Statement] = []
    targets = []
    fresh = 0
    for i, row in enumerate(rows):
        terms = [Term(c, name) for c, name in zip(row, names) if c != 0]
        if not terms:
            targets.append(ZERO)
            continue
        if len(terms) == 1 and terms[0].coefficient == 1:
            targets.append(terms[0].operand)
            continue
        body, fresh = _row(terms, ORDERS[order](terms), f"{outputs}{i}", temporaries, fresh)
        statements += body
        targets.append(f"{outputs}{i}")
    return Program(names, tuple(statements), tuple(targets))


def _row(
    terms: list[Term], tree: Tree, target: str, temporaries: str, fresh: int
) -> tuple[list[Statement], int]:
    """The statements that add ``terms`` as ``tree`` says, the last one into ``target``."""
    body = []

    def emit(parts: tuple[Term, ...], name: str | None = None) -> Term:
        nonlocal fresh
        if name is None:
            name, fresh = f"{temporaries}{fresh}", fresh + 1
        body.append(Statement(name, parts))
        return Term(Fraction(1), name)

    def visit(node: Tree, name: str | None = None) -> Term:
        if isinstance(node, int):
            return emit((terms[node],), name) if name else terms[node]
        left, right = visit(node[0]), visit(node[1])
        if not left.is_unit and not right.is_unit:  # one instruction takes one constant
            left = emit((left,))
        return emit((left, right), name)

    visit(tree, target)
    return body, fresh


# ---- the orders: terms -> a tree -----------------------------------------------------------------


def _naive(terms: Sequence[Term]) -> Tree:
    tree: Tree = 0
    for index in range(1, len(terms)):
        tree = (tree, index)
    return tree


def _pairwise(terms: Sequence[Term], first: int = 0, count: int | None = None) -> Tree:
    count = len(terms) if count is None else count
    if count == 1:
        return first
    half = (count + 1) // 2
    return _pairwise(terms, first, half), _pairwise(terms, first + half, count - half)


def _huffman(terms: Sequence[Term]) -> Tree:
    trees: list[Tree] = list(range(len(terms)))
    for a, b in huffman_sums([_size(term) for term in terms]):
        trees.append((trees[a], trees[b]))
    return trees[-1]


def huffman_sums(sizes: Sequence[Fraction | float]) -> Iterator[tuple[int, int]]:
    """Which two values to add next, the two smallest first, until one is left.

    ``sizes`` belong to the values 0, 1, ...; every sum becomes the next value, as large as its two
    parts together. Ties go to the value with the lower number: among equals the sums stay shallow,
    and the result is fixed.

    >>> list(huffman_sums([4, 1, 1, 1]))
    [(1, 2), (3, 4), (5, 0)]
    """
    heap = [(size, number) for number, size in enumerate(sizes)]
    heapq.heapify(heap)
    for number in range(len(sizes), 2 * len(sizes) - 1):
        (p, a), (q, b) = heapq.heappop(heap), heapq.heappop(heap)
        heapq.heappush(heap, (p + q, number))
        yield a, b


def _size(term: Term) -> Fraction | float:
    size = term.magnitude
    return size if isinstance(size, Fraction) else float(size)


ORDERS: dict[str, Callable[[Sequence[Term]], Tree]] = {
    "naive": _naive,
    "huffman": _huffman,
    "pairwise": _pairwise,
}
NAMES = (*ORDERS, PROGRAM)
