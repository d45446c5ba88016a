"""What this machine can do at most: fused multiply-adds, reading and writing memory.

The bursts of all rates (`winogen.toolchain.meters`) take turns, so that no rate has bad moments
only; and somebody watches whether others compute meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from winogen.records import Target
from winogen.toolchain.disturbance import Watch
from winogen.toolchain.host import host_target
from winogen.toolchain.meters import Clock, MemoryMeter, Meter, Peak, Reading, Writing

_ROUNDS = 5  # in which the rates take turns
# How much slower than the fastest a usual round may be, where nothing disturbs.
_STEADY = 1.2
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_UNKNOWN = {"L1": 32 << 10, "L2": 512 << 10, "L3": 8 << 20}  # where the system does not say
# A large shared cache may be mostly other people's; this much stands for it.
_L3_SAMPLE = 32 << 20
# The smallest sample of it, over an L2, and the part of its speed that larger ones must have.
_L3_OVER_L2 = 4
_REACHED = 0.7
MEMORY_SAMPLE = 1 << 30


@dataclass(frozen=True)
class Limits:
    """The limits of one machine for one number of threads.

    ``fma_gflops`` has the peak for other numbers of threads too. ``read`` lists (level, bytes that
    were read over and over, GB/s of all threads together), smallest first; ``write`` likewise, ()
    if writing was not measured. ``clock_ghz``: of dependent additions, a cycle each; 0 if unknown.
    ``signs``: what speaks for others having computed meanwhile, in words.
    """

    threads: int
    fma_gflops: dict[int, float]
    read: tuple[tuple[str, int, float], ...]
    write: tuple[tuple[str, int, float], ...] = ()
    clock_ghz: float = 0.0
    signs: tuple[str, ...] = ()

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
    rounds: int = _ROUNDS,
) -> Limits:
    """Measure the machine, about ``seconds`` for each figure, in ``most_bytes`` of memory or less.

    ``writes``: whether to measure writing, too, which planning does not ask for. ``rounds``: in
    which all figures take turns. Raises WorkSkipped
    when a result shows that not all was computed, OutOfMemory, and BuildError.
    """
    target = target or host_target()
    counts = sorted({1, threads} | {2**k for k in range(10) if 2**k < threads})
    samples = levels(threads, most_bytes)
    sizes = [*samples.values(), *_reachable(samples)]
    memory = MemoryMeter(max(sizes), threads, target)
    clock, peaks = Clock(target), {count: Peak(count, target) for count in counts}
    reads = {size: Reading(memory, size) for size in sizes}
    meters: list[Meter] = [clock, *peaks.values(), *reads.values()]
    written = [Writing(memory, size, past) for size in sizes for past in (False, True) if writes]
    watch = Watch(alone=threads == 1)
    for _ in range(rounds):
        for meter in meters:
            meter.go_on(seconds / rounds)
    signs = watch.signs()
    for meter in written:  # afterwards, since what was read is known
        meter.go_on(seconds / 2)
    spread = max(meter.spread for meter in meters)
    if spread > _STEADY:
        signs += (f"speeds varied by {100 * (spread - 1):.0f} %",)
    if "L3" in samples:
        samples["L3"] = _reach(samples, {size: meter.rate for size, meter in reads.items()})

    def speeds(meters: list[Any]) -> tuple[tuple[str, int, float], ...]:
        best = {size: max(m.rate for m in meters if m.size == size) for size in samples.values()}
        return tuple((level, size, best[size] / 1e9) for level, size in samples.items())

    return Limits(
        threads,
        {count: meter.rate / 1e9 for count, meter in peaks.items()},
        speeds([*reads.values()]),
        speeds(written) if writes else (),
        clock.rate / 1e9,
        signs,
    )


def _reachable(samples: dict[str, int]) -> list[int]:
    """Sizes of samples of the shared cache, from a few times the L2 on, each twice as large."""
    most = samples.get("L3", 0)
    size = min(2 * samples.get("L2", most // 2) * _L3_OVER_L2, most)
    sizes = []
    while 0 < size <= most:
        sizes.append(size)
        size *= 2
    return sizes


def _reach(samples: dict[str, int], speed: dict[int, float]) -> int:
    """Bytes of the shared cache that these threads can count on, at most its sample.

    Others use it, too, and a virtual machine may own a small part of it: samples grow as long as
    they are read nearly as fast as the first.
    """
    first, *larger = _reachable(samples)
    reached = first
    for size in larger:
        if speed[size] < _REACHED * speed[reached]:
            break
        reached = size
    return reached


def fma_peak(threads: int = 1, target: Target | None = None, seconds: float = 0.1) -> float:
    """Return the GFLOP/s of multiply-adds that never leave the registers; fastest burst."""
    return Peak(threads, target or host_target()).go_on(seconds) / 1e9


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
