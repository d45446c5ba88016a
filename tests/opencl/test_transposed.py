"""Transposed layers on devices: exact against a scatter of each input, and what is refused."""

import pickle
import random
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from conv import exact
from conv.activations import activate
from conv.test_transposed import scattered
from opencl import devices, twin, webgpu
from opencl.problems import close
from opencl.test_winograd import CUTS, allowed, slower

from winogen.codegen.devices.render import render
from winogen.codegen.transforms import load
from winogen.conv.options import Options
from winogen.conv.problem import Seams
from winogen.conv.transposed_problem import TransposedLayer
from winogen.errors import InvalidType, InvalidValue, Unsupported
from winogen.opencl import ConvTranspose2d, counting, cuts
from winogen.opencl.devices import DeviceInfo
from winogen.opencl.direct import direct_work
from winogen.opencl.phases import phase_problem
from winogen.opencl.space import DirectSpace
from winogen.opencl.tiles import TileGrid
from winogen.opencl.winograd import mcmr_work
from winogen.records import Epilogue


@dataclass(frozen=True)
class Layer:
    """A transposed layer and the input of a call, but for the numbers."""

    weight: tuple[int, int, int, int]  # C, M/groups, KH, KW
    size: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    ends: tuple[tuple[int, int], tuple[int, int]] = ((0, 0), (0, 0))
    more: tuple[int, int] = (0, 0)
    groups: int = 1
    dilation: tuple[int, int] = (1, 1)
    layout: str = "NCHW"
    batch: int = 2

    @property
    def options(self) -> dict[str, Any]:
        """Those that a layer has by name."""
        return dict(stride=self.stride, padding=self.ends, output_padding=self.more,
                    groups=self.groups, dilation=self.dilation, layout=self.layout)  # fmt: skip

    @property
    def asked(self):
        """What a call computes."""
        options = {k: v for k, v in self.options.items() if k != "output_padding"}
        asked = Options(**options, activation="relu", threads=1)
        layer = TransposedLayer.of(self.weight, "float32", asked, self.more)
        return layer.problem(self.shape)

    @property
    def problem(self):
        """What the kernels compute, with an addition."""
        problem = phase_problem(self.asked)
        filters = problem.layer.filters
        return problem.sewn(Seams(problem.layer.channels, filters, add=filters))

    @property
    def shape(self):
        """Of the input."""
        channels = self.weight[0]
        image = (channels, *self.size) if self.layout == "NCHW" else (*self.size, channels)
        return (self.batch, *image)

    def arrays(self, seed: int, scale: int = 1) -> dict[str, np.ndarray]:
        """Small integers for all arrays of a call; weights are multiples of ``scale``."""
        rng = np.random.default_rng(seed)
        shapes = {"input": self.shape, "weights": self.weight, "add": self.asked.output_shape,
                  "bias": (self.weight[1] * self.groups,)}  # fmt: skip
        found = {name: rng.integers(-4, 5, shape).astype("f4") for name, shape in shapes.items()}
        return {**found, "weights": found["weights"] * np.float32(scale)}

    def wanted(self, arrays: dict[str, np.ndarray], activation: Any = "relu") -> np.ndarray:
        """The definition, in float64."""
        last = self.layout == "NHWC"

        def planes(x):
            return np.moveaxis(x, -1, 1) if last else x

        y = scattered(
            planes(arrays["input"]), arrays["weights"], arrays["bias"].astype("f8"), self.stride,
            self.ends, self.more, self.groups, self.dilation,
        )  # fmt: skip
        if "add" in arrays:
            y = y + planes(arrays["add"])
        y = activate(y, activation) if activation else y
        return np.moveaxis(y, 1, -1) if last else y


LAYERS = {
    "of a generator": Layer((4, 3, 4, 4), (5, 6), (2, 2), ((1, 1), (1, 1))),
    "three by two": Layer((3, 4, 3, 5), (4, 5), (3, 2), ((2, 0), (1, 3)), (2, 1), layout="NHWC"),
    "groups": Layer((4, 3, 3, 3), (4, 4), (2, 2), groups=2, layout="NHWC"),
    "fewer taps than phases": Layer((2, 2, 1, 2), (3, 4), (3, 4), more=(1, 2), groups=2),
    "one phase": Layer((3, 2, 3, 3), (5, 4), ends=((1, 2), (0, 1)), dilation=(2, 1)),
    "dilated": Layer((3, 2, 3, 3), (4, 5), (2, 3), ((3, 1), (0, 0)), dilation=(3, 2)),
    "outputs that see nothing": Layer((2, 3, 2, 3), (4, 3), (4, 2), dilation=(2, 2),
                                      more=(3, 0)),
}  # fmt: skip


def drawn(seed: int) -> Layer:
    """A layer of random options that has outputs."""
    rng = random.Random(seed)

    def two(most: int, least: int = 1) -> tuple[int, int]:
        return rng.randint(least, most), rng.randint(least, most)

    while True:
        stride, dilation, groups = two(4), two(rng.choice((1, 3))), rng.choice((1, 1, 2))
        more = tuple(rng.randrange(max(pair)) for pair in zip(stride, dilation))
        layer = Layer(
            (groups * rng.randint(1, 3), rng.choice((1, 2, 3, 4, 8)), *two(5)), two(7), stride,
            (two(3, 0), two(3, 0)), more, groups, dilation, rng.choice(exact.LAYOUTS),
            rng.randint(1, 2),
        )  # fmt: skip
        with suppress(InvalidValue):  # nothing is left of the output
            assert layer.asked
            return layer


def computed(layer, work, arrays, options=()):
    """The output of a work; all that it is not given is full of NaN before."""
    return devices.run(render(work, "opencl"), work, arrays, options)["output"]


def check_points(layer, seed, count):
    """Points of the whole space are exact, whichever kernel is the last."""
    space = DirectSpace(layer.problem, DeviceInfo.of(devices.context().devices[0]))
    arrays, rng = layer.arrays(seed), random.Random(seed)
    for _ in range(count):
        point = space.draw(rng)
        work = direct_work(layer.problem, point, space.device, bias=True)
        found = computed(layer, work, arrays, ("-cl-opt-disable",))
        np.testing.assert_array_equal(found, layer.wanted(arrays), err_msg=f"{layer} {point}")


@pytest.mark.parametrize("name", LAYERS)
def test_direct_convolution_is_exact(name):
    check_points(LAYERS[name], 1, 2)


@pytest.mark.parametrize("last", ["sum_windows", "add_chunks", "crop_output"])
def test_whatever_kernel_is_the_last_stores_phases(last):
    layer, rng = LAYERS["dilated"], random.Random(4)
    space = DirectSpace(layer.problem, DeviceInfo.of(devices.context().devices[0]))
    draws = (space.draw(rng) for _ in range(200))
    works = (direct_work(layer.problem, one, space.device, bias=True) for one in draws)
    work = next(one for one in works if one.kernels[-1].name == last)
    arrays = layer.arrays(3)
    np.testing.assert_array_equal(computed(layer, work, arrays), layer.wanted(arrays))


@pytest.mark.parametrize("seed", range(3))
def test_random_layers_are_exact(seed):
    check_points(drawn(seed), seed, 2)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(100, 100 + 20 * devices.DRAWS))
@pytest.mark.draws
def test_many_random_layers_are_exact(seed):
    check_points(drawn(seed), seed, 2)


# Phases of 3 x 2 taps, as the exact tests of tiles have them: F(3x4, 3x2).
TILED = Layer((6, 4, 6, 4), (7, 9), (2, 2), ((1, 2), (3, 0)), (1, 0), groups=2)
# Those that compile fast come first: the others are thorough.
CUTS_HERE = [*CUTS[3:], *CUTS[:3]]
BOTH = [(cut, exact.LAYOUTS[(i + other) % 2]) for other in (0, 1)
        for i, cut in enumerate(CUTS_HERE)]  # fmt: skip


@pytest.mark.parametrize("cut, layout", slower(BOTH, 4))
def test_tiles_are_exact(cut, layout):
    layer = replace(TILED, layout=layout)
    transforms = tuple(load(m, r, exact.POINTS) for m, r in zip(exact.TILE, exact.KERNEL))
    work = mcmr_work(layer.problem, transforms, allowed(cut, layout == "NCHW"), bias=True)
    arrays = layer.arrays(5, exact.scale("mcmr"))
    np.testing.assert_array_equal(computed(layer, work, arrays), layer.wanted(arrays))


@pytest.mark.parametrize("layout", exact.LAYOUTS)
@pytest.mark.parametrize("cut", CUTS, ids=range(len(CUTS)))
def test_demands_are_those_of_the_kernels(layout, cut):
    layer = replace(TILED, layout=layout)
    cut, device = allowed(cut, layout == "NCHW"), DeviceInfo(vector=4)
    problem = phase_problem(layer.asked)
    problem = replace(problem, layer=replace(problem.layer, epilogue=Epilogue()))
    tiles = TileGrid(problem, load(3, 3), load(4, 2))
    work = mcmr_work(problem, (tiles.height, tiles.width), cut)
    quick, counted = cuts.demands(tiles, cut, device), counting.demands(work, device)
    assert len(quick) == len(counted)
    for one, other in zip(quick, counted):
        assert (one.footprint, one.groups, one.items) == (
            other.footprint, other.groups, other.items)  # fmt: skip
        assert one.operations == pytest.approx(other.operations, rel=0.02)


@pytest.mark.parametrize("language", ["c", pytest.param("wgsl", marks=pytest.mark.thorough)])
@pytest.mark.parametrize("algorithm", ["direct", "mcmr"])
def test_sanitizers_and_webgpu(algorithm, language, tmp_path):
    """The same kernels as C, where nothing outside of an array is read or written."""
    layer = replace(TILED, layout="NHWC")
    scale, problem = 1, layer.problem
    if algorithm == "direct":
        space = DirectSpace(problem, DeviceInfo())
        work = direct_work(problem, space.draw(random.Random(2)), space.device, bias=True)
    else:
        scale = exact.scale("mcmr")
        transforms = tuple(load(m, r, exact.POINTS) for m, r in zip(exact.TILE, exact.KERNEL))
        work = mcmr_work(problem, transforms, CUTS[0], bias=True)
    arrays = layer.arrays(6, scale)
    wanted = layer.wanted(arrays)
    if language == "c":
        found = twin.run(render(work, "c"), work, arrays, tmp_path)
        np.testing.assert_array_equal(found["output"], wanted)
    else:  # which may round filters as it likes
        webgpu.device()
        found = webgpu.run(render(work, "wgsl"), work, arrays)
        np.testing.assert_allclose(found["output"], wanted, rtol=0, atol=1e-5 * wanted.max())


def check_call(seed):
    """A layer of real numbers, by the algorithm that is predicted to be fastest."""
    case, rng = drawn(seed), np.random.default_rng(seed)
    dtype = ("f4", "f4", "f2")[seed % 3]
    arrays = {k: rng.standard_normal(v.shape).astype(dtype) for k, v in case.arrays(0).items()}
    arrays["bias"] = arrays["bias"].astype("f4")
    slopes = rng.standard_normal(len(arrays["bias"]))
    activation = (None, "relu", ("prelu", slopes.astype("f4")), "gelu")[seed % 4]
    layer = ConvTranspose2d(arrays["weights"], arrays["bias"].astype(dtype), activation=activation,
                            context=devices.context(), **case.options)  # fmt: skip
    arrays["bias"] = arrays["bias"].astype(dtype).astype("f4")
    y = layer(arrays["input"], add=arrays["add"])
    largest = np.abs(case.wanted(arrays, None)).max()
    error = 8 * layer.plan(case.shape).predicted_error * max(1, largest)
    close(y, case.wanted(arrays, activation), error)


@pytest.mark.parametrize("seed", range(4))
def test_calls(seed):
    check_call(seed)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(100, 100 + 15 * devices.DRAWS))
@pytest.mark.draws
def test_many_calls(seed):
    check_call(seed)


@pytest.fixture(scope="module")
def small():
    """A layer and its numbers."""
    case = LAYERS["of a generator"]
    arrays = case.arrays(9)
    layer = ConvTranspose2d(arrays["weights"], arrays["bias"], context=devices.context(),
                            activation="relu", **case.options)  # fmt: skip
    return case, arrays, layer


def test_arrays_and_sizes(small):
    case, arrays, layer = small
    x, add, wanted = arrays["input"], arrays["add"], case.wanted(arrays)
    out = np.full(wanted.shape, np.nan, "f4")
    assert layer(x, out=out, add=add) is out
    np.testing.assert_array_equal(out, wanted)
    np.testing.assert_array_equal(layer(x[0], add=add[0]), wanted[0])
    assert layer(x[:0]).shape == (0, *wanted.shape[1:])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(layer))(x, add=add), wanted)
    larger = layer(x, (11, 12))
    del arrays["add"]
    np.testing.assert_array_equal(larger, replace(case, more=(1, 0)).wanted(arrays))


def test_arrays_of_pyopencl(small):
    case, arrays, layer = small
    array = pytest.importorskip("pyopencl.array")
    import pyopencl as cl

    y = layer(array.to_device(cl.CommandQueue(layer.context), arrays["input"]), (10, 13))
    wanted = replace(case, more=(0, 1)).wanted({k: v for k, v in arrays.items() if k != "add"})
    np.testing.assert_array_equal(y.get(), wanted)


def test_a_plan_says_what_is_asked(small):
    case, _, layer = small
    plan = layer.plan(case.shape)
    assert (plan.input_shape, plan.weight_shape) == (case.shape, case.weight)
    assert plan.output_shape == (2, 3, 10, 12) and plan.taps == (2, 2)
    assert plan.direct_multiplications == 2 * 5 * 6 * 4 * 3 * 16
    assert str(plan).startswith("conv_transpose2d float32 NCHW on OpenCL: 2x4x5x6 * 4x3x4x4 ->")
    assert plan.buffers["output"] == 4 * 2 * 3 * 10 * 12


W = np.ones((4, 2, 3, 3), np.float32)


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"output_padding": 1}, InvalidValue, "output_padding: got (1, 1)"),
        ({"algorithm": "im2col"}, InvalidValue, "algorithm: got 'im2col'; allowed: \"auto\""),
        ({"algorithm": "mcmr", "stride": 3}, Unsupported, "a kernel longer than the stride"),
        ({"groups": 3}, InvalidValue, "groups: got 3; allowed: a divisor of the 4 channels"),
        ({"padding": "same"}, InvalidValue, "padding: got 'same'; allowed: numbers"),
        ({"layout": "NCW"}, InvalidValue, "layout: got 'NCW'"),
        ({"bias": np.ones(3, "f4")}, InvalidValue, "bias: got shape (3,)"),
    ],
)
def test_what_is_refused(options, error, message):
    devices.context()
    with pytest.raises(error) as refusal:
        ConvTranspose2d(W, **options)
    assert message in str(refusal.value)
    with pytest.raises(InvalidType, match="weight: got dtype float64; allowed on devices: float32"):
        ConvTranspose2d(W.astype("f8"))
