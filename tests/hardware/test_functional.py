"""What an engine computes equals direct convolution in integers, in every order, for any layer."""

import numpy as np
import pytest
from conv.reference import convolve as directly

from winogen import cook_toom, winograd
from winogen.errors import InvalidType, InvalidValue, Unsupported
from winogen.hardware import Engine
from winogen.hardware.arithmetic import (
    check_channels,
    growth,
    held_channels,
    integers,
    rounded_channels,
    transform,
)
from winogen.hardware.functional import convolve
from winogen.hardware.mapping import LANES, LAYOUTS
from winogen.hardware.schedules import SCHEDULES

# Sizes that divide nothing; the last tile of each axis sticks out.
LAYERS = {
    "3x3": ((2, 5, 9, 7), (7, 5, 3, 3), {"padding": 1}),
    "1x1": ((1, 5, 5, 6), (4, 5, 1, 1), {}),
    "1x1/2": ((1, 2, 9, 9), (4, 2, 1, 1), {"stride": 2}),
    "5x5": ((1, 3, 11, 10), (4, 3, 5, 5), {"padding": 2}),
    "1x7": ((1, 3, 6, 13), (4, 3, 1, 7), {"padding": (0, 3)}),
    "7x7/2": ((1, 3, 15, 18), (4, 3, 7, 7), {"stride": 2, "padding": 3}),
    "11x11/4": ((1, 3, 27, 23), (4, 3, 11, 11), {"stride": 4}),
    "2x3/2x1": ((1, 2, 9, 8), (3, 2, 2, 3), {"stride": (2, 1), "padding": 1}),
    "dilated": ((1, 2, 13, 12), (4, 2, 3, 3), {"dilation": (2, 3), "padding": 2}),
    "dilated/2": ((1, 2, 13, 12), (4, 2, 3, 3), {"dilation": 2, "stride": 2, "padding": 1}),
    "grouped": ((1, 8, 7, 7), (6, 4, 3, 3), {"padding": 1, "groups": 2}),
    "depthwise": ((1, 7, 7, 7), (7, 1, 3, 3), {"padding": 1, "groups": 7}),
}
ENGINES = (Engine(2, 4, 3, 2), Engine(3, 6, 2, 2), Engine(2, 7, 2, 1, m=4), Engine(2, 4, 2, 3, r=1))
ONES = np.ones((1, 1, 4, 4), int)
_RANDOM = np.random.default_rng(0)


def pair(value):
    return value if isinstance(value, tuple) else (value, value)


def expected(x, w, options):
    padding = [(end, end) for end in pair(options.get("padding", 0))]
    spread = {name: pair(options.get(name, 1)) for name in ("stride", "dilation")}
    return directly(x, w, padding=padding, groups=options.get("groups", 1), **spread)


def bytes_of(shape):
    return _RANDOM.integers(-128, 128, shape)


@pytest.mark.parametrize("engine", ENGINES, ids=str)
@pytest.mark.parametrize("name", LAYERS)
def test_every_schedule_and_layout_equals_direct_convolution(engine, name):
    input_shape, weight_shape, options = LAYERS[name]
    x, w = bytes_of(input_shape), bytes_of(weight_shape)
    want = expected(x, w, options)
    for number, layout in enumerate(LAYOUTS):
        for schedule in SCHEDULES:
            lanes = LANES[number % 2]
            y = convolve(engine, x, w, schedule=schedule, layout=layout, lanes=lanes, **options)
            np.testing.assert_array_equal(y, want, f"{schedule} {layout} {lanes}")


@pytest.mark.parametrize("lanes", LANES)
def test_sums_at_their_limit_still_hold(lanes):
    """All products of one sign and as large as can be, as many channels as 32 bits hold."""
    engine = Engine(64, 6, 1, 2)
    channels = held_channels(transform(engine))
    x = np.full((1, channels, 4, 4), -128)
    w = np.full((1, channels, 3, 3), -128)
    y = convolve(engine, x, w, lanes=lanes, padding=1)
    np.testing.assert_array_equal(y, expected(x, w, {"padding": 1}))
    assert y.max() == channels * 9 * 2**14


def test_what_the_sums_hold():
    points, gaussian = transform(Engine(1, 6, 1, 1)), transform(Engine(1, 7, 1, 1, m=4))
    assert [str(p) for p in points.points] == ["0", "1", "-1", "2", "-2", "inf"]
    assert gaussian.products == 7 and gaussian.verify()
    assert held_channels(points) == 227
    assert held_channels(gaussian) == 910
    assert held_channels(transform(Engine(1, 4, 1, 1))) == 3640
    assert held_channels(points, (5, 5)) == 227 * 9 // 25
    assert held_channels(points, (1, 7), axes=1) == (2**31 - 1) // (2**14 * 3 * 8) * 3 // 7
    assert held_channels(points, (1, 1), axes=0) == (2**31 - 1) // 2**14
    assert rounded_channels() == 65536 and rounded_channels(12) == 256 == 2**8
    assert rounded_channels(16, 24) == 0


def test_growth_of_input_transforms():
    assert growth(integers(cook_toom(2, 3)).bt) == 2.0
    four = integers(cook_toom(4, 3, "0,1,-1,2,-2,inf")).bt
    assert round(growth(four), 2) == 6.64 and growth(four) == 2 * growth(four, axes=1)


def test_a_layer_of_too_many_channels_is_refused_with_a_sentence():
    engine = Engine(16, 6, 16, 1)
    x, w = bytes_of((1, 228, 4, 4)), bytes_of((1, 228, 3, 3))
    with pytest.raises(Unsupported, match=r"weight: got 228 channels; allowed: at most 227, which"):
        convolve(engine, x, w)
    assert convolve(engine, x[:, :227], w[:, :227]).shape == (1, 1, 2, 2)
    problem = engine.mapping((1, 911, 4, 4), (1, 911, 3, 3))
    gaussian = winograd(4, 3, "x, x-1, x+1, x^2+1, inf")
    with pytest.raises(Unsupported, match="at most 910"):
        check_channels(problem, gaussian)
    check_channels(problem, None)
    by_taps = convolve(engine, x, w, layout="taps")  # which is not transformed
    np.testing.assert_array_equal(by_taps, directly(x, w))
    wide = engine.mapping((1, 65537, 4, 4), (1, 65537, 3, 3))
    with pytest.raises(Unsupported, match="at most 65536, which sums of 32 bits hold of products"):
        check_channels(wide, None)


@pytest.mark.parametrize(
    ("change", "problem", "message"),
    [
        ({"input": np.ones((1, 1, 4, 4))}, InvalidType, "input: got dtype float64"),
        ({"input": np.full((1, 1, 4, 4), 128)}, InvalidValue, "allowed: integers of 8 bits"),
        ({"input": np.ones((4, 4), int)}, InvalidValue, "input: got 2 axes"),
        (
            {"input": np.ones((1, 1, 8), int), "weight": np.ones((1, 1, 3), int)},
            Unsupported,
            "N, C",
        ),
        ({"schedule": "RS"}, InvalidValue, "schedule: got 'RS'"),
        ({"algorithm": cook_toom(4, 3)}, InvalidValue, "algorithm: got .* allowed: F"),
        ({"sums": 33}, InvalidValue, "sums: got 33; allowed: an int from 2 to 32"),
        ({"bits": 1}, InvalidValue, "bits: got 1; allowed: an int from 2 to 16"),
    ],
)
def test_refusals(change, problem, message):
    arguments = {"input": ONES, "weight": ONES[..., :3, :3], **change}
    with pytest.raises(problem, match=message):
        convolve(Engine(1, 4, 1, 1), **arguments)


def test_tiles_without_whole_numbers_are_refused():
    with pytest.raises(Unsupported, match="T, m: got T = 20"):
        transform(Engine(1, 20, 1, 1))
    with pytest.raises(Unsupported, match="T, m: got T = 8, m = 2"):
        transform(Engine(1, 8, 1, 1, m=2))
