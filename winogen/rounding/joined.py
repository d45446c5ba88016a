"""The estimate of rounding errors where complex products of two axes are joined.

Between the transforms along the axes and the products stands one more linear map, which is small:
numbers of a pair, or of two, become the factors of three or six products. So products are counted
over the whole tile here, and no longer along each axis; the transforms before and behind are as in
`winogen.rounding.variance`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from winogen.program import pairs
from winogen.rounding.formats import Format
from winogen.rounding.linear import RoundedProgram

if TYPE_CHECKING:
    from winogen.rounding.tiles import TileAxis
    from winogen.rounding.variance import Moments


@dataclass(frozen=True, eq=False)
class Join:
    """The maps between rows of both axes, counted through, and products."""

    input: np.ndarray  # products x rows
    filter: np.ndarray  # products x rows
    output: np.ndarray  # rows x products
    # The program of each cell's inputs and outputs, with its rows and its products.
    cells: tuple[tuple[RoundedProgram, RoundedProgram, list[int], slice], ...]
    columns: int  # rows along the width

    @classmethod
    def of(cls, axes: tuple[TileAxis, TileAxis], real: Format, fused: bool) -> Join:
        """Return what joins the products of these axes in arithmetic of this format."""
        height, width = axes
        return _join(height.size, width.size, height.ring, real, fused)

    def propagate(
        self, last_h: RoundedProgram, last_w: RoundedProgram, h: Moments, w: Moments
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the variances (m_h, m_w) of one channel's errors, of what is local, of outputs.

        ``last_h``, ``last_w``: the output transforms along each axis.
        """
        at = _product(np.kron(h.at, w.at), self.output)

        def out(moments: np.ndarray) -> np.ndarray:
            return (_product(at, moments) * at).sum(-1)

        rows_v, rows_u = np.kron(h.sv, w.sv), np.kron(h.su, w.su)
        sv, su = _around(self.input, rows_v), _around(self.filter, rows_u)
        # What the passes along the height and the width round, then what joins the pairs.
        lone_v, lone_u = np.diag(np.diag(h.sv)), np.diag(np.diag(h.su))
        ev = np.kron(h.dv + h.cv, w.sv) + np.kron(lone_v, w.dv) + np.kron(h.sv, w.cv)
        eu = np.kron(h.du + h.cu, w.su) + np.kron(lone_u, w.du) + np.kron(h.su, w.cu)
        ev, eu = _around(self.input, ev), _around(self.filter, eu)
        for into, _, rows, places in self.cells:
            ev[places, places] += into.errors(rows_v[np.ix_(rows, rows)])
        products = sv * su
        errors = out(ev * su + sv * eu)
        # The way back: pairs again, columns, rows.
        moments = _around(self.output, products)
        back = np.zeros_like(moments)
        for _, outwards, rows, places in self.cells:
            back[np.ix_(rows, rows)] += outwards.errors(products[places, places])
        both = np.kron(h.at, w.at)
        errors += (_product(both, back) * both).sum(-1)
        size = (len(h.at), len(w.at))
        errors = errors.reshape(size)
        high, wide = len(moments) // self.columns, self.columns
        by_row = moments.reshape(high, wide, high, wide)
        for b in range(wide):
            column = by_row[:, b, :, b]
            error = np.diag(last_h.errors(column) + last_h.shift(column))
            errors += error[:, None] * w.at[:, b] ** 2
        half = np.einsum("ia,abcd,ic->ibd", h.at, by_row, h.at)
        for i, row in enumerate(half):
            errors[i] += np.diag(last_w.errors(row) + last_w.shift(row))
        local = out(np.diag(np.diag(products))).reshape(size)
        return errors, local, out(products).reshape(size)


def _around(matrix: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """Second moments behind a linear map."""
    return _product(_product(matrix, moments), matrix.T)


# Multiplications in a product that BLAS leaves on one thread.
_ON_ONE_THREAD = 1 << 18


def _product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The product of two matrices, in strips of rows that are not worth a second thread.

    BLAS would wake all threads for a product that takes microseconds, and they wait in a loop.
    """
    rows = max(1, _ON_ONE_THREAD // (right.size or 1))
    strips = [left[i : i + rows] @ right for i in range(0, len(left), rows)]
    return np.concatenate(strips) if strips else left @ right


@lru_cache(maxsize=256)
def _join(
    height: tuple[int, int],
    width: tuple[int, int],
    ring: tuple[str, ...],
    real: Format,
    fused: bool,
) -> Join:
    cells = pairs.cells(height, width)
    count = cells[-1].first + pairs.PRODUCTS[cells[-1].axes]
    size = height[0] * width[0]
    into, filters, back = (np.zeros((count, size)) for _ in range(3))
    joined = []
    for cell in cells:
        rows = [a * width[0] + b for a, b in product(cell.height, cell.width)]
        places = slice(cell.first, cell.first + pairs.PRODUCTS[cell.axes])
        if not cell.axes:
            for matrix in (into, filters, back):
                matrix[cell.first, rows] = 1
            continue
        first, middle, last = _programs(ring, cell.axes, real, fused)
        for matrix, values in (
            (into, first.matrix),
            (filters, middle.matrix),
            (back, last.matrix.T),
        ):
            matrix[places, rows] = values
        joined.append((first, last, rows, places))
    return Join(into, filters, back.T, tuple(joined), width[0])


@lru_cache(maxsize=64)
def _programs(
    ring: tuple[str, ...], axes: int, real: Format, fused: bool
) -> tuple[RoundedProgram, ...]:
    return tuple(
        RoundedProgram(program, real, fused) for program in pairs.programs(ring, axes).values()
    )
