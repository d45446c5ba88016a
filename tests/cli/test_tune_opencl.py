"""`winogen tune --backend opencl`: a search on the device, and what it prints and keeps."""

import json

import numpy as np
import pytest

from winogen.conv.problem import Layer

LAYERS = [{"name": "small", "input": [1, 4, 6, 6], "weight": [4, 4, 3, 3], "padding": 1}]


@pytest.fixture
def words(monkeypatch, tmp_path):
    """The command for a small layer, with wisdom of its own."""
    file = tmp_path / "layers.json"
    file.write_text(json.dumps(LAYERS))
    monkeypatch.setenv("WINOGEN_WISDOM", str(tmp_path / "wisdom.jsonl"))
    monkeypatch.setenv("WINOGEN_CALIBRATE", "0")

    return ["tune", str(file), "--backend", "opencl", "--layout", "NHWC"]


def test_what_is_found_is_kept_and_printed(winogen, words, monkeypatch, tmp_path):
    pytest.importorskip("pyopencl", reason="no pyopencl: pip install 'winogen[opencl]'")
    from winogen.opencl import wisdom
    from winogen.opencl.devices import DeviceInfo, devices

    if not devices():
        pytest.skip("no OpenCL device: apt-get install pocl-opencl-icd")
    monkeypatch.setenv("WINOGEN_CACHE", str(tmp_path / "cache"))
    result = winogen(*words, "--seconds", "0", "--json")
    assert result.exit_code == 0, result.output
    (layer,) = json.loads(result.stdout)["layers"]
    assert (layer["name"], layer["layout"]) == ("small", "NHWC")
    assert layer["tried"] >= 1 and layer["front"] and not layer["wrong"]
    wisdom.forget()
    problem = Layer.of((4, 4, 3, 3), "float32", padding=1, layout="NHWC").problem((1, 6, 6, 4))
    kept = wisdom.candidates(problem, DeviceInfo.of(devices()[0]))
    assert [one.seconds for one in kept] == [one["seconds"] for one in layer["front"]]
    table = winogen(*words, "--seconds", "0")
    assert "workspace bytes" in table.stdout and "kept in" in table.stdout


def test_signals_run_what_was_tuned(winogen, words, monkeypatch, tmp_path):
    pytest.importorskip("pyopencl", reason="no pyopencl: pip install 'winogen[opencl]'")
    from winogen.opencl import Conv1d, wisdom
    from winogen.opencl.devices import devices

    if not devices():
        pytest.skip("no OpenCL device: apt-get install pocl-opencl-icd")
    monkeypatch.setenv("WINOGEN_CACHE", str(tmp_path / "cache"))
    signal = [{"name": "signal", "input": [1, 4, 20], "weight": [4, 4, 3]}]
    (tmp_path / "layers.json").write_text(json.dumps(signal))
    result = winogen(*words, "--seconds", "0")
    assert result.exit_code == 0, result.output
    wisdom.forget()
    layer = Conv1d(np.ones((4, 4, 3), np.float32), layout="NWC")
    assert layer.plan((1, 20, 4)).measured


@pytest.mark.parametrize(
    "options, message",
    [
        (("--dtype", "int8"), "dtype: got one with --backend opencl; allowed: without"),
        (("--threads", "2"), "threads: got one with --backend opencl"),
        (("--backend", "metal"), "backend: got 'metal'; allowed: opencl"),
    ],
)
def test_options_that_mean_nothing_there_are_refused(refused, words, options, message):
    assert message in refused(*words, *options)
