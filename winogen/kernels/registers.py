"""The register blocks that suit a layer: those that a target has room for, fewest loads first.

`winogen.loops.registers` counts loads for any block. Here are the bounds of the micro-kernels: they
hold the vectors of one step and fetch the numbers of the rows one by one, and gcc keeps no more sums
in registers than in the block that was measured. So the emitted loops have the loads of the formula
and no sum on the stack, which a test reads in their disassembly.
"""

from __future__ import annotations

from winogen.kernels import tuning
from winogen.kernels.variant import named
from winogen.kernels.work import Work
from winogen.loops.registers import RegisterBlock, blocks
from winogen.records import Target, Tuning

# Blocks with so many times the loads of the best are not worth a kernel.
_MOST_LOADS = 1.4

Sizes = tuple[tuple[str, int], ...]


def register_blocks(work: Work) -> list[Sizes]:
    """Return the register blocks for a layer, as sizes that replace those of its variant's tuning.

    ``work`` has its variant assigned. The first are (): the block that the target has for all
    layers. The others are the blocks of most rows for each number of vectors, as long as more
    vectors mean fewer loads per FMA; the fewest come first. Loads count the last blocks of a row
    and of the filters. Kernels cut a row into even panels, 28 pixels by a block of 9 rows into four
    of 7: so rows that divide a map's width need no kernel of their own. Variants whose block is not
    free have no others.
    """
    own, target = work.tuning, work.target
    extent = named(work.variant).register_extent(work)
    if extent is None:
        return [()]
    front: list[RegisterBlock] = []
    for block in blocks(target.registers, chains=own.chains, least=0, extent=extent):
        if block.vectors > extent.vectors or not is_kept(target, block, own.chains):
            continue
        # Blocks come by vectors, of each number the one of most rows first, which has fewest loads.
        if not front or block.loads < front[0].loads:
            front.insert(0, block)
    return [()] + [
        sizes_of(own, block)
        for block in front
        if block.loads <= _MOST_LOADS * front[0].loads
        and (block.rows, block.vectors) != (own.rows, own.vectors)
    ]


def is_kept(target: Target, block: RegisterBlock, chains: int = 1) -> bool:
    """Whether the micro-kernel keeps all sums of a block in the registers of a target.

    >>> from winogen.loops.registers import solve
    >>> from winogen.records import TARGETS
    >>> [is_kept(TARGETS[name], solve(TARGETS[name].registers)[0]) for name in TARGETS]
    [True, True, True, False, True]
    """
    sums = block.rows * block.vectors * chains
    held = sums + block.vectors * chains + 1
    return held <= target.registers and sums <= 2 * tuning.rows(target)


def sizes_of(own: Tuning, block: RegisterBlock) -> Sizes:
    """Return a block as sizes that replace those of a tuning; a band is a number of whole blocks.

    >>> sizes_of(Tuning("none", rows=14, vectors=2), RegisterBlock(9, 3, 0.444, 31))
    (('band', 15), ('rows', 9), ('vectors', 3))
    """
    band = max(1, own.band // block.vectors) * block.vectors
    return (("band", band), ("rows", block.rows), ("vectors", block.vectors))
