"""`winogen engine`: a table, the same as JSON, a picture, and nets by every kind of name."""

import json

import pytest

NET = [{"name": "a", "input": [1, 8, 8, 8], "weight": [8, 8, 3, 3], "padding": 1}]


@pytest.fixture
def net(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.json").write_text(json.dumps(NET))
    return "net.json"


def test_the_table_and_json_have_the_same_engines(winogen, net):
    asked = ("engine", net, "--multipliers", 64, "--sram", "64k", "--bits", 10)
    table, figures = winogen(*asked), winogen(*asked, "--json")
    assert table.exit_code == figures.exit_code == 0
    document = json.loads(figures.stdout)
    assert document["kind"] == "model" and document["sram"] == 65536
    for one in document["engines"]:
        f_i, T, f_o, lanes = one["engine"]
        assert f_i * T * f_o * lanes == one["multipliers"] <= 64
        assert f"⟨{f_i},{T},{f_o},{lanes}⟩" in table.stdout and one["algorithm"] in table.stdout
    assert "a model of engines of up to 64 multipliers at 1 GHz" in table.stdout


def test_it_draws_them(winogen, net, tmp_path):
    pytest.importorskip("matplotlib")
    result = winogen("engine", net, "--multipliers", 32, "-o", "e.svg")
    assert result.exit_code == 0 and "</svg>" in (tmp_path / "e.svg").read_text()


def test_exact_engines_say_what_their_operands_need(winogen, net):
    lines = winogen("engine", net, "--multipliers", 32, "--exact").stdout.splitlines()
    tiles = [line.split() for line in lines if "F(2x2,3x3)" in line]
    assert tiles and all(words[-2:] == ["0", "10x12"] for words in tiles)


def test_layers_that_sums_do_not_hold_are_named(winogen, net, tmp_path):
    deep = {**NET[0], "input": [1, 256, 4, 4], "weight": [4, 256, 3, 3]}
    (tmp_path / net).write_text(json.dumps([deep]))
    text = winogen("engine", net, "--multipliers", 32, "--exact").stdout
    assert "Tap by tap with F(4x4,3x3): weight: got 256 channels; allowed: at most 227" in text


def test_onnx_files_and_nets_of_the_laboratory(winogen, tmp_path, monkeypatch):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("torch")
    import numpy as np

    monkeypatch.chdir(tmp_path)
    values = [onnx.helper.make_tensor_value_info(name, 1, shape)
              for name, shape in (("x", [1, 4, 9, 9]), ("y", [1, 4, 5, 5]))]  # fmt: skip
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"], strides=[2, 2], pads=[0, 0, 1, 1])
    weight = onnx.numpy_helper.from_array(np.ones((4, 4, 2, 2), np.float32), "w")
    graph = onnx.helper.make_graph([node], "g", values[:1], values[1:], [weight])
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), "m.onnx")
    for net, count in (("m.onnx", 1), ("dncnn", 17)):
        result = winogen("engine", net, "--multipliers", 16)
        assert result.stdout.startswith(f"{net}, {count} convolutions: a model"), result.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("lenet",), "net: got 'lenet'; allowed: alexnet"),
        (("missing.onnx",), "missing.onnx"),
        (("net.json", "--sram", "1X"), "sram: got '1X'; allowed: a positive number, as 512K"),
        (("net.json", "--clock", "0"), "clock: got '0'"),
        (("net.json", "--multipliers", "2"), "multipliers: got 2; allowed: an int from 4"),
        (("net.json", "--bits", "40"), "bits: got 40"),
        (("net.json", "--sram", "16"), "sram: got 16 bytes"),
        (("net.json", "-o", "engines.txt"), "plot: got 'engines.txt'"),
    ],
)
def test_mistakes_are_one_sentence(refused, net, words, message):
    if words == ("missing.onnx",):
        pytest.importorskip("onnx")
    assert message in refused("engine", *words)
