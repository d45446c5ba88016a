"""Layers of bytes are tuned as those of floats are, and what was measured runs."""

from dataclasses import replace

import numpy as np
import pytest
from conv.conftest import quick_kernels  # noqa: F401

import winogen
from winogen.conv import quantized_planner, wisdom
from winogen.conv.choice import Choice, Cut
from winogen.conv.request import Request
from winogen.errors import InvalidValue
from winogen.records import TARGETS, Machine
from winogen.toolchain import host_target
from winogen.tuning import LayerSearch, search, tune
from winogen.tuning.layers import BenchLayer
from winogen.tuning.quantized import NUMBERS, QuantizedArena, QuantizedScope, fastest

from .test_tuning import file, timer  # noqa: F401

LAYER = {"name": "small", "input": [1, 5, 9, 7], "weight": [6, 5, 3, 3], "padding": 1}
TARGET = host_target()


@pytest.fixture
def problem():
    return BenchLayer.from_dict(LAYER).problem("NCHW", "uint8")


def scope(problem, target=TARGET):
    return QuantizedScope(problem, Request(threads=1), target, Machine())


def test_blocks_and_register_blocks_are_tried(problem):
    where = scope(problem, TARGETS["avx2"])  # tiles of AMX have one register block
    first = where.starting()[0]
    blocks = where.neighbours(first, "blocks")
    assert blocks and all(one.work.block != first.work.block for one in blocks)
    rows = {one.work.spec.rows - first.work.spec.rows for one in where.neighbours(
        first, "register block")}  # fmt: skip
    assert rows and rows <= {-2, -1, 1, 2}
    assert not where.neighbours(first, "tile")


def test_what_wins_is_what_runs(problem, file, quick_kernels):  # noqa: F811
    """Here a slower algorithm in small blocks and short register blocks wins by the clock."""

    def seconds(choice, turn):
        asked = choice.algorithm == "im2col", dict(choice.sizes).get("rows", 99) < 9, choice.cut
        return 1 - 0.2 * sum(map(bool, asked))

    layer = BenchLayer.from_dict(LAYER)
    known = list(
        tune([layer], file, machine=Machine(), seconds=60, dtype="int8", timer=timer(seconds))
    )
    won = known[0].victory.choice
    assert won.algorithm == "im2col" and won.cut and known[0].finished and not known[0].wrong
    wisdom.forget()
    rng = np.random.default_rng(0)
    weight = rng.integers(-128, 128, layer.weight).astype(np.int8)
    x = rng.integers(0, 256, layer.input).astype(np.uint8)
    conv = winogen.QConv2d(weight, padding=1, threads=1)
    plan = conv.plan(x.shape)
    assert plan.measured.seconds == known[0].victory.seconds
    assert (plan.algorithm, plan.sizes) == ("im2col", won.sizes)
    assert conv.bound(x.shape).work.block == won.cut.block
    plain = winogen.QConv2d(weight, padding=1, threads=1, algorithm="direct")
    assert plain.plan(x.shape).measured is None
    assert np.array_equal(conv(x), plain(x))


def test_wrong_results_are_noticed(problem, quick_kernels):  # noqa: F811
    where = scope(problem)
    arena = QuantizedArena(where, timer(lambda choice, turn: 1.0))
    first, *others = where.starting()
    assert arena.admitted([first]) and not arena.wrong
    broken = replace(others[0], work=replace(others[0].work, y_zero=NUMBERS.y_zero + 1))
    assert not arena.admitted([broken]) and arena.wrong == [broken]


def test_a_search_ends(problem, quick_kernels):  # noqa: F811
    where = scope(problem)
    one = LayerSearch(QuantizedArena(where, timer(lambda choice, turn: 1.0)))
    assert list(one.pieces()) and one.finished and one.victory is None
    assert search.GAIN < 1


@pytest.mark.parametrize("choice, able", [
    (Choice("direct", variant="direct_pmaddwd"), True),
    (Choice("direct", variant="direct_pmaddwd", sizes=(("rows", 3),), cut=Cut((2, 2))), True),
    (Choice("direct", variant="direct_pmaddwd", sizes=(("rows", 30),)), False),
    (Choice("direct", variant="direct_pmaddwd", sizes=(("chains", 1),)), False),
    (Choice("direct", variant="direct_vpdpbusd"), False),
    (Choice("direct", variant="depthwise_pmaddwd"), False),
    (Choice("direct", variant="pixels"), False),
    (Choice("mcmr", (2, 2)), False),
])  # fmt: skip
def test_choices_of_unknown_origin(problem, choice, able):
    assert QuantizedScope.applies(choice, problem, TARGETS["avx2"]) == able


def test_entries_of_floats_are_not_those_of_bytes(problem):
    floats = BenchLayer.from_dict(LAYER).problem("NCHW")
    assert wisdom.layer_of(problem, None) != wisdom.layer_of(floats, None)
    assert fastest(problem, "direct", TARGETS["sse2"], Machine()).choice in list(
        quantized_planner.choices(problem.layer, Request("direct"), TARGETS["sse2"])
    )


def test_bytes_have_no_tolerance(file):  # noqa: F811
    with pytest.raises(InvalidValue, match="tolerance: got 1e-05; allowed: None with dtype int8"):
        next(tune([BenchLayer.from_dict(LAYER)], file, machine=Machine(), dtype="int8",
                  tolerance=1e-5))  # fmt: skip
    with pytest.raises(InvalidValue, match='dtype: got \'int16\'; allowed: "float32", "int8"'):
        next(tune([BenchLayer.from_dict(LAYER)], file, machine=Machine(), dtype="int16"))
