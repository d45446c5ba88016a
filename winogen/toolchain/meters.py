"""Rates of this machine, measured in bursts: cycles, multiply-adds, reading and writing memory.

The work is done by ``csrc/limits.c`` compiled for the same target as the kernels, with a proof in
the result that none of it was left out.

A rate is the fastest of many bursts of about a millisecond. Whatever else the machine does makes
some bursts slower and none faster, so that one burst in a quiet moment is enough. On one thread the
clock is the thread's CPU time: it stands still while others have the CPU.
"""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import numpy as np

from winogen import resources
from winogen.errors import OutOfMemory, WinogenError
from winogen.records import Target
from winogen.records.machine import LINE
from winogen.toolchain.loader import Build, Library
from winogen.toolchain.threads import with_team

_CDEF = """
uint64_t limits_cycles(uint64_t step, int64_t steps);
void limits_fma(const float *start, float factor, float addend, int64_t steps, int threads,
                float *result);
void limits_fill(uint32_t *data, int64_t vectors, uint32_t value, int threads);
uint32_t limits_read(uint32_t *data, int64_t vectors, int64_t passes, int threads);
void limits_write(uint32_t *data, int64_t vectors, uint32_t value, int64_t passes, int past_caches,
                  int threads);
"""
_CHAINS = 12  # as in limits.c
_STEPS = 1 << 19  # of one burst of FMAs: about a millisecond, and exact in float32
_ADDITIONS = 1 << 21  # of one burst of additions: half a millisecond
_SHORTEST = 1e-3  # seconds of a burst from caches: starting threads must not count
# Most bytes of a burst. The next one goes on where it ends, until all of the sample has been read.
_WINDOW = 64 << 20


class WorkSkipped(WinogenError):
    """A measured limit would be wrong: the compiler left out some of the work."""


class Meter:
    """One rate, measured in bursts; ``rounds`` has the fastest of every round, in units/s."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.rounds: list[float] = []
        # Waiting for threads that others keep busy counts, too.
        self._clock = time.thread_time if threads == 1 else time.perf_counter

    def go_on(self, seconds: float) -> float:
        """Measure for another round of so many seconds; return the rate of all rounds."""
        self.prepare()
        fastest, end = 0.0, time.perf_counter() + seconds
        while not fastest or time.perf_counter() < end:
            begin = self._clock()
            units = self.burst()
            took = self._clock() - begin
            if took > 0:
                fastest = max(fastest, units / took)
            self.after(took)
        self.check()
        self.rounds.append(fastest)
        return self.rate

    @property
    def rate(self) -> float:
        """Units per second."""
        return max(self.rounds)

    @property
    def spread(self) -> float:
        """How much faster the fastest round was than a usual one."""
        return self.rate / float(np.median(self.rounds))

    def prepare(self) -> None:
        """Get ready for a round."""

    def burst(self) -> float:
        """Do some work, and return how much."""
        raise NotImplementedError(type(self).__name__)

    def after(self, seconds: float) -> None:
        """Hear how long the burst took."""

    def check(self) -> None:
        """Raise WorkSkipped unless all work of the round was done."""


class Clock(Meter):
    """Cycles, by additions that wait for each other."""

    def __init__(self, target: Target) -> None:
        super().__init__(1)
        self._lib, self._sum = _library(target).lib, 0

    def burst(self) -> float:
        self._sum = self._lib.limits_cycles(3, _ADDITIONS)
        return _ADDITIONS

    def check(self) -> None:
        if self._sum != 3 * _ADDITIONS:
            raise WorkSkipped("clock: the sum is not what all additions would have made it")


class Peak(Meter):
    """Floating-point operations, two for each multiply-add."""

    def __init__(self, threads: int, target: Target) -> None:
        super().__init__(threads)
        self._library = _library(target)
        lanes = target.lanes("float32")
        self._start = np.arange(_CHAINS * lanes, dtype=np.float32)  # all different
        # Not what an earlier measurement left there.
        self._result = np.zeros((threads, self._start.size), np.float32)

    def burst(self) -> float:
        start, result = (_floats(self._library, one) for one in (self._start, self._result))
        self._library.lib.limits_fma(start, 1.0, 1.0, _STEPS, self.threads, result)
        return 2 * self._result.size * _STEPS

    def check(self) -> None:
        # start + 1 + 1 + ... is exact in float32, so a single step that was skipped would show.
        result = self._result
        if not np.array_equal(result, np.broadcast_to(self._start + _STEPS, result.shape)):
            raise WorkSkipped(
                "FMA peak: the accumulators are not what all steps would have made them"
            )


class MemoryMeter:
    """Memory full of one word, of whose beginning smaller samples are made.

    Each thread has filled its part, so that its pages lie near it.
    """

    def __init__(self, size: int, threads: int, target: Target) -> None:
        self.threads, self.target, self.library = threads, target, _library(target)
        self.word = 0x01234567
        size = self.vectors(size) * threads * target.vector_bytes
        self.pointer = self.library.ffi.from_buffer("uint32_t[]", _sample(size))
        self.library.lib.limits_fill(self.pointer, self.vectors(size), self.word, threads)

    def vectors(self, size: int) -> int:
        """Vectors of each thread in a sample of so many bytes."""
        return max(1, size // self.threads // self.target.vector_bytes)


class Reading(Meter):
    """Bytes read."""

    def __init__(self, memory: MemoryMeter, size: int) -> None:
        super().__init__(memory.threads)
        self.size, self._memory = size, memory
        self._vectors = memory.vectors(size)
        # Windows are for one thread: each of many has its part of the memory to itself.
        most = _WINDOW // memory.target.vector_bytes if memory.threads == 1 else self._vectors
        self._window = min(self._vectors, most)
        self._place, self._passes = 0, 1

    def prepare(self) -> None:
        self._read(0, self._vectors, 1)  # so that caches hold it, as far as they can

    def burst(self) -> float:
        self._read(self._place, self._window, self._passes)
        return self._window * self._passes * self.threads * self._memory.target.vector_bytes

    def after(self, seconds: float) -> None:
        if self._window < self._vectors:
            self._place += self._window
            if self._place + self._window > self._vectors:
                self._place = 0
        elif seconds < _SHORTEST:
            self._passes *= 2

    def _read(self, place: int, vectors: int, passes: int) -> None:
        words = self._memory.target.vector_bytes // 4
        total = self._memory.library.lib.limits_read(
            self._memory.pointer + place * words, vectors, passes, self.threads
        )
        if total != vectors * self.threads * words * self._memory.word * passes % 2**32:
            raise WorkSkipped("read bandwidth: the sum of what was read is wrong")


class Writing(Meter):
    """Bytes written, ``past_caches`` or not; the memory holds other words afterwards."""

    def __init__(self, memory: MemoryMeter, size: int, past_caches: bool) -> None:
        super().__init__(memory.threads)
        self.size, self._memory, self._past_caches = size, memory, past_caches
        self._vectors, self._passes = memory.vectors(size), 1

    def burst(self) -> float:
        memory = self._memory
        memory.word += 2
        memory.library.lib.limits_write(
            memory.pointer, self._vectors, memory.word - 1, self._passes, self._past_caches,
            self.threads,
        )  # fmt: skip
        return self._vectors * self._passes * self.threads * memory.target.vector_bytes

    def after(self, seconds: float) -> None:
        if seconds < _SHORTEST:
            self._passes *= 2

    def check(self) -> None:
        memory, words = self._memory, self._memory.target.vector_bytes // 4
        total = memory.library.lib.limits_read(memory.pointer, self._vectors, 1, self.threads)
        if total != self._vectors * self.threads * words * memory.word % 2**32:
            raise WorkSkipped("write bandwidth: the sum of what was written is wrong")


def _sample(size: int) -> np.ndarray:
    try:
        raw = np.empty(size + LINE, np.uint8)
    except MemoryError as error:
        raise OutOfMemory(f"sample of memory: could not allocate {size} bytes") from error
    skip = -raw.ctypes.data % LINE
    return raw[skip : skip + size]


def build_of(target: Target) -> Build:
    """Return what the library is built from that does the work."""
    source = with_team((resources.folder("csrc") / "limits.c").read_text("utf-8"))
    return Build(source, _CDEF, target, (f"-DVECTOR_BYTES={target.vector_bytes}",), name="limits")


@cache
def _library(target: Target) -> Library:
    return build_of(target).load()


def _floats(library: Library, array: np.ndarray) -> Any:
    return library.ffi.from_buffer("float[]", array)
