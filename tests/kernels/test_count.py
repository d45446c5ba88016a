"""What variants count is what the problem needs: its multiplications, and the bytes of its arrays.

The problem is the kernel call before a variant looks at it. What it needs is computed here from
its sizes alone.
"""

from dataclasses import replace
from math import prod

import numpy as np
import pytest
from kernels.samples import LAYOUTS, TILES, call_for, cuts, named, reaching, seen, spread_of_calls

from winogen import kernels
from winogen.kernels.geometry import trimmed
from winogen.records import NUMBERS, PRODUCT_TYPES, TARGETS, Machine, Precision

# Types of arrays, of packed filters and of products; and the targets.
AVX512 = TARGETS["avx512"].adjusted("+vnni+fp16+bf16")
FORMATS = (
    ("float32", None, None),
    ("float64", None, None),
    ("float16", None, None),
    ("bfloat16", None, None),
    ("float32", "float16", None),
    ("bfloat16", "flyte24", None),
    ("float32", None, "int16"),
    ("float32", None, "int8"),
    ("float32", None, "float16"),
    ("float16", None, "float16"),
    ("float32", None, "bfloat16"),
)
OTHERS = [TARGETS[name] for name in ("avx2", "sse2", "neon", "generic")]
KINDS = [
    *((AVX512, *numbers) for numbers in FORMATS),
    *((target, "float32", None, None) for target in OTHERS),
    *(
        pytest.param((target, "float32", None, products), marks=pytest.mark.thorough)
        for target in OTHERS
        for products in ("int16", "int8", "bfloat16")
    ),
]
# How numpy pads a row as the modes of a layer say; -1: nothing is read.
MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
SOME = 5  # of the calls that a variant computes, so many of each kind and layout


def calls_of(algorithm, layout, target, dtype, packed, products):
    """Variant -> some of the calls that it computes, before it looks at them, and as it does."""
    found = {}
    kind = algorithm, layout, dtype, target, "unswitch", TILES[0], products, packed
    for call in spread_of_calls(*kind)[::3]:
        name = kernels.first_that_applies(call).name
        found.setdefault(name, []).append(call)
    for calls in found.values():
        for call in calls[:: 1 + len(calls) // SOME]:
            yield call, seen(call)


def multiplications(call, skipped=(False, False)):
    """Those of the outputs; of tiles, those of all positions of all tiles.

    ``skipped``: along which axes zeros around the image are not multiplied.
    """
    places = [
        out * taps if t is None else -(-out // t.m) * t.products * (taps // t.r)
        for out, taps, t in zip(call.out, call.kernel, call.transforms)
    ]
    for axis in (0, 1):
        if skipped[axis] and call.padding_mode == "zeros":
            places[axis] = int((places_read(call, axis) >= 0).sum())
        elif skipped[0]:  # columns that no output reads are left out even so
            places[axis] = call.out[axis] * trimmed(call).kernel[axis]
    return call.batch * call.groups * call.channels * call.filters * prod(places)


def axes_skipped(call, work):
    """Along which axes a variant skips zeros around the image."""
    reads_in_place = work.variant == "depthwise_planes" and named(work).in_place(work)
    if work.variant == "depthwise_in_place" or reads_in_place:
        return True, True
    skips = named(work).skips_padding
    return skips, skips and bool(named(work).fields(work).get("skips_columns"))


def places_read(call, axis):
    """Which row or column of the input each output reads with each tap; -1: zeros."""
    begin, end = call.part[2 * axis : 2 * axis + 2]
    size, before = call.size[axis], call.padding[axis]
    places = (
        np.arange(begin, end)[:, None] * call.stride[axis]
        + np.arange(call.kernel[axis]) * call.dilation[axis]
    )
    behind = max(0, int(places.max()) + 1 - before - size)
    mode = MODES.get(call.padding_mode)
    how = {"mode": mode} if mode else {"mode": "constant", "constant_values": -1}
    return np.pad(np.arange(size), (before, behind), **how)[places]


def needed(call, axis):
    """How many rows or columns of the input some output needs."""
    read = places_read(call, axis)
    return len(set(read[read >= 0].tolist()))


def moved(stages, what, writes=False):
    """Bytes of an array that the stages read or write."""
    moves = (move for stage in stages for move in stage.moves)
    return sum(move.bytes for move in moves if move.what == what and move.writes == writes)


def together(call):
    """Numbers that one instruction multiplies."""
    return call.target.vector_bytes // NUMBERS[call.precision.products].itemsize


def check(call, work):
    variant = named(work)
    inputs = call.batch * call.groups * call.channels * needed(call, 0) * needed(call, 1)
    outputs = call.batch * call.groups * call.filters * prod(call.out)
    kernel = trimmed(call).kernel if variant.skips_padding else call.kernel
    taps = [t.products * k // t.r if t else k for k, t in zip(kernel, call.transforms)]
    filters = call.groups * call.filters * call.channels * prod(taps)
    for cut in cuts(work):
        stages = variant.demands(cut)
        multiplied = multiplications(call, axes_skipped(call, cut))
        assert sum(stage.products for stage in stages) == pytest.approx(multiplied, rel=1e-12)
        assert moved(stages, "input") >= inputs * call.array_itemsize
        assert moved(stages, "output", writes=True) == outputs * call.array_itemsize
        assert moved(stages, "U") >= filters * call.precision.filter_itemsize
        assert not moved(stages, "input", writes=True) and not moved(stages, "U", writes=True)
        moves = [move for stage in stages for move in stage.moves]
        assert all(move.bytes > 0 and move.size >= 0 for move in moves)
        steps = sum(stage.steps for stage in stages)
        assert steps * together(call) >= multiplied * (1 - 1e-12)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind[0].name}-{kind[1:]}")
def test_counts_are_those_of_the_problem(kind, layout):
    target, dtype, packed, products = kind
    precision = Precision.of(dtype, packed, products)
    for algorithm in kernels.algorithms(precision, target):
        for call, work in calls_of(algorithm, layout, *kind):
            check(call, work)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("products", [None, *PRODUCT_TYPES])
def test_no_lane_is_idle_where_all_sizes_are_whole(products, layout):
    options = {"layout": layout, "products": products, "padding": 1}
    for algorithm in kernels.algorithms(Precision.of("float32", products=products), AVX512):
        tile = {"winograd1d": (1, 4), "winograd2d": (4, 4), "mcmr": (4, 4)}.get(algorithm)
        call = call_for((64, 64, 3, 3), (2, 32, 32), algorithm, AVX512, tile=tile, **options)
        work = replace(seen(call), block=(4, 8))
        stages = named(work).demands(work)
        multiplied = multiplications(call, axes_skipped(call, work))
        steps = sum(stage.steps for stage in stages)
        assert steps * together(call) == pytest.approx(multiplied, rel=1e-12)


def test_inputs_are_read_once_for_each_block_that_sees_them():
    call = call_for((16, 16, 3, 3), (1, 9, 10), "direct", AVX512, padding=1, stride=(2, 1))
    work = replace(seen(call), block=(2, 4))  # of 5 x 10 outputs
    rows = (1 + 3) + 5 + 2  # the first row of the first block is padding, as is the last of all
    cols = (1 + 4) + 6 + 3
    assert work.out == (5, 10)
    assert moved(named(work).demands(work), "input") == rows * cols * 16 * 4


@pytest.mark.parametrize("name", kernels.variants())
def test_predictions_are_the_price_of_the_count(name, monkeypatch):
    """Twice the count is about twice the time: hardly anything is charged for besides."""
    variant = kernels.named(name)
    layouts = (reaching(variant, layout, "float32", AVX512) for layout in LAYOUTS)
    work = next(work for found in layouts for works in found.values() for work in works)
    cut = replace(next(cuts(work)), threads=1)
    once, stages = variant.cycles(cut, Machine()).total, variant.count(cut)
    doubled = [
        replace(2 * stage, product=replace(stage.product, times=2 * stage.product.times))
        for stage in stages
    ]
    monkeypatch.setattr(type(variant), "count", lambda *_: doubled)
    assert variant.cycles(cut, Machine()).total == pytest.approx(2 * once, rel=0.25)
