"""What happens to finished sums: the same in every variant, to the bit where it is exact."""

import numpy as np
import pytest
from conv import exact
from conv.reference import ACTIVATIONS as MEANINGS

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


@pytest.mark.parametrize("activation", ("relu", ("leaky_relu", 0.25), ("leaky_relu", -2.0)))
@pytest.mark.parametrize("layer", LAYERS)
def test_every_variant_applies_it(layer, activation):
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
            activation=activation,
            algorithm=exact.chosen(algorithm),
            layout=layout,
            groups=groups,
            convs=convs,
        )


def test_every_activation_has_a_meaning_here():
    assert set(MEANINGS) == set(ACTIVATIONS)


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
                       r'\("leaky_relu", slope\)'):  # fmt: skip
        Conv2d(np.ones((1, 1, 1, 1), np.float32), activation=activation)
