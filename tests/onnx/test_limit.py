"""`optimize` of ONNX models with few seconds, by a clock that tests move."""

from contextlib import contextmanager

import numpy as np
import pytest

import winogen.onnx
from winogen.errors import BuildError, InvalidType, InvalidValue
from winogen.graph import compiling
from winogen.onnx import measuring, planning, report
from winogen.onnx.rewrite import rewrite
from winogen.tasks import limit

from .nets import data
from .test_measuring import SLOWER, chain, check

CHANNELS = (4, 6, 8, 16)


@pytest.fixture
def now(clock, monkeypatch):
    """Seconds, in a list: a layer takes ten of them to be measured."""
    seconds = [0.0]
    clock({"v1": SLOWER})  # the smallest
    fake = measuring.duel

    def ten_seconds(*args):
        seconds[0] += 10
        return fake(*args)

    monkeypatch.setattr(measuring, "duel", ten_seconds)
    monkeypatch.setattr(limit, "clock", lambda: seconds[0])
    monkeypatch.setattr(limit, "is_every_layer", lambda: False)
    monkeypatch.setenv("WINOGEN_WISDOM", "0")
    return seconds


@pytest.mark.parametrize("seconds, measured", [(0, []), (15, ["v5", "v3"])])
def test_what_no_seconds_are_left_for_runs_as_predicted(
    now, session, seconds, measured, monkeypatch
):
    monkeypatch.setattr(compiling, "at_hand", lambda spec: True)
    net, model = chain(channels=CHANNELS)
    result = rewrite(model, seconds=seconds)
    assert list(result.layers) == measured
    assert result.convolutions == 3 and len(result.predicted) == 3 - len(measured)
    text = f"  {len(result.predicted)} layers run as predicted, since no seconds were left"
    assert text in str(result) and result.whole and result.verdict.sizes
    x = np.random.default_rng(2).standard_normal((2, 4, 12, 14), np.float32)
    (ours,), (theirs,) = (
        session(one).run(None, {"x": x}) for one in (result.model, rewrite(model).model)
    )
    assert np.abs(ours - theirs).max() <= 1e-5 * np.abs(theirs).max()
    check(net, model, result, session)


def test_a_report_takes_as_long_as_one_says(now, monkeypatch):
    monkeypatch.setattr(compiling, "at_hand", lambda spec: True)
    _, model = chain(channels=CHANNELS)
    made = report(model, seconds=15)
    assert len(made.predicted) == 1
    assert "1 layers run as predicted, since no seconds were left" in str(made)
    assert not report(model, seconds=None).predicted


def test_with_enough_seconds_nothing_is_predicted(now, session):
    _, model = chain(channels=CHANNELS)
    results = [rewrite(model, seconds=seconds) for seconds in (1e6, None)]
    assert all(set(one.layers) >= {"v1", "v3", "v5"} and not one.predicted for one in results)
    assert len({one.model.SerializeToString(deterministic=True) for one in results}) == 1
    assert results[0].refusals == results[1].refusals != ()


def test_layers_stay_whose_kernels_no_seconds_are_left_to_compile(now, monkeypatch):
    """With none there is none; with some, the largest layers have theirs."""
    _, model = chain(channels=CHANNELS)
    monkeypatch.setattr(compiling, "at_hand", lambda spec: False)
    result = rewrite(model, seconds=0)
    assert result.is_original and not result.layers
    stays = [refusal for refusal in result.refusals if "no time was left to compile" in refusal]
    assert len(stays) == 3
    made, kernel, as_completed = [], compiling.kernel, compiling.as_completed

    def first_only(spec, environment):
        if made and spec not in made:
            raise BuildError("not before time is over")
        made.append(spec)
        return kernel(spec, environment)

    def first_alone(jobs, seconds=None):
        if seconds is None:
            yield from as_completed(jobs)
            return
        first = next(iter(jobs))
        first.result()
        now[0] += 100
        yield first
        raise TimeoutError

    monkeypatch.setattr(compiling, "at_hand", lambda spec: spec in made)
    monkeypatch.setattr(compiling, "kernel", first_only)
    monkeypatch.setattr(compiling, "as_completed", first_alone)
    monkeypatch.setattr(compiling.os, "cpu_count", lambda: 1)
    result = rewrite(model, seconds=50)
    stays = [refusal for refusal in result.refusals if "no time was left to compile" in refusal]
    assert 0 < len(stays) < 3 and result.convolutions == 3 - len(stays) and result.verdict.sizes
    assert not any(refusal.startswith("conv_4") for refusal in stays)  # the largest


def test_a_session_that_plans_for_new_sizes_is_not_silent(session, monkeypatch):
    net, model = chain(channels=(4, 6))
    faster, said = winogen.onnx.optimize(model), []

    @contextmanager
    def lines(what):
        said.append(what)
        yield

    monkeypatch.setattr(planning, "lines", lines)
    running = session(faster)
    for batch in (1, 1, 3):
        running.run(None, {"x": data(net, batch, 4, 12, 14)})
    assert said == ["planning and compiling for inputs of new sizes"] * 2


@pytest.mark.parametrize("seconds, error", [(-1, InvalidValue), ("30", InvalidType)])
def test_other_seconds_are_refused_before_the_model_is_read(seconds, error):
    with pytest.raises(error, match=r"^seconds: got .*; allowed: None, or a number"):
        report("no such file", seconds=seconds)
    with pytest.raises(error, match=r"^seconds: got .*; allowed: None, or a number"):
        winogen.onnx.optimize("no such file", seconds=seconds)
