"""The best register block by calculation: the one with the fewest loads and stores per FMA.

`winogen.kernels.registers` counts the loads of a block of ``rows`` pixels x ``vectors`` vectors of
filters. Kelefouras and Keramidas (IEEE TPDS 2023, section 3.2) call the two sizes R_x and R_m and
solve for them in two ways:

- *Method 1* loads the filters at every step: what `solve` returns.
- *Method 2* keeps a row of the kernel in registers while the pixels pass by: `solve_resident`.

Two of their formulas are put right here: stores are divided by all the steps of a sum, and the
input below a block has (rows - 1)·stride + kernel columns.
"""

from __future__ import annotations

from dataclasses import dataclass

from winogen.errors import InvalidValue
from winogen.kernels.registers import LEAST_FILLED, Extent, RegisterBlock, blocks

# Loads may be so many times the fewest for a block with fewer filters, which needs less of a cache.
PATIENCE = 1.08


@dataclass(frozen=True)
class Solution(RegisterBlock):
    """A register block, with the stores of its sums.

    >>> Solution(rows=6, vectors=4, loads=0.41667, registers=29)
    Solution(rows=6, vectors=4, loads=0.41667, registers=29, stores=0.0, resident=False)
    """

    stores: float = 0.0  # per FMA
    resident: bool = False  # whether a row of the kernel stays in registers: Method 2

    @property
    def accesses(self) -> float:
        """Loads and stores per FMA."""
        return self.loads + self.stores


@dataclass(frozen=True)
class Sums:
    """The sums of a layer, as far as their stores depend on it.

    A vector of sums has ``lanes`` / ``parts`` filters, and ``parts`` channels of each: more than
    one where filters are too few to fill the lanes. In the source: D, KY·KX, m0·d0 and d0.
    """

    channels: int
    taps: int
    lanes: int
    parts: int = 1

    def stores(self, vectors: int) -> float:
        """Return the stores per FMA of blocks of ``vectors`` vectors.

        The parts of a sum are added before the store, so that ``parts`` vectors make one. What is
        left over takes two stores, unless its size is a power of two.

        >>> Sums(channels=64, taps=9, lanes=16).stores(4) == 1 / (64 * 9)
        True
        >>> few = Sums(channels=64, taps=9, lanes=16, parts=4)
        >>> few.stores(4) * 64 / 4 * 9, few.stores(3) * 64 / 4 * 9
        (0.25, 0.6666666666666666)
        """
        left = vectors * (self.lanes // self.parts) % self.lanes
        uneven = left & (left - 1) != 0
        made = -(-vectors // self.parts) + uneven
        return made / vectors * self.parts / (self.channels * self.taps)


def solve(
    registers: int,
    *,
    chains: int = 1,
    spare: int = 0,
    extent: Extent | None = None,
    sums: Sums | None = None,
) -> tuple[Solution, ...]:
    """Return the block of the fewest accesses by Method 1, and perhaps one of fewer filters.

    The second is the best within `PATIENCE` of the first that has fewer vectors, if there is one:
    it is for layers whose filters do not fit a cache.

    Raises InvalidValue if no block fits.

    >>> [(block.rows, block.vectors, round(block.loads, 3)) for block in solve(32)]
    [(5, 5, 0.4), (6, 4, 0.417)]
    """
    found = blocks(registers, chains=chains, spare=spare, extent=extent)
    return _two_best([_solution(block, sums) for block in found], registers)


def _solution(block: RegisterBlock, sums: Sums | None, resident: bool = False) -> Solution:
    stores = sums.stores(block.vectors) if sums else 0.0
    return Solution(block.rows, block.vectors, block.loads, block.registers, stores, resident)


def solve_resident(
    registers: int, kernel: int, stride: int = 1, *, spare: int = 0, sums: Sums | None = None
) -> tuple[Solution, ...]:
    """Return the same by Method 2, where ``kernel`` taps of a row stay in registers.

    A pixel is then loaded once for all the taps of a row, and filters once for all pixels.

    >>> [(block.rows, block.vectors, round(block.loads, 3)) for block in solve_resident(32, 3)]
    [(12, 2, 0.278)]
    """
    legal = []
    for vectors in range(1, registers):
        for rows in range(registers, 0, -1):
            needed = rows * vectors + 1 + kernel * vectors + spare
            if LEAST_FILLED * registers <= needed <= registers:
                pixels = columns_below(rows, kernel, stride)
                loads = pixels / (kernel * rows * vectors) + 1 / rows
                block = RegisterBlock(rows, vectors, loads, needed)
                legal.append(_solution(block, sums, resident=True))
    return _two_best(legal, registers)


def columns_below(pixels: int, kernel: int, stride: int = 1) -> int:
    """Return the columns of input below ``pixels`` neighbouring outputs.

    >>> columns_below(6, 3), columns_below(6, 3, stride=2)
    (8, 13)
    """
    return (pixels - 1) * stride + kernel


def _two_best(legal: list[Solution], registers: int) -> tuple[Solution, ...]:
    """The fewest accesses, then the best of those with fewer vectors, if it is close."""
    if not legal:
        raise InvalidValue(f"registers: got {registers}; allowed: at least 3, for one sum")
    first, *others = sorted(legal, key=lambda block: (block.accesses, block.vectors))
    near = (
        block
        for block in others
        if block.vectors < first.vectors and block.accesses <= PATIENCE * first.accesses
    )
    return (first, *list(near)[:1])
