"""Tuning: what is tried, what is believed, and that it can stop at any time.

Seconds come from fake timers: every choice has its own, whatever the machine does.
"""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conv.conftest import quick_kernels  # noqa: F401
from typer.testing import CliRunner

import winogen
from winogen.cli.app import app
from winogen.conv import execute, planner, wisdom
from winogen.conv.choice import Choice
from winogen.conv.cuts import MeasuredChoice
from winogen.conv.request import Request
from winogen.conv.tolerance import MARGIN, PATIENCE, TOLERANCE
from winogen.errors import BuildError, CacheUnavailable, InvalidValue
from winogen.kernels import algorithms
from winogen.records import Machine
from winogen.toolchain import host_target
from winogen.tuning import Arena, LayerSearch, budget, space, tune
from winogen.tuning.chosen import chosen_layers
from winogen.tuning.layers import BenchLayer

TARGET = host_target()


@pytest.fixture
def file(tmp_path, monkeypatch):
    path = tmp_path / "wisdom.jsonl"
    monkeypatch.setenv("WINOGEN_WISDOM", str(path))
    wisdom.forget()
    yield path
    wisdom.forget()


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Few candidates, most of which need no kernel of their own."""
    monkeypatch.setattr(space, "_MOST", 2)
    monkeypatch.setattr(space, "COORDINATES", {"blocks": 3, "at run time": 2})


def scope(layer, **options):
    problem = layer.problem()
    request = Request.of(problem.layer, **{"threads": 1, **options})
    return space.Scope(problem, request, TARGET, Machine())


def timer(seconds):
    """A timer that knows the seconds of every choice; ``seconds(choice, turn)``."""
    count = iter(range(10**6))

    def times(contestants, rounds):
        turn = next(count)
        return [[seconds(one.candidate.choice, turn)] * rounds for one in contestants]

    return times


def searched(layer, seconds, **options):
    """The search of a layer to its end, and all its victories."""
    won = []
    search = LayerSearch(Arena(scope(layer, **options), timer(seconds)), won.append)
    for _ in search.pieces():
        pass
    return search, won


# ---- what is tried -------------------------------------------------------------------------------


def test_all_algorithms_and_variants_are_looked_at(tiny):
    choices = set(space._of_all_algorithms(scope(tiny)))
    assert {choice.algorithm for choice in choices} == {*algorithms()}
    few = BenchLayer.from_dict(
        {"name": "few", "input": [1, 40, 9, 20], "weight": [2, 40, 3, 3], "stride": 5}
    )
    variants = {(one.algorithm, one.variant) for one in space._of_all_algorithms(scope(few))}
    expected = {("direct", ""), ("direct", "direct"), ("im2col", ""), ("loops", "")}
    assert variants == expected


@pytest.mark.parametrize("tolerance", (None, 2e-6))
def test_nothing_is_tried_that_is_less_accurate_than_what_was_asked_for(
    tiny, monkeypatch, tolerance
):
    monkeypatch.setattr(space, "_MOST", 100)
    monkeypatch.setattr(space, "_WITHIN", 100.0)
    where = scope(tiny, tolerance=tolerance)
    ways = space.starting(where)
    first = planner.choose(where.problem, where.request, TARGET, Machine())
    assert ways[0].choice == first.choice and len(ways) > 10
    assert len({way.choice for way in ways}) == len(ways)
    most = (tolerance or TOLERANCE) / MARGIN
    errors = [planner.predicted_error(where.problem.layer, way.choice, TARGET) for way in ways]
    assert max(errors) <= most
    # What is less accurate than is usual counts as the planner's rule has it.
    counts = {where.price(way.choice) for way in ways}
    assert min(counts) == 1.0 and (max(counts) > PATIENCE) == (tolerance is None)


def test_neighbours_differ_in_one_coordinate(tiny, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(space, "_BESIDE", 100.0)
    where = scope(tiny)
    first = space.starting(where)[0]
    names = {
        "edge": {"edge"}, "border": {"border"}, "tile": {"tile", "points"}, "points": {"points"},
        "blocks": {"cut"},
    }  # fmt: skip
    for coordinate in space.COORDINATES:
        others = space.neighbours(where, first, coordinate)
        assert len(others) <= space.COORDINATES[coordinate]
        for other in others:
            changed = {
                name
                for name, value in vars(other.choice).items()
                if value != getattr(first.choice, name)
            }
            assert changed and changed <= names.get(coordinate, {"sizes"}), coordinate
        if coordinate not in ("parameters", "others", "points"):
            assert others, coordinate


def test_sizes_that_are_named_and_as_usual_make_no_difference(tiny, monkeypatch):
    """The planner's choice may name a whole register block, of which one size is the variant's."""
    monkeypatch.undo()
    where = scope(tiny)
    first = next(way for way in space.starting(where) if way.choice.algorithm == "mcmr")
    usual = first.works(where.problem)[0].tuning
    (named_,) = where.promising([replace(first.choice, sizes=(("chains", usual.chains),))], 1e9)
    for coordinate in space.COORDINATES:
        of_both = [
            [(way.choice.sizes, way.choice.cut) for way in space.neighbours(where, one, coordinate)]
            for one in (first, named_)
        ]
        if coordinate not in ("blocks", "border", "edge", "tile", "points"):
            assert of_both[0] == of_both[1], coordinate


# ---- what is believed ----------------------------------------------------------------------------


def test_a_candidate_that_wins_is_kept_and_runs(tiny, file):
    planned = planner.choose(*scope(tiny)).choice

    def seconds(choice, turn):
        return 1.0 if choice == planned else 0.9 if choice.cut is None else 0.8

    (outcome,) = tune([tiny], file, machine=Machine(), timer=timer(seconds))
    assert outcome.finished and not outcome.wrong and outcome.candidates > 2
    assert outcome.victory.choice.cut and outcome.ratio == pytest.approx(0.8)
    (line,) = wisdom.read(file)[0]
    assert line["measured"]["seconds"] == pytest.approx(0.8)
    known = wisdom.current(TARGET)
    where = scope(tiny)
    best = planner.ranked(*where, wisdom=known)[0]
    assert best.choice == outcome.victory.choice and best.measured.gain == pytest.approx(1.25)


def test_parts_of_transposed_layers_are_tuned_and_run(file, monkeypatch):
    monkeypatch.setattr(space, "COORDINATES", {"blocks": 2})
    layer = BenchLayer.from_dict({"name": "up", "input": [1, 16, 7, 8], "weight": [16, 16, 3, 2],
                                  "stride": [2, 1], "transposed": True})  # fmt: skip

    def seconds(choice, turn):
        return 1.0 if choice.cut is None else 0.5

    outcomes = list(tune([layer], file, machine=Machine(), timer=timer(seconds)))
    assert {one.name for one in outcomes} == {"up, all phases", "up, phase 0,0", "up, phase 1,0"}
    assert all(one.victory and one.victory.choice.cut and not one.wrong for one in outcomes)
    weight = np.ones(layer.weight, np.float32)
    for algorithm, count in (("mcmr", 1), ("direct", 2)):
        made = winogen.ConvTranspose2d(weight, **layer.options, threads=1, algorithm=algorithm)
        plans = made.plan(layer.input).parts
        gains = [plan.measured and plan.measured.gain for plan in plans]
        assert gains == [pytest.approx(2.0)] * count, algorithm
    # Of another layer nothing is known, nor of an ordinary one like a part of it.
    other = winogen.ConvTranspose2d(weight, stride=(2, 1), threads=1).plan((1, 16, 7, 9))
    assert other.parts[0].measured is None
    (record, *_) = wisdom.read(file)[0]
    assert record["layer"]["phases"] in ("all", "one") and record["layer"]["whole"] == [15, 9]


def test_wrong_phases_of_transposed_layers_are_found_out(monkeypatch):
    """Of an array of all phases, those that a part computes are compared."""
    layer = BenchLayer.from_dict({"name": "up", "input": [2, 8, 5, 6], "weight": [8, 8, 4, 4],
                                  "stride": 2, "transposed": True})  # fmt: skip
    for _, where in budget.scopes([layer], Machine(), layouts=("NCHW", "NHWC"))[::3]:
        arena = Arena(where)
        first = space.starting(where)[0]
        (one,) = arena.admitted([first])
        right = one.run

        def wrong(arena=arena, right=right):
            right()
            arena._results[-1, -1, -1, -1] += 1.0

        one.run = wrong
        assert not arena._is_right(one)
        one.run = right
        assert arena._is_right(one)


@pytest.mark.parametrize("least", (0.98, 1.0, 1.2))
def test_a_candidate_that_does_not_win_by_3_percent_is_not_kept(tiny, file, least):
    planned = planner.choose(*scope(tiny)).choice
    (outcome,) = tune(
        [tiny], file, machine=Machine(),
        timer=timer(lambda choice, turn: 1.0 if choice == planned else least),
    )  # fmt: skip
    assert outcome.finished and outcome.victory is None and not file.exists()


@pytest.mark.parametrize("lost", (0, 1))
def test_a_candidate_that_loses_one_of_two_duels_is_not_kept(tiny, file, lost):
    """It seems to win whenever it meets others, but not always against the planner's choice."""
    planned = planner.choose(*scope(tiny)).choice
    duels = [0]

    def times(contestants, rounds):
        choices = [one.candidate.choice for one in contestants]
        if rounds == 9:
            duels[0] += 1
        slow = rounds == 9 and duels[0] % 2 == (lost + 1) % 2
        return [[1.0 if c == planned or slow else 0.5] * rounds for c in choices]

    (outcome,) = tune([tiny], file, machine=Machine(), timer=times)
    assert duels[0] >= 1 and outcome.victory is None and not file.exists()


def test_accuracy_counts_as_in_the_planners_rule(tiny, monkeypatch):
    """What is less accurate than is usual must be faster by more than the price."""
    monkeypatch.setattr(space, "_MOST", 100)
    monkeypatch.setattr(space, "COORDINATES", {})
    monkeypatch.setattr(space.Scope, "price", lambda self, choice: 1.18 if choice.sizes else 1.0)
    planned = planner.choose(*scope(tiny))
    coarse, fine = (replace(planned.choice, sizes=(("depth", depth),)) for depth in (64, 128))
    fine = replace(planned.choice, border="buffer")
    where = scope(tiny)
    monkeypatch.setattr(
        space, "starting", lambda _: [planned, *where.promising([coarse, fine], 1e9)]
    )
    for of_coarse, winner in ((0.8, fine), (0.7, coarse)):
        times = {planned.choice: 1.0, coarse: of_coarse, fine: 0.9}
        _, won = searched(tiny, lambda choice, turn, times=times: times[choice])
        assert [victory.choice for victory in won] == [winner]


def test_wrong_results_are_found_out(tiny, monkeypatch, file):
    planned = planner.choose(*scope(tiny)).choice
    run = execute.Prepared.run

    def spoilt(self, x, packed, bias, output, *others):
        run(self, x, packed, bias, output, *others)
        if self.choice != planned:
            output[0, 3, 2, 1] += 0.1

    monkeypatch.setattr(execute.Prepared, "run", spoilt)
    (outcome,) = tune([tiny], file, machine=Machine(), timer=timer(lambda choice, turn: 0.5))
    assert outcome.wrong and outcome.candidates == 0 and outcome.victory is None


def test_what_does_not_compile_is_left_out(tiny, monkeypatch):
    def kernel(spec, environment):
        if spec.tuning.rows == 3:
            raise BuildError("no")
        return compiled(spec, environment)

    from winogen.tuning import arena

    compiled = execute.kernel
    monkeypatch.setattr(arena, "kernel", kernel)
    where = scope(tiny)
    planned = planner.choose(*where)
    others = where.promising([replace(planned.choice, sizes=(("rows", 3),))], 1e9)
    admitted = Arena(where).admitted([planned, *others])
    assert [one.candidate for one in admitted] == [planned]


def test_what_won_once_and_does_not_any_more_is_removed(tiny, file):
    where = scope(tiny)
    old = replace(planner.choose(*where).choice, border="buffer")
    measured = MeasuredChoice(1.0, 2.0, 1, "2026-01-01")
    other = wisdom.record(tiny.with_batch(2).problem(), None, TARGET, old, measured)
    wisdom.add([wisdom.record(where.problem, None, TARGET, old, measured), other], file)
    tried = []

    def seconds(choice, turn):
        tried.append(choice)
        return 1.0

    (outcome,) = tune([tiny], file, machine=Machine(), timer=timer(seconds))
    assert outcome.finished and old in tried
    assert wisdom.read(file)[0] == [other]
    # One that still wins stays, with the times of today.
    wisdom.add([wisdom.record(where.problem, None, TARGET, old, measured)], file)
    (outcome,) = tune(
        [tiny], file, machine=Machine(),
        timer=timer(lambda choice, turn: 0.5 if choice == old else 1.0),
    )  # fmt: skip
    assert outcome.victory.choice == old
    assert {line["measured"]["seconds"] for line in wisdom.read(file)[0]} == {0.5, 1.0}


# ---- time ----------------------------------------------------------------------------------------


def layers_like(tiny, count):
    return [replace(tiny, name=f"layer {i}", input=(1 + i, 16, 9, 11)) for i in range(count)]


@pytest.mark.thorough
def test_time_is_shared_fairly_and_ends(tiny, file, monkeypatch):
    """Every measurement takes a second of a clock of ours."""
    clock = [0.0]
    monkeypatch.setattr(budget.time, "monotonic", lambda: clock[0])

    def times(contestants, rounds):
        clock[0] += 1.0
        return [[1.0] * rounds for _ in contestants]

    said = []
    outcomes = list(
        tune(
            layers_like(tiny, 3), file, machine=Machine(), seconds=5.0, timer=times,
            progress=lambda spent, text: said.append((spent, text)),
        )
    )  # fmt: skip
    assert [one.name for one in outcomes] == ["layer 0", "layer 1", "layer 2"]
    spent = [one.spent for one in outcomes]
    assert 5.0 <= sum(spent) <= 7.0 and max(spent) - min(spent) <= 2.0
    assert said[0][1].startswith("layer 0 NCHW: ") and any("layer 2" in text for _, text in said)


def test_ctrl_c_ends_it_with_what_there_is(tiny, file):
    first, second = layers_like(tiny, 2)
    count = [0]

    def times(contestants, rounds):
        count[0] += 1
        if count[0] > 6:
            raise KeyboardInterrupt
        return [[0.5 if index else 1.0] * rounds for index, _ in enumerate(contestants)]

    outcomes = list(tune([first, second], file, machine=Machine(), seconds=1e9, timer=times))
    assert len(outcomes) == 2 and any(one.victory for one in outcomes)
    assert len(wisdom.read(file)[0]) == sum(one.victory is not None for one in outcomes)


KILLED = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from winogen.tuning.layers import BenchLayer
from winogen.tuning import space, tune
from winogen.records import Machine
space.COORDINATES = {"blocks": 3}
starting = space.starting
space.starting = lambda scope: starting(scope)[:1]

def times(contestants, rounds):
    return [[0.5 ** (index + 1)] * rounds for index, _ in enumerate(contestants)]

layers = [
    BenchLayer.from_dict({"name": f"layer {i}", "input": [1, 16, 9 + i, 11],
                          "weight": [16, 16, 1, 1]})
    for i in range(50)
]
for outcome in tune(layers, Path(sys.argv[2]), machine=Machine(), seconds=1e9, timer=times):
    pass
"""


@pytest.mark.thorough
def test_a_kill_leaves_a_file_that_is_whole(tmp_path):
    """However it ends, every line is there that was won."""
    file = tmp_path / "wisdom.jsonl"
    tests = str(Path(__file__).parents[1])
    words = [sys.executable, "-c", KILLED, tests, str(file)]
    process = subprocess.Popen(words, env={**os.environ, "WINOGEN_WISDOM": str(file)})
    try:
        while len(file.read_text().splitlines() if file.exists() else []) < 3:
            assert process.poll() is None
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(60)
    records, damaged = wisdom.read(file)
    assert len(records) >= 3 and not damaged
    # What it was just writing is all that it leaves, and nobody waits for its lock.
    wisdom.add([{**records[0], "measured": {**records[0]["measured"], "seconds": 0.1}}], file)
    assert len(wisdom.read(file)[0]) == len(records)


@pytest.mark.thorough
def test_commands_at_once_end_by_ctrl_c_with_what_they_have(tiny, tmp_path):
    """Two of them, on one file, as from two terminals; compilers get the signal, too.

    With no kernel at hand: else they might have ended before.
    """
    (tmp_path / "mine.json").write_text(json.dumps([tiny.to_dict()]))
    file = tmp_path / "wisdom.jsonl"
    words = [sys.executable, "-m", "winogen", "tune", str(tmp_path / "mine.json")]
    words += ["--seconds", "600"]
    commands = [
        subprocess.Popen(
            words,
            env={
                **os.environ,
                "WINOGEN_WISDOM": str(file),
                "WINOGEN_CACHE": str(tmp_path / "cache"),
            },
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    try:
        for command in commands:
            assert any("NCHW: " in text for text in iter(command.stderr.readline, ""))
        for command in commands:
            os.killpg(command.pid, signal.SIGINT)
        for command in commands:
            out, err = command.communicate(timeout=120)
            assert command.returncode == 0, err
            assert "of 1 layers are faster than planned" in out and "Traceback" not in err
    finally:
        for command in commands:
            if command.poll() is None:
                os.killpg(command.pid, signal.SIGKILL)
                command.communicate()
    assert not file.exists() or not wisdom.read(file)[1]


def test_a_file_that_cannot_be_written_is_refused_before_any_work(tiny, tmp_path):
    (tmp_path / "plain").write_text("")
    outcomes = tune([tiny], tmp_path / "plain" / "wisdom.jsonl", machine=Machine(), timer=None)
    with pytest.raises(CacheUnavailable, match="cannot be written"):
        next(outcomes)


# ---- layers --------------------------------------------------------------------------------------


def test_layers_are_those_of_sets_and_files(tiny, tmp_path):
    (tmp_path / "mine.json").write_text(json.dumps([tiny.to_dict()]))
    assert chosen_layers(str(tmp_path / "mine.json")) == [tiny]
    assert all("s2" in one.name for one in chosen_layers("resnet50", "s2"))
    with pytest.raises(InvalidValue, match=r"layers: got 'resnet51'; allowed: .*unet"):
        chosen_layers("resnet51")
    with pytest.raises(InvalidValue, match="only: got 'nothing'"):
        chosen_layers("resnet50", "nothing")


def test_layers_of_a_net_are_its_convolutions_each_once():
    pytest.importorskip("torch")
    layers = chosen_layers("resnet18")
    assert len(layers) == len({one.name for one in layers}) == 11
    assert layers[0].name == "resnet18-224x224x3-64-k7-s2"
    assert layers[0].input == (1, 3, 224, 224) and layers[0].stride == (2, 2)


def test_layers_of_an_onnx_file(tmp_path):
    onnx = pytest.importorskip("onnx")
    weight = np.ones((8, 4, 3, 3), np.float32)
    nodes = [
        onnx.helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1]),
        onnx.helper.make_node("Relu", ["y"], ["z"]),
    ]
    graph = onnx.helper.make_graph(
        nodes, "g", [onnx.helper.make_tensor_value_info("x", 1, [1, 4, 10, 12])],
        [onnx.helper.make_tensor_value_info("z", 1, [1, 8, 10, 12])],
        [onnx.numpy_helper.from_array(weight, "w")],
    )  # fmt: skip
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    onnx.save(model, tmp_path / "small.onnx")
    (layer,) = chosen_layers(str(tmp_path / "small.onnx"))
    assert (layer.name, layer.input, layer.padding) == (
        "small-10x12x4-8-k3", (1, 4, 10, 12), (1, 1),
    )  # fmt: skip


def test_layers_that_differ_in_padding_have_names_of_their_own(tmp_path):
    onnx = pytest.importorskip("onnx")
    weight, value = np.ones((8, 8, 3, 3), np.float32), onnx.helper.make_tensor_value_info
    nodes = [
        onnx.helper.make_node("Conv", ["x", "w"], [f"y{pad}"], pads=[pad] * 4) for pad in (0, 1)
    ]
    graph = onnx.helper.make_graph(
        nodes, "g", [value("x", 1, [1, 8, 10, 10])],
        [value("y0", 1, [1, 8, 8, 8]), value("y1", 1, [1, 8, 10, 10])],
        [onnx.numpy_helper.from_array(weight, "w")],
    )  # fmt: skip
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    onnx.save(model, tmp_path / "two.onnx")
    names = [one.name for one in chosen_layers(str(tmp_path / "two.onnx"))]
    assert names == ["two-10x10x8-8-k3-p0", "two-10x10x8-8-k3-p1"]


# ---- the command ---------------------------------------------------------------------------------


def command(*words):
    return CliRunner().invoke(app, ["tune", *map(str, words)])


def test_the_command_tunes_merges_and_exports(tiny, file, tmp_path, monkeypatch):
    (tmp_path / "mine.json").write_text(json.dumps([tiny.to_dict()]))
    halves = timer(lambda choice, turn: 0.5 if choice.cut else 1.0)
    monkeypatch.setattr("winogen.tuning.arena.in_turns", None)
    make = budget.Arena
    monkeypatch.setattr(budget, "Arena", lambda scope, timer: make(scope, halves))
    shipped = tmp_path / "shipped.jsonl"
    result = command(
        tmp_path / "mine.json", "--export", shipped, "--results", tmp_path / "out.json"
    )
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()  # progress, where it takes longer, goes to stderr
    assert lines[0].split() == ["layer", "planner", "ms", "tuned", "ms", "ratio", "choice"]
    assert lines[1].split()[:5] == ["tiny", "NCHW", "1000", "500", "0.50"]
    assert "1 of 1 layers are faster than planned" in result.output
    assert shipped.read_text() == file.read_text() and shipped.stat().st_mode & 0o777 == 0o644
    (row,) = json.loads((tmp_path / "out.json").read_text())["layers"]
    assert row["ratio"] == 0.5 and "blocks" in row["choice"] and row["finished"]
    file.unlink()
    result = command("--merge", shipped, "--merge", shipped)
    assert result.exit_code == 0 and "1 new entries in" in result.output
    assert file.read_text() == shipped.read_text()


@pytest.mark.parametrize(
    "words, message",
    [
        ((), "layers: got none; allowed: layers to tune, --merge or --export"),
        (("vgg16", "--layout", "CHWN"), "layout: got 'CHWN'; allowed: NCHW, NHWC, both"),
        (("vgg16", "--tolerance", "-1"), "tolerance: got -1.0"),
        (("vgg16", "--seconds", "inf"), "seconds: got inf"),
        (("--merge", "missing"), "merge: got 'missing'"),
    ],
)
def test_wrong_words_are_refused(file, words, message):
    result = command(*words)
    assert result.exit_code == 2 and message in result.output


def test_without_wisdom_nothing_is_tuned(monkeypatch):
    monkeypatch.setenv("WINOGEN_WISDOM", "0")
    result = command("vgg16")
    assert result.exit_code == 2 and "WINOGEN_WISDOM: got '0'" in result.output


def test_a_choice_is_described_by_what_is_unusual():
    from winogen.cli.tune import describe

    assert describe(Choice("direct")) == "direct"
    assert describe(Choice("direct", variant="pixels", border="buffer")) == "pixels border buffer"
