"""Where an error that is allowed at the output of a network buys most time: a tolerance per layer.

A layer's rounding error, relative to its output, reaches the network's output times a *gain*, which
is measured (`winogen.torch.promising`, `winogen.onnx.promising`). The roundings of different layers
have nothing to do with each other, so their squares add up: the error at the output is predicted as
sqrt(sum (gain * error)^2). Every layer offers ways, faster and less accurate ones, and one of each
is taken so that the sum keeps to a budget and all together take the least time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import ceil, floor, hypot, inf, log10
from typing import NamedTuple

import numpy as np

from winogen.conv import planner, rankings
from winogen.conv.cuts import Candidate
from winogen.conv.problem import Problem
from winogen.conv.query import Query
from winogen.conv.tolerance import measured_error
from winogen.graph.choose import error_of, norm_error_of
from winogen.graph.ir import Graph
from winogen.graph.planning import Outlines, computable
from winogen.graph.settings import Settings
from winogen.graph.shapes import Shape
from winogen.graph.step_ways import request_of

# No layer may be off by more, whatever becomes of it; where nothing is rounded, one is off by less.
_MOST, _LEAST = 0.1, 1e-30
_UNHEARD = 1e-6  # what a tolerance loses as a float32 must not refuse the way that it is made for
# What is slower is to lower the error by so much.
_WORTH_IT = 0.9
_FINENESS = 100  # points of a front for each decimal digit of squared error


class Priced(NamedTuple):
    """A way to compute a layer."""

    tolerance: float  # by which the planner takes it
    seconds: float  # predicted, of a call
    error: float  # predicted, in the L2 norm


class Spent(NamedTuple):
    """What a layer may spend of the error at the output."""

    tolerance: float
    share: float | None  # of the squared error at the output, as predicted

    def __str__(self) -> str:
        share = "" if self.share is None else f", {self.share:.0%} of the squared error"
        return f"tolerance {self.tolerance:.1e}{share}"


@dataclass(frozen=True)
class Spending:
    """The tolerances and gains of layers, by what each makes, and their predicted time."""

    tolerances: Mapping[str, float]
    gains: Mapping[str, float]
    errors: Mapping[str, float]  # predicted of the ways that these tolerances choose
    layout: str = ""
    seconds: float = 0.0  # of all these layers

    def predicted(self, errors: Mapping[str, float]) -> float:
        """Return the relative L2 error at the output that these errors of layers cause."""
        return hypot(*(self.gains.get(name, 0.0) * error for name, error in errors.items()))

    def share(self, name: str, errors: Mapping[str, float]) -> float | None:
        """Return which part of the squared error a layer causes; None where nobody knows."""
        if name not in self.gains or name not in errors:
            return None
        whole = self.predicted(errors)
        return (self.gains[name] * errors[name] / whole) ** 2 if whole else 0.0

    def spent(self, errors: Mapping[str, float], labels: Mapping[str, str]) -> dict[str, Spent]:
        """Return what each layer may spend that has a tolerance, by its label where it has one."""
        return {
            labels.get(name) or name: Spent(self.tolerances[name], self.share(name, errors))
            for name in errors
            if name in self.tolerances
        }

    def text(self) -> str:
        """Return what `read` reads."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str) -> Spending:
        return cls(**json.loads(text))


def offers_of(problem: Problem, settings: Settings) -> list[Priced]:
    """Return the ways of a folded problem that nothing faster is more accurate than.

    The fastest comes first. No error is above the settings' own tolerance. Raises InvalidValue
    where all are.
    """
    most = min(_MOST, settings.tolerance or _MOST)
    request = request_of(problem, replace(settings, tolerance=most))
    query = Query.here(problem, request, settings.target, settings.machine)
    found: list[Priced] = []
    for one in rankings.kept("offers", query, partial(_fastest, query)):
        tolerance = _rounded_up(measured_error(error_of(problem, one, settings.target)))
        error = norm_error_of(problem, one, settings.target)
        if not found or error < found[-1].error:
            found.append(Priced(tolerance, one.seconds, error))
    return found


def _fastest(query: Query) -> list[Candidate]:
    """The candidates that nothing faster is more accurate than."""
    found: list[Candidate] = []
    least = inf
    for one in planner.rank(query):  # by time
        error = error_of(query.problem, one, query.target)
        if error < _WORTH_IT * least:
            found.append(one)
            least = error
    return found


def _rounded_up(tolerance: float) -> float:
    """A tolerance of two digits."""
    if not tolerance:
        return _LEAST
    tolerance *= 1 + _UNHEARD
    step = 10.0 ** (floor(log10(tolerance)) - 1)
    return float(f"{ceil(tolerance / step) * step:.1e}")


def offers(outlines: Outlines) -> dict[str, list[Priced]]:
    """Return the offers of all layers that have filters of their own, by what each makes.

    Several problems of one layer, as of a transposed one, have one tolerance.
    """
    found: dict[str, list[Sequence[Priced]]] = {}
    known: dict[tuple[Problem, Settings], list[Priced]] = {}
    for name, problem, settings in outlines.layers:
        key = problem, settings
        if key not in known:
            known[key] = offers_of(*key)
        found.setdefault(name, []).append(known[key])
    together = ((name, _together(some)) for name, some in found.items())
    return {name: some for name, some in together if some}


def _together(ways: Sequence[Sequence[Priced]]) -> list[Priced]:
    """The offers of problems that share a tolerance."""
    if len(ways) == 1:
        return list(ways[0])
    joined = []
    for tolerance in sorted({one.tolerance for some in ways for one in some}, reverse=True):
        with suppress(StopIteration):  # too careful for one of them
            taken = [next(one for one in some if one.tolerance <= tolerance) for some in ways]
            seconds, error = sum(one.seconds for one in taken), max(one.error for one in taken)
            joined.append(Priced(tolerance, seconds, error))
    return joined


Offers = Mapping[str, Sequence[Priced]]  # of layers


def offered(
    parts: Sequence[tuple[Graph, Sequence[Shape]]], settings: Settings
) -> list[tuple[str, Offers]]:
    """Return each layout with the `offers` of segments on inputs of shapes."""

    def within(layout: str) -> tuple[str, Offers]:
        return layout, offers(Outlines(parts, replace(settings, layout=layout)))

    return computable(partial(within, layout) for layout in ("NHWC", "NCHW"))


def cheapest(
    layouts: Sequence[tuple[str, Offers]], gains: Mapping[str, float], budget: float
) -> Spending:
    """Return what `spent` does, in the layout that is faster."""
    found = [spent(layers, gains, budget, layout) for layout, layers in layouts]
    return min(found, key=lambda one: one.seconds)


def spent(
    layers: Offers,
    gains: Mapping[str, float],
    budget: float,
    layout: str = "",
) -> Spending:
    """Return the tolerances of the least predicted time whose error at the output is in a budget.

    Layers without a gain have none. Where nothing keeps to it, the most accurate ways are taken.
    A larger budget never takes longer.

    >>> some = {name: [Priced(1e-3, 1.0, 5e-4), Priced(1e-6, 2.0, 5e-7)] for name in ("a", "b")}
    >>> spent(some, {"a": 1.0, "b": 0.1}, 1e-4).tolerances
    {'a': 1e-06, 'b': 0.001}
    """
    names = [name for name in layers if name in gains]
    # All sums of the layers so far that no other beats in both error and time: the front does not
    # depend on the budget, so a larger one finds all that a smaller one does.
    squares, seconds = np.zeros(1), np.zeros(1)
    steps = []
    for name in names:
        ways = layers[name]
        more = (squares[:, None] + [(gains[name] * one.error) ** 2 for one in ways]).ravel()
        longer = (seconds[:, None] + [one.seconds for one in ways]).ravel()
        kept = _front(more, longer)
        steps.append((kept // len(ways), kept % len(ways)))
        squares, seconds = more[kept], longer[kept]
    place = max(0, int(np.searchsorted(squares, budget**2, side="right")) - 1)
    total, taken = float(seconds[place]), {}
    for name, (before, way) in zip(reversed(names), reversed(steps)):
        taken[name] = layers[name][int(way[place])]
        place = int(before[place])
    return Spending(
        {name: taken[name].tolerance for name in names},
        {name: gains[name] for name in names},
        {name: taken[name].error for name in names},
        layout,
        total,
    )


def _front(squares: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """The places of what nothing more accurate is faster than, by error, not too close together."""
    order = np.lexsort((seconds, squares))
    least = np.minimum.accumulate(seconds[order])
    order = order[np.concatenate([[True], least[1:] < least[:-1]])]
    with np.errstate(divide="ignore"):
        cells = np.floor(_FINENESS * np.log10(squares[order]))
    # Of those that are about as accurate the fastest, which is the last; the first in any case.
    last = np.concatenate([cells[1:] != cells[:-1], [True]])
    last[0] = True
    kept: np.ndarray = order[last]
    return kept
