"""Segments compute what their graph means: integers, but for the rounding of Winograd tiles."""

import numpy as np
import pytest
from graph.graphs import conv, graphs
from graph.reference import compute
from hypothesis import given, settings

from winogen.errors import InvalidType, InvalidValue
from winogen.graph import Add, Concat, Graph, Node, Segment, simplify

RNG = np.random.default_rng(3)


def memory_order(array, layout):
    """A logical (N, C, H, W) array as the layout has it."""
    return np.ascontiguousarray(array if layout == "NCHW" else array.transpose(0, 2, 3, 1))


def check(graph, inputs, layout, segment=None):
    wanted = compute(graph, inputs)
    segment = segment or Segment(simplify(graph), layout=layout)
    outs = segment(*(memory_order(x.astype(np.float32), layout) for x in inputs))
    for name, out in zip(graph.outputs, outs):
        assert np.abs(out - np.rint(out)).max() < 0.05
        assert np.array_equal(np.rint(out), memory_order(wanted[name], layout)), f"{graph}\n{name}"
    return segment


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@settings(max_examples=40)
@given(graphs())
def test_random_graphs(layout, drawn):
    check(*drawn, layout)


def dense_block():
    """Every layer reads all that came before; a residual sum ends it."""
    nodes = [
        Node(conv(RNG, 4, 3), ("x",), ("a",)),
        Node(Concat(), ("x", "a"), ("xa",)),
        Node(conv(RNG, 7, 3), ("xa",), ("b",)),
        Node(Concat(), ("x", "a", "b"), ("xab",)),
        Node(conv(RNG, 10, 4), ("xab",), ("c",)),
        Node(Add(), ("c", "x"), ("y",)),
    ]
    return Graph(("x",), nodes, ("y",))


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_dense_block(layout):
    segment = check(dense_block(), [RNG.integers(-2, 3, (2, 4, 5, 6))], layout)
    check(segment.graph, [RNG.integers(-2, 3, (1, 4, 7, 5))], layout, segment)


def test_inputs_are_checked():
    segment = Segment(dense_block(), layout="NCHW")
    with pytest.raises(InvalidValue, match="inputs: got 2"):
        segment(np.ones((1, 4, 5, 6), np.float32), np.ones(1))
    with pytest.raises(InvalidType, match="float32"):
        segment(np.ones((1, 4, 5, 6)))
    with pytest.raises(InvalidValue, match="4 channels"):
        segment(np.ones((1, 3, 5, 6), np.float32))
    with pytest.raises(InvalidValue, match="layout"):
        Segment(dense_block(), layout="CHWN")
