"""Proofs that no network has fewer gates: a SAT solver proposes shapes, exact algebra refutes them.

A shape says which two nodes every gate reads and which gate is which row of the matrix. The solver
(python-sat) looks for one with a given number of gates. Its
proposal must stand two tests:

- cuts: for any rows T and columns J of the matrix, at least rank(M[T, J]) disjoint paths lead from
  J to T. A cut that is too small refutes every shape that has no other way around it.
- constants: the gates that are rows of the matrix are known points, the others are drawn on lines
  with unknown parameters; that the known ones lie on their lines is a system of polynomial
  equations. When 1 is in its ideal (Groebner basis, sympy) no constants whatever will do.

What is refuted is learnt as a clause. When the solver runs out of shapes, every network with any
real (even complex) constants is excluded, whatever their size. This is counterexample-guided
search in the manner of exact synthesis of Boolean chains (Knuth, TAOCP 7.2.2.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from pysat.solvers import Solver

from winogen.errors import Unsupported
from winogen.program.search.geometry import Point, is_rational, point_of

if TYPE_CHECKING:
    from winogen.algebra.scalar import Scalar

Question: TypeAlias = tuple[tuple[Point, ...], int]  # rows up to scale, gates
State: TypeAlias = tuple[int, int]  # a node and its side
Shape: TypeAlias = tuple[dict[int, list[int]], dict[int, int]]  # what gates read, gate of each row

_SUBSETS = 4  # cuts are looked at between at most so many rows and columns


def proven_minimal(matrix: Sequence[Sequence[Any]], gates: int, limit: int = 2000) -> bool:
    """Whether it is proven that no network of fewer than ``gates`` gates computes ``matrix``.

    False only says that there is no proof: shapes were possible, or ``limit`` of them too few.
    Any constants are excluded by a proof. Fewer gates also mean fewer instructions.

    Raises ``Unsupported`` for irrational matrices, ImportError naming the extra when
    python-sat is missing.

    >>> filters = [[1, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 1]]  # F(2, 3)
    >>> proven_minimal(filters, 3), proven_minimal(filters, 4)
    (True, False)
    """
    return proven_question(*question(matrix, gates), limit)


def proven_question(points: Sequence[Point], gates: int, limit: int = 2000) -> bool:
    """``proven_minimal`` for what ``question`` gives."""
    if not points:
        return gates <= 0
    return all(
        _excluded(points, len(points[0]), fewer, limit) for fewer in range(len(points), gates)
    )


def question(matrix: Sequence[Sequence[Any]], gates: int) -> Question:
    """(points, gates): what has to be proven after what is settled without a search is taken off.

    Matrices with the same question share the answer; its gates tell how hard it is.

    >>> question([[1, 1, 1, 0], [0, 1, -1, 1]], 4)
    (((1, 1), (1, -1)), 2)
    """
    remainder = _reduced([[Fraction(1) * c for c in row] for row in matrix])
    gates -= remainder.settled
    points = _targets(remainder.rows)
    if points:
        # Turned round, a network has as many gates more as the matrix has rows more than columns,
        # so the smaller of the two questions answers both.
        turned = gates + len(points) - len(points[0])
        if turned < gates:
            columns = [[Fraction(c) for c in column] for column in zip(*points)]
            points, gates = _targets(columns), turned
    return tuple(points), gates


def _excluded(points: Sequence[Point], width: int, gates: int, limit: int) -> bool:
    """Whether it is proven that no network of exactly ``gates`` useful gates has these points."""
    problem = _Shapes(points, width, gates)
    try:
        for _ in range(limit):
            shape = problem.propose()
            if shape is None:
                return True
            if not problem.refute_by_cuts(shape) and not problem.refute_by_algebra(shape):
                return False
    finally:
        problem.close()
    return False


class _Remainder(NamedTuple):
    rows: list[list[Scalar]]  # what is left of a matrix, every column in two rows at least
    settled: int  # gates that what was taken away needs in any network


def _reduced(rows: list[list[Scalar]]) -> _Remainder:
    """Without columns that a single row reads; each of them costs that row one gate.

    (Set the input to zero: at least one gate falls away, and the others compute what is left.)
    """
    settled = 0
    while True:
        rows = [row for row in rows if sum(c != 0 for c in row) > 1]
        rows = list({point_of(row): row for row in rows}.values())
        used = [column for column in zip(*rows) if any(column)]
        lonely = next(
            (j for j, column in enumerate(used) if sum(c != 0 for c in column) == 1), None
        )
        if lonely is not None:
            del used[lonely]
            settled += 1
        rows = [list(row) for row in zip(*used)]
        if lonely is None or not rows:
            return _Remainder(rows, settled)


def _targets(matrix: Iterable[Sequence[Any]]) -> list[Point]:
    points = [point_of([Fraction(1) * c for c in row]) for row in matrix]
    if not all(p is None or is_rational(p) for p in points):
        raise Unsupported("matrix: got irrational quotients; allowed: rational ones")
    return [p for p in dict.fromkeys(points) if p is not None and sum(c != 0 for c in p) > 1]


class _Shapes:
    """The SAT problem and what has been learnt; nodes are inputs, then gates."""

    def __init__(self, targets: Sequence[Point], width: int, gates: int) -> None:
        self.targets, self.width, self.gates = targets, width, gates
        self.solver = Solver(name="cadical153")
        self._count = 0
        self.reads: dict[tuple[int, int], int] = {}  # (gate, node) -> variable
        self.is_row: dict[tuple[int, int], int] = {}  # (target, gate) -> variable
        for g in range(width, width + gates):
            for x in range(g):
                self.reads[g, x] = self._variable()
            for t in range(len(targets)):
                self.is_row[t, g] = self._variable()
        self._shape_clauses()
        self.ranks: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}

    def close(self) -> None:
        self.solver.delete()

    def _variable(self) -> int:
        self._count += 1
        return self._count

    def _shape_clauses(self) -> None:
        add, nodes = self.solver.add_clause, range(self.width + self.gates)
        for g in nodes[self.width :]:
            operands = [self.reads[g, x] for x in range(g)]
            for three in combinations(operands, 3):
                add([-v for v in three])
            # At least two: any set that leaves out one of them still has one.
            for left_out in operands:
                add([v for v in operands if v != left_out])
            for p, q in combinations(range(len(self.targets)), 2):
                add([-self.is_row[p, g], -self.is_row[q, g]])
            # Every gate is a row or is read.
            readers = [self.reads[h, g] for h in nodes[g + 1 :]]
            add(readers + [self.is_row[t, g] for t in range(len(self.targets))])
            # Neighbours that do not depend on one another stand in one order only.
            if g + 1 < len(nodes):
                for x in range(g):
                    higher = [self.reads[g + 1, y] for y in range(x, g + 1)]
                    add([-self.reads[g, x], *higher])
        for t in range(len(self.targets)):
            places = [self.is_row[t, g] for g in nodes[self.width :]]
            add(places)
            for p, q in combinations(places, 2):
                add([-p, -q])

    def propose(self) -> Shape | None:
        """(operands of every gate, gate of every target), or None when no shape is left."""
        if not self.solver.solve():
            return None
        true = {v for v in self.solver.get_model() if v > 0}
        operands: dict[int, list[int]] = {}
        for (g, x), variable in self.reads.items():
            if variable in true:
                operands.setdefault(g, []).append(x)
        place = {t: g for (t, g), variable in self.is_row.items() if variable in true}
        return operands, place

    # ---- cuts ------------------------------------------------------------------------------------

    def refute_by_cuts(self, shape: Shape) -> bool:
        """Learn all too small cuts of a shape; whether there was one."""
        operands, place = shape
        refuted = False
        for size in range(1, min(_SUBSETS, len(self.targets)) + 1):
            for rows in combinations(range(len(self.targets)), size):
                for many in range(1, min(_SUBSETS, self.width) + 1):
                    for columns in combinations(range(self.width), many):
                        refuted |= self._check_cut(operands, place, rows, columns)
            if refuted:
                return True
        return False

    def _check_cut(
        self,
        operands: dict[int, list[int]],
        place: dict[int, int],
        rows: tuple[int, ...],
        columns: tuple[int, ...],
    ) -> bool:
        rank = self._rank(rows, columns)
        parted = _smallest_cut(operands, columns, {place[t] for t in rows}, rank)
        if parted is None:
            return False
        before, cut = parted
        behind = set(range(self.width + self.gates)) - before - cut
        # Another shape gets past the same nodes only by reading across the cut, or by computing
        # one of the rows in front of it.
        clause = [self.reads[g, x] for g in behind if g >= self.width for x in before if x < g]
        clause += [self.is_row[t, g] for t in rows for g in before if g >= self.width]
        self.solver.add_clause(clause)
        return True

    def _rank(self, rows: tuple[int, ...], columns: tuple[int, ...]) -> int:
        if (rows, columns) not in self.ranks:
            block = [[self.targets[t][j] for j in columns] for t in rows]
            self.ranks[rows, columns] = _rank(block)
        return self.ranks[rows, columns]

    # ---- constants -------------------------------------------------------------------------------

    def refute_by_algebra(self, shape: Shape) -> bool:
        """Learn that there are no constants for a shape; False when there may be some."""
        operands, place = shape
        needed = list(range(len(self.targets)))
        if self._has_constants(operands, place, needed):
            return False
        # Fewer rows are often contradictory already, which refutes more shapes.
        for t in list(needed):
            fewer = [other for other in needed if other != t]
            if fewer and not self._has_constants(operands, place, fewer):
                needed = fewer
        clause = [-self.is_row[t, place[t]] for t in needed]
        for g in _behind(operands, [place[t] for t in needed], self.width):
            clause += [-self.reads[g, x] for x in operands[g]]
        self.solver.add_clause(clause)
        return True

    def _has_constants(
        self, operands: dict[int, list[int]], place: dict[int, int], rows: Sequence[int]
    ) -> bool:
        """False when no constants make ``rows`` right, True when some may."""
        import sympy

        points_of = {place[t]: self.targets[t] for t in rows}
        points = {
            j: [sympy.Integer(int(k == j)) for k in range(self.width)] for j in range(self.width)
        }
        unknowns, equations = [], []
        lines: list[tuple[Any, Any]] = []
        for g in sorted(_behind(operands, list(points_of), self.width)):
            x, y = (points[node] for node in operands[g])
            if g in points_of:
                points[g] = [sympy.Integer(c) for c in points_of[g]]
                lines.append((x, y))
                for columns in combinations(range(self.width), 3):
                    block = sympy.Matrix([[p[j] for j in columns] for p in (x, y, points[g])])
                    equations.append(sympy.expand(block.det(method="berkowitz")))
            else:
                unknown = sympy.Symbol(f"c{g}")
                unknowns.append(unknown)
                points[g] = [sympy.expand(p + unknown * q) for p, q in zip(x, y)]
        equations = [equation for equation in equations if equation != 0]
        if any(equation.is_number for equation in equations):
            return False
        # Constants are not zero, or there would be a gate less.
        return self._solvable(
            equations, [sympy.prod(unknowns)] if unknowns else [], unknowns, lines
        )

    def _solvable(
        self,
        equations: list[Any],
        nonzero: list[Any],
        unknowns: list[Any],
        lines: list[tuple[Any, Any]],
    ) -> bool:
        """Whether equations with some expressions other than zero have a complex solution.

        ``lines``: pairs of points that have to be different, or a gate would draw no line.
        """
        import sympy

        if nonzero:
            inverse = sympy.Symbol("z")
            system = [*equations, inverse * sympy.prod(nonzero) - 1]
            basis = sympy.groebner(system, inverse, *unknowns, order="grevlex")
            if basis.exprs == [sympy.Integer(1)]:
                return False
        if not lines:
            return True
        (x, y), *others = lines
        for i, j in combinations(range(self.width), 2):
            minor = sympy.expand(x[i] * y[j] - x[j] * y[i])
            if minor.is_number and minor != 0:
                return self._solvable(equations, nonzero, unknowns, others)
        for i, j in combinations(range(self.width), 2):
            minor = sympy.expand(x[i] * y[j] - x[j] * y[i])
            if minor != 0 and self._solvable(equations, [*nonzero, minor], unknowns, others):
                return True
        return False


def _behind(operands: dict[int, list[int]], gates: Iterable[int], width: int) -> set[int]:
    """The gates that ``gates`` depend on, themselves included."""
    needed: set[int] = set()
    pending = list(gates)
    while pending:
        g = pending.pop()
        if g >= width and g not in needed:
            needed.add(g)
            pending += operands[g]
    return needed


def _rank(block: Sequence[Sequence[Any]]) -> int:
    rows = [[Fraction(c) for c in row] for row in block]
    rank = 0
    for j in range(len(rows[0])):
        pivot = next((i for i in range(rank, len(rows)) if rows[i][j] != 0), None)
        if pivot is None:
            continue
        rows[rank], rows[pivot] = rows[pivot], rows[rank]
        for i in range(rank + 1, len(rows)):
            factor = rows[i][j] / rows[rank][j]
            rows[i] = [c - factor * d for c, d in zip(rows[i], rows[rank])]
        rank += 1
    return rank


def _smallest_cut(
    operands: dict[int, list[int]], sources: Sequence[int], sinks: set[int], paths: int
) -> tuple[set[int], set[int]] | None:
    """(nodes before, nodes of the cut) of fewer than ``paths`` nodes that part sinks from sources.

    None when there are ``paths`` node-disjoint paths. Sources and sinks may be in the cut.
    """
    # Every node is an edge (in -> out) of capacity one; augment along the residual graph.
    into, out = 0, 1
    forward: dict[int, list[int]] = {}
    for g, pair in operands.items():
        for x in pair:
            forward.setdefault(x, []).append(g)
    flow: set[tuple[State, State]] = set()  # edges ((node, side), (node, side)) that carry flow
    started: set[int] = set()
    ended: set[int] = set()
    for _ in range(paths):
        parent: dict[State, State | None] = {(s, into): None for s in sources if s not in started}
        queue = list(parent)
        end: State | None = None
        for state in queue:
            node, side = state
            if side == into:
                steps = [] if (state, (node, out)) in flow else [(node, out)]
                steps += [p for p, q in flow if q == state]
            else:
                if node in sinks and node not in ended:
                    end = state
                    break
                steps = [(g, into) for g in forward.get(node, ())]
                steps += [p for p, q in flow if q == state]
            for step in steps:
                if step not in parent:
                    parent[step] = state
                    queue.append(step)
        if end is None:
            before = {node for node, side in parent if side == out}
            cut = {node for node, side in parent if side == into} - before
            cut |= {s for s in sources if s not in before}
            return before, cut
        ended.add(end[0])
        state = end
        while (last := parent[state]) is not None:
            if (state, last) in flow:
                flow.discard((state, last))
            else:
                flow.add((last, state))
            state = last
        started.add(state[0])
    return None
