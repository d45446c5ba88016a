"""Constants that are fitted explain what was measured."""

from dataclasses import replace

import pytest

from winogen.bench.fit import Sample, fit, measure, residual
from winogen.conv import Layer, planner
from winogen.conv.request import Request
from winogen.kernels import named
from winogen.records import TARGETS, Costs, Machine


def samples(machine, target=TARGETS["avx512"]):
    """What a machine would take exactly, if the model were right."""
    for channels, size, layout in ((64, 56, "NCHW"), (128, 28, "NHWC"), (32, 112, "NCHW")):
        layer = Layer.of((channels, channels, 3, 3), "float32", padding=1, layout=layout)
        shape = (1, size, size, channels) if layout == "NHWC" else (1, channels, size, size)
        problem = layer.problem(shape)
        for candidate in planner.ranked(problem, Request.of(layer, threads=1), target, most=4):
            works = tuple(candidate.works(problem))
            cycles = sum(float(named(w.variant).cycles(w, machine).total) for w in works)
            yield Sample(works, cycles / (machine.clock_ghz * 1e9))


def test_a_machine_is_found_again_by_its_times():
    truth = replace(Machine(), costs=replace(Costs(), store=1.6, instruction=0.6, arrange=1.1))
    measured = list(samples(truth))
    costs, before = fit(measured, Machine())
    assert before > 0.05 and costs.residual < before / 5
    assert residual(measured, truth) < 1e-9
    assert costs.residual == residual(measured, replace(Machine(), costs=costs))
    assert costs.provenance.startswith(f"fitted to {len(measured)} calls on ")


def test_constants_that_fit_stay():
    costs, before = fit(list(samples(Machine())), Machine())
    assert before == pytest.approx(0) and replace(costs, provenance="", residual=0) == replace(
        Costs(), provenance="", residual=0
    )


def test_layers_are_measured(tiny):
    (first, *others) = measure([tiny], Machine(), layouts=("NCHW",))
    assert first.seconds > 0 and {len(one.works) for one in (first, *others)} == {1}
    assert {"direct", "im2col"} < {one.works[0].algorithm for one in (first, *others)}
