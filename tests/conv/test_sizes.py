"""A choice with sizes of its own: everything that depends on the tuning follows them."""

import re
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from conv.reference import convolve
from kernels.turns import first

from winogen.codegen.render import render
from winogen.conv import Layer, planner
from winogen.conv.choice import Choice, Cut, axes
from winogen.conv.cuts import evaluate, work_of
from winogen.conv.execute import Prepared
from winogen.conv.request import Request
from winogen.kernels import assign, named, summation, variants
from winogen.kernels.sizes import allowed, fits, steps
from winogen.kernels.spec import KernelSpec
from winogen.records import TARGETS, Machine, Points, Precision
from winogen.toolchain import host_target

HALVES = Points("points", ("0", "1", "-1", "inf"))
# Variant -> weight, input, options and algorithm of a layer that it computes on every target.
LAYERS = {
    "direct": ((40, 35, 3, 3), (1, 35, 9, 20), dict(padding=1), "direct"),
    "im2col": ((40, 35, 3, 3), (1, 35, 9, 20), dict(padding=1), "im2col"),
    "pixels": ((2, 40, 3, 3), (1, 40, 9, 20), dict(padding=1), "direct"),
    "planes": ((40, 70, 1, 1), (1, 70, 8, 20), {}, "direct"),
    "patches": ((40, 18, 2, 2), (1, 18, 16, 40), dict(stride=2), "direct"),
    "mcmr": ((40, 70, 3, 3), (2, 70, 7, 9), dict(padding=1), "mcmr"),
    "winograd1d": ((40, 70, 3, 3), (2, 70, 7, 9), dict(padding=1), "winograd1d"),
    "winograd2d": ((40, 35, 3, 3), (2, 35, 7, 9), dict(padding=1), "winograd2d"),
    "few_channels": ((40, 3, 3, 3), (1, 9, 50, 3), dict(padding=1, layout="NHWC"), "direct"),
    "pointwise": ((40, 35, 1, 1), (2, 9, 21, 35), dict(stride=2, layout="NHWC"), "direct"),
    "winograd2d_tiles": ((21, 3, 3, 3), (2, 3, 7, 40), dict(padding=1), "winograd2d"),
    "winograd2d_filters": (
        (70, 3, 3, 3), (2, 7, 40, 3), dict(padding=1, layout="NHWC"), "winograd2d",
    ),
    "depthwise_planes": ((40, 1, 3, 3), (1, 40, 9, 50), dict(padding=1, groups=40), "direct"),
    "depthwise_channels": (
        (40, 1, 2, 3), (1, 9, 50, 40), dict(groups=40, layout="NHWC"), "direct",
    ),
    "depthwise_strip": (
        (41, 1, 3, 3), (1, 9, 50, 41), dict(groups=41, layout="NHWC"), "direct",
    ),
    "depthwise_in_place": (
        (32, 1, 3, 3), (1, 9, 50, 32), dict(groups=32, layout="NHWC", padding=1), "direct",
    ),
}  # fmt: skip


# The largest error of products of rounded tiles, of the largest output.
ROUNDING = {"int16": 5e-4, "int8": 8e-2}


def problem_of(name):
    plain = re.sub("_(int16|int8|float16)$", "", name)  # of others: the same layers
    products = name[len(plain) + 1 :]
    weight, shape, options, algorithm = LAYERS[plain]
    problem = Layer.of(weight, "float32", **options).problem(shape)
    precision = Precision.of("float32", products=products) if products else None
    if not algorithm.startswith(("winograd", "mcmr")):
        return problem, Choice(algorithm, precision=precision)
    tile = (1, 2) if algorithm == "winograd1d" else (2, 2)
    points = (None, HALVES) if algorithm == "winograd1d" else (HALVES, HALVES)
    return problem, Choice(algorithm, tile, points, precision=precision)


def work_for(problem, choice, target):
    return work_of(problem, choice, target, None, axes(problem.layer, choice))


def candidate(problem, choice, target):
    (one,) = evaluate(problem, [choice], target, Machine(), None)
    return one


def output(problem, choice, x, weight):
    prepared = Prepared(problem, [candidate(problem, choice, host_target())], host_target())
    y = np.full(problem.output_shape, np.nan, np.float32)
    prepared.run(x, prepared.pack(weight), None, y)
    return y


@pytest.mark.parametrize(
    "name",
    first(6, [[n] for n, one in variants().items() if one.tunable and one.runs_on(host_target())]),
)
def test_every_variant_is_exact_with_other_sizes(name):
    """Filters are multiples of 16: those of F(2,3) are then integers."""
    problem, plain = problem_of(name)
    work = assign(work_for(problem, plain, host_target()))
    assert work.variant == name
    rng = np.random.default_rng(3)
    x = rng.integers(-3, 4, problem.input_shape).astype(np.float32)
    weight = 16 * rng.integers(-2, 3, problem.layer.weight_shape).astype(np.float32)
    layer = problem.layer
    expected = convolve(
        x.astype(np.int64), weight.astype(np.int64), groups=layer.groups, layout=layer.layout,
        padding=tuple((axis.before, axis.after) for axis in layer.axes),
        stride=tuple(axis.stride for axis in layer.axes),
    )  # fmt: skip
    several = list(steps(work))
    # Kernels take long to compile: any one, and the one that differs in what is not compiled in.
    tried = Random(name).sample(several, 1)
    tried += [sizes for sizes in several if dict(sizes).keys() == {"depth"}][:1]
    for sizes in tried:
        choice = replace(plain, sizes=sizes)
        y = output(problem, choice, x, weight)
        # Products of integers are of rounded tiles.
        rounding = ROUNDING.get(work.precision.products, 0)
        assert abs(y - expected).max() <= rounding * abs(expected).max(), sizes


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("name", LAYERS)
def test_what_a_variant_has_fits_and_so_does_each_step(name, target):
    problem, choice = problem_of(name)
    work = work_for(problem, choice, target)
    assigned = assign(work)
    assert fits(assigned, assigned.tuning)
    others = list(steps(assigned))
    assert len(others) == len(set(others)) and () not in others
    for sizes in others:
        assert allowed(work, sizes)
        own = named(assigned.variant).tuning(work.target, work.precision)
        assert all(getattr(own, field) != value for field, value in sizes)


@pytest.mark.parametrize(
    "sizes",
    [
        (("rows", 29),), (("rows", 0),), (("rows", -1),), (("rows", 2.0),), (("rows", True),),
        (("depth", 24),), (("depth", 0),), (("band", 0),), (("chains", 0),), (("pixels", 4),),
        (("few", 3),), (("provenance", 3),), (("prefetch", -8),), (("prefetch", 1 << 60),),
        (("rows", 9), ("vectors", 3)), (("depth", 48), ("chains", 4)),
    ],
)  # fmt: skip
def test_sizes_that_cannot_be_are_not_allowed(sizes):
    problem, choice = problem_of("mcmr")
    assert not allowed(work_for(problem, choice, TARGETS["avx512"]), sizes)
    assert allowed(work_for(problem, choice, TARGETS["avx512"]), (("depth", 64), ("rows", 12)))


def test_packing_workspace_cost_error_and_c_follow_the_sizes():
    target = TARGETS["avx512"]
    problem, plain = problem_of("direct")
    other = replace(plain, sizes=(("chains", 1), ("depth", 64), ("rows", 9), ("vectors", 3)))
    before, after = (candidate(problem, choice, target) for choice in (plain, other))
    assert before.seconds != after.seconds
    assert before.workspace_bytes != after.workspace_bytes
    (work,) = after.works(problem)
    assert (work.tuning.rows, work.tuning.vectors, work.tuning.depth) == (9, 3, 64)
    text = render(KernelSpec.of(work))
    assert "tuning: avx512, tuned: chains, rows, vectors; else" in text
    assert "ROWS = 9, " in text and "VECTORS = 3, " in text
    layer = problem.layer
    errors = [planner.predicted_error(layer, choice, target) for choice in (plain, other)]
    assert errors[1] < errors[0]  # a shorter chain rounds less
    assert summation("direct", target, 64, sizes=other.sizes)["block"] == 64
    # Filters are packed in blocks of rows where pixels fill the lanes.
    problem, plain = problem_of("planes")
    numbers = []
    for choice in (plain, replace(plain, sizes=(("rows", 7), ("vectors", 4)))):
        (work,) = candidate(problem, choice, target).works(problem)
        numbers.append(named(work.variant).packed_numbers(work))
    assert numbers == [40 * 70, 42 * 70]


def test_kernels_that_differ_in_what_is_read_at_run_time_are_one():
    problem, plain = problem_of("mcmr")
    target = TARGETS["avx512"]
    kinds = {
        KernelSpec.of(candidate(problem, replace(plain, sizes=sizes), target).works(problem)[0])
        for sizes in ((), (("depth", 64),), (("depth", 128), ("non_temporal", 0)))
    }
    assert len(kinds) == 1
    other = replace(plain, sizes=(("rows", 8),))
    assert KernelSpec.of(candidate(problem, other, target).works(problem)[0]) not in kinds


def test_choices_of_one_algorithm_that_differ_in_sizes_are_each_evaluated_by_theirs():
    """Whatever is evaluated at once has the same sizes, border and cut."""
    problem, plain = problem_of("mcmr")
    target = TARGETS["avx512"]
    several = [
        plain,
        replace(plain, sizes=(("chains", 1), ("rows", 9), ("vectors", 3)), edge="direct"),
        replace(plain, border="indirect"),
        replace(plain, cut=Cut((1, 2))),
        replace(plain, cut=Cut((4, 5), images=2)),
    ]
    together = evaluate(problem, several, target, Machine(), None)
    for choice, one in zip(several, together):
        alone = candidate(problem, choice, target)
        assert (one.seconds, one.workspace_bytes) == (alone.seconds, alone.workspace_bytes)
        assert one.works(problem) == alone.works(problem)
    works = [one.works(problem)[0] for one in together]
    assert works[2].border == "indirect" and works[1].tuning.vectors == 3
    assert [(work.block, work.images) for work in works[3:]] == [((1, 2), 1), ((4, 5), 2)]


@pytest.mark.parametrize("threads", (1, 2))
def test_a_cut_is_kept_to_as_far_as_the_map_allows(threads):
    problem, plain = problem_of("mcmr")
    x = np.random.default_rng(0).standard_normal(problem.input_shape, np.float32)
    weight = np.random.default_rng(1).standard_normal(problem.layer.weight_shape, np.float32)
    expected = output(problem, plain, x, weight)
    for cut, block, images in (
        (Cut((1, 3), split=True), (1, 3), 1),
        (Cut((100, 100), images=9), (4, 5), 2),
        (Cut((3, 5), images=2), (3, 5), 1),
    ):
        choice = replace(plain, cut=cut, threads=threads)
        (work,) = candidate(problem, choice, host_target()).works(problem)
        assert (work.block, work.images) == (block, images)
        assert work.split == (cut.split and threads > 1)
        assert np.array_equal(output(problem, choice, x, weight), expected)


def test_the_rim_is_cut_by_prediction():
    problem, plain = problem_of("mcmr")
    choice = replace(plain, edge="direct", cut=Cut((1, 1)), sizes=(("rows", 8),))
    main, *rim = candidate(problem, choice, TARGETS["avx512"]).works(problem)
    assert main.block == (1, 1) and main.tuning.rows == 8
    own = named("direct").tuning(TARGETS["avx512"], Precision.of("float32"))
    assert rim and all(work.tuning == own and work.block != (1, 1) for work in rim)


def test_the_planner_predicts_errors_with_the_sizes_of_a_choice():
    problem, plain = problem_of("mcmr")
    ranked = planner.ranked(problem, Request(algorithm="mcmr"), TARGETS["avx512"])
    assert all(one.choice.sizes == () and one.choice.cut is None for one in ranked)
    many = Layer.of((64, 512, 3, 3), "float32", padding=1)
    errors = [
        planner.predicted_error(many, replace(plain, sizes=sizes), TARGETS["avx512"])
        for sizes in ((), (("depth", 512),))
    ]
    assert errors[0] < errors[1]
