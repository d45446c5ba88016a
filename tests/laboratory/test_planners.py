"""Planners of blocks: what they choose is what they say they minimise."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from winogen.cli.app import app
from winogen.conv.choice import Choice, Cut
from winogen.conv.cuts import evaluate, work_of
from winogen.kernels import assign, named
from winogen.kernels.register_blocks import register_blocks, sizes_of
from winogen.records import TARGETS, Machine
from winogen.tuning.layers import load_layers
from winogen_lab.loops import planners
from winogen_lab.loops.planners import PLANNERS, Blocks, Comparison, convolution, planned
from winogen_lab.loops.traffic import levels, slowest_levels, tiles

LAYERS = {layer.name: layer for layer in (*load_layers("thesis27"), *load_layers("resnet50"))}
TARGET, MACHINE = TARGETS["avx512"], Machine()
NAMES = [
    "vgg16-56x56x256-256-k3",
    "vgg16-224x224x3-64-k3",
    "resnet152-7x7x512-512-k3",
    "resnet50-56x56x64-256-k1",
]
each = pytest.mark.parametrize("name", NAMES)
layouts = pytest.mark.parametrize("layout", ["NCHW", "NHWC"])


@each
@layouts
def test_every_planner_decides_everything(name, layout):
    problem = LAYERS[name].problem(layout)
    chosen = planned(problem, TARGET, MACHINE)
    assert tuple(chosen) == PLANNERS
    for choice in chosen.values():
        (way,) = evaluate(problem, [choice], TARGET, MACHINE, None)
        (work,) = way.works(problem)
        assert work.block == choice.cut.block
        assert {**vars(work.tuning), **dict(choice.sizes)} == vars(work.tuning)
    assert planned(problem, TARGET, MACHINE, ["bandwidth"]) == {"bandwidth": chosen["bandwidth"]}


@each
@layouts
def test_the_model_takes_the_least_cycles_of_what_the_planner_compares(name, layout):
    problem = LAYERS[name].problem(layout)
    chosen = planned(problem, TARGET, MACHINE)
    work = assign(work_of(problem, Choice("direct"), TARGET))
    choices = [Choice("direct", sizes=sizes_of(work, block)) for block in register_blocks(work)]
    if named(work.variant).in_lanes == "pixels":  # there is one block then
        choices = []
    ways = evaluate(problem, [*choices, Choice("direct")], TARGET, MACHINE, None)
    best, default = (
        evaluate(problem, [chosen[planner]], TARGET, MACHINE, None)[0].seconds
        for planner in ("model", "default")
    )
    assert best == min(way.seconds for way in ways) <= default == ways[-1].seconds
    assert chosen["default"].sizes == ()


def test_the_rule_chooses_filters_rows_and_the_loop_that_threads_share():
    layer = LAYERS["vgg16-56x56x256-256-k3"]
    one, four = (planners.nest_by_bytes(layer.problem("NHWC"), TARGET, MACHINE, n) for n in (1, 4))
    least = min(levels(one.layer, tile, MACHINE)[::-1] for tile in tiles(one.layer))
    assert levels(one.layer, one.tile, MACHINE)[::-1] == least
    assert (one.shared, one.parts) == ("b", 1)
    assert four.shared == "y" and -(-56 // four.tile.rows) >= 4
    batch = replace(layer, input=(4, *layer.input[1:])).problem("NHWC")
    assert planners.nest_by_bytes(batch, TARGET, MACHINE, 4).shared == "b"


def test_channels_beside_each_other_where_filters_do_not_fit():
    """d0 is the least power of two whose filters fit beside the pixels."""
    problem = LAYERS["vgg16-56x56x256-256-k3"].problem("NHWC")
    small = replace(MACHINE, l2_bytes=96 << 10)
    found = planners.nest_by_bytes(problem, TARGET, small)
    assert found.parts > 1 and found.layer.footprint().total <= small.l2_bytes
    wider = replace(found.layer, block_filters=2 * found.layer.block_filters)
    assert wider.footprint().total > small.l2_bytes


def rows_of(choice, problem, work):
    """Rows of the map in a block, where the map may be one row of all its pixels."""
    high, wide = choice.cut.block
    return high * wide // problem.output_size[1]


def block_of(choice, work):
    (block,) = (block for block in register_blocks(work) if sizes_of(work, block) == choice.sizes)
    return block


@each
@layouts
def test_the_rule_of_the_source(name, layout):
    """The fewest loads whose footprint fits L2; then the fewest bytes from memory, L3, L2."""
    problem = LAYERS[name].problem(layout)
    work = assign(work_of(problem, Choice("direct"), TARGET))
    for machine in (MACHINE, replace(MACHINE, l2_bytes=1 << 18)):
        choice = planned(problem, TARGET, machine, ["kelefouras"])["kelefouras"]
        block = block_of(choice, work)
        fits = [
            other
            for other in register_blocks(work)
            if convolution(problem, work, other).footprint().total <= machine.l2_bytes
        ]
        assert (
            block == fits[0]
            if fits
            else block.vectors == min(other.vectors for other in register_blocks(work))
        )
        layer = convolution(problem, work, block)
        bytes_by_rows = {
            tile.rows: levels(layer, tile, machine)[::-1]
            for tile in tiles(layer, [layer.block_filters])
        }
        rows = rows_of(choice, problem, work)
        assert bytes_by_rows[rows] == min(bytes_by_rows.values())
        assert rows == max(r for r, x in bytes_by_rows.items() if x == bytes_by_rows[rows])


@each
@layouts
def test_the_rule_of_bandwidths(name, layout):
    problem = LAYERS[name].problem(layout)
    work = assign(work_of(problem, Choice("direct"), TARGET))
    choice = planned(problem, TARGET, MACHINE, ["bandwidth"])["bandwidth"]
    cycles = {}
    for block in register_blocks(work):
        layer = convolution(problem, work, block)
        for tile in tiles(layer, [layer.block_filters]):
            cycles[block, tile.rows] = slowest_levels(layer, tile, MACHINE)
    here = cycles[block_of(choice, work), rows_of(choice, problem, work)]
    assert here == min(cycles.values())


def test_regret_is_the_time_over_the_fastest():
    def blocks(seconds):
        return Blocks((14, 2), (8, 56), 1.0, seconds)

    one = Comparison("a", {"model": blocks(2.0), "kelefouras": blocks(3.0)}, blocks(2.0))
    two = Comparison("b", {"model": blocks(2.2), "kelefouras": blocks(2.0)}, blocks(2.0))
    assert planners.summary([one, two]) == {
        "model": {"median": pytest.approx(1.05), "worst": pytest.approx(1.1)},
        "kelefouras": {"median": pytest.approx(1.25), "worst": 1.5},
    }
    assert str(blocks(1.0)) == "14x2 in 8x56"


def test_what_was_chosen_is_measured_to_the_end(tiny, monkeypatch):
    """The planners' choices take part in all heats, however slow they are."""
    problem = tiny.problem()
    field = [Choice("direct", cut=Cut((rows, 11))) for rows in (9, 1, 3)]
    chosen = {"model": field[0], "kelefouras": field[1]}
    monkeypatch.setattr(planners, "planned", lambda *arguments: chosen)
    monkeypatch.setattr(planners, "_near", lambda *arguments: field[2:])
    seen = {}

    def heats(prepared, say, choices):
        seen["blocks"] = [one.calls[0].work.block for one in prepared]
        seen["choices"] = choices
        return [3.0, 4.0, 2.0]

    monkeypatch.setattr(planners, "heats", heats)
    (one,) = planners.compare([tiny])
    assert seen == {"blocks": [(9, 11), (1, 11), (3, 11)], "choices": {0, 1}}
    assert {name: one.regret(name) for name in chosen} == {"model": 1.5, "kelefouras": 2.0}
    assert one.fastest.outputs == (3, 11) and problem.output_size == (9, 11)


@pytest.mark.parametrize("planner, names", [
    ("kelefouras", ["model", "default", "kelefouras", "bandwidth"]),
    ("bandwidth", ["model", "default", "bandwidth"]),
])  # fmt: skip
def test_the_command_prints_every_planner(planner, names, tiny, tmp_path):
    (tmp_path / "mine.json").write_text(json.dumps([tiny.to_dict()]))
    words = [
        "--layers",
        tmp_path / "mine.json",
        "--planner",
        planner,
        "--results",
        tmp_path / "out",
    ]
    result = CliRunner().invoke(app, ["lab", "regret", *map(str, words)])
    assert result.exit_code == 0, result.output
    head, row, *totals = result.stdout.splitlines()
    assert head.split()[3::2] == names and row.split()[0] == "tiny"
    assert [line.split(":")[0] for line in totals] == names
    document = json.loads((tmp_path / "out").read_text())
    assert list(document["planners"]) == names
    assert set(document["layers"][0]["regret"]) == set(names)
    assert all(value >= 1 for value in document["layers"][0]["regret"].values())


@pytest.mark.parametrize(
    "words, message",
    [
        (["--planner", "x"], "planner: got 'x'; allowed: model, kelefouras, bandwidth"),
        (["--planner", "bandwidth", "--threads", "2"], "threads: got 2; allowed: 1 with --planner"),
        (["--planner", "kelefouras", "--tolerance", "1e-5"], "tolerance: got 1e-05; allowed: none"),
    ],
)
def test_what_a_rule_cannot_take_into_account_is_refused(words, message):
    result = CliRunner().invoke(app, ["lab", "regret", *words])
    assert result.exit_code == 2
    assert message in result.output + (result.stderr if result.stderr_bytes else "")
