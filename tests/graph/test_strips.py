"""Strips compute every row once from rows that are there, and results keep their bits."""

from dataclasses import replace

import numpy as np
import pytest
from graph.graphs import conv
from hypothesis import given, settings
from hypothesis import strategies as st

from winogen.conv import memory
from winogen.graph import (
    Add,
    Concat,
    Conv,
    Graph,
    MaxPool,
    Node,
    Repeat,
    Segment,
    Spread,
    simplify,
    trial,
)
from winogen.graph.planning import plan
from winogen.graph.steps import Bound
from winogen.graph.strips import Compute, Rows, strips_of
from winogen.records import Costs, Machine
from winogen.tasks.duel import Times

RNG = np.random.default_rng(5)


@st.composite
def linked(draw):
    """Steps whose rows fit each other, and the height of a strip."""
    rows, steps = draw(st.integers(1, 60)), []
    for _ in range(draw(st.integers(2, 5))):
        reach, stride = draw(st.integers(1, 7)), draw(st.integers(1, 3))
        above, below = draw(st.integers(0, reach + 2)), draw(st.integers(0, reach + 2))
        outputs = (rows + above + below - reach) // stride + 1
        if outputs < 1 or not Rows(reach, stride, above, rows, outputs).all_read:
            reach, stride, above, outputs = 1, 1, 0, rows
        grows = draw(st.sampled_from((1, 1, 1, 2, 3)))
        if grows > 1:
            steps.append(Rows(1, 1, 0, rows, grows * rows, grows, grows))
            outputs = grows * rows
        else:
            steps.append(Rows(reach, stride, above, rows, outputs, draw(st.integers(1, 4))))
        rows = outputs
    return steps, draw(st.integers(1, 70))


@settings(max_examples=400)
@given(linked())
def test_every_row_is_computed_once_from_rows_that_are_there(drawn):
    steps, height = drawn
    strips = strips_of(steps, height)
    memories = [list(range(steps[0].inputs))]  # which row of the picture lies where
    memories += [[None] * rows for rows in strips.windows]
    memories.append([None] * steps[-1].outputs)
    done = [0] * len(steps)
    for job in strips.jobs:
        after = memories[job.step + 1]
        if not isinstance(job, Compute):
            assert job.up >= job.rows > 0  # nothing is written over before it is read
            for row in range(job.rows):
                assert after[job.up + row] == job.begin + row
                after[row] = after[job.up + row]
            continue
        rows, before = steps[job.step], memories[job.step]
        assert job.first < job.last
        assert job.begin == done[job.step] < job.end
        assert job.end % rows.unit == 0 or job.end == rows.outputs
        assert job.above == max(0, rows.padding - job.begin * rows.stride)
        assert before[job.source : job.source + job.last - job.first] == list(
            range(job.first, job.last)
        )
        for row in range(job.begin, job.end):
            first = row // rows.grows * rows.stride - rows.padding
            seen = [r for r in range(first, first + rows.reach) if 0 <= r < rows.inputs]
            assert all(job.first <= r < job.last for r in seen)
        after[job.target : job.target + job.end - job.begin] = range(job.begin, job.end)
        assert len(after) in (*strips.windows, steps[-1].outputs)  # nothing lies behind the end
        done[job.step] = job.end
    assert done == [rows.outputs for rows in steps]


@pytest.mark.parametrize("below", (2, 3, 32))
def test_outputs_that_see_padding_alone_are_in_no_chain(below):
    """No strip of theirs would have an input."""
    nodes = [
        Node(conv(RNG, 64, 64), ("x",), ("a",)),
        Node(replace(conv(RNG, 64, 64), padding=(0, below, 0, 0)), ("a",), ("b",)),
    ]
    planned = Segment(Graph(("x",), nodes, ("b",)), threads=2).plan([(1, 64, 224, 224)])
    assert bool(planned.possible) == (below < 3)


def inverted(kernel=3, stride=1, residual=True):
    """1x1, depthwise, 1x1."""
    ends = (kernel // 2,) * 4
    box = RNG.standard_normal((21, 1, kernel, kernel)).astype(np.float32)
    nodes = [
        Node(conv(RNG, 6, 21, 1, activation="relu6"), ("x",), ("a",)),
        Node(
            Conv(box, groups=21, stride=(stride, stride), padding=ends, activation="silu"),
            ("a",),
            ("b",),
        ),
        Node(conv(RNG, 21, 6, 1), ("b",), ("c",)),
    ]
    if residual:
        nodes.append(Node(Add(), ("c", "x"), ("y",)))
    return Graph(("x",), nodes, (nodes[-1].output,))


MAPS = {
    "pool": MaxPool((3, 3), (2, 2), (1, 1, 1, 1)),
    "repeat": Repeat((2, 3)),
    "spread": Spread((4, 1)),
    "pixels": Spread((2, 2), "pixels"),
}


def layers(*kinds):
    """Layers one after the other: "3x3", "1x1", "/2", "slopes", "pool", "repeat" or "spread"."""
    nodes, name = [], "x"
    for number, kind in enumerate(kinds):
        bias, around = RNG.standard_normal(6).astype(np.float32), (1,) * 4
        options = {
            "3x3": {"padding": around, "activation": "relu"},
            "1x1": {},
            "/2": {"padding": around, "stride": (2, 2)},
            "slopes": {"padding": around, "activation": ("prelu", bias)},
        }
        if kind in MAPS:
            op = MAPS[kind]
        elif kind == "to 24":
            op = conv(RNG, 6, 24, 1)
        else:
            size = (1, 1) if kind == "1x1" else (3, 3)
            op = Conv(RNG.standard_normal((6, 6, *size)).astype(np.float32), bias, **options[kind])
        nodes.append(Node(op, (name,), (f"v{number}",)))
        name = f"v{number}"
    return Graph(("x",), nodes, (name,))


def slices():
    """The last step of a chain writes some channels of an array and adds others."""
    nodes = [
        *layers("3x3", "3x3").nodes,
        Node(Concat(), ("x", "v1"), ("xy",)),
        Node(conv(RNG, 12, 3, 1), ("xy",), ("z",)),
    ]
    return Graph(("x",), nodes, ("z",))


GRAPHS = {
    "residual": inverted(),
    "stride 2": inverted(stride=2, residual=False),
    "5x5": inverted(5),
    "pair": layers("3x3", "3x3"),
    "stem and pool": layers("/2", "pool", "1x1"),
    "five": layers("1x1", "slopes", "3x3", "pool", "3x3"),
    "slices": slices(),
    "enlarged": layers("3x3", "repeat", "3x3"),
    "spread": layers("to 24", "spread", "3x3"),
    "spread pixels": layers("3x3", "to 24", "pixels", "1x1"),
}


def planned(graph, shape, *, layout="NHWC", algorithm="auto", threads=1, **changes):
    """The plan for a machine of tiny caches, where strips are worth it."""
    usual = Segment(graph, layout=layout, algorithm=algorithm, threads=threads).settings()
    costs = replace(usual.machine.costs, barrier=0.0, residual=0.0)
    machine = replace(usual.machine, l2_bytes=4 << 10, l3_bytes=8 << 10, costs=costs)
    return plan(graph, [shape], replace(usual, machine=machine, **changes))


def test_strips_pay_sooner_where_others_take_more_of_the_last_cache():
    graph, shape = simplify(GRAPHS["pair"]), (1, 6, 120, 120)
    usual = Segment(graph, layout="NHWC", threads=1).settings()
    few, many = (
        Machine(l2_bytes=4 << 10, l3_bytes=1 << 20, costs=replace(Costs(), displaced=times))
        for times in (1.0, 64.0)
    )
    assert not plan(graph, [shape], replace(usual, machine=few)).possible
    assert plan(graph, [shape], replace(usual, machine=many)).possible


def bound(graph, shape, **options):
    return Bound(planned(graph, shape, **options), {})


def run(made, x):
    """Results, where all memory held what is no number before."""
    outs = [np.full(shape, np.nan, x.dtype) for shape in made.output_shapes]
    memory.workspace(made.scratch_bytes).view(np.uint8)[:] = 0xFF
    made.run([array.ctypes.data for array in (x, *outs)])
    return outs


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("name", GRAPHS)
def test_strips_keep_the_bits(name, layout):
    graph = simplify(GRAPHS[name])
    for batch, height, width in ((1, 40, 33), (3, 23, 16)):
        x = RNG.standard_normal((batch, 6, height, width)).astype(np.float32)
        x = x if layout == "NCHW" else np.ascontiguousarray(x.transpose(0, 2, 3, 1))
        one, other = (
            bound(graph, (batch, 6, height, width), strips=strips, layout=layout)
            for strips in (False, True)
        )
        assert not one.planned.chains
        jobs = [chain.strips.jobs for chain in other.planned.chains]
        assert any(len({job.end for job in one if job.step == 0}) > 1 or batch > 1 for one in jobs)
        assert other.scratch_bytes < one.scratch_bytes
        for y, wanted in zip(run(other, x), run(one, x)):
            assert np.array_equal(y, wanted)


@pytest.mark.parametrize("algorithm", ["direct", "im2col", "mcmr", "winograd1d", "winograd2d"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_every_algorithm(algorithm, layout):
    """Strips end where tiles end, so that no tile is computed from other numbers."""
    graph, shape = simplify(layers("3x3", "3x3", "3x3")), (1, 6, 45, 31)
    x = RNG.standard_normal(shape).astype(np.float32)
    x = x if layout == "NCHW" else np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    options = {"layout": layout, "algorithm": algorithm}
    one, other = (bound(graph, shape, strips=strips, **options) for strips in (False, True))
    assert other.planned.chains
    assert all(np.array_equal(y, z) for y, z in zip(run(other, x), run(one, x)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_threads_and_doubles(dtype):
    graph, shape = GRAPHS["residual"], (2, 6, 50, 20)
    nodes = []
    for node in graph.nodes:
        op = node.op
        if isinstance(op, Conv):
            bias = None if op.bias is None else op.bias.astype(dtype)
            op = replace(op, weight=op.weight.astype(dtype), bias=bias)
        nodes.append(replace(node, op=op))
    graph = Graph(graph.inputs, nodes, graph.outputs)
    graph = simplify(graph)
    x = RNG.standard_normal((2, 50, 20, 6)).astype(dtype)
    one = bound(graph, shape, strips=False, dtype=dtype)
    wanted = run(one, x)
    for threads in (1, 3):
        other = bound(graph, shape, strips=True, threads=threads, dtype=dtype)
        assert other.planned.chains
        assert all(np.array_equal(y, z) for y, z in zip(run(other, x), wanted))


def test_pictures_that_caches_hold_stay_whole():
    graph = simplify(GRAPHS["residual"])
    assert Segment(graph, threads=1).plan([(1, 6, 8, 8)]).chains == ()


def test_what_is_read_twice_is_kept_whole():
    """A value with a second reader lies in no window."""
    nodes = [*layers("3x3", "3x3").nodes, Node(Add(), ("v1", "v0"), ("y",))]
    made = bound(simplify(Graph(("x",), nodes, ("y",))), (1, 6, 60, 20), strips=True)
    for chain in made.planned.chains:
        assert made.planned.steps[0].output.buffer not in chain.windows


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_a_trial_decides(monkeypatch, layout):
    """Which chains run is measured; memory that the trial ran in is as good as before."""
    graph, shape = simplify(GRAPHS["five"]), (1, 6, 40, 33)
    x = RNG.standard_normal((1, 6, 40, 33) if layout == "NCHW" else (1, 40, 33, 6))
    x = x.astype(np.float32)
    made = planned(graph, shape, layout=layout)
    wanted = run(Bound(made.with_chains(()), {}), x)
    assert made.possible
    monkeypatch.setattr(trial, "may_measure", lambda: True)
    for times, kept in ((Times(1.0, 2.0), len(made.possible)), (Times(2.0, 1.0), 0)):
        monkeypatch.setattr(trial, "_known", {})

        def duel(ours, theirs, *rest, times=times, **options):
            ours(), theirs()
            return times

        monkeypatch.setattr(trial, "duel", duel)
        packed = {}
        chosen = trial.tried(made, packed)
        assert len(chosen.chains) == kept
        monkeypatch.setattr(trial, "duel", None)
        assert trial.tried(made, packed).chains == chosen.chains  # what is known is not measured
        assert all(np.array_equal(*pair) for pair in zip(run(Bound(chosen, packed), x), wanted))


def test_a_trial_is_made_once(monkeypatch, tmp_path):
    """By the first of all processes."""
    monkeypatch.setattr(trial, "may_measure", lambda: True)
    monkeypatch.setattr(trial.measured, "key_of", trial.measured.digest)
    monkeypatch.setattr(trial.measured.texts.blobs, "cache_root", lambda: tmp_path)
    made = planned(simplify(GRAPHS["five"]), (1, 6, 40, 33))
    assert made.possible
    for times, kept in ((Times(1.0, 2.0), made.possible), (Times(2.0, 1.0), made.possible)):
        monkeypatch.setattr(trial, "_known", {})
        monkeypatch.setattr(trial, "duel", lambda *rest, times=times, **options: times)
        assert trial.tried(made, {}).chains == kept


def test_what_is_not_measured_must_be_certain(monkeypatch):
    made = planned(simplify(GRAPHS["five"]), (1, 6, 40, 33))
    doubtful = tuple(replace(chain, is_certain=False) for chain in made.possible)
    monkeypatch.setattr(trial, "duel", None)
    monkeypatch.setattr(trial, "may_measure", lambda: False)
    assert trial.tried(made, {}).chains == made.possible
    made.__dict__["possible"] = doubtful
    assert trial.tried(made, {}).chains == ()
    monkeypatch.setattr(trial, "may_measure", lambda: True)
    monkeypatch.setattr(trial, "_SEGMENT", 0.0)
    assert trial.tried(made, {}).chains == ()
