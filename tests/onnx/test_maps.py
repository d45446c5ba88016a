"""Pooling, enlarging and pixels of channels inside of segments: planned, plain and carried."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper

import winogen.onnx
from winogen.graph import maps

from .test_carrying import quick_compiles, run_on

__all__ = ["quick_compiles"]

RNG = np.random.default_rng(2)


def net(dtype=np.float32, order="CRD"):
    """Down, up again beside what it was before, then pixels of channels."""
    arrays = {
        "w1": RNG.integers(-2, 3, (8, 4, 3, 3)).astype(dtype),
        "w2": RNG.integers(-2, 3, (8, 8, 1, 1)).astype(dtype),
        "w3": RNG.integers(-2, 3, (12, 16, 1, 1)).astype(dtype),
        "scales": np.array([1, 1, 2, 2], np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], "first", pads=[1] * 4),
        helper.make_node("MaxPool", ["a"], ["b"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["b", "w2"], ["c"], "second"),
        helper.make_node(
            "MaxPool", ["c"], ["d"], "same", kernel_shape=[3, 3], auto_pad="SAME_UPPER"
        ),
        helper.make_node(
            "Resize", ["d", "", "scales"], ["e"], "enlarge", mode="nearest",
            coordinate_transformation_mode="asymmetric", nearest_mode="floor",
        ),
        helper.make_node("Concat", ["e", "a"], ["f"], "both", axis=1),
        helper.make_node("Conv", ["f", "w3"], ["g"], "third"),
        helper.make_node("DepthToSpace", ["g"], ["y"], "pixels", blocksize=2, mode=order),
    ]  # fmt: skip
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "net",
        [value("x", kind, ["n", 4, "h", "w"])],
        [value("y", kind, ["n", 3, None, None])],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def squeezed(dtype=np.float32):
    """Pools of every kind, channels weighed and shuffled; numbers that no sum rounds."""
    arrays = {
        "w1": RNG.integers(-2, 3, (8, 4, 3, 3)).astype(dtype),
        "w2": RNG.integers(-1, 2, (8, 8, 1, 1)).astype(dtype),
        "w3": RNG.integers(-1, 2, (4, 12, 1, 1)).astype(dtype),
        "scale": RNG.integers(-2, 3, 8).astype(dtype),
        "shift": RNG.integers(-2, 3, 8).astype(dtype),
        "zeros": np.zeros(8, dtype),
        "ones": np.full(8, 1 - 1e-5, dtype),
        "grouped": np.array([0, 2, 4, 7, 9]),
        "whole": np.array([0, 8, 7, 9]),
        "from": np.array([4]),
        "to": np.array([8]),
        "axis": np.array([1]),
    }
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w1"], ["a"], "first", pads=[1] * 4),
        node("AveragePool", ["a"], ["b"], "mean", kernel_shape=[2, 2], strides=[2, 2],
             pads=[0, 1, 0, 0], ceil_mode=1),
        node("MaxPool", ["b"], ["c"], "high", kernel_shape=[3, 3], dilations=[2, 1],
             pads=[2, 1, 2, 1]),
        node("GlobalAveragePool", ["c"], ["d"], "all"),
        node("Conv", ["d", "w2"], ["e"], "gate"),
        node("Mul", ["e", "c"], ["f"], "weighed"),
        node("BatchNormalization", ["f", "scale", "shift", "zeros", "ones"], ["g"], "norm"),
        node("Relu", ["g"], ["h"], "relu"),
        node("Reshape", ["h", "grouped"], ["i"], "groups"),
        node("Transpose", ["i"], ["j"], "exchanged", perm=[0, 2, 1, 3, 4]),
        node("Reshape", ["j", "whole"], ["k"], "shuffled"),
        node("Split", ["k"], ["l", "m"], "halves", axis=1),
        node("Slice", ["h", "from", "to", "axis"], ["n"], "last"),
        node("Mul", ["l", "n"], ["o"], "product"),
        node("Add", ["m", "l"], ["p"], "sum"),
        node("AveragePool", ["o"], ["q"], "counted", kernel_shape=[3, 3], pads=[1] * 4,
             count_include_pad=1),
        node("Concat", ["p", "q", "l"], ["r"], "both", axis=1),
        node("Conv", ["r", "w3"], ["y"], "second"),
    ]  # fmt: skip
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "squeezed",
        [value("x", kind, [2, 4, 14, 16])],
        [value("y", kind, [2, 4, 7, 9])],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("planned", [True, False], ids=["planned", "plain"])
def test_every_map_in_one_node(planned, session, planner):
    model = squeezed()
    fast = winogen.onnx.optimize(model)
    (node,) = fast.graph.node
    assert (node.domain, node.op_type) == ("com.winogen", "Segment")
    if not planned:
        planner.remove()
    x = images(2, 4, 14, 16)
    wanted, (y,) = theirs(model, x), session(fast, threads=2).run(None, {"x": x})
    assert np.abs(wanted).max() > 100
    assert np.abs(y - wanted).max() < 1e-5 * np.abs(wanted).max()


def images(*shape):
    return RNG.integers(-2, 3, shape).astype(np.float32)


def theirs(model, x):
    return ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0]


@pytest.mark.parametrize("order", ["CRD", "DCR"])
@pytest.mark.parametrize("planned", [True, False], ids=["planned", "plain"])
def test_the_whole_is_one_node(order, planned, session, planner):
    model = net(order=order)
    fast = winogen.onnx.optimize(model)
    (node,) = fast.graph.node
    assert (node.domain, node.op_type) == ("com.winogen", "Segment")
    if not planned:
        planner.remove()
    ours = session(fast, threads=2)
    for shape in ((1, 4, 12, 16), (2, 4, 6, 4), (0, 4, 12, 16)):
        x = images(*shape)
        wanted, (y,) = theirs(model, x), ours.run(None, {"x": x})
        assert y.shape == wanted.shape and np.array_equal(np.rint(y), wanted)
        assert np.abs(y - wanted).max(initial=0) < 0.01


@pytest.mark.parametrize("make, shape", [(net, (1, 4, 8, 6)), (squeezed, (2, 4, 14, 16))])
def test_doubles(make, shape, session, planner):
    fast = winogen.onnx.optimize(make(np.float64))
    x = images(*shape).astype(np.float64)
    (planned,) = session(fast).run(None, {"x": x})
    planner.remove()
    (plain,) = session(fast).run(None, {"x": x})
    assert planned.dtype == np.float64 and np.abs(plain).max() > 1
    assert np.abs(planned - plain).max() < 1e-12 * np.abs(plain).max()


@pytest.mark.parametrize("make, shape", [(net, (1, 4, 12, 16)), (squeezed, (2, 4, 14, 16))])
def test_a_library_carries_them(make, shape, session, tmp_path):
    fast = winogen.onnx.optimize(make(), tmp_path / "fast.onnx")
    shapes = {"x": shape}
    path = winogen.onnx.build_library(fast, tmp_path / "x.so", input_shapes=shapes, threads=2)
    x = images(*shapes["x"])
    outputs, said = run_on({"known": x}, path, tmp_path)
    assert "no plan" not in said, said
    (wanted,) = session(fast, threads=2).run(None, {"x": x})
    assert np.array_equal(outputs["known"], wanted)


ROUNDED_UP = {
    "windows in padding": helper.make_node(
        "MaxPool", ["a"], ["y"], kernel_shape=[2, 2], strides=[3, 3], ceil_mode=1
    ),
    "counted beyond the padding": helper.make_node(
        "AveragePool",
        ["a"],
        ["y"],
        kernel_shape=[3, 3],
        strides=[2, 2],
        pads=[1] * 4,
        ceil_mode=1,
        count_include_pad=1,
    ),
}
OTHERS = {
    "indices": helper.make_node("MaxPool", ["a"], ["y", "i"], kernel_shape=[2, 2]),
    "linear": helper.make_node("Resize", ["a", "", "s"], ["y"], mode="linear"),
    "rounded up": helper.make_node(
        "Resize", ["a", "", "s"], ["y"], coordinate_transformation_mode="asymmetric",
        nearest_mode="ceil",
    ),
}  # fmt: skip


def behind_a_layer(node):
    """A model of a convolution and a node that reads it."""
    kind, value = onnx.TensorProto.FLOAT, helper.make_tensor_value_info
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"], pads=[1] * 4), node]
    arrays = {"w": images(8, 4, 3, 3), "s": np.array([1, 1, 2, 2], np.float32)}
    graph = helper.make_graph(
        nodes,
        "net",
        [value("x", kind, [1, 4, 9, 9])],
        [value("y", kind, None)],
        [numpy_helper.from_array(array, key) for key, array in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("name", ROUNDED_UP)
def test_no_window_of_a_pool_begins_behind_its_input(name, session):
    model = behind_a_layer(ROUNDED_UP[name])
    fast = winogen.onnx.optimize(model)
    assert [node.op_type for node in fast.graph.node] == ["Segment"]
    x = images(1, 4, 9, 9)
    (y,) = session(fast).run(None, {"x": x})
    (wanted,) = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    assert y.shape == wanted.shape and np.abs(y - wanted).max() <= 1e-5 * np.abs(wanted).max()


@pytest.mark.parametrize("name", OTHERS)
def test_other_kinds_stay_with_onnxruntime(name):
    fast = winogen.onnx.optimize(behind_a_layer(OTHERS[name]))
    assert [node.op_type for node in fast.graph.node] == ["Conv", OTHERS[name].op_type]


@pytest.mark.parametrize("read_by", ["nobody", "Concat", "Relu", "the caller"])
def test_an_empty_part_of_a_split(read_by, session):
    kind, value = onnx.TensorProto.FLOAT, helper.make_tensor_value_info
    other = {"nobody": [], "Concat": ["b"], "Relu": ["r"], "the caller": []}[read_by]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["h"], pads=[1] * 4),
        helper.make_node("Split", ["h", "parts"], ["b", "a", "c"], axis=1),
        *([helper.make_node("Relu", ["b"], ["r"])] if read_by == "Relu" else []),
        helper.make_node("Concat", ["a", *other, "c"], ["j"], axis=1),
        helper.make_node("Conv", ["j", "v"], ["y"]),
    ]
    arrays = {"w": images(8, 4, 3, 3), "v": images(4, 8, 1, 1), "parts": np.array((0, 3, 5))}
    outputs = ["y", "b"] if read_by == "the caller" else ["y"]
    graph = helper.make_graph(
        nodes,
        "empty",
        [value("x", kind, [1, 4, 9, 9])],
        [value(name, kind, None) for name in outputs],
        [numpy_helper.from_array(array, key) for key, array in arrays.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = images(1, 4, 9, 9)
    fast, wanted = winogen.onnx.optimize(model), theirs(model, x)
    kinds = [node.op_type for node in fast.graph.node]
    assert (kinds == ["Segment"]) == (read_by in ("nobody", "Concat"))
    (y, *_) = session(fast).run(None, {"x": x})
    assert np.abs(y - wanted).max() < 1e-5 * np.abs(wanted).max()
    assert len(winogen.onnx.report(model).rows) == 2


FIELDS = (
    "kind channels kernel_h kernel_w input input_channel weight bias slopes add add_channel "
    "add_after add_after_channel output output_channel stride_h stride_w dilation_h dilation_w "
    "top left bottom right groups padding_mode"
).split()


@pytest.mark.parametrize(
    "kind, field, number",
    [
        ("max", "kind", 99),
        ("max", "channels", 0),
        ("max", "kernel_h", 0),
        ("max", "kernel_h", 1 << 40),
        ("max", "bottom", 9),
        ("average", "dilation_h", 2),
        ("average", "groups", 2),
        ("global_average", "dilation_w", 2),
        ("global_average", "kernel_h", 2),
        ("product", "stride_w", 2),
        ("product", "add", -1),
        ("shuffle", "dilation_h", 2),
        ("shuffle", "bias", 1),
        ("shuffle", "groups", 3),
        ("point", "add", 0),
        ("point", "left", 1),
        ("sum", "add_after", 0),
        ("sum", "padding_mode", 1),
    ],
)
def test_a_node_that_means_no_map_is_refused(kind, field, number, session):
    fast = winogen.onnx.optimize(squeezed())
    (layers,) = (one for one in fast.graph.node[0].attribute if one.name == "layers")
    kinds = layers.ints[:: len(FIELDS)]
    place = kinds.index(1 + maps._KINDS.index(kind)) * len(FIELDS) + FIELDS.index(field)
    layers.ints[place] = number
    with pytest.raises(Exception, match="layers, activations: got what makes no layer"):
        session(fast)


@pytest.mark.parametrize("kind", ["max", "average", "global_average", "product", "shuffle"])
def test_a_relu_behind_a_map_without_one_is_refused(kind, session):
    fast = winogen.onnx.optimize(squeezed())
    of = {one.name: one for one in fast.graph.node[0].attribute}
    names = of["activations"].s.decode().split()
    place = list(of["layers"].ints[:: len(FIELDS)]).index(1 + maps._KINDS.index(kind))
    assert names[place] == "none"
    names[place] = "relu"
    of["activations"].s = " ".join(names).encode()
    with pytest.raises(Exception, match="layers, activations: got what makes no layer"):
        session(fast)
