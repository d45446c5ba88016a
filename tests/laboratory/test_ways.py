"""Layers by several ways: what is compared, what plans say, and how ranks go together."""

import json
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from winogen.cli.app import app
from winogen.errors import InvalidValue
from winogen.tuning.layers import load_layers
from winogen_lab.bench import net_ways, ways
from winogen_lab.bench.ways_tables import render

LAYERS = [layer for layer in load_layers() if "13x13" in layer.name]


def lab(*words):
    return CliRunner().invoke(app, ["lab", "ways", *map(str, words)])


def test_every_algorithm_says_what_it_takes(tmp_path):
    path = tmp_path / "ways.json"
    result = lab("--only", "13x13x256", "--tile", 2, "--results", path)
    assert result.exit_code == 0, result.output
    (row,) = json.loads(path.read_text())["layers"]
    assert tuple(row["ways"]) == ways.ALGORITHMS
    counts = {name: way["multiplications_per_output"] for name, way in row["ways"].items()}
    assert counts["direct"] == counts["im2col"] == 9
    assert counts["mcmr"] == pytest.approx(9 / 1.940, rel=1e-3)  # the half tiles of 13 x 13
    assert counts["winograd1d"] == pytest.approx(9 / 1.393, rel=1e-3)
    packed = {name: way["packed_weight_bytes"] for name, way in row["ways"].items()}
    weights = 4 * 384 * 256
    assert packed["direct"] == 9 * weights and packed["mcmr"] == 16 * weights
    assert packed["winograd1d"] == 12 * weights
    for text in ("2x2 4.639", "2 6.462", "3,539 + ", "kB"):
        assert text in result.output
    assert "ms" not in result.output
    printed = lab("--only", "13x13x256", "--tile", 2, "--json").stdout
    assert json.loads(printed) == json.loads(path.read_text())


def test_edges_have_rims_and_borders_one_tile():
    for row in ways.compare(LAYERS[:1], "edges"):
        first, *others = row["ways"]
        assert first == "discard" and others
        for name in row["ways"]:
            assert name.startswith(row["ways"][name]["edge"])
        same = row["ways"].get("direct, same tile")
        assert same is None or same["tile"] == row["ways"]["discard"]["tile"]
    for row in ways.compare(LAYERS[:1], "borders"):
        assert [way["border"] for way in row["ways"].values()] == list(row["ways"])
        assert len({tuple(way["tile"]) for way in row["ways"].values()}) == 1


def test_a_layer_without_tiles_has_no_edges():
    assert ways.compare(load_layers("gemm1x1")[:1], "edges") == []


def rows(times):
    """Rows of ever larger maps, with the milliseconds of two ways."""
    fields = {"tile": None, "multiplications_per_output": 9.0, "packed_weight_bytes": 4000}
    return [
        {
            "name": f"layer {size}", "input": [1, 8, size, size], "weight": [8, 8, 3, 3],
            "ways": {
                name: {**fields, "algorithm": name, "workspace_bytes": 0, "seconds": 1e-3 * time}
                for name, time in zip(("direct", "mcmr"), pair)
            },
        }
        for size, pair in zip((8, 16, 32, 64), times)
    ]  # fmt: skip


def test_ranks_and_gains_of_times():
    found = rows([(2, 2), (2, 1.99), (2, 1), (2, 0.5)])
    assert list(ways.correlations(found)) == [("mcmr", "direct", 4, 1.0)]
    text = render(found)
    assert "0.5 x0.25" in text and "rank correlation +1.00 over 4 layers" in text
    assert "at best 0.250 (layer 64); more than 2% faster on 2 of 4 layers" in text
    turned = list(ways.correlations(rows([(2, 0.5), (2, 1), (2, 1.5), (2, 2)])))
    assert turned == [("mcmr", "direct", 4, -1.0)]
    assert render(found, markdown=True).count("| layer 16 | 4 |") == 4


def test_equal_numbers_share_their_rank():
    # by hand: ranks 1.5 1.5 3 4 and 1 2 3.5 3.5
    assert ways.rank_correlation([5, 5, 6, 7], [0, 1, 2, 2]) == pytest.approx(8 / 9)
    with pytest.raises(InvalidValue, match="values: got 3 equal numbers"):
        ways.rank_correlation([1, 2, 3], [4, 4, 4])


@pytest.mark.thorough
def test_the_command_measures(tmp_path):
    layer = {"name": "tiny", "input": [1, 16, 9, 9], "weight": [16, 16, 3, 3], "padding": 1}
    (tmp_path / "mine.json").write_text(json.dumps([layer]))
    result = lab(
        tmp_path / "mine.json", "--tile", 2, "--timed", "--results", tmp_path / "ways.json"
    )
    assert result.exit_code == 0, result.output
    (row,) = json.loads((tmp_path / "ways.json").read_text())["layers"]
    assert all(way["seconds"] > 0 for way in row["ways"].values())
    assert "ms, and its multiple of direct" in result.output
    factors = result.output.split("factors beside im2col")[1].splitlines()[3].split()
    assert factors[4] == "–" and factors[2] == "1.00"  # of im2col, and of direct in theory
    theory, taken = row["ways"]["im2col"], row["ways"]["mcmr"]
    assert float(factors[-2]) == pytest.approx(9 * 81 / (16 * 25), abs=0.01)
    assert float(factors[-1]) == pytest.approx(theory["seconds"] / taken["seconds"], abs=0.01)


@pytest.mark.parametrize("words, message", [
    (["--compare", "colours"], "compare: got 'colours'; allowed: algorithms, edges, borders"),
    (["axes"], "layers: got "),
    (["gemm1x1", "--only", "55x55", "--compare", "edges"], "layers: got none with tiles"),
    (["--nets", "vgg16", "--only", "56x56"], "only: got '56x56'; allowed: none with --nets"),
    (["--nets", "lenet"], "nets: got 'lenet'; allowed: "),
    (["--plot", "parts.svg"], "plot: got 'parts.svg'; allowed: a file with --nets"),
])  # fmt: skip
def test_wrong_options_are_refused(words, message):
    result = lab(*words)
    assert result.exit_code == 2 and message in result.output


def test_layers_count_as_often_as_a_net_has_them(monkeypatch, tmp_path):
    """Two nets share a layer, which is measured once."""
    wide, flat = LAYERS[:2]
    lists = {"one": [wide, flat, wide], "two": [flat]}
    asked = []

    def measured(layers, name, **settings):
        asked.extend(layers)
        tiles = {wide.weight: [4, 4], flat.weight: None}
        return [
            {"ways": {way: {"tile": tiles[layer.weight] if way == "auto" else None, "seconds": s}
                      for way, s in zip(net_ways.WAYS, (0.004, 0.003, 0.002))}}
            for layer in layers
        ]  # fmt: skip

    monkeypatch.setattr(net_ways, "compare", measured)
    monkeypatch.setattr(net_ways, "layers_called", lists.get)
    others = {"pools": 0.001, "sums": 0.003}
    monkeypatch.setattr(net_ways, "other_seconds", lambda module, shape, rounds: others)
    nets = [
        SimpleNamespace(name=name, is_onnx=name == "two", module=dict, input=()) for name in lists
    ]
    one, two = net_ways.compare_nets(nets)
    assert len(asked) == 2 and (one["layers"], two["layers"]) == (3, 1)
    assert one["seconds"] == pytest.approx({"im2col": 0.012, "direct": 0.009, "auto": 0.006})
    assert one["products"] == (2 * wide.flops + flat.flops) // 2
    assert one["winograd"]["layers"] == 2 and one["winograd"]["seconds"]["auto"] == 0.004
    assert two["winograd"]["layers"] == 0
    assert one["others"] == others and two["others"] is None and "parts" not in two
    assert one["parts"]["auto"] == pytest.approx({"fast": 0.004, "direct": 0.002, "other": 0.004})
    lines = net_ways.render([one, two]).splitlines()
    names = [line.split()[0] if line else "" for line in lines]
    assert names == ["net", "one", "its", "two", "", "others", "one", "", "net", "one", "one"]
    assert lines[1].split()[-2:] == ["2.00", "1.50"]
    assert lines[5].split()[4:] == ["pools", "sums"] and lines[6].split()[1:] == ["1", "3"]
    assert lines[9].split()[1:] == ["im2col", "8", "4", "4", "50%", "25%", "25%"]
    assert lines[10].split()[1:] == ["auto", "4", "2", "4", "40%", "20%", "40%"]
    assert len(net_ways.render([two]).splitlines()) == 2
    pytest.importorskip("matplotlib")
    net_ways.save_parts([one, two], tmp_path / "parts.svg")
    assert "</svg>" in (tmp_path / "parts.svg").read_text()


def test_other_layers_are_timed_by_kind(monkeypatch):
    """By a clock that ticks once while an operation runs: their number is their time."""
    torch = pytest.importorskip("torch")
    from torch import nn

    from winogen_lab.bench import other_layers

    class Small(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
            self.second = nn.Sequential(nn.BatchNorm2d(4), nn.ReLU6(), nn.MaxPool2d(2))
            self.last = nn.Sequential(
                nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2), nn.Softmax(1)
            )

        def forward(self, x):
            y = self.second(self.first(x))
            return self.last(torch.cat([y, y + y], 1))

    ticks = iter(range(10_000))
    monkeypatch.setattr(other_layers, "clock_of", lambda threads: lambda: next(ticks))
    threads = torch.get_num_threads()
    found = other_layers.other_seconds(Small().eval(), (1, 3, 8, 8), 2)
    names = [name for name, _ in other_layers._operations(Small().eval(), torch.zeros(1, 3, 8, 8))]
    assert names.count("native_batch_norm") == 1 and "convolution" not in names
    assert found.pop("rest") >= 2 + 2  # that and softmax; views, as of the linear layer's weight
    assert found == {
        "pools": 2, "activations": 2, "sums": 1, "concatenations": 1, "connected": 1
    }  # fmt: skip
    assert torch.get_num_threads() == threads


def test_vgg_nets_have_sixteen_and_nineteen_layers_with_their_last_three():
    pytest.importorskip("torch")
    from winogen_lab.nets.layers import layers_called

    small, large = layers_called("vgg16"), layers_called("vgg19")
    assert (len(small), len(large)) == (13, 16)
    assert round(sum(one.flops for one in large) / 2e9, 1) == 19.5  # as published
