"""One algorithm that a search looks at, in exact text: what is written to disk and sent around."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from winogen.algebra import BilinearAlgorithm

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from winogen.spelling import WITHIN

_FIELDS = ("points", "moduli", "input", "output")


@dataclass(frozen=True)
class Candidate:
    """F(m, r) by points or by moduli, and how its rows are scaled, if they are.

    >>> Candidate(2, 3, points=("0", "1", "-1", "inf")).algorithm.verify()
    True
    """

    m: int
    r: int
    points: tuple[str, ...] | None = None
    moduli: tuple[str, ...] | None = None
    input: tuple[str, ...] | None = None  # factors of the rows of B^T; G takes what is missing
    output: tuple[str, ...] | None = None  # factors of the columns of A^T

    @cached_property
    def algorithm(self) -> BilinearAlgorithm:
        """The exact ``BilinearAlgorithm``."""
        from winogen.algebra import cook_toom, winograd

        if self.moduli is None:
            algorithm = cook_toom(self.m, self.r, self.points)
        else:
            algorithm = winograd(self.m, self.r, self.moduli)
        if self.output is None:
            return algorithm
        return algorithm.scale(input=self.input, output=self.output)

    @property
    def multiplications(self) -> int:
        """Products of one tile in one dimension."""
        return self.algorithm.products

    def to_dict(self) -> dict:
        """Plain data; the inverse of `from_dict`."""
        data: dict = {"m": self.m, "r": self.r}
        for name in _FIELDS:
            if getattr(self, name) is not None:
                data[name] = list(getattr(self, name))
        return data

    @classmethod
    def from_dict(cls, data: dict) -> Candidate:
        """Read what `to_dict` wrote."""
        lists = {k: tuple(data[k]) for k in _FIELDS if k in data}
        return cls(data["m"], data["r"], **lists)

    def __str__(self) -> str:
        """Points with opposite ones as ±a.

        >>> str(Candidate(4, 3, points=("0", "5/8", "-5/8", "3/2", "-3/2", "inf")))
        '0, ±5/8, ±3/2, inf'
        """
        lists: list[list[str]] = [[]]
        for value in self.points or self.moduli or ():
            if value == WITHIN:
                lists.append([])
            else:
                lists[-1].append(value)
        return "; ".join(", ".join(_signs_joined(values)) for values in lists)


def _signs_joined(values: list[str]) -> list[str]:
    texts = []
    for value in values:
        opposite = value[1:] if value.startswith("-") else f"-{value}"
        if value.startswith("-") and opposite in values:
            continue
        texts.append(f"±{value}" if opposite in values else value)
    return texts


def root_text(square: Fraction) -> str:
    """sqrt(square) as exact text, rational where it is.

    >>> root_text(Fraction(9, 4)), root_text(Fraction(1, 2)), root_text(Fraction(8))
    ('3/2', 'sqrt(2)/2', '2*sqrt(2)')
    """
    # sqrt(p/q) = sqrt(p q) / q, with the square factors of p q taken out.
    inside, outside = square.numerator * square.denominator, Fraction(1, square.denominator)
    factor = 2
    while factor * factor <= inside:
        while inside % (factor * factor) == 0:
            inside //= factor * factor
            outside *= factor
        factor += 1
    if inside == 1:
        return str(outside)
    times = f"{outside.numerator}*" if outside.numerator != 1 else ""
    over = f"/{outside.denominator}" if outside.denominator != 1 else ""
    return f"{times}sqrt({inside}){over}"
