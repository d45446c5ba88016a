"""Rivals: which are there, and that those installed compute the right thing."""

from types import SimpleNamespace

import numpy as np
import pytest
from kernels.turns import first

from winogen.errors import InvalidValue
from winogen.tuning.layers import BenchLayer
from winogen_lab import peers
from winogen_lab.bench import quantized, reference
from winogen_lab.bench.team import Contestant, ContestantFailed
from winogen_lab.peers import ours_int8


def test_rivals_are_chosen_by_name(monkeypatch):
    monkeypatch.setattr(peers.Peer, "missing", lambda peer: None)
    assert [peer.name for peer in peers.chosen(None)] == list(peers.RIVALS["layer"])
    assert peers.chosen("none") == peers.chosen("") == ()
    assert [peer.name for peer in peers.chosen(" mnn,torch,mnn ")] == ["mnn", "torch"]
    with pytest.raises(InvalidValue, match="peers: got 'tensorflow'; allowed: none, or torch, "):
        peers.chosen("torch,tensorflow")
    assert [peer.name for peer in peers.chosen("opencv", "net")] == ["opencv"]
    with pytest.raises(InvalidValue, match="peers: got 'scipy'; allowed: none, or torch, "):
        peers.chosen("scipy", "net")


def test_named_rivals_that_are_absent_are_told_before_measuring(monkeypatch):
    absent = {"ncnn": "ncnn", "mnn": "MNN"}
    monkeypatch.setattr(peers.Peer, "missing", lambda peer: absent.get(peer.name))
    said = []
    assert len(peers.chosen("torch,mnn", say=said.append)) == 2
    assert said == ["mnn is left out: MNN is not installed"]
    message = "peers: got 'ncnn,mnn', but ncnn, MNN is not installed; allowed: none, torch, onnx"
    with pytest.raises(InvalidValue, match=message):
        peers.chosen("ncnn,mnn")
    assert peers.chosen(None, say=said.append) and len(said) == 1


def test_absence_is_known_without_importing(fakes):
    assert fakes["absent"].missing() == "no_such_module"
    assert fakes["rivals"].missing() is None
    assert fakes["rivals"].version() == np.__version__
    assert peers.Peer("x", "x", (), "no-such-distribution").version() == ""


LAYERS = [
    {"name": "square", "input": [1, 16, 15, 14], "weight": [24, 16, 3, 3], "padding": 1},
    {"name": "row", "input": [1, 8, 9, 12], "weight": [8, 8, 1, 7], "padding": [0, 3]},
    {"name": "strided", "input": [1, 6, 16, 13], "weight": [8, 6, 5, 3], "stride": [2, 1]},
    {"name": "dilated", "input": [1, 8, 14, 14], "weight": [8, 8, 3, 3], "dilation": 2},
    {
        "name": "grouped",
        "input": [1, 8, 11, 10],
        "weight": [12, 4, 3, 3],
        "groups": 2,
        "padding": 1,
    },
    {"name": "depthwise", "input": [1, 16, 9, 9], "weight": [16, 1, 3, 3], "groups": 16},
    {"name": "filter", "input": [1, 16, 9, 12], "weight": [16, 1, 3, 5], "groups": 16,
     "padding": [1, 2]},
    {"name": "signal", "input": [1, 1, 99], "weight": [1, 1, 13], "padding": 6},
    {"name": "batch", "input": [3, 8, 9, 9], "weight": [8, 8, 3, 3], "padding": [2, 1]},
    {"name": "up", "input": [1, 8, 5, 6], "weight": [8, 2, 3, 3], "stride": 2, "padding": 1,
     "groups": 2, "output_padding": 1, "transposed": True},
]  # fmt: skip


def test_rivals_of_filters_serve_no_other_layers():
    scipy, torch = peers.RIVALS["layer"]["scipy"], peers.RIVALS["layer"]["torch"]
    layers = [BenchLayer.from_dict(fields) for fields in LAYERS]
    assert [layer.name for layer in layers if scipy.serves(layer)] == ["filter", "signal"]
    assert all(map(torch.serves, layers))


@pytest.mark.parametrize("name", peers.RIVALS["layer"])
def test_installed_rivals_compute_the_layer(name, tmp_path):
    peer = peers.RIVALS["layer"][name]
    if peer.missing():
        pytest.skip(f"not installed: {peer.missing()}")
    with Contestant(name, threads=1) as it:
        for fields in LAYERS:
            layer = BenchLayer.from_dict(fields)
            assert peer.serves(layer) or name in ("opencv", "scipy")
            if not peer.serves(layer):
                continue
            x, weight = layer.data()
            np.save(tmp_path / "x.npy", x)
            np.save(tmp_path / "w.npy", weight)
            y64 = reference.exact(layer, x, weight)
            answers = it.ask("prepare", peer.adapter, layer.to_dict(), str(tmp_path), 1, {})
            for way, answer in answers.items():
                if name == "ncnn" and layer.name == "batch":
                    assert "one image at a time" in answer["error"]
                    continue
                if name == "ncnn" and layer.transposed:
                    assert "not written for ncnn" in answer["error"]
                    continue
                assert "error" not in answer, (layer.name, way, answer)
                error = reference.relative_error(np.load(answer["output"]), y64)
                # MNN's own Winograd error is near 1e-3.
                assert error < (1e-2 if name == "mnn" else 1e-4), (layer.name, way)
            it.ask("keep", list(answers))
            for way, answer in answers.items():
                if "error" not in answer:
                    assert min(it.ask("turn", way, 2)[0]) > 0


@pytest.mark.parametrize("layout", first(1, [["NHWC"], ["NCHW"]]))
def test_ours_is_called_as_a_user_calls_it(layout, tiny, tmp_path):
    x, weight = tiny.data()
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "w.npy", weight)
    with Contestant("winogen", threads=1) as it:
        ways = {
            "direct": {"layout": layout, "algorithm": "direct"},
            "mcmr": {"layout": layout, "algorithm": "mcmr", "tile": 2},
        }
        arguments = (peers.OURS["layer"], tiny.to_dict(), str(tmp_path), 1)
        answers = it.ask("prepare", *arguments, {"variants": ways})
        y64 = reference.exact(tiny, x, weight)
        for answer in answers.values():
            assert reference.relative_error(np.load(answer["output"]), y64) < 1e-5
        facts = {way: answer["facts"] for way, answer in answers.items()}
        assert facts["direct"]["tile"] is None and facts["mcmr"]["tile"] == [2, 2]
        assert facts["mcmr"]["multiplications"] == 5 * 6 * 16 * 16 * 16
        assert it.ask("turn", "mcmr", 1)
        tiles = {"mcmr": {"algorithm": "mcmr", "tile": (0, 2)}}
        wrong = it.ask("prepare", *arguments, {"variants": tiles})
        assert wrong["mcmr"]["error"].startswith("InvalidValue: tile: got 0")


def test_adapters_do_not_import_their_library_in_vain():
    """Loading an adapter's module is cheap; the library comes with `ways`."""
    import sys

    before = {"torch", "onnxruntime", "openvino", "ncnn", "MNN"} & set(sys.modules)
    for peer in peers.RIVALS["layer"].values():
        __import__(peer.adapter.partition(":")[0])
    assert {"torch", "onnxruntime", "openvino", "ncnn", "MNN"} & set(sys.modules) == before


def test_mistakes_in_an_adapter_are_its_own(fakes, tiny, tmp_path):
    with Contestant("x", threads=1) as it, pytest.raises(ContestantFailed, match="No such file"):
        it.ask("prepare", "fake_rivals:ways", tiny.to_dict(), str(tmp_path / "nowhere"), 1, {})


@pytest.mark.thorough
@pytest.mark.parametrize("name", [*peers.RIVALS["int8"], "winogen"])
def test_installed_rivals_compute_layers_of_8_bits(name, tmp_path):
    adapter = peers.OURS["int8"]
    if name != "winogen":
        adapter = peers.RIVALS["int8"][name].adapter
        if peers.RIVALS["int8"][name].missing():
            pytest.skip(f"not installed: {peers.RIVALS['int8'][name].missing()}")
    with Contestant(name, threads=1) as it:
        for fields in LAYERS:
            layer = BenchLayer.from_dict(fields)
            if layer.rank != 2 or layer.transposed:
                continue
            x, weight = quantized.data(layer)
            # Where a CPU has no VNNI, onnxruntime adds pairs of products in 16 bits: they must fit.
            weight = np.clip(weight, -64, 64)
            np.save(tmp_path / "x.npy", x)
            np.save(tmp_path / "w.npy", weight)
            exact = quantized.exact(layer, x, weight)
            options = {"variants": {"": {}}} if name == "winogen" else {}
            answers = it.ask("prepare", adapter, layer.to_dict(), str(tmp_path), 1, options)
            for way, answer in answers.items():
                if name == "ncnn" and layer.name in ("batch", "grouped"):
                    assert "one image at a time" in answer["error"] or (
                        "one scale for the filters of a group" in answer["error"]
                    )
                    continue
                assert "error" not in answer, (layer.name, way, answer)
                y = np.load(answer["output"])
                # One step where others round otherwise; in a hundredth of the places at most.
                assert np.abs(y - exact).max() <= (0 if name == "winogen" else 1), (layer.name, way)
                assert (y != exact).mean() <= 0.01


def test_facts_are_those_that_an_earlier_version_knows():
    """Its plans of bytes said their instruction, and predicted nothing; at first there was none."""
    plan = SimpleNamespace(algorithm="direct", instruction="sdot", workspace_bytes=64)
    conv = SimpleNamespace(plan=lambda shape, dtype: plan)
    data = np.zeros((1, 4, 4, 4), np.int8)
    assert ours_int8._facts(conv, data, "auto", None) == {
        "algorithm": "direct", "tile": None, "workspace_bytes": 64, "instructions": "sdot"
    }  # fmt: skip
    assert ours_int8._facts(object(), data, "auto", None) == {"algorithm": "auto", "tile": None}
    tiled = ours_int8._facts(object(), data, "mcmr", 2)
    assert tiled["tile"] == [2, 2] and tiled["product_dtype"] == "int16"
    bytes_ = ours_int8._facts(object(), data, "mcmr", 2, "int8")
    assert bytes_ == {**tiled, "product_dtype": "int8"}


def test_data_of_8_bits_uses_them():
    layer = BenchLayer.from_dict(LAYERS[0])
    x, weight = quantized.data(layer)
    assert x.dtype == weight.dtype == np.int8 and min(x.min(), weight.min()) >= -127
    y = quantized.exact(layer, x, weight)
    assert (y == np.rint(y)).all() and 15 < y.std() < 60
    assert (np.abs(y) == 127).mean() < 0.05
    scales = quantized.steps(layer)
    assert scales.w.shape == (24,) and len(set(scales.w)) == 24
