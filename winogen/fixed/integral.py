"""F(m, r) whose three matrices are integers, and what its operands and sums need.

With integer rows b of B^T, g of G and columns a of A^T the algorithm computes ``scale * y``. Sums
of products and the output transform behind them may wrap around modulo 2^w, as long as w bits hold
the result: additions modulo 2^w lose nothing that the result still has. The scale is an odd number
times a power of two. The inverse of the odd number modulo 2^w divides exactly, so w bits have to
hold the result times the power of two only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import gcd, lcm
from typing import TYPE_CHECKING, Any

from winogen.errors import InvalidValue
from winogen.fixed.ranges import Range, forms, of_products
from winogen.program.kinds import KINDS

if TYPE_CHECKING:
    from winogen.algebra.bilinear import BilinearAlgorithm
    from winogen.program.ir import Program

WORDS = 16, 32  # bits of operands of products that devices have
SUMS = 32, 64  # bits of sums of products


@dataclass(frozen=True)
class Integral:
    """An algorithm of integers: A^T[(G g) * (B^T d)] = scale * y along one axis.

    ``algorithm`` is the verified original, the three ``matrices`` are integers. ``given``: programs
    of these, in their order, in place of the shortest ones; `winogen.fixed.adders` has some.
    """

    algorithm: BilinearAlgorithm
    bt: tuple[tuple[int, ...], ...]
    g: tuple[tuple[int, ...], ...]
    at: tuple[tuple[int, ...], ...]
    scale: int
    given: tuple[Program, ...] = ()

    @property
    def matrices(self) -> dict[str, tuple[tuple[int, ...], ...]]:
        """The matrix of every transform: {"input": B^T, "filter": G, "output": A^T}."""
        return {"input": self.bt, "filter": self.g, "output": self.at}

    def verify(self) -> bool:
        """Prove that the integers compute ``scale * y``: raises VerificationError if not."""
        at, g, bt = (
            tuple(tuple(Fraction(c, by) for c in row) for row in rows)
            for rows, by in ((self.at, self.scale), (self.g, 1), (self.bt, 1))
        )
        return replace(self.algorithm, at=at, g=g, bt=bt).verify()

    @cached_property
    def programs(self) -> dict[str, Program]:
        """Short programs of the matrices, every value an integer: {kind: Program}, proven."""
        if self.given:
            return dict(zip(KINDS, self.given))
        return {kind: _program(kind, rows) for kind, rows in self.matrices.items()}

    @cached_property
    def quick_programs(self) -> dict[str, Program]:
        """Programs that take less time to find and a few instructions more."""
        return {kind: _program(kind, rows, full=False) for kind, rows in self.matrices.items()}

    def operands(self, kind: str, inputs: Range, axes: int = 2) -> Range:
        """Return the range of a transformed tile ("input") or filter ("filter")."""
        rows = self.matrices[kind]
        return of_products(rows if axes == 2 else [(1,)], rows, inputs)

    def divisor(self, axes: int = 2) -> tuple[int, int]:
        """Return (odd, k): the scale of so many axes is odd * 2^k."""
        scale = self.scale**axes
        k = (scale & -scale).bit_length() - 1
        return scale >> k, k

    def spelled(self, axes: int = 2) -> str:
        """Return the scale of so many axes as a product, "9 * 2^6" or "2^4"."""
        odd, power = self.divisor(axes)
        return f"{odd} * 2^{power}" if odd > 1 else f"2^{power}"

    def channels(self, inputs: Range, filters: Range, bits: int = 32, axes: int = 2) -> int:
        """Return how many channels sums of so many bits hold, whatever the numbers are."""
        ends = [d * g for d in inputs for g in filters]
        taps = self.algorithm.r**axes << self.divisor(axes)[1]
        limits = [(1 << (bits - 1)) - 1 if end > 0 else 1 << (bits - 1) for end in ends]
        return min(limit // (abs(end) * taps) for end, limit in zip(ends, limits) if end)


def integral(algorithm: BilinearAlgorithm) -> Integral:
    """Return an algorithm with integer matrices, the smallest that its rows allow, proven.

    Raises InvalidValue for coefficients that are no fractions, as sqrt(2).

    >>> from winogen.algebra import cook_toom, winograd
    >>> integral(cook_toom(2, 3)).scale, integral(winograd(4, 3, "x, x-1, x+1, x^2+1, inf")).scale
    (2, 4)
    """
    for kind, matrix in algorithm.matrices.items():
        for value in (value for row in matrix for value in row):
            if not isinstance(value, Fraction):
                raise InvalidValue(
                    f"algorithm: got the coefficient {value} in {KINDS[kind].symbol}; allowed: "
                    "fractions, for integers have no others"
                )
    inputs = [_factor(row) for row in algorithm.bt]
    filters = [_factor(row) for row in algorithm.g]
    outputs = [1 / (b * g) for b, g in zip(inputs, filters)]
    scaled = algorithm.scale(inputs, filters, outputs)
    scale = lcm(*(c.denominator for row in scaled.at for c in row if isinstance(c, Fraction)))
    made = Integral(
        algorithm,
        _whole(scaled.bt),
        _whole(scaled.g),
        _whole([[c * scale for c in row] for row in scaled.at]),
        scale,
    )
    made.verify()
    return made


def _factor(row: Iterable[Any]) -> Fraction:
    """By what a row becomes integers without a common divisor, not all of them negative.

    Sums of negated values would cost a negation each. The sign moves on to the columns of A^T.
    """
    some = [c for c in row if c]
    sign = 1 if any(c > 0 for c in some) else -1
    return sign * Fraction(lcm(*(c.denominator for c in some)), gcd(*(c.numerator for c in some)))


def _whole(rows: Iterable[Iterable[Any]]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(map(int, row)) for row in rows)


def _program(kind: str, rows: tuple[tuple[int, ...], ...], full: bool = True) -> Program:
    """The shortest program known whose statements are all of integers; ``full``: search for it."""
    from winogen.program import simplify
    from winogen.program.summation import summation

    names: dict[str, Any] = {"inputs": KINDS[kind].source, "outputs": KINDS[kind].target}
    for make in (
        *([lambda: simplify(rows, **names)] if full else []),
        lambda: simplify(rows, strategies=("hierarchy",), **names),
        lambda: summation(rows, "naive", **names),
    ):
        program = make()
        try:
            forms(program)
        except InvalidValue:  # a constant that is a fraction saved an instruction
            continue
        program.verify(rows)
        return program
    raise AssertionError("sums of integers row by row are integers")
