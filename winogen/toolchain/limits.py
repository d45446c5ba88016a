"""What this machine can do at most, measured: fused multiply-adds, reading and writing memory.

All are measured by ``csrc/limits.c`` compiled for the same target as the kernels, with a proof in
the result that all of the work was done. A limit is the best of many short samples.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from winogen import resources
from winogen.errors import OutOfMemory, WinogenError
from winogen.records import Target
from winogen.toolchain.fork import team_threads
from winogen.toolchain.host import host_target
from winogen.toolchain.loader import Library, load

_CDEF = """
void limits_fma(const float *start, float factor, float addend, int64_t steps, int threads,
                float *result);
void limits_fill(uint32_t *data, int64_t vectors, uint32_t value, int threads);
uint32_t limits_read(const uint32_t *data, int64_t vectors, int64_t passes, int threads);
void limits_write(uint32_t *data, int64_t vectors, uint32_t value, int64_t passes, int past_caches,
                  int threads);
"""
_CHAINS = 12  # as in limits.c
_STEPS = 1 << 17  # of one FMA sample: about a millisecond, and exact in float32
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_UNKNOWN = {"L1": 32 << 10, "L2": 512 << 10, "L3": 8 << 20}  # where the system does not say
# A large shared cache may be mostly other people's; this much stands for it.
_L3_SAMPLE = 32 << 20
# The smallest sample of it, over an L2, and the part of its speed that larger ones must have.
_L3_OVER_L2 = 4
_REACHED = 0.7
MEMORY_SAMPLE = 1 << 30
_ALIGNMENT = 64  # bytes: a cache line, and the widest vector there is


class WorkSkipped(WinogenError):
    """A measured limit would be wrong: the compiler left out some of the work."""


@dataclass(frozen=True)
class Limits:
    """The limits of one machine for one number of threads.

    ``fma_gflops`` has the peak for other numbers of threads too. ``read`` lists (level, bytes that
    were read over and over, GB/s of all threads together), smallest first; ``write`` likewise, ()
    if writing was not measured.
    """

    threads: int
    fma_gflops: dict[int, float]
    read: tuple[tuple[str, int, float], ...]
    write: tuple[tuple[str, int, float], ...] = ()

    @property
    def peak(self) -> float:
        """GFLOP/s of all threads together."""
        return self.fma_gflops[self.threads]

    def reading(self, size: int) -> tuple[str, float]:
        """Return (level, GB/s) for data of ``size`` bytes, by the smallest level that holds them.

        >>> limits = Limits(1, {1: 100.0}, (("L2", 1 << 20, 90.0), ("memory", 1 << 30, 20.0)))
        >>> limits.reading(4096), limits.reading(1 << 33)
        (('L2', 90.0), ('memory', 20.0))
        """
        return _by_size(self.read, size)

    def writing(self, size: int) -> tuple[str, float]:
        """Return the same for writing; at the speed of reading if that alone was measured."""
        return _by_size(self.write or self.read, size)

    def to_dict(self) -> dict[str, Any]:
        """Return what ``machine`` in the JSON output holds of it."""
        speeds = {"read_gbytes_per_s": self.read, "write_gbytes_per_s": self.write}
        return {
            "fma_peak_gflops": self.peak,
            "fma_peak_gflops_by_threads": {str(n): peak for n, peak in self.fma_gflops.items()},
            **{
                name: {level: {"bytes": n, "gbytes_per_s": speed} for level, n, speed in rows}
                for name, rows in speeds.items()
                if rows
            },
        }


def _by_size(rows: tuple[tuple[str, int, float], ...], size: float) -> tuple[str, float]:
    """(level, GB/s) of the first row whose sample is no smaller than ``size``, else of the last."""
    level, _, speed = next((row for row in rows if size <= row[1]), rows[-1])
    return level, speed


def measure_limits(
    threads: int = 1,
    target: Target | None = None,
    seconds: float = 0.1,
    most_bytes: int = MEMORY_SAMPLE,
    writes: bool = False,
) -> Limits:
    """Measure the machine, about ``seconds`` for each figure, in ``most_bytes`` of memory or less.

    ``writes``: whether to measure writing, too, which planning does not ask for. Raises WorkSkipped
    when a result shows that not all was computed, OutOfMemory, and BuildError.
    """
    target = target or host_target()
    threads = team_threads(threads)
    counts = sorted({1, threads} | {2**k for k in range(10) if 2**k < threads})
    peaks = {count: fma_peak(count, target, seconds) for count in counts}
    samples = levels(threads, most_bytes)

    def speeds(of: Callable[..., float]) -> tuple[tuple[str, int, float], ...]:
        return tuple((level, n, of(n, threads, target, seconds)) for level, n in samples.items())

    if "L3" in samples:
        samples["L3"] = _reach(samples, threads, target, seconds)
    return Limits(threads, peaks, speeds(read_speed), speeds(write_speed) if writes else ())


def _reach(samples: dict[str, int], threads: int, target: Target, seconds: float) -> int:
    """Bytes of the shared cache that these threads can count on, at most its sample.

    Others use it, too, and a virtual machine may own a small part of it: from
    a few times the L2 on samples grow as long as they are read nearly as fast as the first.
    """
    size = min(2 * samples.get("L2", samples["L3"] // 2) * _L3_OVER_L2, samples["L3"])
    speed = read_speed(size, threads, target, seconds)
    while 2 * size <= samples["L3"] and (
        read_speed(2 * size, threads, target, seconds) >= _REACHED * speed
    ):
        size *= 2
    return size


def fma_peak(threads: int = 1, target: Target | None = None, seconds: float = 0.1) -> float:
    """Return the GFLOP/s of multiply-adds that never leave the registers; best sample."""
    target = target or host_target()
    threads = team_threads(threads)
    library = _library(target)
    lanes = target.lanes("float32")
    start = np.arange(_CHAINS * lanes, dtype=np.float32)  # all different
    result = np.zeros((threads, start.size), np.float32)  # not what an earlier call left there
    best = float("inf")
    end = time.perf_counter() + seconds
    while True:
        begin = time.perf_counter()
        library.lib.limits_fma(
            _floats(library, start), 1.0, 1.0, _STEPS, threads, _floats(library, result)
        )
        now = time.perf_counter()
        best = min(best, now - begin)
        if now > end:
            break
    # start + 1 + 1 + ... is exact in float32, so a single step that was skipped would show.
    if not np.array_equal(result, np.broadcast_to(start + _STEPS, result.shape)):
        raise WorkSkipped("FMA peak: the accumulators are not what all steps would have made them")
    return 2 * result.size * _STEPS / best / 1e9


def read_speed(
    size: int, threads: int = 1, target: Target | None = None, seconds: float = 0.1
) -> float:
    """Return the GB/s of reading ``size`` bytes again and again, each thread its own part.

    Raises WorkSkipped and OutOfMemory.
    """
    target = target or host_target()
    threads = team_threads(threads)
    library = _library(target)
    vectors = max(1, size // threads // target.vector_bytes)
    size = vectors * threads * target.vector_bytes
    pointer = library.ffi.from_buffer("uint32_t[]", _sample(size))
    value = 0x01234567
    library.lib.limits_fill(pointer, vectors, value, threads)
    passes, best = 1, float("inf")
    end = time.perf_counter() + seconds
    while True:
        begin = time.perf_counter()
        total = library.lib.limits_read(pointer, vectors, passes, threads)
        now = time.perf_counter()
        if total != size // 4 * value * passes % 2**32:
            raise WorkSkipped("read bandwidth: the sum of what was read is wrong")
        best = min(best, (now - begin) / passes)
        if now > end:
            return size / best / 1e9
        if now - begin < 1e-3:  # starting threads must not count
            passes *= 2


def write_speed(
    size: int, threads: int = 1, target: Target | None = None, seconds: float = 0.1
) -> float:
    """Return the GB/s of writing ``size`` bytes again and again, each thread its own part.

    The faster of ordinary stores, which read a line before they change it, and non-temporal ones.
    Raises WorkSkipped and OutOfMemory.
    """
    target = target or host_target()
    threads = team_threads(threads)
    return max(_write_speed(size, threads, target, seconds / 2, past) for past in (False, True))


def _write_speed(
    size: int, threads: int, target: Target, seconds: float, past_caches: bool
) -> float:
    library = _library(target)
    vectors = max(1, size // threads // target.vector_bytes)
    size = vectors * threads * target.vector_bytes
    sample = _sample(size)
    pointer = library.ffi.from_buffer("uint32_t[]", sample)
    value = 0x01234567
    library.lib.limits_fill(pointer, vectors, 0, threads)
    passes, best = 1, float("inf")
    end = time.perf_counter() + seconds
    while True:
        begin = time.perf_counter()
        library.lib.limits_write(pointer, vectors, value, passes, past_caches, threads)
        now = time.perf_counter()
        best = min(best, (now - begin) / passes)
        if now > end:
            break
        if now - begin < 1e-3:  # starting threads must not count
            passes *= 2
        value += 2
    total = library.lib.limits_read(pointer, vectors, 1, threads)
    if total != size // 4 * (value + 1) % 2**32:
        raise WorkSkipped("write bandwidth: the sum of what was written is wrong")
    return size / best / 1e9


def _sample(size: int) -> np.ndarray:
    try:
        raw = np.empty(size + _ALIGNMENT, np.uint8)
    except MemoryError as error:
        raise OutOfMemory(f"sample of memory: could not allocate {size} bytes") from error
    skip = -raw.ctypes.data % _ALIGNMENT
    return raw[skip : skip + size]


def levels(threads: int = 1, most_bytes: int = MEMORY_SAMPLE) -> dict[str, int]:
    """Return level -> bytes to read of all threads together: half a cache, or far beyond all.

    None is above ``most_bytes``, and levels that no larger one is left to tell from are left out.

    >>> list(levels(1, 1 << 20).values())[-1]
    1048576
    """
    caches = _caches()
    sizes = {name: caches[name] // 2 * threads for name in ("L1", "L2") if name in caches}
    largest = max(caches.values())
    if "L3" in caches:
        sample = min(caches["L3"] // 2, _L3_SAMPLE, most_bytes // 2)
        sizes["L3"] = max(sample, 2 * sizes.get("L2", 0))
    memory = min(max(min(2 * largest, MEMORY_SAMPLE), 2 * max(sizes.values())), most_bytes)
    sizes = {level: size for level, size in sizes.items() if 2 * size <= memory}
    return {**sizes, "memory": memory}


def _caches() -> dict[str, int]:
    sizes = {}
    for index in sorted(_CACHES.glob("index*")):
        try:
            kind, level, size = (
                (index / name).read_text().strip() for name in ("type", "level", "size")
            )
            if kind != "Instruction":
                sizes[f"L{level}"] = int(size.rstrip("KMG")) << "KMG".index(size[-1]) * 10 + 10
        except (OSError, ValueError):
            continue
    return sizes or dict(_UNKNOWN)


@cache
def _library(target: Target) -> Library:
    source = (resources.folder("csrc") / "limits.c").read_text()
    return load(source, _CDEF, target, (f"-DVECTOR_BYTES={target.vector_bytes}",), name="limits")


def _floats(library: Library, array: np.ndarray) -> Any:
    return library.ffi.from_buffer("float[]", array)
