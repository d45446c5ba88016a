"""Numbers that generated C keeps: how each is spelled, and whole arrays of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite, isnan
from typing import ClassVar

import numpy as np

from winogen.codegen.templates import wrapped

# Arrays of more numbers are written as strings of bytes: nobody reads them, and compilers take
# these ten to thirty times as fast, in a quarter of the memory.
MANY = 16384
_AT_ONCE = 4096  # rows that are spelled at a time


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

    row: ClassVar[int] = 64  # bytes of a string of them; more than 4,095 are not portable

    @property
    def numbers(self) -> int:
        """How many there are."""
        return int(self.array.size)

    @property
    def in_bytes(self) -> int:
        """Into how many strings of bytes they are written; 0 where they are written as numbers."""
        return -(-self.array.nbytes // self.row) if self.numbers > MANY else 0

    @property
    def rows(self) -> str:
        """Them in C."""
        return rows(self.type, self.array, bool(self.in_bytes))


def rows(type_: str, array: np.ndarray, in_bytes: bool) -> str:
    """Return an array as lines of C, numbers of this type or their bytes."""
    if in_bytes:
        return "\n".join(strings(array))
    spell = {"float": spelled, "double": spelled_double}.get(type_, spelled_int)
    return wrapped(map(spell, array.reshape(-1).tolist()), 4, ", ", ",")


def strings(array: np.ndarray) -> Iterator[str]:
    r"""Yield the bytes of an array as strings of C, `Constant.row` to a line, the least byte first.

    >>> print(*strings(np.array([0.1, 15.0, 3e5], "f4")))
        "\315\314\314=\0\0pA\0|\222H",
    """
    data = array.astype(array.dtype.newbyteorder("<")).tobytes()
    step = Constant.row * _AT_ONCE
    for begin in range(0, len(data), step):
        piece = np.frombuffer(data[begin : begin + step], np.uint8)
        whole = piece.size // Constant.row * Constant.row
        yield from _strings(piece[:whole].reshape(-1, Constant.row))
        if whole < piece.size:
            yield from _strings(piece[np.newaxis, whole:])


def _strings(rows: np.ndarray) -> list[str]:
    """One string for each row of bytes."""
    before_digit = np.zeros(rows.shape, np.uint8)
    before_digit[:, :-1] = (rows[:, 1:] >= ord("0")) & (rows[:, 1:] <= ord("7"))
    words = np.empty((len(rows), rows.shape[1] + 2), "S5")
    words[:, 0], words[:, -1] = b'    "', b'",\n'
    words[:, 1:-1] = _SPELLED[before_digit, rows]
    return words.tobytes().replace(b"\0", b"").decode().splitlines()


def _byte(value: int, digits: int) -> str:
    """A byte within a string of C. A question mark may begin a trigraph."""
    plain = ord(" ") <= value <= ord("~") and chr(value) not in '"\\?'
    return chr(value) if plain else f"\\{value:0{digits}o}"


# Bytes as they are spelled before all but an octal digit, and before one.
_SPELLED = np.array([[_byte(value, digits) for value in range(256)] for digits in (1, 3)], "S4")
