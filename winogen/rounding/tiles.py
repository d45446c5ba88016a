"""One tile through a fast convolution, many trials at once, in a chosen arithmetic.

Arrays are (channels, height, width, trials); in one dimension the height is 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import product
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from winogen.errors import InvalidType, InvalidValue
from winogen.program import Program, iterated, pairs
from winogen.program.kinds import KINDS
from winogen.program.summation import PROGRAM, check_order, ordered
from winogen.rounding.formats import Arithmetic, Format
from winogen.rounding.stages import Stages

if TYPE_CHECKING:
    from winogen.algebra.nest import BilinearAlgorithm2D
    from winogen.algebra.scalar import Matrix


class Algorithm(Protocol):
    """What a ``BilinearAlgorithm`` and a ``Transform`` share: F(m, r) as three matrices."""

    @property
    def m(self) -> int:
        """Outputs."""

    @property
    def r(self) -> int:
        """Taps."""

    @property
    def matrices(self) -> dict[str, Matrix]:
        """{"input": B^T, "filter": G, "output": A^T}."""


Algorithms: TypeAlias = "Algorithm | BilinearAlgorithm2D | tuple[Algorithm, Algorithm]"
Watch: TypeAlias = Callable[[str, np.ndarray], None]  # called with a stage and what it yields


@dataclass(frozen=True)
class Direct:
    """Direct convolution, to compare with: m outputs of r taps along each axis."""

    m: int
    r: int

    def __str__(self) -> str:
        return f"direct({self.m},{self.r})"


@dataclass(frozen=True)
class TileAxis:
    """The three programs of one axis, and the sizes that they fit."""

    m: int
    r: int
    n: int
    input: Program
    filter: Program
    output: Program
    # As a `Transform` has them: behind the first ``reals`` rows, pairs are complex numbers.
    reals: int = 0
    ring: tuple[str, ...] = ()

    @property
    def size(self) -> tuple[int, int]:
        """Rows, and how many of them are real."""
        return len(self.input.outputs), self.reals

    @property
    def stride(self) -> int:
        """Inputs from one output to the next."""
        return (self.n - self.r) // (self.m - 1) if self.m > 1 else 1

    def __hash__(self) -> int:
        # Axes are looked up far more often than they share their sizes, and programs hash slowly.
        return hash((self.m, self.r, len(self.input.statements), len(self.output.statements)))


@dataclass(frozen=True)
class Rounding:
    """Where rounding happens: one arithmetic per stage, and what numbers are stored in."""

    stages: Stages
    fused: bool  # multiply-adds round once
    block: int | None  # products that are summed before their sum joins the others; None: all
    chains: int = 1  # of additions, in which the products of a block take turns

    @property
    def transform(self) -> Arithmetic:
        """Of the transforms of inputs and outputs."""
        return self._arithmetic(self.stages.transform)

    @property
    def filter(self) -> Arithmetic:
        """Of the transform of filters."""
        return self._arithmetic(self.stages.filter)

    @property
    def product(self) -> Arithmetic:
        """Of element-wise products and their sum over the channels of a block."""
        return Arithmetic(self.stages.product, self.fused)

    @property
    def sums(self) -> Arithmetic:
        """Of what joins the sums of blocks."""
        return self._arithmetic(self.stages.sums)

    def _arithmetic(self, number_format: Format) -> Arithmetic:
        # Filters and mixed transforms in float64 are far more precise anyway.
        return Arithmetic(number_format, self.fused and number_format.name != "float64")


def axes_of(algorithm: Algorithms, dims: int, order: str) -> tuple[TileAxis, TileAxis]:
    """Return the axes along height and width of anything that has the matrices of an algorithm.

    ``algorithm``: a ``BilinearAlgorithm`` or a ``Transform`` (both axes alike; in one dimension the
    height is left alone), a ``BilinearAlgorithm2D`` or a ``JoinedAlgorithm`` of two axes, or a pair
    (height, width) of 1D ones.
    """
    if dims not in (1, 2):
        raise InvalidValue(f"dims: got {dims!r}; allowed: 1, 2")
    check_order(order)
    if isinstance(algorithm, tuple):
        if len(algorithm) != 2:
            raise InvalidValue(
                f"algorithm: got {len(algorithm)} of them; allowed: one, or a pair (height, width)"
            )
        both = algorithm
    else:
        # A BilinearAlgorithm2D; its class is not asked for, since the planner needs no algebra.
        both = (algorithm.h, algorithm.w) if hasattr(algorithm, "h") else None  # type: ignore
        both = getattr(algorithm, "axes", both)
    if both is not None:
        if dims == 1:
            raise InvalidValue("dims: got 1 with a 2D algorithm; allowed: 2")
        height, width = both
        return _axis(height, order), _axis(width, order)
    width = _axis(algorithm, order)
    if dims == 2:
        return width, width
    from winogen.algebra import cook_toom

    return _axis(cook_toom(1, 1), order), width


def _axis(algorithm: Algorithm, order: str) -> TileAxis:
    shipped = getattr(algorithm, "programs", None)
    reals, ring = getattr(algorithm, "reals", 0), getattr(algorithm, "ring", ())
    ring = ring if isinstance(ring, tuple) else (str(ring.b), str(ring.c))
    if order == PROGRAM and shipped:
        programs = [shipped[kind] for kind in KINDS]
        m, r, n = algorithm.m, algorithm.r, len(programs[0].inputs)
        return TileAxis(m, r, n, programs[0], programs[1], programs[2], reals, ring)
    for name in ("m", "r", "matrices"):
        if not hasattr(algorithm, name):
            raise InvalidType(
                f"algorithm: got {algorithm!r}; allowed: a BilinearAlgorithm, a "
                "BilinearAlgorithm2D, a Transform, a pair (height, width) of them, or Direct(m, r)"
            )
    form = getattr(algorithm, "form", "fir")
    if form != "fir":
        raise InvalidValue(f"algorithm: got the form {form}; allowed: fir")
    m, r = algorithm.m, algorithm.r
    if iterated.parts(algorithm) is not None:  # type: ignore[arg-type]
        found = iterated.programs_of(algorithm, order)  # type: ignore[arg-type]
        programs = [found[kind] for kind in KINDS]
    else:
        programs = [_program(algorithm.matrices[kind], kind, order) for kind in KINDS]
    n = len(programs[0].inputs)
    return TileAxis(m, r, n, programs[0], programs[1], programs[2], reals, ring)


@lru_cache(maxsize=512)
def _program(matrix: Matrix, kind: str, order: str) -> Program:
    return ordered(matrix, order, KINDS[kind].source, KINDS[kind].target)


def transform(
    axes: tuple[TileAxis, TileAxis], kind: str, values: np.ndarray, arithmetic: Arithmetic
) -> np.ndarray:
    """Apply the ``kind`` ("input", "filter", "output") programs along both axes of (C, H, W, T)."""
    values = arithmetic.format.round(values)
    height, width = (getattr(axis, kind) for axis in axes)
    if is_joined(axes) and kind == "output":
        values = _numbers(axes, values, arithmetic)
    values = arithmetic.run(height, np.ascontiguousarray(values.swapaxes(0, 1)))  # (P, C, W, T)
    values = arithmetic.run(width, np.ascontiguousarray(values.transpose(2, 1, 0, 3)))
    values = values.transpose(1, 2, 0, 3)  # (Q, C, P, T) -> (C, P, Q, T)
    if is_joined(axes) and kind != "output":
        values = _factors(axes, kind, values, arithmetic)
    return values


def is_joined(axes: tuple[TileAxis, TileAxis]) -> bool:
    """Whether complex products of both axes are joined; refuses what has none of the other's."""
    first, second = (axis.ring for axis in axes)
    if first != second:
        raise InvalidValue(f"algorithm: got axes in the rings {first} and {second}; allowed: one")
    return bool(first)


def _factors(
    axes: tuple[TileAxis, TileAxis], kind: str, values: np.ndarray, arithmetic: Arithmetic
) -> np.ndarray:
    """The factors (C, products, 1, T) of all products, from rows (C, P, Q, T) of both axes."""
    parts = []
    for cell in pairs.cells(axes[0].size, axes[1].size):
        rows = np.stack([values[:, a, b] for a in cell.height for b in cell.width])
        if cell.axes:
            rows = arithmetic.run(pairs.programs(axes[0].ring, cell.axes)[kind], rows)
        parts.append(rows)
    return np.concatenate(parts).swapaxes(0, 1)[:, :, None]


def _numbers(
    axes: tuple[TileAxis, TileAxis], values: np.ndarray, arithmetic: Arithmetic
) -> np.ndarray:
    """Rows (C, P, Q, T) of both axes, from products (C, products, 1, T)."""
    channels, _, _, trials = values.shape
    rows = np.empty((channels, axes[0].size[0], axes[1].size[0], trials), values.dtype)
    for cell in pairs.cells(axes[0].size, axes[1].size):
        some = values[:, cell.first : cell.first + pairs.PRODUCTS[cell.axes], 0].swapaxes(0, 1)
        if cell.axes:
            program = pairs.programs(axes[0].ring, cell.axes)["output"]
            some = arithmetic.run(program, np.ascontiguousarray(some))
        for one, (a, b) in zip(some, product(cell.height, cell.width)):
            rows[:, a, b] = one
    return rows


def winograd(
    axes: tuple[TileAxis, TileAxis],
    rounding: Rounding,
    filters: np.ndarray,
    inputs: np.ndarray,
    watch: Watch | None = None,
) -> np.ndarray:
    """Return the outputs (m_h, m_w, T) of filters (C, r_h, r_w, T) on inputs (C, n_h, n_w, T).

    ``watch(stage, array)`` is called with what each stage yields.
    """
    watch, stages = watch or _unwatched, rounding.stages
    watch("filter", filters)
    watch("input", inputs)
    u = stages.packed.round(transform(axes, "filter", filters, rounding.filter))
    watch("transformed filter", u)
    v = stages.tiles.round(transform(axes, "input", inputs, rounding.transform))
    watch("transformed input", v)
    if stages.quantised:
        sums = accumulate_quantised(rounding, u, v)
    else:
        sums = accumulate(rounding, u, v, watch)
    watch("sum over channels", sums)
    y = transform(axes, "output", sums[None], rounding.transform)[0]
    y = stages.arrays.round(y)
    watch("output", y)
    return y


def direct(
    rounding: Rounding, filters: np.ndarray, inputs: np.ndarray, watch: Watch | None = None
) -> np.ndarray:
    """Return what ``winograd`` does, by the definition, one product after the other."""
    watch = watch or _unwatched
    refuse_quantised(rounding.stages)
    watch("filter", filters)
    watch("input", inputs)
    filters, inputs = rounding.stages.packed.round(filters), rounding.stages.tiles.round(inputs)
    channels, r_h, r_w, _ = filters.shape
    m_h, m_w = inputs.shape[1] - r_h + 1, inputs.shape[2] - r_w + 1
    taps = [(c, i, j) for c in range(channels) for i in range(r_h) for j in range(r_w)]
    u = (filters[c, i, j] for c, i, j in taps)
    v = (inputs[c, i : i + m_h, j : j + m_w] for c, i, j in taps)
    y = rounding.stages.arrays.round(accumulate(rounding, u, v, watch))
    watch("output", y)
    return y


def _unwatched(stage: str, array: np.ndarray) -> None:
    pass


def accumulate(
    rounding: Rounding,
    left: Iterable[np.ndarray],
    right: Iterable[np.ndarray],
    watch: Watch = _unwatched,
) -> np.ndarray:
    """Sum products block by block, each block in ``chains`` chains in turn, as the kernels do."""
    arithmetic, sums_in, block = rounding.product, rounding.sums, rounding.block
    total: np.ndarray | None = None
    chains: list[np.ndarray] = []
    for index, (a, b) in enumerate(zip(left, right)):
        a, b = arithmetic.format.round(a), arithmetic.format.round(b)
        within = index % block if block else index
        if index and not within:
            total, chains = _joined(arithmetic, sums_in, total, chains), []
        if within < rounding.chains:
            chains.append(arithmetic.multiply(a, b))
            watch("product", chains[-1])
        else:
            chain = within % rounding.chains
            chains[chain] = arithmetic.multiply_add(a, b, chains[chain])
    return _joined(arithmetic, sums_in, total, chains)


def _joined(
    arithmetic: Arithmetic, sums_in: Arithmetic, total: np.ndarray | None, chains: list[np.ndarray]
) -> np.ndarray:
    """The chains of a block added up, then to what came before."""
    joined = reduce(arithmetic.add, chains)
    return joined if total is None else sums_in.add(total, joined)


def accumulate_quantised(rounding: Rounding, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Sum products of integers over channels: exactly within a chunk, then in float32."""
    quantised, arithmetic = rounding.stages.quantised, rounding.sums
    assert quantised is not None
    filters, filter_step = quantised.scaled_filters(u)
    total: np.ndarray | None = None
    for some in quantised.chunks(len(v)):
        tiles, tile_step = quantised.scaled_tiles(v[some])
        exact = (filters[some] * tiles).sum(0)  # integers below 2^53
        scale = arithmetic.format.round(filter_step * tile_step)
        product = arithmetic.format.round(exact)
        if total is None:
            total = arithmetic.multiply(product, scale)
        else:
            total = arithmetic.multiply_add(product, scale, total)
    assert total is not None
    return total


def refuse_quantised(stages: Stages) -> None:
    """Raise InvalidValue where products of integers are asked for without a transform."""
    if stages.quantised:
        raise InvalidValue(
            "precision: got products of integers with direct convolution; allowed: an algorithm "
            "with transforms"
        )
