"""Segments that run in NHWC between arrays in NCHW: planned, carried, and when."""

from types import SimpleNamespace

import numpy as np
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper

import winogen.onnx
from winogen.graph.layouts import channels_last
from winogen.graph.lower import lower
from winogen.graph.ops import Relayout
from winogen.graph.shapes import shapes
from winogen.onnx import answers
from winogen.onnx.model import Model
from winogen.onnx.reading import read

from .test_carrying import quick_compiles, run_on

__all__ = ["quick_compiles"]

RNG = np.random.default_rng(8)


def net(inputs=5, outputs=19, dtype=np.float32):
    """1x1, depthwise and 1x1 whose first values are added to the last, and are an output, too."""
    random = np.random.default_rng(8)
    arrays = {
        "w1": random.integers(-2, 3, (outputs, inputs, 1, 1)).astype(dtype),
        "w2": random.integers(-2, 3, (outputs, 1, 3, 3)).astype(dtype),
        "w3": random.integers(-2, 3, (outputs, outputs, 1, 1)).astype(dtype),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], "first"),
        helper.make_node("Conv", ["a", "w2"], ["b"], "second", pads=[1] * 4, group=outputs),
        helper.make_node("Relu", ["b"], ["c"], "relu"),
        helper.make_node("Conv", ["c", "w3"], ["d"], "third"),
        helper.make_node("Add", ["d", "a"], ["y"], "sum"),
    ]
    kind, value = helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "net",
        [value("x", kind, ["n", inputs, "h", "w"])],
        [value(name, kind, ["n", outputs, "h", "w"]) for name in "ya"],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def images(*shape, dtype=np.float32):
    return RNG.integers(-3, 4, shape).astype(dtype)


def theirs(model, x):
    return ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})


@pytest.fixture
def last(monkeypatch):
    """Segments run in NHWC, whatever is predicted."""
    monkeypatch.setattr(answers, "fastest", lambda ways, familiar: ways[-1])


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("channels", [(5, 19), (1, 16), (16, 1), (40, 33)])
def test_every_size(channels, dtype, threads, session, planner, last):
    model = net(*channels, dtype)
    run = session(winogen.onnx.optimize(model), threads=threads)
    for shape in ((1, 1), (1, 7), (15, 17), (16, 32), (33, 3)):
        x = images(2, channels[0], *shape, dtype=dtype)
        with planner.recording() as found:
            made = run.run(None, {"x": x})
        for answer in found:  # none for sizes that the comparison has met
            assert answer.steps.planned.settings.layout == "NHWC"
        # onnxruntime has no convolution of doubles; these integers are exact in floats.
        for mine, wanted in zip(made, theirs(net(*channels), x.astype(np.float32))):
            assert np.array_equal(mine, wanted), shape


def test_a_library_carries_such_plans(session, tmp_path, last):
    model = winogen.onnx.optimize(net(), tmp_path / "fast.onnx")
    shapes_of_x = [{"x": (1, 5, 12, 16)}, {"x": (2, 5, 9, 7)}]
    path = winogen.onnx.build_library(
        model, tmp_path / "net.so", input_shapes=shapes_of_x, threads=2
    )
    inputs = {str(n): images(*sizes["x"]) for n, sizes in enumerate(shapes_of_x)}
    outputs, _ = run_on(inputs, path, tmp_path)
    for name, x in inputs.items():
        assert np.array_equal(outputs[name], theirs(net(), x)[0])


def test_where_maps_are_turned():
    graph = read(Model(net(5, 16), {"x": (2, 5, 8, 8)})).graph
    sizes = {"x": (2, 5, 8, 8)}
    steps, buffers = lower(graph, shapes(graph, sizes), np.dtype(np.float32))
    turned, around, before = channels_last(steps, buffers)
    ends = [step for step in turned if isinstance(step.op, Relayout)]
    assert before == 1 and [str(step.op) for step in ends] == ["from NCHW", *["from NHWC"] * 2]
    assert turned[0] is ends[0] and turned[-2:] == ends[1:]
    within = turned[before:-2]
    assert [step.key for step in within] == [step.key for step in steps]
    assert all(p.buffer[0] == "arena" for step in within for p in (*step.reads, step.output))
    assert (
        around.keys() - buffers.keys()
        == {p.buffer for step in ends for p in (step.input, step.output)} - buffers.keys()
    )
    for single in ((2, 5, 1, 1), (2, 1, 8, 8)):  # the same numbers in both layouts
        plain = dict.fromkeys(buffers, single)
        found, around, before = channels_last(steps, plain)
        assert (len(found), around, before) == (len(steps), plain, 0)


def test_the_faster_plan_is_taken_unless_its_kernels_are_new(monkeypatch):
    slow, fast = SimpleNamespace(seconds=2.0, specs=["known"]), SimpleNamespace(seconds=1.0)
    fast.specs = ["new"]
    monkeypatch.setattr(answers, "kernels", lambda plans: plans[0].specs)
    assert answers.fastest([(slow, 0), (fast, 3)], None) == (fast, 3)
    assert answers.fastest([(slow, 0), (fast, 3)], frozenset(["known"])) == (slow, 0)
    assert answers.fastest([(fast, 3), (slow, 0)], frozenset(["known", "new"])) == (fast, 3)
