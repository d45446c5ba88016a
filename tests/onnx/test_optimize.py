"""optimize: networks as a whole, random ones, and models that are not for it."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import winogen.onnx
from winogen.errors import InvalidType, InvalidValue
from winogen.onnx.model import Model
from winogen.onnx.rewrite import rewrite

from .nets import MADE, Net, check_same, data, kinds


def test_a_residual_block_of_unknown_sizes_is_one_segment(session):
    net = Net()
    y = net.node("Relu", net.norm(net.conv("x", 4, 4, bias=False), 4))
    y = net.norm(net.conv(y, 4, 4, bias=False), 4)
    y = net.node("Relu", net.node("Add", y, "x"))
    result = check_same(net.model(y), session, data(net, 2, 4, 7, 8), data(net, 1, 4, 4, 3))
    assert kinds(result) == ["Segment"]


def test_an_addition_of_one_pixel_is_part_of_the_segment(session):
    net = Net()
    pooled = net.node("GlobalAveragePool", "x")
    y = net.node("Add", net.conv("x", 4, 4), net.conv(pooled, 4, 4, taps=1))
    result = check_same(net.model(y), session, data(net, 2, 4, 7, 8))
    assert kinds(result) == ["Segment"]


def test_an_addition_of_one_channel_stays(session):
    net = Net()
    y = net.node("Add", net.conv("x", 4, 4), net.conv("x", 4, 1))
    result = check_same(net.model(y), session, data(net, 2, 4, 7, 8))
    assert kinds(result).count("Add") == 1


def test_dense_blocks_are_written_in_place(session):
    net = Net()
    features = ["x"]
    for i in range(3):
        joined = net.node("Concat", *features, axis=1) if i else "x"
        features.append(net.node("Relu", net.conv(joined, 4 + 4 * i, 4)))
    y = net.conv(net.node("Concat", *features, axis=-3), 16, 5, taps=1)
    result = check_same(net.model(y), session, data(net, 2, 4, 7, 8))
    assert kinds(result) == ["Segment"]


def test_dynamic_sizes_and_an_empty_batch(session):
    net = Net()
    y = net.conv(net.node("Relu", net.conv("x", 4, 6, strides=[2, 2])), 6, 3)
    feeds = [data(net, *shape) for shape in ((1, 4, 9, 9), (3, 4, 16, 11), (0, 4, 9, 9))]
    check_same(net.model(y), session, *feeds)


def test_what_lies_between_segments_stays(session):
    net = Net()
    y = net.node("LpPool", net.conv("x", 4, 6), kernel_shape=[2, 2], strides=[2, 2])
    y = net.node("Relu", net.conv(y, 6, 6, taps=1))
    scales = net.constant(np.array([1, 1, 2, 2], np.float32))
    y = net.node("Resize", y, "", scales, mode="linear")
    result = check_same(net.model(net.conv(y, 6, 2)), session, data(net, 1, 4, 8, 10))
    assert kinds(result) == ["Conv", "LpPool", "Conv", "Resize", "Conv"]


def test_every_value_that_is_an_output_is_there(session):
    net = Net()
    first = net.conv("x", 4, 4)
    relu = net.node("Relu", first)
    second = net.node("Add", net.conv(relu, 4, 4), first)
    check_same(net.model(first, second, relu), session, data(net, 2, 4, 7, 8))


def test_copies_are_looked_through(session):
    net = Net()
    y = net.node("Identity", net.conv("x", 4, 4))
    y = net.node("Relu", net.node("Dropout", y))
    assert kinds(check_same(net.model(y), session, data(net, 1, 4, 6, 6))) == ["Conv"]


def test_values_read_by_the_body_of_a_branch(session):
    net = Net()
    inner = net.node("Identity", net.conv("x", 4, 4))

    def branch(kind):
        value = helper.make_tensor_value_info("inner", TensorProto.FLOAT, None)
        return helper.make_graph([helper.make_node(kind, [inner], ["inner"])], kind, [], [value])

    condition = net.constant(np.array(True))
    y = net.node("If", condition, then_branch=branch("Relu"), else_branch=branch("Neg"))
    check_same(net.model(net.conv(y, 4, 3)), session, data(net, 1, 4, 6, 6))


def random_net(seed):
    """Layers in a row with branches, sums, joins, pools between them."""
    net = Net(seed, dtype=(np.float32, np.float64)[seed % 4 == 3])
    values = [("x", 4)]
    for _ in range(int(net.random.integers(3, 9))):
        last = net.random.random() < 0.7
        x, channels = values[-1] if last else values[net.random.integers(len(values))]
        filters = int(net.random.choice([3, 4, 8]))
        groups = 1
        if net.random.random() < 0.2:
            groups = filters = channels
        taps = int(net.random.choice([1, 3, 3, 5]))
        y = net.conv(x, channels, filters, taps, bool(net.random.integers(2)), groups)
        steps = net.random.permutation(["norm", "activation", "add", "concat", ""])[:3]
        for step in steps:
            alike = [v for v, c in values if c == filters]
            if step == "norm":
                y = net.norm(y, filters)
            elif step == "activation":
                name = net.random.choice(["relu", "leaky_relu", "relu6", "silu", "gelu by erf"])
                y = MADE[name](net, y)
            elif step == "add" and alike:
                y = net.node("Add", *net.random.permutation([y, net.random.choice(alike)]))
            elif step == "concat":
                other, more = values[net.random.integers(len(values))]
                y, filters = net.node("Concat", y, other, axis=1), filters + more
        values.append((y, filters))
        if net.random.random() < 0.2:
            y = net.node("MaxPool", y, kernel_shape=[3, 3], pads=[1] * 4)
            values.append((y, filters))
    outputs = {values[-1][0], values[net.random.integers(1, len(values))][0]}
    return net, net.model(*sorted(outputs))


@pytest.mark.draws
@pytest.mark.parametrize("planned", (True, False), ids=("planned", "plain"))
@pytest.mark.parametrize("seed", range(24))
def test_random_networks(seed, planned, session, planner):
    net, model = random_net(seed)
    feeds = data(net, 1, 4, 9, 8), data(net, 2, 4, 6, 7)
    check_same(model, session, *feeds, before=(lambda: None) if planned else planner.remove)


def test_the_result_is_the_same_to_the_byte(tmp_path):
    for seed in range(4):
        _, model = random_net(seed)
        onnx.save(model, tmp_path / "model.onnx")
        copy = onnx.load(tmp_path / "model.onnx")
        before = model.SerializeToString()
        winogen.onnx.optimize(model, tmp_path / "one.onnx", tolerance=1e-4, threads=2)
        winogen.onnx.optimize(copy, tmp_path / "two.onnx", tolerance=1e-4, threads=2)
        assert (tmp_path / "one.onnx").read_bytes() == (tmp_path / "two.onnx").read_bytes()
        assert model.SerializeToString() == before


def test_constants_are_written_once_and_none_too_many():
    net = Net()
    weight, bias = net.constant(net.weights(4, 4, 3, 3), "shared"), net.constant(net.weights(4))
    y = net.node("Conv", "x", weight, bias, pads=[1] * 4)
    y = net.node("MaxPool", y, kernel_shape=[1, 1])
    y = net.node("Conv", y, weight, bias, pads=[1] * 4)
    result = winogen.onnx.optimize(net.model(y))
    assert sorted(t.name for t in result.graph.initializer) == sorted(["shared", bias])


def test_initializers_that_are_inputs():
    """Before IR 4 all are, and mean constants; later ones may be replaced by the caller."""
    net = Net()
    model = net.model(net.conv("x", 4, 4), opset=9)
    for tensor in model.graph.initializer:
        info = helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        model.graph.input.append(info)
    model.ir_version = 3
    result = winogen.onnx.optimize(model)
    assert kinds(result) == ["Conv"] and result.graph.node[0].domain == "com.winogen"
    assert [value.name for value in result.graph.input] == ["x"] and result.ir_version >= 4
    model.ir_version = 8
    with pytest.warns(UserWarning, match="its weights may change from call to call"):
        assert winogen.onnx.optimize(model) == model


UNTOUCHED = {
    "no convolution": lambda net: net.node("Relu", "x"),
    "transposed, with a dilation beside its stride": lambda net: net.node(
        "ConvTranspose",
        "x",
        net.constant(net.weights(4, 2, 2, 2)),
        strides=[2, 2],
        dilations=[5, 5],
    ),
    "its weights may change": lambda net: net.node(
        "Conv",
        "x",
        net.node("Abs", net.node("Slice", "x", *[net.constant(np.array([v])) for v in (0, 1, 0)])),
    ),
}


@pytest.mark.parametrize("name", UNTOUCHED)
def test_models_without_work_come_back_with_a_warning(name):
    net = Net()
    model = net.model(UNTOUCHED[name](net))
    message = name if name != "no convolution" else "nothing for winogen to do"
    with pytest.warns(UserWarning, match=message):
        assert winogen.onnx.optimize(model) == model


def test_other_numbers_and_dimensions_stay():
    net = Net(dtype=np.float16)
    with pytest.warns(UserWarning, match="numbers are float16"):
        winogen.onnx.optimize(net.model(net.conv("x", 4, 4)))
    net = Net()
    y = net.node("Conv", "x", net.constant(net.weights(4, 4, 3, 3, 3, 3)))
    with pytest.warns(UserWarning, match="4D"):
        winogen.onnx.optimize(net.model(y, shape=["n", 4, "t", "d", "h", "w"]))


@pytest.mark.parametrize("opset", (6, 999))
def test_an_unknown_opset_is_refused(opset):
    net = Net()
    with pytest.raises(InvalidValue, match=f"model: got opset {opset}; allowed: 7 to"):
        winogen.onnx.optimize(net.model(net.conv("x", 4, 4), opset=opset))


def test_external_data(tmp_path, session):
    net = Net()
    model = net.model(net.node("Relu", net.conv("x", 4, 6)))
    onnx.save(
        onnx.ModelProto.FromString(model.SerializeToString()), tmp_path / "model.onnx",
        save_as_external_data=True, location="weights.bin", size_threshold=0,
    )  # fmt: skip
    result = winogen.onnx.optimize(tmp_path / "model.onnx", tmp_path / "fast.onnx")
    assert result == winogen.onnx.optimize(model)
    x = data(net, 1, 4, 5, 5)
    session(onnx.load(tmp_path / "fast.onnx")).run(None, {"x": x})
    without = onnx.load(tmp_path / "model.onnx", load_external_data=False)
    with pytest.raises(InvalidValue, match="weights in another file"):
        winogen.onnx.optimize(without)


def test_input_shapes_are_written():
    net = Net()
    model = net.model(net.conv("x", 4, 4))
    result = winogen.onnx.optimize(model, input_shapes={"x": (2, 4, 8, 9)})
    dims = result.graph.input[0].type.tensor_type.shape.dim
    assert [dim.dim_value for dim in dims] == [2, 4, 8, 9]
    for shapes, message in (
        ({"z": (1, 4, 8, 8)}, "input_shapes: got 'z'; allowed: inputs of the model, x"),
        ({"x": (1, 5, 8, 8)}, "input_shapes: got x: .*; allowed: n x 4 x h x w"),
        ({"x": (1, 4, 8)}, "input_shapes: got x: "),
        ({"x": (0, 4, 8, 8)}, "input_shapes: got x: "),
    ):
        with pytest.raises(InvalidValue, match=message):
            winogen.onnx.optimize(model, input_shapes=shapes)


def test_wrong_arguments(tmp_path):
    (tmp_path / "text.onnx").write_text("not a model")
    net = Net()
    model = net.model(net.conv("x", 4, 4))
    for arguments, options, kind, message in (
        ((3,), {}, InvalidType, "model: got int; allowed: a path or an onnx.ModelProto"),
        ((tmp_path / "text.onnx",), {}, InvalidValue, "which is no ONNX model"),
        ((model,), {"tolerance": 0}, InvalidValue, "tolerance: got 0"),
        ((model,), {"tolerance": 2}, InvalidValue, "tolerance: got 2"),
        ((model,), {"threads": 0}, InvalidValue, "threads: got 0"),
        ((model, 5), {}, InvalidType, "output: got int; allowed: a path"),
    ):
        with pytest.raises(kind, match=message):
            winogen.onnx.optimize(*arguments, **options)
    with pytest.raises(FileNotFoundError):
        winogen.onnx.optimize(tmp_path / "missing.onnx")


def test_without_the_extra_the_message_names_it(monkeypatch):
    import sys

    from winogen.extras import MissingPackage

    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingPackage, match=r"pip install 'winogen\[onnx\]'"):
        winogen.onnx.optimize("model.onnx")


@pytest.mark.parametrize("size", (-1, "?"))
def test_sizes_that_are_none_are_open_ones(size, session):
    """So exporters write them, and onnxruntime reads them. onnx itself would compute with them."""
    net = Net()
    y = net.conv("x", 4, 4)
    shrunk = net.node("AveragePool", net.conv(y, 4, 4), kernel_shape=[2, 2], strides=[2, 2])
    wide = net.node("Concat", net.conv(shrunk, 4, 4), shrunk, axis=3)
    model = net.model(wide, net.node("Relu", net.node("Add", y, "x")), shape=[size, 4, size, size])
    result = check_same(model, session, data(net, 1, 4, 8, 10), data(net, 2, 4, 6, 8))
    assert kinds(result) == ["Segment", "Concat"]
    sizes = Model(model).sizes
    assert not any(
        size.known for axis in (0, 2, 3) for size in [sizes["x"][axis], sizes[wide][axis]]
    )
    assert len({axis.symbol for axis in sizes["x"]}) == 4
    assert rewrite(model).verdict.sizes[2] == {"x": (1, 4, 72, 88)}
    given = rewrite(model, input_shapes={"x": (1, 4, 16, 20)})
    assert given.verdict.sizes == [{"x": (1, 4, 16, 20)}]
