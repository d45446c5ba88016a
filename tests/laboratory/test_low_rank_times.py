"""Layers of low rank in turns with exact ones, as functions and as the command is typed."""

import json

import numpy as np
import pytest
from conv.conftest import quick_kernels
from typer.testing import CliRunner

from winogen.cli.app import app
from winogen.conv import Conv2d
from winogen.errors import InvalidValue
from winogen.toolchain.limits import Limits
from winogen.tuning.layers import BenchLayer
from winogen_lab import low_rank_times
from winogen_lab.low_rank_rivals import of_layer
from winogen_lab.low_rank_times import WAYS, Row, compare, largest_filters, table

__all__ = ["quick_kernels"]
LIMITS = Limits(1, {1: 100.0}, (("L2", 1 << 18, 80.0), ("memory", 1 << 26, 20.0)))


def row(exact, chosen, promised):
    seconds = dict(zip(WAYS, (3e-3, exact, 2e-3, 1.5e-3, chosen, 7e-4)))
    products = dict(zip(WAYS, (9_000_000, 3_000_000, 4_000_000, 2_000_000, 2_000_000, 1_000_000)))
    weights = {"exact": 90, "chosen": 45, "pruned": 44}
    given = seconds, products, weights, 0.7, promised
    return Row("small", 2.0, 5, 0.5, 0.55, "mcmr 4x4", *given)


def test_the_table():
    line, below = table([row(1.2e-3, 0.8e-3, 2.0)]).splitlines()[3:5]
    words = "small 2 5 3.000 1.200 2.000 1.500 0.800 0.700 1.50x 2.00x 75% 0.50 0.55"
    assert line.split() == words.split()
    assert below.split() == ["exact:", "mcmr", "4x4", "9", "3", "4", "2", "2", "1", "0.70"]


def test_what_is_promised():
    """Packed filters that do not fit into a cache together come at the speed of memory."""

    class Plan:
        def __init__(self, multiplications, packed):
            self.multiplications, self.packed_weight_bytes = multiplications, packed

    least = low_rank_times._least
    assert least([Plan(10**6, 1 << 17)], 100.0, LIMITS) == pytest.approx(2e6 / 100e9)
    both = [Plan(10**6, 1 << 22), Plan(10**9, 0)]
    assert least(both, 100.0, LIMITS) == pytest.approx((1 << 22) / 20e9 + 2e9 / 100e9)
    small = [Plan(0, 1 << 18), Plan(0, 1 << 18)]  # either fits into L2, not both
    assert least(small, 100.0, LIMITS) == pytest.approx((1 << 19) / 20e9)


def test_a_layer(tiny, monkeypatch):
    monkeypatch.setattr(low_rank_times, "_SECONDS", 0.0)
    (found,) = compare([tiny], [3.0], limits=LIMITS)
    assert (found.layer, found.rank) == ("tiny", 8) and set(found.seconds) == set(WAYS)
    assert 0.4 < found.residual < 1 and 0.4 < found.error < 1
    assert found.products["direct"] == 16 * 16 * 9 * 9 * 11
    assert found.products["ADaPT"] == found.products["direct"] / 3
    assert found.products["FALCON"] < found.products["ADaPT"]
    assert found.to_dict()["ratio"] == found.seconds["exact"] / found.seconds["chosen"]
    assert found.weights == {"exact": 2304, "chosen": 768, "pruned": 5 * 144}
    x, weight = tiny.data()
    y = Conv2d(weight, **tiny.options)(x)
    lost = np.delete(y, largest_filters(weight, 1, 3.0), axis=1)
    assert lost.shape[1] == 11
    expected = np.linalg.norm(lost) / np.linalg.norm(y)
    assert found.pruned_error == pytest.approx(expected, rel=1e-4)
    for one in of_layer(tiny, 3.0):
        if not one["reason"]:
            assert 0.5 < one["error"] / one["residual"] < 2 and one["products"] <= 768


def test_filters_of_each_group():
    weight = np.float32([1, 4, 2, 3, 9, 5, 5, 8]).reshape(8, 1, 1, 1)
    assert sorted(largest_filters(weight, 1, 2.0)) == [4, 5, 6, 7]
    assert sorted(largest_filters(weight, 2, 2.0)) == [1, 3, 4, 7]
    assert list(largest_filters(weight, 8, 2.0)) == list(range(8))  # one at least
    assert sorted(largest_filters(-weight, 4, 0.5)) == list(range(8))  # and all at most


@pytest.mark.parametrize("weight", [[8, 8, 1, 3], [8, 8, 3]])
def test_other_layers(weight):
    size = [1, 8, 7, 6][: len(weight)]
    layer = BenchLayer.from_dict({"name": "odd", "input": size, "weight": weight})
    with pytest.raises(InvalidValue, match="layers: got odd; allowed: layers of two axes"):
        compare([layer], [2.0], limits=LIMITS)


@pytest.mark.parametrize(
    "words, message",
    [
        (["--layers", "vgg16", "--net", "tiny"], "layers: got a set and --net"),
        (["--only", "3x3"], "only: got '3x3' without --layers"),
        (["--layers", "vgg16", "--factors", "1"], "factors: got 1; allowed: numbers above 1"),
        (["--layers", "vgg17"], "vgg17"),
    ],
)
def test_words_that_do_not_fit(words, message):
    result = CliRunner().invoke(app, ["lab", "low-rank", *words])
    assert result.exit_code != 0 and message in result.output + str(result.exception)


def test_the_command(tiny, monkeypatch, tmp_path):
    monkeypatch.setattr(low_rank_times, "compare", lambda *given: [row(1e-3, 1e-3, 1.0)])
    file = tmp_path / "mine.json"
    file.write_text(json.dumps([tiny.to_dict()]))
    command = ["lab", "low-rank", "--layers", str(file), "--factors", "2"]
    printed = CliRunner().invoke(app, [*command, "--json"]).stdout
    assert json.loads(printed)["rows"][0]["ratio"] == 1.0
    assert "mcmr 4x4" in CliRunner().invoke(app, command).stdout
