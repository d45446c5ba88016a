"""`winogen lab work` and `winogen lab engine` print what the tables of the thesis have."""

import json

import pytest


def test_the_figures_of_the_model_stand_beside_those_printed(winogen):
    text = winogen("lab", "engine").stdout
    assert text.startswith("A model")
    rows = [line.split() for line in text.splitlines()]
    assert ["M", "⟨16,4,16,2⟩", "2048", "4.096", "4", "2+16"] in rows
    assert ["resnet50", "M", "1.97", "5.41", "7.11"] in rows
    assert ["googlenet", "M", "0.67", "0.96", "1.22"] in rows
    assert "TOPS/W" not in text
    assert ["resnet50", "M", "0.89", "0.84", "0.89", "0.35", "0.29", "0.33"] in rows


def test_a_net_layer_by_layer(winogen, tmp_path):
    document = json.loads(winogen("lab", "engine", "alexnet", "--json").stdout)
    assert len(document["layers"]) == 5
    assert document["layers"][1]["M pieces"] == {"cycles": 150528, "utilisation": 1.0}
    first, *_ = document["others"]
    assert first["layer"] == "55x55, 96, max 3x3/2" and first["fused"]
    assert first["M"] == {"cycles": 4968, "longer": 0}  # 9 * 96/16 * 27^2/(4 * 2), rounded up
    text = winogen("lab", "engine", "inception-v3").stdout
    assert "35x35, 256, average 3x3      1  apart" in text
    pytest.importorskip("matplotlib")
    picture = tmp_path / "busy.svg"
    assert winogen("lab", "engine", "alexnet", "-o", picture).exit_code == 0
    assert "</svg>" in picture.read_text()


def test_what_nets_ask_for(winogen):
    text = winogen("lab", "work").stdout
    rows = [line.split() for line in text.splitlines()]
    assert ["vgg16", "13", "3", "15.47", "138.34", "13.56"] in rows
    assert ["RS", "9", "3136", "9"] in rows and "19.2 W" in text
    document = json.loads(winogen("lab", "work", "squeezenet, alexnet", "--json").stdout)
    assert [row["net"] for row in document["nets"]] == ["squeezenet", "alexnet"]


def test_unknown_nets_are_named(refused):
    assert "net: got 'lenet'; allowed: alexnet" in refused("lab", "work", "lenet")
    assert "net: got 'lenet'; allowed: " in refused("lab", "engine", "lenet")
