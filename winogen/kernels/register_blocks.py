"""The register blocks for a layer: all that the target has room for, fewest loads first.

`winogen.kernels.registers` counts loads for any block. Here are the bounds of the micro-kernels:
they hold the vectors of one step and fetch the numbers of the rows one by one, and gcc keeps no
more sums in registers than in the block that was measured. So the emitted loops have the loads of
the formula and no sum on the stack, which a test reads in their disassembly.
"""

from __future__ import annotations

from winogen.kernels import registers as counting
from winogen.kernels import tuning
from winogen.kernels.registers import Extent, RegisterBlock
from winogen.kernels.variant import named
from winogen.kernels.work import Work, blocks, even
from winogen.records import Sizes, Target

# Vectors that one instruction loads on every target whose FMAs take numbers from lanes. With more,
# gcc keeps some of them on the stack.
_LOADED_AT_ONCE = 3
# Blocks with so many times the loads of the best are not worth a kernel.
_MOST_LOADS = 1.4


def register_blocks(work: Work) -> list[RegisterBlock]:
    """Return the register blocks for a layer, fewest loads per FMA first.

    ``work`` has its variant assigned. They are the blocks of most rows for each number of vectors,
    as long as more vectors mean fewer loads, which count the last blocks of a row and of the
    filters. Kernels cut a row into even panels, 28 pixels by a block of 9 rows into four of 7: so
    rows that divide a map's width need no kernel of their own. Variants whose block is not free
    have none.
    """
    if named(work.variant).in_lanes is None:
        return []
    target, chains, extent = work.target, work.tuning.chains, _extent(work)
    front: list[RegisterBlock] = []
    for block in counting.blocks(
        target.registers, chains=chains, least=0, extent=extent, together=work.together
    ):
        if block.vectors > extent.vectors or not is_kept(target, block, chains):
            continue
        # They come by vectors, of each number the one of most rows first, which has fewest loads.
        if not front or block.loads < front[0].loads:
            front.insert(0, block)
    return [block for block in front if block.loads <= _MOST_LOADS * front[0].loads]


def outputs_of(work: Work, block: RegisterBlock) -> tuple[int, int]:
    """Return the pixels and the filters of a block, as the kernel cuts this layer."""
    wide = block.vectors * work.lanes
    if named(work.variant).in_lanes == "pixels":
        return wide, block.rows
    return even(work.out[1], block.rows), wide


def _extent(work: Work) -> Extent:
    pixels, filters = work.out[1], work.filters
    if named(work.variant).in_lanes == "pixels":
        return Extent(filters, blocks(pixels, work.lanes))
    return Extent(pixels, blocks(filters, work.lanes))


def is_kept(target: Target, block: RegisterBlock, chains: int = 1) -> bool:
    """Whether the micro-kernel keeps all sums of a block in the registers of a target.

    >>> from winogen.records import TARGETS
    >>> blocks = [RegisterBlock(rows, vectors, 0, 0) for rows, vectors in ((14, 2), (5, 5))]
    >>> [is_kept(TARGETS["avx512"], block) for block in blocks], is_kept(TARGETS["avx2"], blocks[0])
    ([True, True], False)
    >>> [is_kept(TARGETS["neon"], RegisterBlock(*size, 0, 0)) for size in ((10, 2), (7, 3), (5, 4))]
    [True, True, False]
    """
    if target.by_lane:
        held = counting.registers_by_lane(block.rows, block.vectors)
        return chains == 1 and held <= target.registers and block.vectors <= _LOADED_AT_ONCE
    sums = block.rows * block.vectors * chains
    held = counting.registers_of_steps(block.rows, block.vectors, chains) + 1
    return held <= target.registers and sums <= 2 * tuning.rows(target)


def sizes_of(work: Work, block: RegisterBlock) -> Sizes:
    """Return a block as sizes that replace the variant's; () if it has them anyway."""
    own = work.tuning
    if (block.rows, block.vectors) == (own.rows, own.vectors):
        return ()
    sizes = (("rows", block.rows), ("vectors", block.vectors))
    if "band" not in named(work.variant).uses:
        return sizes
    return (("band", max(1, own.band // block.vectors) * block.vectors), *sizes)  # whole blocks
