"""Runs of quantized layers as one node: the codes of its operators, to the bit."""

from dataclasses import replace

import numpy as np
import pytest

from winogen.extras import MissingPackage
from winogen.graph import QConv, code_tiles
from winogen.onnx import build_library, code_proof, optimize, report
from winogen.onnx.code_reading import CodeRun
from winogen.onnx.model import Model
from winogen.onnx.quantized_graph import quantized_graph
from winogen.onnx.reading import read
from winogen.onnx.rewrite import rewrite
from winogen.testing import every_layer

from .code_models import FORMATS, Maker
from .test_carrying import run_on, telling


def exactly(model, feed):
    """What a model's operators compute in numpy, one after another: layers as `winogen.QConv2d`."""
    whole = Model(model, {name: x.shape for name, x in feed.items()})
    graph, values = quantized_graph(whole).graph, dict(feed)
    for node in graph.nodes:
        op, reads = node.op, [values[name] for name in node.reads]
        if not isinstance(op, QConv):
            values[node.output] = op.computed(*reads)
            continue
        sums = replace(op, y_scale=None).computed(*reads).astype(np.float64)
        y = sums * op.multiplier.astype(np.float64).reshape(-1, 1, 1) + op.y_zero
        values[node.output] = np.rint(np.clip(y, *op.limits)).astype(np.int8)
    return [values[name] for name in graph.outputs]


def check(case, session, batches=(1, 3)):
    """Ours has the codes that the operators make, each within a step of onnxruntime's."""
    result = rewrite(case.model)
    assert result.verdict and result.verdict.sizes, str(result)
    assert not result.given_back
    assert result.quantized == case.convolutions and not result.refusals
    kinds = [node.op_type for node in result.model.graph.node]
    ours = session(result.model)
    for batch in batches:
        feed = case.feed(batch, batch)
        for y, wanted in zip(ours.run(None, feed), exactly(case.model, feed), strict=True):
            assert y.size == wanted.size and (y == wanted.reshape(y.shape)).all(), kinds
    return kinds


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("seed", range(6))
def test_random_nets_have_the_codes_of_their_operators(form, seed, session):
    case = Maker(seed, form).made()
    kinds = check(case, session)
    assert set(kinds) <= {"Codes", "QuantizeLinear", "DequantizeLinear"}
    assert kinds.count("Codes") == 1


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("seed", range(6))
def test_random_nets_of_maps_that_become_larger(form, seed, session):
    case = Maker(seed, form).made(enlarges=True)
    assert case.kinds & {"ConvTranspose", "DepthToSpace"}
    assert check(case, session).count("Codes") == 1


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(6, 80))
@pytest.mark.draws
def test_more_random_nets(seed, session):
    check(Maker(seed).made(steps=12, enlarges=bool(seed % 2)), session)


@pytest.mark.parametrize("isa", [None, "generic"])
def test_a_library_carries_their_plans(isa, session, tmp_path, monkeypatch):
    """Without Python: kernels say that they run; other batches are onnxruntime's own."""
    monkeypatch.setattr("winogen.onnx.carrying.render", telling)
    case = Maker(5, "pairs", floats=True).made(steps=2)
    fast = optimize(case.model, tmp_path / "fast.onnx")
    layers = sum(node.op_type == "Codes" for node in fast.graph.node) and case.convolutions
    known, other = (case.feed(batch)["x"] for batch in (2, 3))
    shapes = {"x": known.shape}
    path = build_library(fast, tmp_path / "q.so", input_shapes=shapes, threads=2, isa=isa)
    outputs, said = run_on({"known": known, "other": other}, path, tmp_path)
    assert said.count("carried") >= layers
    assert "no plan for an input of 3x" in said and "onnxruntime computes as the original" in said
    wanted = session(fast, threads=2).run(None, {"x": known})[0]
    assert np.array_equal(outputs["known"], wanted)
    original = session(case.model).run(None, {"x": other})[0]
    assert np.array_equal(outputs["other"], original)


def test_without_onnx_onnxruntime_computes_the_original(session, monkeypatch):
    case = Maker(5, "pairs", floats=True, batch=1).made(steps=2)
    fast = optimize(case.model)
    missing = MissingPackage("onnx")
    with monkeypatch.context() as patch:
        patch.setattr("winogen.onnx.code_answers.require", lambda name: raising(missing))
        (y,) = session(fast).run(None, case.feed(1))
    (wanted,) = session(case.model).run(None, case.feed(1))
    assert np.array_equal(y, wanted)


def raising(problem):
    raise problem


def test_a_layer_that_differs_goes_back_alone(monkeypatch):
    """Its neighbours stay winogen's, in runs of their own."""
    case = Maker(1, "operators").made()
    real = code_proof.CodesPart.refuted
    layers = [node.output[0] for node in case.model.graph.node if node.op_type == "QLinearConv"]
    guilty = layers[1]

    def wrong(self, *arguments):
        assert real(self, *arguments) == {}
        return {guilty: "made up"} if guilty in self.values else {}

    monkeypatch.setattr(code_proof.CodesPart, "refuted", wrong)
    result = rewrite(case.model)
    assert [line.partition(":")[0] for line in result.given_back] == [guilty]
    assert result.quantized == case.convolutions - 1
    made = {name for node in result.model.graph.node for name in node.output}
    assert guilty in made and any(node.op_type == "Codes" for node in result.model.graph.node)


def enlarging(zero=0, axis=1, pool=True):
    """A transposed layer of a quantized model, behind it a pool or nothing."""
    maker = Maker(2, "pairs", floats=True)
    x, y = maker.value(4, (5, 5)), maker.value(4, (10, 10))
    maker.node("QuantizeLinear", ["x", *x.numbers[1:]], [x.name])
    maker.arrays["w"] = np.arange(-32, 32, dtype=np.int8).reshape(4, 4, 2, 2)
    maker.arrays["w.scale"] = np.linspace(0.1, 0.2, 4, dtype=np.float32)
    maker.arrays["w.zero"] = np.full(4, zero, np.int8)
    maker.node("DequantizeLinear", ["w", "w.scale", "w.zero"], ["weight"], axis=axis)
    maker.node("DequantizeLinear", x.numbers, ["x.real"])
    maker.node("ConvTranspose", ["x.real", "weight"], ["up"], strides=[2, 2], name="enlarges")
    maker.node("QuantizeLinear", ["up", *y.numbers[1:]], [y.name])
    if pool:
        z = maker.value(4, (9, 9), y.scale, y.zero)
        y = maker.between("MaxPool", [y], z, kernel_shape=[2, 2])
    return maker._case(x, [y]).model


@pytest.mark.parametrize(
    "changed, said",
    [
        ({"zero": 3}, "its weights have zero points other than 0"),
        ({"axis": 0}, "its weights have scales along another axis than that of the filters"),
        ({"pool": False}, "its weights are quantized, and it is in no run of codes"),
    ],
)
def test_why_a_transposed_layer_stays(changed, said, tiles):
    assert list(rewrite(enlarging(**changed)).refusals) == [f"enlarges: {said}"]


def test_a_transposed_layer_has_its_name_in_a_report(tiles):
    assert [row.layer for row in report(enlarging()).rows] == ["enlarges"]


@pytest.fixture
def tiles():
    """Every layer that can is in tiles."""
    with every_layer():
        yield


@pytest.mark.parametrize("seed, form, tolerance", [(1, "pairs", 0.05), (3, "operators", 2e-3)])
def test_a_tolerance_lets_layers_be_in_tiles(seed, form, tolerance, tiles, session):
    case = Maker(seed, form).made()
    result = rewrite(case.model, tolerance=tolerance)
    assert not result.given_back and result.quantized == case.convolutions
    near = result.verdict.near
    assert near and all(f"{name}: not exact, mcmr F(" in str(result) for name in near)
    rows = report(case.model, tolerance=tolerance).rows
    assert sum(row.algorithm.startswith("mcmr F(") for row in rows) == len(near)
    ours, feed = session(result.model), case.feed(3, 1)
    each = [ours.run(None, {"x": x[None]}) for x in feed["x"]]
    for y, *parts in zip(ours.run(None, feed), *each, strict=True):
        assert (y == np.concatenate(parts)).all()


@pytest.mark.parametrize("isa", [None, "generic"])
def test_a_library_carries_tiles(isa, tiles, session, tmp_path):
    case = Maker(3, "pairs", floats=True).made()
    fast, feed = optimize(case.model, tmp_path / "fast.onnx", tolerance=0.05), case.feed(2)
    path = build_library(fast, tmp_path / "q.so", input_shapes={"x": feed["x"].shape}, isa=isa)
    outputs, _ = run_on({"known": feed["x"]}, path, tmp_path)
    exact, wanted = (session(model).run(None, feed)[0] for model in (case.model, fast))
    assert isa or np.array_equal(outputs["known"], wanted)  # others may have other tiles
    for y in (wanted, outputs["known"]):
        assert 0 < np.abs(y - exact).max() < 0.2 * np.abs(exact).max()


def test_tiles_that_are_too_far_off_go_back(tiles, monkeypatch):
    real = code_tiles.in_steps

    def wrong(*given):
        weight, bias = real(*given)
        return np.float32(1.5) * weight, bias

    monkeypatch.setattr(code_tiles, "in_steps", wrong)
    result = rewrite(Maker(1, "pairs").made().model, tolerance=0.05)
    assert any("steps off" in line for line in result.given_back)


def test_without_a_tolerance_codes_are_exact(tiles):
    result = rewrite(Maker(1, "pairs").made().model)
    assert result.quantized and not result.verdict.near
    nodes = [node for node in result.model.graph.node if node.op_type == "Codes"]
    assert nodes and not any(a.name == "tolerance" for node in nodes for a in node.attribute)


def test_open_sizes_are_single_layers():
    """Those whose sizes are open."""
    case = Maker(1, "operators").made()
    for axis in (2, 3):
        case.model.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = "any"
    nodes = read(Model(case.model)).graph.nodes
    assert not any(isinstance(node.op.payload, CodeRun) for node in nodes)
    assert sum(node.op.quantized is not None for node in nodes) == case.convolutions
