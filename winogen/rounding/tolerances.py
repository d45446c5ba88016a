"""Which tolerance a test of a kernel should have: errors as predicted, and a bound for any data.

The prediction is `winogen.rounding.variance.estimate`; the bound counts roundings as
`winogen.rounding.bounds` does, with a number format of its own for every stage.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from winogen.errors import InvalidValue
from winogen.rounding.bounds import Growth, Growths, majorant, rounded_by
from winogen.rounding.data import Distribution, Draw, distribution_of, stated_variances
from winogen.rounding.stages import Stages
from winogen.rounding.tiles import Direct, axes_of, is_joined
from winogen.rounding.variance import estimate

# The largest error that is predicted, in standard deviations of that of the worst output: products
# of normal numbers have longer tails than a normal number where few channels are added up. Fitted
# to 50,000 random tiles of one and of 16 channels, not those of scripts/tolerance_figures.py.
_DEVIATIONS = 6.0
_FEW = 0.4  # how much more that is for one channel, as a part
_MOST_CHANNELS = 1 << 24
# The largest output of a layer of ordinary size, in standard deviations.
_LARGEST_OUTPUT = 4.0


@dataclass(frozen=True)
class Allowance:
    """How far one output may be from the exact one.

    Absolute figures are of data of the distribution, in its own size (normal: variance 1).
    """

    mean: float  # predicted mean |error|
    largest: float  # predicted largest |error|: all but one of about 1,000 tiles stay below it
    relative: float  # the same over the largest |output| of a layer
    worst: float  # no |error| is larger, for any data with |x| <= x_max and |g| <= w_max
    # The same over the sum over channels of max |x| max |g| of a tile, for data of any size.
    factor: float

    def to_dict(self) -> dict[str, float]:
        """Plain numbers for JSON."""
        return asdict(self)

    def lines(self) -> dict[str, str]:
        """A test in C, numpy and torch; y are outputs, y64 what float64 gave by the definition."""
        size = f"{self.relative:.2e}"
        return {
            "c": f"if (!(fabs(y[i] - y64[i]) <= {size} * largest)) return 1;"
            "  /* largest: max |y64| of the layer */",
            "numpy": f"np.testing.assert_allclose(y, y64, rtol=0, atol={size} * np.abs(y64).max())",
            "torch": "torch.testing.assert_close(y.double(), y64, rtol=0, "
            f"atol={size} * y64.abs().max().item())",
        }


def tolerance(
    algorithm: Any,
    *,
    dtype: str = "float32",
    channels: int = 1,
    dims: int = 2,
    arrays: str | None = None,
    transforms: str | None = None,
    filters: str | None = None,
    order: str = "huffman",
    block: int | None = None,
    distribution: str | Distribution | Draw = "normal",
    x_max: float = 1.0,
    w_max: float = 1.0,
) -> Allowance:
    """Return what error a kernel may have, without running or compiling anything.

    ``algorithm``, ``dims``, ``order`` and ``distribution`` are those of `winogen.numerics.measure`;
    direct convolution is ``Direct(1, taps)``. ``dtype`` is that of products and sums, ``arrays`` of
    inputs, outputs and what is kept between, ``transforms`` and ``filters`` of the transforms; all
    are ``dtype`` where nothing is said. ``block``: channels that are summed before their sum joins
    the others; None: one chain of additions.

    >>> from winogen.algebra import cook_toom
    >>> found = tolerance(cook_toom(4, 3), channels=64)
    >>> found.mean < found.largest < found.worst
    True
    """
    for name, value in (("x_max", x_max), ("w_max", w_max)):
        if not 0 <= value < math.inf:
            raise InvalidValue(f"{name}: got {value}; allowed: a finite number >= 0")
    if not isinstance(channels, int) or not 1 <= channels <= _MOST_CHANNELS:
        raise InvalidValue(f"channels: got {channels!r}; allowed: an integer 1 to {_MOST_CHANNELS}")
    if block is not None and (not isinstance(block, int) or block < 1):
        raise InvalidValue(f"block: got {block!r}; allowed: an integer >= 1 or None")
    stages = Stages.of(dtype, arrays, transforms, filters)
    found = estimate(
        algorithm, dims=dims, channels=channels, order=order, distribution=distribution,
        dtype=dtype, storage=arrays, transforms=transforms, filters=filters, block=block,
    )  # fmt: skip
    drawn = distribution_of(distribution)
    filter_variance, input_variance = stated_variances(drawn)
    power = filter_variance * (input_variance + drawn.input_mean**2)
    deviation = _output_deviation(algorithm, channels, dims) * math.sqrt(power)
    # Of the worst output, beside the mean one; rounding to arrays is largest at the largest output.
    sized = _DEVIATIONS * (1 + _FEW / channels) * deviation
    largest = math.hypot(found.worst_l2 * sized, _narrow(stages) * sized)
    factor, least = _bound(algorithm, channels, dims, order, block, stages)
    return Allowance(
        mean=found.mean,
        largest=largest,
        relative=largest / (_LARGEST_OUTPUT * deviation),
        worst=factor * channels * x_max * w_max + least,
        factor=factor,
    )


def _output_deviation(algorithm: Any, channels: int, dims: int) -> float:
    """Of an output, for data of variance 1: the square root of how many products it adds up."""
    if isinstance(algorithm, Direct):
        return math.sqrt(channels * algorithm.r**dims)
    h, w = axes_of(algorithm, dims, "huffman")
    return math.sqrt(channels * h.r * w.r)


def _narrow(stages: Stages) -> float:
    """What the rounding of outputs to narrower arrays adds, over the output."""
    return stages.arrays.unit if stages.arrays.bits < stages.transform.bits else 0.0


def _bound(
    algorithm: Any, channels: int, dims: int, order: str, block: int | None, stages: Stages
) -> tuple[float, float]:
    """The bound over the sum of max |x| max |g|, and what is added for numbers near 0."""
    terms = channels
    if isinstance(algorithm, Direct):
        one = Growths.of(None)
        axes, sizes = (one, one), float(algorithm.r**dims)
        terms *= algorithm.r**dims
    else:
        tiles = axes_of(algorithm, dims, order)
        if is_joined(tiles):
            raise InvalidValue("algorithm: got joined complex products; allowed: real ones")
        h, w = (
            Growths(*(Growth.of_program(p) for p in (a.input, a.filter, a.output))) for a in tiles
        )
        axes = h, w
        data, taps = np.ones((1, tiles[0].n, tiles[1].n)), np.ones((1, tiles[0].r, tiles[1].r))
        sizes = float(majorant(h, w, data, taps).max())
    counts = [(axis.filter.roundings, stages.filter) for axis in axes]
    counts += [(axis.input.roundings + axis.output.roundings, stages.transform) for axis in axes]
    counts += [(1, one_format) for one_format in stages.narrowings]
    counts += [(1, stages.filter), (2, stages.transform), (1, stages.arrays)]  # read, kept
    size = min(block or terms, terms)
    additions = size - 1 + -(-terms // size) - 1
    counts += [(1 + additions, stages.product)]
    relative = rounded_by((count, one_format.unit) for count, one_format in counts)
    tiny = max(one_format.smallest_normal for _, one_format in counts)
    return relative * sizes, sum(count for count, _ in counts) * tiny * (1 + terms) * sizes
