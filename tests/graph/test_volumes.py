"""Segments of volumes (N, C, D, H, W): convolutions, and all that may lie between them."""

import numpy as np
import pytest
from graph.reference import compute
from graph.test_segment import check

from winogen.errors import InvalidValue
from winogen.graph import (
    Activation,
    Add,
    Affine,
    AveragePool,
    Concat,
    Conv,
    ConvTranspose,
    GlobalAverage,
    Graph,
    GroupNorm,
    MaxPool,
    Multiply,
    Node,
    Pad,
    Repeat,
    Segment,
    Slice,
    simplify,
)

RNG = np.random.default_rng(8)
SLOPES = np.float32([1, 2, 3, 4])


def ints(*shape, most=2):
    return RNG.integers(-most, most + 1, shape).astype(np.float32)


def conv(channels, filters, *taps, padding=None, **options):
    """A convolution that keeps the sizes, with small integers."""
    sides = [end for k in taps for end in (k // 2, (k - 1) // 2)]
    weight = ints(filters, channels // options.get("groups", 1), *taps, most=1)
    return Conv(weight, ints(filters), padding=padding or tuple(sides), **options)


def ran(ops, size=(4, 6, 5), channels=4, layout="NCHW"):
    """Check operators of one map, one behind the other; returns the segment."""
    nodes = [Node(op, (f"v{i}",), (f"v{i + 1}",)) for i, op in enumerate(ops)]
    graph = Graph(("v0",), nodes, (f"v{len(ops)}",))
    return check(graph, [RNG.integers(-3, 4, (2, channels, *size))], layout)


LAYOUTS = pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
CHAINS = {
    "strides": [conv(4, 3, 3, 3, 3, stride=(1, 2, 2)), conv(3, 4, 2, 1, 3)],
    "dilated": [conv(4, 3, 3, 3, 1, dilation=(2, 1, 1)), Activation("relu")],
    "modes": [
        Pad((1, 0, 1, 1, 0, 2), "replicate"),
        conv(4, 4, 3, 3, 3, padding=(0,) * 6, groups=2),
    ],
    "folded": [
        conv(4, 4, 3, 3, 3),
        Affine(SLOPES, ints(4)),
        Activation(("prelu", SLOPES)),
        conv(4, 3, 1, 1, 1),
    ],
    "before": [Affine(SLOPES, ints(4)), Activation(("leaky_relu", 2.0)), conv(4, 3, 1, 3, 3)],
    "pads alone": [conv(4, 4, 1, 1, 1), Pad((1, 2, 0, 1, 3, 0)), Activation("relu")],
    "largest": [
        conv(4, 4, 3, 3, 3),
        MaxPool((2, 3, 2), (2, 2, 1), (1, 0, 1, 1, 0, 1)),
        conv(4, 4, 1, 1, 1),
    ],
    "dilated largest": [conv(4, 4, 1, 1, 1), MaxPool((2, 2, 2), (1, 1, 1), (0,) * 6, (2, 3, 1))],
    "repeated": [conv(4, 4, 3, 3, 3), Repeat((2, 1, 3)), conv(4, 2, 1, 3, 1)],
    "mean": [conv(4, 4, 1, 1, 1), AveragePool((2, 2, 2), (2, 2, 1)), Affine(SLOPES * 8, ints(4))],
}


@LAYOUTS
@pytest.mark.parametrize("ops", CHAINS.values(), ids=CHAINS)
def test_operators_behind_each_other(ops, layout):
    ran(ops, layout=layout)


@LAYOUTS
def test_kernels_along_the_depth_have_two_axes(layout):
    """They read and write slices of channels, beside a kernel of the planes."""
    nodes = [
        Node(conv(4, 6, 1, 3, 3, activation="relu"), ("x",), ("a",)),
        Node(conv(6, 4, 3, 1, 1), ("a", "x"), ("b",)),
        Node(Concat(), ("a", "b"), ("c",)),
        Node(conv(10, 4, 5, 1, 1, stride=(2, 1, 1)), ("c",), ("y",)),
    ]
    segment = check(Graph(("x",), nodes, ("y",)), [ints(2, 4, 6, 5, 7)], layout)
    planned = segment.plan([(2, 4, 6, 5, 7)])
    assert [problem.layer.rank for problem in planned.problems] == [3, 2, 2]
    assert [planned.problem(number).layer.rank for number in range(3)] == [3, 3, 3]


# Kernel, stride, padding, output padding, groups, dilation: as `TRANSPOSED` of maps.
TRANSPOSED = (
    ((2, 2, 2), (2, 2, 2), (0,) * 6, (0, 0, 0), 1),
    ((3, 4, 3), (2, 2, 1), (1, 1, 1, 1, 0, 1), (1, 0, 0), 1),
    ((1, 3, 2), (1, 2, 3), (0, 0, 2, 1, 0, 1), (0, 1, 2), 1),
    ((3, 1, 3), (3, 1, 1), (0, 4, 0, 0, 1, 1), (2, 0, 0), 1),
    ((2, 3, 3), (1, 1, 1), (3, 0, 1, 1, 0, 4), (0, 0, 0), 1),
    ((3, 2, 3), (2, 1, 3), (2, 3, 0, 1, 1, 2), (1, 0, 2), 1, (2, 3, 2)),
    ((3, 4, 2), (2, 2, 3), (1, 0, 1, 1, 0, 1), (0, 0, 1), 2),
    ((3, 3, 3), (1, 2, 1), (1, 1, 1, 1, 1, 1), (0, 1, 0), 4),
    ((3, 2, 3), (3, 1, 2), (2, 3, 0, 1, 1, 2), (1, 0, 1), 2, (2, 1, 1)),
)


@LAYOUTS
@pytest.mark.parametrize("case", TRANSPOSED)
def test_transposed_layers(case, layout):
    """Before a concatenation, so that what is spread goes to a slice of the channels."""
    kernel, stride, padding, more, groups, *dilation = case
    weight = ints(4, 4 // groups, *kernel)
    first = ConvTranspose(weight, ints(4), stride, padding, more, groups, *dilation)
    nodes = [
        Node(first, ("x",), ("a",)),
        Node(Affine(np.float32([1, -1, 2, 1]), ints(4)), ("a",), ("b",)),
        Node(Activation(("prelu", SLOPES)), ("b",), ("c",)),
        Node(conv(4, 2, 1, 1, 1), ("c",), ("d",)),
        Node(Concat(), ("d", "c"), ("y",)),
    ]
    graph = Graph(("x",), nodes, ("y",))
    assert len(simplify(graph).nodes) == 3
    check(graph, [RNG.integers(-3, 4, (2, 4, 4, 5, 6))], layout)


@LAYOUTS
def test_a_small_net_with_seams(layout):
    """Additions and a concatenation, slices of it pooled, gates of a single pixel."""
    nodes = [
        Node(conv(4, 4, 3, 3, 3), ("x",), ("a",)),
        Node(Add(), ("a", "x"), ("b",)),
        Node(Activation("relu"), ("b",), ("c",)),
        Node(conv(4, 4, 1, 3, 1, activation="relu"), ("c",), ("d",)),
        Node(Add(), ("c", "d"), ("e",)),
        Node(Concat(), ("e", "a"), ("f",)),
        Node(Slice(2, 7), ("f",), ("g",)),
        Node(MaxPool((2, 2, 2), (2, 2, 2)), ("g",), ("h",)),
        Node(conv(5, 2, 1, 1, 1), ("h",), ("i",)),
        Node(Repeat((2, 2, 2)), ("i",), ("j",)),
        Node(Slice(0, 2), ("f",), ("k",)),
        Node(Multiply(), ("j", "k"), ("y",)),
    ]
    check(Graph(("x",), nodes, ("y", "h")), [RNG.integers(-2, 3, (2, 4, 4, 6, 4))], layout)


@LAYOUTS
def test_means_and_norms(layout):
    """Within rounding, as they divide."""
    nodes = [
        Node(conv(6, 6, 3, 3, 3), ("x",), ("a",)),
        Node(GroupNorm(2, ints(6), ints(6)), ("a",), ("b",)),
        Node(AveragePool((3, 3, 2), (1, 2, 2), (1, 1, 1, 1, 0, 0)), ("b",), ("c",)),
        Node(AveragePool((3, 2, 2), (2, 1, 1), (1, 1, 0, 0, 0, 1), True), ("c",), ("d",)),
        Node(GlobalAverage(), ("d",), ("e",)),
        Node(Multiply(), ("d", "e"), ("f",)),
        Node(Add(repeated=True), ("f", "e"), ("y",)),
    ]
    graph = Graph(("x",), nodes, ("y",))
    x = RNG.standard_normal((2, 6, 5, 7, 6))
    (y,) = Segment(simplify(graph), layout=layout)(
        np.ascontiguousarray(x if layout == "NCHW" else np.moveaxis(x, 1, -1), np.float32)
    )
    y = y if layout == "NCHW" else np.moveaxis(y, -1, 1)
    wanted = compute(graph, [x])["y"]
    assert np.abs(y - wanted).max() < 1e-4 * np.abs(wanted).max()


def test_what_does_not_fit_is_refused_by_name():
    with pytest.raises(InvalidValue, match="conv 3x3x3 4->4.*allowed: 5 axes"):
        Segment(Graph(("x",), [Node(conv(4, 4, 3, 3, 3), ("x",), ("y",))], ("y",)))(
            np.zeros((1, 4, 5, 5), np.float32)
        )
    segment = Segment(Graph(("x",), [Node(conv(4, 4, 3, 3, 3), ("x",), ("y",))], ("y",)))
    with pytest.raises(InvalidValue, match=r"4 axes \(N, C, H, W\) or 5 \(N, C, D, H, W\)"):
        segment(np.zeros((4, 5, 5), np.float32))
