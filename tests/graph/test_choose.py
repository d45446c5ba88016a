"""Which ways a limit of memory leaves to the layers of a segment."""

from itertools import pairwise

import numpy as np
import pytest

from winogen.conv import planner
from winogen.conv.problem import Layer
from winogen.conv.request import Request
from winogen.errors import CompilerNotFound
from winogen.graph import Conv, Graph, Node, Segment, planning
from winogen.graph.choose import packed_bytes
from winogen.graph.planning import faster_layout
from winogen.graph.step_ways import ways_of
from winogen.kernels import named
from winogen.toolchain import host_target

SHAPE = (1, 64, 64, 64)


def segment(limit):
    rng = np.random.default_rng(0)
    names = ["x", "a", "b", "c"]
    nodes = [
        Node(Conv(rng.random((64, 64, 3, 3), np.float32), padding=(1,) * 4), (before,), (name,))
        for before, name in pairwise(names)
    ]
    return Segment(Graph(("x",), nodes, ("c",)), threads=1, memory_limit=limit)


def test_tiles_get_smaller_before_they_are_given_up():
    weights = 3 * 64 * 64 * 9 * 4
    free, tight = (segment(limit).plan([SHAPE]) for limit in (None, 3 * weights))
    assert free.packed_bytes > 3 * weights >= tight.packed_bytes
    assert all(choice.ways[0].candidate.choice.tile for choice in tight.choices)
    assert tight.seconds < 1.5 * free.seconds  # how much smaller tiles cost depends on the target


@pytest.mark.parametrize("edge", ("discard", "direct"))
@pytest.mark.parametrize("weight", ((64, 48, 3, 3), (3, 16, 5, 5), (32, 1, 3, 3), (64, 64, 1, 1)))
@pytest.mark.parametrize("layout", ("NCHW", "NHWC"))
def test_packed_bytes_of_many_are_those_of_each(layout, weight, edge):
    groups = 32 if weight[1] == 1 else 1
    layer = Layer.of(weight, "float32", layout=layout, groups=groups, padding=weight[2] // 2)
    shape = {"N": 2, "C": weight[1] * groups, "H": 19, "W": 23}
    problem = layer.problem(tuple(shape[axis] for axis in layout))
    ranked = planner.ranked(problem, Request(edge=edge), host_target())
    each = [
        sum(
            {
                (work.variant, work.algorithm): named(work.variant).packed_bytes(work)
                for work in candidate.works(problem)
            }.values()
        )
        for candidate in ranked
    ]
    assert list(packed_bytes(ranked)) == each


def test_behind_the_fastest_come_all_that_are_smaller():
    (choice, *_) = segment(None).plan([SHAPE]).choices
    seconds = [way.candidate.seconds for way in choice.ways[1:]]
    assert seconds == sorted(seconds)
    sizes = [way.packed_bytes for way in choice.ways]
    assert choice.ways[-1].candidate.choice.tile is None and min(sizes) == sizes[-1]
    assert len({size for size in sizes if size < sizes[0]}) >= 4


@pytest.mark.parametrize("lacks", (("NHWC",), ("NCHW",), ("NHWC", "NCHW")))
def test_a_layout_without_kernels_is_not_chosen(lacks, monkeypatch):
    def at_hand(problem, *rest):
        if problem.layer.layout in lacks:
            raise CompilerNotFound(f"no kernel for {problem.layer.layout}")
        return ways_of(problem, *rest)

    monkeypatch.setattr(planning, "ways_of", at_hand)
    one = segment(None)
    if len(lacks) == 2:
        with pytest.raises(CompilerNotFound, match="no kernel for NCHW"):
            faster_layout([(one.graph, [SHAPE])], one.settings())
    else:
        chosen = faster_layout([(one.graph, [SHAPE])], one.settings()).settings.layout
        assert chosen not in lacks
