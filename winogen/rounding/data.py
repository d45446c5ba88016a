"""Test data: filters and tiles from stated distributions, and their exact convolution."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from winogen.errors import InvalidValue
from winogen.rounding.formats import Format

Draw: TypeAlias = Callable[[np.random.Generator, tuple[int, ...], Format], np.ndarray]


@dataclass(frozen=True)
class Distribution:
    """How the numbers of filters and inputs are drawn, and the moments of the inputs.

    Filters have mean 0 and variance ``filter_variance``.
    """

    name: str
    filters: Draw
    inputs: Draw
    filter_variance: float
    input_variance: float
    input_mean: float = 0.0


def _uniform(rng: np.random.Generator, shape: tuple[int, ...], number_format: Format) -> np.ndarray:
    """What std::uniform_real_distribution<float>(-1, 1) of libstdc++ gives: 2 u - 1 in the type.

    The published figures come from it. Its numbers lie on a grid of 2^-23 or 2^-24, coarser than
    what the type can hold near 0, so that the first additions of a transform are often exact.
    """
    real = number_format.carrier
    bits = 64 if number_format.bits > 24 else 32
    integers = rng.integers(0, 2**bits, shape, dtype=np.uint64)
    unit = integers.astype(real) * real(2.0**-bits)
    unit = np.minimum(unit, np.nextafter(real(1), real(0)))  # rounding may have given 1
    return number_format.round(real(2) * unit - real(1))


def _dense(rng: np.random.Generator, shape: tuple[int, ...], number_format: Format) -> np.ndarray:
    return number_format.round(rng.uniform(-1.0, 1.0, shape))


def _normal(rng: np.random.Generator, shape: tuple[int, ...], number_format: Format) -> np.ndarray:
    return number_format.round(rng.standard_normal(shape))


def _relu(rng: np.random.Generator, shape: tuple[int, ...], number_format: Format) -> np.ndarray:
    return number_format.round(np.maximum(rng.standard_normal(shape), 0.0))


DISTRIBUTIONS = {
    # Kernel and input as in the literature, arXiv 1803.10986.
    "uniform": Distribution("uniform", _uniform, _uniform, 1 / 3, 1 / 3),
    # The same, but every number has the full precision of the format.
    "uniform-dense": Distribution("uniform-dense", _dense, _dense, 1 / 3, 1 / 3),
    "normal": Distribution("normal", _normal, _normal, 1.0, 1.0),
    # Activations behind a ReLU: half of them 0, none negative.
    "relu": Distribution(
        "relu", _normal, _relu, 1.0, 0.5 - 0.5 / math.pi, 1 / math.sqrt(2 * math.pi)
    ),
}


def distribution_named(name: str) -> Distribution:
    """Return the distribution called ``name``; raises InvalidValue for an unknown one."""
    if name not in DISTRIBUTIONS:
        raise InvalidValue(f"distribution: got {name!r}; allowed: {', '.join(DISTRIBUTIONS)}")
    return DISTRIBUTIONS[name]


def convolve(filters: np.ndarray, inputs: np.ndarray) -> np.ndarray:
    """Valid correlation of every tile by the definition, channels summed, in the arrays' own type.

    ``filters`` (C, r_h, r_w, T) and ``inputs`` (C, n_h, n_w, T) give (m_h, m_w, T).
    """
    _, r_h, r_w, trials = filters.shape
    m_h, m_w = inputs.shape[1] - r_h + 1, inputs.shape[2] - r_w + 1
    result = np.zeros((m_h, m_w, trials), np.result_type(filters, inputs))
    for g, d in zip(filters, inputs):
        for i in range(r_h):
            for j in range(r_w):
                result += g[i, j] * d[i : i + m_h, j : j + m_w]
    return result


class Float64Reference:
    """Direct convolution in float64: enough beside float32 and narrower formats."""

    def __init__(self, filters: np.ndarray, inputs: np.ndarray) -> None:
        self.values = convolve(filters.astype(np.float64), inputs.astype(np.float64))

    def errors(self, outputs: np.ndarray) -> np.ndarray:
        """outputs - reference."""
        return outputs - self.values


class ExactReference:
    """Direct convolution in rational arithmetic, done in integers: all data are p / 2^k."""

    def __init__(self, filters: np.ndarray, inputs: np.ndarray) -> None:
        g, scale_g = _integers(filters)
        d, scale_d = _integers(inputs)
        self._exact, self._scale = convolve(g, d), scale_g * scale_d
        self.values = self._float(self._exact, self._scale)

    def errors(self, outputs: np.ndarray) -> np.ndarray:
        """outputs - reference, rounded once."""
        y, scale = _integers(outputs)
        return self._float(y * self._scale - self._exact * scale, self._scale * scale)

    @staticmethod
    def _float(numerators: np.ndarray, scale: int) -> np.ndarray:
        return (numerators / scale).astype(np.float64)  # int / int is correctly rounded


def _integers(values: np.ndarray) -> tuple[np.ndarray, int]:
    """Return (integers p as objects, 2^k) with values = p / 2^k exactly."""
    ratios = [value.as_integer_ratio() for value in values.astype(np.float64).ravel().tolist()]
    scale = max((q for _, q in ratios), default=1)
    result = np.empty(len(ratios), object)
    result[:] = [p * (scale // q) for p, q in ratios]
    return result.reshape(values.shape), scale


REFERENCES = {"float64": Float64Reference, "exact": ExactReference}
