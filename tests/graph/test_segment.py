"""Segments compute what their graph means: integers, but for the rounding of Winograd tiles."""

import pickle
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from graph.graphs import conv, graphs
from graph.reference import compute
from hypothesis import given, settings

from winogen.conv import quantized_tiles
from winogen.conv.planner import predicted_error
from winogen.errors import InvalidType, InvalidValue
from winogen.graph import (
    Activation,
    Add,
    Affine,
    Concat,
    Conv,
    ConvTranspose,
    Graph,
    MaxPool,
    Node,
    QConv,
    Segment,
    runtime,
    shapes,
    simplify,
)
from winogen.graph.compiling import kernels
from winogen.graph.planning import plan, plan_all
from winogen.graph.settings import Settings
from winogen.onnx import library
from winogen.records import TARGETS, Machine
from winogen.toolchain import host_target, meters, threads

RNG = np.random.default_rng(3)


def memory_order(array, layout):
    """A logical (N, C, H, W) array as the layout has it."""
    return np.ascontiguousarray(array if layout == "NCHW" else np.moveaxis(array, 1, -1))


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


# Kernel, stride, padding, output padding, groups, dilation: kernels shorter and longer than the
# stride, missing taps, paddings of whole kernels, more inputs than any output sees.
TRANSPOSED = (
    ((3, 2), (2, 3), (1, 0, 2, 1), (1, 2), 1, (2, 2)),
    ((3, 3), (2, 1), (4, 1, 3, 4), (0, 1), 2, (3, 2)),
    ((2, 2), (2, 2), (0, 0, 0, 0), (0, 0), 1),
    ((4, 4), (2, 2), (1, 1, 1, 1), (0, 0), 1),
    ((3, 3), (2, 2), (1, 1, 1, 1), (1, 1), 2),
    ((3, 2), (1, 3), (0, 2, 1, 0), (0, 2), 4),
    ((1, 5), (2, 4), (0, 0, 7, 3), (1, 0), 1),
    ((3, 3), (1, 1), (1, 1, 1, 1), (0, 0), 2),
    ((2, 3), (1, 1), (4, 0, 0, 3), (0, 0), 1),
)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("case", TRANSPOSED)
def test_transposed_layers(case, layout):
    """With what is folded and fused into them, before a convolution and a concatenation."""
    kernel, stride, padding, more, groups, *dilation = case
    rng = np.random.default_rng(7)

    def ints(*shape):
        return rng.integers(-2, 3, shape).astype(np.float32)

    weight = ints(4, 4 // groups, *kernel)
    first = ConvTranspose(weight, ints(4), stride, padding, more, groups, *dilation)
    slopes = np.float32([1, 2, 3, 4])
    nodes = [
        Node(first, ("x",), ("a",)),
        Node(Affine(np.float32([1, -1, 2, 1]), ints(4)), ("a",), ("b",)),
        Node(Activation(("prelu", slopes)), ("b",), ("c",)),
        Node(Conv(ints(3, 4, 1, 1)), ("c",), ("d",)),
        Node(Concat(), ("c", "d"), ("y",)),
    ]
    graph = Graph(("x",), nodes, ("y",))
    assert len(simplify(graph).nodes) == 3
    check(graph, [rng.integers(-3, 4, (2, 4, 6, 5))], layout)


def test_a_transposed_layer_needs_an_output():
    layer = ConvTranspose(np.ones((1, 1, 2, 2), np.float32), padding=(1, 1, 0, 0))
    graph = Graph(("x",), [Node(layer, ("x",), ("y",))], ("y",))
    with pytest.raises(InvalidValue, match="a size whose output has pixels"):
        Segment(graph).plan([(1, 1, 1, 4)])
    with pytest.raises(InvalidValue, match="allowed: 1 channels"):
        Segment(graph).plan([(1, 2, 3, 4)])


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


def test_long_calls_return_to_python(monkeypatch):
    """In pieces of whatever size, the result has the same bits."""
    from winogen.graph import steps

    x = RNG.standard_normal((9, 4, 30, 31)).astype(np.float32)
    whole = Segment(dense_block(), layout="NCHW", threads=2)
    (wanted,) = whole(x)
    assert len(whole.bound([x.shape])._groups) == 1
    monkeypatch.setattr(steps, "_PATIENCE", 1e-9)
    pieces = Segment(whole.graph, layout="NCHW", threads=2)
    (y,) = pieces(x)
    bound = pieces.bound([x.shape])
    assert len(bound._groups) > 3 and len(bound.rows) > len(bound.planned.steps)
    assert np.array_equal(y, wanted)


def test_one_segment_serves_several_threads():
    segment = Segment(simplify(dense_block()), layout="NHWC", threads=1)
    arrays = [RNG.standard_normal((1, 9 + i, 10, 4)).astype(np.float32) for i in range(6)]
    wanted = [segment(x)[0] for x in arrays]
    fresh = pickle.loads(pickle.dumps(segment))
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            for y, one in zip(pool.map(lambda x: fresh(x)[0], arrays), wanted):
                assert np.array_equal(y, one)


def test_packed_filters_are_shared_between_shapes_and_limited():
    graph = Graph(("x",), [Node(conv(RNG, 16, 16), ("x",), ("y",))], ("y",))
    free = Segment(graph, layout="NHWC", threads=1)
    shapes = [(1, 16, 24, 24), (1, 16, 48, 24)]
    packed = {free.bound([shape]).packed_bytes for shape in shapes}
    assert free.packed_bytes <= sum(packed)
    least = graph.nodes[0].op.weight.nbytes
    tight = Segment(graph, layout="NHWC", threads=1, memory_limit=2 * least)
    planned = tight.plan(shapes[:1])
    assert least <= planned.packed_bytes <= 2 * least < free.plan(shapes[:1]).packed_bytes
    assert tight.bound(shapes[:1]).packed_bytes == planned.packed_bytes
    # A limit that is too low for a shape is no reason not to compute it.
    none, one = (Segment(graph, memory_limit=limit).plan(shapes[:1]) for limit in (0, 1))
    assert one.packed_bytes == none.packed_bytes >= least
    with pytest.raises(InvalidValue, match="memory_limit"):
        plan_all([(graph, shapes[:1])], free.settings(), 1)


def test_a_ceiling_for_errors():
    graph = Graph(("x",), [Node(conv(RNG, 32, 32), ("x",), ("y",))], ("y",))
    shape = [(1, 32, 56, 56)]

    def error(**options):
        planned = Segment(graph, threads=1, **options).plan(shape)
        way = planned.choices[0].ways[0].candidate
        return predicted_error(planned.problems[0].layer, way.choice, planned.settings.target)

    usual = error()
    assert error(most_error=0.9 * usual) <= 0.9 * usual
    assert error(most_error=1e-12) > 0  # nothing is so accurate: as without


def test_zero_batch_and_given_outputs():
    segment = Segment(simplify(dense_block()), layout="NCHW")
    (y,) = segment(np.ones((0, 4, 5, 6), np.float32))
    assert y.shape == (0, 4, 5, 6)
    x, out = np.ones((1, 4, 5, 6), np.float32), np.empty((1, 4, 5, 6), np.float32)
    (same,) = segment(x, outs=[out])
    assert same is out and np.array_equal(out, segment(x)[0])
    for wrong in (
        [out, out],
        [out[:, :2]],
        [np.empty((1, 4, 6, 5), np.float32).swapaxes(2, 3)],
        [x],
    ):
        with pytest.raises(InvalidValue, match="out"):
            segment(x, outs=wrong)


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


def test_numbers_that_are_only_moved_take_as_long_as_memory_does():
    node = Node(MaxPool((2, 2), (2, 2)), ("x",), ("y",))
    graph = Graph(("x",), [node], ("y",))
    usual = Segment(graph).settings()

    def seconds(rate):
        settings = replace(usual, machine=replace(usual.machine, memory_rate=rate))
        return plan(graph, [(1, 8, 64, 64)], settings).seconds

    assert seconds(2.0) == 2 * seconds(4.0) > 0


def test_bytes_have_shapes_and_no_segment():
    weight = np.ones((6, 2, 3, 3), np.int8)
    op = QConv(weight, None, "uint8", 3, 0, padding=(1, 1, 1, 1), stride=(2, 1), groups=2)
    graph = Graph(("x",), [Node(op, ("x",), ("y",))], ("y",))
    assert shapes(graph, {"x": (1, 4, 9, 8)})["y"] == (1, 6, 5, 8)
    (same,) = (node.op for node in pickle.loads(pickle.dumps(graph)).nodes)
    assert same.options == op.options and np.array_equal(same.weight, weight)
    with pytest.raises(InvalidValue, match="graph: got the operator quantized conv 3x3 4->6"):
        Segment(graph)


def test_confined_to_the_kernels_at_hand():
    """Further shapes are computed by the kernels of the first as long as somebody only tries.

    Also where another register block of the same variant is predicted to be faster.
    """
    weight = np.random.default_rng(0).standard_normal((64, 64, 3, 3)).astype(np.float32)
    graph = Graph(("x",), [Node(Conv(weight, padding=(1, 1, 1, 1)), ("x",), ("y",))], ("y",))
    small, large = ((1, 64, 4, 4),), ((1, 64, 56, 56),)
    segment = Segment(graph)
    first = set(kernels([segment.bound(small).planned]))
    assert not first >= set(kernels([segment.plan(large)]))  # else this test says nothing
    with segment.confined(first):
        assert first >= set(kernels([segment.bound(large).planned]))
    assert not first >= set(kernels([segment.bound(large).planned]))


@pytest.mark.parametrize("name", ("avx512", "avx2", "sse2", "generic", "neon"))
def test_plans_by_familiar_kernels(name):
    """On any CPU: those of the first shape where they can, and all where they cannot."""
    weight = np.random.default_rng(0).standard_normal((64, 64, 3, 3)).astype(np.float32)
    graph = Graph(("x",), [Node(Conv(weight, padding=(1, 1, 1, 1)), ("x",), ("y",))], ("y",))
    small, large = [(1, 64, 8, 8)], [(1, 64, 56, 56)]
    common = Settings("NCHW", "float32", 1, None, "auto", TARGETS[name], Machine())
    first = frozenset(kernels([plan(graph, small, common)]))
    usual = set(kernels([plan(graph, large, common)]))
    assert set(kernels([plan(graph, large, replace(common, familiar=first))])) <= first
    assert set(kernels([plan(graph, large, replace(common, familiar=frozenset()))])) == usual
    least = plan_all([(graph, large)], common, 0)[0].packed_bytes
    limited = plan(graph, large, replace(common, familiar=first), least)
    assert limited.packed_bytes <= least  # by others, where the familiar have larger filters


def test_layers_of_a_net_with_many_filters_read_their_own_from_memory():
    """Where the last cache has room for all, each finds its own there."""
    weight = np.ones((256, 256, 3, 3), np.float32)

    def nodes(count):
        return [
            Node(Conv(weight, padding=(1, 1, 1, 1)), (f"v{i}",), (f"v{i + 1}",))
            for i in range(count)
        ]

    settings = Settings("NHWC", "float32", 1, None, "auto", TARGETS["avx512"], Machine())
    few, many = (
        plan(Graph(("v0",), nodes(count), (f"v{count}",)), [(1, 256, 14, 14)], settings)
        for count in (7, 8)
    )
    assert few.settings == settings
    assert many.settings == replace(settings, machine=Machine().among(8 * weight.nbytes))
    assert many.settings != settings
    assert many.choices[0].seconds > few.choices[0].seconds


@pytest.mark.thorough
@pytest.mark.skipif(not shutil.which("ldd"), reason="needs ldd")
@pytest.mark.parametrize("dtype", ("float32", "float64"))
def test_libraries_name_all_that_they_need(dtype):
    """What Python happens to have loaded, as the functions of libm, need not be in every one."""
    builds = runtime.build_of(host_target(), dtype), quantized_tiles.build_of(host_target())
    for build in (*builds, library.build_of(), meters.build_of(host_target()), threads.build_of()):
        words = ["ldd", "-r", str(build.load().path)]
        printed = subprocess.run(words, check=True, capture_output=True, text=True)
        assert "undefined symbol" not in printed.stdout + printed.stderr, build.name
