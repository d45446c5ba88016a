"""One tile through a fast convolution, many trials at once, in a chosen arithmetic.

Arrays are (channels, height, width, trials); in one dimension the height is 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from winogen.errors import InvalidType, InvalidValue
from winogen.program import Program
from winogen.program.kinds import KINDS
from winogen.program.summation import PROGRAM, check_order, ordered
from winogen.rounding.formats import Arithmetic, Format

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
class Axis:
    """The three programs of one axis, and the sizes that they fit."""

    m: int
    r: int
    n: int
    input: Program
    filter: Program
    output: Program

    def __hash__(self) -> int:
        # Axes are looked up far more often than they share their sizes, and programs hash slowly.
        return hash((self.m, self.r, len(self.input.statements), len(self.output.statements)))


@dataclass(frozen=True)
class Rounding:
    """Where rounding happens: one arithmetic per stage, and what numbers are stored in."""

    storage: Format  # of inputs, filters, both transformed, and outputs
    transform: Arithmetic  # of inputs and outputs
    filter: Arithmetic  # of filters
    product: Arithmetic  # element-wise products and their sum over channels
    block: int | None  # products that are summed before their sum joins the others; None: all
    chains: int = 1  # of additions, in which the products of a block take turns


def axes_of(algorithm: Algorithms, dims: int, order: str) -> tuple[Axis, Axis]:
    """Return the axes along height and width of anything that has the matrices of an algorithm.

    ``algorithm``: a ``BilinearAlgorithm`` or a ``Transform`` (both axes alike; in one dimension the
    height is left alone), a ``BilinearAlgorithm2D``, or a pair (height, width) of 1D ones.
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


def _axis(algorithm: Algorithm, order: str) -> Axis:
    shipped = getattr(algorithm, "programs", None)
    if order == PROGRAM and shipped:
        programs = [shipped[kind] for kind in KINDS]
        return Axis(algorithm.m, algorithm.r, algorithm.m + algorithm.r - 1, *programs)
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
    programs = [_program(algorithm.matrices[kind], kind, order) for kind in KINDS]
    return Axis(m, r, m + r - 1, *programs)


@lru_cache(maxsize=512)
def _program(matrix: Matrix, kind: str, order: str) -> Program:
    return ordered(matrix, order, KINDS[kind].source, KINDS[kind].target)


def transform(
    axes: tuple[Axis, Axis], kind: str, values: np.ndarray, arithmetic: Arithmetic
) -> np.ndarray:
    """Apply the ``kind`` ("input", "filter", "output") programs along both axes of (C, H, W, T)."""
    values = arithmetic.format.round(values)
    height, width = (getattr(axis, kind) for axis in axes)
    values = arithmetic.run(height, np.ascontiguousarray(values.swapaxes(0, 1)))  # (P, C, W, T)
    values = arithmetic.run(width, np.ascontiguousarray(values.transpose(2, 1, 0, 3)))
    return values.transpose(1, 2, 0, 3)  # (Q, C, P, T) -> (C, P, Q, T)


def winograd(
    axes: tuple[Axis, Axis],
    rounding: Rounding,
    filters: np.ndarray,
    inputs: np.ndarray,
    watch: Watch | None = None,
) -> np.ndarray:
    """Return the outputs (m_h, m_w, T) of filters (C, r_h, r_w, T) on inputs (C, n_h, n_w, T).

    ``watch(stage, array)`` is called with what each stage yields.
    """
    watch = watch or _unwatched
    store = rounding.storage.round
    watch("filter", filters)
    watch("input", inputs)
    u = store(transform(axes, "filter", filters, rounding.filter))
    watch("transformed filter", u)
    v = store(transform(axes, "input", inputs, rounding.transform))
    watch("transformed input", v)
    sums = accumulate(rounding, u, v, watch)
    watch("sum over channels", sums)
    y = transform(axes, "output", sums[None], rounding.transform)[0]
    y = store(y)
    watch("output", y)
    return y


def direct(
    rounding: Rounding, filters: np.ndarray, inputs: np.ndarray, watch: Watch | None = None
) -> np.ndarray:
    """Return what ``winograd`` does, by the definition, one product after the other."""
    watch = watch or _unwatched
    watch("filter", filters)
    watch("input", inputs)
    channels, r_h, r_w, _ = filters.shape
    m_h, m_w = inputs.shape[1] - r_h + 1, inputs.shape[2] - r_w + 1
    taps = [(c, i, j) for c in range(channels) for i in range(r_h) for j in range(r_w)]
    u = (filters[c, i, j] for c, i, j in taps)
    v = (inputs[c, i : i + m_h, j : j + m_w] for c, i, j in taps)
    y = rounding.storage.round(accumulate(rounding, u, v, watch))
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
    arithmetic, block = rounding.product, rounding.block
    total: np.ndarray | None = None
    sums: list[np.ndarray] = []
    for index, (a, b) in enumerate(zip(left, right)):
        a, b = arithmetic.format.round(a), arithmetic.format.round(b)
        within = index % block if block else index
        if index and not within:
            total, sums = _joined(arithmetic, total, sums), []
        if within < rounding.chains:
            sums.append(arithmetic.multiply(a, b))
            watch("product", sums[-1])
        else:
            chain = within % rounding.chains
            sums[chain] = arithmetic.multiply_add(a, b, sums[chain])
    return _joined(arithmetic, total, sums)


def _joined(arithmetic: Arithmetic, total: np.ndarray | None, sums: list[np.ndarray]) -> np.ndarray:
    """The chains of a block added up, then to what came before."""
    joined = reduce(arithmetic.add, sums)
    return joined if total is None else arithmetic.add(total, joined)
