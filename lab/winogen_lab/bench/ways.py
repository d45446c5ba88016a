"""One layer by several ways side by side: what their plans say, and how long each takes.

A comparison has a name of `COMPARISONS` and gives every layer its ways, each a candidate of the
planner. The counts of a way are exact and need no compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import log
from typing import Any

import numpy as np

from winogen.conv import planner
from winogen.conv.choice import calls, multiplications
from winogen.conv.cuts import Candidate, evaluate
from winogen.conv.execute import Prepared
from winogen.conv.problem import Problem
from winogen.conv.request import BORDERS, Request
from winogen.conv.tolerance import usual_error
from winogen.errors import InvalidValue, Unsupported
from winogen.graph.compiling import compile_all
from winogen.kernels import named
from winogen.kernels.spec import KernelSpec
from winogen.records import Machine, Target
from winogen.tasks.turns import clock_of, in_turns
from winogen.toolchain import host_target
from winogen.toolchain.machine import current
from winogen.tuning.layers import BenchLayer
from winogen_lab.bench.regret import calls_of

ALGORITHMS = ("direct", "im2col", "winograd1d", "winograd2d", "mcmr")
_CALLS = (3, 3)  # of a turn: the first one finds the caches full of another way's data
_FEWEST = 3  # layers that a correlation needs

Ways = dict[str, Candidate]


def compare(
    layers: Sequence[BenchLayer],
    name: str,
    *,
    layout: str = "NCHW",
    tile: tuple[int, ...] | None = None,
    rounds: int = 0,
    say: Callable[[str], None] = lambda text: None,
) -> list[dict[str, Any]]:
    """Return a row for each layer: its shapes, and "ways", a dict of what each way takes.

    ``name``: of `COMPARISONS`. ``tile``: of every Winograd algorithm, else as planned. Layers to
    which a comparison does not apply are left out. ``rounds``: in which the ways of a layer take
    turns; 0: nothing is measured. Times are the least of all turns, on one thread. ``say`` is told
    what happens next.
    """
    target, machine = host_target(), current()
    rows = []
    for where, layer, problem in in_turn(layers, layout, say):
        ways = COMPARISONS[name](problem, target, machine, tile)
        if not ways:
            continue
        row = {**layer.to_dict(), "layout": layout, "ways": {}}
        seconds: Sequence[float | None] = [None] * len(ways)
        if rounds:
            seconds = seconds_of(problem, ways, target, rounds, partial(of_layer, say, where))
        for (way, candidate), taken in zip(ways.items(), seconds):
            row["ways"][way] = {**facts_of(problem, candidate), "seconds": taken}
        rows.append(row)
    return rows


def in_turn(
    layers: Sequence[BenchLayer], layout: str, say: Callable[[str], None]
) -> Iterator[tuple[str, BenchLayer, Problem]]:
    """Yield each layer with its place among all, which is said, and the problem that is planned."""
    for number, layer in enumerate(layers, 1):
        where = f"{number}/{len(layers)} {layer.name}"
        say(where)
        yield where, layer, layer.problem(layout).folded


def of_layer(say: Callable[[str], None], where: str, text: str) -> None:
    """Say what happens next to a layer."""
    say(f"{where}: {text}")


def _by_algorithm(
    problem: Problem, target: Target, machine: Machine, tile: tuple[int, ...] | None
) -> Ways:
    """The best predicted way of each algorithm that applies."""
    ways: Ways = {}
    for name in ALGORITHMS:
        with suppress(Unsupported):
            request = Request.of(problem.layer, algorithm=name, threads=1, **asked_tile(name, tile))
            ways[name] = planner.choose(problem, request, target, machine)
    return ways


def asked_tile(algorithm: str, tile: tuple[int, ...] | None) -> dict[str, Any]:
    """Return the option that asks an algorithm for a tile; 1D ones have no height."""
    if tile is None or algorithm in ("direct", "im2col"):
        return {}
    return {"tile": (1, *tile[1:]) if algorithm == "winograd1d" else tile}


def _by_plan(
    problem: Problem, target: Target, machine: Machine, tile: tuple[int, ...] | None
) -> Ways:
    """Im2col, direct convolution, and what is planned."""
    ways: Ways = {}
    for name in ("im2col", "direct", "auto"):
        request = Request.of(problem.layer, algorithm=name, threads=1)
        ways[name] = planner.choose(problem, request, target, machine)
    return ways


def _by_edge(
    problem: Problem, target: Target, machine: Machine, tile: tuple[int, ...] | None
) -> Ways:
    """The usual plan; the same with partial tiles left to direct convolution; the best other that
    leaves some to it; and the tiles of that, none left to it, for a gain may be that of the tiles.
    """
    usual = _tiled(problem, target, machine, tile)
    if usual is None:
        return {}
    ways = {"discard": usual}
    most = max(
        usual_error(problem.layer),
        planner.predicted_error(problem.layer, usual.choice, target),
    )

    def has_rim(one: Candidate) -> bool:
        return one.choice.tile is not None and len(calls(problem, one.choice)) > 1

    (same,) = evaluate(problem, [replace(usual.choice, edge="direct")], target, machine, None)
    if has_rim(same):
        ways["direct, same tile"] = same
    asked: dict[str, Any] = {"edge": "direct", "threads": 1}
    if tile is not None:
        asked |= {"algorithm": "mcmr", "tile": tile}
    request = Request.of(problem.layer, **asked)
    others = (
        one
        for one in sorted(
            planner.ranked(problem, request, target, machine), key=lambda one: one.seconds
        )
        if has_rim(one)
        and one.choice != same.choice
        and planner.predicted_error(problem.layer, one.choice, target) <= most
    )
    best = next(others, None)
    if best is not None:
        ways["direct, other tile"] = best
        whole = replace(best.choice, edge="discard")
        if whole != usual.choice:
            (ways["discard, other tile"],) = evaluate(problem, [whole], target, machine, None)
    return ways if len(ways) > 1 else {}


def _by_border(
    problem: Problem, target: Target, machine: Machine, tile: tuple[int, ...] | None
) -> Ways:
    """The usual plan with every kind of border."""
    usual = _tiled(problem, target, machine, tile)
    if usual is None:
        return {}
    choices = [replace(usual.choice, border=border) for border in BORDERS]
    return dict(zip(BORDERS, evaluate(problem, choices, target, machine, None)))


COMPARISONS = {
    "algorithms": _by_algorithm,
    "nets": _by_plan,
    "edges": _by_edge,
    "borders": _by_border,
}


def _tiled(
    problem: Problem, target: Target, machine: Machine, tile: tuple[int, ...] | None
) -> Candidate | None:
    """The planner's choice, if that has tiles; with a ``tile``, that of `mcmr`."""
    asked: dict[str, Any] = {} if tile is None else {"algorithm": "mcmr", "tile": tile}
    try:
        request = Request.of(problem.layer, threads=1, **asked)
    except Unsupported:
        return None
    chosen = planner.choose(problem, request, target, machine)
    return None if chosen.choice.tile is None else chosen


def facts_of(problem: Problem, candidate: Candidate) -> dict[str, Any]:
    """Return what a plan says of a way, as JSON."""
    works = candidate.works(problem)
    packed = {KernelSpec.of(work): named(work.variant).packed_bytes(work) for work in works}
    choice = candidate.choice
    layer = problem.layer
    pairs = layer.filters * layer.channels // layer.groups
    outputs = problem.batch * int(np.prod(problem.output_size))
    return {
        "algorithm": choice.algorithm,
        "tile": None if choice.tile is None else list(choice.tile),
        "edge": choice.edge,
        "border": choice.border,
        "multiplications": multiplications(problem, choice),
        "multiplications_per_output": multiplications(problem, choice) / (outputs * pairs),
        "packed_weight_bytes": int(sum(packed.values())),
        "workspace_bytes": int(candidate.workspace_bytes),
        "predicted_s": candidate.seconds,
    }


def seconds_of(
    problem: Problem, ways: Ways, target: Target, rounds: int, say: Callable[[str], None]
) -> list[float]:
    """Return the least time of each way, all of them in turns of so many rounds, on one thread."""
    candidates = list(ways.values())
    specs = dict.fromkeys(spec for way in candidates for spec in way.specs(problem))
    compile_all(specs, lambda done, total, _: say(f"kernel {done} of {total}"))
    calls_in_turns = calls_of([Prepared(problem, [way], target) for way in candidates])
    say(f"{len(candidates)} ways in turns")
    taken = in_turns(calls_in_turns, clock_of(1), (rounds, rounds), each=_CALLS)
    return [min(one) for one in taken]


def correlations(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str, int, float]]:
    """Yield how often ways' times rank as maps are large beside their channels.

    (way, other, layers, rank correlation of log(H W / (C M)) with log(time of other / time of
    way)): 1 where the larger a map is beside its channels, the more the way gains on the other.
    Only of pairs that at least three layers have, and of rows with times.
    """
    for way, other in (("winograd1d", "mcmr"), ("mcmr", "direct"), ("winograd1d", "direct")):
        both = [row for row in rows if {way, other} <= set(row["ways"])]
        if len(both) >= _FEWEST:
            gained = [
                log(row["ways"][other]["seconds"] / row["ways"][way]["seconds"]) for row in both
            ]
            yield way, other, len(both), rank_correlation([shape_of(row) for row in both], gained)


def shape_of(row: dict[str, Any]) -> float:
    """Return H W / (C M) of a row: how large a map is beside the filters of a tap.

    >>> shape_of({"input": [1, 64, 56, 56], "weight": [49, 64, 3, 3]})
    1.0
    """
    return float(np.prod(row["input"][2:]) / (row["weight"][0] * row["weight"][1]))


def rank_correlation(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Return Spearman's rank correlation, equal numbers sharing their mean rank.

    Raises InvalidValue where all numbers of one side are equal.

    >>> rank_correlation([1, 2, 3, 4], [1, 8, 27, 20])
    0.8
    """
    ranks = []
    for values in (xs, ys):
        _, place, count = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
        if len(count) < 2:
            raise InvalidValue(f"values: got {len(values)} equal numbers; allowed: different ones")
        ranks.append((np.cumsum(count) - (count - 1) / 2)[place])
    return round(float(np.corrcoef(ranks[0], ranks[1])[0, 1]), 12)
