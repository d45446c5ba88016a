"""QConv2d with activations and sums: as numpy has them in float32, on every instruction set."""

import copy
import re

import numpy as np
import pytest
from conv.activations import NUMPY, TRIALS
from conv.test_quantized import ISAS, isa
from hypothesis import given, settings
from hypothesis import strategies as st

import winogen
from winogen.errors import InvalidType, InvalidValue
from winogen.records import ACTIVATIONS

__all__ = ["isa"]

FILTERS = 37
SCALES = {"w_scale": 0.02, "x_scale": 0.03, "x_zero": 120, "y_scale": 0.45, "y_zero": 90}


def layer(layout="NCHW", depthwise=False, seed=0):
    """Weights, options of their layer, an input and what is added, in a layout."""
    rng = np.random.default_rng(seed)
    channels = FILTERS if depthwise else 5
    weight = rng.integers(-128, 128, (FILTERS, 1 if depthwise else 5, 3, 3)).astype(np.int8)
    x = rng.integers(0, 256, (2, channels, 11, 9)).astype(np.uint8)
    add = rng.integers(0, 256, (2, FILTERS, 11, 9)).astype(np.uint8)
    if layout == "NHWC":
        x, add = (np.ascontiguousarray(one.transpose(0, 2, 3, 1)) for one in (x, add))
    options = {"padding": 1, "groups": FILTERS if depthwise else 1, "layout": layout}
    return weight, options, x, add


def reference(weight, options, x, function, scales=SCALES, add=None, add_scale=0.0, add_zero=0):
    """What the definition says, each operation rounded to float32."""
    each = np.float32
    sums = winogen.QConv2d(weight, **options, x_zero=scales["x_zero"])(x)
    y = sums.astype(each) * (each(scales["x_scale"]) * each(scales["w_scale"]))
    if add is not None:
        y = y + (add.astype(np.int32) - add_zero).astype(each) * each(add_scale)
    y = np.rint(np.asarray(function(y), each) / each(scales["y_scale"]))
    zero = scales["y_zero"]
    return (np.clip(y, -zero, 255 - zero) + zero).astype(np.uint8)


def function_of(trial, layout):
    """The activation as a function of arrays whose filters are where the layout has them."""
    given = trial.given
    if ACTIVATIONS[trial.name].per_filter:
        slopes = np.asarray(given[0][:FILTERS])
        given = (slopes[:, None, None] if layout == "NCHW" else slopes,)
    return lambda y: ACTIVATIONS[trial.name].formula(NUMPY, y.astype(np.float64), *given)


@pytest.mark.parametrize("isa", ISAS, indirect=True)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("depthwise", [False, True])
def test_every_activation_is_what_numpy_makes_of_it(isa, layout, depthwise):
    weight, options, x, add = layer(layout, depthwise)
    for trial in TRIALS.values():
        conv = winogen.QConv2d(weight, activation=trial.of(FILTERS), **options, **SCALES)
        function = function_of(trial, layout)
        # Conversions of a sum to real numbers and of these to steps, and what is added.
        more = {"add": add, "add_scale": 0.11, "add_zero": 100}
        for added in ({}, more):
            y, expected = conv(x, **added), reference(weight, options, x, function, **added)
            step = np.abs(y.astype(int) - expected).max()
            exact = trial.name in ("relu", "clip", "relu6")
            assert step <= (not exact), (trial.name, step, bool(added))


@pytest.mark.parametrize("isa", ISAS, indirect=True)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("activation", [None, "relu"])
def test_sums_of_two_are_exact(isa, layout, activation):
    weight, options, x, add = layer(layout)
    conv = winogen.QConv2d(weight, activation=activation, **options, **SCALES)
    function = (lambda y: np.maximum(y, 0)) if activation else (lambda y: y)
    for more, zero in ((add, 3), (add.view(np.int8), -77)):
        given = {"add": more, "add_scale": 0.07, "add_zero": zero}
        expected = reference(weight, options, x, function, **given)
        assert np.array_equal(conv(x, **given), expected)
        assert len(np.unique(expected)) > 50
    assert np.array_equal(conv(x), winogen.QConv2d(weight, activation=activation, **options,
                                                   **SCALES)(x))  # fmt: skip


@settings(max_examples=25)
@given(
    scale=st.floats(1e-3, 1.0), step=st.floats(1e-2, 2.0), zero=st.integers(0, 255),
    threads=st.integers(1, 3), seed=st.integers(0, 9),
)  # fmt: skip
def test_whatever_the_scales(scale, step, zero, threads, seed):
    weight, options, x, add = layer(seed=seed)
    scales = {**SCALES, "y_scale": step, "y_zero": zero}
    conv = winogen.QConv2d(weight, activation="relu", threads=threads, **options, **scales)
    given = {"add": add, "add_scale": scale, "add_zero": zero}
    expected = reference(weight, options, x, lambda y: np.maximum(y, 0), scales, **given)
    assert np.array_equal(conv(x, **given), expected)


def test_products_are_rounded_before_they_are_added(shipped_kernels):
    """All pairs of bytes: one rounding of a product and a sum shows in some, near halves."""
    x, add = (one.astype(np.uint8)[None, None] for one in np.mgrid[:256, :256])
    weight, rng = np.ones((1, 1, 1, 1), np.int8), np.random.default_rng(5)
    for _ in range(48):
        scales = {"w_scale": 1.0, "x_scale": rng.uniform(0.2, 0.9), "x_zero": 77,
                  "y_scale": 1.0, "y_zero": 60}  # fmt: skip
        given = {"add": add, "add_scale": rng.uniform(0.2, 0.9), "add_zero": 99}
        y = winogen.QConv2d(weight, **scales)(x, **given)
        assert np.array_equal(y, reference(weight, {}, x, lambda y: y, scales, **given))


def test_slices_copies_and_arrays_of_other_strides():
    weight, options, x, add = layer()
    conv = winogen.QConv2d(weight, activation="silu", **options, **SCALES)
    given = {"add_scale": 0.1, "add_zero": 4}
    y = conv(x, add=add, **given)
    around = np.full((2, FILTERS + 6, 11, 9), 55, np.uint8)
    assert np.array_equal(conv(x, around[:, 3:-3], add=add, **given), y)
    assert (around[:, :3] == 55).all() and (around[:, -3:] == 55).all()
    wide = np.zeros((2, FILTERS + 2, 11, 9), np.uint8)
    wide[:, 1:-1] = add
    for other in (wide[:, 1:-1], np.asfortranarray(add)):
        assert np.array_equal(conv(x, add=other, **given), y)
    assert np.array_equal(copy.deepcopy(conv)(x, add=add, **given), y)
    assert np.array_equal(conv(x[0], add=add[0], **given), y[0])
    changed = conv(x, add=add, add_scale=0.2, add_zero=4)
    assert not np.array_equal(changed, y) and np.array_equal(conv(x, add=add, **given), y)


def test_outputs_saturate():
    weight, options, x, _ = layer()
    scales = {**SCALES, "y_scale": 1e-3}
    y = winogen.QConv2d(weight, activation="silu", **options, **scales)(x)
    assert {int(y.min()), int(y.max())} == {0, 255}
    signed = winogen.QConv2d(weight, activation="mish", y_dtype="int8", **options,
                             **{**scales, "y_zero": -5})(x)  # fmt: skip
    assert signed.dtype == np.int8 and {int(signed.min()), int(signed.max())} == {-128, 127}


def test_a_plan_says_what_is_compiled():
    weight, options, x, _ = layer()
    conv = winogen.QConv2d(weight, activation="gelu", **options, **SCALES)
    assert "by way of float32" in conv.plan(x.shape).source
    assert "by way of" not in winogen.QConv2d(weight, **options, **SCALES).plan(x.shape).source


@pytest.mark.parametrize("error, match, options, given", [
    (InvalidValue, "activation: got 'silu' with outputs that are sums; allowed: None or \"relu\"",
     {"activation": "silu", "y_scale": None, "y_zero": 0}, {}),
    (InvalidValue, "activation: got 'silu' with algorithm \"mcmr\"",
     {"activation": "silu", "algorithm": "mcmr"}, {}),
    (InvalidValue, "activation: got 'sin'; allowed: None, \"relu\"", {"activation": "sin"}, {}),
    (InvalidValue, "activation: got slopes of shape (3,); allowed",
     {"activation": ("prelu", [1, 2, 3])}, {}),
    (InvalidValue, "add_scale: got 0.5 without add; allowed: none", {}, {"add_scale": 0.5}),
    (InvalidValue, "add_zero: got 3 without add", {}, {"add_zero": 3}),
    (InvalidValue, "add: got an array without y_scale; allowed: None",
     {"y_scale": None, "y_zero": 0}, {"add": 1}),
    (InvalidValue, 'add: got an array with algorithm "mcmr"', {"algorithm": "mcmr"}, {"add": 1}),
    (InvalidType, "add: got dtype float32; allowed: uint8 or int8", {},
     {"add": np.zeros((2, FILTERS, 11, 9), np.float32)}),
    (InvalidValue, "add: got shape (1, 1); allowed: (2, 37, 11, 9)", {},
     {"add": np.zeros((1, 1), np.uint8)}),
    (InvalidValue, "add_scale: got None; allowed: a positive float32, as there is add", {},
     {"add": np.zeros((2, FILTERS, 11, 9), np.uint8)}),
    (InvalidValue, "add_scale: got -1", {},
     {"add": np.zeros((2, FILTERS, 11, 9), np.uint8), "add_scale": -1}),
    (InvalidValue, "add_zero: got 200; allowed: an int in -128..127, for int8", {},
     {"add": np.zeros((2, FILTERS, 11, 9), np.int8), "add_scale": 1, "add_zero": 200}),
])  # fmt: skip
def test_wrong_arguments_are_named(error, match, options, given):
    weight, known, x, _ = layer()
    with pytest.raises(error, match=re.escape(match)):
        winogen.QConv2d(weight, **{**known, **SCALES, **options})(x, **given)


def test_what_belongs_to_an_addition_is_refused_in_every_call():
    weight, known, x, _ = layer()
    conv = winogen.QConv2d(weight, **known, **SCALES)
    conv(x)
    with pytest.raises(InvalidValue, match="add_scale: got 1.0 without add"):
        conv(x, add_scale=1.0)
    with pytest.raises(InvalidValue, match="add_zero: got 999 without add"):
        conv(x, add_zero=999)


@pytest.mark.parametrize("activation", [None, "silu", ("leaky_relu", 0.5)])
def test_real_numbers_may_be_as_large_as_float32_has_them(activation):
    conv = winogen.QConv2d(np.ones((1, 1, 1, 1), np.int8), w_scale=1e35, x_scale=1, x_zero=100,
                           y_scale=1e36, y_zero=100, activation=activation)  # fmt: skip
    x = np.array([100, 200], np.uint8).reshape(1, 1, 1, 2)
    assert conv(x).ravel().tolist() == [100, 110]
    if activation is None:
        added = conv(x, add=np.zeros_like(x), add_scale=1e-30)
        assert added.ravel().tolist() == [100, 110]


def test_an_empty_batch_has_a_plan():
    conv = winogen.QConv2d(np.ones((3, 3, 3, 3), np.int8), w_scale=1, x_scale=1, y_scale=1)
    assert conv.plan((0, 3, 4, 4)).output_shape == (0, 3, 2, 2)
