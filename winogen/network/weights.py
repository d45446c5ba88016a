"""All numbers that a network keeps, one behind the other, as its kernels read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from winogen.codegen.constants import Constant, rows
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

    def joined(self, name: str) -> AllWeights:
        """Return them as one array of C."""
        kind = "float" if self.dtype == np.float32 else f"{self.dtype.name}_t"
        return AllWeights(kind, name, self.data(), "", tuple(self.parts))


@dataclass(frozen=True)
class AllWeights(Constant):
    """Arrays one behind the other, with a comment before each."""

    parts: tuple[Part, ...]

    @property
    def rows(self) -> str:
        """Them in C."""
        ends = [*(part.begin for part in self.parts[1:]), self.numbers]
        pieces = [self.array[part.begin : end] for part, end in zip(self.parts, ends)]
        return "\n".join(
            f"    /* {part.begin}: {part.name} */\n{rows(self.type, piece, bool(self.in_bytes))}"
            for part, piece in zip(self.parts, pieces)
        )


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
