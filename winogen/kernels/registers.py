"""Register blocks by calculation: the loads per FMA of every block of sums that fits.

The innermost loops of a convolution update a block of ``rows`` pixels x ``vectors`` vectors of
filters. A step loads every vector of filters and every pixel of the block once, and multiplies all
pairs: the larger the block, the fewer loads; the registers bound it. Which suit a layer
says `winogen.kernels.register_blocks`.

Nothing here knows a layout or an instruction set: it is counting.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

# A block fills at least this part of the registers: a smaller one always loads more.
LEAST_FILLED = 0.85


@dataclass(frozen=True)
class RegisterBlock:
    """A block of sums, with what it costs."""

    rows: int  # pixels, each broadcast to all lanes
    vectors: int  # of filters
    loads: float  # per FMA
    registers: int  # that it needs


@dataclass(frozen=True)
class Extent:
    """How much of a layer there is to cut into blocks: pixels of a row, vectors of filters.

    Where a block does not divide them the last one is smaller, and its loads count in full.
    """

    pixels: int
    vectors: int


def loads_per_fma(rows: float, vectors: float, together: int = 1) -> float:
    """Return the loads per FMA of a block: a step has one for every row and every vector.

    Where FMAs take numbers from lanes, one load of a row serves ``together`` steps.

    >>> loads_per_fma(14, 1) > 1 > loads_per_fma(14, 2)
    True
    >>> loads_per_fma(10, 2, together=4)
    0.225
    """
    return 1 / (vectors * together) + 1 / rows


def registers_needed(rows: int, vectors: int, chains: int = 1, spare: int = 0) -> int:
    """Return the registers of a block: its sums, the shorter of its two sides, one of the other.

    ``chains`` are the chains of additions of every sum; ``spare`` registers are kept free.

    >>> registers_needed(14, 2), registers_needed(5, 5), registers_needed(14, 1, chains=2)
    (31, 31, 30)
    """
    return chains * rows * vectors + min(rows, vectors) + 1 + spare


def registers_of_steps(rows: int, vectors: int, chains: int = 1) -> int:
    """Return the registers of a kernel that holds its sums and all vectors of a step.

    >>> registers_of_steps(14, 2), registers_of_steps(14, 1, chains=2)
    (30, 30)
    """
    return (rows + 1) * vectors * chains


def registers_by_lane(rows: int, vectors: int) -> int:
    """Return the registers of a kernel whose FMAs take the numbers of rows from lanes.

    It holds its sums, a vector for each row, and all vectors of a step.

    >>> registers_by_lane(10, 2), registers_by_lane(7, 3)
    (32, 31)
    """
    return rows * vectors + rows + vectors


def blocks(
    registers: int,
    *,
    chains: int = 1,
    spare: int = 0,
    least: float = LEAST_FILLED,
    extent: Extent | None = None,
    together: int = 1,
) -> Iterator[RegisterBlock]:
    """Yield every block that fills at least a part ``least`` of the registers, and no more.

    By vectors; among blocks with equally many, the one of most rows comes first.

    Loads per FMA are 1/vectors + 1/rows. With an ``extent``, its last blocks count as well: a row
    of 13 pixels takes three blocks of 5, so that 3/13 replaces 1/5. Where FMAs take numbers from
    lanes, a load of a row serves ``together`` steps.

    >>> [(block.rows, block.vectors) for block in blocks(16) if min(block.rows, block.vectors) > 1]
    [(6, 2), (4, 3), (3, 4), (2, 6)]
    """
    for vectors in range(1, registers):
        for rows in range(registers // (chains * vectors), 0, -1):
            needed = registers_needed(rows, vectors, chains, spare)
            if least * registers <= needed <= registers:
                loads = loads_per_fma(rows, vectors, together)
                if extent:
                    filters, pixels = _share(extent.vectors, vectors), _share(extent.pixels, rows)
                    loads = filters / together + pixels
                yield RegisterBlock(rows, vectors, loads, needed)


def _share(extent: int, size: int) -> float:
    """Blocks of a size per unit of what they divide."""
    return -(-extent // size) / extent
