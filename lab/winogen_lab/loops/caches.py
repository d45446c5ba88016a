"""Caches in a simulation, number by number: LRU, and the predictions of Jaleel and others.

*SRRIP*, *BRRIP* and *DRRIP* (ISCA 2010) predict when a line is used again, in two bits. A line that
is used gets 0; the one that leaves has 3, and if none has, all grow by one until one does. SRRIP
inserts lines with 2, so that lines that are used once leave before those that are used again. BRRIP
inserts all but one of 32 with 3, so that a part stays of what is too large for the cache. DRRIP
lets 32 pairs of sets try both, and a counter of 10 bits tells all other sets which misses less.

The loops are C, `caches.c` beside this file: some ten nanoseconds an access.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from winogen.errors import InvalidValue

if TYPE_CHECKING:
    from winogen.toolchain import Library

POLICIES = ("lru", "srrip", "brrip", "drrip")
LINE = 64  # bytes
_FEWEST_SETS = 8  # of drrip: two pairs that try, and some that follow
_LARGEST = 4 << 30
_NUMBER = "[0-9]{1,10}"
_SIZES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_STRUCTS = """
struct winogen_cache {
    int64_t sets, ways, line, policy, misses[3];
    int64_t *lines, *ages, now, inserted, select;
};
struct winogen_loop { int64_t axis, step, bytes[3]; };
int winogen_caches_begin(struct winogen_cache *, int64_t);
void winogen_caches_end(struct winogen_cache *, int64_t);
void winogen_caches_use(struct winogen_cache *, int64_t, int64_t const *, int64_t);
void winogen_caches_walk(struct winogen_cache *, int64_t, struct winogen_loop const *,
                         int64_t, int64_t *, int64_t const *);
"""


@dataclass(frozen=True)
class Cache:
    """A cache of ``bytes`` in sets of ``ways`` lines; ``ways`` 0: any line anywhere.

    Raises InvalidValue for sizes that make no whole sets, and for unknown policies.

    >>> Cache(32768, 8).sets, Cache(4096, 0).sets
    (64, 1)
    """

    bytes: int
    ways: int = 8
    policy: str = "lru"
    line: int = LINE

    def __post_init__(self) -> None:
        """Raise InvalidValue for what is no cache."""
        if self.policy not in POLICIES:
            raise InvalidValue(f"policy: got {self.policy!r}; allowed: {', '.join(POLICIES)}")
        if not 1 <= self.bytes <= _LARGEST:
            raise InvalidValue(f"caches: got {self.bytes} bytes; allowed: at most {_LARGEST}")
        if self.ways < 0 or self.bytes % (self.line * max(self.ways, 1)):
            raise InvalidValue(
                f"caches: got {self.bytes} bytes of {self.ways} ways; allowed: whole sets of "
                f"lines of {self.line} bytes"
            )
        if self.policy == "drrip" and self.sets < _FEWEST_SETS:
            raise InvalidValue(
                f"caches: got {self.sets} sets with drrip; allowed: {_FEWEST_SETS} sets or more, "
                "of which some try and others follow"
            )

    @property
    def sets(self) -> int:
        """How many sets there are."""
        return self.bytes // self.line // self.ways if self.ways else 1

    def lam(self, itemsize: int = 4) -> float:
        """Return Lam's side of a square block of numbers, √(a·c/(a + 1)) for c numbers and a ways.

        A larger one removes lines of its own (Lam, Rothberg and Wolf, ASPLOS 1991).

        >>> round(Cache(32768, 8).lam(), 1)
        85.3
        """
        ways = self.ways or self.bytes // self.line
        return math.sqrt(ways * self.bytes / itemsize / (ways + 1))


class Step(NamedTuple):
    """A loop of a nest: over which axis, in which steps, and how far these move each operand."""

    axis: int
    step: int
    bytes: tuple[int, int, int]


def parse_caches(text: str) -> list[Cache]:
    """Return caches from the inside out, "SIZE:WAYS:POLICY" with commas between.

    Raises InvalidValue.

    >>> parse_caches("32K:8,1M:16:drrip")[1]
    Cache(bytes=1048576, ways=16, policy='drrip', line=64)
    """
    return [_cache(one.strip()) for one in text.split(",")]


def misses(caches: Sequence[Cache], addresses: np.ndarray) -> list[int]:
    """Return how many of the byte ``addresses``, used in this order, miss each of the caches.

    What hits one cache is not asked of the next.

    >>> twice = np.tile(np.arange(96) * 64, 20)      # one and a half times as much as there is room
    >>> misses([Cache(4096, 8)], twice)[0], misses([Cache(4096, 8, "drrip")], twice)[0] < 1200
    (1920, True)
    """
    numbers = np.ascontiguousarray(addresses, np.int64)
    lib, ffi = _library().lib, _library().ffi
    source = ffi.from_buffer("int64_t[]", numbers)
    found = _run(
        caches, lambda made: lib.winogen_caches_use(made, len(caches), source, len(source))
    )
    return [sum(one) for one in found]


def walked(
    caches: Sequence[Cache], loops: Sequence[Step], extents: Sequence[int], first: Sequence[int]
) -> list[list[int]]:
    """Return the lines of inputs, weights and outputs that miss each cache while a nest runs.

    ``loops``: from the outermost to the innermost. ``extents``: of all axes. ``first``: the first
    byte of each operand.
    """
    lib, ffi = _library().lib, _library().ffi
    nest = ffi.new("struct winogen_loop[]", [list(loop) for loop in loops])
    whole, starts = (ffi.new("int64_t[]", list(one)) for one in (extents, first))
    return _run(
        caches,
        lambda made: lib.winogen_caches_walk(made, len(caches), nest, len(loops), whole, starts),
    )


def _run(caches: Sequence[Cache], work: Any) -> list[list[int]]:
    lib, ffi = _library().lib, _library().ffi
    made = ffi.new("struct winogen_cache[]", len(caches))
    for one, cache_ in zip(made, caches):
        one.sets, one.line = cache_.sets, cache_.line
        one.ways = cache_.ways or cache_.bytes // cache_.line
        one.policy = POLICIES.index(cache_.policy)
    try:
        if lib.winogen_caches_begin(made, len(caches)):
            raise MemoryError("no memory for the lines of the caches")
        work(made)
        return [list(one.misses) for one in made]
    finally:
        lib.winogen_caches_end(made, len(caches))


@cache
def _library() -> Library:
    from winogen.toolchain import host_target, load

    source = Path(__file__).with_name("caches.c").read_text("utf-8")
    return load(source, _STRUCTS, host_target(), name="caches")


def _cache(text: str) -> Cache:
    size, *rest = text.split(":")
    ways, policy = [*rest, *("8", "lru")[len(rest) :]][:2]
    unit = _SIZES.get(size[-1:], 1)
    number = size[:-1] if unit > 1 else size
    if len(rest) > 2 or not (re.fullmatch(_NUMBER, number) and re.fullmatch(_NUMBER, ways)):
        raise InvalidValue(f"caches: got {text[:40]!r}; allowed: SIZE:WAYS:POLICY, as 32K:8:lru")
    return Cache(int(number) * unit, int(ways), policy)
