"""QLinearConv, ConvInteger and pairs: equal to ONNX's evaluator, to the bit."""

import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import winogen.onnx
from winogen import QConv2d
from winogen.errors import InvalidValue
from winogen.graph import simplify
from winogen.graph.lower import Step
from winogen.graph.places import Place
from winogen.graph.planning import Settings, plan_steps
from winogen.onnx.loading import session_of
from winogen.onnx.model import Model
from winogen.onnx.reading import read
from winogen.onnx.rewrite import rewrite
from winogen.records import Machine
from winogen.toolchain import host_target


def kind_of(dtype):
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def any_integers(random, dtype, *shape):
    limits = np.iinfo(dtype)
    return random.integers(limits.min, limits.max + 1, shape).astype(dtype)


def model_of(nodes, arrays, inputs, outputs, opset=21):
    """A model; ``inputs`` and ``outputs``: name -> dtype; all of four axes."""
    make = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "net",
        [make(n, kind_of(t), list("nchw")) for n, t in inputs.items()],
        [make(n, kind_of(t), [None] * 4) for n, t in outputs.items()],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def linear(
    random,
    x="uint8",
    w="int8",
    y=None,
    shape=(6, 3, 3, 3),
    groups=1,
    bias=True,
    each=True,
    **values,
):
    """A model of one QLinearConv with random numbers; its input has 3 channels per group."""
    y, filters = y or x, shape[0]
    size = (filters,) if each else ()
    arrays = {
        "xs": np.float32(random.uniform(0.001, 0.1)), "xz": any_integers(random, x),
        "w": any_integers(random, w, *shape),
        "ws": random.uniform(0.001, 0.01, size).astype(np.float32),
        "wz": np.full(size, 0 if w == "int8" else 128, w),
        "ys": np.float32(random.uniform(0.05, 0.5)), "yz": any_integers(random, y),
    }  # fmt: skip
    names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"]
    if bias:
        arrays["b"] = random.integers(-9999, 9999, filters).astype(np.int32)
        names.append("b")
    node = helper.make_node("QLinearConv", names, ["y"], "layer", group=groups, **values)
    return model_of([node], arrays, {"x": x}, {"y": y})


def integer(random, x="uint8", w="int8", shape=(6, 3, 3, 3), zeros=True, **values):
    arrays = {"w": any_integers(random, w, *shape)}
    names = ["x", "w"]
    if zeros:
        arrays |= {"xz": any_integers(random, x), "wz": any_integers(random, w, shape[0])}
        names += ["xz", "wz"]
    node = helper.make_node("ConvInteger", names, ["y"], "layer", **values)
    return model_of([node], arrays, {"x": x}, {"y": "int32"})


def check_equal(model, session, *feeds, planner=None):
    """Ours equals ONNX's evaluator to the bit, planned and the plain way; returns our model."""
    result = rewrite(model)
    assert result.quantized == 1 and not result.refusals, result.given_back
    onnx.checker.check_model(result.model)
    reference, ours = ReferenceEvaluator(model), session(result.model)
    before = planner.plans if planner is not None else 0
    for x in feeds:
        (expected,), (found,) = (one.run(None, {"x": x}) for one in (reference, ours))
        assert found.dtype == expected.dtype and found.shape == expected.shape
        assert (found == expected).all()
    if planner is not None:
        assert planner.plans == before + len(feeds)
        planner.remove()
        other = session(result.model)
        assert all((other.run(None, {"x": x})[0] == ours.run(None, {"x": x})[0]).all()
                   for x in feeds)  # fmt: skip
        planner.install()
    return result.model


LINEAR = {
    "plain": {},
    "signed": {"x": "int8"},
    "signed to unsigned": {"x": "int8", "y": "uint8"},
    "unsigned to signed": {"y": "int8"},
    "unsigned weights": {"w": "uint8"},
    "one scale": {"each": False},
    "no bias": {"bias": False},
    "padding, stride": {"pads": [1, 0, 2, 1], "strides": [2, 1]},
    "dilation": {"dilations": [2, 1], "pads": [2, 1, 2, 1]},
    "same": {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
    "groups": {"groups": 2, "shape": (6, 3, 3, 3), "pads": [1] * 4},
    "depthwise": {"groups": 3, "shape": (6, 1, 3, 3), "pads": [1] * 4},
    "1x1": {"shape": (20, 3, 1, 1)},
    "5x3": {"shape": (17, 3, 5, 3), "pads": [2, 1, 2, 1]},
    "many channels": {"shape": (40, 37, 3, 3), "pads": [1] * 4},
}


@pytest.mark.parametrize("name", LINEAR)
def test_QLinearConv_equals_the_reference(name, session, planner):
    random = np.random.default_rng(len(name))
    fields = LINEAR[name]
    model = linear(random, **fields)
    channels = fields.get("groups", 1) * fields.get("shape", (6, 3, 3, 3))[1]
    feeds = [
        any_integers(random, fields.get("x", "uint8"), batch, channels, height, width)
        for batch, height, width in ((1, 9, 11), (2, 6, 17))
    ]
    made = check_equal(model, session, *feeds, planner=planner)
    (node,) = made.graph.node
    assert (node.domain, node.op_type, node.name) == ("com.winogen", "QLinearConv", "layer")


@pytest.mark.parametrize("x", ["uint8", "int8"])
@pytest.mark.parametrize("w", ["uint8", "int8"])
@pytest.mark.parametrize("zeros", [True, False])
def test_ConvInteger_equals_the_reference(x, w, zeros, session, planner):
    random = np.random.default_rng(3)
    model = integer(random, x, w, zeros=zeros, pads=[1, 1, 0, 2])
    feed = any_integers(random, x, 2, 3, 10, 13)
    made = check_equal(model, session, feed, planner=planner)
    assert made.graph.node[0].op_type == "ConvInteger"


@pytest.mark.parametrize("seed", range(12))
def test_random_layers_equal_the_reference(seed, session):
    random = np.random.default_rng(seed)
    groups = int(random.choice([1, 1, 2, 3]))
    channels, filters = (int(random.integers(1, 20)) for _ in range(2))
    kernel = random.integers(1, 6, 2)
    dilations = random.integers(1, 3, 2)
    reach = dilations * (kernel - 1) + 1
    model = linear(
        random, x=random.choice(["uint8", "int8"]), y=random.choice(["uint8", "int8"]),
        shape=(filters * groups, channels, *kernel), groups=groups,
        bias=bool(random.integers(2)), each=bool(random.integers(2)), dilations=dilations.tolist(),
        pads=random.integers(0, 3, 4).tolist(), strides=random.integers(1, 4, 2).tolist(),
    )  # fmt: skip
    size = reach + random.integers(0, 12, 2)
    kind = helper.tensor_dtype_to_np_dtype(model.graph.input[0].type.tensor_type.elem_type)
    check_equal(model, session, any_integers(random, kind, 2, channels * groups, *size))


# ---- DequantizeLinear, Conv, QuantizeLinear


def pairs(random, activation=None, bias="int32", x="uint8", y="uint8", bounds=(), **values):
    """A float convolution between pairs, and the same as QLinearConv."""
    w = any_integers(random, "int8", 6, 4, 3, 3)
    arrays = {
        "xs": np.float32(0.02), "xz": any_integers(random, x), "w": w,
        "ws": random.uniform(0.001, 0.01, 6).astype(np.float32), "wz": np.zeros(6, np.int8),
        "ys": np.float32(0.05), "yz": np.array(100, y),
    }  # fmt: skip
    sums = random.integers(-9999, 9999, 6).astype(np.int32)
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "xs", "xz"], ["xr"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wr"], axis=0),
    ]
    names = ["xr", "wr"]
    if bias == "int32":
        arrays |= {"b": sums, "bs": arrays["xs"] * arrays["ws"], "bz": np.zeros(6, np.int32)}
        nodes.append(helper.make_node("DequantizeLinear", ["b", "bs", "bz"], ["br"], axis=0))
        names.append("br")
    elif bias == "float32":
        arrays["br"] = (sums * (arrays["xs"] * arrays["ws"])).astype(np.float32)
        names.append("br")
    nodes.append(helper.make_node("Conv", names, ["c"], "layer", **values))
    last = "c"
    if activation:
        for i, bound in enumerate(bounds):
            arrays[f"bound{i}"] = np.float32(bound)
        given = [f"bound{i}" for i in range(len(bounds))]
        nodes.append(helper.make_node(activation, ["c", *given], ["a"]))
        last = "a"
    nodes.append(helper.make_node("QuantizeLinear", [last, "ys", "yz"], ["y"]))
    model = model_of(nodes, arrays, {"x": x}, {"y": y})
    names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", *(["b"] if bias else [])]
    node = helper.make_node("QLinearConv", names, ["y"], "layer", **values)
    return model, model_of([node], arrays | {"b": sums}, {"x": x}, {"y": y})


PAIRS = {
    "plain": {},
    "no bias": {"bias": None},
    "float bias": {"bias": "float32"},
    "geometry": {"pads": [1, 0, 2, 1], "strides": [2, 1], "dilations": [1, 2]},
    "signed": {"x": "int8", "y": "int8"},
    "relu": {"activation": "Relu"},
    "clip at 0": {"activation": "Clip", "bounds": (0.0,)},
    "clip to what saturates": {"activation": "Clip", "bounds": (-9.0, 10.0)},
    "relu6 to what saturates": {"activation": "Clip", "bounds": (0.0, 8.0)},
}


@pytest.mark.parametrize("name", PAIRS)
def test_pairs_become_one_node_of_integers(name, session):
    random = np.random.default_rng(len(name))
    model, same = pairs(random, **PAIRS[name])
    result = rewrite(model)
    assert result.quantized == 1 and not result.refusals
    assert [node.op_type for node in result.model.graph.node] == ["QLinearConv"]
    assert "1 quantized convolutions" in str(result)
    x = any_integers(random, PAIRS[name].get("x", "uint8"), 2, 4, 9, 12)
    (found,), (pair,), (whole,) = (
        one.run(None, {"x": x})
        for one in (session(result.model), ReferenceEvaluator(model), ReferenceEvaluator(same))
    )
    if "relu" in name or name == "clip at 0":
        whole = np.maximum(whole, 100)  # the zero point
    assert (found == whole).all()
    assert np.abs(found.astype(int) - pair).max() <= 1 and (found != pair).mean() < 0.01


def test_values_that_others_read_stay_float(session):
    random = np.random.default_rng(0)
    model, _ = pairs(random, activation="Relu")
    model.graph.output.append(helper.make_tensor_value_info("a", TensorProto.FLOAT, [None] * 4))
    result = rewrite(model)
    assert result.quantized == 0
    assert result.refusals == ("layer: its output is not quantized, or is read as float, too",)


def without(model, kind, place=0):
    """The model without a node, whose readers read what it read."""
    found = [n for n in model.graph.node if n.op_type == kind][place]
    for node in model.graph.node:
        for i, name in enumerate(node.input):
            if name == found.output[0]:
                node.input[i] = found.input[0]
    for value in model.graph.output:
        if value.name == found.output[0]:
            value.CopyFrom(helper.make_empty_tensor_value_info(found.input[0]))
    model.graph.node.remove(found)
    return model


def test_what_stays_and_why():
    random = np.random.default_rng(0)

    def changed(name, array, model=None):
        model = model or linear(random)
        tensor = next(t for t in model.graph.initializer if t.name == name)
        tensor.CopyFrom(numpy_helper.from_array(np.asarray(array), name))
        return model

    def as_input(name):
        model = linear(random)
        tensor = next(t for t in model.graph.initializer if t.name == name)
        model.graph.initializer.remove(tensor)
        value = helper.make_tensor_value_info(name, tensor.data_type, tensor.dims)
        model.graph.input.append(value)
        return model

    two = without(without(pairs(random)[0], "DequantizeLinear", 2), "DequantizeLinear", 1)
    next(t for t in two.graph.initializer if t.name == "w").CopyFrom(
        numpy_helper.from_array(np.ones((6, 4, 3, 3), np.float32), "w")
    )
    next(t for t in two.graph.initializer if t.name == "b").CopyFrom(
        numpy_helper.from_array(np.ones(6, np.float32), "b")
    )
    clips = [pairs(random, "Clip", bounds=bounds)[0] for bounds in ((0.0,), (0.0, 9.0))]
    for model, reason in (
        (as_input("w"), "its weights may change from call to call"),
        (as_input("xz"), "its zero points may change from call to call"),
        (as_input("ys"), "its scales may change from call to call"),
        (as_input("b"), "its bias may change from call to call"),
        (changed("ws", np.full(6, np.nan, np.float32)), "w_scale: got "),
        (changed("b", np.full(6, 2**31 - 1, np.int32)), "sums that fit int32"),
        (changed("xz", np.zeros((3,), np.uint8)), "zero points for each channel"),
        (changed("w", np.ones((6, 65793, 1, 1), np.int8)), "fewer than 65793"),
        (changed("bound0", np.float32(1), clips[0]), "Clip to 1"),
        (
            changed("bound1", np.float32(2), clips[1]),
            "Clip to 2",
        ),
        (without(pairs(random)[0], "QuantizeLinear"), "its output is not quantized"),
    ):
        result = rewrite(model)
        assert result.quantized == 0
        (refusal,) = result.refusals
        assert refusal.startswith("layer: ") and reason in refusal, (reason, refusal)
    with pytest.raises(InvalidValue, match=r"of layer \(QLinearConv\); allowed: 4 axes"):
        rewrite(changed("w", np.ones((6, 3, 3), np.int8)))  # nothing could run it
    # Float weights behind a quantized input: a float convolution, which is winogen's as ever.
    # onnxruntime would give the operator of one layer a quantized weight: it gets another.
    result = rewrite(two, input_shapes={"x": (1, 4, 9, 9)})
    assert (result.quantized, result.convolutions, result.refusals) == (0, 1, ())
    assert result.given_back == () and result.model.graph.node[1].op_type == "Segment"


def test_a_whole_net_beside_onnxruntime(session):
    from winogen.onnx import quantize

    from .test_quantize import inputs, net

    narrow = quantize(net(), inputs())
    result = rewrite(narrow)
    assert result.quantized == 3 and not result.segments
    onnx.checker.check_model(result.model)
    one, other = session_of(narrow), session(result.model)
    (step,) = (numpy_helper.to_array(t) for t in narrow.graph.initializer if t.name == "y_scale")
    for x in inputs():
        y, z = (s.run(None, {"x": x})[0] for s in (one, other))
        assert np.abs(y - z).max() <= 2 * step and (y != z).mean() < 0.02


def test_fixed_sizes_threads_and_names(session):
    model = linear(np.random.default_rng(0))
    made = winogen.onnx.optimize(model, input_shapes={"x": (1, 3, 9, 11)}, threads=2)
    sizes = [d.dim_value for d in made.graph.input[0].type.tensor_type.shape.dim]
    assert sizes == [1, 3, 9, 11]
    assert {a.name: a.i for a in made.graph.node[0].attribute}["threads"] == 2


def test_threads_do_not_change_the_bits(session):
    random = np.random.default_rng(0)
    model = winogen.onnx.optimize(linear(random, shape=(48, 40, 3, 3), pads=[1] * 4))
    x = any_integers(random, "uint8", 2, 40, 30, 31)
    one, two = (session(model, threads=count).run(None, {"x": x})[0] for count in (1, 2))
    assert (one == two).all()


def test_wrong_nodes_are_refused(session):
    random = np.random.default_rng(0)
    made = winogen.onnx.optimize(linear(random))
    made.graph.node[0].attribute.append(helper.make_attribute("activation", "gelu"))
    with pytest.raises(Exception, match="activation, padding_mode: got others"):
        session(made)
    made = winogen.onnx.optimize(linear(random))
    name = made.graph.node[0].input[4]
    tensor = next(t for t in made.graph.initializer if t.name == name)
    tensor.CopyFrom(numpy_helper.from_array(np.ones(5, np.float32), name))
    with pytest.raises(Exception, match="inputs: got one of wrong size"):
        session(made)
    made = winogen.onnx.optimize(linear(random))
    with pytest.raises(Exception, match="X: got 4 channels; allowed: 3"):
        session(made).run(None, {"x": np.zeros((1, 4, 9, 9), np.uint8)})


def test_the_report_counts_them(clock):
    model, shapes = linear(np.random.default_rng(0)), {"x": (1, 3, 9, 9)}
    made = winogen.onnx.report(model, input_shapes=shapes)
    assert (made.quantized, made.refusals) == (1, ())
    (row,) = made.rows
    assert row.layer == "layer" and row.what.startswith("quantized conv ")
    assert row.algorithm in ("direct", "im2col") and row.output == (1, 6, 7, 7)
    assert 0 < row.predicted_s <= row.direct_s and row.gain is None
    text = str(made)
    assert "1 layers, " in text and "predicted: " in text
    assert "1 quantized convolutions that winogen would compute; not measured" in text
    clock({"y": (0.25, 0.5)})
    text = str(winogen.onnx.report(model, input_shapes=shapes))
    assert "alone, all together: onnxruntime 500 ms, winogen 250 ms" in " ".join(text.split())
    assert re.search(r"^layer .* 250\? +500\? +2\.00$", text, re.MULTILINE)


def test_the_report_predicts_layers_whose_padding_follows_from_their_size(clock):
    clock()
    model = linear(np.random.default_rng(0), auto_pad="SAME_LOWER", strides=[2, 1])
    (row,) = winogen.onnx.report(model, input_shapes={"x": (1, 3, 9, 9)}).rows
    assert row.output == (1, 6, 5, 9) and row.predicted_s > 0


def test_a_plan_of_bytes_knows_how_long_it_takes():
    (node,) = simplify(read(Model(linear(np.random.default_rng(0)), None)).graph).nodes
    op, machine = node.op, Machine()
    settings = Settings("NCHW", "uint8", 1, None, "auto", host_target(), machine)
    shapes = {("input", 0): (1, 3, 9, 9), ("output", 0): (1, 6, 7, 7)}
    places = (Place(name, 0, shape[1]) for name, shape in shapes.items())
    step = Step("layer", "layer", op, (1, 3, 9, 9), *places)
    planned = plan_steps([step], shapes, [(1, 6, 7, 7)], settings)
    best = QConv2d(op.weight, op.bias, **op.options, threads=1).ranked(
        (1, 3, 9, 9), "uint8", host_target(), machine
    )[0]
    assert planned.seconds == best.seconds > 0
