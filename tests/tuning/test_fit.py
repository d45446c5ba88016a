"""Constants that are fitted explain what was measured."""

import json
from dataclasses import asdict, fields, replace

import pytest
from conv.conftest import quick_kernels  # noqa: F401
from typer.testing import CliRunner

from winogen.cli.app import app
from winogen.conv import Layer, gradient_planner, planner
from winogen.conv.request import Request
from winogen.records import TARGETS, Costs, Machine
from winogen.toolchain import machine
from winogen.toolchain.calibrate import MeasuredMachine
from winogen.tuning.fit import LAYOUTS, TimedSample, fit, measure, residual
from winogen.tuning.layers import layer_sets, load_layers
from winogen.tuning.quantized import fastest
from winogen.tuning.sample import calls, gradients, quantized

# It multiplies all types of numbers, and its register blocks of regions have two chains.
HALVES = replace(TARGETS["avx512"], core="zen4").adjusted("+fp16")


def samples(machine, target=TARGETS["avx512"]):
    """What a machine would take exactly, if the model were right."""
    for channels, size, layout in ((64, 56, "NCHW"), (128, 28, "NHWC"), (32, 112, "NCHW")):
        layer = Layer.of((channels, channels, 3, 3), "float32", padding=1, layout=layout)
        shape = (1, size, size, channels) if layout == "NHWC" else (1, channels, size, size)
        problem = layer.problem(shape)
        for candidate in planner.ranked(problem, Request.of(layer, threads=1), target, most=4):
            one = TimedSample(tuple(candidate.works(problem)), 1.0)
            yield replace(one, seconds=one.cycles(machine) / (machine.clock_ghz * 1e9))


def test_a_machine_is_found_again_by_its_times():
    truth = replace(
        Machine(l3_rate=9.0), costs=replace(Costs(), store=1.6, instruction=0.6, arrange=1.1)
    )
    measured = list(samples(truth))
    found = fit(measured, Machine())
    assert found.before > 0.05 and found.after < found.before / 4
    assert residual(measured, truth) < 1e-9
    costs = found.machine.costs
    assert found.after == costs.residual == residual(measured, found.machine)
    assert costs.provenance.startswith(f"fitted to {len(measured)} calls on ")
    assert found.families.keys() == {one.family for one in measured}
    assert sum(calls for calls, _, _ in found.families.values()) == len(measured)
    # What no call shows stays.
    assert costs.depthwise == Costs().depthwise and costs.barrier == Costs().barrier


def test_constants_that_fit_stay():
    found = fit(list(samples(Machine())), Machine())
    assert found.before == pytest.approx(0)
    stripped = replace(found.machine.costs, provenance="", residual=0)
    assert stripped == replace(Costs(), provenance="", residual=0)


def test_calls_that_the_model_does_not_understand_hardly_move_it():
    truth = replace(Machine(), costs=replace(Costs(), store=1.6))
    good = list(samples(truth))
    odd = [replace(one, seconds=7 * one.seconds) for one in good[:2]]
    with_odd, without = fit(good[2:] + odd, Machine()), fit(good[2:], Machine())
    assert residual(good[2:], with_odd.machine) < residual(good[2:], without.machine) + 0.03


@pytest.mark.thorough
def test_whatever_numbers_there_are_are_fitted_and_no_further_than_a_factor():
    measured = [replace(one, seconds=100 * one.seconds) for one in samples(Machine())]
    found = fit(measured, Machine())
    before, after = asdict(Costs()), asdict(found.machine.costs)
    ratios = [
        after[name] / value
        for name, value in before.items()
        if isinstance(value, float) and name != "residual"
    ]
    assert 3.5 < max(ratios) <= 4.0 + 1e-9 and found.after < found.before


def test_the_sample_reaches_every_family_and_is_of_no_layer_set():
    layers = [layer for layer, _ in (*calls(HALVES), *gradients(), *quantized())]
    measured = {(layer.input, layer.weight) for layer in layers}
    assert len(measured) == len({layer.name for layer in layers})
    sets = [one for name in layer_sets() for one in load_layers(name)]
    assert not measured & {(one.input, one.weight) for one in sets}
    algorithms_ = {options["algorithm"] for _, options in calls(HALVES)}
    assert algorithms_ == {"direct", "im2col", "winograd2d", "winograd1d", "mcmr"}


@pytest.mark.thorough
def test_every_constant_of_one_thread_shows_in_the_sample():
    """Else it could not be fitted; what threads wait for cannot, and what chains of layers do."""
    works = []
    for layer, options in calls(HALVES):
        for layout in LAYOUTS:
            problem = layer.problem(layout)
            request = Request.of(problem.layer, threads=1, **options)
            works += planner.choose(problem, request, HALVES).works(problem)
    for layer, tile in gradients():
        problem = layer.problem()
        works.append(gradient_planner.choose(problem, (tile, tile), 1, None, HALVES, Machine()))
    for target in (TARGETS["avx512"], TARGETS["avx512"].adjusted("+vnni+amx")):
        for layer, algorithm in quantized():
            works.append(fastest(layer.problem("NCHW", "uint8"), algorithm, target, Machine()).work)

    def cycles(machine):
        return [TimedSample((work,), 1.0).cycles(machine) for work in works]

    usual = cycles(Machine())
    for field in fields(Costs):
        if field.name in ("provenance", "residual", "barrier", "displaced"):
            continue
        moved = [
            replace(Costs(), **{field.name: factor * getattr(Costs(), field.name)})
            for factor in (0.5, 2)
        ]
        assert any(cycles(Machine(costs=costs)) != usual for costs in moved), field.name


def test_products_of_float16_are_measured_where_there_are_any():
    def asked(target):
        return [options.get("product_dtype") for _, options in calls(target)]

    assert not any(asked(TARGETS["avx512"])) and "float16" in asked(HALVES)


def test_gradients_are_fitted_to():
    truth = Machine(costs=replace(Costs(), gradient_product=1.5, gradient_store=14.0))
    measured = []
    for layer, tile in gradients():
        problem = layer.problem()
        work = gradient_planner.choose(problem, (tile, tile), 1, None, HALVES, truth)
        one = TimedSample((work,), 1.0)
        measured.append(replace(one, seconds=one.cycles(truth) / (truth.clock_ghz * 1e9)))
    found = fit(measured, Machine())
    assert found.families.keys() == {"gradient"} and found.after < found.before / 4
    costs = found.machine.costs
    assert costs.gradient_product > 1.25 and costs.gradient_store > 10


def test_bytes_are_fitted_to():
    truth = Machine(costs=replace(Costs(), byte_product=1.5, byte_sum=8.0, byte_turn=6.0))
    measured = []
    for layout in LAYOUTS:
        for layer, algorithm in quantized():
            way = fastest(layer.problem(layout, "uint8"), algorithm, TARGETS["avx2"], truth)
            measured.append(TimedSample((way.work,), way.seconds))
    found = fit(measured, Machine())
    assert found.families.keys() == {"bytes", "bytes, depthwise"}
    assert found.after < found.before / 4
    costs = found.machine.costs
    assert costs.byte_product > 1.3 and costs.byte_sum > 6.5 and costs.byte_turn < 7.5


@pytest.mark.thorough
def test_layers_are_measured(tiny):
    (first, *others) = measure(Machine(), [tiny], layouts=("NCHW",))
    assert first.seconds > 0 and {len(one.works) for one in (first, *others)} == {1}
    assert {"direct", "im2col"} < {one.works[0].algorithm for one in (first, *others)}


def test_the_command_prints_what_is_left_unexplained(tmp_path, tiny, monkeypatch):
    monkeypatch.setenv("WINOGEN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("winogen.toolchain.calibrate.calibrated", lambda seconds: found[0])
    found = [MeasuredMachine(Machine(), ("speeds varied by 60 %",))]
    measured = list(samples(replace(Machine(), costs=replace(Costs(), store=1.6))))
    monkeypatch.setattr("winogen.tuning.fit.measure", lambda *_, **__: measured)
    result = CliRunner().invoke(app, ["calibrate"])
    assert result.exit_code == 0, result.output
    assert "median, mcmr" in result.output and "median, all" in result.output
    (kept,) = (tmp_path / "cache").glob("machine-*.json")
    record = json.loads(kept.read_text())
    assert record["costs"]["provenance"].startswith("fitted to")
    assert record["rates"]["l2_rate"] == Machine().l2_rate  # what later looks compare with
    assert "disturbed: speeds varied by 60 %" in result.output
    assert machine.described(tmp_path / "cache").startswith("calibrated ")
    found[0] = MeasuredMachine(Machine())
    result = CliRunner().invoke(app, ["calibrate", "--rates-only"])
    assert "median" not in result.output and "disturbed" not in result.output
    assert not {"costs", "rates"} & set(json.loads(kept.read_text()))
    result = CliRunner().invoke(app, ["calibrate", "--json"])
    document = json.loads(result.stdout)
    assert document["kept"] == str(kept) and document["disturbed"] == []
    assert document["l2_rate"] == json.loads(kept.read_text())["l2_rate"]
    assert document["unexplained"]["after"] < document["unexplained"]["before"]
    result = CliRunner().invoke(app, ["calibrate", "--rates-only", "--json"])
    assert json.loads(result.stdout)["unexplained"] is None
    for other in ("--rates-only", "--forget"):
        refused = CliRunner().invoke(app, ["calibrate", other, "--layers", "vgg16"])
        assert refused.exit_code == 2 and "allowed: where constants are fitted" in refused.output
