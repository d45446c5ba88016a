"""How accurate a way to compute a problem must be, and how much slower it may be for that.

The rule of all planners. Nothing here predicts an error: `winogen.conv.accuracy` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf, log10, prod
from typing import Any, TypeVar

from winogen.conv.accuracy import direct_error
from winogen.conv.problem import Layer
from winogen.errors import InvalidValue
from winogen.records import NARROW_TYPES, NUMBERS, Precision

T = TypeVar("T", bound=Any)  # with `seconds`

# The default tolerance: the largest error of a layer's output, as measured. Arrays of 16 bits
# round it themselves; theirs is what that and little else allows, in units of such a rounding.
TOLERANCE = 1e-5
_ROUNDINGS = 1.13
# A measured error may be this many times as large as the predicted one.
MARGIN = 1.54
# The largest error of direct convolution in frameworks, as measured, over the prediction for one
# chain of additions: 1.6 to 3.3 for 27 to 4608 terms, with a median of 2.2. A little lower here,
# because it is compared with predictions.
_USUAL = 2.05
# How many times as long a call may take if that makes its error the usual one of direct convolution
# instead of a larger one, and once more for every decimal digit in between: see `Tolerance.price`.
PATIENCE = 1.18


@dataclass(frozen=True)
class Tolerance:
    """What is asked of the error of a result, max |y - y_exact| / max |y_exact|, as predicted."""

    asked: float | None  # the tolerance of a request, of errors as measured; None: the usual one
    most: float  # what has a larger error is not taken, unless nothing has less
    direct: float  # the error that direct convolution usually has

    @classmethod
    def of(cls, layer: Layer, asked: float | None, direct: float | None = None) -> Tolerance:
        """Return that of a layer; ``direct``: None for what its terms lead to.

        >>> layer = Layer.of((64, 64, 3, 3), "float32")
        >>> Tolerance.of(layer, 1e-3).price(1e-4), Tolerance.of(layer, None).price(5e-6) > 1.18
        (1.0, True)
        """
        wanted = asked
        if wanted is None:
            narrow = layer.dtype in NARROW_TYPES
            wanted = _ROUNDINGS * 2.0 ** -NUMBERS[layer.dtype].bits if narrow else TOLERANCE
        return cls(asked, wanted / MARGIN, usual_error(layer) if direct is None else direct)

    @property
    def usual(self) -> float:
        """What has a larger error counts as slower than it is, if none was asked for."""
        return self.most if self.asked is not None else min(self.direct, self.most)

    def allows(self, error: float) -> bool:
        """Return whether a predicted error is small enough."""
        return error <= self.most

    def price(self, error: float) -> float:
        """Return how many times its seconds a call with this predicted error counts for.

        An error up to the usual one costs nothing, nor does any that a request allows. A larger one
        costs 18 % of the time, and 18 % more for each decimal digit that it is beyond.

        >>> rule = Tolerance(None, 1e-5, 1e-6)
        >>> [round(rule.price(error), 3) for error in (1e-7, 1e-6, 1.001e-6, 1e-5)]
        [1.0, 1.0, 1.18, 1.392]
        """
        return PATIENCE ** (1 + log10(error / self.usual)) if error > self.usual else 1.0

    def best(self, ways: Sequence[T], error: Callable[[T], float], what: str = "") -> T:
        """Return the way to take: of those with small enough errors the one of the least price.

        ``ways`` are sorted by their ``seconds``; errors are predicted as far as they are needed.
        Where none is accurate enough, the most accurate one is taken. Raises InvalidValue if that
        is not what was asked for ``what``; "": that goes without saying.
        """
        able = (way for way in ways if self.allows(error(way)))
        found = preferred(able, lambda way: self.price(error(way)))
        if found is not None:
            return found
        careful = min(ways, key=error)
        if self.asked is not None and what:
            raise InvalidValue(
                f"tolerance: got {self.asked:g}; allowed: at least "
                f"{measured_error(error(careful)):.2g}, the least error that can be expected of "
                f"this {what}"
            )
        return careful


def preferred(ways: Iterable[T], priced: Callable[[T], float]) -> T | None:
    """Return the way whose ``seconds`` times its price, at least 1, are the least; None of none.

    ``ways`` are sorted by their ``seconds``, and no more of them are priced than have to be:
    pricing them takes longer than predicting times.

    >>> from types import SimpleNamespace as Way
    >>> ways = [Way(seconds=1.0, price=1.18), Way(seconds=1.1, price=1), Way(seconds=1.2, price=1)]
    >>> preferred(ways, lambda way: way.price).seconds
    1.1
    """
    chosen, least = None, inf
    for way in ways:
        if way.seconds >= least:
            break
        cost = way.seconds * priced(way)
        if cost < least:
            chosen, least = way, cost
    return chosen


def measured_error(predicted: float) -> float:
    """Return the largest error that is measured where so much is predicted: a tolerance for it."""
    return MARGIN * predicted


def usual_error(layer: Layer) -> float:
    """Return the error that direct convolution in frameworks is expected to have."""
    numbers = Precision.of(layer.dtype).floating.arrays
    return _USUAL * direct_error(numbers, prod(layer.weight_shape[1:]))
