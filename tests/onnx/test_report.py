"""report and the commands: layer by layer what a model would gain."""

import importlib
import json
import re
import sys

import numpy as np
import onnx
from cli.conftest import refused, winogen
from onnx import helper, numpy_helper

from winogen.onnx import report
from winogen.toolchain import find_compiler

__all__ = ["refused", "winogen"]


def block(height="h", width="w"):
    """A residual block, a pool, a transposed convolution."""
    random = np.random.default_rng(0)
    arrays = {
        "w1": random.standard_normal((4, 4, 3, 3)),
        "w2": random.standard_normal((4, 4, 3, 3)),
        "w3": random.standard_normal((4, 2, 2, 2)),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], "first", pads=[1] * 4),
        helper.make_node("Relu", ["a"], ["b"], "activation"),
        helper.make_node("Conv", ["b", "w2"], ["c"], "second", pads=[1] * 4),
        helper.make_node("Add", ["c", "x"], ["d"], "sum"),
        helper.make_node("MaxPool", ["d"], ["e"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node(
            "ConvTranspose", ["e", "w3"], ["y"], "up", strides=[2, 2], dilations=[5, 5]
        ),
    ]
    kind = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "block",
        [helper.make_tensor_value_info("x", kind, ["n", 4, height, width])],
        [helper.make_tensor_value_info("y", kind, ["n", 2, None, None])],
        [numpy_helper.from_array(a.astype(np.float32), name) for name, a in arrays.items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def test_layers_with_their_times(quick_kernels, clock):
    clock({"b": (2e-3, 3e-3)}, (0.125, 0.5))
    made = report(block(32, 40), threads=1)
    assert [row.layer for row in made.rows] == ["first", "second"]
    assert made.rows[0].what == "conv 3x3 4->4 pad 1,1,1,1 + relu"
    assert made.rows[0].output == (1, 4, 32, 40)
    assert all(row.predicted_s > 0 and row.direct_s > 0 for row in made.rows)
    assert [(row.winogen_s, row.onnxruntime_s) for row in made.rows] == [(2e-3, 3e-3), (1, 2)]
    assert (
        made.refusals == ("up: transposed, with a dilation beside its stride",)
        and not made.unmeasured
    )
    assert made.gain == 4 and made.rows[0].gain == 1.5
    text = str(made)
    assert re.search(r"^first .* 2\.00\?? +3\.00\?? +1\.50$", text, re.MULTILINE)
    text = " ".join(text.split())
    assert "2 layers, 1 thread: onnxruntime takes 500 ms for the whole model, with" in text
    assert "125 ms: 4.00 times as fast, measured in turns" in text and "stays: up: trans" in text


def test_layers_that_would_stay(quick_kernels, clock):
    clock({"b": (3e-3, 2e-3)})
    made = report(block(8, 8))
    assert [row.gain and round(row.gain, 2) for row in made.rows] == [0.67, 2]
    assert made.refusals[-1] == "first: onnxruntime is faster, 2 ms, winogen 3 ms"


def test_without_onnxruntime_there_are_predictions(monkeypatch, clock):
    clock()
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    made = report(block(), input_shapes={"x": (2, 4, 16, 18)})
    assert made.onnxruntime_s is None and made.gain is None
    assert made.rows[1].output == (2, 4, 16, 18) and made.rows[1].onnxruntime_s is None
    text = str(made)
    assert "not measured: onnxruntime: cannot be imported" in text
    assert "predicted: " in text and "by direct convolution" in text and "takes" not in text


def test_of_open_sizes_there_are_the_layers_and_how_to_give_sizes(winogen, tmp_path):
    made = report(block())
    said = "input_shapes: got none for x, n x 4 x h x w; allowed: sizes for it, on the command line"
    assert made.unmeasured.startswith(said) and made.gain is None
    assert [row.layer for row in made.rows] == ["first", "second"] and made.predicted_s == 0
    onnx.save(block(), tmp_path / "model.onnx")
    result = winogen("onnx", "report", tmp_path / "model.onnx")
    assert result.exit_code == 0 and " ms" not in result.output.partition("\n\n")[2]
    assert re.search(r"^second +conv 3x3 4->4 pad 1", result.stdout, re.MULTILINE)
    words = " ".join(result.stdout.split())
    assert "stays: up: transposed" in words and "not measured: input_shapes: got none" in words
    assert "--input x=1,4,224,224" in words


def test_sizes_are_asked_for_as_each_input_needs_them():
    model = block()
    model.graph.input.append(helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, ["n", "t"]))
    assert report(model).unmeasured.endswith("--input x=1,4,224,224 --input z=1,16")


def test_without_a_compiler_there_are_predictions_of_both(monkeypatch, clock):
    clock()
    monkeypatch.setenv("CC", "no-such-compiler")
    module = importlib.import_module("winogen.onnx.measuring")
    monkeypatch.setattr(module, "get_library_path", find_compiler)
    made = report(block(8, 8))
    assert len(made.rows) == 2 and made.gain is None
    assert all(row.onnxruntime_s is None for row in made.rows)
    assert "not measured: " in str(made) and "times as long" in str(made)


def test_the_commands(winogen, tmp_path):
    path, fast = tmp_path / "model.onnx", tmp_path / "fast.onnx"
    onnx.save(block(), path)
    result = winogen("onnx", "report", path, "--input", "x=1,4,16,16", "--threads", 1)
    assert result.exit_code == 0, result.output
    assert re.search(r"^first +conv 3x3 4->4 pad 1 \+ relu +", result.stdout, re.MULTILINE)
    assert "predicted" not in result.stdout.splitlines()[0]
    words = ("onnx", "report", path, "--input", "x=1,4,16,16", "--threads", 1, "--json")
    document = json.loads(winogen(*words).stdout)
    assert document["rows"][0]["layer"] == "first" and document["threads"] == 1
    assert document["rows"][0]["predicted_s"] > 0
    words = ("onnx", "optimize", path, "-o", fast, "--tolerance", "1e-4", "--threads", 1, "--json")
    document = json.loads(winogen(*words).stdout)
    assert (document["convolutions"], document["segments"]) == (2, 1) and document["gain"] > 0
    assert document["output"] == str(fast) and "model" not in document
    result = winogen("onnx", "optimize", path, "-o", fast, "--tolerance", "1e-4", "--threads", 2)
    assert result.exit_code == 0, result.output
    assert "6 nodes became 2; winogen computes 2 convolutions in 1 of them" in result.stdout
    assert "stays: up: transposed" in result.stdout
    (segment, *_) = onnx.load(fast).graph.node
    assert (segment.op_type, segment.domain) == ("Segment", "com.winogen")


def test_commands_that_are_refused(refused, tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(block(), path)
    for words, message in (
        (("report", path, "--input", "x:1"), "input: got 'x:1'; allowed: one"),
        (("report", tmp_path / "missing.onnx"), "No such file"),
        (("optimize", path, "-o", tmp_path / "no" / "such.onnx"), "No such file"),
        (("optimize", path, "-o", tmp_path / "y.onnx", "--tolerance", "7"), "tolerance: got 7"),
    ):
        assert message in refused("onnx", *words)


def test_help_has_examples(winogen):
    for command in ("optimize", "report", "library"):
        result = winogen("onnx", command, "--help")
        assert result.exit_code == 0 and f"Example: winogen onnx {command}" in result.output


def test_problems_are_those_of_the_segment():
    """Two convolutions that are concatenated write channels of one array of sixteen."""
    from winogen.onnx.report import convolutions

    weights = [np.ones((8, 4, 3, 3), np.float32), np.full((8, 4, 1, 1), 2, np.float32)]
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], pads=[1] * 4),
        helper.make_node("Conv", ["x", "w1"], ["b"]),
        helper.make_node("Concat", ["a", "b"], ["y"], axis=1),
    ]
    kind = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "both",
        [helper.make_tensor_value_info("x", kind, [1, 4, 12, 12])],
        [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    around = [problem.seams for problem in convolutions(model)]
    assert [(one.input, one.output) for one in around] == [(4, 16), (4, 16)]
