"""Rounding error that a convolution cannot exceed: an a-priori bound for every algorithm.

A Winograd convolution is a sum of monomials, each one a filter value times an input value times
matrix entries. In floating point every operation on a monomial's way multiplies it by 1 + e with
|e| <= u (half a unit in the last place), so a monomial that meets k operations is off by at most
(1 + u)^k - 1 of its own size, whatever the order of summation and whether operations are fused.
Summing sizes instead of values (the *majorant*) gives

    |y - y_exact| <= ((1+u)^k - 1) * |A_h^T| [sum_c (|G_h||g||G_w^T|) * (|B_h^T||d||B_w|)] |A_w|.

This is the componentwise form of the bound of Barabasz, Anderson, Soodhalter and Gregg, ACM TOMS
2020 (arXiv 1803.10986), with the filter transformed in float64 and rounded once to the storage
type. It is a bound: with random data the largest error is two or three orders of magnitude smaller,
and more with many channels, where rounding errors cancel; ``winogen.numerics.estimate`` tells what
to expect.

Transforms shortened by common sub-expressions obey it as long as no term is added and taken away
again; ``Growth.of_program`` measures that for one program. Overflow and underflow are left out, as
in the paper, but for an allowance in the order of the smallest normal number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from winogen.errors import InvalidType, InvalidValue
from winogen.program import pairs
from winogen.program.ir import Program, Rows
from winogen.program.kinds import KINDS
from winogen.rounding.tiles import Algorithm, Algorithms, Direct

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike

_DOUBLE = 2.0**-53
# Covers the rounding of the bound itself, computed in float64, and of constants, rounded twice from
# exact to double to float.
_SLACK = 1 + 1e-8
_ALGORITHMS = (
    "a BilinearAlgorithm, a BilinearAlgorithm2D, a Transform, a pair (height, width) of them, "
    "Growths, Direct(m, r), or None where nothing is transformed"
)


@dataclass(frozen=True)
class Growth:
    """What one linear transform does to sizes: |out| <= matrix |in|, with so many roundings."""

    matrix: np.ndarray
    roundings: int  # on the longest way from an input to an output, constants included

    @classmethod
    def of_matrix(cls, rows: Rows) -> Growth:
        """Bound every way to compute ``rows`` times a vector without cancelling terms.

        A row of k entries needs at most k - 1 additions, and no more scalings than that and one
        first, each with a rounded constant: 3k - 1. Rows that only pick or negate cost nothing.
        """
        matrix = np.abs(np.array([[float(c) for c in row] for row in rows]))
        entries = max(int(np.count_nonzero(row)) for row in matrix)
        picks = all(np.count_nonzero(row) <= 1 and row.max(initial=0) in (0, 1) for row in matrix)
        return cls(matrix, 0 if picks else 3 * entries - 1)

    @classmethod
    def of_program(cls, program: Program) -> Growth:
        """Measure a straight-line program (``winogen.program``) statement by statement."""
        size = len(program.inputs)
        ways = {name: (np.eye(size)[k], 0) for k, name in enumerate(program.inputs)}
        for statement in program.statements:
            total, longest = np.zeros(size), 0
            for term in statement.terms:
                sizes, roundings = ways[term.operand]
                total = total + abs(float(term.coefficient)) * sizes
                longest = max(longest, roundings + (0 if term.is_unit else 2))
            ways[statement.target] = (total, longest + len(statement.terms) - 1)
        nothing = (np.zeros(size), 0)
        outputs = [ways.get(name, nothing) for name in program.outputs]
        return cls(np.array([sizes for sizes, _ in outputs]), max(k for _, k in outputs))


@dataclass(frozen=True)
class Growths:
    """The growth of the three transforms along one axis."""

    input: Growth
    filter: Growth
    output: Growth

    @classmethod
    def of(cls, algorithm: Algorithm | Growths | None) -> Growths:
        """From anything with ``matrices``; None is no transform at all.

        A transform with ``programs`` is measured by its programs for inputs and outputs: a short
        program may carry a term further than its matrix shows. Kernels transform filters by G
        itself.
        """
        if isinstance(algorithm, Growths):
            return algorithm
        if algorithm is None:
            one = Growth.of_matrix([[1]])
            return cls(one, one, one)
        if not hasattr(algorithm, "matrices"):
            raise InvalidType(f"algorithm: got {algorithm!r}; allowed: {_ALGORITHMS}")
        growths = {kind: Growth.of_matrix(rows) for kind, rows in algorithm.matrices.items()}
        programs = getattr(algorithm, "programs", None)
        if programs is not None:
            for kind in ("input", "output"):
                growths[kind] = Growth.of_program(programs[kind])
        return cls(growths["input"], growths["filter"], growths["output"])

    @classmethod
    def joined(cls, height: Any, width: Any) -> Growths:
        """Of whole tiles, by rows, where complex products of both axes are joined."""
        along = cls.of(height), cls.of(width)
        sizes = (height.rows, height.reals), (width.rows, width.reals)
        made = {}
        for kind in KINDS:
            first, second = (getattr(one, kind) for one in along)
            join = _joining(height.ring, sizes, kind)
            both = np.kron(first.matrix, second.matrix)
            matrix = both @ join.matrix if kind == "output" else join.matrix @ both
            made[kind] = Growth(matrix, first.roundings + second.roundings + join.roundings)
        return cls(**made)


def _joining(
    ring: tuple[str, ...], sizes: tuple[tuple[int, int], tuple[int, int]], kind: str
) -> Growth:
    """What the step between rows of both axes and products does to sizes."""
    (high, _), (wide, _) = sizes
    cells = pairs.cells(*sizes)
    count = cells[-1].first + pairs.PRODUCTS[cells[-1].axes]
    matrix = np.zeros((count, high * wide))
    one = {axes: Growth.of_program(pairs.programs(ring, axes)[kind]) for axes in (1, 2)}
    for cell in cells:
        rows = [a * wide + b for a in cell.height for b in cell.width]
        places = slice(cell.first, cell.first + pairs.PRODUCTS[cell.axes])
        block = one[cell.axes].matrix if cell.axes else np.ones((1, 1))
        matrix[places, rows] = block.T if kind == "output" else block
    roundings = max(growth.roundings for growth in one.values())
    return Growth(matrix.T if kind == "output" else matrix, roundings)


def error_bound(
    alg_h: Algorithms | Growths | None,
    alg_w: Algorithm | Growths | str | None = "same",
    channels: int = 1,
    dtype: DTypeLike = "float32",
    x_max: float = 1.0,
    w_max: float = 1.0,
    bias_max: float = 0.0,
    *,
    dims: int = 2,
) -> float:
    """Return a bound on |y - y_exact| for every output of a convolution.

    Parameters
    ----------
    alg_h
        What ``estimate`` and ``measure`` take: one algorithm for both axes, a pair (height, width)
        of them, a ``BilinearAlgorithm2D``, or ``Direct(m, r)``. An algorithm is a
        ``BilinearAlgorithm``, a ``Transform``, or ``Growths``; None where an axis has no transform.
    alg_w
        The algorithm along the width, where ``alg_h`` is only that along the height.
    channels
        How many products are added up per point of the transformed tile, so C for
        ``winograd2d`` and ``mcmr``; C * KH for ``winograd1d`` (``alg_h`` None); and
        C * KH * KW for ``direct`` and ``im2col`` (both None; ``Direct`` counts its taps itself).
    dtype
        Of data, packed filter and arithmetic.
    x_max, w_max, bias_max
        Bounds on |input|, |weight| and |bias|.
    dims
        1 leaves the height alone, where ``alg_h`` is one algorithm for both axes.

    Raises
    ------
    InvalidValue
        Negative or not finite sizes, channels < 0.
    InvalidType
        Not an algorithm, not a float dtype.

    >>> from winogen.algebra import cook_toom
    >>> f23, f43 = cook_toom(2, 3), cook_toom(4, 3)
    >>> error_bound(f23) < error_bound((f23, f43)) < error_bound(f43) < 1e-2
    True
    >>> error_bound(None, None, 64 * 9) < error_bound(f43, f43, 64) < 1
    True
    >>> error_bound(f43, channels=64, x_max=0) < 1e-30
    True
    """
    for name, value in (("x_max", x_max), ("w_max", w_max), ("bias_max", bias_max)):
        if not 0 <= value < math.inf:
            raise InvalidValue(f"{name}: got {value}; allowed: a finite number >= 0")
    if not isinstance(channels, (int, np.integer)) or channels < 0:
        raise InvalidValue(f"channels: got {channels!r}; allowed: an integer >= 0")
    if dims not in (1, 2):
        raise InvalidValue(f"dims: got {dims!r}; allowed: 1, 2")
    if isinstance(alg_h, Direct):
        channels *= alg_h.r**dims
    along = _axes(alg_h, alg_w, dims)
    if all(getattr(axis, "ring", ()) for axis in along):
        h, w = Growths.of(None), Growths.joined(*along)
    else:
        h, w = (Growths.of(axis) for axis in along)
    tile = np.full((1, h.input.matrix.shape[1], w.input.matrix.shape[1]), float(x_max))
    weight = np.full((1, h.filter.matrix.shape[1], w.filter.matrix.shape[1]), float(w_max))
    sizes = channels * majorant(h, w, tile, weight)
    return float(_bound(h, w, sizes, channels, dtype, bias_max).max())


def tile_error_bound(
    alg_h: Algorithm | Growths | None,
    alg_w: Algorithm | Growths | None,
    tile: ArrayLike,
    weight: ArrayLike,
    dtype: DTypeLike = "float32",
    bias: ArrayLike = 0.0,
) -> np.ndarray:
    """Return the bound for each output of one tile, from the data themselves (much sharper).

    Parameters
    ----------
    alg_h, alg_w
        As in ``error_bound``.
    tile
        Inputs, C x n_h x n_w.
    weight
        Filter, C x r_h x r_w.

    Returns
    -------
    array
        m_h x m_w bounds on |y - y_exact|.

    >>> from winogen.algebra import cook_toom
    >>> f = cook_toom(2, 3)
    >>> tile_error_bound(f, f, np.ones((8, 4, 4)), np.ones((8, 3, 3))).shape
    (2, 2)
    """
    h, w = Growths.of(alg_h), Growths.of(alg_w)
    inputs, taps = (np.abs(np.asarray(a, dtype="float64")) for a in (tile, weight))
    n_h, n_w = h.input.matrix.shape[1], w.input.matrix.shape[1]
    r_h, r_w = h.filter.matrix.shape[1], w.filter.matrix.shape[1]
    if inputs.shape[1:] != (n_h, n_w) or taps.shape != (len(inputs), r_h, r_w):
        raise InvalidValue(
            f"tile, weight: got shapes {inputs.shape} and {taps.shape}; "
            f"allowed: C x {n_h} x {n_w} and C x {r_h} x {r_w}"
        )
    return _bound(h, w, majorant(h, w, inputs, taps), len(inputs), dtype, np.abs(bias))


def _axes(alg_h: Any, alg_w: Any, dims: int) -> tuple[Any, Any]:
    """The algorithms along height and width, None for an axis without a transform."""
    if not isinstance(alg_w, str) or alg_w != "same":
        return alg_h, alg_w
    if isinstance(alg_h, Direct):
        return None, None
    both = (alg_h.h, alg_h.w) if hasattr(alg_h, "h") else alg_h
    if not isinstance(both, tuple):
        return (alg_h if dims == 2 else None), alg_h
    if len(both) != 2:
        raise InvalidValue(f"algorithm: got {len(both)} of them; allowed: a pair (height, width)")
    if dims == 1:
        raise InvalidValue("dims: got 1 with algorithms for two axes; allowed: 2")
    return both


def rounded_by(counts: Iterable[tuple[int, float]]) -> float:
    """Return how far (roundings, unit roundoff) of several formats may move a monomial of size 1.

    >>> rounded_by([(2, 0.5)])
    1.2500000125
    """
    return math.expm1(math.fsum(count * math.log1p(unit) for count, unit in counts)) * _SLACK


def majorant(h: Growths, w: Growths, tile: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the sizes of all monomials of each output, added up; roundings are relative to it."""
    u = h.filter.matrix @ weight @ w.filter.matrix.T
    v = h.input.matrix @ tile @ w.input.matrix.T
    return h.output.matrix @ (u * v).sum(axis=0) @ w.output.matrix.T


def _bound(
    h: Growths,
    w: Growths,
    sizes: np.ndarray,
    channels: int,
    dtype: DTypeLike,
    bias: float | np.ndarray,
) -> np.ndarray:
    dtype = np.dtype(dtype)
    if dtype.kind != "f":
        raise InvalidType(f"dtype: got {dtype}; allowed: floating-point types")
    info = np.finfo(dtype)
    transforms = (h.input, w.input, h.output, w.output)
    # One rounding stores the filter, one multiplies, one adds the bias; a sum of that many
    # channels has fewer additions than channels, and one more where it starts from zero.
    single = sum(t.roundings for t in transforms) + channels + 3
    double = h.filter.roundings + w.filter.roundings
    relative = rounded_by([(single, float(info.eps) / 2), (double, _DOUBLE)])
    # Not part of the theorem: results in the range of denormals.
    allowance = (single + double) * float(info.tiny) * (1 + channels)
    return relative * (sizes + bias) + allowance * _SLACK
