"""Folding and fusing change no value, and leave nothing that they should have taken."""

import pickle

import numpy as np
import pytest
from conv.reference import convolve
from graph.graphs import conv, graphs
from graph.reference import compute
from hypothesis import given, settings

from winogen.errors import InvalidType, InvalidValue
from winogen.graph import (
    Activation,
    Add,
    Affine,
    Concat,
    Conv,
    ConvTranspose,
    Graph,
    Node,
    Opaque,
    Pad,
    cut,
    shapes,
    simplify,
)

RNG = np.random.default_rng(7)
SCALE, SHIFT = np.float32([2, 1, -1, 3]), np.float32([1, 0, 2, -1])


def chain(*ops, inputs=("x",)):
    """Operators one behind the other."""
    names = [*inputs[:1], *(f"v{i}" for i in range(len(ops)))]
    nodes = [Node(op, (a,), (b,)) for op, a, b in zip(ops, names, names[1:])]
    return Graph(inputs, nodes, names[-1:])


def same(graph, other, channels=4):
    x = [RNG.integers(-3, 4, (1, channels, 5, 6)) for _ in graph.inputs]
    left, right = compute(graph, x), compute(other, x)
    for name in graph.outputs:
        assert np.array_equal(left[name], right[name])


@settings(max_examples=150)
@given(graphs())
def test_simplified_graphs_compute_the_same(drawn):
    graph, inputs = drawn
    simple = simplify(graph)
    wanted, got = compute(graph, inputs), compute(simple, inputs)
    for name in graph.outputs:
        assert np.array_equal(got[name], wanted[name]), f"{graph}\n{simple}"
    assert not any(isinstance(node.op, Affine) for node in simple.nodes)
    assert [y.shape for y in map(wanted.get, graph.outputs)] == [
        shapes(simple, dict(zip(graph.inputs, (x.shape for x in inputs))))[name]
        for name in graph.outputs
    ]


@settings(max_examples=50)
@given(graphs())
def test_pickled_graphs_are_loaded_as_they_were(drawn):
    graph, inputs = drawn
    again = pickle.loads(pickle.dumps(graph))
    assert str(again) == str(graph)
    wanted, got = compute(graph, inputs), compute(again, inputs)
    for name in graph.outputs:
        assert np.array_equal(got[name], wanted[name])


def test_batch_norm_and_relu_become_part_of_the_convolution():
    graph = chain(conv(RNG, 4, 4), Affine(SCALE, SHIFT), Activation("relu"))
    simple = simplify(graph)
    assert [type(node.op) for node in simple.nodes] == [Conv]
    assert simple.nodes[0].op.activation == "relu"
    same(graph, simple)


def test_batch_norm_is_folded_in_float64():
    mean, var = np.float32([0.1, 3]), np.float32([0.5, 2])
    weight, bias = np.float32([1.5, -2]), np.float32([0.2, 0.7])
    norm = Affine.batch_norm(mean, var, weight, bias, 1e-5)
    exact = (5.0 - mean.astype(float)) / np.sqrt(var.astype(float) + 1e-5) * weight + bias
    assert norm.scale.dtype == np.float32
    assert np.allclose(norm.scale * 5.0 + norm.shift, exact, rtol=3e-7)
    plain = Affine.batch_norm(mean, var, None, None, 1e-5)
    assert np.allclose(plain.scale, 1 / np.sqrt(var + 1e-5))


def test_a_convolution_used_twice_is_folded_once_for_each():
    shared = conv(RNG, 4, 4)
    before = shared.weight.copy()
    nodes = [
        Node(shared, ("x",), ("a",)),
        Node(Affine(SCALE, SHIFT), ("a",), ("b",)),
        Node(shared, ("b",), ("c",)),
    ]
    graph = Graph(("x",), nodes, ("c",))
    simple = simplify(graph)
    assert len(simple.nodes) == 2
    assert np.array_equal(shared.weight, before)
    same(graph, simple)


def test_a_value_that_others_read_is_left_alone():
    nodes = [
        Node(conv(RNG, 4, 4), ("x",), ("a",)),
        Node(Affine(SCALE, SHIFT), ("a",), ("b",)),
        Node(Activation("relu"), ("a",), ("c",)),
        Node(Add(), ("b", "c"), ("d",)),
    ]
    graph = Graph(("x",), nodes, ("d", "a"))
    simple = simplify(graph)
    assert "a" in {node.output for node in simple.nodes}
    same(graph, simple)


def test_normalization_before_a_convolution_becomes_depthwise_with_its_relu():
    graph = chain(Affine(SCALE, SHIFT), Activation("relu"), conv(RNG, 4, 3))
    simple = simplify(graph)
    first, second = simple.nodes
    assert first.op.groups == 4 and first.op.activation == "relu" and second.op.groups == 1
    same(graph, simple)


def test_residual_block():
    nodes = [
        Node(conv(RNG, 4, 4), ("x",), ("a",)),
        Node(Activation("relu"), ("a",), ("b",)),
        Node(conv(RNG, 4, 4), ("b",), ("c",)),
        Node(conv(RNG, 4, 4, 1), ("x",), ("d",)),
        Node(Add(), ("c", "d"), ("e",)),
        Node(Activation("relu"), ("e",), ("f",)),
    ]
    graph = Graph(("x",), nodes, ("f",))
    simple = simplify(graph)
    assert len(simple.nodes) == 3
    last = simple.nodes[-1]
    assert last.add and last.op.activation == "relu" and not last.add_after
    same(graph, simple)


def test_sums_before_and_behind_an_activation():
    nodes = [
        Node(conv(RNG, 4, 4), ("x",), ("a",)),
        Node(Add(), ("a", "x"), ("b",)),
        Node(Activation("relu"), ("b",), ("c",)),
        Node(Add(), ("x", "c"), ("d",)),
    ]
    graph = Graph(("x",), nodes, ("d",))
    (only,) = simplify(graph).nodes
    assert (only.add, only.add_after) == ("x", "x")
    same(graph, simplify(graph))


def test_a_scaled_branch_folds_its_scale():
    scaled = Affine(np.full(4, 2, np.float32), np.zeros(4, np.float32))
    nodes = [
        Node(conv(RNG, 4, 4), ("x",), ("a",)),
        Node(scaled, ("a",), ("b",)),
        Node(Add(), ("b", "x"), ("c",)),
        Node(scaled, ("c",), ("d",)),  # of a sum: a step of its own, which takes the next sum
        Node(Add(), ("d", "x"), ("e",)),
    ]
    graph = Graph(("x",), nodes, ("e",))
    simple = simplify(graph)
    assert [node.op.groups for node in simple.nodes] == [1, 4]
    same(graph, simple)


def test_a_sum_with_itself_and_of_inputs_stays():
    nodes = [
        Node(conv(RNG, 4, 4), ("x",), ("a",)),
        Node(Add(), ("a", "a"), ("b",)),
        Node(Add(), ("x", "x"), ("c",)),
        Node(Add(), ("b", "c"), ("d",)),
    ]
    graph = Graph(("x",), nodes, ("d",))
    same(graph, simplify(graph))


@pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
def test_padding_is_folded_where_it_means_the_same(mode):
    pad = Pad((1, 2, 2, 1), mode)
    (only,) = simplify(chain(pad, conv(RNG, 4, 4, padding=0))).nodes
    assert only.op.padding == (1, 2, 2, 1) and only.op.padding_mode == mode
    graph = chain(pad, conv(RNG, 4, 4))
    assert len(simplify(graph).nodes) == (1 if mode == "zeros" else 2)
    same(graph, simplify(graph))


def test_padding_that_others_read_stays_for_them():
    nodes = [
        Node(Pad((1, 1, 1, 1)), ("x",), ("p",)),
        Node(conv(RNG, 4, 4, padding=0), ("p",), ("a",)),
    ]
    graph = Graph(("x",), nodes, ("a", "p"))
    simple = simplify(graph)
    assert len(simple.nodes) == 2
    same(graph, simple)


def test_dead_nodes_go():
    nodes = [Node(conv(RNG, 4, 4), ("x",), ("a",)), Node(conv(RNG, 4, 4), ("x",), ("b",))]
    assert len(simplify(Graph(("x",), nodes, ("b",))).nodes) == 1


def test_shapes_and_their_errors():
    graph = chain(
        Conv(np.ones((8, 2, 3, 2), np.float32), stride=(2, 1), padding=(1, 0, 2, 1), groups=2)
    )
    assert shapes(graph, {"x": (2, 4, 9, 7)})["v0"] == (2, 8, 4, 9)
    x, w = RNG.integers(-1, 2, (2, 4, 9, 7)), RNG.integers(-1, 2, (8, 2, 3, 2))
    assert convolve(x, w, None, (2, 1), ((1, 0), (2, 1)), groups=2).shape == (2, 8, 4, 9)
    for shape, words in (
        ((2, 3, 9, 7), "4 channels"),
        ((2, 4, 1, 7), "at least as large"),
        ((4, 9, 7), "4 axes"),
    ):
        with pytest.raises(InvalidValue, match=words):
            shapes(graph, {"x": shape})
    two = Graph(("x", "y"), [Node(Add(), ("x", "y"), ("z",))], ("z",))
    with pytest.raises(InvalidValue, match="since it is added"):
        shapes(two, {"x": (1, 2, 3, 3), "y": (1, 2, 3, 1)})
    joined = Graph(("x", "y"), [Node(Concat(), ("x", "y"), ("z",))], ("z",))
    with pytest.raises(InvalidValue, match="but for the channels"):
        shapes(joined, {"x": (1, 2, 3, 3), "y": (1, 2, 3, 1)})


def test_graphs_are_checked():
    relu = Activation("relu")
    with pytest.raises(InvalidValue, match="before it is made"):
        Graph(("x",), [Node(relu, ("y",), ("z",))], ("z",))
    with pytest.raises(InvalidValue, match="made twice"):
        Graph(("x",), [Node(relu, ("x",), ("x",))], ("x",))
    with pytest.raises(InvalidValue, match="outputs"):
        Graph(("x",), [], ("y",))
    with pytest.raises(InvalidValue, match="as many as"):
        Graph(("x",), [Node(Add(), ("x",), ("y",))], ("y",))
    with pytest.raises(InvalidType, match="operator"):
        Graph(("x",), [Node("relu", ("x",), ("y",))], ("y",))
    mixed = chain(conv(RNG, 4, 4), Affine(np.ones(4), np.ones(4)))
    with pytest.raises(InvalidType, match="one for the whole graph"):
        _ = mixed.dtype


def test_segments_end_where_a_way_leads_out_and_back():
    """conv a feeds both a pool and a concatenation with what a convolution makes of the pool."""
    nodes = [
        Node(conv(RNG, 4, 4), ("x",), ("a",)),
        Node(Opaque("pool"), ("a",), ("p",)),
        Node(conv(RNG, 4, 4), ("p",), ("b",)),
        Node(Concat(), ("a", "b"), ("c",)),
        Node(conv(RNG, 8, 4), ("c",), ("d",)),
        Node(Opaque("linear"), ("d",), ("e",)),
    ]
    pieces = cut(Graph(("x",), nodes, ("e",)))
    assert [piece.ours for piece in pieces] == [True, False, True, False]
    first, _, second, _ = (piece.graph for piece in pieces)
    assert first.outputs == ("a",)
    assert set(second.inputs) == {"p", "a"} and second.outputs == ("d",)


def test_excluded_layers_and_segments_without_convolutions_are_left():
    nodes = [
        Node(conv(RNG, 4, 4), ("x",), ("a",)),
        Node(conv(RNG, 4, 4), ("a",), ("b",)),
        Node(Activation("relu"), ("b",), ("c",)),
    ]
    graph = Graph(("x",), nodes, ("c",))
    assert [p.ours for p in cut(graph, {"b"})] == [True, False, False]
    assert [p.ours for p in cut(graph, {"a"})] == [False, True]
    assert not any(p.ours for p in cut(graph, {"a", "b"}))


@pytest.mark.parametrize("taps", [(3, 3), (3, 3, 3), (1, 1)])
@pytest.mark.parametrize("kind", [Conv, ConvTranspose])
def test_every_convolution_is_worth_a_segment(kind, taps):
    graph = chain(Activation("relu"), kind(np.ones((4, 4, *taps), np.float32)))
    assert [piece.ours for piece in cut(graph)] == [True]
    assert not any(piece.ours for piece in cut(chain(Activation("relu"), Pad((1, 1, 1, 1)))))


@settings(max_examples=100)
@given(graphs())
def test_pieces_compute_the_whole(drawn):
    """Every second convolution is the framework's; pieces in their order need nothing later."""
    graph, inputs = drawn
    excluded = {node.output for i, node in enumerate(graph.nodes) if i % 3 == 1}
    values = dict(zip(graph.inputs, inputs))
    for piece in cut(graph, excluded):
        made = compute(piece.graph, [values[name] for name in piece.graph.inputs])
        values |= {name: made[name] for name in piece.graph.outputs}
        if piece.ours:
            assert excluded.isdisjoint(name for n in piece.graph.nodes for name in n.outputs)
    wanted = compute(graph, inputs)
    for name in graph.outputs:
        assert np.array_equal(values[name], wanted[name])
