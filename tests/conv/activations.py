"""Every activation as tests try it.

An entry of `winogen.records.ACTIVATIONS` needs one here: all tests of activations go through these.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np


@dataclass(frozen=True)
class Trial:
    """One activation: how it is asked for, what it means, how exact it is."""

    asked: Any  # what `activation=` is given; as many slopes as any test has filters
    meaning: Callable  # of an array and the parameters, in numpy
    exactly: Callable  # of one number of mpmath and the parameters
    # The largest error, in units in the last place of what is exact: measured, and rounded up. 0
    # of what is exact, also of an array of integers.
    units: float = 0
    more: Callable = np.zeros_like  # the units allowed besides, of an array of arguments

    def of(self, filters: int) -> Any:
        """What `activation=` is given for so many filters."""
        if not isinstance(self.asked, tuple):
            return self.asked
        name, *parameters = self.asked
        return (name, *(p[:filters] if isinstance(p, np.ndarray) else p for p in parameters))

    @property
    def parameters(self) -> tuple[float, ...]:
        """The numbers that it is given; of the first filter."""
        asked = self.of(1)
        numbers = _numbers(asked[1:]) if isinstance(asked, tuple) else ()
        return tuple(np.ravel(numbers).tolist())


def _numbers(parameters):
    return [p for p in parameters if not isinstance(p, str)]


def _leaky(y, slope):
    return np.where(y < 0, y * slope, y)


def _steep(y):
    """Units of gelu with tanh far below zero: the rounding of its argument is in the exponent."""
    return -3 * np.minimum(1.6 * y * (1 + 0.044715 * y**2), 0)


TRIALS = {
    "relu": Trial("relu", lambda y: np.maximum(y, 0), lambda y: max(y, mp.mpf(0))),
    "leaky_relu": Trial(
        ("leaky_relu", -2.0), _leaky, lambda y, slope: slope * y if y < 0 else y,
    ),
    "prelu": Trial(  # slopes that are multiples of a half: exact
        ("prelu", (np.arange(74) % 9 - 2) / 2.0),
        lambda y, slopes: _leaky(y, np.asarray(slopes)[..., None, None]),
        lambda y, slope: slope * y if y < 0 else y,
    ),
    "clip": Trial(("clip", 0, 11), np.clip, lambda y, lo, hi: min(max(y, mp.mpf(lo)), mp.mpf(hi))),
    "relu6": Trial(
        "relu6", lambda y: np.clip(y, 0, 6), lambda y: min(max(y, mp.mpf(0)), mp.mpf(6))
    ),
    "hardswish": Trial(
        "hardswish",
        lambda y: y * np.clip(y + 3, 0, 6) / 6,
        lambda y: y * min(max(y + 3, mp.mpf(0)), mp.mpf(6)) / 6,
        units=2,
    ),
    "silu": Trial(
        "silu", lambda y: y / (1 + np.exp(-y)), lambda y: y / (1 + mp.exp(-y)), units=4
    ),
    "gelu": Trial(
        "gelu",
        np.vectorize(lambda y: y * math.erfc(-y / math.sqrt(2)) / 2, otypes=[float]),
        lambda y: y * mp.erfc(-y / mp.sqrt(2)) / 2,
        units=4,
    ),
    "gelu_tanh": Trial(
        ("gelu", "tanh"),
        lambda y: y / (1 + np.exp(-math.sqrt(8 / math.pi) * (y + 0.044715 * y**3))),
        lambda y: y / (1 + mp.exp(-mp.sqrt(8 / mp.pi) * (y + mp.mpf("0.044715") * y**3))),
        units=8,
        more=_steep,
    ),
}  # fmt: skip


def activate(y, activation):
    """What `activation=` means, for an array (…, filters, H, W)."""
    if activation is None:
        return y
    name, *parameters = (activation,) if isinstance(activation, str) else activation
    name = "_".join([name, *(p for p in parameters if isinstance(p, str))])
    return TRIALS[name].meaning(y, *_numbers(parameters))
