"""A model with its kernels in a folder: runs where there is no compiler, is whole or not there."""

import os
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper

import winogen.onnx
from winogen.errors import CompilerNotFound, InvalidValue, VerificationError, WinogenError
from winogen.graph.planning import computable
from winogen.onnx.model import Model
from winogen.onnx.reference import Reference
from winogen.testing import every_layer
from winogen.toolchain import bundling

from .nets import Net


def net():
    """Two convolutions, of a batch that is open."""
    random = np.random.default_rng(0)
    arrays = {f"w{i}": random.standard_normal((8, 8, 3, 3)).astype(np.float32) for i in (1, 2)}
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], pads=[1] * 4),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w2"], ["y"], pads=[1] * 4),
    ]
    x, y = (helper.make_tensor_value_info(name, 1, ["n", 8, 12, 16]) for name in "xy")
    initial = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "net", [x], [y], initial)
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


# What a service does, and nothing else.
SERVICE = """
import sys
import numpy as np, onnxruntime, winogen.onnx
folder, inputs, output = sys.argv[1:]
options = onnxruntime.SessionOptions()
options.register_custom_ops_library(winogen.onnx.get_library_path())
session = onnxruntime.InferenceSession(folder + "/model.onnx", options)
np.save(output, session.run(None, {"x": np.load(inputs)})[0])
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The original's file, and the bundle of it."""
    folder = tmp_path_factory.mktemp("models")
    onnx.save(net(), folder / "model.onnx")
    with pytest.MonkeyPatch.context() as patch, every_layer():
        patch.setenv("WINOGEN_CALIBRATE", "0")
        path = winogen.onnx.bundle(folder / "model.onnx", folder / "served", threads=2)
    assert sorted(one.name for one in folder.iterdir()) == ["model.onnx", "served"]
    return folder / "model.onnx", path


def service(folder, x, aside):
    """What the bundle in a folder computes, in a process without a compiler."""
    np.save(aside / "x.npy", x)
    words = (str(folder), str(aside / "x.npy"), str(aside / "y.npy"))
    environment = {name: value for name, value in os.environ.items() if name != "CC"}
    environment |= {
        "PATH": str(aside),
        "WINOGEN_CACHE": str(aside / "cache"),
        "WINOGEN_PREBUILT": str(folder),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    run = [sys.executable, "-c", SERVICE, *words]
    done = subprocess.run(run, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return np.load(aside / "y.npy")


@pytest.mark.thorough
def test_a_service_without_a_compiler_computes_the_same(made, tmp_path):
    original, folder = made
    session = ort.InferenceSession(original)
    x = np.random.default_rng(1).standard_normal((1, 8, 12, 16)).astype(np.float32)
    expected = session.run(None, {"x": x})[0]
    found = service(folder, x, tmp_path)
    assert np.abs(found - expected).max() < 1e-4 * np.abs(expected).max()


def tolerances(model):
    """Those of layers, in the nodes of a model."""
    attributes = (one for node in model.graph.node for one in node.attribute)
    return [helper.get_attribute_value(one) for one in attributes if one.name == "tolerances"]


@pytest.mark.thorough
@pytest.mark.parametrize("is_optimized", [False, True])
def test_a_promise_of_the_error_at_the_output_survives(is_optimized, tmp_path, clock):
    """Whether the bundle was asked for it or the model before: on inputs that nobody has seen."""
    clock({})
    exact, promised = Reference(Model(net()), {}, 1), {"output_tolerance": 6e-7}
    shapes = {"x": (1, 8, 12, 16)}
    model = net()
    if is_optimized:
        model = winogen.onnx.optimize(model, input_shapes=shapes, **promised)
        asked = tolerances(model)
        with pytest.raises(InvalidValue, match="output_tolerance: got 6e-07; allowed: None for a"):
            winogen.onnx.bundle(model, tmp_path / "no", input_shapes=shapes, **promised)
        promised = {}
    folder = winogen.onnx.bundle(model, tmp_path / "served", input_shapes=shapes, **promised)
    served = tolerances(onnx.load(folder / "model.onnx"))
    assert served and served == (asked if is_optimized else served)
    x = np.random.default_rng(7).standard_normal(shapes["x"]).astype(np.float32)
    y, (wanted,) = service(folder, x, tmp_path), exact.doubled({"x": x})
    assert np.linalg.norm(y - wanted) <= 6e-7 * np.linalg.norm(wanted)


def skip(net):
    h = net.conv("x", 3, 16)
    return [net.conv(net.node("Add", h, _twice(net, h, 16)), 16, 3)]


def skips(net, filters=64, blocks=8):
    """As large as nets are that enlarge pictures."""
    h = net.conv("x", 3, filters)
    for _ in range(blocks):
        h = net.node("Add", h, _twice(net, h, filters))
    return [net.node("DepthToSpace", net.conv(h, filters, 12), blocksize=2, mode="CRD")]


def concatenation(net):
    """A U-Net of one level."""
    a = net.node("Relu", net.conv("x", 3, 16))
    b = net.conv(net.node("MaxPool", a, kernel_shape=[2, 2], strides=[2, 2]), 16, 16)
    scales = net.constant(np.array([1, 1, 2, 2], np.float32))
    c = net.node("Resize", net.node("Relu", b), "", scales, mode="nearest",
                 coordinate_transformation_mode="asymmetric", nearest_mode="floor")  # fmt: skip
    return [net.conv(net.node("Concat", a, c, axis=1), 32, 3)]


def shuffle(net):
    return skips(net, 16, 1)


def outputs(net):
    h = net.node("Relu", net.conv("x", 3, 16))
    return [net.conv(h, 16, 4), net.node("Add", h, net.conv(h, 16, 16))]


def _twice(net, x, filters):
    return net.conv(net.node("Relu", net.conv(x, filters, filters)), filters, filters)


@pytest.mark.thorough
@pytest.mark.parametrize("build", [skip, concatenation, shuffle, outputs, skips])
def test_every_shape_of_net_runs_without_a_compiler(build, tmp_path):
    net = Net()
    size = 64 if build is skips else 48
    onnx.save(net.model(*build(net), shape=[1, 3, size, size]), tmp_path / "net.onnx")
    with pytest.MonkeyPatch.context() as patch, every_layer():
        patch.setenv("WINOGEN_CALIBRATE", "0")
        served = winogen.onnx.bundle(tmp_path / "net.onnx", tmp_path / "served", threads=1)
    assert (served / "model.onnx").exists() and list(served.glob("*.kernels"))


def test_kernels_at_hand_of_one_layout_suffice():
    def lacking():
        raise CompilerNotFound("of this layout")

    assert computable([lacking, lambda: "NHWC"]) == ["NHWC"]
    with pytest.raises(CompilerNotFound, match="of this layout"):
        computable([lacking, lacking])


def test_the_trial_has_nothing_of_its_maker(monkeypatch, tmp_path):
    mine = dict.fromkeys(("WINOGEN_ISA", "WINOGEN_WISDOM", "CC", "OMP_NUM_THREADS"), "1")
    for name, value in mine.items():
        monkeypatch.setenv(name, value)
    there = bundling._elsewhere(tmp_path / "served", tmp_path)
    assert not mine.keys() & there.keys()
    assert there["WINOGEN_PREBUILT"] == str(tmp_path / "served")
    assert not os.path.exists(there["WINOGEN_CACHE"]) and there["PATH"] == str(tmp_path)


def test_a_trial_that_fails_says_so_in_words_of_the_user(monkeypatch, tmp_path):
    last = "winogen.errors.CompilerNotFound: no kernel, and WINOGEN_COMPILE=off; x"
    python = tmp_path / "python"
    python.write_text(f"#!{sys.executable}\nraise SystemExit({last!r})\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(WinogenError) as failure:
        bundling._run(tmp_path, tmp_path, "prebuilt", "m:f", {}, dict(os.environ))
    assert str(failure.value) == (
        "model: nothing was written, because it did not run with the kernels of its folder alone: "
        "CompilerNotFound: no kernel"
    )


@pytest.mark.thorough
def test_a_bundle_that_differs_or_fails_is_not_there(made, tmp_path, tmp_path_factory, monkeypatch):
    _, folder = made

    def differs(aside):
        raise VerificationError("off")

    monkeypatch.setattr(bundling, "_compare", differs)
    with pytest.raises(VerificationError):
        winogen.onnx.bundle(folder / "model.onnx", tmp_path / "served")
    monkeypatch.setattr(bundling, "_pack", lambda folder: None)
    monkeypatch.setenv("CC", "no-such-compiler")
    monkeypatch.setenv("WINOGEN_CACHE", str(tmp_path_factory.mktemp("empty")))
    with pytest.raises(WinogenError, match="it did not run here: .*no-such-compiler"):
        winogen.onnx.bundle(folder / "model.onnx", tmp_path / "served")
    assert not list(tmp_path.iterdir())


def test_what_is_no_model_or_no_new_folder_is_refused_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr(bundling, "write", None)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter").touch()
    (tmp_path / "text.onnx").write_text("no model")
    onnx.save(net(), tmp_path / "model.onnx")
    model = tmp_path / "model.onnx"
    with pytest.raises(InvalidValue, match="output: .*allowed: a new or an empty folder"):
        winogen.onnx.bundle(model, tmp_path / "full")
    with pytest.raises(FileNotFoundError):
        winogen.onnx.bundle(model, tmp_path / "nowhere" / "served")
    with pytest.raises(NotADirectoryError, match="text.onnx/served'$"):
        winogen.onnx.bundle(model, tmp_path / "text.onnx" / "served")
    with pytest.raises(InvalidValue, match="model: got"):
        winogen.onnx.bundle(tmp_path / "text.onnx", tmp_path / "served")
    with pytest.raises(InvalidValue, match="input_shapes"):
        winogen.onnx.bundle(model, tmp_path / "served", input_shapes={"z": (1, 2)})
    assert not (tmp_path / "served").exists()


def test_outputs_that_are_off_are_told(tmp_path):
    for name, value in (("compiled", 1.0), ("prebuilt", 1.1)):
        np.savez(tmp_path / f"{name}.npz", np.full(3, value, np.float32))
    with pytest.raises(VerificationError, match="output arr_0 is off by 0.1"):
        bundling._compare(tmp_path)
