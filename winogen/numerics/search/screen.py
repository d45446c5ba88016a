"""The estimated error of many candidates at once: cheap and without noise, so it can lead a search.

The model comes from ``winogen.rounding.variance``, for one channel and terms added from the
smallest to the largest, close to the Huffman order.
"""

from __future__ import annotations

import math

import numpy as np

from winogen.numerics.search.batch import Matrices
from winogen.rounding.data import distribution_of, stated_variances
from winogen.rounding.exponents import Axis, Data, losses
from winogen.rounding.formats import FORMATS, Format, format_named
from winogen.rounding.linear import rounding_variance
from winogen.rounding.stages import Stages
from winogen.rounding.variance import Moments, chain_variance, propagate

_AT_ONCE = 128  # candidates whose arrays stay in cache


def screen(found: Matrices, dims: int, settings: dict) -> np.ndarray:
    """Return the expected mean |error| of every candidate, as ``estimate`` would.

    ``settings``: as for ``measure``; channels, fused, filters, distribution and dtype count.
    """
    count = len(found.at)
    parts = [
        _screen(Matrices(found.at[k], found.g[k], found.bt[k]), dims, settings)
        for k in (slice(first, first + _AT_ONCE) for first in range(0, count, _AT_ONCE))
    ]
    return np.concatenate(parts) if parts else np.empty(0)


def counts_exponents(settings: dict) -> bool:
    """Whether the format may underflow or overflow, as those with few bits of exponent do."""
    return format_named(settings["dtype"]).exponent < FORMATS["float32"].exponent


def _screen(found: Matrices, dims: int, settings: dict) -> np.ndarray:
    drawn_from = distribution_of(settings["distribution"])
    number_format = format_named(settings["dtype"])
    channels = settings["channels"]
    unit = rounding_variance(number_format)
    exact_filters = settings["filters"] == "float64"
    stored = unit * exact_filters
    local = unit * chain_variance(channels, settings["block"], settings["fused"])
    local += channels * stored
    filter_variance, input_variance = stated_variances(drawn_from)
    scale = filter_variance * (input_variance + drawn_from.input_mean**2)
    with np.errstate(all="ignore"):  # a hopeless candidate may overflow
        axis = _moments(found, unit, number_format, settings["fused"], exact_filters)
        errors, _ = propagate(axis if dims == 2 else _nothing(), axis, channels, local)
        errors = scale * errors
        if counts_exponents(settings):
            stages = Stages.of(settings["dtype"], filters=settings["filters"])
            data = Data(filter_variance, input_variance, drawn_from.input_mean, channels)
            width, one = Axis(found.at, found.g, found.bt), np.ones((1, 1))
            height = width if dims == 2 else Axis(one, one, one)
            errors = errors + losses(height, width, stages, data).errors
        mean = math.sqrt(2 / math.pi) * np.sqrt(errors).mean((-1, -2))
    return np.where(np.isfinite(mean), mean, np.inf)


def _moments(
    found: Matrices, unit: float, number_format: Format, fused: bool, exact_filters: bool
) -> Moments:
    sv, su = _gram(found.bt), _gram(found.g)
    shift_bt, shift_g, shift_at = (
        number_format.round(rows).astype(np.float64) - rows
        for rows in (found.bt, found.g, found.at)
    )
    nothing = 0.0 if exact_filters else 1.0
    products = sv * su
    return Moments(
        at=found.at,
        sv=sv,
        su=su,
        dv=unit * _diagonal(_chain(found.bt**2, found.bt, fused)),
        du=nothing * unit * _diagonal(_chain(found.g**2, found.g, fused)),
        cv=_gram(shift_bt),
        cu=nothing * _gram(shift_g),
        output_errors=unit * _output_chain(found.at, products, fused),
        output_shift=(shift_at @ products * shift_at).sum(-1),
    )


def _nothing() -> Moments:
    """An axis along which nothing is done."""
    one, zero = np.ones((1, 1)), np.zeros((1, 1))
    return Moments(one, one, one, zero, zero, zero, zero, np.zeros(1), np.zeros(1))


def _gram(rows: np.ndarray) -> np.ndarray:
    return rows @ rows.swapaxes(-1, -2)


def _diagonal(values: np.ndarray) -> np.ndarray:
    return values[..., None] * np.eye(values.shape[-1])


def _chain(sizes: np.ndarray, rows: np.ndarray, fused: bool) -> np.ndarray:
    """Rounding variances of the sums of rows of independent terms, the smallest terms first."""
    order = np.argsort(sizes, -1)
    ascending = np.take_along_axis(sizes, order, -1)
    partial = np.cumsum(ascending, -1)
    started = np.cumsum(ascending > 0, -1)
    sums = np.where((started > 1) & (ascending > 0), partial, 0.0).sum(-1)
    return sums + _products(ascending, np.take_along_axis(rows, order, -1), started, fused)


def _output_chain(at: np.ndarray, moments: np.ndarray, fused: bool) -> np.ndarray:
    """The same for products with these second moments, which depend on each other."""
    order = np.argsort(np.abs(at), -1)
    rows = np.take_along_axis(at, order, -1)
    index = np.arange(len(at))[:, None, None, None]
    paired = moments[index, order[..., :, None], order[..., None, :]]
    paired = paired * rows[..., :, None] * rows[..., None, :]
    sizes = np.diagonal(paired, axis1=-2, axis2=-1)
    before = np.tril(paired, -1).sum(-1)
    partial = np.cumsum(sizes + 2 * before, -1)
    started = np.cumsum(rows != 0, -1)
    sums = np.where((started > 1) & (rows != 0), partial, 0.0).sum(-1)
    return sums + _products(sizes, rows, started, fused)


def _products(sizes: np.ndarray, rows: np.ndarray, started: np.ndarray, fused: bool) -> np.ndarray:
    """Roundings of constant times value; a fused multiply-add has none but at the first term."""
    rounds = (np.abs(np.frexp(rows)[0]) != 0.5) & (rows != 0)
    if fused:
        rounds &= started == 1
    return np.where(rounds, sizes, 0.0).sum(-1)
