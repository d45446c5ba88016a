"""The mean rounding error of an algorithm, estimated without running it.

Rounding errors are taken as independent random numbers, and the inputs as independent ones of known
moments. Both reach the result through exact linear maps, so that variances propagate from stage to
stage by matrices: v = B^T d has the second moments S = B^T (B^T)^T for inputs of variance 1, a
value c . d that is rounded contributes u^2 |c|^2, and in two dimensions all is a Kronecker product
of what happens along the axes. The sum over C independent channels multiplies by C.

It costs milliseconds where a measurement costs seconds, and has no noise: the search for points
sorts its candidates by it, and plans predict with it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from winogen.errors import InvalidValue
from winogen.records import Precision
from winogen.rounding.data import Distribution, Draw, distribution_of, stated_variances
from winogen.rounding.exponents import Axis, Data, Losses, direct_losses, losses
from winogen.rounding.formats import FORMATS, Format
from winogen.rounding.joined import Join
from winogen.rounding.linear import RoundedProgram, rounding_mean, rounding_variance
from winogen.rounding.stages import Stages
from winogen.rounding.tiles import (
    Algorithms,
    Direct,
    TileAxis,
    axes_of,
    is_joined,
    refuse_quantised,
)

_MEAN_OF_NORMAL = math.sqrt(2 / math.pi)  # mean |x| of a normal x, in standard deviations
# The largest error of a rounding over the number, in units roundoff: 1 / significand, whose
# logarithm is distributed evenly.
_HALF_STEP = 1 / (2 * math.log(2))


@dataclass(frozen=True)
class Estimate:
    """The expected rounding error of one output."""

    mean: float  # expected mean |error|
    relative_l2: float  # expected root mean square error over root mean square output
    worst_l2: float  # the same for the output of a tile with the largest error
    relative_max: float  # expected max |error| / max |output| of a layer
    # What the format's exponent has too few bits for, stage by stage; such errors are in the
    # figures, which are infinite where numbers overflow.
    notes: tuple[str, ...] = ()


def estimate(
    algorithm: Algorithms | Direct,
    *,
    dims: int = 2,
    channels: int = 1,
    order: str = "huffman",
    distribution: str | Distribution | Draw = "uniform",
    dtype: str = "float32",
    storage: str | None = None,
    transforms: str | None = None,
    filters: str | None = None,
    precision: Precision | None = None,
    fused: bool = False,
    block: int | None = 64,
    chains: int = 1,
) -> Estimate:
    """Estimate what ``measure`` finds for the same arguments.

    Within a factor of 2 of the measured mean for the whole catalog, within 20 % for most of it.
    Numbers that are too small or too large for a format count, but not with a ``precision``: its
    kernels scale what they narrow.

    Raises what ``measure`` raises, and InvalidValue for a distribution of unstated variance.

    >>> from winogen.algebra import cook_toom
    >>> error = estimate(cook_toom(4, 3), channels=256, distribution="relu", filters="float64")
    >>> 1e-6 < error.mean < 1e-4
    True
    """
    if not isinstance(channels, int) or channels < 1:
        raise InvalidValue(f"channels: got {channels!r}; allowed: an integer >= 1")
    drawn_from = distribution_of(distribution)
    filter_variance, input_variance = stated_variances(drawn_from)
    stages = Stages.of(dtype, storage, transforms, filters, precision)
    # Of the inputs: what is independent between them, and what is the same for all, their mean.
    weights = {"independent": input_variance, "ones": drawn_from.input_mean**2}
    weights = {moment: weight for moment, weight in weights.items() if weight}
    lost = None
    if precision is None:
        moments = filter_variance, input_variance, drawn_from.input_mean
        lost = _lost(algorithm, dims, order, stages, Data(*moments, channels), fused)
        if lost.overflows:
            inf = math.inf
            return Estimate(inf, inf, inf, inf, lost.notes(0.0))
    growth = 1.0
    sides: dict[str, tuple[np.ndarray, np.ndarray]] = {}  # variances of errors and of outputs
    if isinstance(algorithm, Direct):
        refuse_quantised(stages)
        terms = channels * algorithm.r**dims
        variance = product_variance(stages, terms, block, fused, chains)
        growth = sum_growth(stages, terms, block, chains)
        for moment in weights:
            sides[moment] = np.array(variance), np.array(float(terms))
    else:
        axes = axes_of(algorithm, dims, order)
        h, w = (_rounded(axis, stages.transform, stages.filter, fused) for axis in axes)
        join = Join.of(axes, stages.transform, fused) if is_joined(axes) else None
        local = product_variance(stages, channels, block, fused, chains)
        for moment in weights:
            per_channel, per_local, output = _spread(h, w, join, moment)
            sides[moment] = channels * per_channel + local * per_local, channels * output
    errors = outputs = np.array(0.0)
    for moment, weight in weights.items():
        error, output = sides[moment]
        errors = errors + weight * filter_variance * error
        outputs = outputs + weight * filter_variance * output
    notes: tuple[str, ...] = ()
    if lost is not None:
        notes = lost.notes(errors)
        errors = errors + lost.errors
    # Errors of normal data grow with the number of outputs as the outputs themselves do.
    largest = growth * math.sqrt(np.max(errors) / np.mean(outputs))
    # What is cut makes all products less, and so all outputs.
    less = 0.0 if stages.quantised else sum(map(rounding_mean, stages.narrowings))
    if stages.arrays.bits < stages.transform.bits:
        errors = errors + rounding_variance(stages.arrays) * outputs
        less += rounding_mean(stages.arrays)
        # But rounding the outputs makes its largest error at the largest of them.
        largest = math.hypot(largest, _HALF_STEP * stages.arrays.unit)
    errors, largest = errors + less**2 * outputs, math.hypot(largest, less)
    return Estimate(
        mean=float(_MEAN_OF_NORMAL * np.sqrt(errors).mean()),
        relative_l2=float(math.sqrt(np.mean(errors) / np.mean(outputs))),
        worst_l2=float(math.sqrt(np.max(errors) / np.mean(outputs))),
        relative_max=largest,
        notes=notes,
    )


def _lost(
    algorithm: Algorithms | Direct,
    dims: int,
    order: str,
    stages: Stages,
    data: Data,
    fused: bool,
) -> Losses:
    """What is lost in formats with few bits of exponent."""
    if isinstance(algorithm, Direct):
        return direct_losses(stages, algorithm.r**dims, data)
    axes = axes_of(algorithm, dims, order)
    h, w = (_matrices(axis) for axis in axes)
    join = Join.of(axes, stages.transform, fused) if is_joined(axes) else None
    return losses(h, w, stages, data, join)


@lru_cache(maxsize=256)
def _matrices(axis: TileAxis) -> Axis:
    """The matrices that the programs of an axis compute."""
    exact = FORMATS["float64"]
    bt, g, at = (program.matrix for program in _rounded(axis, exact, exact, False))
    return Axis(at, g, bt)


@dataclass(frozen=True)
class Moments:
    """Second moments along one axis, (…, products, products); leading dimensions are candidates.

    ``sv`` and ``su`` belong to the transformed inputs and filters, ``dv`` and ``du`` to their
    rounding errors, ``cv`` and ``cu`` to the effect of rounded constants on them. ``output_errors``
    and ``output_shift`` are the variances that the output transform adds, (…, m).
    """

    at: np.ndarray  # (…, m, products)
    sv: np.ndarray
    su: np.ndarray
    dv: np.ndarray
    du: np.ndarray
    cv: np.ndarray
    cu: np.ndarray
    output_errors: np.ndarray
    output_shift: np.ndarray

    def out(self, moments: np.ndarray) -> np.ndarray:
        """The variances of the outputs (…, m) for products with these second moments."""
        return (self.at @ moments * self.at).sum(-1)


def propagate(h: Moments, w: Moments, channels: int, local: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the variances of error and of value of the outputs, (…, m_h, m_w) each.

    ``local``: what multiplying and adding up the channels brings, in units of one product.
    """
    ws, hs = w.sv * w.su, h.sv * h.su
    value_h, value_w = h.out(hs), w.out(ws)
    lone_h, lone_w = h.out(_diagonal(hs)), w.out(_diagonal(ws))
    # The pass along the height comes first; its errors are spread by the pass along the width just
    # as data are. Errors of the second are independent between the rows that the first has made.
    first = h.out(h.dv * h.su + h.sv * h.du + h.cv * h.su + h.sv * h.cu) + h.output_shift
    second = w.out(w.dv * w.su + w.sv * w.du)
    # Constants are the same at every row, so their errors are not independent.
    constants = w.out(w.cv * w.su + w.sv * w.cu) + w.output_shift
    errors = (
        channels * _outer(first, value_w)
        + channels * _outer(lone_h, second)
        + channels * _outer(value_h, constants)
        + local * _outer(lone_h, lone_w)
        # The output transform: along the height, where columns are independent, then the width.
        + channels * _outer(h.output_errors, lone_w)
        + channels * _outer(value_h, w.output_errors)
    )
    return errors, channels * _outer(value_h, value_w)


def product_variance(
    stages: Stages, count: int, block: int | None, fused: bool, chains: int
) -> float:
    """The roundings of ``count`` products, their factors and their sum.

    In units of the variance of one product.
    """
    sums = rounding_variance(stages.sums)
    quantised = stages.quantised
    if quantised:
        factors = quantised.filter_error(count) + quantised.tile_error(count)
        # A chunk's sum is rounded when it becomes a float, as is its scale, and when it is added.
        return count * (factors + 2 * sums) + sums * between_blocks(count, quantised.chunk)
    factors = sum(map(rounding_variance, stages.narrowings))
    whole, between = chain_variance(count, block, fused, chains), between_blocks(count, block)
    unit = rounding_variance(stages.product)
    return unit * (whole - between) + sums * between + count * factors


# The square of the largest output, of a layer of ordinary size, over the mean of the squares.
_LARGEST_SQUARE = 16.0


def sum_growth(stages: Stages, count: int, block: int | None, chains: int) -> float:
    """How much larger the largest error is than if errors did not depend on outputs: at least 1.

    Where sums are narrower than those between blocks, rounding them makes much of the error, and
    they are large where the output is. Of n independent products with the sum y, the square of a
    partial sum of k is expected to be k (1 + (t - 1) k / n), with t = y^2 / n. The squares of the
    products themselves add up to n (1 + (t - 1) 4 / (n + 3)), by regression: products of two normal
    numbers have the fourth moment 9. So errors have the variance 1 + a (t - 1), and with normal
    outputs the largest error is found where (T - t) (1 + a (t - 1)) is largest, with T the t of the
    largest output.

    >>> stages = Stages.of(precision=Precision.of("float32", products="float16"))
    >>> [round(sum_growth(stages, n, 24, 3), 2) for n in (27, 64, 1000)]
    [1.36, 1.07, 1.0]
    """
    if stages.product.bits >= stages.sums.bits or stages.quantised:
        return 1.0
    size = min(block or count, count)
    lengths = [len(range(j, size, chains)) for j in range(min(chains, size))]
    joined = [sum(lengths[: j + 1]) for j in range(1, len(lengths))]
    partial = [k for length in lengths for k in range(2, length + 1)] + joined
    unit = rounding_variance(stages.product)
    factors = sum(map(rounding_variance, stages.narrowings))
    in_sums = unit * sum(partial) / size
    mean = sum(k * k for k in partial) / max(1, sum(partial)) / count
    share = mean * in_sums / (in_sums + factors + unit) + 4 / (count + 3)
    if share * (_LARGEST_SQUARE + 1) <= 1:
        return 1.0
    at = (_LARGEST_SQUARE + 1 - 1 / share) / 2
    return max(1.0, math.sqrt((_LARGEST_SQUARE - at) * (1 + share * (at - 1)) / _LARGEST_SQUARE))


def chain_variance(count: int, block: int | None, fused: bool, chains: int = 1) -> float:
    """The roundings of a sum of ``count`` products, block by block, then of the blocks.

    The products of a block take turns in ``chains`` chains of additions, then the chains are added.
    In units of the variance of one product and of one rounding: a partial sum of k independent
    products has the variance k.

    >>> chain_variance(3, None, False), chain_variance(3, None, True)
    (8.0, 6.0)
    """
    block = min(block or count, count)
    sizes = [block] * (count // block) + ([count % block] if count % block else [])
    parts = [[len(range(j, size, chains)) for j in range(min(chains, size))] for size in sizes]
    lengths = [length for part in parts for length in part]
    partial = sum(length * (length + 1) / 2 - 1 for length in lengths)
    joined = sum(sum(part[: j + 1]) for part in parts for j in range(1, len(part)))
    products = len(lengths) if fused else count
    return float(products + partial + joined + between_blocks(count, block))


def between_blocks(count: int, block: int | None) -> int:
    """The part of `chain_variance` that adding up the blocks has.

    >>> between_blocks(3, None), between_blocks(3, 1)
    (0, 5)
    """
    block = min(block or count, count)
    return sum(min((k + 1) * block, count) for k in range(1, -(-count // block)))


@lru_cache(maxsize=256)
def _rounded(
    axis: TileAxis, transforms: Format, filters: Format, fused: bool
) -> tuple[RoundedProgram, ...]:
    """The programs of inputs, filters and outputs."""
    return tuple(
        RoundedProgram(program, number_format, fused)
        for program, number_format in (
            (axis.input, transforms),
            (axis.filter, filters),
            (axis.output, transforms),
        )
    )


@lru_cache(maxsize=512)
def _moments(programs: tuple[RoundedProgram, ...], moment: str) -> Moments:
    """The moments for inputs of variance 1 that are independent, or all the same ("ones")."""
    along_input, along_filter, along_output = programs
    n, r = along_input.matrix.shape[1], along_filter.matrix.shape[1]
    inputs, taps = np.eye(n) if moment == "independent" else np.ones((n, n)), np.eye(r)
    sv, su = along_input.image(inputs), along_filter.image(taps)
    return Moments(
        at=along_output.matrix,
        sv=sv,
        su=su,
        dv=along_input.errors(inputs),
        du=along_filter.errors(taps),
        cv=along_input.shift(inputs),
        cu=along_filter.shift(taps),
        output_errors=np.diag(along_output.errors(sv * su)),
        output_shift=np.diag(along_output.shift(sv * su)),
    )


@lru_cache(maxsize=512)
def _spread(
    h: tuple[RoundedProgram, ...], w: tuple[RoundedProgram, ...], join: Join | None, moment: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What `propagate` gives for one channel, for what is local, and for the output's variance.

    Both are linear, and plans ask for the same transforms with many numbers of channels.
    """
    axes = _moments(h, moment), _moments(w, moment)
    if join:
        return join.propagate(h[2], w[2], *axes)
    per_channel, output = propagate(*axes, 1, 0.0)
    per_local, _ = propagate(*axes, 0, 1.0)
    return per_channel, per_local, output


def _diagonal(matrices: np.ndarray) -> np.ndarray:
    return matrices * np.eye(matrices.shape[-1])


def _outer(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return left[..., :, None] * right[..., None, :]
