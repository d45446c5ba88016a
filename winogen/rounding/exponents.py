"""What few bits of exponent cost: small numbers that lose bits, and large ones that are infinite.

Below the smallest normal number of a format its numbers lie a constant step q apart. What is
rounded there is off by q^2 / 12 in the mean of squares, or by its own square if that is less. Sums
and multiples by whole numbers are exact there. These errors reach the outputs through the same
linear maps as all others do, and here they are added up, stage by stage, with every row of a matrix
summed on its own. Numbers overflow where five standard deviations exceed the largest of the format.

Sizes depend on the data, so that variances are absolute here, unlike those of
`winogen.rounding.variance`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from winogen.rounding.formats import Format
from winogen.rounding.stages import Stages

if TYPE_CHECKING:
    from winogen.rounding.joined import Join

_DEVIATIONS = 5.0  # how many a number may well be from 0
_SHARE = 0.1  # of the squares of all errors: a stage that has more is named
_HINT = "scale rows of the algorithm, by balanced() or scale(), or the data"


@dataclass(frozen=True)
class Axis:
    """The matrices of one axis; leading dimensions are candidates."""

    at: np.ndarray  # (…, m, products)
    g: np.ndarray  # (…, products, r)
    bt: np.ndarray  # (…, products, n)


@dataclass(frozen=True)
class Data:
    """The moments of filters, whose mean is 0, and of inputs, and how many channels are summed."""

    filter_variance: float
    input_variance: float
    input_mean: float
    channels: int

    @property
    def input_square(self) -> float:
        """The mean of the squares of inputs."""
        return self.input_variance + self.input_mean**2


@dataclass(frozen=True)
class StageLoss:
    """What is lost in one stage of a convolution."""

    name: str  # as `Measurement.ranges` has it
    variance: np.ndarray  # of the errors that it brings to the outputs, (…, m_h, m_w)
    smallest: np.ndarray  # (…), the least root mean square of a number
    overflows: np.ndarray  # (…), whether numbers are too large
    format: Format  # the coarsest


@dataclass(frozen=True)
class Losses:
    """What few bits of exponent cost, stage by stage."""

    stages: tuple[StageLoss, ...]

    @property
    def overflows(self) -> np.ndarray:
        """Whether any number is too large, (…)."""
        return np.any([stage.overflows for stage in self.stages], 0)

    @property
    def errors(self) -> np.ndarray:
        """The variance of the outputs' errors, (…, m_h, m_w); infinite where numbers overflow."""
        total = np.sum([stage.variance for stage in self.stages], 0)
        return np.where(self.overflows[..., None, None], np.inf, total)

    def notes(self, others: np.ndarray | float) -> tuple[str, ...]:
        """What a reader should know, of one candidate with so much variance by other roundings."""
        for stage in self.stages:
            if stage.overflows:  # what follows is infinite for that reason
                return (too_large(stage.name, stage.format),)
        total = np.mean(others) + np.mean(self.errors)
        return tuple(
            too_small(stage.name, stage.format, f"numbers of about {float(stage.smallest):.0e}")
            for stage in self.stages
            if np.mean(stage.variance) > _SHARE * total
        )


def too_large(stage: str, number_format: Format) -> str:
    """The note on a stage whose numbers overflow."""
    return (
        f"{stage}: numbers exceed the largest of {number_format}, {number_format.largest:.3g}; "
        f"{_HINT}"
    )


def too_small(stage: str, number_format: Format, numbers: str) -> str:
    """The note on a stage where such ``numbers``, so small or so many, lose bits."""
    return (
        f"{stage}: {numbers} below {number_format.smallest_normal:.1e}, where {number_format} "
        f"loses bits; {_HINT}"
    )


def losses(
    height: Axis, width: Axis, stages: Stages, data: Data, join: Join | None = None
) -> Losses:
    """Return the losses of an algorithm with these matrices, on such data.

    ``join``: of axes whose complex products are joined, which have no leading dimensions.
    """
    before = stages.filter, stages.packed
    u, noise_u, most_u = _transformed(height.g, width.g, data.filter_variance, 0.0, before)
    before = stages.transform, stages.tiles
    moments = data.input_variance, data.input_mean
    v, noise_v, most_v = _transformed(height.bt, width.bt, *moments, before)
    square_h, square_w = height.at**2, width.at**2
    many = data.channels
    # Of the way back, the sums over channels as rows of both axes.
    rows = many * u * v
    if join:
        u, noise_u = _joined(join.filter, u, noise_u)
        v, noise_v = _joined(join.input, v, noise_v)
        rows = many * ((join.output**2) @ (u * v)[0]).reshape(rows.shape)
    products = u * v

    def out(noise: np.ndarray) -> np.ndarray:
        if join:
            noise = ((join.output**2) @ noise[0]).reshape(rows.shape)
        return many * (square_h @ noise @ square_w.swapaxes(-1, -2))

    # Behind the pass along the height, all that is left of it is the sum over its taps.
    pair = many * data.filter_variance * data.input_square
    sizes = (width.g**2).sum(-1) * (width.bt**2).sum(-1)
    half = pair * height.g.shape[-1] * sizes  # (…, rows along the width)
    real = stages.transform
    first = _pass_noise(height.at, rows, real)
    second = _pass_noise(width.at, half[..., None], real)[..., 0]
    back = first @ square_w.swapaxes(-1, -2) + second[..., None, :]
    outputs = np.full(back.shape, pair * height.g.shape[-1] * width.g.shape[-1])
    if stages.arrays.step > real.step:
        back = back + _noise(outputs, stages.arrays)
    most_y = np.maximum(
        (square_h[..., None] * rows[..., None, :, :]).max((-1, -2, -3)),
        (square_w * half[..., None, :]).max((-1, -2)),
    )
    nothing = np.zeros(most_u.shape)
    return Losses(
        (
            _stage(
                *("transformed filter", out(noise_u * v), u, most_u),
                (stages.filter, stages.packed),
                (height.g, width.g),
            ),
            _stage(
                *("transformed input", out(u * noise_v), v, most_v),
                (real, stages.tiles),
                (height.bt, width.bt),
            ),
            _stage(
                *("product", out(_noise(products, stages.product)), products, nothing),
                (stages.product,),
            ),
            _stage(
                *("sum over channels", np.zeros(back.shape), many * products, nothing),
                (stages.product, stages.sums),
            ),
            _stage(
                *("output", back, outputs, most_y), (real, stages.arrays), (height.at, width.at)
            ),
        )
    )


def direct_losses(stages: Stages, taps: int, data: Data) -> Losses:
    """Return the losses of direct convolution: of one output, (1, 1)."""
    product = np.full((1, 1), data.filter_variance * data.input_square)
    terms, nothing = taps * data.channels, np.zeros(())
    formats = stages.product, stages.sums, stages.arrays
    lost = terms * _noise(product, stages.product)
    return Losses(
        (
            _stage("product", lost, product, nothing, formats[:1]),
            _stage("output", 0 * lost, terms * product, nothing, formats),
        )
    )


def _transformed(
    height: np.ndarray,
    width: np.ndarray,
    variance: float,
    mean: float,
    formats: tuple[Format, Format],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean squares of what both passes make of such numbers, of its losses, and the largest.

    ``formats``: of the arithmetic, and of what is kept.
    """
    real, kept = formats
    sums = height.sum(-1) ** 2, width.sum(-1) ** 2
    squares = (height**2).sum(-1), (width**2).sum(-1)
    half = variance * squares[0] + mean**2 * sums[0]
    whole = variance * squares[0][..., None] * squares[1][..., None, :]
    whole = whole + mean**2 * sums[0][..., None] * sums[1][..., None, :]
    given = np.full((height.shape[-1], 1), variance + mean**2)
    noise = _pass_noise(height, given, real) * squares[1][..., None, :]
    along = np.repeat(half[..., None, :], width.shape[-1], -2)
    noise = noise + _pass_noise(width, along, real).swapaxes(-1, -2)
    if kept.step > real.step:
        noise = noise + _noise(whole, kept)
    return whole, noise, half.max(-1)


def _joined(
    matrix: np.ndarray, squares: np.ndarray, noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The same of the factors of all products, (1, products), from rows of both axes.

    Rows are taken as independent here.
    """
    weights = matrix**2
    return (weights @ squares.ravel())[None], (weights @ noise.ravel())[None]


def _pass_noise(matrix: np.ndarray, squares: np.ndarray, number_format: Format) -> np.ndarray:
    """Mean squares of what is lost when the rows of ``matrix`` multiply numbers (…, columns, k).

    Multiples by whole numbers and sums lose nothing.
    """
    terms = matrix[..., None] ** 2 * squares[..., None, :, :]
    lost = np.where((matrix == np.rint(matrix))[..., None], 0.0, _noise(terms, number_format))
    return lost.sum(-2)


def _noise(squares: np.ndarray, number_format: Format) -> np.ndarray:
    """Mean squares of what is lost where numbers with these mean squares are rounded."""
    return np.minimum(number_format.step**2 / 12, squares)


def _stage(
    name: str,
    variance: np.ndarray,
    squares: np.ndarray,
    within: np.ndarray,
    formats: Sequence[Format],
    constants: Sequence[np.ndarray] = (),
) -> StageLoss:
    """A stage of numbers with these mean squares, and ``within`` it others with at most that one.

    ``constants``: the matrices, whose entries are numbers of the first format.
    """
    largest = min(number_format.largest for number_format in formats)
    most = np.maximum(within, squares.max((-1, -2)))
    overflows = np.logical_not(_DEVIATIONS * np.sqrt(most) <= largest)
    for matrix in constants:
        overflows = overflows | (abs(matrix).max((-1, -2)) > formats[0].largest)
    coarsest = max(formats, key=lambda number_format: number_format.smallest_normal)
    return StageLoss(name, variance, np.sqrt(squares.min((-1, -2))), overflows, coarsest)
