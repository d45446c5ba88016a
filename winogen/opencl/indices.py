"""Indices as sums of products: divided exactly where bounds say what a quotient is.

Layout operations join, split and cut axes, so that an address is full of quotients and rests. Most
of them vanish, because an id is known to be below the length of its axis:

>>> i, j = Name("i"), Name("j")
>>> both = Bounds({i: 4, j: 5})
>>> quotient(i * 5 + j, 5, both), remainder(i * 5 + j, 5, both)
(Name(name='i', real=False, lanes=1), Name(name='j', real=False, lanes=1))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import gcd

from winogen.codegen.devices.expressions import (
    Binary,
    Expr,
    FunctionCall,
    Name,
    Number,
    Select,
    binary,
    expr,
)

Terms = dict[Expr, int]  # atom -> how often it counts


class Bounds(dict[Expr, int]):
    """What names and ids of integers stay below; they are at least 0."""

    def most(self, value: Expr) -> int | None:
        """Return the largest value of an expression that is not negative; None if that is open."""
        if value in self:
            return self[value] - 1
        match value:
            case Number(value=int(known)):
                return known
            case Binary("+", left, right) | Binary("*", left, right):
                a, b = self.most(left), self.most(right)
                if a is None or b is None:
                    return None
                return a + b if value.op == "+" else a * b
            case Binary("%", left, Number(value=int(divisor))):
                most = self.most(left)
                return divisor - 1 if most is None else min(most, divisor - 1)
            case Binary("//", left, Number(value=int(divisor))):
                most = self.most(left)
                return None if most is None else most // divisor
        return None


def terms_of(value: Expr) -> tuple[Terms, int]:
    """Return an integer as a sum: of atoms, each so many times, and of a known number."""
    match value:
        case Number(value=int(known)):
            return {}, known
        case Binary("+" | "-", left, right):
            terms, constant = terms_of(left)
            others, other = terms_of(right)
            sign = 1 if value.op == "+" else -1
            summed = dict(terms)
            for atom, count in others.items():
                summed[atom] = summed.get(atom, 0) + sign * count
            return {a: n for a, n in summed.items() if n}, constant + sign * other
        case Binary("*", left, Number(value=int(factor))):
            return _times(left, factor)
        case Binary("*", Number(value=int(factor)), right):
            return _times(right, factor)
    return {value: 1}, 0


def _times(value: Expr, factor: int) -> tuple[Terms, int]:
    terms, constant = terms_of(value)
    return {atom: count * factor for atom, count in terms.items()}, constant * factor


def sum_of(terms: Terms, constant: int = 0) -> Expr:
    """Return the expression of a sum; what is added comes before what is taken away."""
    result = expr(0)
    for atom, count in sorted(terms.items(), key=lambda term: term[1] < 0):
        result = result + atom * count if count > 0 else result - atom * -count
    return result + constant if constant >= 0 else result - -constant


def simplified(value: Expr) -> Expr:
    """Return the same integer with equal atoms joined."""
    return sum_of(*terms_of(value))


def quotient(value: Expr, divisor: int, bounds: Bounds) -> Expr:
    """Return value // divisor, of a value that is not negative."""
    return _divided(value, divisor, bounds)[0]


def remainder(value: Expr, divisor: int, bounds: Bounds) -> Expr:
    """Return value % divisor, of a value that is not negative."""
    return _divided(value, divisor, bounds)[1]


def _divided(value: Expr, divisor: int, bounds: Bounds) -> tuple[Expr, Expr]:
    terms, constant = terms_of(value)
    whole = {atom: n // divisor for atom, n in terms.items() if n % divisor == 0}
    rest = {atom: n for atom, n in terms.items() if n % divisor}
    left = constant % divisor
    above = sum_of(whole, constant // divisor)
    most = _most(rest, left, bounds)
    if most is None:
        # A rest below zero leaves the value's own quotient.
        return value // divisor, value % divisor
    if most < divisor:
        return above, sum_of(rest, left)
    for count in sorted(set(rest.values()), reverse=True):
        step = gcd(count, divisor)
        coarse = {atom: n // step for atom, n in rest.items() if n % step == 0}
        fine = {atom: n for atom, n in rest.items() if n % step}
        low = left % step
        finest = _most(fine, low, bounds)
        if step > 1 and finest is not None and finest < step:
            q, r = _divided(sum_of(coarse, left // step), divisor // step, bounds)
            return above + q, simplified(r * step + sum_of(fine, low))
    remains = sum_of(rest, left)
    return above + remains // divisor, remains % divisor


def _most(terms: Terms, constant: int, bounds: Bounds) -> int | None:
    """The largest value of a sum of which nothing is negative; None if that is open."""
    total = constant
    for atom, count in terms.items():
        most = bounds.most(atom)
        if most is None or count < 0:
            return None
        total += count * most
    return total


def divides(divisor: int, value: Expr) -> bool:
    """Whether an integer is certainly a multiple of another."""
    terms, constant = terms_of(value)
    return not any(n % divisor for n in (*terms.values(), constant))


def names_in(value: Expr) -> frozenset[str]:
    """Return the names that an expression has."""
    match value:
        case Name(name=name):
            return frozenset((name,))
        case Binary(left=left, right=right):
            return names_in(left) | names_in(right)
        case FunctionCall(arguments=arguments):
            return frozenset().union(*map(names_in, arguments))
        case Select(condition=condition, yes=yes, no=no):
            return names_in(condition) | names_in(yes) | names_in(no)
    return frozenset()


def function_of(value: Expr) -> Callable[[Mapping[str, int]], int]:
    """Return what computes an integer from the values of its names.

    >>> function_of(Name("i") * 2 + 1)({"i": 4})
    9
    """
    return eval(f"lambda names: {_python(value)}", {})


def _python(value: Expr) -> str:
    """An integer as an expression of Python."""
    match value:
        case Number(value=int(known)):
            return f"({known})"
        case Name(name=name):
            return f"names[{name!r}]"
        case Binary(op=op, left=left, right=right):
            joined = f"({_python(left)} {_WORDS.get(op, op)} {_python(right)})"
            return f"int({joined})" if op in _CONDITIONS else joined
        case FunctionCall(function=function, arguments=arguments) if function in ("min", "max"):
            return f"{function}({', '.join(map(_python, arguments))})"
        case Select(condition=condition, yes=yes, no=no):
            return f"({_python(yes)} if {_python(condition)} else {_python(no)})"
    raise TypeError(f"no integer of names: {value}")


_WORDS = {"&&": "and", "||": "or"}
_CONDITIONS = ("<", "<=", ">", ">=", "==", "&&", "||")


def equal(left: Expr | int, right: Expr | int) -> Expr:
    """Return the condition that two integers are the same."""
    return binary("==", left, right)
