"""Regret: the choice against what its rule would have taken, had it known the times."""

import json
from collections import Counter
from functools import partial

import pytest
from typer.testing import CliRunner

from winogen.cli.app import app
from winogen.conv import planner
from winogen.conv.request import Request
from winogen.conv.tolerance import usual_error
from winogen.kernels import algorithms
from winogen.records import Precision
from winogen.tasks import turns
from winogen.toolchain import host_target
from winogen.toolchain.machine import current
from winogen_lab.bench import regret
from winogen_lab.bench.regret import Candidate, Regret


def candidate(name, measured, price):
    return Candidate(name, None, "", 1e-6, price, 1.0, measured)


@pytest.mark.parametrize(
    "ways, best, expected",
    [
        # (time, price) of the choice and the others
        ([(1.0, 1.0), (1.2, 1.0)], 0, 1.0),
        ([(1.2, 1.0), (1.0, 1.0)], 1, 1.2),
        ([(1.17, 1.0), (1.0, 1.18)], 0, 1.0),  # the rule pays for accuracy
        ([(1.3, 1.0), (1.0, 1.18)], 1, 1.3),  # as much as it is worth
        ([(1.3, 1.0), (1.0, 1.39)], 0, 1.0),  # and that is more where more is at stake
        ([(1.2, 1.0), (1.08, 1.0), (1.0, 1.18)], 1, 1.2 / 1.08),
        ([(1.0, 1.18), (1.05, 1.0)], 1, 1.0),  # faster than the rule allows: nothing lost
        ([(1.3, 1.18), (1.05, 1.0), (1.0, 1.18)], 1, 1.3 / 1.05),
    ],
)
def test_the_best_is_what_the_rule_would_have_taken(ways, best, expected):
    found = Regret("layer", tuple(candidate(str(k), *way) for k, way in enumerate(ways)))
    assert found.best is found.candidates[best]
    assert found.regret == pytest.approx(expected)
    assert found.fastest.measured_s == min(time for time, _ in ways)


def test_a_wrong_prediction_hides_no_algorithm(tiny):
    """Of each some take part, the fastest accurate ones, too; of all others the same every time."""
    problem, target = tiny.problem(), host_target()
    request = Request.of(problem.layer, threads=1)

    def found(drawn):
        return regret.contestants(problem, request, target, current(), 1.0, drawn)

    none, some = found(0), found(10)
    first = planner.choose(problem, request, target, current())
    assert none[0].choice == some[0].choice == first.choice
    assert {way.choice for way in none} < {way.choice for way in some}
    assert len(some) == len(none) + 10
    assert [way.choice for way in some] == [way.choice for way in found(10)]
    counts = Counter(way.choice.algorithm for way in none)
    assert set(counts) == set(algorithms(Precision.of("float32"), target))
    assert all(counts[name] >= 2 for name in ("mcmr", "winograd1d", "winograd2d")), counts
    error = partial(planner.predicted_error, problem.layer, target=target)
    for name in ("mcmr", "winograd2d"):
        errors = [error(choice=way.choice) for way in none if way.choice.algorithm == name]
        assert sum(one <= usual_error(problem.layer) for one in errors) >= 2, name


@pytest.mark.thorough
def test_a_sweep_measures_all_that_may_be_the_best(tiny):
    seen = []
    (found,) = regret.sweep([tiny], within=1.02, drawn=0, progress=seen.append)
    problem = tiny.problem()
    request = Request.of(problem.layer, threads=1)
    ranked = planner.ranked(problem, request, host_target(), current())
    near = [way for way in ranked if way.seconds <= 1.02 * ranked[0].seconds]
    assert len(found.candidates) >= len(near) > 1
    first, choice = found.candidates[0], ranked[0].choice
    assert (first.algorithm, first.tile) == (choice.algorithm, choice.tile)
    assert all(0 < one.measured_s < 10 for one in found.candidates)
    assert seen[0].startswith("1/1 tiny") and "heat 3" in seen[-1]


@pytest.mark.thorough
def test_within_a_tolerance_the_best_is_the_fastest(tiny):
    (found,) = regret.sweep([tiny], tolerance=1e-3, within=1.1, drawn=1)
    assert all(one.price == 1 for one in found.candidates) and found.best is found.fastest


def test_heats_keep_the_choice_and_drop_the_slow(tiny, monkeypatch):
    """Times are taken from a clock that every candidate moves on by its own."""
    problem = tiny.problem()
    request = Request.of(problem.layer, threads=1)
    ranked = planner.ranked(problem, request, host_target(), current())[:4]
    prepared = [regret.Prepared(problem, [way], host_target()) for way in ranked]
    costs, clock, runs = [3.0, 1.0, 1.45, 2.0], [0.0], [0, 0, 0, 0]
    for index, one in enumerate(prepared):

        def run(*_, index=index):
            clock[0] += costs[index]
            runs[index] += 1

        monkeypatch.setattr(one, "run", run)
    monkeypatch.setattr(turns.time, "thread_time", lambda: clock[0])
    assert regret.heats(prepared, lambda text: None) == pytest.approx(costs)
    assert runs == [3 * (1 + 3 + 8), 3 * (1 + 3 + 8), 3 * (1 + 3), 3]


@pytest.mark.thorough
def test_the_command_prints_a_row_for_every_layer(tiny, tmp_path):
    rows = [tiny.to_dict(), {**tiny.to_dict(), "name": "other"}]
    (tmp_path / "mine.json").write_text(json.dumps(rows))
    words = [
        "--layers",
        tmp_path / "mine.json",
        "--within",
        "1.0",
        "--drawn",
        "0",
        "--results",
        tmp_path / "out.json",
    ]
    result = CliRunner().invoke(app, ["lab", "regret", *map(str, words)])
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["layer", "tiny", "other", "regret:"]
    document = json.loads((tmp_path / "out.json").read_text())
    assert [one["layer"] for one in document["layers"]] == ["tiny", "other"]
    assert 1 <= document["median"] <= document["worst"]
