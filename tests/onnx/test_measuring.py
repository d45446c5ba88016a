"""Which layers stay with onnxruntime because it is faster, as a clock says that tests set."""

import itertools
from functools import partial

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import winogen.onnx
from winogen.graph import ceilings, decide
from winogen.onnx import answers, measuring, reference
from winogen.onnx.loading import evaluator
from winogen.onnx.measuring import Measuring, Unmeasured
from winogen.onnx.model import Model
from winogen.onnx.reference import Reference, in_double, started
from winogen.onnx.rewrite import rewrite
from winogen.tasks import duel
from winogen.tasks.duel import Times
from winogen.testing import every_layer

from .nets import Net, data, kinds
from .test_quantized import linear

FASTER, SLOWER = (1.0, 2.0), (2.0, 1.0)


def chain(shape=("n", 4, 12, 14), channels=(4, 6, 8, 4)):
    """Convolutions with activations, each behind the other: one segment."""
    net, y = Net(), "x"
    for before, behind in itertools.pairwise(channels):
        y = net.node("Relu", net.conv(y, before, behind))
    return net, net.model(y, shape=list(shape))


def outputs(model):
    return [node.output[0] for node in model.graph.node if node.domain]


def check(net, model, result, session):
    x = data(net, 2, 4, 12, 14)
    (y,) = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    (z,) = session(result.model).run(None, {"x": x})
    assert np.abs(y - z).max() <= 1e-5 * np.abs(y).max()


def test_a_slower_layer_stays_with_its_activation(clock, session):
    net, model = chain()
    clock({"v3": SLOWER})
    result = rewrite(model)
    assert kinds(result.model) == ["Conv", "Conv", "Relu", "Conv"]
    assert outputs(result.model) == ["v1", "v5"] and result.segments == 2
    assert result.refusals == ("conv_2: onnxruntime is faster, 1e+03 ms, winogen 2e+03 ms",)
    assert result.layers["v3"] == SLOWER and result.layers["v5"] == FASTER
    assert "  the whole model, measured: onnxruntime 2e+03 ms, winogen 1e+03 ms" in str(result)
    check(net, model, result, session)


def test_a_slower_layer_is_kept_where_the_whole_is_faster_with_it(clock, session, monkeypatch):
    """Where it stays, it cuts a segment in two, and arrays change their layout more often."""
    net, model = chain()
    clock({"v3": SLOWER})

    def whole(self, proto, earlier):
        return Times(float(len(outputs(proto))), 3.0)

    monkeypatch.setattr(Measuring, "whole", whole)
    result = rewrite(model)
    assert outputs(result.model) == ["v5"] and result.whole == (1.0, 3.0)
    assert not result.refusals and result.layers["v3"] == SLOWER
    check(net, model, result, session)


def test_a_slower_segment_stays_as_a_whole(clock, session, monkeypatch):
    """Its layers alone are faster: onnxruntime's arrays change their layout only once for them."""
    net, model = chain()
    clock()
    measured = measuring.duel

    def fake(ours, theirs, *rest):
        read, made = (
            [value.name for value in values]
            for values in (ours.func.__self__.get_inputs(), ours.func.__self__.get_outputs())
        )
        times = measured(ours, theirs, *rest)
        return times._replace(ours=3.0) if (read, made) == (["x"], ["v5"]) else times

    monkeypatch.setattr(measuring, "duel", fake)
    result = rewrite(model)
    assert kinds(result.model) == ["Conv", "Relu"] * 3 and not result.segments
    (why,) = result.refusals
    assert why.startswith("conv_0 to conv_4, 3 layers in one node: onnxruntime is faster")
    assert {*result.layers.values()} == {FASTER}  # of layers, not of the segment
    check(net, model, result, session)


@pytest.mark.parametrize("whole", (SLOWER, (1.0, 1.0)))
def test_a_model_that_does_not_become_faster_is_returned_as_it_was(clock, whole, tmp_path):
    _, model = chain()
    clock(whole=whole)
    with pytest.warns(UserWarning, match="as it was, because it would not become faster"):
        result = winogen.onnx.optimize(model, tmp_path / "fast.onnx")
    assert result == model == onnx.load(tmp_path / "fast.onnx")


def test_quantized_layers_are_measured(clock, library):
    model, shapes = linear(np.random.default_rng(0)), {"x": (1, 3, 9, 11)}
    clock()
    assert rewrite(model, input_shapes=shapes).layers == {"y": FASTER}
    clock({"y": SLOWER})
    result = rewrite(model, input_shapes=shapes)
    assert result.model == model and not result.quantized
    (why,) = result.refusals
    assert why.endswith(": onnxruntime is faster, 1e+03 ms, winogen 2e+03 ms")


def test_real_times(monkeypatch, library):
    """Once by the true clock: what it says is left open."""
    monkeypatch.setattr(measuring, "duel", partial(duel.duel, seconds=(0.0,)))
    monkeypatch.setattr(
        measuring, "duel_of_wholes", lambda *given, earlier: duel.duel(*given, seconds=(0.0,))
    )
    for name in ("graph.decide", "onnx.measuring", "tasks.duel"):
        monkeypatch.setattr(f"winogen.{name}.is_every_layer", lambda: False)
    _, model = chain(channels=(4, 6, 4))
    result = rewrite(model, threads=1)
    assert {"v1", "v3"} == result.layers.keys()
    assert all(times.ours > 0 and times.theirs > 0 for times in result.layers.values())


def test_layers_alike_are_measured_once(clock, library, monkeypatch):
    _, model = chain(channels=[4] * 6)
    clock()
    measured, names = measuring.duel, []
    monkeypatch.setattr(measuring, "duel", lambda *given: names.append(given) or measured(*given))
    assert len(rewrite(model).layers) == 5
    assert len(names) == 2  # a layer and the segment


@pytest.mark.parametrize("whole", ((1.0, 2.0), (2.0, 1.0)))
def test_a_model_is_measured_once(whole, clock, library, own_memory, monkeypatch):
    _, model = chain()
    clock({"v3": SLOWER}, whole)
    first = rewrite(model)
    monkeypatch.setattr(measuring, "duel", None)
    monkeypatch.setattr(measuring, "duel_of_wholes", None)
    again = rewrite(model)
    assert again.model == first.model and again.refusals == first.refusals
    assert again.layers.items() <= first.layers.items() and again.whole == first.whole == whole
    for options in ({"threads": 2}, {"tolerance": 1e-3}, {"input_shapes": {"x": (2, 4, 12, 14)}}):
        with pytest.raises(TypeError):
            rewrite(model, **options)


@pytest.fixture
def drafts(clock, library, monkeypatch):
    """What is found of each draft: the errors at its output, the largest that is predicted."""
    clock()
    found, errors = [], Reference.errors

    def kept(self, running):
        found.append((errors(self, running), running.predicted))
        return found[-1][0]

    monkeypatch.setattr(Reference, "errors", kept)
    return found


def tiled():
    """A chain of layers that are computed by large tiles."""
    return chain((1, 16, 24, 24), (16, 16, 16, 16))


@pytest.fixture
def strict(drafts, monkeypatch):
    """Errors that are always too large, and a ceiling below what the default predicts."""
    monkeypatch.setattr(ceilings, "USUAL", 1e9)
    usual = rewrite(tiled()[1])
    ((errors, largest),) = drafts
    assert usual.errors == errors and usual.ceiling == 0  # accurate enough: nothing else is tried
    monkeypatch.setattr(ceilings, "USUAL", 0.0)
    monkeypatch.setattr(ceilings, "ENOUGH", 0.0)
    monkeypatch.setattr(ceilings, "CEILINGS", (None, 1.0, 0.99 * largest))
    drafts.clear()
    return usual


@pytest.mark.parametrize("least", (0.0, 1e9))
def test_layers_are_computed_more_carefully_until_the_output_is_accurate(
    least, strict, drafts, monkeypatch, session
):
    """As long as the error is too large, by a factor that nothing reaches, if that gains enough."""
    net, model = tiled()
    monkeypatch.setattr(ceilings, "_WORTH_IT", least)
    result = rewrite(model)
    (usual, before), (careful, after) = drafts  # no layer was above the ceiling of 1
    assert after < before and careful.ours_l2 < usual.ours_l2 == strict.errors.ours_l2
    assert result.errors == (usual if least else careful)
    assert (result.model == strict.model) == bool(least)
    assert result.errors.text("onnxruntime") in str(result)
    x = data(net, 1, 16, 24, 24)
    (y,) = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    (z,) = session(result.model).run(None, {"x": x})
    assert np.abs(y - z).max() <= 1e-5 * np.abs(y).max()


def test_a_tolerance_is_all_that_is_asked_for(strict, drafts):
    result = rewrite(tiled()[1], tolerance=1e-3)
    assert len(drafts) == 1 and result.errors == drafts[0][0]


def test_errors_that_take_long_to_know_are_left_open(strict, drafts, monkeypatch):
    monkeypatch.setattr(reference, "_MOST_PRODUCTS", 0)
    result = rewrite(tiled()[1])
    assert len(drafts) == 1 and result.errors is None and result.model == strict.model
    assert "error at the output" not in str(result)


def test_what_onnxruntime_has_not_in_float64_leaves_errors_open(drafts):
    net = Net()
    y = net.node("LRN", net.conv("x", 4, 6), size=3)
    assert rewrite(net.model(y, shape=[1, 4, 12, 14])).errors is None and len(drafts) == 1


def test_the_reference_is_the_model_in_float64(library):
    net = Net()
    y = net.node("Relu", net.norm(net.conv("x", 4, 6), 6))
    half = net.constant(np.float32(0.5))
    model = net.model(net.node("Cast", net.node("Mul", y, half), to=1), shape=[1, 4, 12, 14])
    x = data(net, 1, 4, 12, 14)
    found = Reference(Model(model), {"x": x}, 1)
    (exact,) = evaluator(in_double(model)).run(None, {"x": x.astype(np.float64)})
    assert exact.dtype == np.float64
    np.testing.assert_allclose(found.exact, exact.ravel(), rtol=1e-12, atol=1e-14)
    errors = found.errors(started(rewrite(model).model, {"x": x}, 1, library))
    assert 0 < errors.theirs_l2 < 1e-6 and 0 < errors.ours_l2 < 1e-5


def test_what_is_accurate_is_found_once(strict, drafts, own_memory, monkeypatch):
    """For the same weights: others may need more, or less."""
    monkeypatch.setattr(ceilings, "_WORTH_IT", 0.0)
    _, model = tiled()
    first = rewrite(model)
    assert first.ceiling == 2 and len(drafts) == 2
    again = rewrite(model)
    assert len(drafts) == 2 and again.model == first.model and again.errors == first.errors
    array = 2 * onnx.numpy_helper.to_array(model.graph.initializer[0])
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(array, "c0"))
    monkeypatch.setattr(ceilings, "USUAL", 1e9)
    assert rewrite(model).ceiling == 0 and len(drafts) == 3


@pytest.mark.parametrize(
    "shape, message",
    (
        (("n", 4, "h", "w"), "input_shapes: got none for x, n x 4 x h x w"),
        (("n", 4, 12, 14), "winogen computes every layer that it can"),
    ),
)
def test_what_is_not_measured(shape, message, clock, library):
    _, model = chain(shape)
    if "h" in shape:
        clock()
    result = rewrite(model)
    assert result.segments == 1 and result.whole is None and not result.layers
    assert f"not measured: {message}" in str(result)


def test_a_model_without_sizes_can_be_given_some(clock, library):
    _, model = chain(("n", 4, "h", "w"))
    clock({"v3": SLOWER})
    assert rewrite(model, input_shapes={"x": (1, 4, 16, 16)}).segments == 2


def test_time_is_limited(clock, library, monkeypatch):
    """Layers that nobody measured stay winogen's; the whole decides."""
    _, model = chain()
    clock({"v3": SLOWER}, SLOWER)
    monkeypatch.setattr(decide, "measure", lambda *given: [])
    result = rewrite(model)
    assert not result.layers and result.is_original and result.whole == SLOWER


def test_every_layer_needs_no_clock():
    _, model = chain()
    with every_layer(), pytest.raises(Unmeasured, match="every layer"):
        Measuring(Model(model), None)


def test_kernels_are_compiled_before_layers_are_measured(clock, library, monkeypatch):
    """All of a node at once, side by side; a layer alone would wait for its own."""
    asked = []

    def compiling(specs, *others):
        asked.append(set(specs))
        compile_all(specs, *others)

    compile_all = answers.compile_all
    monkeypatch.setattr(answers, "compile_all", compiling)
    clock({})
    # Sums of few terms and of many have kernels of their own.
    _, model = chain((1, 4, 12, 14), (4, 64, 64, 4))
    rewrite(model)
    assert len(asked[0]) > 1
