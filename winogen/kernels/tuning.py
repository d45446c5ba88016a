"""Sizes of the GEMM's register block and of what is built on it, by target.

Chosen by measurement on an AMD EPYC (Zen 4, AVX-512), November 2026, unless a line says otherwise.
"""

from __future__ import annotations

from winogen.records import Target, Tuning

_ZEN4 = "measured on AMD EPYC (Zen 4), 2026-11"

# Regions use non-temporal stores from a smaller size of outputs on: transformed tiles displace
# those of the last call sooner.
REGIONS_NON_TEMPORAL = 3 << 18


def rows(target: Target) -> int:
    """Rows of a register block of two vectors: as many as fit beside the operands of one step.

    GNU C has no multiply-add by one lane for NEON, so that broadcast numbers take registers: with
    14 rows gcc 12 keeps five of the 28 sums on the stack, with ten it keeps none.

    >>> from winogen.records import TARGETS
    >>> {name: rows(target) for name, target in TARGETS.items()}
    {'avx512': 14, 'avx2': 6, 'sse2': 6, 'neon': 10, 'generic': 6}
    """
    if target.registers < 32:
        return 6
    return 14 if target.broadcasts else 10


def gemm(target: Target, **sizes: int) -> Tuning:
    """Return the tuning of kernels whose filters fill the lanes."""
    return Tuning(_ZEN4, rows=rows(target), vectors=2, **sizes)


def regions(target: Target) -> Tuning:
    """Return that of kernels whose product goes over many channels at once.

    Where an FMA can broadcast an operand from memory (AVX-512), a second vector per row saves few
    loads. A second chain of additions saves stores, of which regions have many, and rounding.
    """
    sizes = {"depth": 32, "many_channels": 128, "non_temporal": REGIONS_NON_TEMPORAL}
    if target.broadcasts:
        return Tuning(_ZEN4, rows=14, vectors=1, chains=2, **sizes)
    return Tuning(_ZEN4, rows=rows(target), vectors=2, **sizes)
