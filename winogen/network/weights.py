"""All numbers that a network keeps, one behind the other, as its kernels read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from winogen.codegen.constants import spelled
from winogen.codegen.templates import wrapped
from winogen.conv.packing import packed as pack
from winogen.kernels.work import round_up
from winogen.network.schedule import Kernel

MAGIC = b"winogen1"
HEADER = 64  # bytes before the numbers of a file
BASIS, PRIME = 0xCBF29CE484222325, 0x100000001B3  # of FNV-1a, 64 bits
_LINE = 64  # bytes: arrays begin at a multiple of them


class Part(NamedTuple):
    """An array among the weights."""

    name: str
    begin: int  # in numbers
    numbers: np.ndarray


class Weights:
    """Arrays of one type that are put one behind the other; equal ones once."""

    def __init__(self, dtype: str = "float32") -> None:
        self.dtype = np.dtype(dtype)
        self._aligned = _LINE // self.dtype.itemsize  # numbers
        self.parts: list[Part] = []
        self._known: dict[bytes, int] = {}
        self.count = 0

    def add(self, name: str, array: Any) -> int:
        """Return where an array, or what makes one, begins, in numbers."""
        numbers = np.ascontiguousarray(array, self.dtype).reshape(-1)
        key = numbers.tobytes()
        if key not in self._known:
            self._known[key] = self.count
            self.parts.append(Part(name, self.count, numbers))
            self.count += round_up(numbers.size, self._aligned)
        return self._known[key]

    def data(self) -> np.ndarray:
        """Return all of them; between two are zeros."""
        whole = np.zeros(self.count, self.dtype)
        for part in self.parts:
            whole[part.begin : part.begin + part.numbers.size] = part.numbers
        return whole

    def text(self) -> Iterator[str]:
        """Yield them as lines of C, with a comment before each."""
        whole = self.data()
        for part in self.parts:
            padded = whole[part.begin : part.begin + round_up(part.numbers.size, self._aligned)]
            yield f"    /* {part.begin}: {part.name} */"
            words = spelled if self.dtype == np.float32 else str
            yield wrapped(map(words, padded.tolist()), 4, ", ", ",")


def digest(data: bytes) -> int:
    """Return what a file of weights is known by: FNV-1a of its 64-bit words.

    >>> hex(digest(bytes(8)))
    '0xaf63bd4c8601b7df'
    """
    value = BASIS
    for word in np.frombuffer(data, "<u8").tolist():
        value = ((value ^ word) * PRIME) & 0xFFFFFFFFFFFFFFFF
    return value


def as_file(data: bytes) -> bytes:
    """Return weights as the file that a program reads: its length and digest come first."""
    head = MAGIC + len(data).to_bytes(8, "little") + digest(data).to_bytes(8, "little")
    return head.ljust(HEADER, b"\0") + data


def packed(one: Kernel, weight: Any) -> np.ndarray:
    """Return filters as a kernel reads them, float32 or the bits of numbers of 16 bits as uint16.

    Raises BuildError.
    """
    array = np.ascontiguousarray(weight, np.float32)
    kind = np.float32 if one.spec.precision.filters == "float32" else np.uint16
    return pack(one.spec, one.fields, {one.spec.packs[0]: array}).view(kind)
