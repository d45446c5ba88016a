"""Wrong arguments are refused before any work, by messages that name argument, value and remedy."""

import re
import warnings

import numpy as np
import pytest

import winogen
from winogen.conv import Conv2d, arguments, conv2d
from winogen.errors import InvalidType, InvalidValue, Unsupported


@pytest.fixture(autouse=True)
def no_work(monkeypatch):
    """Any attempt to plan or compile fails the test."""

    def work(*_):
        raise AssertionError("work began before the arguments were checked")

    monkeypatch.setattr("winogen.conv.convolution.prepare", work)


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


X, W = zeros(1, 4, 6, 7), zeros(6, 4, 3, 3)
NAN = float("nan")

# what is wrong -> (keyword arguments, error, what the message must contain)
WRONG = {
    "input rank 2": (
        dict(input=zeros(6, 7)),
        InvalidValue,
        ["input", "(6, 7)", "N, C, H, W", "one channel"],
    ),
    "input rank 5": (dict(input=zeros(1, 1, 4, 6, 7)), InvalidValue, ["input", "4 axes"]),
    "input list": (dict(input=[[1.0]]), InvalidType, ["input", "[[1.0]]", "array"]),
    "input number": (dict(input=3.0), InvalidType, ["input", "3.0", "array"]),
    "input None": (dict(input=None), InvalidType, ["input", "None", "array"]),
    "input type": (dict(input=np.ndarray), InvalidType, ["input", "ndarray", "array"]),
    "input int": (dict(input=zeros(1, 4, 6, 7, dtype=int)), InvalidType, ["input", "int64"]),
    "input half": (
        dict(input=zeros(1, 4, 6, 7, dtype="f2"), weight=W.astype("f8")),
        InvalidType,
        ["input", "float16", "float64, as weight has"],
    ),
    "input complex": (dict(input=zeros(1, 4, 6, 7, dtype="c8")), InvalidType, ["complex64"]),
    "input swapped": (
        dict(input=X.astype(X.dtype.newbyteorder())),
        InvalidType,
        ["input", "swapped", "native", "astype('float32')"],
    ),
    "input masked": (dict(input=np.ma.masked_array(X)), InvalidType, ["input", "mask"]),
    "input channels": (dict(input=zeros(1, 3, 6, 7)), InvalidValue, ["input", "3 channels", "4"]),
    "layout swaps channels": (dict(layout="NHWC"), InvalidValue, ["7 channels", "NHWC"]),
    "input empty": (dict(input=zeros(1, 4, 0, 7)), InvalidValue, ["input", "(1, 4, 0, 7)"]),
    "weight rank": (dict(weight=zeros(6, 4, 3)), InvalidValue, ["weight", "(6, 4, 3)", "4 axes"]),
    "weight empty": (dict(weight=zeros(0, 4, 3, 3)), InvalidValue, ["weight", "(0, 4, 3, 3)"]),
    "weight dtype": (
        dict(weight=zeros(6, 4, 3, 3, dtype="f8")),
        InvalidType,
        ["float32", "float64"],
    ),
    "bias shape": (dict(bias=zeros(5)), InvalidValue, ["bias", "(5,)", "(6,)"]),
    "bias rank": (dict(bias=zeros(6, 1)), InvalidValue, ["bias", "(6, 1)", "(6,)"]),
    "bias dtype": (dict(bias=zeros(6, dtype="f8")), InvalidType, ["bias", "float64", "float32"]),
    "bias list": (dict(bias=[0.0] * 6), InvalidType, ["bias", "array"]),
    "stride 0": (dict(stride=0), InvalidValue, ["stride", "got 0", "positive"]),
    "stride float": (dict(stride=2.0), InvalidType, ["stride", "2.0", "int"]),
    "stride bool": (dict(stride=True), InvalidType, ["stride", "True", "int"]),
    "stride nan": (dict(stride=NAN), InvalidType, ["stride", "nan"]),
    "stride text": (dict(stride="2"), InvalidType, ["stride", "'2'"]),
    "stride three": (dict(stride=(1, 1, 1)), InvalidValue, ["stride", "(1, 1, 1)", "pair"]),
    "stride huge": (dict(stride=2**40), InvalidValue, ["stride", str(2**40), "at most"]),
    "stride None": (dict(stride=None), InvalidType, ["stride", "None"]),
    "dilation 0": (dict(dilation=(1, 0)), InvalidValue, ["dilation", "got 0", "positive"]),
    "dilation nan": (dict(dilation=(NAN, 1)), InvalidType, ["dilation", "nan"]),
    "padding negative": (dict(padding=-1), InvalidValue, ["padding", "-1", "non-negative"]),
    "padding float": (dict(padding=(1, 1.5)), InvalidType, ["padding", "1.5"]),
    "padding nan": (dict(padding=((0, NAN), (0, 0))), InvalidType, ["padding", "nan"]),
    "padding name": (dict(padding="full"), InvalidValue, ["padding", "'full'", '"same"']),
    "padding of four": (dict(padding=(1, 1, 1, 1)), InvalidValue, ["padding", "(1, 1, 1, 1)"]),
    "padding triple": (dict(padding=((1, 1, 1), (0, 0))), InvalidValue, ["padding", "(1, 1, 1)"]),
    "padding one axis": (dict(padding=((1, 1),)), InvalidValue, ["padding", "((1, 1),)"]),
    "same with stride": (
        dict(padding="same", stride=2),
        InvalidValue,
        ["same", "stride", "(2, 2)"],
    ),
    "groups 0": (dict(groups=0), InvalidValue, ["groups", "got 0"]),
    "groups of filters": (
        dict(groups=4, weight=zeros(6, 1, 3, 3)),
        InvalidValue,
        ["groups", "got 4", "6 filters"],
    ),
    "groups of channels": (
        dict(groups=2),
        InvalidValue,
        ["input", "4 channels", "8", "4 x 2 groups"],
    ),
    "padding_mode": (
        dict(padding_mode="mirror"),
        InvalidValue,
        ["padding_mode", "mirror", "reflect"],
    ),
    "padding_mode None": (dict(padding_mode=None), InvalidValue, ["padding_mode", "None", "zeros"]),
    "padding_mode number": (dict(padding_mode=1), InvalidType, ["padding_mode", "1", "zeros"]),
    "reflect too wide": (
        dict(padding_mode="reflect", padding=(5, 7)),
        InvalidValue,
        ["padding", "(7, 7)", "width of 7", "at most 6", "reflect"],
    ),
    "circular too wide": (
        dict(padding_mode="circular", padding=((0, 7), (0, 0))),
        InvalidValue,
        ["padding", "(0, 7)", "height of 6", "at most 6", "circular"],
    ),
    "layout": (dict(layout="nchw"), InvalidValue, ["layout", "nchw", "NCHW", "NHWC"]),
    "activation": (dict(activation="sine"), InvalidValue, ["activation", "sine", "None", "relu"]),
    "algorithm": (dict(algorithm="ntt"), InvalidValue, ["algorithm", "ntt", "winograd1d", "mcmr"]),
    "algorithm None": (dict(algorithm=None), InvalidValue, ["algorithm", "None", "auto"]),
    "edge": (dict(edge="clip"), InvalidValue, ["edge", "clip", "discard", "direct"]),
    "border": (dict(border="pad"), InvalidValue, ["border", "pad", "unswitch", "indirect"]),
    "kernel too large": (
        dict(weight=zeros(6, 4, 3, 9)),
        InvalidValue,
        ["weight", "3 x 9", "6 x 7"],
    ),
    "dilated too large": (
        dict(dilation=(1, 4)),
        InvalidValue,
        ["weight", "3 x 9", "dilated", "6 x 7"],
    ),
    "threads 0": (dict(threads=0), InvalidValue, ["threads", "got 0", "positive"]),
    "threads many": (dict(threads=10**9), InvalidValue, ["threads", "at most 1024"]),
    "threads float": (dict(threads=1.0), InvalidType, ["threads", "1.0"]),
    "threads bool": (dict(threads=True), InvalidType, ["threads", "True"]),
    "tile for direct": (dict(algorithm="direct", tile=2), InvalidValue, ["tile", "2", "direct"]),
    "points for im2col": (
        dict(algorithm="im2col", points="0,1,-1,inf"),
        InvalidValue,
        ["points", "im2col", "None"],
    ),
    "tile 0": (dict(algorithm="mcmr", tile=0), InvalidValue, ["tile", "got 0", "positive"]),
    "tile nan": (dict(algorithm="mcmr", tile=(2, NAN)), InvalidType, ["tile", "nan"]),
    "tile of three": (dict(algorithm="mcmr", tile=(2, 2, 2)), InvalidValue, ["tile", "(2, 2, 2)"]),
    "tile too large": (
        dict(algorithm="mcmr", tile=17),
        InvalidValue,
        ["tile", "17", "at most 16", 'algorithm "fft"', 'up to 22 with order="huffman"'],
    ),
    "tile too large in any order": (
        dict(algorithm="mcmr", tile=23, order="huffman"),
        InvalidValue,
        ["tile", "23", "at most 22", 'algorithm "fft"'],
    ),
    "tile rows of winograd1d": (
        dict(algorithm="winograd1d", tile=(2, 4)),
        InvalidValue,
        ["tile", "(2, 4)", "(1, m)"],
    ),
    "points too few": (
        dict(algorithm="mcmr", tile=4, points="0,1,-1,inf"),
        InvalidValue,
        ["points", "got 4", "6 for tile 4"],
    ),
    "points fewer than taps": (
        dict(algorithm="mcmr", points="0,inf"),
        InvalidValue,
        ["points", "got 2", "at least 3"],
    ),
    "points twice": (dict(algorithm="mcmr", points="0,1,1,inf"), InvalidValue, ["points"]),
    "points float": (dict(algorithm="mcmr", points=[0, 0.1, 1, 2]), InvalidType, ["points", "0.1"]),
    "points number": (dict(algorithm="mcmr", points=4), InvalidType, ["points", "4"]),
    "points of the rows of winograd1d": (
        dict(algorithm="winograd1d", points=("0,1,-1,inf", "0,1,-1,inf")),
        InvalidValue,
        ["points", "winograd1d", "width"],
    ),
    "moduli beside points": (
        dict(algorithm="mcmr", points="0,1,-1,inf", moduli="x,x-1,x+1,inf"),
        InvalidValue,
        ["moduli", "points", "one of them"],
    ),
    "moduli for direct": (
        dict(algorithm="direct", moduli="x,x-1,x+1,inf"),
        InvalidValue,
        ["moduli", "direct", "None"],
    ),
    "moduli of another tile": (
        dict(algorithm="mcmr", tile=4, moduli="x,x-1,x^2+1,inf"),
        InvalidValue,
        ["moduli", "degree of 5", "6 for tile 4"],
    ),
    "moduli with a common factor": (
        dict(moduli="x-1,x^2-1,inf"),
        InvalidValue,
        ["moduli", "x^2 - 1", "coprime"],
    ),
    "moduli number": (dict(moduli=4), InvalidType, ["moduli", "4", "x^2+1"]),
    "moduli text": (dict(moduli="x,y,inf"), InvalidValue, ["moduli", "'y'"]),
    "moduli of the rows of winograd1d": (
        dict(algorithm="winograd1d", moduli=("x,x-1,x+1,inf", "x,x-1,x+1,inf")),
        InvalidValue,
        ["moduli", "winograd1d", "width"],
    ),
    "order unknown": (dict(order="random"), InvalidValue, ["order", "random", "huffman"]),
    "order for im2col": (
        dict(algorithm="im2col", order="huffman"),
        InvalidValue,
        ["order", "im2col", "None"],
    ),
    "stride and mcmr": (
        dict(algorithm="mcmr", stride=5),
        Unsupported,
        ["algorithm", "mcmr", "stride (5, 5)", "up to 4", "direct"],
    ),
    "dilation and winograd1d": (
        dict(algorithm="winograd1d", stride=2, dilation=(1, 2)),
        Unsupported,
        ["algorithm", "winograd1d", "dilation (1, 2)", "direct"],
    ),
    "stride and a tile": (dict(tile=4, stride=5), Unsupported, ["mcmr", "stride (5, 5)"]),
    "stride and points": (
        dict(points="0,1,-1,inf", stride=(1, 2)),
        InvalidValue,
        ["points", "0, 1, -1, inf", "width", "stride is 2", "None"],
    ),
    "kernel beyond points": (
        dict(algorithm="winograd2d", weight=zeros(6, 4, 1, 19), padding=10),
        Unsupported,
        ["algorithm", "width of 19", "at most 18"],
    ),
    "workspace_limit float": (dict(workspace_limit=1e6), InvalidType, ["workspace_limit", "bytes"]),
    "tolerance 0": (dict(tolerance=0.0), InvalidValue, ["tolerance", "0.0", "positive"]),
    "tolerance text": (dict(tolerance="1e-3"), InvalidType, ["tolerance", "'1e-3'", "positive"]),
    "tolerance huge": (dict(tolerance=10**400), InvalidValue, ["tolerance", "1000", "positive"]),
    "tolerance complex": (
        dict(tolerance=np.complex64(1)),
        InvalidType,
        ["tolerance", "(1+0j)", "positive"],
    ),
    "slope huge": (
        dict(activation=("leaky_relu", 10**400)),
        InvalidValue,
        ["activation", "finite numbers"],
    ),
    "workspace_limit negative": (dict(workspace_limit=-1), InvalidValue, ["workspace_limit", "-1"]),
    "unknown keyword": (dict(striide=2), TypeError, ["striide"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_named(name):
    options, error, words = WRONG[name]
    arguments = {"input": X, "weight": W, **options}
    with pytest.raises(error) as caught:
        conv2d(arguments.pop("input"), arguments.pop("weight"), **arguments)
    assert type(caught.value) is error
    for word in words:
        assert word in str(caught.value), str(caught.value)
    if error is not TypeError:
        assert re.match(r"[a-z_]+: ", str(caught.value)), str(caught.value)
        assert isinstance(caught.value, winogen.WinogenError)
        assert isinstance(caught.value, TypeError if error is InvalidType else ValueError)


@pytest.mark.parametrize("name", [n for n in WRONG if not n.startswith(("input", "layout"))])
def test_conv2d_object_refuses_the_same_when_made_or_called(name):
    options, error, _ = WRONG[name]
    arguments = {"weight": W, **options}
    with pytest.raises(error):
        conv = Conv2d(arguments.pop("weight"), **arguments)
        conv(X)


@pytest.mark.parametrize(
    "out, error, words",
    [
        ([0.0], InvalidType, ["out", "list"]),
        (zeros(1, 6, 4, 5, dtype="f8"), InvalidType, ["out", "<f8"]),
        (zeros(1, 6, 4, 4), InvalidValue, ["out", "(1, 6, 4, 4)", "(1, 6, 4, 5)"]),
        (zeros(6, 4, 5), InvalidValue, ["out", "(6, 4, 5)", "(1, 6, 4, 5)"]),
        (np.asfortranarray(zeros(1, 6, 4, 5)), InvalidValue, ["out", "contiguous"]),
        (zeros(1, 6, 4, 10)[..., ::2], InvalidValue, ["out", "contiguous"]),
        (np.broadcast_to(zeros(1), (1, 6, 4, 5)), InvalidValue, ["out", "writeable"]),
        (np.ma.masked_array(zeros(1, 6, 4, 5)), InvalidType, ["out", "MaskedArray"]),
        (
            np.frombuffer(bytearray(481), np.uint8)[1:].view("f4").reshape(1, 6, 4, 5),
            InvalidValue,
            ["out", "aligned"],
        ),
    ],
)
def test_out_must_fit(out, error, words):
    for call in (lambda: conv2d(X, W, out=out), lambda: bound(W)(X, out=out)):
        with pytest.raises(error) as caught:
            call()
        for word in words:
            assert word in str(caught.value)


def bound(weight):
    """A Conv2d that knows the shape of X already, so that the call only has to check `out`."""

    conv = Conv2d(weight)

    class Prepared:
        problem = conv._layer.problem(X.shape)

    conv._bound[X.shape] = Prepared(), ()
    return conv


def test_out_may_not_overlap_what_is_read():
    buffer = zeros(1000)
    x = buffer[: X.size].reshape(X.shape)
    out = buffer[X.size - 1 : X.size + 119].reshape(1, 6, 4, 5)
    with pytest.raises(InvalidValue, match="out: .*overlaps input"):
        conv2d(x, W, out=out)
    with pytest.raises(InvalidValue, match="out: .*overlaps input"):
        bound(W)(x, out=out)
    w = buffer[: W.size].reshape(W.shape)
    out = buffer[W.size - 1 : W.size + 119].reshape(1, 6, 4, 5)
    with pytest.raises(InvalidValue, match="out: .*overlaps weight"):
        conv2d(X, w, out=out)
    with pytest.raises(InvalidValue, match="out: .*overlaps bias"):
        conv2d(X, W, buffer[115:121], out=buffer[:120].reshape(1, 6, 4, 5))


def test_no_warning_comes_with_a_refusal():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InvalidType):
            conv2d([[1.0, 2.0], [3.0]], W)


def test_threads_follow_the_environment(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(6)))
    monkeypatch.setenv("OMP_NUM_THREADS", "3,2")
    assert arguments.threads(None) == 3
    for nonsense in ("", "many", "0", "-1", "²", "٣"):
        monkeypatch.setenv("OMP_NUM_THREADS", nonsense)
        assert arguments.threads(None) == 6
    assert arguments.threads(np.int64(5)) == 5


@pytest.mark.parametrize("count", ("7", "1000", "9" * 5000))
def test_the_default_is_no_more_threads_than_cpus(monkeypatch, count):
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {0, 3})
    monkeypatch.setenv("OMP_NUM_THREADS", count)
    assert arguments.threads(None) == 2
    monkeypatch.setenv("OMP_NUM_THREADS", "0" * 5000 + "1")
    assert arguments.threads(None) == 1
    assert arguments.threads(7) == 7  # who asks for more has them


def test_a_workspace_may_be_larger_than_any_size():
    Conv2d(W, workspace_limit=2**40)


def test_numpy_integers_and_single_items_are_taken_as_torch_takes_them():
    layer = winogen.conv.Layer.of(
        (4, 2, 3, 3), "float32", stride=np.int32(2), padding=(np.uint8(1),), dilation=[2]
    )
    assert (layer.stride, layer.padding, layer.dilation) == ((2, 2), (1, 1, 1, 1), (2, 2))


@pytest.mark.parametrize("name", ["Conv", "ConvTranspose", "QConv"])
def test_an_array_in_place_of_a_shape_is_told_by_its_shape(name):
    """Not by all of its numbers, by whichever layer."""
    for rank in (1, 2, 3) if name != "QConv" else (2,):
        x, dtype = zeros(1, 4, *(6,) * rank), np.int8 if name == "QConv" else np.float32
        layer = getattr(winogen, f"{name}{rank}d")(zeros(4, 4, *(3,) * rank, dtype=dtype))
        with pytest.raises(InvalidType) as refusal:
            layer.plan(x)
        told = f"input_shape: got an array of shape {x.shape}; allowed: a shape, as x.shape"
        assert str(refusal.value) == told
