"""Test data: filters and tiles from stated distributions, and their exact convolution."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from winogen.errors import InvalidType, InvalidValue
from winogen.rounding.formats import Format

# What users give, and the same with its numbers rounded to a format.
Draw: TypeAlias = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
_Rounded: TypeAlias = Callable[[np.random.Generator, tuple[int, ...], Format], np.ndarray]


@dataclass(frozen=True)
class Distribution:
    """How the numbers of filters and inputs are drawn, and the moments that ``estimate`` needs.

    Filters have mean 0 and variance ``filter_variance``. Variances are None where nobody has stated
    them. `Distribution.of` makes one from a function.
    """

    name: str
    filters: _Rounded
    inputs: _Rounded
    filter_variance: float | None
    input_variance: float | None
    input_mean: float = 0.0

    @classmethod
    def of(
        cls,
        draw: Draw,
        *,
        variance: float | None = None,
        mean: float = 0.0,
        filters: str | Distribution | None = None,
        name: str | None = None,
    ) -> Distribution:
        """Return the distribution of what ``draw(rng, shape)`` returns.

        Args:
            draw: gets a ``numpy.random.Generator`` and a shape (C, height, width, trials), and
                returns an array of that shape.
            variance, mean: of its numbers, for ``estimate``; ``measure`` needs neither.
            filters: the distribution that filters are drawn from; default: ``draw``, too.
            name: for messages and tables; default: the function's name.

        Raises:
            InvalidType: ``draw`` cannot be called. InvalidValue: moments that cannot be.

        >>> laplace = Distribution.of(lambda rng, shape: rng.laplace(size=shape), variance=2.0)
        >>> laplace.input_variance, laplace.filter_variance
        (2.0, 2.0)
        """
        if not callable(draw):
            raise InvalidType(f"draw: got {draw!r}; allowed: a function (rng, shape) -> array")
        if variance is not None and not 0 < variance < math.inf:
            raise InvalidValue(f"variance: got {variance!r}; allowed: a positive number, or None")
        if not math.isfinite(mean):
            raise InvalidValue(f"mean: got {mean!r}; allowed: a finite number")
        title = str(name or getattr(draw, "__name__", type(draw).__name__))
        drawn = _Drawn(title, draw)
        if filters is not None:
            other = distribution_of(filters)
            return cls(title, other.filters, drawn, other.filter_variance, variance, mean)
        return cls(title, drawn, drawn, variance if mean == 0 else None, variance, mean)


@dataclass(frozen=True)
class _Drawn:
    """Numbers of a user's function, checked and rounded to a format."""

    name: str
    draw: Draw

    def __call__(self, rng: np.random.Generator, shape: tuple, number_format: Format) -> np.ndarray:
        values = np.asarray(self.draw(rng, shape))
        if values.dtype.kind not in "fiub":
            got = f"returned {values.dtype}"
        elif values.shape != tuple(shape):
            got = f"returned the shape {values.shape}"
        elif not np.isfinite(values).all():
            got = "returned numbers that are not finite"
        else:
            stored = number_format.round(values)
            if np.isfinite(stored).all():
                return stored
            got = f"returned numbers above {number_format.largest:.3g}, the most of {number_format}"
        raise InvalidValue(
            f"distribution: got {self.name}, which {got}; allowed: finite numbers of the shape "
            f"asked for, {tuple(shape)}"
        )


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


def distribution_of(value: str | Distribution | Draw) -> Distribution:
    """Return the distribution of that name, or of a function (rng, shape) -> array.

    Raises InvalidValue for an unknown name, InvalidType for anything else.
    """
    if isinstance(value, Distribution):
        return value
    allowed = f"{', '.join(DISTRIBUTIONS)}, a Distribution, or a function (rng, shape) -> array"
    if isinstance(value, str):
        if value not in DISTRIBUTIONS:
            raise InvalidValue(f"distribution: got {value!r}; allowed: {allowed}")
        return DISTRIBUTIONS[value]
    if not callable(value):
        raise InvalidType(f"distribution: got {value!r}; allowed: {allowed}")
    return Distribution.of(value)


def stated_variances(distribution: Distribution) -> tuple[float, float]:
    """Return the variances of filters and of inputs; raises InvalidValue if one is not stated."""
    filters, inputs = distribution.filter_variance, distribution.input_variance
    if filters is None or inputs is None:
        raise InvalidValue(
            f"distribution: got {distribution.name}; an estimate needs its mean and variance; "
            "allowed: Distribution.of(draw, variance=..., mean=..., filters=...), with filters of "
            f"mean 0, or {', '.join(DISTRIBUTIONS)}"
        )
    return filters, inputs


def convolve(
    filters: np.ndarray, inputs: np.ndarray, stride: tuple[int, int] = (1, 1)
) -> np.ndarray:
    """Valid correlation of every tile by the definition, channels summed, in the arrays' own type.

    ``filters`` (C, r_h, r_w, T) and ``inputs`` (C, n_h, n_w, T) give (m_h, m_w, T).
    """
    _, r_h, r_w, trials = filters.shape
    last_h, last_w = inputs.shape[1] - r_h + 1, inputs.shape[2] - r_w + 1
    m_h, m_w = (len(range(0, last, step)) for last, step in zip((last_h, last_w), stride))
    result = np.zeros((m_h, m_w, trials), np.result_type(filters, inputs))
    for g, d in zip(filters, inputs):
        for i in range(r_h):
            for j in range(r_w):
                result += g[i, j] * d[i : i + last_h : stride[0], j : j + last_w : stride[1]]
    return result


class Float64Reference:
    """Direct convolution in float64: enough beside float32 and narrower formats."""

    def __init__(
        self, filters: np.ndarray, inputs: np.ndarray, stride: tuple[int, int] = (1, 1)
    ) -> None:
        self.values = convolve(filters.astype(np.float64), inputs.astype(np.float64), stride)

    def errors(self, outputs: np.ndarray) -> np.ndarray:
        """outputs - reference."""
        return outputs - self.values


class ExactReference:
    """Direct convolution in rational arithmetic, done in integers: all data are p / 2^k."""

    def __init__(
        self, filters: np.ndarray, inputs: np.ndarray, stride: tuple[int, int] = (1, 1)
    ) -> None:
        g, scale_g = _integers(filters)
        d, scale_d = _integers(inputs)
        self._exact, self._scale = convolve(g, d, stride), scale_g * scale_d
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
