"""The sub-expression hierarchy: sums that several equations share, found as intersections of sets.

Level 0 holds the sets of signed variables of all equations. Level k + 1 holds all intersections of
two sets of level k that have at least two elements; a set may be negated first, for a sum and its
negative are one sub-expression. When a level comes out empty, the sets of each level are written
with references to the sets of the next, largest first. See ``equations`` for the source.

    level 0   {a, b, c, d}   {a, b, c, -e}   {-a, -b, f}
    level 1   {a, b, c}   {a, b}
    level 2   {a, b}
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, TypeAlias, cast

from winogen.program.search.equations import matrix_equations
from winogen.program.search.network import ONE, Builder

if TYPE_CHECKING:
    from winogen.algebra.scalar import Matrix
    from winogen.program.search.equations import Equation
    from winogen.program.search.network import GateNetwork, Signal

Variables: TypeAlias = frozenset[tuple[str, int]]  # names and signs


def levels(sets: Iterable[Variables]) -> list[list[Variables]]:
    """The hierarchy of sets of ``(name, ±1)``: a list of levels, each a sorted list of sets.

    Each set stands for its negation, too; the one whose first variable is positive is listed.

    >>> abc, abd = (frozenset((name, 1) for name in names) for names in ("abc", "abd"))
    >>> [[sorted(name for name, _ in s) for s in level] for level in levels([abc, abd])]
    [[['a', 'b', 'c'], ['a', 'b', 'd']], [['a', 'b']]]
    """
    level = _sorted({_canonical(s) for s in sets if len(s) > 1})
    result = []
    while level:
        result.append(level)
        shared: set[Variables] = set()
        for p, q in combinations(level, 2):
            for other in (q, negated(q)):
                common = p & other
                if len(common) > 1:
                    shared.add(_canonical(common))
        level = _sorted(shared)
    return result


def references(
    variables: Variables, available: Iterable[Variables], single: bool = False
) -> tuple[Variables, list[tuple[Variables, int]]]:
    """Write a set by sets of the next level: ``(what is left over, [(set, ±1), ...])``.

    The largest set that is contained, or whose negation is, is taken first. ``single``: only that
    one.
    """
    remainder = variables
    used: list[tuple[Variables, int]] = []
    for candidate in available:
        if single and used:
            break
        for sign, form in ((1, candidate), (-1, negated(candidate))):
            if form <= remainder:
                remainder = remainder - form
                used.append((candidate, sign))
                break
    return remainder, used


def _written(
    tower: Sequence[Sequence[Variables]], variables: Variables, level: int, single: bool
) -> tuple[Variables, list[tuple[int, Variables, int]]]:
    """What is left over of a set of a level, and (level, set, ±1) of what it refers to."""
    rest, used = variables, []
    for below in range(level + 1, len(tower) if single else min(level + 2, len(tower))):
        rest, found = references(rest, tower[below], single)
        used += [(below, shared, sign) for shared, sign in found]
    return rest, used


def set_additions(equations: Sequence[Equation], single: bool = False) -> int:
    """Return the additions of equations and of the sets that they refer to, each set once.

    ``single``: by the tie rule of Keane's thesis, one set of each level at most; F(2x2, 3x3) has 27
    then, as section 6.9.3 prints, for 48 flat and 23 by all references. A network may have fewer,
    since sums that sets begin with alike are one gate.
    """
    tower = levels(group.variables for equation in equations for group in equation)
    count = sum(len(equation) - 1 for equation in equations if equation)
    seen: set[tuple[int, Variables]] = set()
    waiting = [(0, variables) for variables in (tower[0] if tower else ())]
    while waiting:
        level, variables = one = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        rest, used = _written(tower, variables, level, single)
        count += len(rest) + len(used) - 1
        waiting += [(below, shared) for below, shared, _ in used]
    return count


def negated(variables: Variables) -> Variables:
    """All signs inverted."""
    return frozenset((name, -sign) for name, sign in variables)


def _canonical(variables: Variables) -> Variables:
    first = min(variables)
    return variables if first[1] > 0 else negated(variables)


def _sorted(sets: Iterable[Variables]) -> list[Variables]:
    """Largest first; equal sizes in alphabetical order, so that results do not vary."""
    return sorted(sets, key=lambda s: (-len(s), sorted(s)))


def hierarchy_network(
    equations: Sequence[Equation], names: Sequence[str], single: bool = False
) -> GateNetwork:
    """The network that computes ``equations`` of the variables ``names`` with their hierarchy.

    ``single``: the tie rule of Keane's thesis, by which a set refers to one set at most of each
    level below it, and not to as many of the next one as it has, see `set_additions`.
    """
    tower = levels(group.variables for equation in equations for group in equation)
    build = Builder(len(names))
    place = {name: j for j, name in enumerate(names)}
    signals_of: dict[tuple[int, Variables], Signal] = {}  # of the sets of each level

    def signal(level: int, variables: Variables) -> Signal:
        """The sum of a set of this level."""
        if (level, variables) not in signals_of:
            signals_of[level, variables] = total(variables, level)
        return signals_of[level, variables]

    def total(variables: Variables, level: int) -> Signal:
        rest, used = _written(tower, variables, level, single)
        signals: list[Signal] = [(sign * ONE, place[name]) for name, sign in sorted(rest)]
        for below, shared, sign in used:
            constant, node = signal(below, shared)
            signals.append((sign * constant, node))
        return cast("Signal", build.chain(signals))  # different variables cannot cancel

    outputs = []
    for equation in equations:
        signals: list[Signal] = []
        for constant, variables in equation:
            canonical = _canonical(variables)
            if len(variables) == 1:
                ((name, sign),) = variables
                signals.append((sign * constant, place[name]))
            else:
                factor, node = signal(0, canonical)
                sign = 1 if canonical == variables else -1
                signals.append((sign * constant * factor, node))
        outputs.append(build.chain(signals))
    return build.network(outputs)


def hierarchy(matrix: Matrix) -> list[GateNetwork]:
    """The strategy for matrices: one network, by the hierarchy of its rows."""
    names = [f"x{j}" for j in range(len(matrix[0]))]
    return [hierarchy_network(matrix_equations(matrix, "x"), names)]
