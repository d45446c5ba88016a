"""Arrays of flytes, the first bytes of wider numbers: computed wide, rounded once at the end."""

import numpy as np
import pytest
from conv import fuzz

import winogen
from winogen.conv import Conv2d, ConvTranspose2d, flytes
from winogen.errors import InvalidType, InvalidValue
from winogen.records import FLYTES, NUMBERS
from winogen.rounding.formats import FORMATS

NAMES = [one.name for one in FLYTES]


def normal(shape, name, seed=0):
    values = np.random.default_rng(seed).standard_normal(shape).astype(NUMBERS[name].wide)
    return winogen.narrow(values, name)


def codes(array):
    return array.tobytes()


@pytest.mark.parametrize("name", NAMES)
def test_numbers_come_back_as_they_are_stored(name):
    values = np.random.default_rng(1).standard_normal((3, 4, 5)).astype(NUMBERS[name].wide)
    made = winogen.narrow(values, name)
    assert made.shape == values.shape and made.nbytes == values.size * FORMATS[name].size
    back = winogen.widen(made)
    assert back.dtype == values.dtype and (back == FORMATS[name].round(values)).all()
    assert codes(winogen.narrow(back, name)) == codes(made)
    turned = winogen.widen(made.transpose(2, 0, 1)[::-1])
    assert (turned == back.transpose(2, 0, 1)[::-1]).all()
    assert (winogen.widen(made[1, 2, 3]) == back[1, 2, 3]).all()
    assert winogen.widen(made[:0]).shape == (0, 4, 5)


@pytest.mark.parametrize("number", NAMES)
def test_every_output_is_rounded_once(number):
    """The same kernel on wide arrays gives what is rounded, behind an activation and sums."""
    layout = ("NCHW", "NHWC")[NAMES.index(number) % 2]
    shape = (1, 20, 9, 11) if layout == "NCHW" else (1, 9, 11, 20)
    x, add, after = (normal(shape, number, seed) for seed in (1, 2, 3))
    wide = NUMBERS[number].wide
    w = np.random.default_rng(4).standard_normal((20, 20, 3, 3)).astype(wide)
    conv = Conv2d(w, w[:, 0, 0, 0].copy(), padding=1, layout=layout, algorithm="direct",
                  activation="silu")  # fmt: skip
    sums = {"add": add, "add_after": after}
    expected = conv(winogen.widen(x), **{name: winogen.widen(one) for name, one in sums.items()})
    result = conv(x, **sums)
    assert result.dtype == flytes.DTYPES[number]
    # Additions may be in another order, which shows in the last bit where it was close.
    rounded = winogen.narrow(expected, number)
    assert (result.view(f"V{result.itemsize}") == rounded.view(f"V{result.itemsize}")).mean() > 0.99
    off = abs(winogen.widen(result) - winogen.widen(rounded))
    assert (off <= 4 * FORMATS[number].unit * abs(expected)).all()


@pytest.mark.parametrize("name", ["flyte24", "flyte16_cut", "flyte40d"])
def test_winograd_is_as_accurate_as_predicted(name):
    x, w = normal((1, 24, 14, 14), name), normal((24, 24, 3, 3), name, 1)
    conv = Conv2d(w, padding=1, algorithm="mcmr", tile=4)
    wide = (winogen.widen(one).astype(np.float64) for one in (x, w))
    exact = winogen.conv2d(*wide, padding=1)
    off = abs(winogen.widen(conv(x)) - exact).max() / abs(exact).max()
    assert off <= max(3 * conv.plan(x.shape).predicted_error, FORMATS[name].unit)


def test_any_number_of_threads_and_any_memory_give_the_same_bits():
    x, w = normal((2, 9, 10, 24), "flyte24"), normal((16, 24, 3, 3), "flyte24", 1)
    one, two = (Conv2d(w, layout="NHWC", threads=n) for n in (1, 2))
    expected = one(x)
    assert codes(two(x)) == codes(expected)
    assert codes(one(np.asfortranarray(x))) == codes(expected)
    room = np.zeros((2, 7, 8, 20), x.dtype)
    assert one(x, out=room[..., 2:18]) is not None
    assert codes(np.ascontiguousarray(room[..., 2:18])) == codes(expected)
    assert not winogen.widen(room[..., :2]).any() and not winogen.widen(room[..., 18:]).any()


def test_nan_and_infinity_pass():
    numbers = np.float32([np.nan, np.inf, -np.inf, 1e30, -0.0, 2.0]).reshape(1, 1, 1, -1)
    two = np.full((1, 1, 1, 1), 2, np.float32)
    y = winogen.widen(winogen.conv2d(winogen.narrow(numbers, "flyte24"), two, algorithm="direct"))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(y, FORMATS["flyte24"].round(2 * numbers))


def test_a_plan_counts_their_bytes():
    x, w = normal((1, 64, 20, 20), "flyte24"), normal((64, 64, 3, 3), "flyte24", 1)
    plan = Conv2d(w, padding=1).plan(x.shape)
    assert plan.dtype == "flyte24" and "flyte24" in str(plan)


def test_transposed_layers_and_signals_take_them():
    x, w = normal((1, 8, 6, 7), "flyte24"), normal((8, 4, 4, 4), "flyte24", 1)
    options = {"stride": 2, "padding": 1}
    wide = winogen.conv_transpose2d(winogen.widen(x), winogen.widen(w), **options)
    off = abs(winogen.widen(ConvTranspose2d(w, **options)(x)) - wide)
    assert off.max() <= 2 * FORMATS["flyte24"].unit * abs(wide).max()
    signal, taps = normal((1, 4, 50), "flyte48d"), normal((4, 4, 5), "flyte48d", 1)
    y = winogen.widen(winogen.conv1d(signal, taps))
    wide = winogen.conv1d(winogen.widen(signal), winogen.widen(taps))
    assert abs(y - wide).max() <= 2 * FORMATS["flyte48d"].unit * abs(wide).max()


@pytest.mark.thorough
@pytest.mark.draws
@pytest.mark.parametrize("part", range(6))
def test_degenerate_problems_are_computed_and_rounded_right(part):
    wrong = list(fuzz.failures(20261129, range(part, 156, 6), fuzz.flyte_case_of))
    assert not wrong, wrong[0][1]


def test_bad_arrays_are_refused():
    x, w = normal((1, 4, 6, 6), "flyte24"), np.zeros((2, 4, 3, 3))
    with pytest.raises(InvalidType, match="input: got dtype .*flyte24.*; allowed: float64, as we"):
        winogen.conv2d(x, w)
    with pytest.raises(InvalidValue, match="dtype: got 'float16'; allowed: \"flyte24\", "):
        winogen.narrow(np.zeros(3), "float16")
    with pytest.raises(InvalidType, match="array: got float32; allowed: an array that winogen.nar"):
        winogen.widen(np.zeros(3, np.float32))
    with pytest.raises(InvalidType, match="values: got dtype int64; allowed: float32 or float64"):
        winogen.narrow(np.zeros(3, int), "flyte24")
