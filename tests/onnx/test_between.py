"""What lies between quantized convolutions: tables equal the nodes, for every code."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from winogen.onnx import quantize
from winogen.onnx.between import Pool, between
from winogen.onnx.loading import session_of
from winogen.onnx.model import Model
from winogen.onnx.rewrite import rewrite

from .test_quantized import kind_of

CHANNELS = 3


def between_pairs(nodes, arrays, x="uint8", y="uint8", output="f", sizes=("n", CHANNELS, "h", "w")):
    """DequantizeLinear, nodes from "r" to ``output``, QuantizeLinear."""
    arrays = {
        "xs": np.float32(0.03), "xz": np.array(20, x), "ys": np.float32(0.02),
        "yz": np.array(-3 if y == "int8" else 30, y), **arrays,
    }  # fmt: skip
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "xs", "xz"], ["r"]),
        *nodes,
        helper.make_node("QuantizeLinear", [output, "ys", "yz"], ["y"]),
    ]
    make = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "net",
        [make("x", kind_of(x), sizes)],
        [make("y", kind_of(y), None)],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=9)


def node(kind, *inputs, to="f", **attributes):
    return helper.make_node(kind, ["r", *inputs], [to], **attributes)


SLOPES = np.array([0.1, -0.5, 2.0], np.float32).reshape(CHANNELS, 1, 1)
FUNCTIONS = {
    "relu": ([node("Relu")], {}),
    "leaky_relu": ([node("LeakyRelu", alpha=0.2)], {}),
    "prelu": ([node("PRelu", "slopes")], {"slopes": SLOPES}),
    "prelu of one slope": ([node("PRelu", "s")], {"s": np.full((1, 1, 1), 0.3, np.float32)}),
    "clip": ([node("Clip", "low", "high")], {"low": np.float32(-0.2), "high": np.float32(1)}),
    "sigmoid": ([node("Sigmoid")], {}),
    "hardswish": ([node("HardSwish")], {}),
    "silu": ([node("Sigmoid", to="s"), helper.make_node("Mul", ["r", "s"], ["f"])], {}),
    "a chain": (
        [node("Mul", "factor", to="a"), helper.make_node("Add", ["a", "shift"], ["b"]),
         helper.make_node("Tanh", ["b"], ["f"])],
        {"factor": np.float32(2), "shift": SLOPES},
    ),
}  # fmt: skip


def every_code(dtype):
    codes = np.arange(256, dtype=np.uint8).view(dtype)
    return np.broadcast_to(codes.reshape(1, 1, 16, 16), (2, CHANNELS, 16, 16)).copy()


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("x, y", [("uint8", "uint8"), ("int8", "uint8"), ("uint8", "int8")])
def test_tables_are_the_functions(name, x, y):
    nodes, arrays = FUNCTIONS[name]
    model = between_pairs(nodes, arrays, x, y)
    found = between(Model(model), set())
    assert list(found) == ["y"]
    op = found["y"].op
    table = op.table
    per_channel = name in ("prelu", "a chain")
    assert table.shape == (CHANNELS if per_channel else 1, 256) and table.dtype == y
    feed = every_code(x)
    (wanted,) = ReferenceEvaluator(model).run(None, {"x": feed})
    assert (op.computed(feed) == wanted).all()
    flips = [128 * (kind == "uint8") for kind in (x, y)]
    signed = op.signed.computed((feed.view(np.uint8) ^ flips[0]).view(np.int8))
    assert ((signed.view(np.uint8) ^ flips[1]).view(y) == wanted).all()


def run_lookup(session, table, x, **attributes):
    y = table.dtype
    values = [
        helper.make_tensor_value_info("x", kind_of(x.dtype), [None] * x.ndim),
        helper.make_tensor_value_info("y", kind_of(y), [None] * x.ndim),
    ]
    made = helper.make_node("Lookup", ["x", "t"], ["y"], "one", domain="com.winogen", **attributes)
    graph = helper.make_graph(
        [made], "net", values[:1], values[1:], [numpy_helper.from_array(table, "t")]
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.winogen", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return session(model, threads=2).run(None, {"x": x})[0]


@pytest.mark.parametrize("x", ["uint8", "int8"])
@pytest.mark.parametrize("y", ["uint8", "int8"])
def test_the_operator_looks_up(x, y, session):
    random = np.random.default_rng(0)
    tables = random.integers(0, 256, (3, 256)).astype(np.uint8).view(y)
    feed = random.integers(0, 256, (2, 3, 5, 7)).astype(np.uint8).view(x)
    found = run_lookup(session, tables, feed)
    for channel in range(3):
        wanted = tables[channel][feed[:, channel].view(np.uint8)]
        assert (found[:, channel] == wanted).all() and found.dtype == y
    # One table for all: any number of axes, more numbers than one part takes.
    for shape in ((200_001,), (2, 3, 11), (0, 3, 2, 2)):
        feed = random.integers(0, 256, shape).astype(np.uint8).view(x)
        assert (run_lookup(session, tables[:1], feed) == tables[0][feed.view(np.uint8)]).all()


def test_wrong_tables_are_refused(session):
    feed = np.zeros((1, 4, 2, 2), np.uint8)
    with pytest.raises(Exception, match="allowed: up to 5 axes, as many channels as tables"):
        run_lookup(session, np.zeros((3, 256), np.uint8), feed)
    with pytest.raises(Exception, match="table: got another; allowed: a constant of"):
        run_lookup(session, np.zeros((1, 255), np.uint8), feed)


def test_what_is_no_function_of_one_number_stays():
    plane = np.ones((1, 1, 16, 1), np.float32)
    for nodes, arrays in (
        ([node("Softmax", axis=1)], {}),
        ([node("Mul", "plane")], {"plane": plane}),
        ([node("Reciprocal")], {}),  # of zero
        ([], {}),
    ):
        model = between_pairs(nodes, arrays, output="f" if nodes else "r")
        assert between(Model(model), set()) == {}
    model = between_pairs([node("Relu")], {})
    model.graph.output.append(helper.make_tensor_value_info("f", kind_of("float32"), [None] * 4))
    assert between(Model(model), set()) == {}
    # Two arrays: a sum of them.
    other = helper.make_node("DequantizeLinear", ["x", "ys", "yz"], ["r2"])
    model = between_pairs([other, node("Add", "r2")], {})
    assert between(Model(model), set()) == {}


@pytest.mark.parametrize(
    "sizes, shape",
    [
        (("n", 1, "h", "w"), (CHANNELS, 1, 1)),  # one channel becomes several
        (("n", "c", "h", "w"), (CHANNELS, 1, 1)),  # or might
        (("n", 5), (1, 1, 1)),  # two axes become three
    ],
)
def test_functions_whose_output_is_larger_than_their_input_stay(sizes, shape):
    model = between_pairs(
        [node("Mul", "factor")], {"factor": np.ones(shape, np.float32)}, sizes=sizes
    )
    assert between(Model(model), set()) == {}


def pooled(same=True, kind="uint8", **values):
    values = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], **values}
    model = between_pairs([node("MaxPool", **values)], {}, kind, kind)
    if same:
        for old, new in (("ys", "xs"), ("yz", "xz")):
            model.graph.node[-1].input[1 + (old == "yz")] = new
    return model


def test_maxima_of_codes_that_stay_the_same():
    (found,) = between(Model(pooled()), set()).values()
    assert isinstance(found.op.payload, Pool) and found.inputs == ("x",)
    assert between(Model(pooled(same=False)), set()) == {}


@pytest.mark.parametrize("kind", ["uint8", "int8"])
def test_a_net_with_activations_and_pools(kind, session):
    """Where a height is open, layers are single ones."""
    random = np.random.default_rng(0)
    weight = random.standard_normal((CHANNELS, CHANNELS, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "first", pads=[1] * 4),
        helper.make_node("PRelu", ["a", "slopes"], ["b"], "slope"),
        helper.make_node("Conv", ["b", "w"], ["c"], "second", pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["d"], "relu"),
        helper.make_node("MaxPool", ["d"], ["e"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["e", "w"], ["y"], "third"),
    ]
    make, real = helper.make_tensor_value_info, kind_of("float32")
    graph = helper.make_graph(
        nodes, "net", [make("x", real, [1, CHANNELS, "h", 24])], [make("y", real, [None] * 4)],
        [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(SLOPES, "slopes")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    samples = [random.standard_normal((1, CHANNELS, 20, 24)).astype(np.float32) for _ in range(4)]
    narrow = quantize(model, samples, activations=kind)
    result = rewrite(narrow)
    assert result.quantized == 3 and not result.refusals
    kinds = [n.op_type for n in result.model.graph.node]
    assert kinds == [
        "QuantizeLinear", "QLinearConv", "Lookup", "QLinearConv", "Transpose", "NhwcMaxPool",
        "Transpose", "QLinearConv", "DequantizeLinear",
    ]  # fmt: skip
    onnx.checker.check_model(result.model)
    one, other = session_of(narrow), session(result.model)
    (step,) = (numpy_helper.to_array(t) for t in narrow.graph.initializer if t.name == "y_scale")
    for x in samples:
        y, z = (s.run(None, {"x": x})[0] for s in (one, other))
        assert np.abs(y - z).max() <= 2 * step and (y != z).mean() < 0.02


def test_without_a_quantized_convolution_nothing_is_touched():
    model = between_pairs([node("Relu")], {})
    assert between(Model(model), set())["y"].op.is_table
    assert rewrite(model).nodes == len(model.graph.node) == 3
