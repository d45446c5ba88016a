"""Networks that compute signals in pieces: their bits, their state, and what is refused."""

import ctypes
import subprocess
from itertools import pairwise

import numpy as np
import onnxruntime as ort
import pytest
from network.test_network import net_of
from onnx import helper

import winogen
from winogen.errors import InvalidValue, Unsupported, VerificationError
from winogen.network import generate, pieces, writing
from winogen.toolchain import find_compiler, host_target

# As the tests' kernels in Python are compiled, so that both fuse the same multiply-adds.
FLAGS = ("-std=gnu11", "-Og", "-ffp-contract=fast", "-fPIC", "-shared")


def padded(net, x, width, **attributes):
    return net.node("Pad", x, net.constant(np.array([0, 0, width, 0, 0, 0])), **attributes)


def conv(net, x, channels, filters, taps=3, groups=1, **attributes):
    weight = net.constant(net.weights(filters, channels // groups, taps))
    return net.node(
        "Conv", x, weight, net.constant(net.weights(filters)), group=groups, **attributes
    )


def gated():
    """Padding as a node, ends that are cut off, gates, a stride, two ways up, a skip, groups."""
    net = net_of()
    a = net.node("Relu", conv(net, padded(net, "x", 6), 2, 8, taps=4, dilations=[2]))
    b = conv(net, a, 8, 16, pads=[4, 4], dilations=[2])
    cut = [net.constant(np.array([number])) for number in (0, -4, 2, 1)]
    b = net.node("Slice", b, *cut)
    net.nodes.append(helper.make_node("Split", [b], ["left", "right"], "split", axis=1))
    gate = net.node("Mul", net.node("Tanh", "left"), net.node("Sigmoid", "right"))
    a = net.node("Add", a, gate)
    half = net.node("Elu", conv(net, a, 8, 12, taps=5, groups=4, strides=[2], pads=[3, 0]))
    up = net.constant(net.weights(12, 6, 5))
    wide = net.node("ConvTranspose", half, up, strides=[2], pads=[0, 3])
    scales = net.constant(np.array([1, 1, 2], np.float32))
    twice = net.node("Resize", conv(net, half, 12, 4, taps=1), "", scales, mode="nearest",
                     coordinate_transformation_mode="asymmetric", nearest_mode="floor")  # fmt: skip
    joined = net.node("Concat", a, wide, twice, axis=1)
    return net.model(conv(net, joined, 18, 3, pads=[2, 0]), half, shape=[2, 2, "t"])


def causal(taps, dilation=1):
    return {"pads": [(taps - 1) * dilation, 0], "dilations": [dilation]}


class Built:
    """A network as a library, fed with signals of as many samples as one likes."""

    def __init__(self, model, samples, folder, flags=FLAGS, **options):
        files = generate(model, name="net", pieces=samples, **options)
        files.write(folder)
        sources = [str(p) for p in folder.glob("*.c") if p.name != "net_test.c"]
        words = [*find_compiler().command, *flags, *host_target().flags]
        subprocess.run([*words, *sources, "-lm", "-o", str(folder / "net.so")], check=True)
        words = (folder / "net.h").read_text("utf-8").split()
        self.sizes = {a: int(b) for a, b in pairwise(words) if a[:4] == "NET_" and b.isdigit()}
        self.library = ctypes.CDLL(str(folder / "net.so"))
        self.samples = samples

    def __call__(self, x, outputs=("V0",)):
        arena = np.full(self.sizes["NET_ARENA_BYTES"] + 64, 0xFF, np.uint8)
        begin = ctypes.c_void_p(arena.ctypes.data + -arena.ctypes.data % 64)
        state = np.full(self.sizes["NET_STATE_BYTES"], 0xFF, np.uint8)
        self.library.net_reset(pointer(state))
        made = []
        for piece in np.split(x, x.shape[2] // self.samples, 2):
            piece = np.ascontiguousarray(piece)
            sizes = [self.sizes[f"NET_{name}_NUMBERS"] for name in outputs]
            ys = [np.full(size, np.nan, np.float32) for size in sizes]
            self.library.net_run(pointer(piece), *map(pointer, ys), pointer(state), begin)
            made.append(ys)
        # (pieces, N, M, samples), of which those of a piece follow those of the one before
        return [np.stack(ys) for ys in zip(*made)]


def pointer(array):
    return ctypes.c_void_p(array.ctypes.data)


def whole(y, batch, channels):
    """The outputs of a signal, of those of its pieces."""
    split = y.reshape(len(y), batch, channels, -1)
    return np.concatenate([*split], 2)


def names_of(model):
    return [value.name for value in model.graph.output]


def test_pieces_of_any_length_have_the_bits_of_the_whole(tmp_path):
    model = gated()
    x = np.random.default_rng(0).standard_normal((2, 2, 96)).astype(np.float32)
    names = names_of(model)
    wanted = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    found = {}
    for samples in (96, 6):
        folder = tmp_path / str(samples)
        folder.mkdir()
        net = Built(model, samples, folder)
        ys = net(x, [name.upper() for name in names])
        found[samples] = [whole(y, *z.shape[:2]) for y, z in zip(ys, wanted)]
    for y, z in zip(found[96], wanted):
        assert np.abs(y - z).max() <= 1e-5 * np.abs(z).max()
    assert [y.tobytes() for y in found[6]] == [y.tobytes() for y in found[96]]


def test_layers_have_the_bits_of_their_streams(tmp_path):
    """A layer of filters as long as its stride, too, which has another kernel without padding."""
    net, x, layers = net_of(), "x", []
    for channels, filters, taps, stride, dilation in (
        (2, 96, 1, 1, 1), (96, 128, 2, 2, 1), (128, 24, 5, 1, 3), (24, 40, 3, 1, 1),
    ):  # fmt: skip
        weight = net.weights(filters, channels, taps)
        made = net.node("Conv", x, net.constant(weight), strides=[stride], **causal(taps, dilation))
        x = net.node("Relu", made)
        options = {"stride": stride, "dilation": dilation, "activation": "relu"}
        layers.append(winogen.Conv1d(weight, padding="causal", **options))
    model = net.model(x, shape=[1, 2, 480])  # an exporter's sizes, which pieces need not have
    signal = np.random.default_rng(1).standard_normal((1, 2, 480)).astype(np.float32)
    (y,) = Built(model, 48, tmp_path)(signal, [x.upper()])
    for layer in layers:
        signal = layer.stream()(signal)
    assert whole(y, 1, 40).tobytes() == signal.tobytes()


@pytest.mark.parametrize(
    "options, isa",
    [({}, None), ({"threads": "caller", "weights": "file"}, None), ({"isa": "generic"}, None),
     ({"isa": "neon"}, "neon")],
)  # fmt: skip
def test_the_folder_passes_its_own_test(options, isa, tmp_path, make):
    files = generate(gated(), name="net", pieces=6, **options)
    files.write(tmp_path)
    text = (tmp_path / "net_test.c").read_text("utf-8")
    assert "piece < " in text and "net_reset(state);" in text
    assert make(tmp_path, "test", isa=isa).count(": right") == 2
    assert "bytes for each signal" in (tmp_path / "README.md").read_text("utf-8")


@pytest.mark.compares
def test_it_is_compared_with_its_model_piece_by_piece(monkeypatch):
    """Histories that share their place in the state are found before anybody gets the files."""
    assert "compared with the model" in generate(gated(), pieces=6).comparison
    real = writing.network

    def broken(*given, **options):
        read = real(*given, **options)
        places = dict.fromkeys(read.pieces.places, 0)
        return writing.replace(read, pieces=read.pieces._replace(places=places))

    monkeypatch.setattr(writing, "network", broken)
    with pytest.raises(VerificationError, match="differs from the model"):
        generate(gated(), pieces=6)


def one(kind, *more, **attributes):
    """A convolution, and behind it a node that no piece suffices for."""
    net = net_of()
    a = conv(net, "x", 2, 4, pads=[2, 0])
    y = net.node(kind, a, *(net.constant(np.array(c)) for c in more), name="strange", **attributes)
    return net.model(y, shape=[1, 2, "t"])


def alone(**attributes):
    net = net_of()
    return net.model(conv(net, "x", 2, 4, **attributes), shape=[1, 2, "t"])


@pytest.mark.parametrize(
    "model, options, why",
    [
        (alone(pads=[1, 1]), {}, r"conv_0: got padding 1,1; allowed: 2 zeros before"),
        (alone(), {}, r"conv_0: got padding 0,0; allowed: 2 zeros"),
        (alone(taps=5, strides=[2], pads=[2, 0]), {}, "allowed: 3 to 4 zeros before"),
        (one("MaxPool", kernel_shape=[3], strides=[1], pads=[2, 0]), {}, "strange.*padded"),
        (one("GlobalAveragePool"), {}, "strange"),
        (one("Softmax", axis=2), {}, "strange: got Softmax"),
        (one("InstanceNormalization", np.ones(4, np.float32), np.ones(4, np.float32)), {},
         "strange"),
        (one("Resize", np.float32([]), np.float32([1, 1, 2]), mode="linear"), {}, "strange"),
        (one("Transpose", perm=[0, 2, 1]), {}, "output.*last axis|strange"),
        (alone(pads=[2, 0], strides=[3]), {}, "pieces: got 8; allowed: multiples of 3"),
        (alone(pads=[2, 0]), {"pieces": 0}, "pieces: got 0; allowed"),
        (alone(pads=[2, 0]), {"algorithm": "mcmr"}, "algorithm: got 'mcmr'; allowed"),
        (alone(pads=[2, 0]), {"tolerance": 1e-3}, "tolerance: got 0.001; allowed: None"),
        (alone(pads=[2, 0]), {"host": "web"}, "host: got 'web'; allowed: 'c' with pieces"),
    ],
)  # fmt: skip
def test_what_sees_samples_to_come_is_refused(model, options, why):
    with pytest.raises((InvalidValue, Unsupported), match=why):
        generate(model, **{"pieces": 8, **options})


def test_maps_have_no_pieces():
    net = net_of()
    model = net.model(net.conv("x", 4, 4), shape=[1, 4, 8, 8])
    with pytest.raises(InvalidValue, match="input x of 4 axes; allowed: models of signals"):
        generate(model, pieces=8)


def test_lengths_of_pieces_follow_from_strides_on_the_way():
    """A stride behind an enlargement takes back what that made."""
    net = net_of()
    half = conv(net, "x", 2, 4, taps=4, strides=[4], pads=[3, 0])
    up = net.node("ConvTranspose", half, net.constant(net.weights(4, 4, 2)), strides=[2])
    model = net.model(conv(net, up, 4, 4, taps=2, strides=[2], pads=[1, 0]), shape=[1, 2, "t"])
    assert pieces.Cutting.of(model, 4, None).sizes(3) == {"x": (1, 2, 12)}
    with pytest.raises(InvalidValue, match="multiples of 4"):
        pieces.Cutting.of(model, 6, None)
