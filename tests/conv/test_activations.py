"""What happens to finished sums: the same in every variant, to the bit where it is exact."""

import mpmath as mp
import numpy as np
import pytest
from conv import exact
from conv.reference import ACTIVATIONS as MEANINGS
from kernels.turns import turns

from winogen import Conv2d
from winogen.errors import InvalidType, InvalidValue
from winogen.records import ACTIVATIONS

# One layer for every variant: (algorithm, layout, channels and filters of a group, groups, kernel).
LAYERS = {
    "direct": ("direct", "NCHW", 20, 37, 1, (3, 2)),
    "direct NHWC": ("direct", "NHWC", 20, 37, 1, (3, 2)),
    "direct whole": ("direct", "NHWC", 20, 64, 1, (3, 2)),
    "im2col": ("im2col", "NCHW", 20, 37, 1, (3, 2)),
    "im2col NHWC": ("im2col", "NHWC", 20, 64, 1, (3, 2)),
    "pixels": ("direct", "NCHW", 3, 20, 1, (3, 2)),
    "planes": ("direct", "NCHW", 20, 37, 1, (1, 1)),
    "depthwise_planes": ("direct", "NCHW", 1, 1, 20, (3, 3)),
    "depthwise_channels": ("direct", "NHWC", 1, 1, 20, (3, 2)),
    "depthwise_strip": ("direct", "NHWC", 1, 1, 20, (3, 3)),
    "depthwise_in_place": ("direct", "NHWC", 1, 1, 32, (5, 5)),
    **{
        f"{algorithm} {layout}": (algorithm, layout, 20, 37, 1, exact.KERNEL)
        for algorithm in exact.WINOGRAD
        for layout in exact.LAYOUTS
    },
    "winograd2d_depthwise": ("winograd2d", "NCHW", 1, 1, 20, exact.KERNEL),
    "winograd2d_tiles": ("winograd2d", "NCHW", 3, 20, 1, exact.KERNEL),
    "winograd2d_filters": ("winograd2d", "NHWC", 3, 20, 1, exact.KERNEL),
}


SLOPES = (np.arange(74) % 9 - 2) / 2.0  # multiples of a half: exact
EXACT = ("relu", "relu6", ("leaky_relu", -2.0), ("clip", 0, 11))


@pytest.mark.parametrize("layer, activation", turns(LAYERS, EXACT), ids=str)
def test_every_variant_applies_it(layer, activation):
    compute(layer, activation)


@pytest.mark.parametrize(
    "layer, activation", turns(LAYERS, (None, "relu", ("clip", -3, 11), "prelu")), ids=str
)
def test_every_variant_adds_and_works_in_slices(layer, activation):
    """Of arrays with NaN in all other channels, or, for the output, with what must stay."""
    compute(layer, activation, np.random.default_rng(7))


def compute(layer, activation, seams=None):
    algorithm, layout, channels, filters, groups, kernel = LAYERS[layer]
    rng = np.random.default_rng(0)
    weight = exact.integers(rng, (groups * filters, channels, *kernel), 1)
    weight = weight * exact.scale(algorithm)
    bias = exact.integers(rng, groups * filters, 9)
    convs = {}
    if activation == "prelu":
        activation = "prelu", SLOPES[: len(bias)]
    for size in ((16, 16), (9, 37)):
        exact.check(
            exact.integers(rng, (2, groups * channels, *size), 1),
            weight,
            bias,
            activation=activation,
            algorithm=exact.chosen(algorithm),
            layout=layout,
            groups=groups,
            convs=convs,
            seams=seams,
        )


def test_every_activation_has_a_meaning_here():
    spelled = {(one.spelling or (name,))[0] for name, one in ACTIVATIONS.items()}
    assert set(MEANINGS) == spelled


# The largest errors in units in the last place of what is exact; measured, and rounded up. With
# tanh, what is far below zero has the rounding of its argument, of up to 90, in the exponent.
BOUNDS = {"hardswish": 2, "silu": 4, "gelu": 4, ("gelu", "tanh"): 8}
RANGE = {"float32": 12, "float64": 36}


@pytest.mark.parametrize("dtype", RANGE)
@pytest.mark.parametrize("activation", BOUNDS, ids=str)
def test_smooth_ones_are_right_to_a_few_units_in_the_last_place(activation, dtype):
    """From where they vanish to where they are y, against 40 digits."""
    rng = np.random.default_rng(0)
    y = np.concatenate([
        rng.uniform(-RANGE[dtype], 12, 3000), rng.standard_normal(900), np.geomspace(1e-30, 1, 50),
        -np.geomspace(1e-30, 1, 50),
    ]).astype(dtype).reshape(1, 1, 40, 100)  # fmt: skip
    one = np.ones((1, 1, 1, 1), dtype)
    values = Conv2d(one, activation=activation, algorithm="direct")(y).ravel()
    name, *kind = (activation,) if isinstance(activation, str) else activation
    function = EXACTLY[(name, *kind)]
    with mp.workdps(40):
        exact_values = [function(mp.mpf(float(x))) for x in y.ravel()]
        errors = [abs(mp.mpf(float(v)) - e) for v, e in zip(values, exact_values)]
        units = np.spacing(np.abs(np.array([float(e) for e in exact_values], dtype)))
        allowed = BOUNDS[activation] * np.ones_like(units)
        if kind:
            steep = np.minimum(y.ravel() * (1 + 0.044715 * y.ravel() ** 2) * 1.6, 0)
            allowed += 3 * np.abs(steep)
        worst = max(float(e) / float(u) / a for e, u, a in zip(errors, units, allowed))
    assert worst <= 1


EXACTLY = {
    ("hardswish",): lambda y: y * min(max(y + 3, mp.mpf(0)), mp.mpf(6)) / 6,
    ("silu",): lambda y: y / (1 + mp.exp(-y)),
    ("gelu",): lambda y: y * mp.erfc(-y / mp.sqrt(2)) / 2,
    ("gelu", "tanh"): lambda y: (
        y / (1 + mp.exp(-mp.sqrt(8 / mp.pi) * (y + mp.mpf("0.044715") * y**3)))
    ),
}


@pytest.mark.parametrize("activation", ("silu", "gelu", ("gelu", "tanh"), "hardswish"), ids=str)
def test_smooth_ones_far_out(activation):
    y = np.array([np.nan, 1e30, -1e30, np.inf, 0.0], np.float32).reshape(1, 1, 1, 5)
    one = np.ones((1, 1, 1, 1), np.float32)
    nan, large, small, infinite, zero = Conv2d(one, activation=activation)(y).ravel()
    assert np.isnan(nan) and large == pytest.approx(1e30) and infinite == np.inf
    assert small == 0 and zero == 0


def test_nan_passes_and_zeros_keep_their_sign():
    image = np.array([np.nan, -0.0, 0.0, -2.0, 3.0], np.float32).reshape(1, 1, 1, 5)
    one = np.ones((1, 1, 1, 1), np.float32)
    for activation in ("relu", ("leaky_relu", 0.5)):
        y = Conv2d(one, activation=activation, algorithm="direct")(image).ravel()
        assert np.isnan(y[0]) and y[4] == 3 and y[3] == (0 if activation == "relu" else -1)
        assert not y[1] and not y[2]


WRONG = {
    "tanh": InvalidValue,
    ("leaky_relu",): InvalidValue,
    ("leaky_relu", 0.1, 0.2): InvalidValue,
    ("gelu", "erf"): InvalidValue,
    "gelu_tanh": InvalidValue,
    ("clip", 1.0, 0.0): InvalidValue,
    ("clip", 1.0): InvalidValue,
    "prelu": InvalidValue,
    ("leaky_relu", float("nan")): InvalidValue,
    ("leaky_relu", "0.1"): InvalidType,
    ("relu", 1.0): InvalidValue,
    (None, 1.0): InvalidValue,
    "leaky_relu": InvalidValue,
    7: InvalidType,
    (): InvalidType,
}


@pytest.mark.parametrize("activation", WRONG, ids=str)
def test_a_wrong_one_says_what_is_allowed(activation):
    with pytest.raises(WRONG[activation], match=r'activation: got .*; allowed: None, "relu", '
                       r'\("leaky_relu", slope\), .*, \("gelu", "tanh"\)'):  # fmt: skip
        Conv2d(np.ones((1, 1, 1, 1), np.float32), activation=activation)


def test_slopes_are_one_or_one_for_each_filter():
    weight, image = np.ones((3, 1, 1, 1), np.float32), -np.ones((1, 1, 2, 2), np.float32)
    for slopes in (0.5, [0.5], np.array([0.5, 1, 2]), [0.5, 1, 2]):
        y = Conv2d(weight, activation=("prelu", slopes))(image)
        assert np.array_equal(y[0, :, 0, 0], np.broadcast_to(-np.asarray(slopes), 3))
    for slopes, error in (([1, 2], InvalidValue), ("a", InvalidType), (np.inf, InvalidValue)):
        with pytest.raises(error, match=r"activation: got .*; allowed: .*"):
            Conv2d(weight, activation=("prelu", slopes))
