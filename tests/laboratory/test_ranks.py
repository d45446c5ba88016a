"""One layer of low rank in a trained net: nothing is lost at the full rank, and what is below."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from winogen.cli.app import app
from winogen.lowrank import LowRank
from winogen_lab import ranks
from winogen_lab.ranks import WAYS, measure, ranks_up_to, save_plot, table


def row(rank, *quality):
    return {"rank": rank, "filters": 2 * rank, "compression": 4 / rank, "residual": 0.5,
            "quality": dict(zip(WAYS, quality)), "error": dict.fromkeys(WAYS, 0.125)}  # fmt: skip


FOUND = {"kind": "ranks", "net": "digits", "title": "some digits", "unit": "%", "test": 300,
         "quality": 99.0, "layers": [
    {"name": name, "weight": [8, 4, 3, 3], "rows": [row(1, 40, 50, 60), row(2, 97, 98, 70.25)]}
    for name in ("first", "second")]}  # fmt: skip


def test_ranks_that_are_tried():
    assert ranks_up_to(1) == [1] and ranks_up_to(5) == [1, 2, 3, 4, 5]
    for full in range(1, 200):
        found = ranks_up_to(full)
        assert found[0] == 1 and found[-1] == full and found == sorted(set(found))


def error_with(net, conv, compute):
    """The error of a net's outputs with a layer whose outputs follow from its input and them."""
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(net.test)
    with torch.no_grad():
        exact = net.module(x)
        hook = conv.register_forward_hook(lambda _, given, y: compute(given[0], y))
        changed = net.module(x)
    hook.remove()
    return float((changed - exact).norm() / exact.norm())


def test_each_layer_alone(monkeypatch):
    """Beside the same layers of torch, put into the net by hand."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxruntime")
    net = ranks.subject("tiny")
    calibration, test = (x[:, :, :20, :16].copy() for x in (net.calibration, net.test))
    net = replace(net, calibration=calibration, test=test, judge=lambda y: float(y.sum()))
    monkeypatch.setattr(ranks, "ranks_up_to", lambda full: [2, full])
    monkeypatch.setattr(ranks, "subject", lambda name: net)
    found = measure("tiny")
    convs = [one for one in net.module.modules() if isinstance(one, torch.nn.Conv2d)]
    assert [one["weight"] for one in found["layers"]] == [list(c.weight.shape) for c in convs]
    for conv, layer in zip(convs, found["layers"]):
        low, full = layer["rows"]
        assert max(full["error"].values()) < 1e-5 and full["residual"] < 1e-6
        assert list(full["quality"].values()) == pytest.approx([found["quality"]] * len(WAYS))
        weight, bias = (one.detach().numpy() for one in (conv.weight, conv.bias))
        one = LowRank.from_conv(weight, bias, rank=2, padding=conv.padding)
        assert low["compression"] == pytest.approx(one.compression)
        assert low["residual"] == pytest.approx(one.residual)
        kept = np.argsort(-np.abs(weight).sum((1, 2, 3)))[: int(len(weight) / one.compression)]
        assert low["filters"] == len(kept)
        both = one.to_torch()
        gone = torch.ones(len(weight), 1, 1)
        gone[kept.copy()] = 0
        plain = error_with(net, conv, lambda x, _, both=both: both(x))
        removed = gone * conv.bias[:, None, None]
        pruned = error_with(net, conv, lambda _, y, at=gone, b=removed: y * (1 - at) + b)
        assert low["error"]["plain"] == pytest.approx(plain, rel=1e-3) and plain > 0.02
        assert low["error"]["pruned"] == pytest.approx(pruned, rel=1e-3) and pruned > 0.02
        assert low["error"]["fitted"] < plain


@pytest.mark.thorough
def test_digits():
    """The ranks of the source's net of digits, 4 and 16, each alone; lower ones; pruning."""
    pytest.importorskip("torch")
    pytest.importorskip("onnxruntime")
    first, second = (
        {one["rank"]: one["quality"] for one in layer["rows"]}
        for layer in measure("digits")["layers"]
    )
    assert min(first[4]["plain"], second[16]["plain"]) > 97.5
    assert first[1]["plain"] < 90 and second[4]["plain"] < 40
    assert second[16]["pruned"] < 93 < second[48]["pruned"]


def test_the_table():
    lines = table(FOUND).splitlines()
    assert lines[0] == "some digits: 99.0 % as it was"
    assert lines[3].split() == ["layer", "rank", "fewer", *WAYS, *WAYS]
    assert lines[4].split()[:6] == ["first", "8x4x3x3", "1", "4.00x", "40.0", "50.0"]
    assert lines[5].split() == ["2", "2.00x", "97.0", "98.0", "70.2", *["0.125"] * 3]


def test_the_picture(tmp_path):
    pytest.importorskip("matplotlib")
    save_plot(FOUND, tmp_path / "ranks.svg")
    drawn = (tmp_path / "ranks.svg").read_text()
    assert all(text in drawn for text in ("first", "second", "as it was", *WAYS))


def test_the_command(monkeypatch):
    monkeypatch.setattr(ranks, "measure", lambda name, step: {**FOUND, "net": name})
    found = CliRunner().invoke(app, ["lab", "ranks", "residual", "--json"])
    assert json.loads(found.stdout) == {**FOUND, "net": "residual"}
    assert CliRunner().invoke(app, ["lab", "ranks"]).stdout == table(FOUND) + "\n"


def test_other_nets():
    refused = CliRunner().invoke(app, ["lab", "ranks", "vgg16"])
    assert refused.exit_code == 2 and "net: got 'vgg16'; allowed: " in refused.stderr
