"""What a search runs over: kinds of points (slots), how many of each, and the values they may have.

A structure is a list of slots, with or without the points 0 and infinity, whose degrees add up to
n = m + r - 1. Filling its slots with values from their grids gives a candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import gcd
from typing import Any

import numpy as np

from winogen.algebra.points import INFINITY
from winogen.errors import InvalidValue
from winogen.numerics.search.batch import CandidateBatch
from winogen.numerics.search.candidate import Candidate, root_text


@dataclass(frozen=True)
class Slot:
    """A group of points (or one modulus) that one value describes."""

    name: str
    degree: int  # how many of the n inputs it accounts for
    grid: Callable[[int], tuple]  # largest numerator or denominator -> the values
    texts: Callable  # value -> its points, or for a modulus the polynomial
    linear: Callable | None  # value -> its points as floats; None for a modulus


_ALL_FREE = 6  # more points than this are not moved one by one: pairs lose little and search faster


def _size(value: Any) -> float:
    return float(value[1] if isinstance(value, tuple) else value)


@lru_cache(maxsize=32)
def _positive(height: int) -> tuple:
    """Fractions p/q with p, q <= height, at most 16 times larger or smaller than 1."""
    values = {
        Fraction(p, q)
        for p in range(1, height + 1)
        for q in range(1, height + 1)
        if gcd(p, q) == 1 and 1 / 16 <= p / q <= 16
    }
    return tuple(sorted(values))


def _free(height: int) -> tuple:
    positive = _positive(height)
    return (*(-a for a in reversed(positive)), *positive)


def _quadratic(height: int) -> tuple:
    """(b, c) of x^2 + b x + c without real roots; small b, which bring the short transforms."""
    small = min(height, 4)
    middles = [Fraction(0), *(s * b for b in _positive(2) for s in (1, -1))]
    return tuple(
        (b, c)
        for b in middles
        for c in (_positive(height) if b == 0 else _positive(small))
        if b * b < 4 * c
    )


def _modulus(value: Any) -> str:
    b, c = value
    if b == 0:
        return f"x^2+{c}"
    sign = "-" if b < 0 else "+"
    times = "" if abs(b) == 1 else f"{abs(b)}*"
    return f"x^2{sign}{times}x+{c}"


SLOTS = {
    slot.name: slot
    for slot in (
        Slot("free", 1, _free, lambda a: (str(a),), lambda a: (a,)),
        Slot("pair", 2, _positive, lambda a: (str(a), str(-a)), lambda a: (a, -a)),
        Slot(
            "reciprocal",
            4,
            lambda height: tuple(a for a in _positive(height) if a < 1),
            lambda a: (str(a), str(-a), str(1 / a), str(-1 / a)),
            lambda a: (a, -a, 1 / a, -1 / a),
        ),
        # Points ±sqrt(q): irrational, but their even powers are not.
        Slot(
            "root",
            2,
            _positive,
            lambda q: (root_text(q), f"-{root_text(q)}"),
            lambda q: (float(q) ** 0.5, -(float(q) ** 0.5)),
        ),
        Slot("quadratic", 2, _quadratic, lambda bc: (_modulus(bc),), None),
    )
}


@dataclass(frozen=True)
class Structure:
    """Slots of a candidate, grouped by kind, and whether 0 and infinity are among its points."""

    zero: bool
    infinity: bool
    slots: tuple[str, ...]

    @property
    def degree(self) -> int:
        """The n that it makes."""
        return self.zero + self.infinity + sum(SLOTS[name].degree for name in self.slots)

    def grids(self, height: int) -> list[tuple]:
        """The values of every slot."""
        return [SLOTS[name].grid(height) for name in self.slots]

    def batch(self, values: list[tuple]) -> CandidateBatch:
        """Candidates, one per tuple of values, for ``matrices``."""
        linear, quadratic = [], []
        for one in values:
            points = [0.0] if self.zero else []
            moduli = []
            for name, value in zip(self.slots, one):
                points_of = SLOTS[name].linear
                if points_of is None:
                    moduli.append([float(v) for v in value])
                else:
                    points += map(float, points_of(value))
            linear.append(points)
            quadratic.append(moduli)
        count = len(values)
        return CandidateBatch(
            np.array(linear).reshape(count, -1),
            np.array(quadratic, float).reshape(count, -1, 2),
            self.infinity,
        )

    def canonical(self, values: tuple) -> tuple | None:
        """Values in one fixed order; None if two points coincide."""
        ordered: list = []
        for name in dict.fromkeys(self.slots):
            group = [v for slot, v in zip(self.slots, values) if slot == name]
            ordered += sorted(group, key=lambda v: (_size(v), str(v)))
        texts = self._texts(ordered)
        return tuple(ordered) if len(set(texts)) == len(texts) else None

    def candidate(self, m: int, r: int, values: tuple) -> Candidate:
        """The candidate of F(m, r) with these values, exact."""
        texts = self._texts(values)
        if all(SLOTS[name].linear for name in self.slots):
            return Candidate(m, r, points=tuple(texts))
        moduli = []
        for text in texts:
            if text == INFINITY or "x" in text:
                moduli.append(text)
            elif text == "0":
                moduli.append("x")
            else:
                moduli.append(f"x+{text[1:]}" if text.startswith("-") else f"x-{text}")
        return Candidate(m, r, moduli=tuple(moduli))

    def _texts(self, values: Sequence) -> list[str]:
        texts = ["0"] if self.zero else []
        for name, value in zip(self.slots, values):
            texts += SLOTS[name].texts(value)
        return [*texts, INFINITY] if self.infinity else texts

    def __str__(self) -> str:
        names = list(dict.fromkeys(self.slots))
        parts = [f"{self.slots.count(name)} {name}" for name in names]
        ends = [text for text, here in (("0", self.zero), ("inf", self.infinity)) if here]
        return " + ".join([*parts, *ends])


def _pairs(rest: int) -> list[tuple]:
    return [("pair",) * (rest // 2)] if rest % 2 == 0 else []


def _reciprocals(rest: int) -> list[tuple]:
    if rest % 2 or rest < 4:
        return []
    return [("reciprocal",) * (rest // 4) + ("pair",) * (rest % 4 // 2)]


def _some_free(rest: int) -> list[tuple]:
    patterns = []
    for free in (1, 2, rest) if rest <= _ALL_FREE else (1, 2):
        slots = ("pair",) * ((rest - free) // 2) + ("free",) * free
        if 0 < free <= rest and (rest - free) % 2 == 0 and slots not in patterns:
            patterns.append(slots)
    return patterns


def _roots(rest: int) -> list[tuple]:
    return [("root",) * (rest // 2)] if rest and rest % 2 == 0 else []


def _quadratics(rest: int, counts: tuple[int, ...]) -> list[tuple]:
    patterns = []
    for moduli in counts:
        left = rest - 2 * moduli
        if left >= 0:
            free = left % 2
            patterns.append(("pair",) * (left // 2) + ("free",) * free + ("quadratic",) * moduli)
    return patterns


FAMILIES = {
    "pairs": _pairs,
    "reciprocal": _reciprocals,
    "free": _some_free,
    "algebraic": _roots,
    "quadratic": lambda rest: _quadratics(rest, (1,)),
    "quadratics": lambda rest: _quadratics(rest, (2, 3)),
}


def structures(
    m: int,
    r: int,
    families: tuple[str, ...] = ("pairs",),
    zero: bool | None = None,
    infinity: bool | None = None,
) -> list[Structure]:
    """Return the structures of F(m, r) in the given families.

    ``zero``, ``infinity``: whether these points belong to it; None tries both. Raises InvalidValue
    for unknown families, and when nothing fits n = m + r - 1.

    >>> [str(s) for s in structures(3, 3)]
    ['2 pair + inf', '2 pair + 0']
    """
    results = []
    for family in families:
        if family not in FAMILIES:
            names = ", ".join((*FAMILIES, "iterated", "circle", "fourier"))
            raise InvalidValue(f"families: got {family!r}; allowed: {names}")
        for has_zero in (False, True) if zero is None else (zero,):
            for has_infinity in (True, False) if infinity is None else (infinity,):
                rest = m + r - 1 - has_zero - has_infinity
                if rest < 0:
                    continue
                for slots in FAMILIES[family](rest):
                    structure = Structure(has_zero, has_infinity, slots)
                    if structure not in results:
                        results.append(structure)
    if not results:
        raise InvalidValue(
            f"families: got {', '.join(families)} with zero {zero} and infinity {infinity}; "
            f"allowed: what can make n = m + r - 1 = {m + r - 1}"
        )
    return results
