"""What may be passed as arrays: any memory order, read-only, foreign objects, out=, zero batch."""

import array

import numpy as np
import pytest
from conv import exact
from conv.reference import convolve

from winogen import QConv2d
from winogen.conv import Conv2d, OutOfMemory, conv2d, memory
from winogen.records.machine import LINE

OPTIONS = dict(padding=((1, 1), (2, 0)), algorithm="direct")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(4)
    x, w, bias = (exact.integers(rng, shape, 9) for shape in ((2, 3, 7, 8), (4, 3, 3, 3), (4,)))
    wanted = convolve(x, w, bias, padding=OPTIONS["padding"])
    return *(values.astype(np.float32) for values in (x, w, bias)), wanted


def spread(values):
    """The values as every other item of an array of NaN."""
    wide = np.full([2 * size for size in values.shape], np.nan, values.dtype)
    view = wide[(slice(None, None, 2),) * values.ndim]
    view[...] = values
    return view


def backwards(values):
    reverse = (slice(None, None, -1),) * values.ndim
    return values[reverse].copy()[reverse]


def misaligned(values):
    raw = bytearray(1) + bytearray(values.tobytes())
    return np.frombuffer(raw, np.uint8)[1:].view(values.dtype).reshape(values.shape)


def read_only(values):
    values = values.copy()
    values.flags.writeable = False
    return values


class Foreign:
    """Offers one protocol and nothing else of an array."""

    def __init__(self, values, protocol):
        setattr(type(self), protocol, property(lambda self: getattr(values, protocol)))


def foreign(protocol):
    return lambda values: type("Array", (Foreign,), {})(values, protocol)


ORDERS = {
    "spread": spread,
    "backwards": backwards,
    "fortran": np.asfortranarray,
    "misaligned": misaligned,
    "read-only": read_only,
    "subclass": lambda values: values.view(type("Sub", (np.ndarray,), {})),
    "channels last": lambda v: (
        np.moveaxis(np.ascontiguousarray(np.moveaxis(v, 1, -1)), -1, 1) if v.ndim == 4 else v
    ),
    "__array_interface__": foreign("__array_interface__"),
    "__array__": foreign("__array__"),
    "memoryview": memoryview,
}


@pytest.mark.parametrize("name", ORDERS)
def test_any_memory_order_of_every_argument(data, name):
    x, w, bias, wanted = data
    order = ORDERS[name]
    before = [np.array(values) for values in (x, w, bias)]
    given = [order(values.copy()) for values in (x, w, bias)]
    y = conv2d(*given, **OPTIONS)
    assert type(y) is np.ndarray and y.dtype == np.float32 and np.array_equal(y, wanted)
    assert np.array_equal(Conv2d(*given[1:], **OPTIONS)(given[0]), wanted)
    for now, then in zip(given, before):
        assert np.array_equal(np.asarray(now), then)


def test_broadcast_views(data):
    x, w, bias, _ = data
    x = np.broadcast_to(x[:1, :1], (3, 3, 7, 8))
    wanted = convolve(x.astype(int), w.astype(int), bias.astype(int), padding=OPTIONS["padding"])
    assert np.array_equal(conv2d(x, w, bias, **OPTIONS), wanted)


def test_torch_tensors_are_viewed(data):
    torch = pytest.importorskip("torch")
    x, w, bias, wanted = data
    y = conv2d(*(torch.from_numpy(values) for values in (x, w, bias)), **OPTIONS)
    assert type(y) is np.ndarray and np.array_equal(y, wanted)
    last = torch.from_numpy(x).to(memory_format=torch.channels_last)
    assert np.array_equal(conv2d(last, w, bias, **OPTIONS), wanted)
    with pytest.raises(TypeError, match="input: got Tensor .*grad"):
        conv2d(torch.from_numpy(x).requires_grad_(), w, **OPTIONS)
    with pytest.raises(TypeError, match="input: got dtype int64"):
        conv2d(torch.zeros(1, 3, 7, 8, dtype=int), w, **OPTIONS)


def test_objects_without_a_dtype_are_refused(data):
    x, w, _, _ = data
    for value in (x.tolist(), tuple(x), array.array("f", [1.0]).tolist(), "x", 1.0, object()):
        with pytest.raises(TypeError, match="input: .*allowed: an array"):
            conv2d(value, w, **OPTIONS)


@pytest.mark.parametrize("algorithm", ("direct", "mcmr"))
@pytest.mark.parametrize("layout", exact.LAYOUTS)
def test_every_output_is_written_and_nothing_else(algorithm, layout):
    rng = np.random.default_rng(5)
    x = exact.integers(rng, (2, 3, 8, 9), 3)
    w = exact.integers(rng, (5, 3, *exact.KERNEL), 1) * exact.scale(algorithm)
    exact.check(x, w, algorithm=exact.chosen(algorithm), layout=layout)


def test_out_is_returned_and_keeps_its_kind(data):
    x, w, bias, wanted = data
    out = np.full(wanted.shape, np.nan, np.float32)
    assert conv2d(x, w, bias, out=out, **OPTIONS) is out and np.array_equal(out, wanted)
    conv = Conv2d(w, bias, **OPTIONS)
    out[...] = np.nan
    assert conv(x, out=out) is out and np.array_equal(out, wanted)


def test_out_may_lie_between_the_rows_of_the_input(data):
    _, w, _, _ = data
    buffer = np.zeros((2, 2000), np.float32)
    x, out = buffer[:, :192].reshape(2, 3, 8, 8), buffer[0, 200:488].reshape(2, 4, 6, 6)
    assert conv2d(x, w, out=out, algorithm="direct") is out


def test_one_image_without_batch_axis(data):
    x, w, bias, wanted = data
    conv = Conv2d(w, bias, **OPTIONS)
    assert np.array_equal(conv(x[1]), wanted[1])
    assert np.array_equal(conv2d(x[0], w, bias, **OPTIONS), wanted[0])
    out = np.empty_like(wanted[0], np.float32)
    assert conv(x[1], out) is out and np.array_equal(out, wanted[1])
    last = Conv2d(w, bias, layout="NHWC", **OPTIONS)
    assert np.array_equal(last(x[0].transpose(1, 2, 0)), wanted[0].transpose(1, 2, 0))


@pytest.mark.parametrize("algorithm", ("auto", "direct", "mcmr"))
def test_zero_batch(data, algorithm):
    _, w, bias, _ = data
    x = np.empty((0, 3, 7, 8), np.float32)
    assert conv2d(x, w, bias, algorithm=algorithm).shape == (0, 4, 5, 6)
    out = np.empty((0, 4, 5, 6), np.float32)
    assert conv2d(x, w, bias, algorithm=algorithm, out=out) is out
    conv = Conv2d(w, bias, algorithm=algorithm)
    assert conv(x).shape == (0, 4, 5, 6)
    assert conv.plan(x.shape).multiplications == 0


def test_a_batch_equals_its_images(data):
    rng = np.random.default_rng(6)
    x = rng.standard_normal((3, 5, 9, 10)).astype(np.float32)
    w = rng.standard_normal((7, 5, *exact.KERNEL)).astype(np.float32)
    for algorithm in exact.PLAIN + exact.WINOGRAD:
        conv = Conv2d(w, padding=1, **exact.chosen(algorithm))
        single = np.concatenate([conv(x[n : n + 1]) for n in range(3)])
        assert np.array_equal(conv(x), single), algorithm


def test_relu_lets_nan_and_infinity_through():
    w = np.ones((1, 1, 1, 1), np.float32)
    x = np.array([np.nan, np.inf, -np.inf, -1.0, -0.0, 2.0], np.float32).reshape(1, 1, 2, 3)
    y = conv2d(x, w, activation="relu", algorithm="direct")
    assert np.array_equal(y.ravel(), [np.nan, np.inf, 0, 0, 0, 2], equal_nan=True)


def test_workspace_and_packed_weights_are_used_within_their_bounds(monkeypatch):
    """Kernels may neither leave what they were given nor depend on what was in it."""
    room, asked = 256, []

    def guarded(size, what):
        raw = np.full(size + 2 * room + LINE, 0xFF, np.uint8)  # as floats: NaN
        skip = room - raw[room:].ctypes.data % LINE + LINE
        asked.append((what, raw, skip, size))
        return raw[skip : skip + size]

    monkeypatch.setattr(memory, "aligned", guarded)
    for algorithm in exact.PLAIN + exact.WINOGRAD:
        for edge in ("discard", "direct") if algorithm in exact.WINOGRAD else ("discard",):
            monkeypatch.setattr(memory, "_workspace", memory._Workspace())
            rng = np.random.default_rng(7)
            w = exact.integers(rng, (5, 3, *exact.KERNEL), 1) * exact.scale(algorithm)
            chosen = dict(exact.chosen(algorithm), edge=edge, threads=2)
            exact.check(exact.integers(rng, (2, 3, 11, 13), 3), w, algorithm=chosen)
    assert {what for what, *_ in asked} == {"workspace", "packed weight"}
    for what, raw, skip, size in asked:
        assert (raw[:skip] == 0xFF).all() and (raw[skip + size :] == 0xFF).all(), what


def test_refused_memory_is_an_error_with_the_bytes(monkeypatch, data):
    x, w, _, _ = data

    def refuse(shape, dtype):
        raise MemoryError

    conv = Conv2d(w, algorithm="direct")
    conv(x)
    monkeypatch.setattr(memory.np, "empty", refuse)
    with pytest.raises(OutOfMemory, match=r"output: could not allocate 960 bytes") as caught:
        conv(x)
    assert isinstance(caught.value, MemoryError)
    with pytest.raises(OutOfMemory, match="contiguous copy of input: .* 1344 bytes"):
        conv(np.asfortranarray(x))


def test_an_output_larger_than_any_memory_is_refused():
    x, w = np.zeros((1, 1, 1, 1), np.float32), np.zeros((1, 1, 1, 1), np.float32)
    with pytest.raises(OutOfMemory, match="output: could not allocate"):
        conv2d(x, w, padding=10**7, algorithm="direct", threads=1)


def test_memory_of_large_arrays_is_used_again_when_nobody_looks_at_it(monkeypatch):
    monkeypatch.setattr(memory, "_spare", memory._Spare())
    first = memory.empty((1 << 20,), np.dtype(np.float32), "first")
    at, view = first.ctypes.data, first[5:9]
    assert type(first) is np.ndarray and at % LINE == 0
    first[...] = view[...] = 7
    del first
    second = memory.empty((1 << 20,), np.dtype(np.float32), "second")
    second[...] = 8
    assert second.ctypes.data != at and np.all(view == 7)  # somebody looked
    del view
    third = memory.empty((1 << 10, 1 << 10), np.dtype(np.float32), "third")
    assert third.ctypes.data == at
    third[...] = 9
    assert np.all(second == 8)
    memory.release()
    assert np.all(third == 9)


def test_little_memory_is_kept(monkeypatch):
    monkeypatch.setattr(memory, "_spare", memory._Spare())
    for size in (30 << 20, 20 << 20, 100 << 20):
        memory.empty((size,), np.dtype(np.uint8), "large")
        kept = [buffer.size for buffer in memory._spare._buffers.values()]
        assert sum(kept) <= memory._KEPT
    memory.empty((memory._LARGE - 1,), np.dtype(np.uint8), "small")
    assert [buffer.size for buffer in memory._spare._buffers.values()] == kept
    memory.workspace(2 << 20)
    memory.release()
    assert not memory._spare._buffers  # a workspace is no exception


def test_kept_memory_is_given_back_before_an_array_is_refused(monkeypatch):
    spare = memory._Spare()
    monkeypatch.setattr(memory, "_spare", spare)
    memory.empty((2 << 20,), np.dtype(np.uint8), "large")
    assert spare._buffers
    real = np.empty

    def full(size, *rest):
        if spare._buffers:
            raise MemoryError
        return real(size, *rest)

    monkeypatch.setattr(memory.np, "empty", full)
    assert memory.empty((16 << 20,), np.dtype(np.uint8), "large").nbytes == 16 << 20


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("how", [{"algorithm": "mcmr"}, {"padding": 1, "padding_mode": "reflect"}])
def test_a_picture_is_one_image_of_one_channel(layout, how):
    """Whole, transposed, or with steps: the same as with all four axes."""
    draw = np.random.default_rng(1)
    picture, w = draw.random((18, 23), np.float32), draw.random((5, 1, 3, 3), np.float32)
    conv = Conv2d(w, layout=layout, **how)
    for x in (picture, picture.T, picture[::2, ::-1]):
        four = x[None, None] if layout == "NCHW" else x[None, :, :, None]
        wanted = conv2d(four, w, layout=layout, **how)[0]
        assert np.array_equal(conv2d(x, w, layout=layout, **how), wanted)
        for _ in range(2):  # the second call takes a shorter way
            assert np.array_equal(conv(x), wanted)
        out = np.empty_like(wanted)
        assert conv(x, out, add=wanted, add_after=wanted) is out
        assert np.allclose(out, 3 * wanted)
        assert conv.plan(x.shape).output_shape == wanted.shape


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("algorithm", ["direct", "mcmr"])
def test_a_picture_of_bytes(layout, algorithm):
    draw = np.random.default_rng(1)
    picture = draw.integers(0, 256, (18, 23), np.uint8)
    w = draw.integers(-9, 9, (5, 1, 3, 3), np.int8)
    scales = dict(w_scale=0.1, x_scale=0.1, y_scale=1) if algorithm == "mcmr" else {}
    conv = QConv2d(w, layout=layout, algorithm=algorithm, **scales)
    for x in (picture, picture.T):
        four = x[None, None] if layout == "NCHW" else x[None, :, :, None]
        for _ in range(2):
            assert np.array_equal(conv(x), conv(four)[0])
