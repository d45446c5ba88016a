"""Every activation as tests try it: all tests of activations go through `TRIALS`.

What an activation means is its formula in `ACTIVATIONS`, in numpy and in mpmath.
"""

import math
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import mpmath as mp
import numpy as np

from winogen.records import ACTIVATIONS
from winogen.records.activations import spelled

NUMPY = SimpleNamespace(
    where=np.where,
    exp=np.exp,
    expm1=np.expm1,
    log1p=np.log1p,
    tanh=np.tanh,
    erfc=np.vectorize(math.erfc, otypes=[float]),
)
MPMATH = SimpleNamespace(
    where=lambda condition, yes, no: yes if condition else no,
    exp=mp.exp,
    expm1=mp.expm1,
    log1p=mp.log1p,
    tanh=mp.tanh,
    erfc=mp.erfc,
)
# Parameters that the tests give: exact for integers, and as many slopes as any test has filters.
# Others have those of the activation's name alone.
PARAMETERS: dict[str, tuple] = {
    "leaky_relu": (-2.0,),
    "prelu": ((np.arange(74) % 9 - 2) / 2.0,),
    "clip": (0, 11),
}
# Formulas with constants that are no floats, to all digits.
DIGITS = {
    "gelu": lambda y: y * mp.erfc(-y / mp.sqrt(2)) / 2,
    "hard_sigmoid": lambda y: min(max((y + 3) / 6, mp.mpf(0)), mp.mpf(1)),
    "gelu_tanh": lambda y: y / (1 + mp.exp(-mp.sqrt(8 / mp.pi) * (y + mp.mpf("0.044715") * y**3))),
}


@dataclass(frozen=True)
class Trial:
    """One activation, or none, and its parameters."""

    name: str | None
    given: tuple = ()

    @property
    def asked(self) -> Any:
        """What `activation=` is given."""
        return spelled(self.name, self.given)

    def of(self, filters: int) -> Any:
        """What `activation=` is given for so many filters."""
        cut = (p[:filters] if isinstance(p, np.ndarray) else p for p in self.given)
        return spelled(self.name, tuple(cut))

    @property
    def units(self) -> float:
        """The largest error, in units in the last place of what is exact."""
        return ACTIVATIONS[self.name].units

    def more(self, y: np.ndarray) -> np.ndarray:
        """The units allowed besides, of an array of arguments."""
        if self.name != "gelu_tanh":
            return np.zeros_like(y)
        # Far below zero: the rounding of its argument is in the exponent.
        return -3 * np.minimum(1.6 * y * (1 + 0.044715 * y**2), 0)

    def exactly(self, y: float) -> Any:
        """Its value of one number, of the first filter, to the digits of mpmath."""
        if self.name in DIGITS:
            return DIGITS[self.name](mp.mpf(y))
        numbers = (mp.mpf(float(np.ravel(p)[0])) for p in self.given)
        return mp.mpf(ACTIVATIONS[self.name].formula(MPMATH, mp.mpf(y), *numbers))


TRIALS = {
    name: Trial(name, PARAMETERS.get(name, known.defaults)) for name, known in ACTIVATIONS.items()
}


def activate(y, activation):
    """What `activation=` means, for an array (…, filters, H, W)."""
    if activation is None:
        return y
    name, *given = (activation,) if isinstance(activation, str) else activation
    words = [name, *(p for p in given if isinstance(p, str))]
    known = ACTIVATIONS["_".join(words)]
    numbers = given[len(words) - 1 :] or known.defaults
    if known.per_filter:
        numbers = [np.asarray(numbers[0])[..., None, None]]
    with np.errstate(all="ignore"):
        return known.formula(NUMPY, y, *numbers)
