"""The comparison before a model is handed out: what is wrong goes back, what is right stays."""

import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import winogen.onnx
from winogen.errors import CompileFailed, InvalidType, InvalidValue
from winogen.graph.whole import limit
from winogen.onnx import proof, whole
from winogen.onnx.constants import Constants
from winogen.onnx.loading import evaluator, new_session
from winogen.onnx.model import Model
from winogen.onnx.patterns import Patterns
from winogen.onnx.rewrite import rewrite, save
from winogen.onnx.writing import Writer

from .nets import Net, check_same, data, kinds
from .test_quantized import linear


def two_segments(shape=None):
    """Convolution, pool, convolution with a residual addition."""
    net = Net()
    y = net.node("Relu", net.conv("x", 4, 4))
    y = net.node("LpPool", y, kernel_shape=[2, 2], strides=[2, 2], name="pool")
    y = net.node("Add", net.conv(net.node("Relu", net.conv(y, 4, 4)), 4, 4), y)
    return net, net.model(y, shape=shape)


def test_an_account_of_the_comparison(library):
    _, model = two_segments()
    result = rewrite(model)
    assert result.given_back == () and result.verdict.error < 1e-5
    assert result.verdict.sizes == [
        {"x": (1, 4, 64, 64)}, {"x": (2, 4, 64, 64)}, {"x": (1, 4, 72, 88)}
    ]  # fmt: skip
    assert "compared with the original at 1x4x64x64, 2x4x64x64, 1x4x72x88: largest" in str(result)
    result = rewrite(model, input_shapes={"x": (3, 4, 16, 20)})
    assert result.verdict.sizes == [{"x": (3, 4, 16, 20)}]
    _, model = two_segments([1, 4, 30, 34])
    assert rewrite(model).verdict.sizes == [{"x": (1, 4, 30, 34)}]


def spoiled(monkeypatch, change, which="Segment"):
    """Change what is written for one kind of nodes."""
    add = Writer._add

    def adding(self, kind, inputs, outputs, label, keys, **values):
        if kind == which:
            inputs, values = change(self, list(inputs), dict(values))
        add(self, kind, inputs, outputs, label, keys, **values)

    monkeypatch.setattr(Writer, "_add", adding)


def another_bias(writer, inputs, values):
    """A bias that is off by a hundredth."""
    array = 0.01 + writer.model.constant("c1")
    return [inputs[0], inputs[1], writer._weights(array, "other", "bias"), *inputs[3:]], values


def other_padding(writer, inputs, values):
    return inputs, {**values, "pads": (0, 2, 2, 0)}


def no_padding(writer, inputs, values):
    return inputs, {**values, "pads": (0, 0, 0, 0)}


def no_activation(writer, inputs, values):
    return inputs, {name: v for name, v in values.items() if name != "activation"}


def refused_by_onnxruntime(writer, inputs, values):
    return inputs, {**values, "strides": (0, 0)}


@pytest.mark.parametrize(
    "change, message",
    (
        (another_bias, "differs by .*e-0[1234], .* expected at most"),
        (other_padding, "differs by"),
        (no_padding, r"is float32 \(1, 4, 62, 62\), not float32 \(1, 4, 64, 64\)"),
        (no_activation, "differs by"),
        (refused_by_onnxruntime, "onnxruntime does not run it .*strides: got 0"),
    ),
)
def test_a_wrong_node_stays_with_onnxruntime(change, message, monkeypatch, session, tmp_path):
    net, model = two_segments()
    spoiled(monkeypatch, change, "Conv")
    with pytest.warns(UserWarning, match=f"given back to onnxruntime: v1: .*{message}"):
        result = winogen.onnx.optimize(model, tmp_path / "fast.onnx")
    assert kinds(result) == ["Conv", "Relu", "LpPool", "Segment"]
    assert [node.domain for node in result.graph.node][:2] == ["", ""]
    assert onnx.load(tmp_path / "fast.onnx") == result
    monkeypatch.undo()
    with pytest.warns(UserWarning):  # the right one takes all
        monkeypatch.setattr(proof, "planner", lambda: (_ for _ in ()).throw(CompileFailed("no")))
        assert kinds(check_same(model, session, data(net, 2, 4, 8, 10))) == [
            "Conv", "LpPool", "Segment"
        ]  # fmt: skip


def test_what_is_wrong_at_other_sizes_only_goes_back(monkeypatch, library):
    """Padding that fits one size, as where `auto_pad` was taken for numbers."""
    net = Net()
    y = net.node("Conv", "x", net.constant(net.weights(6, 4, 3, 3)), auto_pad="SAME_UPPER",
                 strides=[2, 2], name="same")  # fmt: skip
    model = net.model(y, shape=[1, 4, "h", "w"])
    assert rewrite(model).refusals
    monkeypatch.setattr(Patterns, "_padding", lambda *arguments: (0, 1, 0, 1))
    result = rewrite(model)
    assert result.segments == 1 and result.verdict.sizes[1] == {"x": (1, 4, 72, 88)}
    fits = {(64, 64), (72, 88)}  # even: the padding is right there
    assert fits == {sizes["x"][2:] for sizes in result.verdict.sizes}
    monkeypatch.setattr("winogen.onnx.probes._GROWN", ((9, 24),))
    result = rewrite(model)
    assert not result.segments and "not float32 (1, 6, 37, 44)" in result.given_back[0]


def test_ill_conditioned_layers_are_no_fault(library):
    """A sum that cancels: float64 says that the original is as far off."""
    net = Net()
    weight = net.weights(4, 4, 3, 3)
    one = net.conv("x", 4, 4, bias=False)
    net.constants[-1] = onnx.numpy_helper.from_array(weight, net.constants[-1].name)
    other = net.constant((-weight * np.float32(1 + 2e-7)).astype(np.float32))
    y = net.node("Add", one, net.node("Conv", "x", other, pads=[1] * 4))
    result = rewrite(net.model(y))
    assert result.given_back == () and result.segments == 1


def test_sums_of_sizes_are_no_maps(library):
    net = Net()
    y = net.conv("x", 4, 4)
    size = net.node("Gather", net.node("Shape", y), net.constant(np.array([1])))
    ends = net.node("Add", size, net.constant(np.array([-2])))
    begins, axes = (net.constant(np.array([number])) for number in (0, 1))
    assert rewrite(net.model(net.node("Slice", y, begins, ends, axes))).segments == 1


@pytest.mark.parametrize("opset", (7, 13, 19))
def test_both_round_float64_to_float16_by_way_of_float32(opset):
    net = Net(dtype=np.float64)
    model = net.model(net.node("Cast", "x", to=TensorProto.FLOAT16), shape=["n"], opset=opset)
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    feed = {"x": np.array([1 + 2.0**-11 + 2.0**-30, 1e-8, 3.3])}  # the first is a tie in float32
    (exact,), (found,) = (make(model).run(None, feed) for make in (evaluator, new_session))
    assert np.array_equal(exact, found) and found[0] == 1


def test_a_tolerance_bounds_what_is_allowed(monkeypatch, library):
    _, model = two_segments()

    def off(writer, inputs, values):
        array = writer.model.constant("c1") + np.float32(1e-3)
        return [inputs[0], inputs[1], writer._weights(array, "other", "bias"), *inputs[3:]], values

    spoiled(monkeypatch, off, "Conv")
    assert rewrite(model, tolerance=0.1).given_back == ()
    assert len(rewrite(model, tolerance=1e-5).given_back) == 1


def test_wrong_wiring_is_noticed(monkeypatch, library):
    """Outputs of the whole have other sizes: nothing is left of the rewriting."""
    _, model = two_segments()
    spoiled(monkeypatch, lambda w, inputs, values: (["x", *inputs[1:]], values))
    result = rewrite(model)
    assert any("v5" in line or "expected" in line or "not" in line for line in result.given_back)
    assert kinds(result.model)[-1] == "Add"


def test_quantized_nodes_are_compared(monkeypatch, library):
    random = np.random.default_rng(0)
    model = linear(random, shape=(3, 3, 3, 3), pads=[1] * 4)
    assert rewrite(model).quantized == 1
    array = Constants.name

    def wrong(self, values, label, what):
        return array(self, values[::-1].copy() if what == "weight" else values, label, what)

    monkeypatch.setattr(Constants, "name", wrong)
    result = rewrite(model)
    assert not result.quantized and "differs in" in result.given_back[0]
    assert result.model == model


def test_without_onnxruntime_or_a_compiler_it_says_so(monkeypatch):
    _, model = two_segments()
    whole = rewrite(model).model
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "onnxruntime", None)
        with pytest.warns(UserWarning, match="not compared with the original: onnxruntime: cannot"):
            assert winogen.onnx.optimize(model) == whole

    def missing():
        raise CompileFailed("no C compiler")

    monkeypatch.setattr(proof, "planner", missing)
    with pytest.warns(UserWarning, match="not compared with the original: no C compiler"):
        assert winogen.onnx.optimize(model) == whole


def test_an_original_that_does_not_run_is_no_fault(library):
    net = Net()
    y = net.conv("x", 4, 4)
    net.nodes.append(helper.make_node("Theirs", [y], ["z"], domain="some.where"))
    model = net.model("z")
    model.opset_import.append(helper.make_opsetid("some.where", 1))
    with pytest.warns(UserWarning, match="onnxruntime does not load the original"):
        result = winogen.onnx.optimize(model)
    assert kinds(result) == ["Conv", "Theirs"] and result.graph.node[0].domain == "com.winogen"


def grown(net):
    """By a padding that no input tells of."""
    y = net.conv("x", 4, 4)
    return net.node("Pad", y, net.constant(np.array([0, 0, 0, 0, 0, 0, 10**6, 10**6])))


@pytest.mark.parametrize(
    "shape, make", (([1, 4, 1 << 20, 1 << 20], lambda net: net.conv("x", 4, 4)), (None, grown))
)
def test_values_for_which_there_is_no_memory_are_not_computed(shape, make, library):
    net = Net()
    result = rewrite(net.model(make(net), shape=shape))
    assert result.segments == 1 and "bytes of memory, half of" in result.verdict.unproven


def test_what_memory_is_left_decides(monkeypatch, library):
    _, model = two_segments()
    monkeypatch.setattr(proof, "memory_left", lambda: None)
    assert len(rewrite(model).verdict.sizes) == 3
    monkeypatch.setattr(proof, "memory_left", lambda: 5_000_000)
    verdict = rewrite(model).verdict
    # Twice as much, and 72 x 88 pixels, are too much.
    assert verdict.sizes == [{"x": (1, 4, 64, 64)}, {"x": (1, 4, 65, 66)}]
    assert not verdict.unproven
    monkeypatch.setattr(proof, "memory_left", lambda: 100_000)
    assert "bytes of memory" in rewrite(model).verdict.unproven


def test_sizes_that_only_some_nets_have(library):
    """224 is tried where 64 does not do; a batch that is fixed stays."""
    net = Net()
    y = net.node("AveragePool", net.conv("x", 4, 4), kernel_shape=[32, 32], strides=[32, 32])
    flat = net.node("Flatten", y)
    y = net.node("MatMul", flat, net.constant(net.weights(4 * 49, 3)))
    model = net.model(y)
    model.graph.output[0].type.tensor_type.shape.dim.pop()
    del model.graph.output[0].type.tensor_type.shape.dim[2:]
    sizes = rewrite(model).verdict.sizes
    assert sizes == [{"x": (1, 4, 224, 224)}, {"x": (2, 4, 224, 224)}] or (
        sizes[0] == {"x": (1, 4, 224, 224)} and {"x": (2, 4, 224, 224)} in sizes
    )


def test_inputs_of_other_kinds(library):
    """Indices, flags, a second input that shares its sizes."""
    net = Net()
    y = net.node("Add", net.conv("x", 4, 4), "other")
    y = net.node("Where", "flag", y, net.conv(y, 4, 4))
    model = net.model(net.node("Gather", y, "index", axis=1))
    make = helper.make_tensor_value_info
    model.graph.input.append(make("other", TensorProto.FLOAT, ["n", 4, "h", "w"]))
    model.graph.input.append(make("flag", TensorProto.BOOL, ["n", 1, 1, "w"]))
    model.graph.input.append(make("index", TensorProto.INT64, ["k"]))
    result = rewrite(model)
    assert result.given_back == () and result.verdict.sizes[2]["flag"] == (1, 1, 1, 88)


def test_files_are_written_as_a_whole(tmp_path, monkeypatch, library):
    _, model = two_segments()
    path = tmp_path / "fast.onnx"
    path.write_text("what was there")

    def broken(self, data):
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.write_bytes", broken)
        with pytest.raises(OSError, match="no space left"):
            save(model, path)
    assert path.read_text() == "what was there" and list(tmp_path.iterdir()) == [path]
    link = tmp_path / "link.onnx"
    link.symlink_to(path)
    assert save(model, link) == path and link.is_symlink() and onnx.load(path) == model
    monkeypatch.setattr("winogen.onnx.rewrite.MOST_BYTES", 10)
    save(model, path)
    again = onnx.load(path).graph
    assert list(again.node) == list(model.graph.node)
    for one, other in zip(again.initializer, model.graph.initializer, strict=True):
        assert (onnx.numpy_helper.to_array(one) == onnx.numpy_helper.to_array(other)).all()
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "fast.onnx",
        "fast.onnx.data",
        "link.onnx",
    ]
    with pytest.raises(InvalidType, match="output: got int; allowed: a path"):
        winogen.onnx.optimize("no model", 3)
    with pytest.raises(InvalidValue, match="output: got '/dev/null', which is not a regular file"):
        winogen.onnx.optimize("no model", "/dev/null")
    with pytest.raises(FileNotFoundError):
        winogen.onnx.optimize("no model", tmp_path / "missing" / "fast.onnx")


# ---- the whole model -----------------------------------------------------------------------------


def unseen_by_parts(monkeypatch):
    """All parts seem right: the comparison of the whole is left."""
    wrong = proof._Part.wrong
    monkeypatch.setattr(proof._Part, "wrong", lambda *arguments: wrong(*arguments) and None)


@pytest.mark.parametrize("change", (another_bias, other_padding, no_activation))
def test_outputs_of_the_whole_are_compared(change, monkeypatch, library):
    _, model = two_segments()
    unseen_by_parts(monkeypatch)
    assert rewrite(model).given_back == ()
    spoiled(monkeypatch, change, "Conv")
    result = rewrite(model)
    assert result.model == model
    assert "an output of the whole model, differs by" in result.given_back[0]


def half_and_back(net, y):
    return net.node("Cast", net.node("Cast", y, to=TensorProto.FLOAT16), to=TensorProto.FLOAT)


def cancelling(net, y):
    large = net.node("Mul", net.node("Abs", "x"), net.constant(np.float32(3000)))
    return net.node("Sub", net.node("Add", y, large), large)


AMPLIFIERS = {"float16": half_and_back, "cancelling": cancelling}


@pytest.mark.parametrize("name", AMPLIFIERS)
def test_limits_of_the_whole_follow_from_the_net(name, monkeypatch, library):
    """What layers may be off by is much more behind them, and yet a wrong layer is seen."""
    net = Net()
    model = net.model(AMPLIFIERS[name](net, net.conv("x", 4, 4)))
    result = rewrite(model)
    assert result.given_back == () and result.segments == 1
    with monkeypatch.context() as patch:
        unseen_by_parts(patch)
        spoiled(patch, other_padding, "Conv")
        assert "an output of the whole model" in rewrite(model).given_back[0]
    # No more than rounding itself.
    monkeypatch.setattr(whole, "limit", lambda _, rounding: limit(0, rounding))
    assert "an output of the whole model" in rewrite(model).given_back[0]


def test_errors_are_put_where_new_nodes_are(library):
    """In floats, so large as it is said; in numbers of 8 bits, a step for a share of them."""
    _, model = two_segments([1, 4, 16, 16])
    model = Model(model)
    values = {name: np.full((1, 4, 16, 16), 8, np.float32) for name in ("v1", "v4")}
    proto, names = whole.disturbed(model, values)
    onnx.checker.check_model(proto, full_check=True)
    assert [v.name for v in proto.graph.input] == ["x", *names.values()]
    assert [n.op_type for n in proto.graph.node].count("Add") == 3
    random = np.random.default_rng(0)
    assert (np.abs(whole._error(random, values["v1"], 0.25)) == 2).all()
    for dtype in (np.uint8, np.int8):
        array = np.arange(256).astype(dtype)
        off = whole._error(random, np.tile(array, 40), 0.02)
        assert 0.01 < np.mean(off != 0) < 0.03
        assert ((np.tile(array, 40) + off).astype(dtype) == np.tile(array, 40) + off).all()


def test_results_that_jump_are_compared_as_far_as_they_stay(library):
    """Indices of the largest are the same or nearly; how many numbers are positive may change."""
    net = Net()
    y = net.conv("x", 4, 4)
    model = net.model(net.node("ArgMax", y, axis=1), net.node("NonZero", net.node("Relu", y)))
    for value in model.graph.output:
        value.CopyFrom(helper.make_tensor_value_info(value.name, TensorProto.INT64, None))
    result = rewrite(model)
    assert result.given_back == () and result.segments == 1


def test_outputs_of_8_bits_are_compared_as_a_whole(monkeypatch, library):
    """A share of them may be a step off, by more where a net spreads what is off."""
    from winogen.onnx import quantize

    from .test_quantize import inputs, net

    model = quantize(net(), inputs())
    assert rewrite(model).quantized == 3
    array = Constants.name

    def wrong(self, values, label, what):
        return array(self, values[::-1].copy() if what == "weight" else values, label, what)

    monkeypatch.setattr(Constants, "name", wrong)
    unseen_by_parts(monkeypatch)
    result = rewrite(model)
    assert result.model == model
    assert "an output of the whole model, differs by" in result.given_back[0]
