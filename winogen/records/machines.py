"""Machines that are known by measurement or by what was published of them, by archspec's names.

Rates are those of one core. Where this project measured one, a comment has its figures; a cycle of
FMA units follows from the peak, 2 · vectors · lanes operations.
"""

from __future__ import annotations

from dataclasses import dataclass

from winogen.records.costs import costs_of
from winogen.records.machine import Machine


@dataclass(frozen=True)
class KnownMachine:
    """A micro-architecture: its machine, and multiply-adds a cycle by the width of vectors."""

    machine: Machine
    fmas: dict[int, float]  # by bytes of a vector; without FMA a multiplication and an addition


KNOWN: dict[str, KnownMachine] = {
    # Measured on an EPYC of two cores, 2026-11: 103 GFLOP/s by AVX2, L3 36 GB/s, memory 22 GB/s;
    # L2 reads of 32 bytes in a cycle are AMD's (Software Optimization Guide 56665, 2.6).
    "zen3": KnownMachine(
        Machine(3.2, 2.0, 512 << 10, 16 << 20, 32.0, 11.3, 6.9), {16: 2.0, 32: 2.0}
    ),
    # Measured on an EPYC of two cores, 2026-11: 118 GFLOP/s by AVX-512, memory 28 GB/s. A core
    # reads 32 bytes in a cycle from L2 and about 20 from L3 (Chips and Cheese, "AMD's Zen 4,
    # Part 2: Memory Subsystem", 2022).
    "zen4": KnownMachine(
        Machine(3.7, 1.0, 1 << 20, 16 << 20, 32.0, 20.0, 7.6), {16: 2.0, 32: 2.0, 64: 1.0}
    ),
    # Measured on a Xeon of two cores (Emerald Rapids), 2026-11: 178 GFLOP/s by AVX-512, L2 139,
    # L3 29, memory 15 GB/s.
    "sapphirerapids": KnownMachine(
        Machine(2.8, 2.0, 2 << 20, 16 << 20, 50.0, 10.4, 5.4), {16: 2.0, 32: 2.0, 64: 2.0}
    ),
    # A laptop of four cores, i5-8250U at 3.4 GHz: L2 of 256 KiB, L3 of 6 MiB, at most 64 and 32
    # bytes in a cycle (WikiChip, "Skylake (client)"), of which loops get about half; DDR4-2400 on
    # two channels, 38 GB/s, half of it for one core.
    "skylake": KnownMachine(
        Machine(3.4, 2.0, 256 << 10, 6 << 20, 32.0, 14.0, 5.6), {16: 2.0, 32: 2.0}
    ),
}


def known_machine(name: str, vector_bytes: int, core: str = "") -> Machine | None:
    """Return the machine of a micro-architecture for vectors of so many bytes; None if unknown.

    ``core``: whose constants its model counts with.

    >>> known_machine("zen4", 64).vectors_per_cycle, known_machine("zen1", 16)
    (1.0, None)
    """
    from dataclasses import replace

    known = KNOWN.get(name)
    if known is None or vector_bytes not in known.fmas:
        return None
    return replace(known.machine, vectors_per_cycle=known.fmas[vector_bytes], costs=costs_of(core))
