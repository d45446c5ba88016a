"""What happens to finished sums: the same in every variant, to the bit where it is exact."""

import re

import mpmath as mp
import numpy as np
import pytest
from conv import exact
from conv.activations import TRIALS, Trial, activate
from kernels.turns import turns

from winogen import Conv2d
from winogen.errors import InvalidType, InvalidValue
from winogen.records import ACTIVATIONS
from winogen.toolchain import host_targets

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


EXACT = [name for name, trial in TRIALS.items() if trial.units < 1]  # exact, of integers


@pytest.mark.parametrize("layer, name", turns(LAYERS, EXACT))
def test_every_variant_applies_it(layer, name):
    compute(layer, TRIALS[name])


SEVERAL = {
    "none": Trial(None), "relu": TRIALS["relu"], "prelu": TRIALS["prelu"],
    "clip": Trial("clip", (-3, 11)),
}  # fmt: skip


@pytest.mark.parametrize("layer, name", turns(LAYERS, SEVERAL))
def test_every_variant_adds_and_works_in_slices(layer, name):
    """Of arrays with NaN in all other channels, or, for the output, with what must stay."""
    compute(layer, SEVERAL[name], np.random.default_rng(7))


def compute(layer, trial, seams=None):
    algorithm, layout, channels, filters, groups, kernel = LAYERS[layer]
    rng = np.random.default_rng(0)
    weight = exact.integers(rng, (groups * filters, channels, *kernel), 1)
    weight = weight * exact.scale(algorithm)
    bias = exact.integers(rng, groups * filters, 9)
    convs = {}
    for size in ((16, 16), (9, 37)):
        exact.check(
            exact.integers(rng, (2, groups * channels, *size), 1),
            weight,
            bias,
            activation=trial.of(len(bias)),
            algorithm=exact.chosen(algorithm),
            layout=layout,
            groups=groups,
            convs=convs,
            seams=seams,
        )


def test_the_runtime_has_the_numbers_and_names_of_the_table():
    from winogen.onnx.library import source

    text = source()
    enumerated = re.search(r"enum \{\s+NONE,(.*?)ACTIVATIONS\s+\};", text, re.DOTALL)[1]
    assert re.findall(r"^    (\w+),", enumerated, re.M) == [name.upper() for name in ACTIVATIONS]
    named = re.search(r"ACTIVATION_NAMES\[\] = \{(.*?)NULL", text, re.DOTALL)[1]
    assert re.findall(r'"(\w+)"', named) == ["none", *ACTIVATIONS]
    assert [one.code for one in ACTIVATIONS.values()] == list(range(1, 1 + len(ACTIVATIONS)))


RANGE = {"float32": 12, "float64": 36}


def values_of(trial, y):
    """The activation of an array of numbers, by a convolution that does nothing else."""
    one = np.ones((1, 1, 1, 1), y.dtype)
    return Conv2d(one, activation=trial.of(1), algorithm="direct")(y[None, None, None]).ravel()


@pytest.mark.parametrize("dtype", RANGE)
@pytest.mark.parametrize("name", TRIALS)
def test_it_is_right_to_a_few_units_in_the_last_place(name, dtype):
    """From where it vanishes, if it does, to where it is y, against 40 digits."""
    rng, trial = np.random.default_rng(0), TRIALS[name]
    y = np.concatenate([
        rng.uniform(-RANGE[dtype], 12, 3000), rng.standard_normal(900), np.geomspace(1e-30, 1, 50),
        -np.geomspace(1e-30, 1, 50),
    ]).astype(dtype)  # fmt: skip
    values = values_of(trial, y)
    with mp.workdps(40):
        exact_values = [trial.exactly(float(x)) for x in y]
        errors = [float(abs(mp.mpf(float(v)) - e)) for v, e in zip(values, exact_values)]
    units = np.spacing(np.abs(np.array([float(e) for e in exact_values], dtype)))
    assert (errors <= (trial.units + trial.more(y)) * units).all()


# The least results of those that are less exact below, and how far those are off, as the page says.
LEAST = dict.fromkeys(("silu", "gelu"), 2e-36)
OFF = 1e-42


@pytest.mark.parametrize("isa", [target.name for target in host_targets()])
@pytest.mark.parametrize("name", TRIALS)
def test_its_error_over_all_numbers(name, isa, monkeypatch):
    """Every 4,099th float32, those below all normal ones, too, and a part that is dense."""
    monkeypatch.setenv("WINOGEN_ISA", isa)
    trial = TRIALS[name]
    every = np.arange(0, 2**32, 4099, dtype=np.uint64).astype(np.uint32).view(np.float32)
    dense = np.linspace(-110, 30, 300_001, dtype=np.float32)
    others = np.float32([0.0, -0.0, np.inf, -np.inf])
    y = np.concatenate([every[~np.isnan(every)], dense, others])
    values = values_of(trial, y).astype(float)
    wanted = activate(y.astype(float)[None, None, None], trial.of(1)).ravel()
    assert np.array_equal(np.isnan(values), np.isnan(wanted))
    least = LEAST.get(name, 0)
    with np.errstate(all="ignore"):
        units = np.spacing(np.abs(wanted.astype(np.float32)))
        errors = np.abs(values - wanted) / units
    told = (np.abs(wanted) >= least) & np.isfinite(units)
    small = np.abs(wanted) < least
    assert (np.abs(values[small] - wanted[small]) <= OFF).all()
    assert told.sum() > 300_000
    assert (errors[told] <= (trial.units + trial.more(y.astype(float)))[told]).all()
    beyond = np.isinf(wanted) & ~np.isnan(values)
    assert np.array_equal(values[beyond], wanted[beyond])


@pytest.mark.parametrize("name", TRIALS)
def test_far_out(name):
    trial = TRIALS[name]
    y = np.array([np.nan, 1e30, -1e30, np.inf, 0.0], np.float32)
    nan, *values = values_of(trial, y)
    with mp.workdps(40):
        exactly = [float(trial.exactly(y)) for y in (1e30, -1e30, 0)]
    large, small, infinite, zero = values
    assert np.isnan(nan) and [large, small, zero] == pytest.approx(exactly)
    assert infinite == (np.inf if exactly[0] > 1e29 else large)


@pytest.mark.parametrize("layout", ("NCHW", "NHWC"))
@pytest.mark.parametrize(
    "activation, of_minus_2",
    (("relu", 0), ("relu6", 0), (("clip", 0, 4), 0), (("leaky_relu", 0.5), -1)),
)
def test_nan_and_zeros_pass(activation, of_minus_2, layout):
    """Whatever instruction takes the larger of two numbers, and the smaller."""
    image = np.array([np.nan, -0.0, 0.0, -2.0, 3.0, np.inf], np.float32)
    one = np.ones((1, 1, 1, 1), np.float32)
    layer = Conv2d(one, activation=activation, algorithm="direct", layout=layout)
    y = layer(image.reshape((1, 1, 1, 6) if layout == "NCHW" else (1, 1, 6, 1))).ravel()
    largest = {"relu6": 6, ("clip", 0, 4): 4}.get(activation, np.inf)
    assert np.array_equal(y, [np.nan, 0, 0, of_minus_2, 3, largest], equal_nan=True)


WRONG = {
    "sine": InvalidValue,
    ("leaky_relu",): InvalidValue,
    ("leaky_relu", 0.1, 0.2): InvalidValue,
    ("gelu", "erf"): InvalidValue,
    "gelu_tanh": InvalidValue,
    ("clip", 1.0, 0.0): InvalidValue,
    ("clip", 1.0): InvalidValue,
    ("hard_sigmoid", 0.2): InvalidValue,
    ("hard_sigmoid", 0.0, 0.5): InvalidValue,
    ("hard_sigmoid", 0.2, float("inf")): InvalidValue,
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
