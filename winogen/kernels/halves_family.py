"""What kernels have in common whose products are of float16: sums of few terms, and scales.

float16 has 11 bits and ends at 65504. So sums of products are short before they are widened, and
every filter and every image is multiplied by a power of two, which loses nothing: largest numbers
lie below 2^5 then, and no sum of 63 products leaves the range.
"""

from __future__ import annotations

from typing import Any

from winogen.kernels import costs as cost
from winogen.kernels.geometry import strip_size
from winogen.kernels.variant import Buffer
from winogen.kernels.work import Work, blocks
from winogen.records import Machine, Precision, Target

EXTENSION = "fp16"
SCALE_TOP = 4  # largest numbers lie between 2^4 and 2^5
BANDS = 16  # of an image, whose largest numbers are found one by one
ROW_SEGMENT = 64  # columns of a row of planes that are rounded at a time: they stay in L1
_WIDENING = 4  # instructions that make two vectors of float32 of one, and add them to others

# Products of a chain of additions, and how many such sums are added up before they are widened. To
# widen a vector takes four instructions, to add one sum to another one more: 6 for 24
# multiply-adds. Longer sums round more, shorter ones take longer: see docs/numbers.md.
TERMS, CHAINS = 8, 3


class OfHalves:
    """What differs from kernels whose products are of wider numbers."""

    def computes(self, precision: Precision) -> bool:
        """Whether its kernels compute with these types of numbers."""
        asked = Precision.of(precision.arrays, products="float16")
        return precision == asked and precision.transforms == "float32"

    def extensions(self, target: Target) -> tuple[str, ...]:
        """Return those of the target's extensions that its kernels use."""
        return tuple({EXTENSION} & target.extensions)

    def runs_on(self, target: Target) -> bool:
        """Whether a target has what its kernels cannot do without."""
        return EXTENSION in target.extensions

    def summation(self, tuning: Any, channels: int) -> dict[str, int]:
        """Return how it sums: chains of float16, and float32 between blocks of them."""
        return {"block": TERMS * CHAINS, "chains": CHAINS}

    def fixed(self, work: Work) -> dict[str, int]:
        """Return what is compiled in besides layout, numbers, target and tuning."""
        return {
            "terms": TERMS,
            "joined": CHAINS,
            "bands": BANDS,
            "scale_top": SCALE_TOP,
            "row_segment": ROW_SEGMENT,
        }

    def product(self, work: Work, machine: Machine, rows: Any) -> Any:
        """Return the cycles of the GEMM for ``rows`` rows against all filters, in words."""
        costs, steps, total = machine.costs, words(work) * work.taps, 0.0
        call = costs.call_of_one + costs.half_tap * work.taps * blocks(words(work), work.lanes)
        for size, width, times in cost.register_blocks(work, rows):
            step = cost.step(machine, size, width)
            widened = ends(steps) * size * width / machine.vectors_per_cycle
            sums = costs.half_sum * size * width * costs.sum_of_one
            total = total + times * (steps * step + widened + call + sums)
        return total


def ends(steps: Any) -> Any:
    """Return the instructions for every sum of so many terms, besides its multiply-adds."""
    return blocks(steps, TERMS) + _WIDENING * blocks(steps, TERMS * CHAINS)


def words(work: Work) -> int:
    """Return the words of two channels that a group has."""
    return int(blocks(work.channels, 2))


def largest_numbers(work: Work) -> Buffer:
    """Return where the largest numbers of the images are kept."""
    return Buffer(work.batch * BANDS * 4, shared=True)


def schedule(work: Work, parts: int) -> tuple[int, int]:
    """Return (phases, parts of each): before all others come the bands of all images."""
    return 2, max(parts, work.batch * BANDS) if parts else 0


def measured(work: Work, machine: Machine) -> Any:
    """Cycles to find the largest number of every image, which all threads share."""
    size = work.batch * work.groups * work.channels * work.size[0] * work.size[1]
    size *= work.array_itemsize
    return size / machine.read_rate(work.input_bytes) / work.threads


def fill(work: Work, machine: Machine) -> Any:
    """Cycles to fill the strip of a block with words."""
    rows, cols = strip_size(work)
    vectors = rows * cols * blocks(words(work), work.lanes)  # of words
    fetched = (
        rows * cols * work.channels * work.array_itemsize / machine.read_rate(work.input_bytes)
    )
    # Two vectors of numbers become one.
    made = vectors * (2 * cost.arrange(work, machine.costs) + 3 * machine.costs.store)
    return cost.roof(made, fetched, machine.costs.shows)
