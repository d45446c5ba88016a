"""Sizes that are new to a session: the original computes them until there is a plan."""

import gc
import threading
import warnings

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper

import winogen.onnx
from winogen.errors import BuildError
from winogen.graph import compiling, later
from winogen.onnx import originals as module
from winogen.onnx import planning

from .nets import BY_PARTS, Net, data, gelu_by_erf
from .test_axes import transposed

pytestmark = pytest.mark.usefixtures("originals")


def residual(**options):
    """Two convolutions, of which one has a normalization, and an addition."""
    net = Net()
    y = net.node("Relu", net.norm(net.conv("x", 4, 8, bias=False), 8))
    return net.model(net.node("Add", net.conv(y, 8, 4), "x"), **options)


def pooled():
    """A classifier: what its node makes is a map in another form."""
    net = Net()
    y = net.node("Flatten", net.node("GlobalAveragePool", net.conv("x", 4, 40)))
    weights = [net.constant(net.weights(40, 9)), net.constant(net.weights(9))]
    return net.model(net.node("Gemm", y, *weights))


def channels_last():
    """A layer norm between transposed values, as ConvNeXt has it."""
    net = Net()
    y = net.node("Transpose", net.conv("x", 4, 8), perm=[0, 2, 3, 1])
    y = net.node("MatMul", gelu_by_erf(net, y), net.constant(net.weights(8, 6)))
    return net.model(net.node("Transpose", y, perm=[0, 3, 1, 2]))


def up():
    net = Net()
    return net.model(transposed(net, net.node("MaxPool", net.conv("x", 4, 8), kernel_shape=[2, 2]),
                                8, 4, 2, 2, strides=[2, 2]))  # fmt: skip


def parts():
    net, y = Net(), "x"
    for make in BY_PARTS.values():
        y = make(net, net.conv(y, 4, 4))
    return net.model(y)


MODELS = {
    "a residual": residual, "a classifier": pooled, "channels last": channels_last,
    "a transposed layer": up, "activations by parts": parts,
    "one convolution": lambda: (net := Net()).model(net.conv("x", 4, 8)),
    "one with a folded norm": lambda: (net := Net()).model(net.norm(net.conv("x", 4, 16), 16)),
    "an open batch": lambda: residual(shape=["n", 4, 12, 14]),
    "opset 9": lambda: residual(opset=9, ir=4),
}  # fmt: skip


def theirs(model, x):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    return ort.InferenceSession(model.SerializeToString(), options).run(None, {"x": x})


def held(model):
    """The attributes of winogen's nodes, one dictionary for each."""
    return [
        {a.name: helper.get_attribute_value(a) for a in node.attribute}
        for node in model.graph.node
        if node.domain == "com.winogen"
    ]


@pytest.mark.parametrize("name", MODELS)
def test_without_a_planner_the_original_computes_to_the_bit(name, session, planner):
    model = MODELS[name]()
    fast = winogen.onnx.optimize(model)
    assert held(fast) and all("original" in one for one in held(fast))
    planner.remove()
    ours = session(fast)
    shapes = [(1, 4, 12, 14), (2, 4, 12, 14), (0, 4, 12, 14)]
    for shape in shapes if "batch" in name else [*shapes, (1, 4, 20, 8)]:
        x = data(Net(), *shape)
        for y, wanted in zip(ours.run(None, {"x": x}), theirs(model, x)):
            assert y.shape == wanted.shape and np.array_equal(y, wanted)


def test_only_nodes_of_open_sizes_hold_their_originals():
    known = residual(shape=[2, 4, 12, 14])
    assert not any("original" in one for one in held(winogen.onnx.optimize(known)))
    given = winogen.onnx.optimize(residual(), input_shapes={"x": (1, 4, 12, 14)})
    assert not any("original" in one for one in held(given))


def test_weights_are_in_the_file_once():
    net = Net()
    y = net.node("Relu", net.conv("x", 4, 64))
    model = net.model(net.conv(net.conv(y, 64, 64), 64, 4))
    fast = winogen.onnx.optimize(model)
    assert len(fast.graph.initializer) == len(model.graph.initializer)
    assert sum(len(one["original"]) for one in held(fast)) < 2000
    assert fast.ByteSize() < model.ByteSize() + 4000


def test_matrices_and_equal_weights_are_in_the_file_once(session, planner):
    net = Net()
    y = net.node("Flatten", net.node("GlobalAveragePool", net.conv("x", 4, 40)))
    weight = net.weights(50, 40)
    twice = [net.node("Gemm", y, net.constant(weight), transB=1) for _ in range(2)]
    model = net.model(net.node("Concat", *twice, axis=1))
    fast = winogen.onnx.optimize(model)
    sizes = [len(tensor.raw_data) for tensor in fast.graph.initializer]
    assert sizes.count(weight.nbytes) == 1
    planner.remove()
    x = data(net, 1, 4, 12, 14)
    assert np.array_equal(session(fast).run(None, {"x": x})[0], theirs(model, x)[0])


@pytest.fixture
def compiler(fast_and_session, monkeypatch, planner):
    """Plans and kernels are made in threads, which wait for `set`; with the names of who plans."""
    go, made, go.planned = threading.Event(), [], []
    plan = planning.Answer.__init__

    def slow(self, *arguments, **options):
        go.planned.append(threading.current_thread().name)
        assert go.wait(60)
        plan(self, *arguments, **options)

    monkeypatch.setattr(later, "is_every_layer", lambda: False)
    monkeypatch.setattr(later, "_planners", {})
    monkeypatch.setattr(compiling, "at_hand", made.__contains__)
    monkeypatch.setattr(compiling, "_compile", made.append)
    monkeypatch.setattr(compiling, "_background", {})
    monkeypatch.setattr(planning.Answer, "__init__", slow)
    monkeypatch.setattr(planner, "_told", set())
    yield go
    go.set()
    finish()


@pytest.fixture
def fast_and_session(session, planner):
    """A model, and a session of what became of it, which asks for its plan at every call."""
    model = residual()
    return [model, session(winogen.onnx.optimize(model))]


def finish():
    for thread in threading.enumerate():
        if thread.name.startswith("winogen "):
            thread.join(60)


def until_planned(planner, before, call):
    """Call until there is a plan more, or too often."""
    for _ in range(1000):
        y = call()
        if planner.plans > before:
            return y
        finish()
        threading.Event().wait(0.01)  # a node asks again after some time only
    raise AssertionError("no plan came")


def test_onnxruntime_computes_a_new_size_until_its_plan_is_there(
    compiler, fast_and_session, planner
):
    model, ours = fast_and_session
    x, before = data(Net(), 1, 4, 12, 14), planner.plans
    (wanted,) = theirs(model, x)
    for _ in range(3):
        assert np.array_equal(ours.run(None, {"x": x})[0], wanted)
    assert planner.plans == before
    compiler.set()
    y = until_planned(planner, before, lambda: ours.run(None, {"x": x})[0])
    assert np.abs(y - wanted).max() < 1e-5
    assert np.array_equal(ours.run(None, {"x": x})[0], y)
    assert compiler.planned == ["winogen plans"] and not planner._pending
    assert planner.plans == before + 1


def test_calls_may_wait_for_their_plans(compiler, fast_and_session, planner, monkeypatch):
    ours = fast_and_session[1]
    compiler.set()
    before = planner.plans
    monkeypatch.setenv("WINOGEN_COMPILE", "missing")
    ours.run(None, {"x": data(Net(), 1, 4, 12, 14)})
    monkeypatch.delenv("WINOGEN_COMPILE")
    with later.waiting():
        ours.run(None, {"x": data(Net(), 1, 4, 12, 15)})
    assert planner.plans == before + 2
    assert set(compiler.planned) == {threading.current_thread().name}


def test_a_session_may_go_while_a_thread_plans(compiler, fast_and_session, planner):
    """The thread reads weights that are the session's: who frees it waits."""
    before, gone = planner.plans, threading.Event()
    fast_and_session[1].run(None, {"x": data(Net(), 1, 4, 12, 14)})
    while not compiler.planned:
        threading.Event().wait(0.001)

    def drop():
        fast_and_session.clear()
        gc.collect()
        gone.set()

    threading.Thread(target=drop).start()
    assert not gone.wait(0.05)
    compiler.set()
    assert gone.wait(60)
    finish()
    assert planner.plans == before and not planner._pending


def test_calls_copy_the_weights_that_the_thread_reads(
    compiler, fast_and_session, planner, monkeypatch
):
    """A session frees its weights before its nodes, which alone know that a thread reads them."""
    whose, asked, ffi = [], [], planner._ffi
    advance, copy_some = planning._Pending.advance, planning._Pending.copy_some

    def looked(self):
        own = {copy.ctypes.data for copy in self._copies.values()}
        read = {int(ffi.cast("intptr_t", self._arrays[n].constant)) for n in self._copies}
        whose.append(bool(read) and read <= own)
        advance(self)

    monkeypatch.setattr(planning._Pending, "advance", looked)
    monkeypatch.setattr(
        planning._Pending, "copy_some", lambda self: asked.append(copy_some(self)) or asked[-1]
    )
    monkeypatch.setattr(planning, "_COPIED_AT_ONCE", 500)
    model, ours = fast_and_session
    x, before = data(Net(), 1, 4, 12, 14), planner.plans
    (wanted,) = theirs(model, x)
    compiler.set()
    y = until_planned(planner, before, lambda: ours.run(None, {"x": x})[0])
    assert np.abs(y - wanted).max() < 1e-5
    assert not asked[0] and asked[-1] and whose and all(whose)


def test_what_goes_wrong_in_the_thread_is_a_warning(
    compiler, fast_and_session, planner, monkeypatch
):
    model, ours = fast_and_session

    def fails(self, *arguments, **options):
        raise BuildError("no space left")

    monkeypatch.setattr(planning.Answer, "__init__", fails)
    x = data(Net(), 1, 4, 12, 14)
    (wanted,) = theirs(model, x)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(6):
            assert np.array_equal(ours.run(None, {"x": x})[0], wanted)
            finish()
            threading.Event().wait(0.02)
    said = [str(one.message) for one in caught if one.category is RuntimeWarning]
    assert len(said) == 1 and "onnxruntime computes a part" in said[0] and "no space" in said[0]


def test_an_original_that_does_not_run_is_not_waited_for(compiler, session, planner, monkeypatch):
    """Of another onnxruntime, say: the call plans by itself."""
    attributes = module.Original.attributes
    broken = lambda self, *names: attributes(self, *names) | {"original": b"no model"}
    monkeypatch.setattr(module.Original, "attributes", broken)
    compiler.set()
    model = residual()
    ours = session(winogen.onnx.optimize(model))
    x, before = data(Net(), 1, 4, 12, 14), planner.plans
    (y,) = ours.run(None, {"x": x})
    assert np.abs(y - theirs(model, x)[0]).max() < 1e-5 and planner.plans == before + 1


def test_numbers_of_inputs_that_the_node_has_not_are_refused(session):
    fast = winogen.onnx.optimize(residual())
    for node in fast.graph.node:
        for attribute in node.attribute:
            if attribute.name == "original_reads":
                attribute.ints[:] = [99]
    with pytest.raises(Exception, match="original_reads, original_holds: got inputs"):
        session(onnx.ModelProto.FromString(fast.SerializeToString()))
