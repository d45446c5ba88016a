"""What kernels of devices compute with: expressions, with Python's operators.

Numbers are integers (indices, 32 bits) or reals: float or half, as the kernel says; reals may be
vectors of 2, 4, 8 or 16 lanes. Integer operations on known numbers are carried out at once, so that
an index that doesn't change is a number in the text.

>>> i = Name("i")
>>> (i * 1 + 0) * 4 + 3
Binary(op='+', left=Binary(op='*', left=Name(name='i', real=False, lanes=1), \
right=Number(value=4)), right=Number(value=3))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal


class Expr:
    """An expression: an integer or a real, with so many lanes."""

    real: bool
    lanes: int

    def __add__(self, other: Any) -> Expr:
        return binary("+", self, other)

    def __radd__(self, other: Any) -> Expr:
        return binary("+", other, self)

    def __sub__(self, other: Any) -> Expr:
        return binary("-", self, other)

    def __rsub__(self, other: Any) -> Expr:
        return binary("-", other, self)

    def __mul__(self, other: Any) -> Expr:
        return binary("*", self, other)

    def __rmul__(self, other: Any) -> Expr:
        return binary("*", other, self)

    def __truediv__(self, other: Any) -> Expr:
        """The quotient of reals."""
        return binary("/", self, other)

    def __rtruediv__(self, other: Any) -> Expr:
        return binary("/", other, self)

    def __floordiv__(self, other: Any) -> Expr:
        """The quotient of integers that are not negative."""
        return binary("//", self, other)

    def __mod__(self, other: Any) -> Expr:
        """The rest of integers that are not negative."""
        return binary("%", self, other)

    def __neg__(self) -> Expr:
        """The negative: of reals the sign changes, so that 0 becomes -0."""
        return binary("-", 0, self)

    def __lt__(self, other: Any) -> Expr:
        return binary("<", self, other)

    def __le__(self, other: Any) -> Expr:
        return binary("<=", self, other)

    def __gt__(self, other: Any) -> Expr:
        return binary(">", self, other)

    def __ge__(self, other: Any) -> Expr:
        return binary(">=", self, other)

    def __and__(self, other: Any) -> Expr:
        """Whether both conditions hold."""
        return binary("&&", self, other)

    def __or__(self, other: Any) -> Expr:
        """Whether one of the conditions holds."""
        return binary("||", self, other)


@dataclass(frozen=True)
class Number(Expr):
    """A known number, an integer or a real."""

    value: int | float
    lanes: ClassVar[int] = 1  # type: ignore[misc]

    @property
    def real(self) -> bool:  # type: ignore[override]
        return isinstance(self.value, float)


@dataclass(frozen=True)
class Name(Expr):
    """A variable."""

    name: str
    real: bool = False
    lanes: int = 1


@dataclass(frozen=True)
class Id(Expr):
    """Which work-group or work-item this is along an axis (0, 1 or 2)."""

    of: Literal["group", "local", "global"]
    axis: int
    real: ClassVar[bool] = False  # type: ignore[misc]
    lanes: ClassVar[int] = 1  # type: ignore[misc]


@dataclass(frozen=True)
class Binary(Expr):
    """An operation on two; conditions count as integers."""

    op: str  # + - * / // % < <= > >= == && ||
    left: Expr
    right: Expr

    @property
    def real(self) -> bool:  # type: ignore[override]
        return self.op in "+-*/" and (self.left.real or self.right.real)

    @property
    def lanes(self) -> int:  # type: ignore[override]
        return max(self.left.lanes, self.right.lanes)


@dataclass(frozen=True)
class FunctionCall(Expr):
    """A function of reals: fma, min, max, exp, expm1, log1p, tanh, erfc; of integers: min, max."""

    function: str
    arguments: tuple[Expr, ...]

    @property
    def real(self) -> bool:  # type: ignore[override]
        return any(one.real for one in self.arguments)

    @property
    def lanes(self) -> int:  # type: ignore[override]
        return max(one.lanes for one in self.arguments)


@dataclass(frozen=True)
class Select(Expr):
    """One of two, by a condition: lane by lane where that is of vectors."""

    condition: Expr
    yes: Expr
    no: Expr

    @property
    def real(self) -> bool:  # type: ignore[override]
        return self.yes.real or self.no.real

    @property
    def lanes(self) -> int:  # type: ignore[override]
        return max(self.condition.lanes, self.yes.lanes, self.no.lanes)


@dataclass(frozen=True)
class Load(Expr):
    """Numbers of a parameter or of a work-group's array, from an index on, which counts single
    numbers. They become reals of the kernel's arithmetic. ``aligned``: the index is a multiple of
    the lanes.
    """

    array: str
    index: Expr
    lanes: int = 1
    aligned: bool = False
    real: bool = True


@dataclass(frozen=True)
class Element(Expr):
    """An element of an array of the work-item's own, see `statements.Declare`."""

    array: str
    indices: tuple[Expr, ...]
    real: bool = True
    lanes: int = 1


@dataclass(frozen=True)
class Lane(Expr):
    """One lane of a vector, a known one."""

    vector: Expr
    lane: int
    lanes: ClassVar[int] = 1  # type: ignore[misc]
    real: ClassVar[bool] = True  # type: ignore[misc]


@dataclass(frozen=True)
class Splat(Expr):
    """A vector whose lanes are all the same."""

    value: Expr
    lanes: int
    real: ClassVar[bool] = True  # type: ignore[misc]


@dataclass(frozen=True)
class Vector(Expr):
    """A vector of single numbers."""

    parts: tuple[Expr, ...]
    real: ClassVar[bool] = True  # type: ignore[misc]

    @property
    def lanes(self) -> int:  # type: ignore[override]
        return len(self.parts)


def expr(value: Any) -> Expr:
    """Return an expression: numbers become known ones."""
    return value if isinstance(value, Expr) else Number(value)


def splat(value: Any, lanes: int) -> Expr:
    """Return a real in so many lanes: a vector as it is, and a number in all of them.

    >>> splat(0, 4), splat(0, 1)
    (Splat(value=Number(value=0.0), lanes=4), Number(value=0.0))
    """
    one = expr(value)
    if isinstance(one, Number):
        one = Number(float(one.value))
    return Splat(one, lanes) if one.lanes < lanes else one


def is_condition(value: Expr) -> bool:
    """Whether an expression is a condition: a comparison, or several joined."""
    return isinstance(value, Binary) and value.op in _CONDITIONS


def total(terms: Sequence[Any]) -> Expr:
    """Return the sum of some."""
    result = expr(0)
    for term in terms:
        result = result + term
    return result


_CONDITIONS = frozenset(("<", "<=", ">", ">=", "==", "&&", "||"))

_OF_INTEGERS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b),
    ">": lambda a, b: int(a > b),
    ">=": lambda a, b: int(a >= b),
    "==": lambda a, b: int(a == b),
    "&&": lambda a, b: int(bool(a) and bool(b)),
    "||": lambda a, b: int(bool(a) or bool(b)),
}


def binary(op: str, left: Any, right: Any) -> Expr:
    """Return an operation on two, simplified where that changes no result."""
    left, right = expr(left), expr(right)
    if left.real or right.real:
        return Binary(op, left, right)
    a = left.value if isinstance(left, Number) else None
    b = right.value if isinstance(right, Number) else None
    if a is not None and b is not None:
        return Number(_OF_INTEGERS[op](a, b))
    zero, one = Number(0), Number(1)
    match op:
        case "+" if a == 0:
            return right
        case "+" | "-" if b == 0:
            return left
        case "*" if a == 0 or b == 0:
            return zero
        case "*" if a == 1:
            return right
        case "*" | "//" if b == 1:
            return left
        case "//" | "%" if a == 0:
            return zero
        case "%" if b == 1:
            return zero
        case "&&" if a == 0 or b == 0:
            return zero
        case "&&" if a is not None:
            return right
        case "&&" if b is not None:
            return left
        case "||" if a or b:
            return one
        case "||" if a == 0:
            return right
        case "||" if b == 0:
            return left
    return Binary(op, left, right)
