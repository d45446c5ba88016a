"""Which ways a limit of memory leaves to the layers of a segment."""

from itertools import pairwise

import numpy as np

from winogen.graph import Conv, Graph, Node, Segment

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


def test_behind_the_fastest_come_all_that_are_smaller():
    (choice, *_) = segment(None).plan([SHAPE]).choices
    seconds = [way.candidate.seconds for way in choice.ways[1:]]
    assert seconds == sorted(seconds)
    sizes = [way.packed_bytes for way in choice.ways]
    assert choice.ways[-1].candidate.choice.tile is None and min(sizes) == sizes[-1]
    assert len({size for size in sizes if size < sizes[0]}) >= 4
