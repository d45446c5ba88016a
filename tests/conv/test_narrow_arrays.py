"""Arrays of float16 and bfloat16: computed in float32, and rounded once at the end."""

import pickle

import numpy as np
import pytest
from conv import fuzz
from conv.activations import TRIALS
from conv.reference import convolve

import winogen
from winogen.conv import Conv2d, Layer, arguments, planner
from winogen.conv.request import Request
from winogen.errors import InvalidType, InvalidValue
from winogen.records import TARGETS

ml_dtypes = pytest.importorskip("ml_dtypes")
DTYPES = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))
LAYOUTS = ("NCHW", "NHWC")
# Each type in one of the layouts: what both have in both is fuzzed.
BOTH = pytest.mark.parametrize("dtype, layout", list(zip(DTYPES, LAYOUTS)), ids=str)


def normal(shape, dtype, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def bits(array):
    return array.view(np.uint16)


@pytest.mark.thorough
@pytest.mark.draws
@pytest.mark.parametrize("part", range(5))
def test_degenerate_problems_are_computed_and_rounded_right(part):
    wrong = list(fuzz.failures(20261122, range(part, 80, 5), fuzz.narrow_case_of))
    assert not wrong, wrong[0][1]


def test_cases_are_of_both_types():
    cases = [fuzz.narrow_case_of(1, index) for index in range(40)]
    assert {case.dtype for case in cases} == {"float16", "bfloat16"}


@BOTH
@pytest.mark.parametrize("algorithm, tile", (("direct", None), ("mcmr", 4)))
def test_every_output_is_rounded_once(dtype, layout, algorithm, tile):
    """The same kernel on float32 arrays gives what is rounded: also behind an activation and sums.

    With all of them at once, numbers that were rounded in between would differ in some bits.
    """
    shape = (1, 20, 9, 11) if layout == "NCHW" else (1, 9, 11, 20)
    x, add, after = (normal(shape, dtype, seed) for seed in (1, 2, 3))
    w, bias = normal((20, 20, 3, 3), np.float32, 4), normal(20, np.float32, 5)
    for activation in (None, *(trial.of(20) for trial in TRIALS.values())):
        conv = Conv2d(w, bias, padding=1, layout=layout, algorithm=algorithm, tile=tile,
                      activation=activation)  # fmt: skip
        wide = {name: a.astype(np.float32) for name, a in (("add", add), ("add_after", after))}
        expected = conv(x.astype(np.float32), **wide)
        result = conv(x, add=add, add_after=after)
        assert result.dtype == dtype
        # Additions may be in another order, which shows in the last bit where it was close.
        same = bits(result) == bits(expected.astype(dtype))
        assert same.mean() > 0.998
        near = abs(bits(result).astype(int) - bits(expected.astype(dtype)).astype(int))
        assert near.max() <= 1


def test_rows_of_many_tiles_pass_through_the_buffer_piece_by_piece():
    x, w = normal((1, 3, 5, 300), np.float16, 1), normal((20, 3, 3, 3), np.float32, 2)
    conv = Conv2d(w, padding=1, algorithm="winograd2d", tile=2)
    assert conv.plan(x.shape, "float16").variant == "winograd2d_tiles"
    assert (conv(x) == conv(x.astype(np.float32)).astype(np.float16)).all()


@BOTH
def test_special_numbers(dtype, layout):
    """NaN, infinity, subnormal numbers, and what is too large for the output."""
    least = np.nextafter(np.zeros(1, dtype), np.ones(1, dtype))[0]
    largest = np.asarray(np.finfo(np.float16).max if dtype == np.float16 else 3.3895e38, dtype)
    numbers = np.array([np.nan, np.inf, -np.inf, least, -least, 3 * least, largest, 0, -1], dtype)
    one, two = (np.full((1, 1, 1, 1), value, np.float32) for value in (1, 2))
    x = numbers.reshape((1, 1, 1, -1) if layout == "NCHW" else (1, 1, -1, 1))
    given = dict(layout=layout, algorithm="direct")
    same = winogen.conv2d(x, one, **given).reshape(-1)
    np.testing.assert_array_equal(same.astype(float), numbers.astype(float))
    with np.errstate(all="ignore"):
        twice = (numbers.astype(np.float64) * 2).astype(dtype).astype(float)
    double = winogen.conv2d(x, two, **given).reshape(-1).astype(float)
    np.testing.assert_array_equal(double, twice)
    assert np.isinf(double[6])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_ties_go_to_even(dtype):
    """Sums just half a unit away: 1 + u and 1 + 3 u, in units of the last place."""
    unit = 2.0 ** -(arguments_bits(dtype) - 1)
    x = np.ones((1, 2, 1, 2), dtype)
    x[0, 1] = [unit / 2, 3 * unit / 2]
    y = winogen.conv2d(x, np.ones((1, 2, 1, 1), np.float32), algorithm="direct")
    assert y.astype(float).reshape(-1).tolist() == [1.0, 1.0 + 2 * unit]


def arguments_bits(dtype):
    return {"float16": 11, "bfloat16": 8}[dtype.name]


@BOTH
def test_any_number_of_threads_gives_the_same_bits(dtype, layout):
    w = normal((20, 20, 3, 3), np.float32)
    x = normal((2, 20, 20, 17) if layout == "NCHW" else (2, 20, 17, 20), dtype)
    one, *others = (
        Conv2d(w, padding=1, layout=layout, algorithm="mcmr", tile=4, threads=n)(x)
        for n in (1, 2, 3)
    )
    assert all((bits(one) == bits(other)).all() for other in others)


def test_arrays_in_any_memory_order():
    dtype = DTYPES[1]
    w = normal((6, 4, 3, 3), np.float32)
    x = normal((2, 4, 8, 9), dtype)
    expected = winogen.conv2d(x, w, algorithm="direct")
    turned = np.asfortranarray(x)
    strided = np.repeat(x, 2, axis=3)[..., ::2]
    for given in (turned, strided, x.astype(dtype)):
        assert (bits(winogen.conv2d(given, w, algorithm="direct")) == bits(expected)).all()
    around = np.zeros((2, 10, *expected.shape[2:]), dtype)
    out = around[:, 3:9]
    assert winogen.conv2d(x, w, algorithm="direct", out=out) is out
    assert (bits(out.copy()) == bits(expected)).all() and not around[:, :3].any()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_weights_and_bias_may_be_of_the_same_type_or_float32(dtype):
    x = normal((1, 4, 6, 6), dtype)
    w, bias = normal((3, 4, 3, 3), dtype, 1), normal(3, dtype, 2)
    wide, wide_bias = w.astype(np.float32), bias.astype(np.float32)
    given = dict(algorithm="direct")
    expected = winogen.conv2d(x, w, bias, **given)
    assert (bits(winogen.conv2d(x, wide, wide_bias, **given)) == bits(expected)).all()
    assert (bits(winogen.conv2d(x, w, wide_bias, **given)) == bits(expected)).all()
    conv = Conv2d(wide, wide_bias, **given)
    assert (bits(conv(x)) == bits(expected)).all()
    assert conv(x.astype(np.float32)).dtype == np.float32
    again = pickle.loads(pickle.dumps(Conv2d(w, bias, **given)))
    assert (bits(again(x)) == bits(expected)).all()
    assert again.plan(x.shape).dtype == conv.plan(x.shape, dtype.name).dtype == dtype.name


def test_what_does_not_go_together_is_named():
    x, w = np.ones((1, 1, 4, 4), np.float16), np.ones((1, 1, 3, 3), np.float32)
    with pytest.raises(InvalidType, match="input: got dtype float16; allowed: float64, as weight"):
        winogen.conv2d(x, w.astype(np.float64))
    with pytest.raises(InvalidType, match="input: got dtype float32; allowed: float16, as weight"):
        winogen.conv2d(x.astype(np.float32), w.astype(np.float16))
    with pytest.raises(InvalidType, match="bias: got dtype float64; allowed: float16"):
        winogen.conv2d(x, w.astype(np.float16), np.ones(1))
    with pytest.raises(InvalidType, match="out: got dtype <f4; allowed: <f2, as input has"):
        winogen.conv2d(x, w, out=np.ones((1, 1, 2, 2), np.float32))
    with pytest.raises(InvalidType, match="float32, float64, float16 or bfloat16"):
        winogen.conv2d(x.astype(np.int32), w)
    with pytest.raises(InvalidType, match="whose bytes are swapped"):
        winogen.conv2d(x.astype(">f2"), w)
    with pytest.raises(InvalidType, match="allowed: float32 or float64"):
        winogen.gemm(np.ones((2, 2), np.float16), np.ones((2, 2), np.float16))


@pytest.mark.parametrize("dtype", ("float16", "bfloat16"))
def test_errors_are_those_of_the_rounding(dtype):
    """By default there is little more than that, and a tolerance below it is refused."""
    x = normal((1, 32, 24, 24), arguments.dtype_named(dtype))
    conv = Conv2d(normal((32, 32, 3, 3), np.float32, 1), padding=1, algorithm="direct")
    plan = conv.plan(x.shape, dtype)
    exact = convolve(
        x.astype(np.float64), conv._weight.astype(np.float64), padding=((1, 1), (1, 1))
    )
    error = abs(conv(x).astype(np.float64) - exact).max() / abs(exact).max()
    unit = 2.0 ** -arguments_bits(np.dtype(x.dtype))
    assert unit / 4 < error <= 1.05 * unit
    assert plan.predicted_error / 2 < error < 2 * plan.predicted_error
    with pytest.raises(InvalidValue, match="tolerance: got 1e-05; allowed: at least"):
        Conv2d(conv._weight, algorithm="direct", tolerance=1e-5).plan(x.shape, dtype)


def test_traffic_is_counted_at_its_own_size():
    """What arrays hold is half as large, and so is the time that maps take to come and go."""
    wide, narrow = (
        planner.choose(
            Layer.of((64, 16, 1, 1), dtype, layout="NHWC").problem((8, 224, 224, 16)),
            Request(),
            TARGETS["avx512"],
        ).seconds
        for dtype in ("float32", "float16")
    )
    assert narrow < wide


def test_without_a_tolerance_large_tiles_are_accurate_enough():
    """Their errors are far below those of the rounding at the end."""
    layer = Layer.of((128, 128, 3, 3), "bfloat16", padding=1, layout="NHWC")
    chosen = planner.choose(layer.problem((1, 112, 112, 128)), Request(), TARGETS["avx512"])
    assert chosen.choice.algorithm == "mcmr" and max(chosen.choice.tile) > 4
    assert chosen.choice.precision is None
