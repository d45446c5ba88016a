"""Bytes that a tiled nest reads: against the formulas of the source, and against a cache."""

from dataclasses import replace

import pytest
from laboratory.lru import simulated

from winogen.records import Machine
from winogen_lab.loops import traffic
from winogen_lab.loops.traffic import Convolution, Tile, levels, read_bytes, tiles

VGG = Convolution(1, 256, 256, (3, 3), (56, 56), block_pixels=14, block_filters=32)


@pytest.mark.parametrize(
    "pixels, filters, published, corrected",
    [(6, 64, 608_256, 614_400), (14, 32, 337_920, 344_064)],
)
def test_the_footprints_of_the_source(pixels, filters, published, corrected):
    """It counts as many columns of input as outputs, which a 3x3 kernel needs two more of."""
    layer = replace(VGG, block_pixels=pixels, block_filters=filters)
    assert layer.footprint(columns=pixels).total == published
    assert layer.footprint().total == corrected


@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize("kernel", [(1, 1), (3, 3)])
def test_filters_of_a_tile_that_fit(images, kernel):
    """(Tm, b): IN·M/Tm + F·B."""
    layer = Convolution(images, 64, 128, kernel, (28, 28), block_pixels=14, block_filters=32)
    for filters in (32, 64):
        tile = layer.filter_bytes * filters // 128
        cache = tile + layer.kernel[0] * layer.row_bytes + 2 * layer.footprint().inputs
        reads = read_bytes(layer, Tile(filters, 28), cache)
        assert reads == (layer.input_bytes * 128 // filters, layer.filter_bytes * images)


def test_filters_that_pass_by():
    """(M, b) of a 1x1 layer: IN + F·B·Y·X/R_x; rows that a 3x3 kernel shares are read again."""
    layer = Convolution(2, 64, 512, (1, 1), (28, 28), block_pixels=14, block_filters=32)
    cache = 32 << 10
    assert read_bytes(layer, Tile(512, 28), cache) == (
        layer.input_bytes,
        layer.filter_bytes * 2 * 28 * 28 // 14,
    )
    square = replace(layer, kernel=(3, 3))
    inputs, filters = read_bytes(square, Tile(512, 28), 128 << 10)
    assert filters == square.filter_bytes * 2 * 28 * 28 // 14
    assert inputs == 2 * 28 * 3 * square.row_bytes


def test_rows_that_wait_for_the_next_filters():
    """(Tm, Ty, y): inputs once, filters once per tile of rows."""
    cache = VGG.filter_bytes // 8 * 2 + VGG.rows_below(8) * VGG.row_bytes
    assert read_bytes(VGG, Tile(32, 8), cache) == (VGG.input_bytes, 7 * VGG.filter_bytes)


LAYERS = [
    Convolution(images, 4, 32, kernel, (6, 12), (stride, stride), block_pixels=4, block_filters=8)
    for images, kernel, stride in ((1, (3, 3), 1), (2, (1, 1), 1), (1, (3, 3), 2), (2, (5, 1), 1))
]
CACHES = (256, 512, 1024, 2048, 3072, 4096, 6000, 8192, 16_384)


def test_a_simulated_cache_reads_as_much():
    """Within 2 % in most cases. Near the size where something just fits a cache holds a part of it,
    which formulas do not see: there the simulation lies, within 12 %, between what they say for
    caches of two thirds and of one and a half times the size.
    """
    exact = cases = 0
    for layer in LAYERS:
        least = layer.footprint().inputs + layer.block_filters * layer.channels * layer.itemsize
        for tile in tiles(layer):
            for cache in CACHES:
                if cache < least:  # not even the pixels of one register block
                    continue
                seen = simulated(layer, tile, cache)
                here = read_bytes(layer, tile, cache)
                larger = read_bytes(layer, tile, cache * 3 // 2)
                smaller = read_bytes(layer, tile, cache * 2 // 3)
                for low, middle, high in zip(larger, seen, smaller):
                    assert 0.88 * low <= middle <= 1.12 * high, (layer, tile, cache)
                cases += 1
                exact += all(abs(a - b) <= 0.02 * a for a, b in zip(seen, here))
    assert cases > 300 and exact >= 0.85 * cases


def test_tiles_are_even_and_whole():
    found = tiles(VGG)
    assert {tile.filters for tile in found} == {32, 64, 96, 128, 256}
    assert {tile.rows for tile in found} >= {1, 2, 7, 8, 14, 28, 56} and len(found) == len(
        set(found)
    )
    assert {tile.filters for tile in tiles(VGG, [32])} == {32}
    odd = replace(VGG, filters=40)
    assert {tile.filters for tile in tiles(odd)} == {32, 40}


MACHINE = Machine(l2_bytes=1 << 20, l3_bytes=16 << 20, l2_rate=40, l3_rate=10, memory_rate=4)


def test_the_rule_of_the_source_is_lexicographic():
    chosen = traffic.smallest_reads(VGG, MACHINE, tiles(VGG))
    best = levels(VGG, chosen, MACHINE)[::-1]
    assert all(best <= levels(VGG, tile, MACHINE)[::-1] for tile in tiles(VGG))


def test_the_rule_of_bandwidths_weighs_the_levels():
    chosen = traffic.shortest_reads(VGG, MACHINE, tiles(VGG))

    def slowest(tile):
        l2, l3, memory = levels(VGG, tile, MACHINE)
        return max(l2 / 40, l3 / 10, memory / 4)

    assert slowest(chosen) == min(map(slowest, tiles(VGG)))


def test_the_rules_differ_where_a_byte_from_memory_costs_many_from_l2():
    """Inputs larger than L3: the first rule reads them once and filters from L2 for every block."""
    wide = Convolution(1, 64, 512, (1, 1), (512, 512), block_pixels=4, block_filters=16)
    choice = tiles(wide)
    first = traffic.smallest_reads(wide, MACHINE, choice)
    second = traffic.shortest_reads(wide, MACHINE, choice)
    (l2, _, memory), (l2_second, _, memory_second) = (
        levels(wide, tile, MACHINE) for tile in (first, second)
    )
    assert memory <= memory_second and l2 > l2_second
    assert traffic.slowest_levels(wide, second, MACHINE) < traffic.slowest_levels(
        wide, first, MACHINE
    )


def test_of_equals_the_largest_tile():
    """Everything fits everywhere: nothing to choose, so nothing is cut."""
    small = Convolution(1, 4, 16, (1, 1), (4, 4), block_pixels=4, block_filters=16)
    for rule in (traffic.smallest_reads, traffic.shortest_reads):
        assert rule(small, MACHINE, tiles(small)) == Tile(16, 4)
