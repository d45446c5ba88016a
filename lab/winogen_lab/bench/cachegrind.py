"""Counts of a call of a layer by cachegrind: instructions, references, misses of two caches.

Caches are like those of a Cortex-A15: 32 KB of two ways, then 2 MB of sixteen, lines of 64 bytes.
valgrind simulates no prefetching, and no instruction set beyond AVX2.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

CACHES = ("--I1=32768,2,64", "--D1=32768,2,64", "--LL=2097152,16,64")
COUNTS = {  # what cachegrind calls them
    "instructions": ("Ir",),
    "references": ("Dr", "Dw"),
    "D1": ("D1mr", "D1mw"),
    "LL": ("DLmr", "DLmw"),
}


def counted_of(called: str) -> dict[str, int]:
    """Return the `COUNTS` of one call of a program that `winogen_lab.bench.layer_calls` made."""
    one, two = (_totals(called, calls) for calls in (1, 2))
    return {name: two[name] - one[name] for name in COUNTS}


def _totals(program: str, calls: int) -> dict[str, int]:
    """What cachegrind counts of all of a program with so many calls of the layer."""
    found = f"{program}-{calls}.out"
    command = ["valgrind", "--tool=cachegrind", "--cache-sim=yes", *CACHES]
    command += [f"--cachegrind-out-file={found}", program, str(calls)]
    subprocess.run(command, check=True, capture_output=True)
    return summary(Path(found).read_text())


def summary(text: str) -> dict[str, int]:
    """Return the counts at the end of a file of cachegrind's.

    >>> counts = "Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw"
    >>> summary(f"events: {counts}\\nfn=main\\n1 9\\nsummary: 90 2 1 40 8 4 10 2 1\\n")
    {'instructions': 90, 'references': 50, 'D1': 10, 'LL': 5}
    """
    lines = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    numbers = dict(zip(lines["events"].split(), map(int, lines["summary"].split())))
    return {name: sum(numbers[event] for event in events) for name, events in COUNTS.items()}
