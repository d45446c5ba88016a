"""Damaged models: an error that names the argument, or a model that onnxruntime runs."""

import random

import numpy as np
import onnx
import pytest
from kernels.turns import first
from onnx import TensorProto, helper

import winogen.onnx
from winogen import lowrank
from winogen.errors import InvalidType, InvalidValue, OutOfMemory, WinogenError
from winogen.onnx import loading
from winogen.onnx.rewrite import rewrite

from .nets import Net
from .test_quantized import linear


def models():
    net = Net()
    y = net.node("Relu", net.norm(net.conv("x", 4, 4), 4))
    y = net.node("LpPool", y, kernel_shape=[2, 2], strides=[2, 2])
    y = net.node("Pad", y, net.constant(np.array([0, 0, 1, 1, 0, 0, 1, 1])))
    y = net.node("Clip", net.conv(y, 4, 4), net.constant(np.float32(0)))
    return [net.model(y), linear(np.random.default_rng(0), shape=(3, 3, 3, 3))]


def damaged(data, rng):
    """Cut off, or with bytes and bits changed."""
    data = bytearray(data)
    if rng.random() < 0.3:
        return bytes(data[: rng.randrange(len(data))])
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        place = rng.randrange(len(data))
        data[place] = rng.choice((data[place] ^ 1 << rng.randrange(8), rng.randrange(256)))
    return bytes(data)


@pytest.mark.draws
@pytest.mark.parametrize(
    "begin, end", first(1, ((0, 60), *((at, at + 188) for at in range(60, 1000, 188))))
)
@pytest.mark.filterwarnings("ignore")
def test_damaged_files_are_named(begin, end, library, tmp_path):
    whole = [model.SerializeToString() for model in models()]
    refused = 0
    for index in range(begin, end):
        rng = random.Random(index)
        path = tmp_path / "model.onnx"
        path.write_bytes(damaged(whole[index % 2], rng))
        try:
            winogen.onnx.optimize(path)
        except WinogenError as error:  # and nothing else
            assert "model" in str(error), (index, error)
            refused += 1
    assert refused > 0.3 * (end - begin)


def change(node, **values):
    for name, value in values.items():
        node.attribute.append(helper.make_attribute(name, value))


def no_inputs(graph):
    del graph.node[0].input[:]


def one_tap(graph):
    graph.initializer[0].dims[:] = [4, 4, 3]


def short(graph):
    graph.initializer[0].raw_data = graph.initializer[0].raw_data[:-3]


def text_for_pads(graph):
    pads = next(a for a in graph.node[0].attribute if a.name == "pads")
    pads.CopyFrom(helper.make_attribute("pads", "same"))


def few_pads(graph):
    pads = next(a for a in graph.node[0].attribute if a.name == "pads")
    pads.CopyFrom(helper.make_attribute("pads", [1, 1]))


def no_outputs(graph):
    del graph.node[1].output[:]


def another_type(graph):
    graph.initializer[0].data_type = 77


def nobody_makes_an_input(graph):
    graph.node[2].input[0] = "nobody"


def nobody_makes_what_a_dead_end_reads(graph):
    graph.node.append(helper.make_node("Relu", ["nobody"], ["unread"]))


def nobody_makes_what_a_branch_reads(graph):
    value = helper.make_tensor_value_info("inner", TensorProto.FLOAT, None)
    body = helper.make_graph([helper.make_node("Relu", ["nobody"], ["inner"])], "b", [], [value])
    graph.initializer.append(onnx.numpy_helper.from_array(np.array(True), "flag"))
    node = helper.make_node("If", ["flag"], ["branched"], then_branch=body, else_branch=body)
    graph.node.append(node)


def nobody_makes_an_output(graph):
    graph.output[0].name = "nobody"


def another_order(graph):
    """onnxruntime sorts them; the standard has them sorted."""
    nodes = list(graph.node)[::-1]
    del graph.node[:]
    graph.node.extend(nodes)


@pytest.mark.parametrize(
    "spoil",
    (
        no_inputs, one_tap, short, text_for_pads, few_pads, no_outputs, another_type,
        nobody_makes_an_input, nobody_makes_what_a_dead_end_reads, nobody_makes_what_a_branch_reads,
        nobody_makes_an_output, another_order,
    ),
)  # fmt: skip
@pytest.mark.filterwarnings("ignore")
def test_fields_that_contradict_each_other(spoil, library, tmp_path):
    model = models()[0]
    spoil(model.graph)
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    for source in (model, tmp_path / "model.onnx"):
        for function in (rewrite, winogen.onnx.report):
            with pytest.raises(InvalidValue, match="model: "):
                function(source, input_shapes={"x": (1, 4, 16, 16)})


def test_text_that_is_none(library, tmp_path):
    """Names are read anywhere, and may be no text at all."""
    data = models()[0].SerializeToString().replace(b"conv_0", b"conv\xff\xfe")
    (tmp_path / "model.onnx").write_bytes(data)
    with pytest.raises(InvalidValue, match="model: got"):
        winogen.onnx.optimize(tmp_path / "model.onnx")


@pytest.mark.parametrize("kind", ("ConstantOfShape", "Range"))
def test_constants_of_huge_sizes_are_not_computed(kind, library):
    net = Net()
    huge = 10**12
    if kind == "Range":
        made = net.node("Range", *(net.constant(np.array(v)) for v in (0, huge, 1)))
    else:
        made = net.node("ConstantOfShape", net.constant(np.array([huge])))
    y = net.conv("x", 4, 4)
    model = net.model(y, net.node("Shape", made))
    assert rewrite(model).segments == 1


def test_a_fault_of_winogens_is_not_blamed_on_the_model(monkeypatch, library):
    net = Net()
    model = net.model(net.conv("x", 4, 4))

    def broken(*arguments):
        raise KeyError("ours")

    monkeypatch.setattr("winogen.onnx.drafting.read", broken)
    with pytest.raises(KeyError, match="ours"):
        winogen.onnx.optimize(model)
    assert loading.fault(model) is None
    model.graph.output[0].type.tensor_type.ClearField("shape")  # which exporters leave out
    with pytest.raises(KeyError, match="ours"):
        winogen.onnx.optimize(model)
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    with pytest.raises(InvalidValue, match="model: got one, which is damaged"):
        winogen.onnx.optimize(model)
    onnx.checker.check_model(net.model("v0"))


def test_too_little_memory_is_no_fault_of_a_model(monkeypatch, library):
    net = Net()
    model = net.model(net.conv("x", 4, 4))

    def huge(*arguments):
        raise MemoryError("Unable to allocate 9 EiB")

    monkeypatch.setattr("winogen.onnx.drafting.read", huge)
    with pytest.raises(OutOfMemory, match="too little memory.*9 EiB"):
        winogen.onnx.optimize(model)


@pytest.mark.parametrize("sample", ("x", None, [[1], [1, 2]], {"x": "x"}))
def test_samples_that_are_no_numbers(sample):
    net = Net()
    model = net.model(net.conv("x", 4, 4))
    model.graph.output[0].type.tensor_type.ClearField("shape")
    with pytest.raises(
        InvalidType, match="samples: got number 0, for which x is .*; allowed: numbers"
    ):
        winogen.onnx.quantize(model, [sample])
    with pytest.raises(
        InvalidType, match="samples: got number 0, for which x is .*; allowed: numbers"
    ):
        lowrank.compress(model, [sample] * 6, budget="products:2x")
