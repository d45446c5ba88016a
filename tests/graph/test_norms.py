"""Norms, softmax and sums with one pixel: in both layouts, for all sizes, no digits lost."""

import numpy as np
import pytest
from graph.reference import compute

from winogen.errors import InvalidValue
from winogen.graph import (
    Activation,
    Add,
    Affine,
    Conv,
    Graph,
    GroupNorm,
    LayerNorm,
    Node,
    Segment,
    Softmax,
    shapes,
    simplify,
)

RNG = np.random.default_rng(8)
# Channels and groups: vectors that end within a group, groups of more channels than a part has.
GROUPS = ((6, 3), (32, 8), (30, 3), (130, 1), (160, 32), (5, 5), (192, 2))
SIZES = ((9, 7), (3, 50), (1, 2), (40, 33))


def run(graph, arrays, layout, dtype=np.float32, threads=2):
    given = [np.asarray(x, dtype) for x in arrays]
    if layout == "NHWC":
        given = [np.ascontiguousarray(x.transpose(0, 2, 3, 1)) for x in given]
    (y,) = Segment(graph, layout=layout, threads=threads)(*given)
    return y if layout == "NCHW" else y.transpose(0, 3, 1, 2)


def alone(op, *others):
    reads = ("x", *others)
    return Graph(reads, [Node(op, reads, ("y",))], ("y",))


def exact(graph, *arrays):
    return compute(graph, [np.asarray(x, np.float64) for x in arrays])["y"]


def off(y, wanted):
    return np.abs(y - wanted).max() / np.abs(wanted).max()


def numbers(*shape, mean=0.0, deviation=1.0, dtype=np.float32):
    """Normally distributed numbers of the type: where a norm divides by little, rounding shows."""
    return (RNG.standard_normal(shape) * deviation + mean).astype(dtype)


LAYOUTS = pytest.mark.parametrize("layout", ["NCHW", "NHWC"])


@LAYOUTS
@pytest.mark.parametrize("activation", [None, "relu", "silu"])
@pytest.mark.parametrize("channels, groups", GROUPS)
def test_group_norms(channels, groups, activation, layout):
    op = GroupNorm(groups, *numbers(2, channels), 1e-5, activation)
    for size in SIZES:
        x = numbers(2, channels, *size, mean=3)
        wanted = exact(alone(op), x)
        assert off(run(alone(op), [x], layout), wanted) < 2e-6


@LAYOUTS
@pytest.mark.parametrize("channels", [1, 5, 48, 130, 1500])
@pytest.mark.parametrize("size", [(1, 1), *SIZES])
def test_pixels(channels, size, layout):
    x = numbers(2, channels, *size, mean=3, deviation=4)
    for op in (LayerNorm(*numbers(2, channels), 1e-6, "silu"), LayerNorm(), Softmax()):
        wanted = exact(alone(op), x)
        y = run(alone(op), [x], layout)
        assert np.abs(y - wanted).max() < 3e-6 * max(np.abs(wanted).max(), 1e-2)


@LAYOUTS
def test_doubles(layout):
    x = numbers(2, 36, 5, 7, mean=3, dtype=np.float64)
    weights = numbers(2, 36, dtype=np.float64)
    for op in (GroupNorm(4, *weights, 1e-5, "silu"), LayerNorm(*weights)):
        wanted = exact(alone(op), x)
        assert off(run(alone(op), [x], layout, np.float64), wanted) < 1e-14


@LAYOUTS
@pytest.mark.parametrize("op", [GroupNorm(2), LayerNorm()], ids=str)
def test_a_large_mean_costs_no_digits(op, layout):
    """Squares less a squared mean would leave nothing of these."""
    x = (RNG.integers(-8, 9, (1, 64, 40, 30)) / 8 + 4096).astype(np.float32)
    assert off(run(alone(op), [x], layout), exact(alone(op), x)) < 1e-5


@LAYOUTS
def test_a_group_that_begins_with_other_numbers(layout):
    x = numbers(1, 32, 64, 64, mean=100, deviation=1e-2)
    x[:, :, :8] = 0
    op = GroupNorm(4)
    assert off(run(alone(op), [x], layout), exact(alone(op), x)) < 2e-6


@LAYOUTS
@pytest.mark.parametrize("channels, groups", GROUPS)
def test_a_pixel_is_added_first(channels, groups, layout):
    x = numbers(3, channels, 6, 11)
    pixel = numbers(3, channels, 1, 1, deviation=5)
    op = GroupNorm(groups, *numbers(2, channels), 1e-5, "silu")
    nodes = [
        Node(Add(repeated=True), ("x", "t"), ("s",)),
        Node(op, ("s",), ("y",)),
    ]
    apart = Graph(("x", "t"), nodes, ("y",))
    fused = simplify(apart)
    assert [node.inputs for node in fused.nodes] == [("x", "t")]
    wanted = exact(apart, x, pixel)
    for graph in (apart, fused):
        assert off(run(graph, [x, pixel], layout), wanted) < 2e-6


@LAYOUTS
def test_sums_with_a_pixel_are_no_seams(layout):
    """A convolution adds maps of its output's size."""
    weight = RNG.integers(-2, 3, (4, 3, 3, 3)).astype(np.float32)
    nodes = [
        Node(Conv(weight), ("x",), ("a",)),
        Node(Add(repeated=True), ("a", "t"), ("y",)),
    ]
    graph = simplify(Graph(("x", "t"), nodes, ("y",)))
    x, pixel = (RNG.integers(-5, 6, (2, c, *s)) for c, s in ((3, (8, 9)), (4, (1, 1))))
    wanted = exact(graph, x, pixel)
    assert np.array_equal(np.rint(run(graph, [x, pixel], layout)), wanted)


@LAYOUTS
def test_factors_become_part_of_norms(layout):
    x = numbers(2, 6, 5, 7)
    for op in (GroupNorm(2, *numbers(2, 6)), GroupNorm(3), LayerNorm(), LayerNorm(*numbers(2, 6))):
        reads = [("x",), ("a",), ("b",)]
        ops = [op, Affine(*numbers(2, 6)), Affine(*numbers(2, 6))]
        nodes = [Node(one, read, (name,)) for one, read, name in zip(ops, reads, "aby")]
        graph = Graph(("x",), nodes, ("y",))
        folded = simplify(graph)
        assert len(folded.nodes) == 1
        assert off(run(folded, [x], layout), exact(graph, x)) < 2e-6


def test_only_what_a_norm_can_follow_with_is_fused():
    for activation, left in (("silu", 1), ("relu", 1), ("gelu", 2)):
        for op in (GroupNorm(2), LayerNorm()):
            nodes = [Node(op, ("x",), ("a",)), Node(Activation(activation), ("a",), ("y",))]
            assert len(simplify(Graph(("x",), nodes, ("y",))).nodes) == left


@LAYOUTS
def test_numbers_that_are_none_stay_where_they_are(layout):
    x = numbers(2, 4, 3, 17)
    x[0, 1, 2, 3] = np.nan
    y = run(alone(Softmax()), [x], layout)
    assert np.isnan(y[0, :, 2, 3]).all() and np.isfinite(y).sum() == y.size - 4
    y = run(alone(GroupNorm(2)), [x], layout)
    assert np.isnan(y[0, :2]).all() and np.isfinite(y).sum() == y.size - 2 * 3 * 17


@pytest.mark.parametrize(
    "op, message",
    [
        (GroupNorm(3), "a multiple of 3 channels"),
        (GroupNorm(2, np.ones(3, np.float32)), "3 channels"),
        (LayerNorm(None, np.ones(5, np.float32)), "5 channels"),
    ],
    ids=str,
)
def test_shapes_that_do_not_fit(op, message):
    with pytest.raises(InvalidValue, match=message):
        shapes(alone(op), {"x": (1, 4, 2, 2)})
    with pytest.raises(InvalidValue, match="added to that"):
        shapes(alone(Add(repeated=True), "t"), {"x": (1, 4, 2, 2), "t": (1, 4, 2, 2)})
