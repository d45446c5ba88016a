"""How kernels of 16-bit integers are counted: what they move, what is lost, how they are cut."""

from dataclasses import replace

import pytest
from kernels.samples import work_for

from winogen import kernels
from winogen.records import TARGETS, Machine

TARGET = TARGETS["avx512"].adjusted("+vnni")
MACHINE = Machine(l2_bytes=2 << 20)
INT16 = kernels.named("mcmr_int16")


def work_of(channels, filters, size, products="int16", layout="NCHW"):
    weight, shape = (filters, channels, 3, 3), (1, size, size)
    options = dict(tile=(4, 4), padding=1, products=products, layout=layout)
    return work_for(weight, shape, "mcmr", TARGET, **options)


def cycles(work, *block):
    return kernels.named(work.variant).cycles(replace(work, block=block), MACHINE)


def test_words_are_half_of_what_floats_are():
    words, floats = (
        kernels.named(work.variant).demands(replace(work, block=(7, 7)))
        for work in (work_of(64, 64, 28), work_of(64, 64, 28, None))
    )
    v_words, v_floats = (
        next(move.bytes for move in stages[0].moves if move.what == "V")
        for stages in (words, floats)
    )
    assert v_words == v_floats // 2 == 49 * 36 * 64 * 2
    assert words[1].steps == floats[1].steps / 2 and words[1].products == floats[1].products
    # Rounding is work that comes on top.
    assert words[0].instructions > floats[0].instructions + 49 * 36 * 4 * 4


def test_large_blocks_lose_their_tiles():
    """Pixels, and the strip that they pass through, leave less of L2 to tiles and sums."""
    work = work_of(32, 32, 112)
    assert cycles(work, 7, 28).total > 1.1 * cycles(work, 4, 28).total
    parts = [
        float(INT16.spilled(replace(work, block=(rows, 28)), MACHINE, 78_000, v, 2 * v)[0])
        for rows, v in ((2, 129_024), (5, 322_560), (28, 1_806_336))
    ]
    assert parts[0] == 0 and 0 < parts[1] < 1 and parts[2] == 1


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_a_strip_takes_room_where_there_is_one(layout):
    work = replace(work_of(32, 32, 112, layout=layout), block=(5, 28))
    u, v, y = 78_000, 322_560, 645_120
    strip = INT16.buffers(work)["strip"].bytes if layout == "NCHW" else 0
    needed = u + v + y + 5 * 28 * 16 * (32 + 32) * 4 + strip
    part = float(INT16.spilled(work, MACHINE, u, v, y)[0])
    assert part == pytest.approx((needed - 0.75 * (2 << 20)) / (u + y)) and 0 < part < 1


def test_smaller_blocks_at_the_edge_count_as_such():
    work = work_of(128, 128, 28)
    assert INT16.filled(replace(work, block=(4, 7))) == 7 / 8
    assert INT16.filled(replace(work, block=(7, 7))) == 1
    assert cycles(work, 4, 7).output < 1.01 * cycles(work, 7, 7).output
