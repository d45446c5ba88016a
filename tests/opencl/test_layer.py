"""`winogen.opencl.Conv2d`: arrays in and out, plans, choices, and what is refused."""

import json
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
from opencl import devices
from opencl.problems import Case, case_of, close

import winogen
from winogen import extras
from winogen.errors import InvalidType, InvalidValue, Unsupported
from winogen.opencl import Conv2d
from winogen.opencl import devices as limits
from winogen.opencl.choice import choose, tiled
from winogen.opencl.counting import DeviceRates
from winogen.opencl.devices import DeviceInfo

RATES = DeviceRates(1e11, 1e10, 1e-5, 8)
GENERATOR = np.random.default_rng(5)


def numbers(*shape, dtype="float32"):
    return GENERATOR.standard_normal(shape).astype(dtype)


def layer_of(case, arrays, **options):
    """The layer of a random problem."""
    activation = case.activation
    if activation == "prelu":
        activation = ("prelu", arrays["slopes"])
    bias = arrays.get("bias")
    if bias is not None:
        bias = bias.astype(case.dtype)
    return Conv2d(arrays["weights"], bias, activation=activation, context=devices.context(),
                  **case.options, **options)  # fmt: skip


def check_random(seed):
    """A random problem by the algorithm that is predicted to be fastest, and by direct."""
    case = case_of(seed, tiled=seed % 2 == 0)
    arrays = case.arrays(seed)
    if case.bias:
        arrays["bias"] = arrays["bias"].astype(case.dtype).astype("float32")
    wanted, added = case.wanted(arrays), {name: arrays[name] for name in case.added}
    layer = layer_of(case, arrays, algorithm=("auto", "direct", "auto")[seed % 3])
    found = layer(arrays["input"], **added)
    assert found.dtype == arrays["input"].dtype
    plan = layer.plan(case.shape)
    # Predicted is the largest error of large layers: of few outputs the largest is smaller.
    error = 8 * plan.predicted_error * max(1, case.largest(arrays))
    close(found, wanted, error)


@pytest.mark.parametrize("seed", range(4))
def test_random_problems(seed):
    check_random(seed)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(1000, 1000 + 10 * devices.DRAWS))
@pytest.mark.draws
def test_many_random_problems(seed):
    check_random(seed)


@pytest.fixture(scope="module")
def small():
    """A layer by tiles with all that an epilogue has, and a call of it."""
    w, b = numbers(6, 4, 3, 3), numbers(6)
    layer = Conv2d(w, b, padding=1, activation="relu", algorithm="mcmr", tile=2,
                   context=devices.context())  # fmt: skip
    x, add = numbers(2, 4, 9, 8), numbers(2, 6, 9, 8)
    return layer, x, add, winogen.conv2d(x, w, b, padding=1, activation="relu", add=add)


def test_arrays_of_numpy(small):
    layer, x, add, wanted = small
    np.testing.assert_allclose(layer(x, add=add), wanted, atol=1e-5)
    out = np.full((2, 6, 9, 16), np.nan, "f4")[..., ::2]
    assert layer(x[:, ::1], out, add=np.asfortranarray(add)) is out
    np.testing.assert_allclose(out, wanted, atol=1e-5)
    assert layer(x[0], add=add[0]).shape == (6, 9, 8)
    assert layer(x[:0]).shape == (0, 6, 9, 8)


def test_arrays_of_pyopencl(small):
    layer, x, add, wanted = small
    array = pytest.importorskip("pyopencl.array")
    import pyopencl as cl

    queue = cl.CommandQueue(layer.context)
    here, more = array.to_device(queue, x), array.to_device(queue, add)
    y = layer(here, add=more)
    assert y.queue is queue and isinstance(y, array.Array)
    np.testing.assert_allclose(y.get(), wanted, atol=1e-5)
    out = array.empty(queue, y.shape, y.dtype)
    assert layer(here, out, add=more) is out
    np.testing.assert_array_equal(out.get(), y.get())
    # An image of the batch is copied, since kernels read from the beginning of a buffer.
    np.testing.assert_allclose(layer(here[1:], add=more[1:]).get(), wanted[1:], atol=1e-5)
    with pytest.raises(InvalidType, match="add: got ndarray; allowed: a pyopencl array"):
        layer(here, add=add)
    with pytest.raises(InvalidValue, match=r"out: got shape \(2, 4, 9, 8\); allowed: \(2, 6"):
        layer(here, here)
    with pytest.raises(InvalidValue, match="out: got a view of another array"):
        layer(here[1:], y[1:])
    other = array.to_device(cl.CommandQueue(cl.Context(layer.context.devices)), x)
    with pytest.raises(InvalidValue, match="input: got an array of another context"):
        layer(other)


def test_results_keep_their_bits_whatever_threads_call(small):
    layer, x, add, _ = small
    first, results = layer(x, add=add), []
    calls = [threading.Thread(target=lambda: results.append(layer(x, add=add))) for _ in range(4)]
    for one in calls:
        one.start()
    for one in calls:
        one.join()
    assert len(results) == 4 and all(np.array_equal(one, first) for one in results)


def test_arrays_of_16_bits():
    """They are stored as such, and computed in float32; weights may stay float32."""
    w, x = numbers(5, 3, 3, 3), numbers(1, 3, 8, 9, dtype="float16")
    for weight in (w, w.astype("f2")):
        for algorithm in ("direct", "mcmr"):
            layer = Conv2d(weight, algorithm=algorithm, context=devices.context())
            y = layer(x)
            wanted = winogen.conv2d(x.astype("f8"), weight.astype("f8"))
            assert y.dtype == np.float16 and layer.plan(x.shape, "float16").dtype == "float16"
            assert (np.abs(y - wanted) <= 2**-10 * np.abs(wanted) + 1e-4).all()


def test_a_plan_says_what_is_allocated(small, monkeypatch):
    """Bytes of buffers by name, kernels, and what was predicted; also as JSON."""
    layer, *_ = small
    made = {}
    real = limits.platform().Buffer

    def buffer(context, flags, size=0, hostbuf=None):
        one = real(context, flags, size, hostbuf)
        made.setdefault(one.size, []).append(one)
        return one

    monkeypatch.setattr(limits.platform(), "Buffer", buffer)
    fresh = Conv2d(numbers(6, 4, 3, 3), numbers(6), padding=1, algorithm="mcmr", tile=(2, 3),
                   layout="NHWC", context=layer.context)  # fmt: skip
    plan = fresh.plan((1, 20, 9, 4))
    fresh(numbers(1, 20, 9, 4))
    sizes = sorted(one.size for ones in made.values() for one in ones)
    weights = 6 * 4 * 9 * 4
    assert sizes == sorted([*plan.buffers.values(), weights])
    own = {"packed", "input", "output", "bias"}
    assert plan.workspace_bytes == sum(v for k, v in plan.buffers.items() if k not in own)
    assert plan.packed_weight_bytes == plan.buffers["packed"]
    assert plan.tile == (2, 3) and plan.algorithm == "mcmr" and "kernel " in plan.source
    assert "mcmr F(2x3,3x3)" in str(plan) and layer.device.name in str(plan)
    document = json.loads(json.dumps(plan.to_dict()))
    assert document["buffers"] == plan.buffers and "source" not in document
    _, times = fresh.timed(numbers(1, 20, 9, 4))
    assert [*times] == [one.kernel for one in plan.launches] and min(times.values()) > 0


def problem(shape=(1, 64, 28, 28), filters=64, **options):
    return Case((filters, shape[1], 3, 3), (shape[0], *shape[2:]), options=options).problem


def request(problem, **options):
    from winogen.conv.request import Request

    return Request.of(problem.layer, **options)


def test_the_fastest_within_the_tolerance_is_chosen():
    one = problem()
    usual = choose(one, request(one), DeviceInfo(), RATES)
    assert usual[0].algorithm == "mcmr" and usual[0].error < 1e-5 / 1.5
    careful = choose(one, request(one, tolerance=6e-7), DeviceInfo(), RATES)[0]
    assert careful.error <= 6e-7 / 1.5 and careful.seconds >= usual[0].seconds
    coarse = choose(one, request(one, tolerance=1e-3), DeviceInfo(), RATES)
    assert coarse[0].seconds == min(way.seconds for way in coarse)
    with pytest.raises(InvalidValue, match="tolerance: got 1e-09; allowed: at least"):
        choose(one, request(one, tolerance=1e-9), DeviceInfo(), RATES)


def test_a_workspace_limit_picks_what_keeps_to_it():
    one = problem()
    least = choose(one, request(one, workspace_limit=0), DeviceInfo(), RATES)
    assert all(way.workspace_bytes == 0 for way in least)
    assert least[0].work(one, DeviceInfo()).workspace_bytes == 0
    three = request(one, algorithm="mcmr", tile=(6, 6), workspace_limit=10)
    many = problem((1, 256, 28, 28))  # whose tiles no group has room for
    with pytest.raises(InvalidValue, match=r"workspace_limit: got 10; allowed: at least \d+ bytes"):
        choose(many, three, DeviceInfo(local_bytes=4096), RATES)


def test_tiles_are_those_that_cpus_have():
    one = problem()
    ways = tiled(one, request(one), DeviceInfo(), RATES)
    assert {way.tile for way in ways} >= {(2, 2), (4, 4), (2, 6), (6, 6)}
    assert {way.tag for way in ways} == {"", "gaussian"}
    asked = tiled(one, request(one, tile=(3, 5)), DeviceInfo(), RATES)
    assert {way.tile for way in asked} == {(3, 5)}
    strided = problem(stride=(2, 2))
    assert {
        way.transforms[0].stride for way in tiled(strided, request(strided), DeviceInfo(), RATES)
    } == {2}


def test_what_has_no_room_is_refused():
    one = problem((8, 64, 64, 64))
    with pytest.raises(InvalidValue, match=r"input: got shape \(8, 64, 64, 64\), which takes"):
        choose(one, request(one), DeviceInfo(largest_buffer=1 << 20), RATES)


W = np.ones((4, 2, 3, 3), np.float32)


@pytest.mark.parametrize(
    "weight, options, error, message",
    [
        (W.astype("f8"), {}, InvalidType, "weight: got dtype float64; allowed on devices: float32"),
        (W, {"algorithm": "im2col"}, InvalidValue, "algorithm: got 'im2col'; allowed: \"auto\""),
        (W, {"layout": "NCW"}, InvalidValue, "layout: got 'NCW'"),
        (W, {"stride": 0}, InvalidValue, "stride: got 0"),
        (W, {"algorithm": "direct", "tile": 2}, InvalidValue, "tile: got 2; allowed: None"),
        (W, {"algorithm": "mcmr", "stride": 5}, Unsupported, "stride up to 4"),
        (W, {"context": 1}, InvalidType, "context: got int; allowed: None, a pyopencl.Context"),
        (W, {"activation": "sine"}, InvalidValue, "activation: got 'sine'"),
        (W, {"tile": 4, "points": "0,1,1"}, InvalidValue, "points"),
    ],
)
def test_what_is_refused(weight, options, error, message):
    devices.context()
    with pytest.raises(error) as refusal:
        Conv2d(weight, **options)
    assert message in str(refusal.value)


def test_what_a_call_refuses(small):
    layer, x, add, _ = small
    for arguments, error, message in (
        ((x.astype("f8"),), InvalidType, "input: got dtype float64; allowed on devices"),
        ((x[:, :3],), InvalidValue, "input: got 3 channels"),
        ((x.tolist(),), InvalidType, "input: got list"),
        ((x, np.empty((1, 2), "f4")), InvalidValue, "out: got shape (1, 2)"),
    ):
        with pytest.raises(error) as refusal:
            layer(*arguments)
        assert message in str(refusal.value)
    with pytest.raises(InvalidValue, match="add: got shape"):
        layer(x, add=add[:1])


def test_without_pyopencl_one_sentence_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    with pytest.raises(extras.MissingPackage, match=r"pip install 'winogen\[opencl\]'"):
        Conv2d(W)


def test_without_a_device_one_sentence_says_how_to_get_one(monkeypatch):
    cl = pytest.importorskip("pyopencl")

    def none():
        raise cl.LogicError("clGetPlatformIDs", -1001, "PLATFORM_NOT_FOUND_KHR")

    monkeypatch.setattr(cl, "get_platforms", none)
    with pytest.raises(limits.NoDevice, match="no device of OpenCL is here; .*pocl-opencl-icd$"):
        Conv2d(W)


def test_nothing_of_it_is_imported_before_it_is_asked_for():
    code = "import sys, winogen.conv; print(*(n for n in sys.modules if 'opencl' in n), end='')"
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == ""
    code = "import sys, winogen.opencl.choice; print('pyopencl' in sys.modules, end='')"
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False"


def test_layers_travel_as_weights_and_options(small):
    layer, x, add, _ = small
    copy = pickle.loads(pickle.dumps(layer))
    np.testing.assert_array_equal(copy(x, add=add), layer(x, add=add))
