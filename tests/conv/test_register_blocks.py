"""The planner compares register blocks of direct convolution, and only there."""

from dataclasses import replace

import numpy as np
import pytest

from winogen.conv import planner
from winogen.conv.candidates import candidates
from winogen.conv.choice import Choice
from winogen.conv.cuts import evaluate, work_of
from winogen.conv.execute import Prepared
from winogen.conv.problem import Layer
from winogen.conv.request import Request
from winogen.kernels import assign, named
from winogen.kernels.pixels_family import again
from winogen.records import TARGETS, Machine
from winogen.toolchain import host_target
from winogen.tuning.layers import load_layers

LAYERS = {layer.name: layer for layer in (*load_layers("thesis27"), *load_layers("resnet50"))}
TARGET = TARGETS["avx512"]


def chosen(name, layout="NHWC"):
    request = Request(algorithm="direct")
    sizes = dict(planner.choose(LAYERS[name].problem(layout), request, TARGET).choice.sizes)
    return sizes.get("rows", 14), sizes.get("vectors", 2)


@pytest.mark.parametrize(
    "name, block",
    [
        # few terms: all filters of a pixel are written at once
        ("resnet50-56x56x64-256-k1", (6, 4)),
        ("vgg16-224x224x3-64-k3", (6, 4)),
        # seven pixels: 9x3 is predicted to be a thousandth faster, but is another kernel
        ("resnet152-7x7x512-512-k3", (14, 2)),
        # many terms: filters come from L2 once per 14 pixels
        ("resnet152-14x14x256-256-k3", (14, 2)),
        ("vgg16-56x56x256-256-k3", (14, 2)),
    ],
)
def test_the_block_by_what_binds(name, block):
    """The others were measured to be the fastest of 14x2, 9x3, 6x4 and 5x5 on a Xeon."""
    assert chosen(name) == block


def test_only_direct_with_filters_in_the_lanes_is_compared():
    problem = LAYERS["vgg16-56x56x256-256-k3"].problem("NHWC")
    everything = list(candidates(problem, Request(), TARGET))
    assert {choice.algorithm for choice in everything if choice.sizes} == {"direct"}
    assert len([choice for choice in everything if choice.algorithm == "direct"]) == 3
    assert all(not c.sizes for c in candidates(problem, Request(algorithm="im2col"), TARGET))
    planar = LAYERS["vgg16-224x224x3-64-k3"].problem("NCHW")
    assert len(list(candidates(planar, Request(algorithm="direct"), TARGET))) == 1


def test_a_plan_lists_the_best_block_only():
    problem = LAYERS["resnet50-56x56x64-256-k1"].problem("NHWC")
    for threads in (1, 2):
        request = Request(algorithm="direct", threads=threads)
        (way,) = planner.ranked(problem, request, TARGET)
        assert way.choice.sizes and way.choice.threads == threads


def test_filters_come_once_per_panel_unless_l1_holds_them():
    problem = LAYERS["resnet152-14x14x256-256-k3"].problem("NHWC")
    work = replace(assign(work_of(problem, Choice("direct"), TARGET)), block=(14, 14))
    filters = 256 * 256 * 9 * 4

    def panels(work):
        _, multiply, _ = named(work.variant).count(work)
        return again(Machine(), multiply)

    assert panels(work) == 14 * filters / Machine().l2_rate
    narrow = replace(work, tuning=replace(work.tuning, rows=6))
    assert panels(narrow) == 14 * 3 * filters / Machine().l2_rate
    assert panels(replace(work, channels=16)) == 0.0


def test_every_block_computes_the_same_bits():
    """A sum adds its terms in the same order, whatever the block that it is in."""
    layer = Layer.of((72, 5, 3, 3), "float32", padding=1, layout="NHWC")
    problem, target = layer.problem((1, 7, 13, 5)), host_target()
    generator = np.random.default_rng(1)
    x = generator.standard_normal((1, 7, 13, 5), np.float32)
    weight = generator.standard_normal((72, 5, 3, 3), np.float32)
    choices = list(candidates(problem, Request(algorithm="direct"), target))
    assert len(choices) > 1
    results = []
    for way in evaluate(problem, choices, target, Machine(), None):
        prepared = Prepared(problem, [way], target)
        output = np.empty(problem.output_shape, np.float32)
        prepared.run(x, prepared.pack(weight), None, output)
        results.append(output)
    assert all(np.array_equal(results[0], other) for other in results[1:])
