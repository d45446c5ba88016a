"""Where an error that is allowed at the output of a network buys most time: a tolerance per layer.

A layer's rounding error, relative to its output, reaches the network's output times a *gain*, which
is measured (`winogen.torch.gains`, `winogen.onnx.gains`). The roundings of different layers have
nothing to do with each other, so their squares add up: the error at the output is predicted as
sqrt(sum (gain * error)^2). Every layer offers ways, faster and less accurate ones, and one of each
is taken so that the sum keeps to a budget and all together take the least time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from math import ceil, floor, hypot, log10
from typing import NamedTuple

import numpy as np

from winogen.conv.problem import Problem
from winogen.conv.tolerance import measured_error
from winogen.errors import CompilerNotFound, InvalidValue
from winogen.graph.choose import error_of
from winogen.graph.planning import Outlines, ways_of
from winogen.graph.settings import Settings

# No layer may be off by more, whatever becomes of it.
_MOST = 0.1
_UNHEARD = 1e-6  # a decimal of a rounded tolerance must not refuse the way that it was rounded for
_FINENESS = 100  # points of a front for each decimal digit of squared error


class Offer(NamedTuple):
    """A way to compute a layer."""

    tolerance: float  # by which the planner takes it
    seconds: float  # predicted, of a call
    error: float  # predicted


@dataclass(frozen=True)
class Spending:
    """The tolerances and gains of layers, by what each makes, and their predicted time."""

    tolerances: Mapping[str, float]
    gains: Mapping[str, float]
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

    def text(self) -> str:
        """Return what `read` reads."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str) -> Spending:
        return cls(**json.loads(text))


def offers_of(problem: Problem, settings: Settings) -> list[Offer]:
    """Return the ways of a folded problem that nothing faster is more accurate than.

    The fastest comes first. No error is above the settings' own tolerance.
    """
    found: list[Offer] = []
    tolerance = min(_MOST, settings.tolerance or _MOST)
    while True:
        try:
            (way, *_) = ways_of(problem, replace(settings, tolerance=tolerance))
        except (InvalidValue, CompilerNotFound):
            if not found and settings.tolerance is not None:
                raise  # the layer's own tolerance is below all errors
            return found
        error = error_of(problem, way.candidate, settings.target)
        largest = measured_error(error)
        found.append(Offer(_rounded(largest, up=True), way.candidate.seconds, error))
        if not error:
            return found
        tolerance = _rounded(largest, up=False)


def _rounded(tolerance: float, up: bool) -> float:
    """A tolerance of two digits, a little above or below."""
    if not tolerance:
        return _MOST * _UNHEARD
    tolerance *= 1 + _UNHEARD if up else 1 - _UNHEARD
    step = 10.0 ** (floor(log10(tolerance)) - 1)
    return float(f"{(ceil if up else floor)(tolerance / step) * step:.1e}")


def offers(outlines: Outlines) -> dict[str, list[Offer]]:
    """Return the offers of all layers that have filters of their own, by what each makes.

    Several problems of one layer, as of a transposed one, have one tolerance.
    """
    problems: dict[str, list[Problem]] = {}
    for name, problem in outlines.layers:
        problems.setdefault(name, []).append(problem)
    known: dict[Problem, list[Offer]] = {}
    found = {}
    for name, some in problems.items():
        for problem in some:
            if problem not in known:
                known[problem] = offers_of(problem, outlines.settings)
        found[name] = _together([known[problem] for problem in some])
    return {name: some for name, some in found.items() if some}


def _together(ways: Sequence[Sequence[Offer]]) -> list[Offer]:
    """The offers of problems that share a tolerance."""
    if len(ways) == 1:
        return list(ways[0])
    joined = []
    for tolerance in sorted({one.tolerance for some in ways for one in some}, reverse=True):
        with suppress(StopIteration):  # too careful for one of them
            taken = [next(one for one in some if one.tolerance <= tolerance) for some in ways]
            seconds, error = sum(one.seconds for one in taken), max(one.error for one in taken)
            joined.append(Offer(tolerance, seconds, error))
    return joined


def spent(
    layers: Mapping[str, Sequence[Offer]],
    gains: Mapping[str, float],
    budget: float,
    layout: str = "",
) -> Spending:
    """Return the tolerances of the least predicted time whose error at the output is in a budget.

    Layers without a gain have none. Where nothing keeps to it, the most accurate ways are taken.
    A larger budget never takes longer.

    >>> some = {name: [Offer(1e-3, 1.0, 5e-4), Offer(1e-6, 2.0, 5e-7)] for name in ("a", "b")}
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
