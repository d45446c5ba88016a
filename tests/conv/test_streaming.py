"""Signals in pieces: the bits of the whole signal, however it is cut, and clear refusals."""

import copy
import pickle

import numpy as np
import pytest

import winogen
from winogen.errors import InvalidType, InvalidValue, Unsupported, WinogenError
from winogen.toolchain import host_targets


def samples(rng, conv, batch, count):
    """Random samples for a layer, in its layout."""
    layer = conv._layer
    shape = (batch, layer.channels, count) if layer.planar else (batch, count, layer.channels)
    return rng.standard_normal(shape).astype(layer.dtype)


def pieces(rng, x, along, most=6):
    """The samples cut at random, pieces of nothing and of one sample among them."""
    cuts = np.sort(rng.integers(0, x.shape[along] + 1, int(rng.integers(0, most))))
    return np.split(x, cuts, along)


def layers(rng, count):
    """Random causal layers, and the same by direct convolution of whole signals."""
    for _ in range(count):
        groups = int(rng.choice([1, 1, 2]))
        inputs, filters = (int(rng.choice([1, 2, 5, 16, 24, 40])) for _ in "ab")
        shape = [filters * groups, inputs, int(rng.choice([1, 2, 3, 4, 7, 15]))]
        if rng.random() < 0.3:  # depthwise
            groups = inputs
            shape[:2] = inputs * int(rng.choice([1, 2])), 1
        kind = str(rng.choice(["float32", "float32", "float64"]))
        w, b = (rng.standard_normal(size).astype(kind) for size in (shape, shape[0]))
        options = {
            "stride": int(rng.choice([1, 1, 2, 3, 8])),
            "dilation": int(rng.choice([1, 1, 2, 16])),
            "groups": groups,
            "layout": str(rng.choice(["NCW", "NWC"])),
            "activation": [None, "relu", ("prelu", w[:, 0, 0]), "silu"][int(rng.integers(4))],
            "padding": "causal" if rng.random() < 0.8 else "valid",
            "threads": int(rng.integers(1, 3)),
        }
        yield winogen.Conv1d(w, b, **options), winogen.Conv1d(w, b, **options, algorithm="direct")


@pytest.mark.parametrize("seed", range(8))
def test_pieces_have_the_bits_of_the_whole(seed):
    rng = np.random.default_rng(seed)
    for conv, direct in layers(rng, 5):
        (axis,), batch = conv._layer.axes, int(rng.choice([1, 2]))
        along = 2 if conv._layer.planar else 1
        x = samples(rng, conv, batch, axis.reach + axis.stride + int(rng.integers(0, 200)))
        whole = direct(x)
        stream = conv.stream(batch)
        for _ in range(3):
            made = [stream(piece) for piece in pieces(rng, x, along)]
            assert np.concatenate(made, along).tobytes() == whole.tobytes(), (conv, axis)
            stream.reset()
        assert stream(x).tobytes() == whole.tobytes()


@pytest.mark.thorough
@pytest.mark.draws
@pytest.mark.parametrize("seed", range(100, 140))
def test_pieces_have_the_bits_of_the_whole_often(seed):
    test_pieces_have_the_bits_of_the_whole(seed)


@pytest.mark.parametrize("target", [target.name for target in host_targets()])
def test_on_every_instruction_set(target, monkeypatch):
    monkeypatch.setenv("WINOGEN_ISA", target)
    rng = np.random.default_rng(3)
    for conv, direct in layers(rng, 3):
        along = 2 if conv._layer.planar else 1
        x = samples(rng, conv, 1, conv._layer.axes[0].reach + 70)
        stream = conv.stream()
        made = [stream(piece) for piece in pieces(rng, x, along)]
        assert np.concatenate(made, along).tobytes() == direct(x).tobytes()


# Kernels for whole signals that are not padded sum in another order than those for padded ones,
# and signals shorter than what an output sees have fewer taps, so that more channels are summed at
# once.
MANY_CHANNELS = [
    {"shape": (24, 300, 8), "stride": 8},
    {"shape": (40, 700, 3), "stride": 3},
    {"shape": (32, 1024, 1)},
    {"shape": (4, 1024, 1), "layout": "NWC"},
    {"shape": (64, 1024, 3), "layout": "NWC"},
    {"shape": (32, 640, 5), "dilation": 2},
    {"shape": (16, 1, 400), "stride": 160},
]


@pytest.mark.parametrize("given", MANY_CHANNELS, ids=str)
def test_sums_of_many_channels(given):
    rng = np.random.default_rng(0)
    w = rng.standard_normal(given["shape"], dtype=np.float32)
    options = {key: value for key, value in given.items() if key != "shape"}
    conv = winogen.Conv1d(w, padding="causal", **options)
    direct = winogen.Conv1d(w, padding="causal", algorithm="direct", **options)
    along = 2 if conv._layer.planar else 1
    (axis,) = conv._layer.axes
    x = samples(rng, conv, 1, axis.reach + 40 * axis.stride)
    stream = conv.stream()
    whole = direct(x)
    for count in (1, 3, 37):
        made = [stream(piece) for piece in np.array_split(x, count, along)]
        assert np.concatenate(made, along).tobytes() == whole.tobytes()
        stream.reset()
    # Short signals in one piece and in many.
    short = x[..., :3] if along == 2 else x[:, :3]
    once = stream(short)
    stream.reset()
    made = [stream(piece) for piece in np.array_split(short, 3, along)]
    assert np.concatenate(made, along).tobytes() == once.tobytes()
    np.testing.assert_allclose(once, direct(short), rtol=0, atol=1e-3)


def test_narrow_arrays():
    rng = np.random.default_rng(1)
    w = rng.standard_normal((8, 6, 3), dtype=np.float32)
    direct = winogen.Conv1d(w, padding="causal", algorithm="direct")
    x = rng.standard_normal((1, 6, 60)).astype(np.float16)
    stream = winogen.Conv1d(w, padding="causal").stream(dtype="float16")
    made = np.concatenate([stream(piece) for piece in np.array_split(x, 7, 2)], 2)
    assert made.dtype == np.float16 and made.tobytes() == direct(x).tobytes()
    with pytest.raises(InvalidType, match="chunk: got dtype float32"):
        stream(x.astype(np.float32))


def test_axes_may_be_left_out():
    w = np.ones((2, 1, 3), np.float32)
    for layout in ("NCW", "NWC"):
        stream = winogen.Conv1d(w, padding="causal", layout=layout).stream()
        x = np.arange(6, dtype=np.float32)
        assert stream(x[:2]).shape == (2, 2)
        rest = x[2:][None] if layout == "NCW" else x[2:][:, None]
        made = stream(rest)
        assert made.shape == ((2, 4) if layout == "NCW" else (4, 2))
        assert np.take(made, 0, 0 if layout == "NCW" else 1).tolist() == [3, 6, 9, 12]
        assert stream(x[:0]).shape == ((2, 0) if layout == "NCW" else (0, 2))


def test_arrays_that_are_given():
    rng = np.random.default_rng(2)
    w = rng.standard_normal((4, 4, 3), dtype=np.float32)
    conv = winogen.Conv1d(w, padding="causal", activation="relu")
    direct = winogen.Conv1d(w, padding="causal", activation="relu", algorithm="direct")
    x = rng.standard_normal((1, 4, 40), dtype=np.float32)
    stream, whole = conv.stream(), direct(x, add=x, add_after=2 * x)
    out = np.zeros((1, 4, 10), np.float32)
    for first in range(0, 40, 10):
        part = x[:, :, first : first + 10]
        assert stream(part, out, add=part, add_after=2 * part) is out
        assert np.array_equal(out, whole[:, :, first : first + 10])
    alone = np.zeros((4, 1), np.float32)
    assert stream(x[0, :, :1], alone) is alone and alone.any()


def test_strides_longer_than_filters():
    w = np.ones((1, 1, 2), np.float32)
    stream = winogen.Conv1d(w, padding="valid", stride=5).stream()
    x = np.arange(23, dtype=np.float32)
    made = [stream(x[k : k + 1]) for k in range(23)]
    assert np.concatenate(made, 1).tolist() == [[1, 11, 21, 31, 41]]


def test_state_is_copied_reset_and_kept_after_errors():
    rng = np.random.default_rng(4)
    conv = winogen.Conv1d(rng.standard_normal((3, 2, 5), dtype=np.float32), padding="causal")
    x = rng.standard_normal((2, 2, 30), dtype=np.float32)
    stream = conv.stream(batch=2)
    assert stream.state_bytes == 2 * 2 * 4 * 4
    first = stream(x)
    kinds = (copy.deepcopy(stream), pickle.loads(pickle.dumps(stream)), copy.copy(stream), stream)
    for wrong in (x[:1], x[:, :1], x[0], x.astype(np.float64), [1.0], x.astype(int)):
        with pytest.raises(WinogenError, match="chunk: got"):
            stream(wrong)
    with pytest.raises(WinogenError, match="add: got shape"):
        stream(x + 1, add=x)
    with pytest.raises(WinogenError, match="out: got"):
        stream(x + 2, np.zeros(3, np.float32))
    with pytest.raises(WinogenError, match="out: got"):
        stream(x[..., :0], np.zeros(3, np.float32))
    seconds = [one(x) for one in kinds]
    assert all(np.array_equal(one, seconds[0]) for one in seconds)
    thirds = [[one(x[..., :9]), one(x[..., 9:])] for one in kinds]  # no buffer is shared
    assert all(np.array_equal(a, b) for one in thirds for a, b in zip(one, thirds[0]))
    assert not np.array_equal(first, seconds[0])
    stream(x), stream(x)  # both buffers are of this length
    waits, pickled = copy.copy(stream), pickle.dumps(stream)
    for other in (x + 1, x + 2, x + 3):
        stream(other)
    assert np.array_equal(waits(x), pickle.loads(pickled)(x))
    stream.reset()
    assert np.array_equal(stream(x), first)


def test_streams_share_packed_weights():
    conv = winogen.Conv1d(np.ones((8, 8, 3), np.float32), padding="causal")
    one, other = conv.stream(), conv.stream(3)
    one(np.ones((1, 8, 4), np.float32)), other(np.ones((3, 8, 5), np.float32))
    bound = one._windows._bound.values()
    assert one._windows is other._windows and len(bound) == 2
    assert len({id(packed) for packed in one._windows._packed.values()}) == 1
    kernels = {call.kernel for prepared, _ in bound for call in prepared.calls}
    assert len(kernels) == 1  # which all pieces run, whatever their length


W = np.ones((4, 2, 3), np.float32)
REFUSED = [
    ({"padding": "same"}, InvalidValue, r"padding: got \(1, 1\), with which outputs see samples"),
    ({"padding": ((2, 1),)}, InvalidValue, r"padding: got \(2, 1\), with"),
    ({"padding": "causal", "padding_mode": "reflect"}, InvalidValue, 'padding_mode: got "reflect"'),
    ({"padding": "causal", "algorithm": "mcmr"}, Unsupported, 'algorithm: got "mcmr"; allowed'),
    ({"padding": "causal", "algorithm": "fft"}, Unsupported, 'algorithm: got "fft"; allowed'),
    ({"padding": "causal", "tile": 4}, Unsupported, "allowed: .* without tile, points"),
    ({"padding": "causal", "product_dtype": "int16"}, Unsupported, 'product_dtype: got "int16"'),
]


@pytest.mark.parametrize("options, kind, words", REFUSED, ids=str)
def test_refuses(options, kind, words):
    with pytest.raises(kind, match=words):
        winogen.Conv1d(W, **options).stream()


def test_refuses_numbers_and_axes():
    conv = winogen.Conv1d(W, padding="causal")
    with pytest.raises(InvalidValue, match="batch: got 0; allowed: a positive int"):
        conv.stream(0)
    with pytest.raises(InvalidType, match="batch: got 1.5"):
        conv.stream(1.5)
    with pytest.raises(InvalidType, match="dtype"):
        conv.stream(dtype="float64")
    with pytest.raises(InvalidValue, match="padding: got 'causal'; allowed: .*\"valid\"$"):
        winogen.Conv2d(np.ones((4, 2, 3, 3), np.float32), padding="causal")
    with pytest.raises(InvalidValue, match='"same", "valid", "causal"'):
        winogen.Conv1d(W, padding="before")


def test_causal_padding_is_zeros_before():
    rng = np.random.default_rng(5)
    w, x = (rng.standard_normal(s, dtype=np.float32) for s in ((4, 2, 3), (1, 2, 20)))
    for options in ({}, {"stride": 2}, {"dilation": 4}):
        causal = winogen.conv1d(x, w, padding="causal", **options)
        before = 2 * options.get("dilation", 1)
        assert np.array_equal(causal, winogen.conv1d(x, w, padding=((before, 0),), **options))
