"""Nests of 1D tiles with filters of every type: what each costs, and which are worth having."""

import json
from itertools import product
from operator import le

import pytest
from typer.testing import CliRunner

from winogen.cli.app import app
from winogen.records import TRIED_FILTER_TYPES
from winogen.tasks.pareto import worth_having
from winogen.tuning.layers import BenchLayer
from winogen_lab.bench.filter_ways import COSTS, MARGIN, compare_filters, name_of, render

SHAPES = {"input": [1, 64, 12, 12], "weight": [64, 64, 3, 3], "padding": 1}


@pytest.fixture(scope="module")
def row():
    """All ways of a layer."""
    (found,) = compare_filters([BenchLayer.from_dict({"name": "small", **SHAPES})])
    return found


def cost(way):
    return [way[name] for name in COSTS]


def test_the_space_is_algorithms_tiles_points_and_types(row):
    kinds = {(way["algorithm"], way["filter_dtype"]) for way in row["ways"]}
    assert {name for name, _ in kinds} == {"direct", "im2col", "winograd1d", "winograd2d", "mcmr"}
    assert {("mcmr", name) for name in ("float32", *TRIED_FILTER_TYPES)} <= kinds
    nests = {
        (tuple(way["tile"]), way["filter_dtype"])
        for way in row["ways"]
        if way["algorithm"] == "mcmr" and not any(way["points"])
    }
    every = product(range(2, 8), range(2, 8))
    # with one byte, tiles whose error is as large as the output are left out
    assert nests >= {(tile, name) for tile in every for name in ("float32", "float16", "flyte24")}
    assert any(way["points"] == ["gaussian", None] for way in row["ways"])


def test_narrow_filters_have_fewer_bytes_and_larger_errors(row):
    one = {
        way["filter_dtype"]: way
        for way in row["ways"]
        if way["algorithm"] == "mcmr" and way["tile"] == [2, 2] and not any(way["points"])
    }
    size = {name: way["packed_weight_bytes"] for name, way in one.items()}
    assert size["float32"] == 4 * 16 * 64 * 64
    assert 4 * size["flyte24"] == 3 * size["float32"]
    assert 2 * size["float16"] == 2 * size["bfloat16"] == 4 * size["flyte8"] == size["float32"]
    error = {name: way["predicted_error"] for name, way in one.items()}
    assert error["float32"] < error["flyte24"] < error["float16"] < error["bfloat16"]
    assert error["bfloat16"] < error["flyte8"] < 1


def test_every_way_is_worth_having_or_has_one_as_good(row):
    ways = row["ways"]
    best = [way for way in ways if way["best"]]
    assert 10 < len(best) < len(ways) / 10
    for way in ways:
        assert way["best"] == (way["beaten_by"] is None)
        if not way["best"]:
            other = ways[way["beaten_by"]]
            assert other["best"]
            assert all(a <= b * (1 + MARGIN) for a, b in zip(cost(other), cost(way)))
    for one, other in product(best, best):
        assert one is other or not all(map(le, cost(one), cost(other)))
    # none of these types could be left out
    assert {"float32", "float16", "flyte8"} <= {way["filter_dtype"] for way in best}


def test_the_table_has_what_is_worth_having_and_what_people_know(row):
    text = render([row])
    for way in row["ways"]:
        if way["algorithm"] != "mcmr" or way["tile"] != [4, 4] or any(way["points"]):
            continue
        (usual,) = [line for line in text.splitlines() if line.startswith(f"{name_of(way, row)}  ")]
        other = "*" if way["best"] else name_of(row["ways"][way["beaten_by"]], row)
        assert usual.endswith(f"  {other}")
    starred = [line for line in text.splitlines() if line.endswith("*")]
    assert len(starred) == sum(way["best"] for way in row["ways"])
    times = [float(line.split("  *")[0].split()[-1]) for line in starred]
    assert times == sorted(times)
    assert render([row], markdown=True).count("| * |") == len(starred)
    assert "  ms  " not in text
    assert {f"direct, {name}" for name in TRIED_FILTER_TYPES} <= {
        line.split("  ")[0] for line in text.splitlines()
    }


def test_names_have_points_and_types():
    layer = {"weight": [8, 8, 3, 3]}
    way = {"algorithm": "mcmr", "tile": [4, 6], "points": [None, "gaussian"]}
    assert (
        name_of({**way, "filter_dtype": "float32"}, layer) == "mcmr F(4x6,3x3) points by gaussian"
    )
    plain = {**way, "points": [], "filter_dtype": "flyte24"}
    assert name_of(plain, layer) == "mcmr F(4x6,3x3), flyte24"


def lab(folder, shapes, *words):
    (folder / "mine.json").write_text(json.dumps([{"name": "tiny", **shapes}]))
    command = ["lab", "ways", str(folder / "mine.json"), "--compare", "filters", *words]
    return CliRunner().invoke(app, command)


def test_a_tile_is_that_of_every_algorithm(tmp_path):
    result = lab(tmp_path, SHAPES, "--tile", "2", "--results", str(tmp_path / "ways.json"))
    assert result.exit_code == 0, result.output
    document = json.loads((tmp_path / "ways.json").read_text())
    assert document["compare"] == "filters"
    tiles = {(way["algorithm"], tuple(way["tile"] or ())) for way in document["layers"][0]["ways"]}
    assert tiles == {
        ("direct", ()), ("im2col", ()),
        ("winograd1d", (1, 2)), ("winograd2d", (2, 2)), ("mcmr", (2, 2)),
    }  # fmt: skip
    assert "* worth having" in result.output


def test_a_layer_without_tiles_has_direct_convolution(tmp_path):
    shapes = {"input": [1, 16, 9, 9], "weight": [16, 16, 1, 1]}
    result = lab(tmp_path, shapes)
    assert result.exit_code == 0, result.output
    names = [line.split()[0] for line in result.output.splitlines()[3:] if line.endswith("*")]
    assert set(names) <= {"direct", "direct,", "im2col", "im2col,"}


@pytest.mark.thorough
def test_what_is_worth_having_is_measured(tmp_path):
    path = tmp_path / "ways.json"
    words = ("--tile", "2", "--timed", "--rounds", "1", "--results", str(path))
    result = lab(tmp_path, {**SHAPES, "input": [1, 64, 6, 6]}, *words)
    assert result.exit_code == 0, result.output
    (row,) = json.loads(path.read_text())["layers"]
    assert all((way["seconds"] is not None) == way["best"] for way in row["ways"])
    assert "  ms  " in result.output


def test_without_a_margin_the_front_is_paretos():
    costs = [
        (a * b % 7 + 1, b * b % 11 + 1, (a + 3 * b) % 5 + 1) for a in range(6) for b in range(9)
    ]

    def beaten(one):
        better = (other for other in costs if other != one and all(map(le, other, one)))
        return any(better)

    kept = [one for one, best in zip(costs, worth_having(costs)) if best]
    assert sorted(kept) == sorted({one for one in costs if not beaten(one)})
