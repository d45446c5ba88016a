"""quantize: options, samples, what is written, and how far the result is off."""

import json
import re

import numpy as np
import onnx
import pytest
from cli.conftest import refused, winogen
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import winogen.onnx as onnx_door
from winogen.errors import InvalidType, InvalidValue
from winogen.onnx import quantize
from winogen.onnx.comparison import differences
from winogen.onnx.loading import session_of
from winogen.onnx.quantization import quantized
from winogen.onnx.samples import read_samples

__all__ = ["refused", "winogen"]


def net(**sizes):
    """Three convolutions, a normalization, a sum, a pool that only moves codes, and a sigmoid."""
    random = np.random.default_rng(0)

    def normal(*shape):
        return random.standard_normal(shape).astype(np.float32) / np.sqrt(np.prod(shape[1:]) or 1)

    arrays = {
        "w1": normal(8, 4, 3, 3), "w2": normal(8, 8, 3, 3), "w3": normal(3, 8, 1, 1),
        "b2": normal(8),
        "scale": normal(8), "shift": normal(8), "mean": normal(8), "var": normal(8) ** 2 + 0.5,
    }  # fmt: skip
    same = {"pads": [1] * 4}
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], "first", **same),
        helper.make_node("BatchNormalization", ["a", "scale", "shift", "mean", "var"], ["b"]),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Conv", ["c", "w2", "b2"], ["d"], "second", **same),
        helper.make_node("Add", ["d", "c"], ["e"]),
        helper.make_node("MaxPool", ["e"], ["f"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Sigmoid", ["f"], ["g"]),
        helper.make_node("Conv", ["g", "w3"], ["y"], "third"),
    ]
    make, kind = helper.make_tensor_value_info, TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "net",
        [make("x", kind, ["n", 4, sizes.get("height", "h"), "w"])],
        [make("y", kind, ["n", 3, None, None])],
        [numpy_helper.from_array(a.astype(np.float32), name) for name, a in arrays.items()],
    )
    opsets = [helper.make_opsetid("", sizes.get("opset", 17))]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def inputs(count=6, seed=1):
    random = np.random.default_rng(seed)
    return [random.standard_normal((1, 4, 12, 16)).astype(np.float32) for _ in range(count)]


def kinds(model):
    return [node.op_type for node in model.graph.node]


@pytest.mark.parametrize("method", ["maximum", "percentile"])
@pytest.mark.parametrize("activations", ["uint8", "int8"])
@pytest.mark.parametrize("per_channel", [True, False])
def test_the_result_is_near(method, activations, per_channel):
    model = net()
    before = model.SerializeToString()
    result = quantized(
        model, inputs(), method=method, percentile=99.9 if method == "percentile" else None,
        activations=activations, per_channel=per_channel,
    )  # fmt: skip
    assert model.SerializeToString() == before
    onnx.checker.check_model(result.model, full_check=True)
    assert result.convolutions == 3 and not result.refusals
    assert str(result) == "3 of 3 convolutions are in 8 bits"
    (difference,) = differences(model, result.model, [{"x": x} for x in inputs()])
    # 8 bits in every layer: 20 log10(255 sqrt 12) = 59 dB for one rounding of uniform numbers.
    assert difference.output == "y"
    assert 35 < difference.psnr < 60 and 1e-4 < difference.relative_error < 0.1
    made = {
        value.name: value.type.tensor_type.elem_type
        for value in onnx.shape_inference.infer_shapes(result.model).graph.value_info
    }
    narrow = {made[n.output[0]] for n in result.model.graph.node if n.op_type == "QuantizeLinear"}
    assert narrow == {TensorProto.UINT8 if activations == "uint8" else TensorProto.INT8}


def test_every_filter_has_a_scale_or_all_have_one():
    model = net()
    (tensor,) = (t for t in model.graph.initializer if t.name == "w2")
    weight = numpy_helper.to_array(tensor).copy()
    weight[1:] *= 0.01  # filters of very different sizes
    tensor.CopyFrom(numpy_helper.from_array(weight, "w2"))
    for per_channel in (True, False):
        made = quantize(model, inputs(), per_channel=per_channel)
        arrays = {t.name: numpy_helper.to_array(t) for t in made.graph.initializer}
        codes, scale = arrays["w2_quantized"], arrays["w2_scale"].reshape(-1, 1, 1, 1)
        assert codes.dtype == np.int8 and scale.size == (8 if per_channel else 1)
        assert (np.abs(codes * scale - weight) <= scale / 2 * 1.001).all()
        assert arrays["b2_quantized"].dtype == np.int32


def step_of(model, name):
    """The scale of the node that makes a value 8 bits."""
    arrays = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    (node,) = (n for n in model.graph.node
               if n.op_type == "QuantizeLinear" and n.input[0] == name)  # fmt: skip
    return float(arrays[node.input[1]])


def test_a_percentile_cuts_off_each_end():
    """Of a thousand pixels, ten are far out; the steps follow from the others."""
    weight = np.ones((1, 1, 1, 1), np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], "only")
    make, kind = helper.make_tensor_value_info, TensorProto.FLOAT
    graph = helper.make_graph(
        [node], "net", [make("x", kind, [1, 1, 100, 100])], [make("y", kind, None)],
        [numpy_helper.from_array(weight, "w")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = np.random.default_rng(0).random((1, 1, 100, 100)).astype(np.float32)
    x[0, 0, 0, :50], x[0, 0, 1, :50] = 100, -100
    for method, percentile, span in (("maximum", None, 200), ("percentile", 99, 1),
                                     ("percentile", 99.9, 200)):  # fmt: skip
        made = quantize(model, [x], method=method, percentile=percentile)
        # Bins of onnxruntime's histogram are a thousandth of the range.
        assert step_of(made, "x") == pytest.approx(span / 255, abs=0.5 / 255)


def test_the_pairs_stand_where_convolutions_read_and_write():
    result = quantized(net(), inputs())
    found = kinds(result.model)
    assert found.count("QuantizeLinear") == 5  # x, c, d, g, y
    assert found.count("DequantizeLinear") == 5 + 3 + 2  # with weights, and biases but the last
    assert "BatchNormalization" not in found and "Relu" not in found
    assert [v.name for v in result.model.graph.input] == ["x"]
    assert [v.name for v in result.model.graph.output] == ["y"]
    assert kinds(onnx_door.optimize(result.model)).count("QLinearConv") == 3


def test_what_only_moves_numbers_keeps_their_codes():
    random = np.random.default_rng(0)
    weight = random.standard_normal((4, 4, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("MaxPool", ["a"], ["b"], kernel_shape=[2, 2]),
        helper.make_node("Conv", ["b", "w"], ["y"]),
    ]
    make, kind = helper.make_tensor_value_info, TensorProto.FLOAT
    graph = helper.make_graph(
        nodes, "net", [make("x", kind, [1, 4, 12, 16])], [make("y", kind, None)],
        [numpy_helper.from_array(weight, "w")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    result = quantized(model, inputs())
    assert result.convolutions == 2 and not any(node.name for node in nodes)
    assert step_of(result.model, "a") == step_of(result.model, "b")


@pytest.mark.parametrize("method", ["maximum", "percentile"])
def test_samples_may_differ_in_size(method):
    samples = [x[:, :, : 6 + 2 * i] for i, x in enumerate(inputs(3))]
    result = quantize(net(), samples, method=method)
    assert differences(net(), result, [{"x": x} for x in samples])[0].psnr > 35


def test_models_of_old_opsets_are_converted():
    model = net(opset=9)
    result = quantize(model, inputs(2))
    assert result.opset_import[0].version >= 13
    assert differences(model, result, [{"x": inputs()[0]}])[0].psnr > 35


def test_what_stays_float_is_said(tmp_path):
    model = net()
    weights = next(t for t in model.graph.initializer if t.name == "w3")
    model.graph.input.append(helper.make_tensor_value_info("w3", TensorProto.FLOAT, weights.dims))
    model.graph.node.append(helper.make_node("ConvTranspose", ["y", "up"], ["z"], "up"))
    up = np.ones((3, 2, 2, 2), np.float32)
    model.graph.initializer.append(numpy_helper.from_array(up, "up"))
    model.graph.output[0].name = "z"
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 2
    feeds = [{"x": x, "w3": numpy_helper.to_array(weights)} for x in inputs(2)]
    model.graph.initializer.remove(weights)
    result = quantized(model, feeds, exclude=["second"])
    assert result.convolutions == 1
    assert result.refusals == [
        "second: excluded", "third: its weights may change from call to call", "up: transposed",
    ]  # fmt: skip
    assert kinds(result.model).count("QuantizeLinear") == 2  # x, c
    whole = quantized(model, feeds, exclude=["first", "second"])
    assert whole.convolutions == 0 and kinds(whole.model).count("QuantizeLinear") == 0


def test_samples_of_all_kinds(tmp_path):
    model, arrays = net(), np.concatenate(inputs(3))
    np.save(tmp_path / "x.npy", arrays)
    np.savez(tmp_path / "x.npz", x=arrays)
    for samples in (
        inputs(3), iter(inputs(3)), [{"x": x} for x in inputs(3)], tmp_path / "x.npy",
        str(tmp_path / "x.npz"),
    ):  # fmt: skip
        found = list(read_samples(model, samples))
        assert len(found) == 3
        assert all((one["x"] == x).all() for one, x in zip(found, inputs(3)))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"method": "entropy"}, "method: got 'entropy'; allowed: maximum, percentile"),
        ({"percentile": 3.0, "method": "percentile"}, "percentile: got 3; allowed: a number above"),
        ({"percentile": 99.0}, "percentile: got 99.0; allowed: with method percentile only"),
        ({"activations": "int4"}, "activations: got 'int4'; allowed: uint8, int8"),
        ({"exclude": ["nobody"]}, "exclude: got 'nobody'; allowed: names of nodes"),
    ],
)
def test_options_are_refused(options, message):
    with pytest.raises(InvalidValue, match=re.escape(message)):
        quantize(net(), inputs(1), **options)


def test_samples_are_refused(tmp_path):
    (tmp_path / "bad.npy").write_text("no array")
    np.save(tmp_path / "none.npy", np.zeros((0, 4, 12, 16), np.float32))
    np.savez(tmp_path / "other.npz", z=np.zeros(3))
    bad = np.full((1, 4, 12, 16), np.nan, np.float32)
    large = np.full((1, 4, 12, 16), 3e38, np.float32)
    for samples, error, message in (
        (inputs(1)[0], InvalidType, "samples: got ndarray; allowed: an iterable"),
        (7, InvalidType, "samples: got int"),
        ([], InvalidValue, "samples: got none; allowed: at least one"),
        ([{"z": 1}], InvalidValue, "samples: got number 0 with z; allowed: x"),
        ([np.zeros((1, 5, 12, 16), np.float32)], InvalidValue, "samples: got number 0, which onn"),
        ([bad], InvalidValue, "samples: got number 0, for which x is not finite"),
        (["a"], InvalidType, "samples: got number 0, for which x is of <U1; allowed: numbers"),
        ([*inputs(1), large], InvalidValue, "samples: got number 1, whose outputs are not finite"),
        (tmp_path / "bad.npy", InvalidValue, "(not .npy)"),
        (tmp_path / "none.npy", InvalidValue, "allowed: the same number of them, at least one"),
        (tmp_path / "other.npz", InvalidValue, "with z; allowed: one array, or a .npz with x"),
    ):
        with pytest.raises(error, match=re.escape(message)):
            quantize(net(), samples)


def test_differences_are_those_of_the_definition():
    model = net()
    narrow = quantize(model, inputs(2))
    feeds = [{"x": x} for x in inputs(2)]
    pairs = [[session_of(m).run(None, feed)[0] for m in (model, narrow)] for feed in feeds]
    y, z = (np.concatenate(parts).astype(np.float64) for parts in zip(*pairs))
    (found,) = differences(model, narrow, feeds)
    assert found.relative_error == np.abs(y - z).max() / np.abs(y).max()
    assert np.isclose(found.psnr, 10 * np.log10(np.abs(y).max() ** 2 / np.square(y - z).mean()))
    assert differences(model, model, feeds)[0].psnr == np.inf


def test_integers_of_the_reference_agree(tmp_path):
    """What is written means the same to ONNX's own evaluator."""
    result = quantize(net(opset=21), inputs())
    one = ReferenceEvaluator(result).run(None, {"x": inputs()[0]})[0]
    other = session_of(result).run(None, {"x": inputs()[0]})[0]
    steps = {t.name: numpy_helper.to_array(t) for t in result.graph.initializer}
    assert np.abs(one - other).max() <= 3 * steps["y_scale"]


def test_the_command(winogen, refused, tmp_path):
    path, narrow, samples = (tmp_path / name for name in ("m.onnx", "n.onnx", "x.npy"))
    onnx.save(net(), path)
    np.save(samples, np.concatenate(inputs()))
    result = winogen(
        "onnx", "quantize", path, samples, "-o", narrow, "--percentile", "99.9",
        "--activations", "int8", "--per-tensor", "--exclude", "third",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "2 of 3 convolutions are in 8 bits" in result.stdout
    assert "stays float: third: excluded" in result.stdout
    assert re.search(r"^y: PSNR \d\d\.\d dB, largest error \d\.\de-0\d of", result.stdout, re.M)
    onnx.checker.check_model(onnx.load(narrow))
    words = ("onnx", "quantize", path, samples, "-o", narrow)
    document = json.loads(winogen(*words, "--json").stdout)
    assert (document["convolutions"], document["output"]) == (3, str(narrow))
    assert document["differences"][0]["output"] == "y" and "model" not in document
    assert "percentile: got 50; allowed: a number above 50" in refused(*words, "--percentile", 50)
    assert "No such file" in refused("onnx", "quantize", path, "missing.npy", "-o", narrow)


def test_help_has_examples(winogen):
    result = winogen("onnx", "quantize", "--help")
    assert result.exit_code == 0 and "Example: winogen onnx quantize" in result.output


def shared():
    """Two convolutions, of inputs of very different sizes, with one bias and one weight."""
    random = np.random.default_rng(0)
    weight = random.standard_normal((4, 4, 3, 3)).astype(np.float32)
    bias = random.standard_normal(4).astype(np.float32)
    make, kind = helper.make_tensor_value_info, TensorProto.FLOAT
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w", "b"], ["c"], "A"),
            helper.make_node("Conv", ["z", "w", "b"], ["d"], "B"),
        ],
        "net",
        [make(name, kind, [1, 4, 9, 9]) for name in "xz"],
        [make(name, kind, None) for name in "cd"],
        [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(bias, "b")],
    )
    x = random.standard_normal((1, 4, 9, 9)).astype(np.float32)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model, [{"x": 1e-3 * x, "z": 1e3 * x}]


def test_what_is_excluded_keeps_numbers_that_others_read():
    model, feeds = shared()
    result = quantize(model, feeds, exclude=["A"])
    c, d = differences(model, result, feeds)
    assert c.relative_error == 0 and 0 < d.relative_error < 0.05
    c, d = differences(model, quantize(model, feeds), feeds)
    assert c.relative_error < 0.05 and d.relative_error < 0.05


def test_names_that_onnxruntime_makes_up_may_be_taken():
    model, feeds = shared()
    model.graph.node[0].output[0] = "z_QuantizeLinear_Output"
    model.graph.output[0].name = "z_QuantizeLinear_Output"
    with pytest.raises(InvalidValue, match="model: onnxruntime does not run it"):
        quantize(model, feeds)


@pytest.mark.parametrize(
    "options", ({"exclude": None}, {"exclude": "first"}, {"per_channel": "x"}), ids=str
)
def test_options_of_other_types_are_refused(options):
    (name,) = options
    with pytest.raises(InvalidType, match=f"^{name}: got"):
        quantize(net(), inputs(1), **options)
