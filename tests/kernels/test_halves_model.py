"""How tiles whose products are of float16 are counted, and the phase that finds their scales."""

from dataclasses import replace

import pytest
from kernels.samples import work_for

from winogen import kernels
from winogen.kernels import halves_family as halves
from winogen.records import TARGETS, Machine

ABLE = [TARGETS[name].adjusted("+fp16") for name in ("avx512", "neon")]


def work_of(products, target, channels=64, **options):
    """A call of F(4x4, 3x3) in one block."""
    options = {"tile": (4, 4), "padding": 1, "products": products, **options}
    return work_for((64, channels, 3, 3), (2, 28, 28), "mcmr", target, **options)


def demands(work):
    return kernels.named(work.variant).demands(replace(work, block=(7, 7)))


@pytest.mark.parametrize("target", ABLE, ids=lambda target: target.name)
def test_tiles_and_products_are_half_of_those_of_floats(target):
    words, floats = (demands(work_of(kind, target)) for kind in ("float16", None))
    tiles = [
        next(move.bytes for move in stages[0].moves if move.what == "V")
        for stages in (words, floats)
    ]
    assert tiles[0] == tiles[1] // 2 == 2 * 49 * 36 * 64 * 2
    assert words[1].steps == floats[1].steps / 2 and words[1].products == floats[1].products
    assert words[1].bytes("U") == floats[1].bytes("U") / 2
    # Scaling and rounding come on top: of tiles, and of outputs.
    lanes = target.lanes("float32")
    assert words[0].instructions == floats[0].instructions + 2 * 2 * 49 * 36 * 64 / lanes
    assert words[2].instructions == floats[2].instructions + 2 * 28 * 28 * 64 / lanes
    # All images are read once more.
    assert words[0].bytes("input") == floats[0].bytes("input") + 2 * 64 * 28 * 28 * 4


@pytest.mark.parametrize("threads, split", [(1, 0), (4, 1)])
def test_before_all_blocks_come_bands_of_images(threads, split):
    floats, words = (
        replace(work_of(kind, ABLE[0], threads=threads), block=(2, 7), split=split)
        for kind in (None, "float16")
    )
    phases, parts = kernels.named(floats.variant).schedule(floats)
    assert kernels.named(words.variant).schedule(words) == (
        1 + phases,
        max(parts, 2 * halves.BANDS),
    )


def test_images_of_a_dilated_layer_have_one_scale_for_all_phases():
    work = work_of("float16", ABLE[0], padding=2, dilation=2)
    variant = kernels.named(work.variant)
    assert work.batch == 2 * 4 and variant.name == "mcmr_float16"
    assert variant.buffers(work)["most"].bytes == 2 * halves.BANDS * 4
    assert halves.scanned_bytes(work) == 2 * 64 * 28 * 28 * 4


def test_the_price_has_the_search_for_the_largest_numbers():
    work, machine = work_of("float16", ABLE[0]), Machine()
    variant = kernels.named(work.variant)
    cycles = variant.cycles(work, machine)
    assert cycles.input > halves.measured(work, machine) > 0
    whole = super(type(variant), variant).cycles(work, machine)
    assert cycles.input - whole.input == pytest.approx(halves.measured(work, machine))
