"""In which order transforms add: row by row in a stated order, or as the shortest program does.

Summing each row on its own shares nothing between rows, so these programs are long; but the order in
which the terms of a row are added is explicit. It fixes how large the partial sums are, and with them
the rounding.
"""

from __future__ import annotations

import heapq
from fractions import Fraction

from winogen.errors import InvalidValue
from winogen.program.ir import ZERO, Program, Statement, Term, exact
from winogen.program.search.simplify import simplify

PROGRAM = "program"  # the order of the shortest program, whatever it is


def ordered(matrix, order: str = PROGRAM, inputs="d", outputs="v") -> Program:
    """The program of ``matrix`` that adds in ``order``: "program" for the shortest, or row by row.

    >>> len(ordered([[1, 1], [1, -1]]).statements), len(ordered([[1, 1], [1, 1]], "naive").statements)
    (2, 2)
    """
    if order == PROGRAM:
        return simplify(matrix, inputs=inputs, outputs=outputs)
    return summation(matrix, order, inputs=inputs, outputs=outputs)


def check_order(order, allowed: tuple[str, ...] | None = None) -> str:
    """Return ``order`` if there is one of that name; raises InvalidValue."""
    allowed = allowed or NAMES
    if not isinstance(order, str) or order not in allowed:
        raise InvalidValue(f"order: got {order!r}; allowed: {', '.join(allowed)}")
    return order


def summation(matrix, order="huffman", inputs="d", outputs="v", temporaries="t") -> Program:
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
    statements, targets = [], []
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


def _row(terms, tree, target, temporaries, fresh):
    """The statements that add ``terms`` as ``tree`` says, the last one into ``target``."""
    body = []

    def emit(parts, name=None):
        nonlocal fresh
        if name is None:
            name, fresh = f"{temporaries}{fresh}", fresh + 1
        body.append(Statement(name, parts))
        return Term(1, name)

    def visit(node, name=None):
        if isinstance(node, int):
            return emit((terms[node],), name) if name else terms[node]
        left, right = visit(node[0]), visit(node[1])
        if not left.is_unit and not right.is_unit:  # one instruction takes one constant
            left = emit((left,))
        return emit((left, right), name)

    visit(tree, target)
    return body, fresh


# ---- the orders: terms -> a tree, which is an index of a term or a pair of trees -----------------


def _naive(terms):
    tree = 0
    for index in range(1, len(terms)):
        tree = (tree, index)
    return tree


def _pairwise(terms, first=0, count=None):
    count = len(terms) if count is None else count
    if count == 1:
        return first
    half = (count + 1) // 2
    return _pairwise(terms, first, half), _pairwise(terms, first + half, count - half)


def _huffman(terms):
    # Ties go to the tree made first: among equals the sums stay shallow, and the result is fixed.
    heap = [(_size(term), index, index) for index, term in enumerate(terms)]
    heapq.heapify(heap)
    made = len(heap)
    while len(heap) > 1:
        size_a, _, a = heapq.heappop(heap)
        size_b, _, b = heapq.heappop(heap)
        heapq.heappush(heap, (size_a + size_b, made, (a, b)))
        made += 1
    return heap[0][2]


def _size(term):
    size = abs(term.coefficient)
    return size if isinstance(size, Fraction) else float(size)


ORDERS = {"naive": _naive, "huffman": _huffman, "pairwise": _pairwise}
NAMES = (*ORDERS, PROGRAM)
