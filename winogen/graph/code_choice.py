"""Which convolutions of codes run in tiles: those that are measured to be faster so than exactly.

What is chosen stands in the graph, so that later processes compute the same codes. A layer is
measured alone, for one image and by one thread, in all ways that keep a tolerance and are predicted
to be faster. Where there is no time for that, it stays exact. Within `winogen.testing.every_layer`
nothing has a clock: every layer that can runs in those of its tiles that are predicted to be best.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any, NamedTuple

import numpy as np

from winogen.conv.execute import Environment
from winogen.conv.quantized_tiles import EVERY, Kind
from winogen.graph import code_calls, code_tiles, measured
from winogen.graph.code_segment import CodeSegment, libraries
from winogen.graph.compiling import compile_all
from winogen.graph.ir import Graph, Node
from winogen.graph.ops import QConv, Shape
from winogen.graph.ops.quantized import HIGHEST, LOWEST
from winogen.kernels.kind import Spec
from winogen.progress import counting
from winogen.tasks.duel import LAYER
from winogen.tasks.limit import Limit, limit
from winogen.tasks.turns import clock_of, take_turns
from winogen.testing import is_every_layer
from winogen.toolchain import host_target
from winogen.toolchain.machine import current

Tiles = Mapping[str, Kind]  # by `layer_of`
_ROUNDS = (5, 10_000)  # at least and at most


class _Contest(NamedTuple):
    """A layer, exact and in tiles: all ways that may be the fastest."""

    layer: str
    ways: list[QConv]
    image: Shape
    predicted: list[float]  # seconds of each

    @property
    def key(self) -> str | None:
        """What its times are kept by."""
        return measured.key_of("tiles", self.layer, [way.tiles for way in self.ways])

    @property
    def place(self) -> tuple[Any, ...]:
        """What its times are known by in this process."""
        ways = tuple(way.tiles for way in self.ways)
        return self.layer, ways, host_target(), Environment.now()

    @property
    def specs(self) -> list[Spec]:
        """The kernels of all ways."""
        offers = [code_calls.offer_of(way, self.image, 1) for way in self.ways]
        return [spec for offer in offers for spec in offer.best.specs(offer.problem)]


_times: dict[tuple[Any, ...], list[float]] = {}  # of this process


def layer_of(op: QConv, shape: Shape) -> str:
    """Return what the time of a layer depends on, in words, for inputs (N, C, H, W)."""
    numbers = op.weight.shape, op.stride, op.padding, op.dilation, op.groups
    words = ("filters", "stride", "padding", "dilation", "groups")
    named = (f"{word} {number}" for word, number in zip(words, numbers))
    return f"{', '.join(named)}, of {shape[2]}x{shape[3]}"


def layers_of(graph: Graph, values: Mapping[str, Shape]) -> list[tuple[QConv, Shape]]:
    """Return the convolutions of a graph, with the shapes that they read."""
    found = ((node.op.quantized, node.inputs[0]) for node in graph.nodes)
    return [(op, values[name]) for op, name in found if op is not None]


def with_tiles(graph: Graph, values: Mapping[str, Shape], tiles: Tiles) -> Graph:
    """Return a graph whose layers run in tiles where there are some for them."""

    def chosen(node: Node) -> Node:
        op = node.op.quantized
        if op is None:
            return node
        return replace(node, op=replace(op, tiles=tiles.get(layer_of(op, values[node.inputs[0]]))))

    return graph.with_nodes([chosen(node) for node in graph.nodes]) if tiles else graph


def fastest(layers: Iterable[tuple[QConv, Shape]], tolerance: float) -> dict[str, Kind]:
    """Return the tiles of layers that are faster in them than exactly, as measured.

    ``layers``: with the shapes (N, C, H, W) that they read. ``tolerance``: what may be expected of
    max |y - exact| / max |exact| before y is rounded to codes. Raises BuildError.
    """
    contests: dict[str, _Contest] = {}
    for op, (_, *image) in layers:
        layer = layer_of(op, (1, *image))
        # Of layers of the same sizes those that make sums stay exact.
        if layer not in contests or len(contests[layer].ways) == 1:
            contests[layer] = _contest(layer, op, (1, *image), tolerance)
    some = [contest for contest in contests.values() if len(contest.ways) > 1]
    if not is_every_layer():
        _measure([contest for contest in some if _known(contest) is None])
    found: dict[str, Kind] = {}
    for contest in some:
        seconds = [inf, *contest.predicted[1:]] if is_every_layer() else _known(contest)
        best = contest.ways[int(np.argmin(seconds or [0.0]))].tiles
        if best is not None:
            found[contest.layer] = best
    return found


def _contest(layer: str, op: QConv, image: Shape, tolerance: float) -> _Contest:
    """A layer, exact, and in all tiles that keep a tolerance, if they are predicted to gain.

    What it adds to the sums takes as long in all ways, and is left out.
    """
    op, problem, predicted = replace(op, z=None), code_calls.problem_of(op, image), [inf]
    ways = [replace(op, tiles=None)]
    if code_tiles.are_possible(op, problem):
        predicted = [code_calls.offer_of(ways[0], image, 1).best.seconds]
        for kind in EVERY:
            way = replace(op, tiles=kind)
            offer = code_tiles.offer_of(way, problem, 1, None)
            if offer is None or offer.prediction.error > tolerance:
                continue
            if is_every_layer() or offer.best.seconds < predicted[0]:
                ways.append(way)
                predicted.append(offer.best.seconds)
    return _Contest(layer, ways, image, predicted)


def _known(contest: _Contest) -> list[float] | None:
    """The seconds of all ways, if they were measured."""
    times = _times.get(contest.place)
    if times is None:
        kept = (measured.recalled(contest.key) or {}).get("seconds")
        if isinstance(kept, list) and len(kept) == len(contest.ways) and all(map(_is_time, kept)):
            times = _times[contest.place] = kept
    return times


def _is_time(seconds: Any) -> bool:
    return isinstance(seconds, float) and 0 < seconds < inf


def _measure(contests: Sequence[_Contest]) -> None:
    """Compile and measure, in half of the seconds that are left: exact kernels take some, too."""
    if not contests:
        return
    left = limit().left()
    share = Limit(None if left == inf else left / 2)
    wanted = {contest.layer: contest.specs for contest in contests}
    specs = list(dict.fromkeys(spec for some in wanted.values() for spec in some))
    with counting("compiling kernels of tiles") as step:
        ready = compile_all(specs, step, libraries(), share)
    watch = measured.watch()
    with counting("measuring tiles") as step:
        for number, contest in enumerate(contests):
            high, wide = contest.image[2:]
            step(number, len(contests), f"{contest.ways[0]}, {high}x{wide}")
            if not share.allows():
                return
            if ready.issuperset(wanted[contest.layer]):
                seconds = _seconds(contest)
                _times[contest.place] = seconds
                measured.keep(contest.key, {"seconds": seconds}, watch.signs())


def _seconds(contest: _Contest) -> list[float]:
    """The least of each way, on random codes.

    As in a network, the layer before has just made the map, and filters were used a while ago:
    those of tiles are several times as large.
    """
    random, (batch, channels, *size) = np.random.default_rng(0), contest.image
    made = random.integers(LOWEST, HIGHEST + 1, (batch, *size, channels), np.int8)
    x, others = np.empty_like(made), np.ones(2 * current().l3_bytes, np.int8)
    clock = clock_of(1)

    def turn(segment: CodeSegment) -> float:
        others.max()
        np.copyto(x, made)
        begin = clock()
        segment([x])
        return clock() - begin

    graphs = (Graph(("x",), [Node(way, ("x",), ("y",))], ("y",)) for way in contest.ways)
    turns = [partial(turn, CodeSegment(graph)) for graph in graphs]
    for one in turns:
        one()
    taken = take_turns(turns, _ROUNDS, LAYER[0] * len(turns))
    return [min(some) for some in taken]
