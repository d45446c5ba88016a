"""Register blocks by calculation: which block of sums needs the fewest loads and stores per FMA.

The innermost loops of a convolution update a block of ``rows`` pixels x ``vectors`` vectors of
filters. A step loads every vector of filters and every pixel of the block once, and multiplies all
pairs: the larger the block, the fewer loads; the registers bound it. Kelefouras and Keramidas
(IEEE TPDS 2023, section 3.2) call the two sizes R_x and R_m and solve for them in two ways:

- *Method 1* loads the filters at every step: what `solve` returns.
- *Method 2* keeps a row of the kernel in registers while the pixels pass by: `solve_resident`.

Two of their formulas are put right here: stores are divided by all the steps of a sum, and the
input below a block has (rows - 1)·stride + kernel columns.

Nothing here knows a layout or an instruction set: it is counting.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from winogen.errors import InvalidValue

# A block fills at least this part of the registers: a smaller one always loads more.
LEAST_FILLED = 0.85
# Loads may be so many times the fewest for a block with fewer filters, which needs less of a cache.
PATIENCE = 1.08


@dataclass(frozen=True)
class RegisterBlock:
    """A block of sums, with what it costs.

    >>> RegisterBlock(rows=6, vectors=4, loads=0.41667, registers=29)
    RegisterBlock(rows=6, vectors=4, loads=0.41667, registers=29, stores=0.0, resident=False)
    """

    rows: int  # pixels, each broadcast to all lanes: R_x
    vectors: int  # of filters: R_m
    loads: float  # per FMA
    registers: int  # that it needs
    stores: float = 0.0  # per FMA
    resident: bool = False  # whether a row of the kernel stays in registers: Method 2

    @property
    def accesses(self) -> float:
        """Loads and stores per FMA."""
        return self.loads + self.stores


@dataclass(frozen=True)
class Extent:
    """How much of a layer there is to cut into blocks: pixels of a row, vectors of filters.

    Where a block does not divide them the last one is smaller, and its loads count in full.
    """

    pixels: int
    vectors: int


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


def loads_per_fma(rows: float, vectors: float) -> float:
    """Return the loads per FMA of a block: a step has one for every row and every vector.

    >>> loads_per_fma(14, 1) > 1 > loads_per_fma(14, 2)
    True
    """
    return 1 / vectors + 1 / rows


def registers_needed(rows: int, vectors: int, chains: int = 1, spare: int = 0) -> int:
    """Return the registers of a block: its sums, the shorter of its two sides, one of the other.

    ``chains`` are the chains of additions of every sum; ``spare`` registers are kept free.

    >>> registers_needed(14, 2), registers_needed(5, 5), registers_needed(14, 1, chains=2)
    (31, 31, 30)
    """
    return chains * rows * vectors + min(rows, vectors) + 1 + spare


def registers_of_steps(rows: int, vectors: int, chains: int = 1) -> int:
    """Return those of a kernel that holds its sums and all vectors of a step.

    >>> registers_of_steps(14, 2), registers_of_steps(14, 1, chains=2)
    (30, 30)
    """
    return (rows + 1) * vectors * chains


def blocks(
    registers: int,
    *,
    chains: int = 1,
    spare: int = 0,
    least: float = LEAST_FILLED,
    extent: Extent | None = None,
    sums: Sums | None = None,
) -> Iterator[RegisterBlock]:
    """Yield every block that fills at least a part ``least`` of the registers, and no more.

    By vectors; of those with as many, the one of most rows first.

    Loads per FMA are 1/vectors + 1/rows. With an ``extent``, its last blocks count as well: a row
    of 13 pixels takes three blocks of 5, so that 3/13 replaces 1/5.

    >>> [(block.rows, block.vectors) for block in blocks(16) if min(block.rows, block.vectors) > 1]
    [(6, 2), (4, 3), (3, 4), (2, 6)]
    """
    for vectors in range(1, registers):
        for rows in range(registers // chains, 0, -1):
            needed = registers_needed(rows, vectors, chains, spare)
            if least * registers <= needed <= registers:
                loads = loads_per_fma(rows, vectors)
                if extent:
                    loads = _share(extent.vectors, vectors) + _share(extent.pixels, rows)
                stores = sums.stores(vectors) if sums else 0.0
                yield RegisterBlock(rows, vectors, loads, needed, stores)


def solve(
    registers: int,
    *,
    chains: int = 1,
    spare: int = 0,
    extent: Extent | None = None,
    sums: Sums | None = None,
) -> tuple[RegisterBlock, ...]:
    """Return the block of the fewest accesses by Method 1, and perhaps one of fewer filters.

    The second is the best within `PATIENCE` of the first that has fewer vectors, if there is one:
    it is for layers whose filters do not fit a cache.

    Raises InvalidValue if no block fits.

    >>> [(block.rows, block.vectors, round(block.loads, 3)) for block in solve(32)]
    [(5, 5, 0.4), (6, 4, 0.417)]
    """
    return _two_best(
        list(blocks(registers, chains=chains, spare=spare, extent=extent, sums=sums)),
        registers,
    )


def solve_resident(
    registers: int, kernel: int, stride: int = 1, *, spare: int = 0, sums: Sums | None = None
) -> tuple[RegisterBlock, ...]:
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
                stores = sums.stores(vectors) if sums else 0.0
                legal.append(RegisterBlock(rows, vectors, loads, needed, stores, resident=True))
    return _two_best(legal, registers)


def columns_below(pixels: int, kernel: int, stride: int = 1) -> int:
    """Return the columns of input below ``pixels`` neighbouring outputs.

    >>> columns_below(6, 3), columns_below(6, 3, stride=2)
    (8, 13)
    """
    return (pixels - 1) * stride + kernel


def _share(extent: int, size: int) -> float:
    """Blocks of a size per unit of what they divide."""
    return -(-extent // size) / extent


def _two_best(legal: list[RegisterBlock], registers: int) -> tuple[RegisterBlock, ...]:
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
