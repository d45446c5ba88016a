"""C widens and rounds numbers as `Format` does, byte for byte, on every instruction set."""

import ctypes
import mmap
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from kernels.turns import turns

from winogen.codegen.context import numbers_and_vectors
from winogen.codegen.templates import environment
from winogen.records import FILTER_TYPES, NUMBERS, PIXEL_TYPES, TARGETS, Precision
from winogen.rounding.formats import FORMATS
from winogen.toolchain import host_targets, load

KERNEL = """/* Runs of numbers, widened and narrowed by whole vectors. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline, unused))
#define PRAGMA(text) _Pragma(#text)
#define UNROLL(times) PRAGMA(GCC unroll times)
INLINE int64_t min_of(int64_t a, int64_t b) { return a < b ? a : b; }

{% include "parts/vector.h.j2" %}

{% include "parts/storage.h.j2" %}

void widen(const filter_number *from, real *to, int64_t vectors)
{
    for (int64_t i = 0; i < vectors * LANES; i += LANES) store(to + i, load_{{ name }}(from + i));
}
void narrow(const real *from, filter_number *to, int64_t vectors)
{
    for (int64_t i = 0; i < vectors * LANES; i += LANES) store_{{ name }}(to + i, load(from + i));
}
"""
CDEF = """
void widen(const void *from, void *to, int64_t vectors);
void narrow(const void *from, void *to, int64_t vectors);
"""
# With and without what the CPU has besides.
PLAIN = (replace(target, extensions=frozenset()) for target in host_targets())
ALL = list(dict.fromkeys([*host_targets(), *PLAIN]))


def text(name, target):
    words = numbers_and_vectors(Precision.of(NUMBERS[name].computed, name), target)
    return environment().from_string(KERNEL).render(name=name, matrices=False, **words)


def at_the_end(packed):
    """Bytes that end where memory does: who reads beyond them falls over."""
    whole = -(-max(packed.size, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
    room = mmap.mmap(-1, whole + mmap.PAGESIZE)
    pages = np.frombuffer(room, np.uint8)
    libc = ctypes.CDLL(None, use_errno=True)
    behind = ctypes.c_void_p(pages.ctypes.data + whole)
    assert not libc.mprotect(behind, ctypes.c_size_t(mmap.PAGESIZE), 0)
    pages[whole - packed.size : whole] = packed
    return pages[whole - packed.size : whole]


@cache
def runs_of(name, target):
    return Runs(name, target)


class Runs:
    """The C of one format on one target."""

    def __init__(self, name, target):
        target = target.storing(name)
        self.library = load(text(name, target), CDEF, target, name="storage")
        self.real = np.dtype(NUMBERS[name].computed)
        self.lanes, self.size = target.lanes(self.real.name), FORMATS[name].size

    def widened(self, packed):
        to = np.zeros(len(packed), self.real)
        self._call("widen", at_the_end(packed.ravel()), to, len(packed))
        return to

    def narrowed(self, values):
        guard = np.full(64, 0x5A, np.uint8)
        to = np.concatenate([guard, np.zeros(len(values) * self.size, np.uint8), guard])
        self._call("narrow", values, to[64:], len(values))
        assert np.array_equal(to[:64], guard) and np.array_equal(to[-64:], guard)
        return to[64:-64].reshape(len(values), self.size)

    def _call(self, name, from_, to, count):
        assert count % self.lanes == 0
        cast = self.library.ffi.cast
        getattr(self.library.lib, name)(
            cast("void *", from_.ctypes.data), cast("void *", to.ctypes.data), count // self.lanes
        )


EACH = pytest.mark.parametrize(
    "target", ALL, ids=lambda t: "-".join([t.name, *sorted(t.extensions)])
)
STORED = (*FILTER_TYPES, *PIXEL_TYPES)
FORMAT = pytest.mark.parametrize("name", STORED)


@cache
def all_numbers(name):
    """Codes of a format, (codes, bytes), the number that each is, and whether it is NaN.

    All of them, or of longer ones a million.
    """
    size, real = FORMATS[name].size, NUMBERS[name].computed
    codes = np.arange(1 << 8 * min(size, 3), dtype="<u8")
    if size > 3:
        codes = np.random.default_rng(0).integers(0, 1 << 8 * size, 1 << 20, "<u8")
    codes = np.ascontiguousarray(codes[:, None].view(np.uint8)[:, :size])
    with np.errstate(invalid="ignore"):
        numbers = FORMATS[name].unpack(codes).astype(real)
    return codes, numbers, np.isnan(numbers)


@pytest.mark.parametrize("name, target", turns(STORED, ALL))
def test_every_code_is_widened_and_comes_back(name, target):
    runs = runs_of(name, target)
    codes, wanted, nan = all_numbers(name)
    values, bits = runs.widened(codes), f"u{runs.real.itemsize}"
    assert not ((values.view(bits) != wanted.view(bits)) & ~nan).any()
    assert np.isnan(values[nan]).all()
    back = runs.narrowed(values)
    assert not ((back != codes).any(-1) & ~nan).any()
    assert np.array_equal(back[nan], FORMATS[name].pack(values[nan]))


def hard_numbers(real):
    """Numbers near every edge: ties and their neighbours, subnormal, large, special."""
    rng = np.random.default_rng(0)
    wide = 8 * real.itemsize
    kind = np.dtype(f"u{real.itemsize}").type
    bits = [rng.integers(0, 1 << wide, 1 << 16, kind)]
    for dropped in (13, *range(8, wide, 8)):
        codes = rng.integers(0, 1 << (wide - dropped), 1 << 13, kind) << kind(dropped)
        half = kind(1 << (dropped - 1))
        bits += [codes, codes + half, codes + half - kind(1), codes + half + kind(1)]
    # Of float16: from below the least subnormal number to beyond the largest.
    sizes = np.ldexp(rng.integers(1, 1 << 13, 1 << 14).astype(real), -26)
    edges = [65504, 65519.996, 65520, 65536, 2.0**-14, 2.0**-24, 2.0**-25, 0, np.inf]
    edges = np.array(edges, real)
    infinite = np.array(np.inf, real).view(kind)
    bits += [sizes.view(kind), (-edges).view(kind), edges.view(kind)]
    sign = kind(1 << (wide - 1))
    bits += [np.array([infinite + kind(1), infinite + kind(1) | sign, ~sign, ~kind(0)], kind)]
    values = np.concatenate(bits)
    return values[: len(values) // 16 * 16].view(real)


@EACH
@FORMAT
def test_numbers_are_rounded_as_formats_round(name, target):
    runs, known = runs_of(name, target), FORMATS[name]
    values = hard_numbers(runs.real)
    assert np.array_equal(runs.narrowed(values), known.pack(values))


@EACH
@FORMAT
def test_stores_leave_what_is_behind_alone(name, target):
    runs = runs_of(name, target)
    for vectors in range(5):
        values = np.arange(vectors * runs.lanes, dtype=runs.real) / 3
        assert np.array_equal(runs.narrowed(values), FORMATS[name].pack(values))


@pytest.mark.parametrize("target", TARGETS)
@FORMAT
def test_the_c_is_neat(name, target):
    lines = text(name, TARGETS[target]).split("\n")
    assert not [line for line in lines if len(line) > 100 or line != line.rstrip()]
