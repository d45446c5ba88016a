"""Layers of signals on devices, which are planes of one row; volumes are refused."""

import pickle
import random

import numpy as np
import pytest
from conv.reference import convolve
from conv.test_transposed import scattered
from opencl import devices

import winogen
from winogen.errors import InvalidValue, Unsupported
from winogen.opencl import Conv1d, Conv2d, ConvTranspose1d, ConvTranspose2d


def integers(rng, *shape):
    return rng.integers(-4, 5, shape).astype("f4")


def drawn(seed):
    """Options that both kinds of layers have, channels, filters of a group, taps and a size."""
    rng = random.Random(seed)
    groups, taps = rng.choice((1, 1, 2)), rng.randint(1, 5)
    options = dict(
        stride=rng.randint(1, 4), dilation=rng.choice((1, 1, 2, 3)), groups=groups,
        padding=((rng.randint(0, 3), rng.randint(0, 3)),), layout=rng.choice(("NCW", "NWC")),
    )  # fmt: skip
    sizes = groups * rng.choice((1, 2, 3, 8)), rng.choice((1, 2, 4, 5)), taps, rng.randint(13, 20)
    return options, sizes


def called(layer, x, layout):
    """The result for an input with channels first, channels first."""
    if layout == "NCW":
        return layer(x)
    return np.moveaxis(layer(np.ascontiguousarray(np.moveaxis(x, 1, -1))), -1, 1)


@pytest.mark.parametrize("seed", range(4))
def test_signals_are_exact(seed):
    options, (channels, own, taps, size) = drawn(seed)
    options |= {name: (options[name],) for name in ("stride", "dilation")}
    options["padding_mode"] = ("zeros", "reflect", "replicate", "circular")[seed % 4]
    rng, groups = np.random.default_rng(seed), options["groups"]
    w, b = integers(rng, groups * own, channels // groups, taps), integers(rng, groups * own)
    x = integers(rng, 2, channels, size)
    layer = Conv1d(w, b, algorithm="direct", activation="relu", context=devices.context(),
                   **options)  # fmt: skip
    wanted = convolve(x, w, b, activation="relu", **{**options, "layout": "NCW"})
    np.testing.assert_array_equal(called(layer, x, options["layout"]), wanted)
    if options["layout"] == "NCW":
        np.testing.assert_array_equal(layer(x[0]), wanted[0])


@pytest.mark.parametrize("seed", range(4))
def test_transposed_signals_are_exact(seed):
    options, (channels, own, taps, size) = drawn(seed)
    rng, groups = np.random.default_rng(seed), options["groups"]
    w, b = integers(rng, channels, own, taps), integers(rng, groups * own)
    x = integers(rng, 2, channels, size)
    more = max(options["stride"], options["dilation"]) - 1
    layer = ConvTranspose1d(w, b, output_padding=more, algorithm="direct",
                            context=devices.context(), **options)  # fmt: skip
    wanted = scattered(x, w, b, (options["stride"],), options["padding"], (more,), groups,
                       (options["dilation"],))  # fmt: skip
    np.testing.assert_array_equal(called(layer, x, options["layout"]), wanted)


@pytest.mark.parametrize("kind", ["conv", "conv_transpose"])
def test_tiles_and_plans_are_those_of_signals(kind):
    rng = np.random.default_rng(1)
    transposed = kind == "conv_transpose"
    # Each with filters of three taps, those of phases.
    w = integers(rng, 4, 4, 6 if transposed else 3)
    cls = ConvTranspose1d if transposed else Conv1d
    options = dict(stride=2, padding=1) if transposed else dict(padding=1)
    layer = cls(
        w, tile=(2,), points="0,1,-1,inf", layout="NWC", context=devices.context(), **options
    )
    x = integers(rng, 3, 21, 4)
    function = winogen.conv_transpose1d if transposed else winogen.conv1d
    wanted = function(x, w, algorithm="direct", layout="NWC", **options)
    np.testing.assert_allclose(layer(x), wanted, atol=1e-4)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(layer))(x), layer(x))
    plan = layer.plan(x.shape)
    assert (plan.algorithm, plan.tile, plan.taps) == ("mcmr", (2,), (3,))
    assert plan.points == (("0", "1", "-1", "inf"),)
    assert (plan.input_shape, plan.weight_shape, plan.output_shape) == (
        x.shape, w.shape, wanted.shape)  # fmt: skip
    assert str(plan).startswith(f"{kind}1d float32 NWC on OpenCL: 3x21x4 * 4x4x")
    assert {len(one.tile or (1,)) for one in plan.predictions} == {1}


@pytest.mark.parametrize("cls", [Conv1d, Conv2d, ConvTranspose1d, ConvTranspose2d])
@pytest.mark.parametrize("options", [{}, {"layout": "NDHWC"}])
def test_volumes_are_refused(cls, options):
    with pytest.raises(Unsupported, match="got a layer of 3 axes; allowed on devices: 1 or 2"):
        cls(np.ones((4, 4, 3, 3, 3), np.float32), **options)


def test_axes_belong_to_the_class():
    devices.context()
    for cls, other in ((Conv1d, "NCHW"), (Conv2d, "NCW"), (ConvTranspose1d, "NHWC")):
        with pytest.raises(InvalidValue, match=f"layout: got '{other}'; allowed: "):
            cls(np.ones((4, 4, 3), np.float32), layout=other)
