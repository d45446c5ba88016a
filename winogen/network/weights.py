"""All numbers that a network keeps, one behind the other, as its kernels read them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from math import isfinite, isnan
from typing import Any, NamedTuple

import numpy as np

from winogen.codegen.render import cdef, render
from winogen.codegen.templates import wrapped
from winogen.conv import memory
from winogen.conv.execute import Environment, kernel
from winogen.kernels.spec import KernelSpec
from winogen.kernels.work import round_up
from winogen.network.schedule import Kernel
from winogen.records import TARGETS, Target
from winogen.toolchain import host_targets
from winogen.toolchain.loader import Build

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


def _runs_here(target: Target) -> bool:
    return any(
        target.name == one.name and target.extensions <= one.extensions for one in host_targets()
    )


def packed(one: Kernel, weight: Any) -> np.ndarray:
    """Return filters as a kernel reads them: its own C packs them, for another CPU's on this one.

    They are float32, or the bits of numbers of 16 bits as uint16. Raises BuildError.
    """
    assert sys.byteorder == "little"
    array = np.ascontiguousarray(weight, np.float32)
    kind = np.float32 if one.spec.precision.filters == "float32" else np.uint16
    if _runs_here(one.spec.target):
        made = kernel(one.spec, Environment.now())
        struct = made.ffi.new("winogen_conv *", one.fields)
        return made.pack(struct, 1, array).view(kind)
    library = _foreign(one.spec).load()
    struct = library.ffi.new("winogen_conv *", one.fields)
    result = memory.aligned(struct.packed_bytes, "packed weight")
    pointers = (library.ffi.from_buffer(array), library.ffi.from_buffer(result))
    library.lib.winogen_pack(struct, *pointers, 1)
    return result.view(kind)


def _foreign(spec: KernelSpec) -> Build:
    """The kernel by portable C alone, which packs filters as that of its target reads them."""
    same = replace(spec, target=spec.target.portable)
    return Build(render(same), cdef(same), TARGETS["generic"], (), spec.name)
