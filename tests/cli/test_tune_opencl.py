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


@pytest.mark.parametrize("name", ["Conv1d", "ConvTranspose1d", "ConvTranspose2d"])
def test_all_kinds_run_what_was_tuned(name, winogen, words, monkeypatch, tmp_path):
    pytest.importorskip("pyopencl", reason="no pyopencl: pip install 'winogen[opencl]'")
    import winogen.opencl as on_devices
    from winogen.opencl import wisdom
    from winogen.opencl.devices import devices

    if not devices():
        pytest.skip("no OpenCL device: apt-get install pocl-opencl-icd")
    monkeypatch.setenv("WINOGEN_CACHE", str(tmp_path / "cache"))
    size, taps = ((20,), (3,)) if name.endswith("1d") else ((6, 5), (3, 3))
    layer = {"name": "one", "input": [1, 4, *size], "weight": [4, 4, *taps]}
    stride = {"stride": 2} if "Transpose" in name else {}
    layer |= {**stride, "transposed": True} if stride else {}
    (tmp_path / "layers.json").write_text(json.dumps([layer]))
    result = winogen(*words, "--seconds", "0")
    assert result.exit_code == 0, result.output
    wisdom.forget()
    weight, layout = np.ones((4, 4, *taps), np.float32), "NWC" if name.endswith("1d") else "NHWC"
    one = getattr(on_devices, name)(weight, layout=layout, **stride)
    assert one.plan((1, *size, 4)).measured


def test_volumes_are_refused(refused, words, tmp_path):
    volume = [{"name": "volume", "input": [1, 4, 5, 5, 5], "weight": [4, 4, 3, 3, 3]}]
    (tmp_path / "layers.json").write_text(json.dumps(volume))
    pytest.importorskip("pyopencl", reason="no pyopencl: pip install 'winogen[opencl]'")
    from winogen.opencl.devices import devices

    if not devices():
        pytest.skip("no OpenCL device: apt-get install pocl-opencl-icd")
    assert "without any for devices; allowed: layers of 1 or 2 axes" in refused(*words)


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
