"""A straight-line program as a linear map that rounds: what the estimate needs to know of it."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from winogen.program import Program
from winogen.program.evaluate import round_scalar
from winogen.rounding.formats import Format

if TYPE_CHECKING:
    from winogen.algebra.scalar import Scalar

# The mean of (error / (u x))^2 over x with logarithmically distributed significands: the error is
# uniform within half a unit of the last place, which is 2 u x / s with s in [1, 2), and the mean
# of 1 / s^2 is 3 / (8 ln 2).
_ROUNDING = 4 / 12 * 3 / (8 * math.log(2))
# The mean of error / (u x), where bits are cut off: half of a unit of the last place, which is
# u x / s then, and the mean of 1 / s is 1 / (2 ln 2).
_CUT = 1 / (4 * math.log(2))


@lru_cache(maxsize=64)
def rounding_variance(number_format: Format) -> float:
    """The variance of error / x when numbers x are rounded to the format.

    >>> from winogen.rounding.formats import FORMATS
    >>> [round(rounding_variance(FORMATS[name]) ** 0.5, 6) for name in ("float16", "flyte24")]
    [0.000207, 6e-06]
    """
    cut = number_format.rounding == "cut"
    if number_format.bits > 1:
        return _ROUNDING * number_format.unit**2 / (4 if cut else 1)
    off = _sampled_errors(number_format)
    return float(off.var() if cut else np.mean(off**2))


@lru_cache(maxsize=64)
def rounding_mean(number_format: Format) -> float:
    """By how much numbers become less, relative to them, in the mean: all alike, if bits are cut.

    >>> from winogen.rounding.formats import FORMATS
    >>> [round(rounding_mean(FORMATS[name]), 6) for name in ("flyte24", "flyte24_cut")]
    [0.0, 1.1e-05]
    """
    if number_format.rounding != "cut":
        return 0.0
    if number_format.bits > 1:
        return _CUT * number_format.unit
    return float(-_sampled_errors(number_format).mean())


def _sampled_errors(number_format: Format) -> np.ndarray:
    """Errors without a significand: they are of the size of the numbers.

    Taken as they are, over four powers of 2, since such a format may lack every other one.
    """
    values = np.exp2(4 * (np.arange(4096) + 0.5) / 4096)
    off: np.ndarray = number_format.round(values) / values - 1
    return off


class RoundedProgram:
    """The exact matrix of a program, and where and how much it rounds.

    A rounding of the value c . d, with d the inputs, is kept as the row c and the factors with
    which its error arrives at the outputs. Multiplying by a power of 2 does not round; c*x + y
    rounds twice, or once if ``fused``.
    """

    def __init__(self, program: Program, number_format: Format, fused: bool = False) -> None:
        fused = fused and number_format.name != "float64"
        count = len(program.inputs)
        index = {name: k for k, name in enumerate(program.inputs)}
        values = list(np.eye(count))  # per name, its coefficients in the inputs
        drifts = list(np.zeros((count, count)))  # the same, of its error by rounded constants
        rounded: list[np.ndarray] = []  # what is rounded
        into: list[int] = []  # the value in which its error ends up
        for statement in program.statements:
            value, drift = np.zeros(count), np.zeros(count)
            for term in statement.terms:
                k, constant = index[term.operand], float(term.coefficient)
                scaled = constant * values[k]
                value += scaled
                drift += constant * drifts[k]
                drift += _constant_error(term.coefficient, number_format) * values[k]
                if not _power_of_two(constant) and (len(statement.terms) == 1 or not fused):
                    rounded.append(scaled)
                    into.append(len(values))
            if len(statement.terms) == 2:
                rounded.append(value)
                into.append(len(values))
            index[statement.target] = len(values)
            values.append(value)
            drifts.append(drift)
        outputs = [index.get(name) for name in program.outputs]
        nothing = np.zeros(count)
        self.matrix = np.array([nothing if k is None else values[k] for k in outputs])
        self.drift = np.array([nothing if k is None else drifts[k] for k in outputs])
        self._rounded = np.array(rounded).reshape(-1, count)
        self._carry = _reach(program, index, outputs)[:, into]  # outputs x roundings
        self._unit = rounding_variance(number_format)

    def image(self, moments: np.ndarray) -> np.ndarray:
        """Second moments of the outputs for inputs with these."""
        return self.matrix @ moments @ self.matrix.T

    def errors(self, moments: np.ndarray) -> np.ndarray:
        """Second moments of the outputs' rounding errors for inputs with these second moments."""
        sizes = (self._rounded @ moments * self._rounded).sum(-1)
        return self._carry * (self._unit * sizes) @ self._carry.T

    def shift(self, moments: np.ndarray) -> np.ndarray:
        """Second moments of the outputs' errors that come from rounded constants."""
        return self.drift @ moments @ self.drift.T


def _reach(program: Program, index: dict[str, int], outputs: list[int | None]) -> np.ndarray:
    """With which factor an error in each name arrives at each output."""
    reach = np.zeros((len(outputs), len(index)))
    for row, k in enumerate(outputs):
        if k is not None:
            reach[row, k] = 1.0
    for statement in reversed(program.statements):
        column = reach[:, index[statement.target]]
        for term in statement.terms:
            reach[:, index[term.operand]] += float(term.coefficient) * column
    return reach


def _power_of_two(value: float) -> bool:
    return abs(math.frexp(value)[0]) == 0.5


def _constant_error(coefficient: Scalar, number_format: Format) -> float:
    """How much a constant changes when it is rounded to the format.

    Taken as 0 for float64, where it is too small to matter beside the roundings.
    """
    if number_format.bits >= 53:
        return 0.0
    wide = round_scalar(coefficient, number_format.carrier)
    return float(number_format.round(wide)[()]) - float(coefficient)
