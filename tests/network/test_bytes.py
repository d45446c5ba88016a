"""A quantized model as a folder of C: it computes what onnxruntime does, on any CPU."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from network.test_network import net_of
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from winogen.errors import InvalidValue
from winogen.graph import QConv
from winogen.network import generate
from winogen.network.bytes_reading import read_bytes
from winogen.network.bytes_tiles import chosen
from winogen.network.reading import loaded

KINDS = {"uint8": QuantType.QUInt8, "int8": QuantType.QInt8}


class Samples(CalibrationDataReader):
    def __init__(self, shape):
        random = np.random.default_rng(3)
        self.rest = iter(random.standard_normal((4, *shape)).astype(np.float32))

    def get_next(self):
        x = next(self.rest, None)
        return None if x is None else {"x": x}


def quantized(model, shape, folder, kind="uint8", per_channel=True):
    """The model with all that onnxruntime quantizes quantized."""
    path = folder / "quantized.onnx"
    types = {"activation_type": KINDS[kind], "weight_type": QuantType.QInt8}
    quantize_static(model, path, Samples(shape), quant_format=QuantFormat.QDQ,
                    per_channel=per_channel, **types)  # fmt: skip
    return onnx.load(path)


def mobile(shape):
    """MobileNet-v2 in small: inverted residuals, depthwise layers, a mean and a product."""
    net = net_of()

    def conv(x, channels, filters, taps=1, **attributes):
        y = net.conv(x, channels, filters, taps=taps, **attributes)
        return net.node("Clip", y, *(net.constant(np.float32(n).reshape(())) for n in (0, 6)))

    def inverted(x, channels, filters, stride):
        y = conv(conv(x, channels, 18), 18, 18, 3, groups=18, strides=[stride] * 2)
        y = net.conv(y, 18, filters, taps=1)
        return net.node("Add", x, y) if stride == 1 and channels == filters else y

    x = conv("x", 3, 8, 3, strides=[2, 2])
    for channels, filters, stride in ((8, 8, 1), (8, 12, 2), (12, 12, 1)):
        x = inverted(x, channels, filters, stride)
    y = net.node("Flatten", net.node("GlobalAveragePool", conv(x, 12, 20)))
    arrays = net.constant(net.weights(20, 7)), net.constant(net.weights(7))
    return _flat(net.model(net.node("Gemm", y, *arrays), shape=list(shape)))


def mixed(shape):
    """What else there is: groups, a dilation, one-sided padding, pools, parts of a whole."""
    net = net_of()
    a = net.node("Relu", net.conv("x", 3, 6, strides=[2, 1]))
    b = net.node("Conv", a, net.constant(net.weights(4, 3, 3, 2)), group=2, dilations=[2, 3],
                 pads=[3, 0, 1, 3])  # fmt: skip
    c = net.node("MaxPool", a, kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1])
    d = net.node("AveragePool", net.node("Concat", b, c, axis=1), kernel_shape=[2, 3],
                 strides=[2, 2], pads=[0, 1, 0, 1])  # fmt: skip
    filters = net.constant(net.weights(5, 10, 3, 3))
    e = net.node("Conv", net.node("Sigmoid", d), filters, auto_pad="SAME_UPPER", strides=[2, 2])
    height, width = (shape[2] + 1) // 2 // 2, (shape[3] + 1) // 2
    size = 5 * ((height + 1) // 2) * ((width + 1) // 2)
    weight = net.constant(net.weights(size, 4))
    return _flat(net.model(net.node("MatMul", net.node("Flatten", e), weight), shape=list(shape)))


def _flat(model):
    del model.graph.output[0].type.tensor_type.shape.dim[2:]
    return model


def outputs_of(model, x, optimized=True):
    options = ort.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    if not optimized:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options)
    return session.run(None, {model.graph.input[0].name: x})[0]


def bytes_ends():
    """A layer that reads and writes uint8, with padding and a bias, as one QLinearConv."""
    random = np.random.default_rng(0)
    arrays = {
        "xs": np.float32(0.02), "xz": np.uint8(90), "ws": np.float32([0.002, 0.003, 0.001]),
        "w": random.integers(-127, 128, (3, 5, 3, 3)).astype(np.int8), "wz": np.zeros(3, np.int8),
        "ys": np.float32(0.1), "yz": np.uint8(100), "b": np.int32([-(2**13), 70, 5]),
    }  # fmt: skip
    names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"]
    node = helper.make_node("QLinearConv", names, ["y"], "only", pads=[1, 2, 0, 1])
    value, kind = helper.make_tensor_value_info, TensorProto.UINT8
    ends = [value("x", kind, [2, 5, 6, 7])], [value("y", kind, [2, 3, 5, 8])]
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()]
    graph = helper.make_graph([node], "g", *ends, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


# Without its optimizations onnxruntime rounds a mean to another code, which Sigmoid amplifies.
@pytest.mark.parametrize(
    "kind, draft, shape, ways",
    [("uint8", mobile, (2, 3, 17, 22), (True, False)), ("int8", mixed, (1, 3, 13, 12), (True,))],
)
def test_every_output_is_within_a_step(kind, draft, shape, ways, tmp_path, make, ends):
    model = quantized(draft(shape), shape, tmp_path, kind)
    files = generate(model, isa="generic")
    files.write(tmp_path)
    assert files.least_arena_bytes <= files.arena_bytes <= 1.1 * files.least_arena_bytes
    x = np.random.default_rng(5).standard_normal(shape).astype(np.float32)
    scale = model.graph.node[-1].input[1]
    (step,) = (numpy_helper.to_array(t) for t in model.graph.initializer if t.name == scale)
    wanted = [outputs_of(model, x, optimized) for optimized in ways]
    y = ends(tmp_path, x, wanted[0].size, make)
    assert all(np.abs(y - one.ravel()).max() <= 1.001 * step for one in wanted)
    assert np.unique(y).size > 3
    graph = read_bytes(loaded(model)).graph
    exact = [graph.computed([image])[0] for image in np.split(x, len(x))]
    np.testing.assert_array_equal(y, np.concatenate(exact).ravel())


def test_a_graph_of_codes_says_what_they_mean():
    """Codes of callers are uint8, those of the graph int8, with another zero point."""
    model = bytes_ends()
    read = read_bytes(loaded(model))
    assert [node.op.kind for node in read.graph.nodes] == ["take", "convolve", "give"]
    taken, made = (node.output for node in read.graph.nodes[:2])
    assert read.codes["x"] is None and read.shapes[taken] == (1, 5, 6, 7)
    assert read.codes[made] == (np.float32(0.1), 100 - 128) and read.shapes[made] == (1, 3, 5, 8)
    x = np.random.default_rng(0).integers(0, 256, (2, 5, 6, 7)).astype(np.uint8)
    (y,) = read.graph.computed([x])
    assert y.dtype == np.uint8 and (y == outputs_of(model, x)).all()


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("isa", ["generic", "neon", "rvv128"])
def test_layers_of_bytes_pass_their_own_test(isa, tmp_path, make):
    generate(bytes_ends(), isa=isa).write(tmp_path)
    assert "y: off by 0 steps" in make(tmp_path, "test", "-O1", isa=isa)
    source = tmp_path / "net_weights.c"
    source.write_text(source.read_text().replace("-8192", "8192"))
    with pytest.raises(AssertionError, match="WRONG"):
        make(tmp_path, "test", "-O1", isa=isa)


@pytest.mark.parametrize("options", [{"filter_dtype": "float16"}, {"tolerance": 1e-3}])
def test_options_of_floats_are_refused(options):
    ((name, _),) = options.items()
    with pytest.raises(InvalidValue, match=f"^{name}: got .* as the model is of bytes"):
        generate(bytes_ends(), **options)


@pytest.mark.thorough
def test_the_net_of_digits_fits_a_cortex_m4(on_m4):
    script = on_m4("digits_on_m4")
    done = script.run(50)  # the linker refuses what does not fit
    assert np.abs(done.scores - done.expected).max() <= 1.001 * done.step
    assert done.arrays + done.stack < 16 * 1024
    assert done.instructions.max() < done.direct  # which has one layer only


def three_by_three(shape, filters=24):
    """Layers of 3x3 taps: padded on all sides, on one, and not; codes with zero points."""
    net = net_of()
    x = net.node("Relu", net.conv("x", shape[1], filters))
    y = net.node("Conv", x, net.constant(net.weights(23, filters, 3, 3)), pads=[2, 0, 0, 1])
    y = net.node("Conv", net.node("Relu", y), net.constant(net.weights(24, 23, 3, 3)))
    y = net.node("Conv", y, net.constant(net.weights(4, 24, 3, 3)), strides=[2, 2])
    return net.model(y, shape=list(shape))


def test_tiles_give_the_codes_of_direct_convolution(tmp_path, make, ends):
    shape = (2, 3, 16, 16)
    model = quantized(three_by_three(shape), shape, tmp_path)
    direct = generate(model, isa="generic")
    assert not any("tiles" in name for name in direct.contents)
    x = 2 * np.random.default_rng(5).standard_normal(shape).astype(np.float32)
    x[0, 0, :3] *= 100  # beyond all codes
    count = 2 * 4 * 6 * 6
    direct.write(tmp_path / "direct")
    wanted = ends(tmp_path / "direct", x, count, make)
    assert np.unique(wanted).size > 9
    weights, known = direct.weight_bytes, set()
    for limit in (weights, weights + 15_000, weights + 99_000):
        files = generate(model, isa="generic", flash_limit=limit)
        assert files.weight_bytes <= limit and files.direct_products == direct.products
        assert (files.products < direct.products) == (limit > weights)
        called = [f"net_convolve_{one}(&" for one in ("f2_3", "f4_3")]
        known |= {one for one in called if one.encode() in files.contents["net.c"]}
        if limit > weights:
            folder = tmp_path / str(limit)
            files.write(folder)
            assert (ends(folder, x, count, make) == wanted).all()
    assert len(known) == 2
    with pytest.raises(InvalidValue, match=f"flash_limit: got {weights - 1}; allowed: at least"):
        generate(model, isa="generic", flash_limit=weights - 1)


def test_only_layers_that_are_exact_have_tiles():
    """Two results of the largest sums: 32 bits hold 4 times the first, not the second."""
    for channels, tiled in ((3640, True), (3700, False)):
        weight = np.full((16, channels, 3, 3), -128, np.int8)
        layers = {0: (QConv(weight, np.zeros(16, np.int32), "int8", 0, 0), (1, 16, 8, 8))}
        assert bool(chosen(layers, 0, 10**9)) == tiled
        assert not chosen(layers, 0, None)


def test_a_cortex_m4_takes_fewer_instructions_by_tiles(on_m4):
    script = on_m4("tiles_on_m4")
    direct, tiles = script.counted(7, 26, 31)  # exits where codes differ
    assert 0 < tiles.instructions < direct.instructions
    assert tiles.products < direct.products and tiles.constants > direct.constants
