"""What kernels have in common whose products are of float16: sums of few terms, and scales.

float16 has 11 bits and ends at 65504. So sums of products are short before they are widened, and
every filter and every image is multiplied by a power of two, which loses nothing: largest numbers
lie below 2^5 then, and no sum of 63 products leaves the range.
"""

from __future__ import annotations

from typing import Any

from winogen.kernels import costs as cost
from winogen.kernels.count import Demand, Move, PanelProduct, Stages
from winogen.kernels.variant import Buffer, Variant
from winogen.kernels.work import Work, blocks
from winogen.records import Machine

SCALE_TOP = 4  # largest numbers lie between 2^4 and 2^5
BANDS = 16  # of an image, whose largest numbers are found one by one
_WIDENING = 4  # instructions that make two vectors of float32 of one, and add them to others

# Products of a chain of additions, and how many such sums are added up before they are widened. To
# widen a vector takes four instructions, to add one sum to another one more: 6 for 24
# multiply-adds. Longer sums round more, shorter ones take longer: see docs/numbers.md.
TERMS, CHAINS = 8, 3


# Buffers that others have none of.
BUFFERS = {"most": "The largest numbers of the images.", "wide": "Sums of float16, widened."}


class OfHalves(Variant):
    """What differs from kernels whose products are of wider numbers."""

    formats: tuple[str, ...] = ("float16",)

    def summation(self, tuning: Any, channels: int) -> dict[str, int]:
        """Return how it sums: chains of float16, and float32 between blocks of them."""
        return {"block": TERMS * CHAINS, "chains": CHAINS}

    def fixed(self, work: Work) -> dict[str, int]:
        """Return what is compiled in besides layout, numbers, target and tuning."""
        return super().fixed(work) | {
            "terms": TERMS,
            "joined": CHAINS,
            "bands": BANDS,
            "scale_top": SCALE_TOP,
        }

    def schedule(self, work: Work) -> tuple[int, int]:
        """Return (phases, parts of each): before all others come the bands of all images."""
        phases, parts = super().schedule(work)
        return 1 + phases, max(parts, _layer(work).batch * BANDS) if parts else 0

    def demands(self, work: Work) -> Stages:
        """Return what the stages do, the search for the largest numbers of all images included."""
        into, multiply, output = super().demands(work)
        scanned = Move("input", scanned_bytes(work), scanned_bytes(work))
        return into + Demand(moves=(scanned,)), multiply, output


def product_cycles(machine: Machine, counted: PanelProduct, call: Any) -> Any:
    """Cycles of products of words, to each of which ``call`` cycles are added."""
    costs, total = machine.costs, 0.0
    for panel in counted.panels:
        widened = counted.ends * panel.sums / machine.vectors_per_cycle
        finished = costs.half_sum * panel.sums * costs.sum_of_one
        each = counted.depth * cost.step(machine, panel)
        total = total + panel.times * (each + widened + call + finished)
    return counted.times * total


def ends(steps: Any) -> Any:
    """Return the instructions for every sum of so many terms, besides its multiply-adds."""
    return blocks(steps, TERMS) + _WIDENING * blocks(steps, TERMS * CHAINS)


def largest_numbers(work: Work) -> Buffer:
    """Return where the largest numbers of the images are kept."""
    return Buffer(_layer(work).batch * BANDS * 4, shared=True)


def wide_sums(work: Work, rows: Any) -> Buffer:
    """Return where sums of float32 of so many rows of a register block wait."""
    return Buffer(2 * rows * work.tuning.vectors * work.lanes * work.itemsize)


def _layer(work: Work) -> Work:
    """The work with the images of the layer, where phases of a dilated one count as images."""
    return work.phased or work


def scanned_bytes(work: Work) -> int:
    """Bytes of all images, whose largest numbers are found before anything else is done."""
    whole = _layer(work)
    size = whole.batch * whole.groups * whole.channels * whole.size[0] * whole.size[1]
    return size * whole.array_itemsize


def measured(work: Work, machine: Machine) -> Any:
    """Cycles to find the largest number of every image, which all threads share."""
    return scanned_bytes(work) / machine.read_rate(work.input_bytes) / work.threads
