"""Register blocks: the published coefficients to the printed digit, and counts by walking."""

import pytest

from winogen.errors import InvalidValue
from winogen.kernels.registers import Extent, blocks
from winogen_lab.loops import registers
from winogen_lab.loops.registers import Solution, Sums, solve, solve_resident


@pytest.mark.parametrize(
    "vectors, rows, loads",
    [
        (1, 30, 1.033),
        (2, 14, 0.571),
        (3, 9, 0.444),
        (4, 6, 0.417),
        (5, 5, 0.400),
        (6, 4, 0.417),
        (8, 3, 0.458),
    ],
)
def test_the_coefficients_of_32_registers(vectors, rows, loads):
    by_size = {(block.vectors, block.rows): block for block in blocks(32)}
    assert round(by_size[vectors, rows].loads, 3) == loads


def shown(found):
    return [(block.vectors, block.rows, round(block.loads, 3)) for block in found]


@pytest.mark.parametrize(
    "found, expected",
    [
        # the minimum, and the best within 8 % of it that has fewer vectors
        (solve(32), [(5, 5, 0.400), (4, 6, 0.417)]),
        # the published (2, 6) is not the minimum of its own formula
        (solve(16), [(3, 4, 0.583)]),
        (solve(16, spare=2), [(3, 3, 0.667), (2, 5, 0.700)]),
        (solve_resident(32, kernel=3), [(2, 12, 0.278)]),
        (solve_resident(32, kernel=7), [(1, 24, 0.220)]),
        (solve(32, chains=2), [(3, 4, 0.583)]),
    ],
)
def test_the_solutions(found, expected):
    assert shown(found) == expected


def test_no_legal_block_is_better_than_the_solution():
    """Against all sizes, counted without the solver."""
    for count in range(8, 65):
        legal = {
            (v, r): 1 / v + 1 / r
            for v in range(1, count)
            for r in range(1, count)
            if 0.85 * count <= v * r + min(v, r) + 1 <= count
        }
        first, *rest = solve(count)
        least = min(legal.values())
        assert legal[first.vectors, first.rows] == least == first.loads
        near = {size: x for size, x in legal.items() if x <= 1.08 * least}
        fewer = [(x, v, r) for (v, r), x in near.items() if v < first.vectors]
        assert [(b.loads, b.vectors, b.rows) for b in rest] == sorted(fewer)[:1]


def walked(pixels, vectors, block, steps):
    """Loads and FMAs of all blocks of a row of pixels and the filters above it."""
    loads = fmas = 0
    for x in range(0, pixels, block.rows):
        for m in range(0, vectors, block.vectors):
            high, wide = min(block.rows, pixels - x), min(block.vectors, vectors - m)
            loads += steps * (high + wide)
            fmas += steps * high * wide
    return loads / fmas


@pytest.mark.parametrize("pixels, vectors", [(13, 24), (28, 16), (7, 32), (56, 2), (5, 1)])
def test_loads_count_the_last_blocks(pixels, vectors):
    for block in blocks(32, extent=Extent(pixels, vectors)):
        assert block.loads == pytest.approx(walked(pixels, vectors, block, steps=9))


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("kernel", [3, 5])
def test_resident_filters_load_every_pixel_once(kernel, stride):
    for block in solve_resident(32, kernel, stride):
        pixels = {x * stride + k for x in range(block.rows) for k in range(kernel)}
        if stride <= kernel:
            assert len(pixels) == registers.columns_below(block.rows, kernel, stride)
        fmas = kernel * block.rows * block.vectors
        filters = kernel * block.vectors
        assert block.loads == pytest.approx((len(pixels) + filters) / fmas)
        assert block.registers == block.rows * block.vectors + 1 + kernel * block.vectors <= 32


@pytest.mark.parametrize("parts", [1, 2, 4])
@pytest.mark.parametrize("vectors", range(1, 9))
def test_stores_leave_once_per_sum(parts, vectors):
    """Of a block of `vectors` vectors, all its channels and taps."""
    lanes, channels, taps = 16, 64, 9
    numbers = vectors * lanes // parts
    whole, left = divmod(numbers, lanes)
    made = whole + (left > 0) + (left not in (0, 1, 2, 4, 8))
    fmas = vectors * taps * channels // parts
    sums = Sums(channels, taps, lanes, parts)
    assert sums.stores(vectors) == pytest.approx(made / fmas)
    best = solve(32, sums=sums)
    assert all(one.accesses == one.loads + sums.stores(one.vectors) for one in best)


def test_stores_decide_between_blocks_where_sums_are_short():
    """Four parts: three vectors end in two stores, four in one."""
    sums = Sums(channels=4, taps=1, lanes=16, parts=4)
    assert sums.stores(3) == 2 / 3 and sums.stores(4) == 1 / 4
    assert solve(32, sums=sums)[0].vectors == 4 != solve(32)[0].vectors


def test_without_room_there_is_no_block():
    with pytest.raises(InvalidValue, match="registers: got 2; allowed"):
        solve(2)
    assert solve(3) == (Solution(1, 1, 2.0, 3),)
