"""What is promised of the error at a network's output, and the loop that keeps it.

Relative, L2: |y - y64| / |y64| of each output, where y64 is what the model computes in float64. The
worst output of the worst of several inputs counts.
"""

from __future__ import annotations

import json
from bisect import bisect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from math import log
from typing import Any, NamedTuple, TypeVar

import numpy as np

from winogen.conv import arguments
from winogen.errors import InvalidValue
from winogen.tasks.limit import clock, limit

T = TypeVar("T")

# Errors of inputs that nobody has seen may be larger: so much of the promise may be measured, and
# so much is aimed at.
SAFE, _AIM = 0.8, 0.7
# How often tolerances are made anew because of what was measured, and what is worth that.
_TRIES, _WORTH_IT = 4, 0.85
# Gains, and errors on more than two inputs, take such a part of the limit of seconds each.
_PART = 0.2
# Of an output with fewer numbers than these, noise is drawn several times, but not more often.
_NUMBERS, _DRAWS = 100, 8
_STEP = 8.0  # the most that a budget grows at once: gains hold near what was measured


@dataclass(frozen=True)
class OutputPromise:
    """The error at the output that was asked for, and what became of it."""

    asked: float
    measured: float  # the worst of some inputs
    theirs: float  # the same of the framework's own
    inputs: int
    predicted: float = 0.0  # from the errors of layers

    @property
    def holds(self) -> bool:
        """Whether it is kept, with something to spare for other inputs."""
        return self.measured <= SAFE * self.asked

    def of_framework(self) -> OutputPromise:
        """Return the same where the framework computes all."""
        return OutputPromise(self.asked, self.theirs, self.theirs, self.inputs)

    def line(self, framework: str) -> str:
        """Return a line of a report."""
        predicted = f", predicted {self.predicted:.1e}" if self.predicted else ""
        return (
            f"promised at the output: L2 at most {self.asked:.1e}; measured on {self.inputs} "
            f"inputs: at most {self.measured:.1e}{predicted} ({framework} {self.theirs:.1e})"
        )

    def text(self) -> str:
        """Return what `read` reads."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str) -> OutputPromise:
        return cls(**json.loads(text))


class NoPromise(InvalidValue):
    """An error at the output that nobody can promise of a model."""


def checked_promise(output_tolerance: Any) -> float:
    """Return the argument of that name; raises InvalidType and InvalidValue."""
    allowed = "None or a positive number below 1, as 1e-4"
    asked = arguments.positive("output_tolerance", output_tolerance, allowed)
    if asked >= 1:
        raise InvalidValue(f"output_tolerance: got {asked:g}; allowed: {allowed}")
    return asked


def distance(y: Any, exact: Any) -> float:
    """Return |y - exact| / |exact| of arrays with as many numbers."""
    difference = np.linalg.norm(np.subtract(y, exact, dtype=np.float64).ravel())
    length = np.linalg.norm(np.asarray(exact, np.float64).ravel())
    return float(difference / length) if length else (float("inf") if difference else 0.0)


def draws_of(sizes: Iterable[int]) -> int:
    """Return how often noise is drawn to see how far outputs of so many numbers move.

    >>> draws_of([1000, 30]), draws_of([1])
    (4, 8)
    """
    return max(1, min(_DRAWS, -(-_NUMBERS // max(1, min(sizes, default=_NUMBERS)))))


def is_real(value: Any) -> bool:
    """Return whether an output is an array of floats, with some in it."""
    return isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.size > 0


def part_of_limit() -> Callable[[], bool]:
    """Return what says whether a part of the limit of seconds is over that begins now."""
    begin, most = clock(), limit().seconds
    return lambda: most is not None and clock() - begin > _PART * most


def gains_of(
    names: Iterable[str],
    clean: Sequence[Any],
    moved: Callable[[str, int], tuple[Sequence[Any], float] | None],
    is_late: Callable[[], bool],
) -> dict[str, float]:
    """Return how many times a layer's relative L2 error is the error that an output has from it.

    ``clean``: the outputs. ``moved``: returns them with noise in a value, by its name and the
    number of the draw, and how large that is; None for what has no such name, or is no floats, and
    is missing. The output that moves most counts. Values that there is no time for have the larger
    gain of those before and behind them that there was.
    """
    names = list(names)
    found: dict[str, float] = {}
    tried: list[int] = []
    real = [one for one, y in enumerate(clean) if is_real(y)]
    draws = draws_of(clean[one].size for one in real)
    for place in _all_over(len(names)):
        if is_late():
            break
        name = names[place]
        tried.append(place)
        squares, runs = np.zeros(len(real)), [moved(name, draw) for draw in range(draws)]
        for outputs, noise in filter(None, runs):
            off = [distance(outputs[one], clean[one]) / noise for one in real]
            squares += np.square(off) / draws
        if None not in runs:
            found[name] = float(np.sqrt(squares.max(initial=0.0)))
    known = sorted(place for place in tried if names[place] in found)
    for place in sorted({*range(len(names))} - {*tried}) if known else ():
        at = bisect(known, place)
        found[names[place]] = max(found[names[beside]] for beside in known[max(0, at - 1) : at + 1])
    return found


def _all_over(count: int) -> list[int]:
    """Return the places of a row, so ordered that the first few of them lie all over it.

    >>> _all_over(8)
    [7, 0, 4, 2, 6, 1, 5, 3]
    """
    bits = count.bit_length()
    order = sorted(range(count), key=lambda place: f"{place:0{bits}b}"[::-1])
    return sorted(order, key=lambda place: place + 1 < count)


class Unseen(NamedTuple):
    """An input, the framework's outputs for it, and the same in float64."""

    given: Any
    theirs: Sequence[Any]
    exact: Sequence[Any]


def output_error(outputs: Sequence[Any], exact: Sequence[Any]) -> float | None:
    """Return the error of the worst output of floats; None where there is none, or not known."""
    pairs = [(y, e) for y, e in zip(outputs, exact) if is_real(y)]
    if not pairs or len(outputs) != len(exact):
        return None
    if any(not is_real(e) or y.shape != e.shape or not np.isfinite(e).all() for y, e in pairs):
        return None
    return max(distance(y, e) for y, e in pairs)


def promised(
    cases: Sequence[Unseen],
    run: Callable[[Any], Sequence[Any]] | None,
    asked: float,
    predicted: float = 0.0,
) -> OutputPromise | None:
    """Return the errors at the outputs of what ``run`` returns for inputs; None: of the framework.

    None where no input has known ones.
    """
    if not cases:
        return None
    theirs = max(output_error(case.theirs, case.exact) or 0.0 for case in cases)
    if run is None:
        return OutputPromise(asked, theirs, theirs, len(cases))
    ours = [output_error(run(case.given), case.exact) for case in cases]
    worst = max(float("inf") if off is None else off for off in ours)
    return OutputPromise(asked, worst, theirs, len(cases), predicted)


def kept(
    asked: float,
    made: Callable[[float], T | None],
    seen: Callable[[T], OutputPromise | None],
    has_time: Callable[[], bool] = lambda: True,
) -> tuple[T, bool]:
    """Return the fastest draft that keeps a promise, and whether it does.

    ``made`` makes one whose error is predicted to be within a budget, None where it would be one of
    those before; ``seen`` measures it. What is measured corrects what is predicted: the next budget
    is larger or smaller by as much; larger, if it ``has_time``. Between one that keeps the promise
    and one that does not, it follows from both. At last all layers are as accurate as they can be.
    Raises InvalidValue where nobody knows errors.
    """
    budget, best = _AIM * asked, None
    below: _Tried | None = None
    above: _Tried | None = None
    draft: T | None = None
    for _ in range(_TRIES):
        new = made(budget)
        if new is None:
            break
        draft, promise = new, certain(seen(new), asked)
        tried = _Tried(budget, max(promise.measured, 1e-300))
        if promise.holds:
            below = tried
            if best is None or promise.measured > best[1].measured:
                best = draft, promise
            if promise.measured >= _WORTH_IT * _AIM * asked:
                break
        else:
            above = tried
        if best is not None and not has_time():
            break
        budget = _next(_AIM * asked, below, above)
    if best is None:
        careful = made(0.0)
        if careful is not None:
            draft, promise = careful, certain(seen(careful), asked)
            if promise.holds:
                best = draft, promise
    assert draft is not None  # the first is never one of those before
    return (best[0], True) if best else (draft, False)


class _Tried(NamedTuple):
    """A budget, and the error that was measured with it."""

    budget: float
    measured: float


def _next(aim: float, below: _Tried | None, above: _Tried | None) -> float:
    """Return the budget that leads to an error, after one that led to less, or to more, or both."""
    if below and above:  # on the line between them, in logarithms
        share = log(aim / below.measured) / log(above.measured / below.measured)
        return below.budget * (above.budget / below.budget) ** share
    last = below or above
    assert last is not None
    return last.budget * min(_STEP, aim / last.measured)


def certain(promise: OutputPromise | None, asked: float) -> OutputPromise:
    """Return a promise; raises NoPromise where nobody knows the errors at the output."""
    if promise is None:
        raise NoPromise(
            f"output_tolerance: got {asked:g}; allowed: None for this model, whose outputs are no "
            "numbers, or cannot be computed in float64"
        )
    return promise


def check_framework(promise: OutputPromise, framework: str) -> None:
    """Raise NoPromise where not even the framework itself keeps a promise."""
    if promise.theirs > promise.asked:
        raise NoPromise(
            f"output_tolerance: got {promise.asked:g}; allowed: at least {promise.theirs:.2g}, the "
            f"error of the model as {framework} computes it"
        )
