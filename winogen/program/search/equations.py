"""Exact equations from matrices: products written out, then simplified by four rewrite rules.

``matrix_equations`` writes y = L x, ``nested_equations`` Y = L X R, entry by entry and with every
product by 0 or 1 still in it, as the definition of the matrix product gives it. The rules turn each
expression into the form that ``hierarchy`` works on: constants times sets of signed variables. The
method, rules (6.9.1) and hierarchy (6.9.2), comes from Keane's thesis. Mazaheri, Beringer,
Moskewicz, Wolf, Jannesari have written transforms by symbolic computation, too (EuroSys 2020).
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from winogen.program.ir import Rows, exact, magnitude

if TYPE_CHECKING:
    from winogen.algebra.scalar import Scalar

ONE = Fraction(1)

Expression: TypeAlias = "Variable | ProductExpression | SumExpression"
Equation: TypeAlias = "tuple[Group, ...]"
Summand: TypeAlias = "tuple[Scalar, str]"  # constant, name of a variable


class Variable(NamedTuple):
    """An input by name."""

    name: str


class ProductExpression(NamedTuple):
    """A constant times an expression; a negation is the constant -1."""

    constant: Scalar
    factor: Expression


class SumExpression(NamedTuple):
    """A sum of expressions; no terms at all is zero."""

    terms: tuple[Expression, ...]


class Group(NamedTuple):
    """``constant * sum of signed variables``; ``variables``: frozenset of ``(name, ±1)``.

    The constant is positive, signs live in the set. An equation is a tuple of groups with
    different constants.
    """

    constant: Scalar
    variables: frozenset[tuple[str, int]]


def matrix_equations(matrix: Rows, inputs: str = "x") -> list[Equation]:
    """One equation per row of ``matrix``, applied to x0, x1, ...

    >>> for group in matrix_equations([["1/2", "-1/2", 2]])[0]:
    ...     print(group.constant, sorted(group.variables))
    1/2 [('x0', 1), ('x1', -1)]
    2 [('x2', 1)]
    """
    names = [Variable(f"{inputs}{j}") for j in range(len(matrix[0]))]
    return [simplified(_dot(row, names)) for row in matrix]


def nested_equations(left: Rows, right: Rows, inputs: str = "x") -> list[Equation]:
    """Equations of Y = L X R, row by row; the entries of X are x00, x01, ... (x0_10 from ten on).

    ``right`` is R itself, so the filter transform G g G^T is ``nested_equations(G, transpose)``.
    """
    rows, columns = len(left[0]), len(right)
    wide = max(rows, columns) > 10
    x = [
        [Variable(f"{inputs}{i}_{j}" if wide else f"{inputs}{i}{j}") for j in range(columns)]
        for i in range(rows)
    ]
    result = []
    for row in left:
        half = [_dot(row, [x[i][j] for i in range(rows)]) for j in range(columns)]
        for k in range(len(right[0])):
            result.append(simplified(_dot([right[j][k] for j in range(columns)], half)))
    return result


def _dot(constants: Iterable[Any], expressions: Iterable[Expression]) -> SumExpression:
    return SumExpression(
        tuple(ProductExpression(exact(c), e) for c, e in zip(constants, expressions))
    )


def simplified(expression: Expression) -> Equation:
    """All four rules in their order; the groups of the equation, smallest constant first."""
    return group(combine(expand(drop_trivial(expression))))


def additions(equations: Iterable[Equation]) -> int:
    """Additions and subtractions to evaluate each equation on its own.

    >>> G = [[1, 0, 0], ["1/2", "1/2", "1/2"], ["1/2", "-1/2", "1/2"], [0, 0, 1]]
    >>> additions(nested_equations(G, list(zip(*G))))
    48
    """
    sizes = (sum(len(group.variables) for group in equation) for equation in equations)
    return sum(max(size - 1, 0) for size in sizes)


# ---- the four rules ------------------------------------------------------------------------------


def drop_trivial(expression: Expression) -> Expression:
    """Rule 1: products by 0 and 1 and double negations go.

    before: ``0*x + 1*y + -1*(-1*z)``    after: ``y + z``
    """
    if isinstance(expression, Variable):
        return expression
    if isinstance(expression, SumExpression):
        terms = [drop_trivial(term) for term in expression.terms]
        terms = [term for term in terms if term != SumExpression(())]
        return terms[0] if len(terms) == 1 else SumExpression(tuple(terms))
    factor = drop_trivial(expression.factor)
    if expression.constant == 0 or factor == SumExpression(()):
        return SumExpression(())
    if expression.constant == 1:
        return factor
    if (
        expression.constant == -1
        and isinstance(factor, ProductExpression)
        and factor.constant == -1
    ):
        return factor.factor
    return ProductExpression(expression.constant, factor)


def expand(expression: Expression) -> tuple[Summand, ...]:
    """Rule 2: products are distributed over sums; the terms ``(constant, variable)`` remain.

    before: ``2*(x - 3*y) + z``    after: ``2*x - 6*y + z``
    """
    if isinstance(expression, Variable):
        return ((ONE, expression.name),)
    if isinstance(expression, SumExpression):
        return tuple(term for part in expression.terms for term in expand(part))
    return tuple((expression.constant * c, name) for c, name in expand(expression.factor))


def combine(terms: Iterable[Summand]) -> tuple[Summand, ...]:
    """Rule 3: terms of the same variable become one.

    before: ``2*x + y - x``    after: ``x + y``
    """
    total: dict[str, Scalar] = {}
    for constant, name in terms:
        total[name] = total.get(name, Fraction(0)) + constant
    return tuple((constant, name) for name, constant in total.items() if constant != 0)


def group(terms: Iterable[Summand]) -> Equation:
    """Rule 4: terms whose constants agree up to sign share one multiplication.

    before: ``1/2*x - 1/2*y + 1/2*z``    after: ``1/2*(x - y + z)``
    """
    groups: dict[Scalar, set[tuple[str, int]]] = {}
    for constant, name in terms:
        sign = 1 if constant > 0 else -1
        groups.setdefault(magnitude(constant), set()).add((name, sign))
    ordered = sorted(groups.items(), key=lambda item: float(item[0]))
    return tuple(Group(constant, frozenset(variables)) for constant, variables in ordered)
