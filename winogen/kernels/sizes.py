"""Which other sizes a variant's tuning may have for one layer.

Sizes that do not `fit` are never compiled: a register block beyond the registers would be kept on
the stack, and sums would be wrong whose depth ends within a chunk of channels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

from winogen.kernels.variant import assign, named
from winogen.kernels.work import Work
from winogen.records import Sizes, Tuning
from winogen.records.tuning import SIZES, STREAMS

# The register block is one step, because its sizes make sense together only.
_BLOCK = ("rows", "vectors", "chains")
_BLOCKS = tuple(product(range(1, 29), (1, 2, 3, 4, 5, 6), (1, 2, 3, 4)))
_FILLED = 0.6  # the least part of the registers that a block is worth trying with
_OTHERS = {
    "pixels": (2, 4, 6, 8, 12, 16),
    "tiles": (1, 2, 3, 4),
    "pair": (1, 2, 3, 4),
    "prefetch_streams": (),  # one more or one less
    "prefetch": (0, 512, 1024, 2048, 4096, 16384),
    "prefetch_level": (1, 2),
    "prefetch_output": (0, 256, 1024),
    "output_level": (1, 2),
    "depth": (16, 32, 48, 64, 96, 128, 256, 512, 1024),
    "non_temporal": (0, 1 << 40),  # bytes of outputs: always past the caches, or never
}
_BANDS = (2, 4, 8, 16, 32, 64)


def steps(work: Work) -> Iterator[Sizes]:
    """Yield the sizes one step from the sizes of ``work`` that fit it.

    ``work`` has a variant assigned.

    >>> from winogen.conv import Layer, choice, cuts
    >>> from winogen.records import TARGETS
    >>> problem = Layer.of((64, 64, 1, 1), "float32", layout="NHWC").problem((1, 56, 56, 64))
    >>> work = assign(cuts.work_of(problem, choice.Choice("direct"), TARGETS["avx2"]))
    >>> [dict(sizes) for sizes in steps(work) if dict(sizes).keys() == {"rows"}]
    [{'rows': 4}, {'rows': 5}]
    """
    usual = named(work.variant).tuning(work.target, work.precision)
    for sizes in _neighbours(work):
        tuning = replace(work.tuning, **sizes)
        if tuning != work.tuning and fits(work, tuning):
            now = {name: getattr(tuning, name) for name in sorted(SIZES)}
            yield tuple((name, size) for name, size in now.items() if size != getattr(usual, name))


def _neighbours(work: Work) -> Iterator[dict[str, Any]]:
    """Sizes to replace a work's, whether they fit or not."""
    variant, tuning = named(work.variant), work.tuning
    if "rows" in variant.tunable:
        free = tuple(name for name in _BLOCK if name not in variant.tunable)
        for block in _BLOCKS:
            sizes: dict[str, Any] = dict(zip(_BLOCK, block))
            if any(sizes[name] != getattr(tuning, name) for name in free):
                continue
            changed = replace(tuning, **sizes)
            if variant.registers(changed) < _FILLED * work.target.registers:
                continue
            if "band" in variant.uses:
                sizes["band"] = -(-tuning.band // changed.vectors) * changed.vectors
            yield sizes
    for name in variant.tunable:
        values = _OTHERS.get(name, ())
        if name == "prefetch_streams":
            values = tuple(tuning.prefetch_streams ^ bit for bit in _bits())
        if name == "band":
            values = tuple(-(-size // tuning.vectors) * tuning.vectors for size in _BANDS)
        yield from ({name: value} for value in dict.fromkeys(values))


def fits(work: Work, tuning: Tuning) -> bool:
    """Whether the variant of ``work`` can run with these sizes, its sums in registers."""
    variant = named(work.variant)
    if min([1, *(getattr(tuning, name) for name in variant.uses)]) < 1:
        return False
    if tuning.depth < 1 or not variant.sizes_fit(work, tuning) or not _can_fetch(tuning):
        return False
    # Numbers that are broadcast take a register, unless they come with the instruction.
    room = work.target.registers - (not work.target.broadcasts)
    return variant.registers(tuning) <= room


def _bits() -> set[int]:
    """The bits of single streams."""
    return {stream for stream in STREAMS.values() if stream.bit_count() == 1}


def _can_fetch(tuning: Tuning) -> bool:
    """Whether what it says of prefetching makes sense."""
    ahead, levels = (tuning.prefetch, tuning.prefetch_output), _OTHERS["prefetch_level"]
    return (
        min(ahead) >= 0
        and 0 <= tuning.prefetch_streams <= sum(_bits())
        and {tuning.prefetch_level, tuning.output_level} <= set(levels)
    )


def allowed(work: Work, sizes: Sizes) -> bool:
    """Whether ``work``, to which no variant is assigned yet, can be computed with these sizes."""
    plain = assign(replace(work, sizes=()))
    tunable = named(plain.variant).tunable
    if any(name not in tunable or type(value) is not int for name, value in sizes):
        return False
    return all(0 <= value <= 1 << 40 for _, value in sizes) and fits(
        plain, plain.tuning.with_sizes(sizes)
    )
