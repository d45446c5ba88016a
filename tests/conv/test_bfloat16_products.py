"""Products of bfloat16: exact where integers are small, and the same on every instruction set.

Errors of real numbers are compared with the estimate that plans are made by.
"""

from itertools import product

import numpy as np
import pytest
from conv import exact
from conv.reference import convolve

import winogen
from winogen import Conv2d
from winogen.conv.tolerance import MARGIN
from winogen.errors import InvalidValue, Unsupported
from winogen.toolchain import host_target, host_targets

OPTIONS = {"algorithm": "direct", "product_dtype": "bfloat16"}
ISAS = [target.name for target in host_targets()]

# Weight, groups, height and width, and options: a word and a rest, chunks and a rest, whole
# vectors, phases, dilations, a depthwise layer.
LAYERS = (
    ((20, 7, 3, 3), 1, (9, 17), {}),
    ((36, 33, 3, 3), 1, (5, 8), {"stride": (2, 2)}),
    ((64, 64, 1, 1), 1, (6, 70), {}),
    ((10, 5, 3, 2), 2, (8, 9), {"dilation": (2, 1)}),
    ((1, 1, 3, 3), 6, (7, 20), {"stride": (1, 3)}),
)


def normal(weight, size, seed=0):
    """Input in NCHW and weight of a layer."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((1, weight[1], *size)).astype(np.float32)
    return x, rng.standard_normal(weight).astype(np.float32)


@pytest.mark.parametrize("index, layout", list(product(range(len(LAYERS)), exact.LAYOUTS)))
def test_integers_leave_nothing_to_round(index, layout, monkeypatch):
    weight, groups, (height, width), options = LAYERS[index]
    monkeypatch.setenv("WINOGEN_ISA", ISAS[(index + (layout == "NHWC")) % len(ISAS)])
    rng = np.random.default_rng(3)
    w = exact.integers(rng, (groups * weight[0], *weight[1:]), 2)
    for seams in (None, np.random.default_rng(index)):
        exact.check(
            exact.integers(rng, (2, groups * weight[1], height, width), 3),
            w,
            exact.integers(rng, len(w), 50),
            algorithm={**OPTIONS, "threads": 1 + index % 2},
            padding=tuple((size // 2, size // 2) for size in weight[2:]),
            padding_mode=exact.MODES[index % 4],
            activation=None if seams is None else "relu",
            groups=groups,
            layout=layout,
            seams=seams,
            **options,
        )


@pytest.mark.parametrize("channels, kernel", [(3, 3), (64, 1), (64, 3)])
def test_errors_are_as_predicted(channels, kernel):
    """Within the margin that the planner leaves."""
    x, w = normal((48, channels, kernel, kernel), (24, 24))
    conv = Conv2d(w, **OPTIONS)
    exactly = convolve(x.astype(float), w.astype(float))
    error = np.abs(conv(x) - exactly).max() / np.abs(exactly).max()
    predicted = conv.plan(x.shape).predicted_error
    assert 0.5 < error / predicted < MARGIN and 2e-3 < predicted < 8e-3


def test_instructions_and_what_does_without_them_give_the_same_bits(monkeypatch):
    if "bf16" not in host_target().extensions:
        pytest.skip("this CPU or its compiler has no AVX512-BF16")
    x, w = normal((40, 37, 3, 3), (12, 13))
    results = []
    for isa in (host_target().name, f"{host_target().name}-bf16"):
        monkeypatch.setenv("WINOGEN_ISA", isa)
        conv = Conv2d(w, **OPTIONS)
        assert ("dpbf16" in conv.plan(x.shape).source) == (not results)
        results.append(conv(x))
    assert np.array_equal(*results)


def test_the_range_is_that_of_float32():
    x, w = normal((20, 6, 3, 3), (9, 9))
    y = winogen.conv2d(x, w, **OPTIONS)
    for in_x, in_w in ((-60, 0), (100, 0), (-50, 90)):
        scaled = winogen.conv2d(np.ldexp(x, in_x), np.ldexp(w, in_w), **OPTIONS)
        assert np.array_equal(np.ldexp(scaled, -in_x - in_w), y)


def test_a_tolerance_chooses_them_only_where_they_keep_it():
    x, w = normal((64, 64, 1, 1), (28, 28))
    exactly = convolve(x.astype(float), w.astype(float))
    for tolerance in (1e-5, 1e-3, 2e-3, 1e-2, 1e-1):
        conv = Conv2d(w, tolerance=tolerance)
        precision = conv.plan(x.shape).precision
        assert precision.products != "bfloat16" or tolerance > 2e-3
        assert np.abs(conv(x) - exactly).max() / np.abs(exactly).max() < tolerance


def test_what_has_none_is_refused():
    x, w = normal((8, 8, 3, 3), (8, 8))
    with pytest.raises(Unsupported, match='product_dtype: got "bfloat16" with algorithm "mcmr"'):
        winogen.conv2d(x, w, algorithm="mcmr", product_dtype="bfloat16")
    with pytest.raises(InvalidValue, match='product_dtype: got "bfloat16" with float64 arrays'):
        winogen.conv2d(x.astype(float), w.astype(float), product_dtype="bfloat16")


def test_packed_filters_have_half_the_bytes():
    _, w = normal((64, 32, 3, 3), (8, 8))
    plans = [
        Conv2d(w, algorithm="direct", product_dtype=kind).plan((1, 32, 8, 8))
        for kind in (None, "bfloat16")
    ]
    assert plans[1].packed_weight_bytes * 2 == plans[0].packed_weight_bytes
