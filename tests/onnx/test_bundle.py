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
from winogen.errors import InvalidValue, VerificationError, WinogenError
from winogen.testing import every_layer
from winogen.toolchain import bundling


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


@pytest.mark.thorough
def test_a_service_without_a_compiler_computes_the_same(made, tmp_path):
    original, folder = made
    session = ort.InferenceSession(original)
    x = np.random.default_rng(1).standard_normal((1, 8, 12, 16)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    words = (str(folder), str(tmp_path / "x.npy"), str(tmp_path / "y.npy"))
    environment = {name: value for name, value in os.environ.items() if name != "CC"}
    environment |= {
        "PATH": str(tmp_path),
        "WINOGEN_CACHE": str(tmp_path / "cache"),
        "WINOGEN_PREBUILT": str(folder),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    run = [sys.executable, "-c", SERVICE, *words]
    done = subprocess.run(run, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    expected = session.run(None, {"x": x})[0]
    assert np.abs(np.load(tmp_path / "y.npy") - expected).max() < 1e-4 * np.abs(expected).max()


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
    with pytest.raises(WinogenError, match="the compiled model did not run: .*no-such-compiler"):
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
