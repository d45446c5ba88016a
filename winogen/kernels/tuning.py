"""Sizes of the GEMM's register block and of what is built on it, by target.

Chosen by measurement on an AMD EPYC (Zen 4, AVX-512), November 2026, unless a line says otherwise.
"""

from __future__ import annotations

from dataclasses import replace

from winogen.records import Precision, Target, Tuning
from winogen.records.tuning import STREAMS

_ZEN4 = "measured on AMD EPYC (Zen 4), 2026-11"
_XEON = "measured on Intel Xeon (Emerald Rapids), 2026-11"

# Regions use non-temporal stores from a smaller size of outputs on: transformed tiles displace the
# outputs of the last call sooner.
REGIONS_NON_TEMPORAL = 3 << 18


def rows(target: Target) -> int:
    """Rows of a register block of two vectors: as many as fit beside the operands of one step.

    With 16 registers, six rows suit cores that start two multiply-adds and two loads of 256 bits in
    a cycle, where a multiply-add takes at most five cycles: all makers' cores with AVX2, as far as
    is known here. Ten sums hide five cycles, and the block has twelve; a step has eight loads for
    twelve multiply-adds. Measured on Zen 3, Zen 4 and Intel Xeon only.

    Where a multiply-add takes one lane of a register (NEON), the numbers of a row are loaded LANES
    steps at once, so that a block holds its sums, a vector for each row, and those of one step: 20,
    10 and 2 for ten rows. Seven rows of three vectors load as much; more spill. Of the 16 registers
    of 32-bit ARM four rows take 14.

    >>> from winogen.records import TARGETS
    >>> {name: rows(TARGETS[name]) for name in ("avx512", "avx2", "neon", "armv7")}
    {'avx512': 14, 'avx2': 6, 'neon': 10, 'armv7': 4}
    """
    if target.registers < 32:
        return 4 if target.by_lane else 6
    return 14 if target.broadcasts else 10


# Kernels that go through packed filters in their order, block by block, fetch the next one.
NEXT_BLOCK = STREAMS["next"] | STREAMS["output"]
_FILTERS = STREAMS["B"] | STREAMS["next"]
_ARM = "counted in gcc 12's loops, not measured"
_BARE = "counted on an emulated Cortex-M4, not measured"


def gemm(target: Target, **sizes: int) -> Tuning:
    """Return the tuning of kernels whose filters fill the lanes: a block of two vectors.

    Multiply-adds by lane leave little else in the loop, and none of it is a prefetch: packed
    filters are read in the order of memory, which the prefetchers of Arm's cores follow.

    A microcontroller has 32 registers of one number at most: sums of six rows of one vector, of
    four numbers, leave room for the operands of a step, and make half of the code.
    """
    if target.bare:
        return Tuning(_BARE, rows=rows(target), **{"vectors": 1, **sizes})
    sizes = {"vectors": 2, **sizes}
    if not target.by_lane:
        return Tuning(_ZEN4, rows=rows(target), **sizes)
    block = Tuning(_ARM, rows=rows(target), **sizes)
    return replace(block, prefetch_streams=block.prefetch_streams & ~_FILTERS)


# The register block of regions where an FMA can take one of its operands from memory (AVX-512), by
# micro-architecture; "" stands for all that are not listed. A block of one vector loads more than
# once for each multiply-add. That is free where vectors of 512 bits pass units of 256 bits in two
# cycles, as on Zen 4 (LLVM's X86ScheduleZnver4.td, after AMD's guide 57647: three operations of 256
# bits on memory in a cycle): loads keep up with multiply-adds, so that a second chain of additions
# can take the registers. It saves rounding, and stores, which are many in regions. Intel's servers
# start two multiply-adds and two loads of 512 bits in a cycle (measured by Chips and Cheese,
# "Sapphire Rapids: Golden Cove Hits Servers", 2023), and Zen 5 was measured here to gain likewise:
# there loads would bind. Cores with the same block share all kernels: their C is the same, too.
_FEWEST = Tuning("fewest loads for each multiply-add; Zen 5, Xeon: 2026-11", rows=14, vectors=2)
_REGIONS = {
    "": _FEWEST,
    "zen4": Tuning(_ZEN4, rows=14, vectors=1, chains=2),
    "zen5": _FEWEST,
    "skylake_avx512": _FEWEST,
}
# Cores that compute vectors of 512 bits in two halves: half a vector is worth a kernel of its own.
_HALVED_VECTORS = frozenset({"zen4"})
CORES = frozenset(_REGIONS) - {""}  # the micro-architectures that some kernel has sizes for


def passes_halves(target: Target) -> bool:
    """Whether a target's vectors pass in halves, each of which takes a cycle of the clock."""
    return target.broadcasts and target.core in _HALVED_VECTORS


def halves(target: Target, **sizes: int) -> Tuning:
    """Return the tuning of kernels whose products are of float16, with filters in the lanes.

    By lane a vector of sums has as many filters as two of float32. The numbers of rows are in the
    lower 16 registers: of ten rows some would leave them.
    """
    usual = gemm(target, prefetch_streams=NEXT_BLOCK, **sizes)
    return replace(usual, vectors=2 * usual.vectors, rows=9) if target.by_lane else usual


def regions_of_integers(target: Target) -> Tuning:
    """Return the tuning of regions whose products are of integers."""
    return gemm(target, non_temporal=REGIONS_NON_TEMPORAL, prefetch_streams=NEXT_BLOCK)


# The same with narrow filters, where it differs. Filters that stream from memory meet few tiles.
_NARROW_REGIONS = {
    "skylake_avx512": Tuning(_XEON, rows=8, vectors=3, band=15),
}
# Sums of so many terms round less than narrow filters do, but for three bytes.
_NARROW_DEPTH = 128


def regions(target: Target, precision: Precision) -> Tuning:
    """Return the tuning of kernels whose product goes over many channels at once."""
    block, narrow = gemm(target, prefetch_streams=NEXT_BLOCK), bool(precision.narrow_filter)
    if target.broadcasts:
        block = _REGIONS.get(target.core, _REGIONS[""])
        block = _NARROW_REGIONS.get(target.core, block) if narrow else block
        block = replace(block, prefetch_streams=NEXT_BLOCK)
    return replace(
        block,
        depth=_NARROW_DEPTH if narrow and precision.filter_itemsize < 3 else 32,
        many_channels=128 if target.broadcasts else 0,
        non_temporal=REGIONS_NON_TEMPORAL,
    )
