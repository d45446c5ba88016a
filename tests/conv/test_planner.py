"""The planner's arithmetic, without compiling anything."""

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels.turns import first

from winogen.conv import Layer, planner
from winogen.conv.candidates import GAUSSIAN, candidates
from winogen.conv.choice import Choice, calls, multiplications, rectangles
from winogen.conv.cuts import BLOCK_SIZES, PIXEL_BLOCK_SIZES, WORKSPACE, evaluate
from winogen.conv.execute import Environment, Prepared
from winogen.conv.request import Request
from winogen.conv.tolerance import MARGIN, PATIENCE, TOLERANCE, usual_error
from winogen.errors import InvalidValue, Unsupported
from winogen.kernels import algorithms, named
from winogen.records import TARGETS, Machine, Points
from winogen.toolchain import host_target

WINOGRAD = ("winograd2d", "winograd1d", "mcmr")
TARGET = TARGETS["avx512"]
FAST_MEMORY = Machine(l3_rate=40.0, memory_rate=20.0)


def layer(weight=(64, 64, 3, 3), **options):
    return Layer.of(weight, "float32", **options)


def choose(made, shape, machine=None, **options):
    request = Request.of(made, threads=1, **options)
    return planner.choose(made.problem(shape), request, TARGET, machine).choice


@pytest.mark.parametrize(
    "options, shape",
    [
        (dict(stride=3), (1, 64, 56, 56)),
        (dict(weight=(64, 64, 1, 1), stride=2), (1, 64, 56, 56)),
        (dict(dilation=(1, 2), stride=(1, 2)), (1, 64, 56, 56)),
        (dict(weight=(64, 1, 3, 3), groups=64), (1, 64, 56, 56)),
        (dict(weight=(4, 3, 3, 3), layout="NHWC"), (1, 224, 224, 3)),
        (dict(weight=(64, 64, 1, 1)), (1, 64, 56, 56)),
        (dict(weight=(64, 64, 11, 11), padding=5), (1, 64, 56, 56)),
    ],
)
def test_auto_falls_back_to_direct(options, shape):
    assert choose(layer(**options), shape).algorithm == "direct"


def test_dilated_layers_go_by_the_tiles_of_their_phases():
    made = layer(dilation=(2, 3), padding=(2, 3))
    assert choose(made, (1, 64, 56, 56), FAST_MEMORY).algorithm == "mcmr"
    # Whole tiles end elsewhere in each phase.
    assert choose(made, (1, 64, 56, 56), FAST_MEMORY, edge="direct").algorithm == "direct"
    with pytest.raises(Unsupported, match="edge: got .* with dilation"):
        choose(made, (1, 64, 56, 56), algorithm="mcmr", edge="direct")


@pytest.mark.parametrize("layout, shape", [("NCHW", (1, 64, 56, 56)), ("NHWC", (1, 56, 56, 64))])
@pytest.mark.parametrize("stride", [2, (1, 2)])
def test_many_channels_at_stride_2_go_by_tiles(layout, shape, stride):
    made = layer((128, 64, 3, 3), stride=stride, layout=layout, padding=1)
    assert choose(made, shape, FAST_MEMORY).algorithm == "mcmr"


def test_few_channels_in_planes_fill_the_lanes_with_tiles():
    chosen = choose(layer((64, 3, 3, 3), padding=1), (1, 3, 224, 224), FAST_MEMORY)
    assert chosen.algorithm == "winograd2d" and chosen.tile[1] in (2, 4, 8)


FEW = [
    *(
        (channels, filters, kernel)
        for channels, filters in ((1, 16), (3, 32), (3, 64), (4, 32))
        for kernel in (3, 5)
    ),
    (4, 24, 3),  # of 5x5, mcmr is as fast: the last 8 filters are half a vector there
]


@pytest.mark.parametrize("channels, filters, kernel", FEW)
def test_few_channels_of_pixels_fill_the_lanes_with_filters(channels, filters, kernel):
    made = layer((filters, channels, kernel, kernel), padding=kernel // 2, layout="NHWC")
    chosen = choose(made, (1, 224, 224, channels))
    assert chosen.algorithm == "winograd2d" and max(chosen.tile) <= 4


@pytest.mark.parametrize("size", (56, 28, 14, 12, 10, 8, 7))
def test_auto_fits_the_tile_to_the_map(size):
    """Hardly any output is computed in vain, whatever the size of the map."""
    chosen = choose(layer(padding=1), (1, 64, size, size))
    assert chosen.algorithm == "mcmr"
    for m in chosen.tile:
        assert -(-size // m) * m <= 1.15 * size


def test_a_register_block_of_its_own_is_for_layers_that_gain(monkeypatch):
    """Two per cent at least; others share the kernel that most layers have."""

    def rows(shape, weight):
        options = {"layout": "NHWC", "padding": weight[-1] // 2}
        return dict(choose(layer(weight, **options), shape, algorithm="direct").sizes).get("rows")

    gaining, sharing = ((1, 56, 56, 64), (64, 64, 1, 1)), ((1, 7, 7, 512), (512, 512, 3, 3))
    assert rows(*gaining) and not rows(*sharing)
    monkeypatch.setattr(planner, "_ANOTHER_KERNEL", 1.0)
    assert rows(*gaining) and rows(*sharing)


def test_auto_transforms_only_the_axes_that_gain():
    chosen = choose(layer((64, 64, 1, 7), padding="same"), (1, 64, 17, 17))
    assert chosen.algorithm == "mcmr" and chosen.tile[0] == 1 < chosen.tile[1]


def test_a_tile_or_points_ask_for_winograd():
    assert choose(layer(), (1, 64, 9, 9), tile=4).tile == (4, 4)
    chosen = choose(layer(), (1, 64, 9, 9), points=("0,1,-1,inf", None))
    assert chosen.algorithm == "mcmr" and chosen.tile[0] == 2
    assert chosen.points == (Points("points", ("0", "1", "-1", "inf")), None)


def test_moduli_ask_for_winograd_and_set_the_tile():
    chosen = choose(layer(), (1, 64, 9, 9), moduli="x, x-1, x^2+1, inf")
    assert (chosen.algorithm, chosen.tile) == ("mcmr", (3, 3))
    assert chosen.points == (Points("moduli", ("x", "x - 1", "x^2 + 1", "inf")),) * 2
    one = choose(layer(), (1, 64, 9, 9), moduli=(None, "x,x-1,x+1,inf"), tile=(4, 2))
    assert one.points[0] is None and one.tile == (4, 2)


def test_an_order_holds_for_whatever_is_chosen():
    chosen = choose(layer(padding=1), (1, 64, 28, 28), order="huffman")
    assert chosen.algorithm == "mcmr" and chosen.order == "huffman"
    assert choose(layer(padding=1), (1, 64, 28, 28)).order == "program"


def test_an_int_tile_is_meant_for_the_long_axes():
    assert choose(layer((4, 4, 1, 3)), (1, 4, 9, 9), algorithm="mcmr", tile=4).tile == (1, 4)
    assert choose(layer((4, 4, 3, 1)), (1, 4, 9, 9), algorithm="mcmr", tile=4).tile == (4, 1)
    assert choose(layer(), (1, 64, 9, 9), algorithm="winograd1d", tile=4).tile == (1, 4)
    assert choose(layer(), (1, 64, 9, 9), algorithm="mcmr", tile=(2, 4)).tile == (2, 4)


@pytest.mark.parametrize("algorithm", WINOGRAD)
@pytest.mark.parametrize("kernel", [(1, 1), (1, 7), (7, 1), (2, 2), (4, 6), (3, 18)])
def test_explicit_winograd_finds_a_tile_for_any_kernel(algorithm, kernel):
    made = layer((4, 4, *kernel), padding=9)
    chosen = choose(made, (1, 4, 20, 20), algorithm=algorithm)
    assert chosen.algorithm == algorithm
    for m, r in zip(chosen.tile, (1 if algorithm == "winograd1d" else kernel[0], kernel[1])):
        assert m == 1 if r == 1 else m + r - 1 <= 18


@pytest.mark.parametrize("algorithm", WINOGRAD)
@pytest.mark.parametrize("options", [dict(stride=(1, 5)), dict(stride=2, dilation=2)])
def test_winograd_says_why_it_does_not_apply(algorithm, options):
    with pytest.raises(Unsupported, match=f'"{algorithm}" with .*neighbours.*"direct"'):
        choose(layer(**options), (1, 64, 20, 20), algorithm=algorithm)
    with pytest.raises(Unsupported):
        choose(layer(**options), (1, 64, 20, 20), tile=2)


@settings(max_examples=200)
@given(
    out=st.tuples(st.integers(1, 30), st.integers(1, 30)),
    tile=st.tuples(st.integers(1, 8), st.integers(1, 8)),
    edge=st.sampled_from(("discard", "direct")),
)
def test_rectangles_cover_every_output_once(out, tile, edge):
    problem = layer((4, 4, 1, 1)).problem((1, 4, *out))
    choice = Choice("mcmr", tile, edge=edge)
    seen = np.zeros(out, int)
    first, *rim = rectangles(problem, choice)
    for part in (first, *rim):
        seen[part.row_begin : part.row_end, part.col_begin : part.col_end] += 1
    assert (seen == 1).all()
    if edge == "direct":
        assert (first.row_end % tile[0], first.col_end % tile[1]) == (0, 0)
    else:
        assert not rim


def test_multiplications_count_the_waste():
    problem = layer((8, 2, 3, 5), groups=4).problem((3, 8, 12, 14))  # outputs 10 x 10
    pairs = 3 * 8 * 2

    def count(algorithm, tile, edge="discard"):
        choice = Choice(algorithm, tile, edge=edge)
        return multiplications(problem, choice)

    assert count("direct", None) == pairs * 100 * 15
    assert count("mcmr", (4, 4)) == count("winograd2d", (4, 4)) == pairs * 3 * 3 * 6 * 8
    assert count("mcmr", (5, 2)) == pairs * 2 * 5 * 7 * 6
    assert count("winograd1d", (1, 4)) == pairs * 10 * 3 * 3 * 8
    # One modulus of degree 2 takes one product more.
    gaussian = Choice("mcmr", (4, 4), (GAUSSIAN, None))
    assert multiplications(problem, gaussian) == pairs * 3 * 3 * 7 * 8
    assert count("mcmr", (4, 4), "direct") == pairs * (2 * 2 * 6 * 8 + 36 * 15)
    assert count("winograd1d", (1, 4), "direct") == pairs * (10 * 2 * 3 * 8 + 20 * 15)
    assert count("mcmr", (16, 16), "direct") == pairs * 100 * 15


@pytest.mark.parametrize("algorithm", ("direct", "im2col", *WINOGRAD))
@pytest.mark.parametrize("threads", (1, 2, 64))
@pytest.mark.parametrize("made", (layer(padding=1), layer((2048, 2048, 3, 3), padding=1)))
def test_blocks_fit_the_problem_and_the_workspace(algorithm, threads, made):
    target = TARGETS["avx512"]
    for size, batch in itertools.product(((1, 1), (7, 7), (56, 56), (3, 1000)), (0, 1, 3)):
        problem = made.problem((batch, made.channels, *size))
        request = Request.of(made, algorithm=algorithm, threads=threads)
        chosen = planner.choose(problem, request, target)
        (work,) = chosen.works(problem)
        m_h, m_w = chosen.choice.tile or (1, 1)
        rows, cols = work.block
        whole = -(-size[0] // m_h), -(-size[1] // m_w)
        assert 1 <= rows <= whole[0] and 1 <= cols <= whole[1]
        assert work.images == 1 or (work.block == whole and 1 < work.images <= batch)
        assert work.split in (0, 1) and (threads > 1 or not work.split)


@pytest.mark.parametrize("layout", ("NCHW", "NHWC"))
@pytest.mark.parametrize(
    "weight, size, split",
    [
        ((32, 32, 3, 3), 149, 0),  # one block of filters cannot be shared
        ((48, 64, 3, 3), 73, 0),  # three are shared unevenly
        ((512, 512, 3, 3), 7, 1),  # of few tiles, only the channels and filters can be shared
    ],
)
def test_threads_share_what_there_is_to_share(weight, size, split, layout):
    made = layer(weight, padding=1, layout=layout)
    shape = (size, size, weight[1]) if layout == "NHWC" else (weight[1], size, size)
    problem = made.problem(shape)
    chosen = planner.choose(problem, Request.of(made, threads=2), TARGET, FAST_MEMORY)
    (work,) = chosen.works(problem)
    assert work.split == split and (split or work.items % 2 == 0 or work.items > 10)


@pytest.mark.parametrize("target", TARGETS)
def test_smaller_limits_give_smaller_workspaces(target):
    problem = layer((256, 256, 3, 3), padding=1).problem((1, 256, 56, 56))
    target = TARGETS[target]
    for limit in (8 << 20, 1 << 20, 300_000):
        request = Request.of(problem.layer, workspace_limit=limit, threads=2)
        chosen = planner.choose(problem, request, target)
        needed = [named(work.variant).workspace_bytes(work) for work in chosen.works(problem)]
        assert 0 < max(needed) == chosen.workspace_bytes <= limit


def test_a_limit_that_nothing_keeps_to_says_what_would():
    problem = layer(padding=1).problem((1, 64, 56, 56))
    request = Request.of(problem.layer, algorithm="mcmr", workspace_limit=1000)
    with pytest.raises(
        InvalidValue, match="workspace_limit: got 1000; allowed: at least [0-9]+ bytes"
    ):
        planner.choose(problem, request, TARGETS["avx2"])


@pytest.mark.parametrize(
    "options, layout",
    first(
        1,
        itertools.product(
            [
                dict(algorithm="mcmr", edge="direct"),
                dict(algorithm="direct"),
                *(dict(algorithm=a, border=b) for b in ("indirect", "unswitch") for a in WINOGRAD),
                dict(algorithm="im2col"),
            ],
            ("NCHW", "NHWC"),
        ),
    ),
)
def test_the_workspace_is_known_before_anything_is_compiled(layout, options):
    """What a variant says is what the compiled kernel asks for, to the byte."""
    target = host_target()
    cases = [((40, 33, 3, 3), {}), ((9, 1, 3, 3), dict(groups=9)), ((64, 3, 3, 3), {})]
    if options["algorithm"] in ("direct", "im2col"):
        cases += [
            ((24, 5, 3, 2), dict(stride=(2, 3), dilation=2)),
            ((40, 1, 5, 5), dict(groups=40)),
        ]
    for threads, (weight, more) in itertools.product((1, 2), cases):
        made = layer(weight, padding=1, layout=layout, **more)
        shape = (2, 29, 23, made.channels) if layout == "NHWC" else (2, made.channels, 29, 23)
        problem = made.problem(shape)
        request = Request.of(made, threads=threads, **options)
        chosen = planner.choose(problem, request, target)
        prepared = Prepared(problem, [chosen], target, Environment.now())
        asked = [
            call.kernel.lib.winogen_workspace_bytes(call.struct, threads) for call in prepared.calls
        ]
        assert prepared.workspace_bytes == chosen.workspace_bytes == max(asked)


@pytest.mark.parametrize("tolerance", (5e-7, 1.5e-6, 1e-5))
def test_a_tolerance_bounds_the_error_with_a_margin(tolerance):
    made = layer((256, 256, 3, 3), padding=1)
    chosen = choose(made, (1, 256, 56, 56), tolerance=tolerance)
    assert MARGIN * planner.predicted_error(made, chosen, TARGET) <= tolerance


def test_accuracy_is_paid_for_unless_a_tolerance_says_what_suffices():
    made = layer((128, 128, 3, 3), padding=1)
    problem, bound = made.problem((1, 128, 56, 56)), usual_error(made)
    usual, *others = planner.ranked(problem, Request.of(made, threads=1), TARGET)
    seconds = min(way.seconds for way in others)
    assert seconds < usual.seconds <= PATIENCE * seconds
    assert planner.predicted_error(made, usual.choice, TARGET) <= bound
    # What is promised without a tolerance is what this tolerance asks for.
    request = Request.of(made, threads=1, tolerance=TOLERANCE)
    fast, *others = planner.ranked(problem, request, TARGET)
    assert fast.seconds == seconds == min(way.seconds for way in (fast, *others))
    error = planner.predicted_error(made, fast.choice, TARGET)
    assert bound < error <= TOLERANCE / MARGIN


def test_less_tolerance_never_means_a_larger_error():
    made = layer((256, 256, 3, 3), padding=1)
    errors = [
        planner.predicted_error(
            made, choose(made, (1, 256, 56, 56), algorithm="mcmr", tolerance=t), TARGET
        )
        for t in (1.6e-6, 5e-6, 1.6e-5)
    ]
    assert errors == sorted(errors)


@pytest.mark.parametrize("algorithm", ("direct", "im2col", "winograd2d", "winograd1d", "mcmr"))
def test_a_tolerance_tries_only_numbers_that_the_algorithm_computes_with(algorithm):
    chosen = choose(layer(), (1, 64, 28, 28), algorithm=algorithm, tolerance=1e-3)
    assert chosen.algorithm == algorithm
    assert chosen.precision is None or algorithm in algorithms(chosen.precision)


def test_a_tolerance_that_nothing_keeps_to_says_what_would():
    with pytest.raises(InvalidValue, match="tolerance: got 1e-09; allowed: at least ") as error:
        choose(layer(), (1, 64, 9, 9), tolerance=1e-9)
    least = float(re.search(r"at least ([0-9.e-]+)", str(error.value))[1])
    assert choose(layer(), (1, 64, 9, 9), tolerance=1.02 * least)
    assert choose(layer(), (1, 64, 9, 9), tile=6, tolerance=1e-9).tile == (6, 6)  # as asked


@settings(max_examples=50)
@given(
    kernel=st.sampled_from(((3, 3), (3, 3), (1, 7), (5, 5), (2, 3))),
    channels=st.sampled_from((1, 3, 16, 40, 100)),
    filters=st.sampled_from((1, 8, 40, 200)),
    groups=st.sampled_from((1, 1, 2)),
    batch=st.sampled_from((1, 1, 3)),
    size=st.tuples(st.integers(8, 80), st.integers(8, 80)),
    layout=st.sampled_from(("NCHW", "NHWC")),
    edge=st.sampled_from(("discard", "direct")),
    threads=st.sampled_from((1, 2, 4)),
    limit=st.sampled_from((None, 1 << 19)),
    target=st.sampled_from(sorted(TARGETS)),
)
def test_planning_at_once_is_planning_one_by_one(
    kernel, channels, filters, groups, batch, size, layout, edge, threads, limit, target
):
    """The model looks at all tiles and blocks together: each must get what it gets alone."""
    made = layer(
        (filters * groups, channels, *kernel), groups=groups, layout=layout, padding=kernel[1] // 2
    )
    shape = (*size, made.channels) if layout == "NHWC" else (made.channels, *size)
    problem, target = made.problem((batch, *shape)), TARGETS[target]
    request = Request.of(made, edge=edge, threads=threads)
    choices = list(candidates(problem, request, target))
    together = evaluate(problem, choices, target, Machine(), limit)
    for candidate in together[:: 1 + len(choices) // 9]:
        works = candidate.works(problem)
        assert len(works) == len(calls(problem, candidate.choice))
        for work in works:
            wanted = _fastest(work, problem.batch, limit)
            cut = work.block, work.split, work.images
            assert cut == (wanted.block, wanted.split, wanted.images)
        cycles = sum(float(named(work.variant).cycles(work, Machine()).total) for work in works)
        assert candidate.seconds == pytest.approx(cycles / (Machine().clock_ghz * 1e9), rel=1e-12)
        needed = [int(named(work.variant).workspace_bytes(work)) for work in works]
        assert candidate.workspace_bytes == max(needed)


def _fastest(some, batch, limit):
    """The kernel call in the fastest of all blocks, looked at one after the other."""
    variant = named(some.variant)
    tiles = [-(-o // (t.m if t else 1)) for o, t in zip(some.out, some.transforms)]
    sizes = BLOCK_SIZES if some.tiled else PIXEL_BLOCK_SIZES
    works = []
    for split, shared in itertools.product(
        (0, 1) if some.threads > 1 else (0,),
        (False, True) if variant.spans_images and batch > 1 else (False,),
    ):
        for size in sizes.tolist():
            wide = -(-tiles[1] // -(-tiles[1] // min(tiles[1], size)))
            high = max(min(tiles[0], variant.rows_at_once), min(tiles[0], size // wide))
            block = -(-tiles[0] // -(-tiles[0] // high)), wide
            images = 1
            if shared and block == tuple(tiles):
                most = max(1, min(batch, size // (block[0] * block[1])))
                images = -(-batch // -(-batch // most))
            works.append(replace(some, block=block, split=split, images=images))
    limit = limit or WORKSPACE * some.threads
    least = min(int(variant.workspace_bytes(work)) for work in works)
    return min(
        (work for work in works if int(variant.workspace_bytes(work)) <= max(limit, least)),
        key=lambda work: float(variant.cycles(work, Machine()).total),
    )


@pytest.mark.parametrize("value", (0, -1e-6, float("nan"), float("inf")))
def test_a_tolerance_is_a_positive_number(value):
    with pytest.raises(InvalidValue, match="tolerance: got .*positive number"):
        Request.of(layer(), tolerance=value)


@pytest.mark.parametrize("side, channels", [(14, 256), (7, 512), (28, 128)])
def test_threads_that_cannot_wait_transform_shared_blocks_again(side, channels):
    """The price has that, and no wait: filters are shared still, in nearly the same time."""
    made = layer((channels, channels, 3, 3), padding=1)
    problem, target = made.problem((1, channels, side, side)), TARGETS["avx2"]
    asked = Request.of(made, threads=4)
    waiting, alone = (
        planner.choose(problem, asked, target, machine)
        for machine in (Machine(), Machine().without_barriers)
    )
    (work,), (again,) = waiting.works(problem), alone.works(problem)
    assert work.split and again.split
    assert 0.9 * waiting.seconds < alone.seconds < 1.2 * waiting.seconds
    machines = Machine(), Machine().without_barriers
    one, other = (named(again.variant).cycles(again, machine)[0] for machine in machines)
    assert 1.4 * one < other < 4.1 * one  # the input's transform
