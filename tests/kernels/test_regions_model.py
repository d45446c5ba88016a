"""What regions of tiles lose where a block, its sums and its filters do not fit into a cache."""

from dataclasses import replace

import pytest
from kernels.samples import work_for

from winogen import kernels
from winogen.kernels import costs
from winogen.kernels.regions_family import read_from_l2
from winogen.records import TARGETS, Machine

MACHINE = Machine(l2_bytes=2 << 20)
ROOM = 3 << 19  # what can be counted on
MCMR = kernels.named("mcmr")


def work_of(channels, filters, size, **options):
    weight, shape = (filters, channels, 3, 3), (1, size, size)
    return work_for(weight, shape, "mcmr", TARGETS["avx512"], tile=(4, 4), padding=1, **options)


def test_tiles_and_sums_leave_l2_by_degrees():
    def parts(u, v, y):
        return tuple(map(float, MCMR.spilled(work_of(64, 64, 28), MACHINE, u, v, y)))

    third = ROOM // 3
    assert parts(third, third, third) == (0, 0)
    # Half of what passes by has no room beside all tiles: the tiles of the last positions leave.
    # Sums never wait for all tiles: fewer leave.
    assert parts(2 * third, 2 * third, 0) == (0.5, 0.25)
    assert parts(1000, 2 * ROOM, 1000)[0] == 1


@pytest.mark.parametrize("u", [ROOM // 4, ROOM // 2])
def test_filters_come_from_afar_by_degrees(u):
    near, far = u / MACHINE.l2_rate, u / MACHINE.l3_rate
    first = costs.read_beside(MACHINE, u, 1, 0)

    def cycles(kept):
        """Of each item but the first, which reads what a call before it left."""
        return (5 * float(costs.read_beside(MACHINE, u, 5, kept)) - first) / 4

    assert cycles(0) == cycles(ROOM - u) == pytest.approx(near)
    assert cycles(ROOM - u / 2) == pytest.approx((near + far) / 2)
    assert cycles(ROOM) == cycles(9 * ROOM) == pytest.approx(far)
    for items in (0, 1):  # of no images, and of one
        assert costs.read_beside(MACHINE, u, items, 9 * ROOM) == pytest.approx(first)


@pytest.mark.parametrize("items", [1, 2, 7])
def test_the_first_item_reads_filters_from_where_the_call_before_left_them(items):
    """Twice as many bytes as they have pass by until then; in a net of many filters, all others."""
    filters = MACHINE.l3_bytes * 3 // 4
    far, memory = filters / MACHINE.l3_rate, filters / MACHINE.memory_rate
    each = memory / items + far * (items - 1) / items
    assert costs.read_again(MACHINE, filters, items) == pytest.approx(each)
    assert costs.read_beside(MACHINE, filters, items, 9 * ROOM) == pytest.approx(each)
    small = MACHINE.l2_bytes
    alone, net = (
        costs.read_again(MACHINE.among(n), small, 1) for n in (small, MACHINE.l3_bytes + 1)
    )
    assert (alone, net) == (small / MACHINE.l3_rate, small / MACHINE.memory_rate)


def test_panels_of_tiles_read_filters_again_that_have_no_room_in_l1():
    def again(channels, tiles):
        work = replace(work_of(channels, 64, 56), block=(1, tiles))
        return float(read_from_l2(MACHINE, MCMR.count(work)[1]))

    filters = 36 * 512 * 64 * 4
    assert again(512, 14) == 0 and again(64, 28) == 0
    assert again(512, 28) == filters / MACHINE.l2_rate


def test_threads_share_whole_blocks_of_filters():
    """Of three vectors of filters in blocks of two, the busiest of two threads has two."""
    work = replace(work_of(64, 48, 56, threads=2), block=(14, 14), split=1)
    assert work.tuning.vectors == 2
    transformed, multiplied = MCMR._busiest(work, alone=False)
    assert transformed == work.items / 2 and multiplied == pytest.approx(work.items * 2 / 3)
