"""Cycles, utilisation and buffers of engines: the figures of Maji's thesis, and the rule behind."""

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import winogen
from winogen.errors import InvalidType, InvalidValue, Unsupported
from winogen.hardware import Engine

MEDIUM = Engine(16, 4, 16, 2)


def test_the_windows_of_both_listings():
    engine = Engine(8, 4, 8, 1)
    assert engine.mapping((1, 8, 8, 8), (8, 8, 3, 3)).cycles == 36
    assert engine.mapping((1, 8, 8, 8), (8, 8, 1, 1)).cycles == 16
    assert (engine.accumulators(), engine.accumulators(8 * 8)) == (4, 16)
    assert engine.partial_sums(9) == 9 * 4**2 * 8
    assert engine.mapping((1, 16, 16, 16), (16, 16, 3, 3), padding=1).cycles == 1024


@pytest.mark.parametrize(
    ("channels", "size", "filters", "cycles", "utilisation"),
    [(64, 56, 64, 25088, 1.0), (256, 14, 256, 25600, 0.98), (512, 7, 512, 32768, 1.0),
     (3, 224, 64, 100352, 0.19)],
)  # fmt: skip
def test_cycles_of_layers(channels, size, filters, cycles, utilisation):
    mapping = MEDIUM.mapping((1, channels, size, size), (filters, channels, 3, 3), padding=1)
    assert mapping.cycles == cycles and round(mapping.utilisation, 2) == utilisation


@pytest.mark.parametrize(
    ("engine", "tops"),
    [(Engine(8, 4, 8, 2), 1.024), (MEDIUM, 4.096), (Engine(16, 4, 32, 2), 8.192)],
)
def test_peaks_of_table_6_3(engine, tops):
    assert engine.peak(1e9) == pytest.approx(tops * 1e12)
    assert engine.ports == (engine.L, engine.f_o)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_everything_is_busy_iff_all_sizes_divide(data):
    draw = lambda *sizes: data.draw(st.sampled_from(sizes))
    engine = Engine(draw(1, 2, 8), 4, draw(1, 3, 8), draw(1, 2, 3))
    channels, filters, height, width = (data.draw(st.integers(1, 17)) for _ in range(4))
    mapping = engine.mapping((1, channels, height, width), (filters, channels, 3, 3), padding=1)
    tiles = -(-height // 2) * -(-width // 2)
    divides = channels % engine.f_i == filters % engine.f_o == tiles % engine.L == 0
    assert (mapping.utilisation == 1) == divides and mapping.utilisation <= 1


@pytest.mark.parametrize(
    ("channels", "filters", "kernel", "options", "passes", "tile"),
    [
        (16, 16, (5, 5), {"padding": 2}, 4, (2, 2)),  # 3 + 2 taps along each axis
        (16, 16, (1, 7), {"padding": (0, 3)}, 3, (4, 2)),  # rows are not transformed
        (3, 64, (7, 7), {"stride": 2, "padding": 3}, 9, (2, 2)),  # parts of 4 and of 3 taps
        (3, 96, (11, 11), {"stride": 4}, 16, (2, 2)),  # parts of 3, 3, 3 and 2
        (16, 16, (3, 3), {"stride": 2, "padding": 1}, 4, (2, 2)),  # parts of 2 and of 1
        (16, 16, (1, 1), {"stride": 2}, 1, (4, 4)),
        (16, 16, (3, 3), {"dilation": 2, "padding": 2}, 1, (2, 2)),
        (16, 16, (3, 3), {"dilation": 2, "stride": 2}, 9, (4, 4)),
    ],
)
def test_other_kernels_are_pieces(channels, filters, kernel, options, passes, tile):
    mapping = MEDIUM.mapping((1, channels, 32, 32), (filters, channels, *kernel), **options)
    assert mapping.passes == passes
    assert tuple(part.outputs for part in mapping.parts) == tile


def test_groups_stand_side_by_side():
    depthwise = MEDIUM.mapping((1, 32, 28, 28), (32, 1, 3, 3), padding=1, groups=32)
    assert depthwise.groups_at_once == 16 and depthwise.turns == 2
    assert depthwise.utilisation == 1 / 16
    narrow = Engine(16, 4, 4, 2).mapping((1, 32, 28, 28), (32, 1, 3, 3), padding=1, groups=32)
    assert narrow.groups_at_once == 4 and narrow.filter_blocks == 1
    wide = MEDIUM.mapping((1, 96, 27, 27), (256, 48, 5, 5), padding=2, groups=2)
    assert wide.groups_at_once == 1 and wide.turns == 2


def test_stacked_taps_fill_engines_with_few_channels():
    shapes = (1, 3, 224, 224), (64, 3, 7, 7)
    ways = [
        MEDIUM.mapping(*shapes, stride=2, padding=3, layout=layout)
        for layout in ("pieces", "taps", "stacked pieces", "stacked taps", "auto")
    ]
    assert [way.cycles for way in ways] == [225792, 307328, 50176, 62720, 50176]
    assert ways[-1].layout == "stacked pieces"
    assert all(way.utilisation <= 1 for way in ways)


def test_lanes_of_channels_add_up_what_regions_leave_idle():
    regions = MEDIUM.mapping((1, 256, 14, 14), (256, 256, 3, 3), padding=1)
    channels = MEDIUM.mapping((1, 256, 14, 14), (256, 256, 3, 3), padding=1, lanes="channels")
    assert (regions.cycles, channels.cycles) == (25600, 25088)
    assert channels.utilisation == 1
    best = MEDIUM.mapping((1, 256, 14, 14), (256, 256, 3, 3), padding=1, lanes="auto")
    assert best == channels


@pytest.mark.parametrize(
    ("make", "problem", "message"),
    [
        (lambda: Engine(0, 4, 8, 1), InvalidValue, "f_i: got 0; allowed: an int from 1 to 4096"),
        (lambda: Engine(8, 2, 8, 1), InvalidValue, "T: got 2; allowed: .* at least r = 3"),
        (lambda: Engine(8, 4, 8.0, 1), InvalidType, "f_o: got 8.0"),
        (lambda: Engine(8, 4, 8, 1, m=3), InvalidValue, "m: got 3; allowed: an int from 1 to 2"),
        (lambda: MEDIUM.peak(0), InvalidValue, "clock: got 0"),
        (lambda: MEDIUM.partial_sums(0), InvalidValue, "tiles: got 0"),
        (lambda: MEDIUM.mapping((1, 4, 8, 8)), InvalidType, "weight: got None"),
        (lambda: MEDIUM.mapping((1, 4, 8, 8), (4, 3, 3, 3)), InvalidValue, "input: got 4 channels"),
        (lambda: MEDIUM.mapping((0, 4, 8, 8), (4, 4, 3, 3)), InvalidValue, "batch of 0"),
        (lambda: MEDIUM.mapping((1, 4, 8, 8, 8), (4, 4, 3, 3, 3)), Unsupported, "3 axes"),
        (lambda: MEDIUM.mapping((1, 4, 8, 8), (4, 4, 3, 3), layout="x"), InvalidValue, "layout"),
        (lambda: MEDIUM.mapping((1, 4, 8, 8), (4, 4, 3, 3), lanes="x"), InvalidValue, "lanes"),
        (lambda: MEDIUM.mapping((1, 4, 8, 8), (4, 4, 3, 3), tile=4), InvalidValue, "tile: got 4"),
    ],
)
def test_refusals_name_the_argument(make, problem, message):
    with pytest.raises(problem, match=message):
        make()


def test_the_room_is_reached_from_the_front_door_and_loads_nothing_before():
    script = "import sys, winogen; print('numpy' in sys.modules, winogen.hardware.Engine.__name__)"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "False Engine\n" and winogen.hardware.Engine is Engine
