"""Kernels as products of two matrices, by singular values: numpy in float64, group by group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from winogen.lowrank.form import Form

# This part of their sum is added to the eigenvalues of a covariance: directions that the samples
# hardly have must not become free.
FLOOR = 1e-6
# Rounding errors of singular values, in units of the largest and of the size of the matrix: their
# own, and as roots of the eigenvalues of squares.
VALUES, EIGENVALUES = np.finfo(np.float64).eps, np.finfo(np.float64).eps ** 0.5


@dataclass(frozen=True)
class Factors:
    """The singular values and vectors of a layer's groups, from the largest on.

    Group g's matrix, (channels · taps of stage 1) x (taps of stage 2 · filters), is ``left[g] @
    right[g]`` up to the full rank, and up to R the nearest one of rank R: as a matrix, or weighted
    by the covariance of inputs.
    """

    form: Form
    values: np.ndarray  # (groups, full rank)
    left: np.ndarray  # (groups, channels * taps, full rank)
    right: np.ndarray  # (groups, full rank, taps * filters)
    noise: float = VALUES  # of ``values``, see there

    def residual(self, rank: int) -> float:
        """Return √ of the share that the singular values beyond ``rank`` have of all squares."""
        return float(self.residuals[rank])

    @property
    def residuals(self) -> np.ndarray:
        """The residual of every rank from 0 to the full one."""
        squares = self._clean**2
        tails = np.cumsum(squares.sum(axis=0)[::-1])[::-1]
        total = tails[0] if tails[0] > 0 else 1.0
        return np.sqrt(np.append(tails, 0.0) / total)

    def rank(self, error: float) -> int:
        """Return the least rank, 1 at least, whose residual is at most ``error``."""
        return max(1, int(np.argmax(self.residuals <= error)))

    @property
    def _clean(self) -> np.ndarray:
        """The singular values, rounding errors of zeros left out."""
        sizes = self.left.shape[1], self.right.shape[2]
        size = max(sizes) if self.noise == VALUES else max(sizes) ** 0.5
        least = self.values.max(axis=1, keepdims=True) * size * self.noise
        return np.where(self.values > least, self.values, 0.0)

    def stages(self, rank: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the weights of both stages, (groups · R, C/groups, …) and (M, R, …), float64."""
        return first_weight(self.form, self.left[:, :, :rank]), second_weight(
            self.form, self.right[:, :rank]
        )


def matrices(form: Form, weight: np.ndarray) -> np.ndarray:
    """Return weights (M, C/groups, KH, KW) as a matrix per group, (channels · taps of stage 1) x
    (taps of stage 2 · filters), float64.
    """
    w = np.asarray(weight, np.float64).reshape(form.groups, form.filters, *weight.shape[1:])
    axes = (0, 2, 3, 4, 1) if form.first == "columns" else (0, 2, 4, 3, 1)
    one, other = form.taps
    shape = form.groups, form.channels * one, other * form.filters
    return w.transpose(axes).reshape(shape)


def decompose(form: Form, weight: np.ndarray, covariance: np.ndarray | None = None) -> Factors:
    """Return the factors of weights (M, C/groups, KH, KW).

    ``covariance``: (groups, channels · taps, channels · taps), sums of products of what stage 1
    sees; the error that is least is then that of its products with such inputs.
    """
    a = matrices(form, weight)
    if covariance is not None:
        return _weighted(form, a, covariance)
    u, values, vt = np.linalg.svd(a, full_matrices=False)
    half = np.sqrt(values)
    return Factors(form, values, u * half[:, None, :], half[:, :, None] * vt)


def _weighted(form: Form, a: np.ndarray, covariance: np.ndarray) -> Factors:
    """Factors weighted by a covariance S = L Lᵀ: the singular vectors of B = Lᵀ A, one side of them
    by the eigenvectors of BᵀB or B Bᵀ, whichever is smaller. The other side follows from A alone,
    so that the full rank loses nothing, however small an eigenvalue is.
    """
    diagonal = np.arange(a.shape[1])
    floor = FLOOR * np.trace(covariance, axis1=1, axis2=2)
    padded = covariance.copy()
    padded[:, diagonal, diagonal] += np.where(floor > 0, floor, 1.0)[:, None]
    lower = np.linalg.cholesky(padded)
    b = lower.swapaxes(1, 2) @ a
    narrow = a.shape[2] <= a.shape[1]
    squares, vectors = np.linalg.eigh(b.swapaxes(1, 2) @ b if narrow else b @ b.swapaxes(1, 2))
    values, vectors = np.sqrt(np.maximum(squares[:, ::-1], 0.0)), vectors[:, :, ::-1]
    half = np.sqrt(np.where(values > 0, values, 1.0))
    if narrow:
        left = a @ vectors / half[:, None, :]
        return Factors(form, values, left, half[:, :, None] * vectors.swapaxes(1, 2), EIGENVALUES)
    left = np.linalg.solve(lower.swapaxes(1, 2), vectors * half[:, None, :])
    right = vectors.swapaxes(1, 2) @ b / half[:, :, None]
    return Factors(form, values, left, right, EIGENVALUES)


def first_weight(form: Form, left: np.ndarray) -> np.ndarray:
    """Return (groups, channels · taps, R) as the weights of stage 1, (groups · R, C/groups, …)."""
    rank, taps = left.shape[2], form.taps[0]
    w = left.reshape(form.groups, form.channels, taps, rank).transpose(0, 3, 1, 2)
    return _on_axis(form, 0, w.reshape(form.groups * rank, form.channels, taps))


def second_weight(form: Form, right: np.ndarray) -> np.ndarray:
    """Return (groups, R, taps · filters) as the weights of stage 2, (M, R, …)."""
    rank, taps = right.shape[1], form.taps[1]
    w = right.reshape(form.groups, rank, taps, form.filters).transpose(0, 3, 1, 2)
    return _on_axis(form, 1, w.reshape(form.groups * form.filters, rank, taps))


def joined(form: Form, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the weights (M, C/groups, KH, KW) of the layer that two stages are, float64."""
    one = first.reshape(form.groups, -1, form.channels, form.taps[0]).astype(np.float64)
    other = second.reshape(form.groups, form.filters, one.shape[1], -1).astype(np.float64)
    axes = "gomab" if form.first == "columns" else "gomba"
    w = np.einsum(f"grma,gorb->{axes}", one, other, optimize=True)
    return w.reshape(form.groups * form.filters, *w.shape[2:])


def _on_axis(form: Form, stage: int, w: np.ndarray) -> np.ndarray:
    """The taps of a stage along the height or the width of filters."""
    along_height = (form.first == "columns") == (stage == 0)
    shape: tuple[Any, ...] = (*w.shape, 1) if along_height else (*w.shape[:2], 1, w.shape[2])
    return np.ascontiguousarray(w.reshape(shape))
