"""One layer by every nest of 1D tiles with its filters stored in every type of number.

A way is an algorithm, a tile and points along each axis, and the type of the packed filters. It
costs bytes of filters, error and time, all three as plans predict them. Few ways are worth having:
for all others there is one that is as good in each of the three.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from winogen.conv import planner
from winogen.conv.candidates import candidates
from winogen.conv.cuts import Candidate, evaluate
from winogen.conv.problem import Problem
from winogen.conv.request import Request
from winogen.errors import Unsupported
from winogen.records import TRIED_FILTER_TYPES, Machine, Points, Target
from winogen.tables import number
from winogen.tasks.pareto import worth_having
from winogen.toolchain import host_target
from winogen.toolchain.machine import current
from winogen.tuning.layers import BenchLayer
from winogen_lab.bench.texts import how, milliseconds
from winogen_lab.bench.ways import ALGORITHMS, asked_tile, facts_of, in_turn, of_layer, seconds_of
from winogen_lab.bench.ways_tables import table

COSTS = ("packed_weight_bytes", "predicted_error", "predicted_s")
# Predicted times are no better than that, and neighbouring tiles differ by less.
MARGIN = 0.1
# What people know: shown in every type of number, whether worth having or not.
_USUAL_TILES = (2, 4, 6)

Row = dict[str, Any]


def compare_filters(
    layers: Sequence[BenchLayer],
    *,
    layout: str = "NCHW",
    tile: tuple[int, ...] | None = None,
    rounds: int = 0,
    say: Callable[[str], None] = lambda text: None,
) -> list[Row]:
    """Return a row for each layer: its shapes, and "ways", a list of all.

    A way has "best", whether it is worth having, and "beaten_by": None, or the place in the list of
    one that is worth having and at most `MARGIN` worse in each of `COSTS`. A way whose predicted
    error is as large as the output is left out. ``tile``: of every Winograd algorithm, else all are
    tried. ``rounds``: in which the ways worth having take turns, on one thread; 0: nothing is
    measured. ``say`` is told what happens next.
    """
    target, machine = host_target(), current()
    rows = []
    for where, layer, problem in in_turn(layers, layout, say):
        found = _ways(problem, target, machine, tile)
        ways = [_facts(problem, one, target) for one in found]
        known = [one for one, way in zip(found, ways) if way["predicted_error"] < 1]
        ways = [way for way in ways if way["predicted_error"] < 1]
        _judge(ways)
        best = {str(i): known[i] for i, way in enumerate(ways) if way["best"]}
        if rounds:
            told = partial(of_layer, say, where)
            for i, taken in zip(best, seconds_of(problem, best, target, rounds, told)):
                ways[int(i)]["seconds"] = taken
        rows.append({**layer.to_dict(), "layout": layout, "ways": ways})
    return rows


def _ways(
    problem: Problem, target: Target, machine: Machine, tile: tuple[int, ...] | None
) -> list[Candidate]:
    """Every algorithm, tile, points and type of filters that has a kernel here."""
    found: list[Candidate] = []
    for filters in (None, *TRIED_FILTER_TYPES):
        for name in ALGORITHMS:
            asked = {"algorithm": name, "threads": 1, "filter_dtype": filters}
            with suppress(Unsupported):
                request = Request.of(problem.layer, **asked, **asked_tile(name, tile))
                ways = candidates(problem, request, target)
                # F(1x1) is direct convolution with more steps.
                choices = [one for one in ways if one.tile is None or max(one.tile) > 1]
                found += evaluate(problem, choices, target, machine, None)
    return found


def _facts(problem: Problem, candidate: Candidate, target: Target) -> Row:
    """What is known of a way before it runs, as JSON."""
    choice = candidate.choice
    precision = choice.precision
    along: tuple[Points | None, ...] = choice.points or ()
    return {
        **facts_of(problem, candidate),
        "points": [None if one is None else one.text for one in along],
        "filter_dtype": precision.filters if precision else problem.layer.dtype,
        "predicted_error": planner.predicted_error(problem.layer, choice, target),
        "seconds": None,
    }


def _judge(ways: Sequence[Row]) -> None:
    """Say of every way whether it is worth having, and by which it is beaten."""
    costs = [tuple(way[name] for name in COSTS) for way in ways]
    kept = worth_having(costs, MARGIN)
    # The fastest is named: it is the first that anybody would ask for.
    front = sorted((i for i, best in enumerate(kept) if best), key=lambda i: costs[i][2])
    for way, best, cost in zip(ways, kept, costs):
        way["best"] = best
        way["beaten_by"] = None
        if not best:
            way["beaten_by"] = next(
                i for i in front if all(a <= b * (1 + MARGIN) for a, b in zip(costs[i], cost))
            )


def render(rows: Sequence[Row], markdown: bool = False) -> str:
    """Return a table for each layer: the ways worth having and the usual ones, by time."""
    parts = [
        "\n".join([f"{row['name']}, {row['layout']}", "", *table(_cells(row), markdown), ""])
        for row in rows
    ]
    note = f"* worth having: no other way is as good, within {MARGIN:.0%}, in bytes, error and time"
    return "\n".join([*parts, note])


def _cells(row: Row) -> list[list[str]]:
    ways = row["ways"]
    timed = any(way["seconds"] is not None for way in ways)
    usual = _usual(ways)
    shown = sorted(
        (i for i, way in enumerate(ways) if way["best"] or i in usual),
        key=lambda i: (ways[i]["predicted_s"], i),
    )
    head = ["way", "filters, kB", "products", "error", "predicted ms"]
    cells = [[*head, *(["ms"] if timed else []), "", "as good"]]
    for i in shown:
        way = ways[i]
        other = way["beaten_by"]
        measured = "" if way["seconds"] is None else milliseconds(way["seconds"])
        cells.append(
            [
                name_of(way, row),
                f"{way['packed_weight_bytes'] / 1e3:,.0f}",
                f"{way['multiplications_per_output']:.2f}",
                number(way["predicted_error"], ".1e"),
                milliseconds(way["predicted_s"]),
                *([measured] if timed else []),
                "*" if way["best"] else "",
                "" if other is None else name_of(ways[other], row),
            ]
        )
    return cells


def _usual(ways: Sequence[Row]) -> set[int]:
    """The places of direct convolution and square tiles of usual points, in every type."""
    places: dict[tuple[str, Any, str], int] = {}
    for i, way in enumerate(ways):
        tile = way["tile"]
        square = tile is not None and len(set(tile)) == 1 and tile[0] in _USUAL_TILES
        plain = way["algorithm"] == "direct"
        if plain or (way["algorithm"] == "mcmr" and square and not any(way["points"])):
            key = (way["algorithm"], tile and tile[0], way["filter_dtype"])
            first = places.setdefault(key, i)
            if way["predicted_s"] < ways[first]["predicted_s"]:
                places[key] = i
    return set(places.values())


def name_of(way: Row, layer: Row) -> str:
    """Return a way in words: algorithm, tile, points other than the usual ones, filters."""
    points = ""
    if any(way["points"]):
        points = f" {' by '.join(one or 'points' for one in way['points'])}"
    words = how({"algorithm": way["algorithm"], "tile": way["tile"], "weight": layer["weight"]})
    narrow = f", {way['filter_dtype']}" if way["filter_dtype"] in TRIED_FILTER_TYPES else ""
    return f"{words}{points}{narrow}"
