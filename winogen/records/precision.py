"""Types of numbers as C and numpy know them, and which of them a kernel uses where."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NumberType:
    """A type of number; ``name`` is numpy's."""

    name: str
    itemsize: int  # bytes
    c: str
    integer: str  # the integer of the same size, for masks
    avx512: str  # the suffix of its intrinsics
    register: str  # the type of a vector of 64 bytes there


NUMBERS: dict[str, NumberType] = {
    number.name: number
    for number in (
        NumberType("float32", 4, "float", "int32_t", "ps", "__m512"),
        NumberType("float64", 8, "double", "int64_t", "pd", "__m512d"),
    )
}


@dataclass(frozen=True)
class Precision:
    """The types of all numbers of a kernel.

    >>> Precision.of("float32").lanes(64)
    16
    """

    arrays: str  # input, weight, bias, output
    filters: str  # packed: U
    tiles: str  # transformed: V
    sums: str  # of products
    transforms: str  # arithmetic of the input and output transform

    @classmethod
    def of(cls, dtype: str) -> Precision:
        """Return one type for everything."""
        return cls(dtype, dtype, dtype, dtype, dtype)

    @property
    def real(self) -> NumberType:
        """The type that kernels compute in."""
        return NUMBERS[self.sums]

    @property
    def itemsize(self) -> int:
        """Bytes of one number of the arrays."""
        return NUMBERS[self.arrays].itemsize

    def lanes(self, vector_bytes: int) -> int:
        """How many numbers a vector of so many bytes holds."""
        return vector_bytes // self.real.itemsize
