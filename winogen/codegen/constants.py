"""Numbers that generated C keeps: how each is spelled, and whole arrays of them."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, isnan

import numpy as np

from winogen.codegen.templates import wrapped


def spelled(number: float) -> str:
    """Return a float32 as C spells it, exactly.

    >>> spelled(0.1), spelled(-0.0), spelled(float("inf"))
    ('1.00000000e-01f', '-0.0f', '__builtin_inff()')
    """
    if not isfinite(number):
        return _not_finite(number, "f")
    return f"{number:.8e}f" if number else f"{number:.1f}f"


def spelled_double(number: float) -> str:
    """Return a float64 as C spells it, exactly.

    >>> spelled_double(1e-5), spelled_double(float("nan"))
    ('1e-05', '__builtin_nan("")')
    """
    return repr(number) if isfinite(number) else _not_finite(number, "")


def _not_finite(number: float, suffix: str) -> str:
    """By what gcc and clang know without a header."""
    if isnan(number):
        return f'__builtin_nan{suffix}("")'
    return f"{'-' if number < 0 else ''}__builtin_inf{suffix}()"


def spelled_int(number: int) -> str:
    """Return an integer of up to 32 bits as C spells it: its least one is no literal.

    >>> spelled_int(7), spelled_int(-(2**31))
    ('7', '-2147483647 - 1')
    """
    return str(number) if number > -(2**31) else f"{number + 1} - 1"


@dataclass(frozen=True)
class Constant:
    """An array that a file of C defines."""

    type: str  # of its numbers, in C
    name: str
    array: np.ndarray
    about: str

    @property
    def numbers(self) -> int:
        """How many there are."""
        return int(self.array.size)

    @property
    def rows(self) -> str:
        """Them in C."""
        spell = {"float": spelled, "double": spelled_double}.get(self.type, spelled_int)
        return wrapped(map(spell, self.array.reshape(-1).tolist()), 4, ", ", ",")
