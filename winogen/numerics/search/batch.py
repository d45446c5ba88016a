"""The matrices of many algorithms at once, in float64: fast enough to look at 10^5 of them.

Exact rationals are for what is found; candidates are only compared. The construction is the same as
in ``winogen.algebra.crt``, and so are the matrices up to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np


@dataclass(frozen=True)
class CandidateBatch:
    """Candidates of one kind, one per index of the first axis."""

    linear: np.ndarray  # (B, L) finite points
    quadratic: np.ndarray  # (B, Q, 2) moduli x^2 + b x + c as (b, c)
    infinity: bool  # whether the point at infinity belongs to each


@dataclass(frozen=True)
class Matrices:
    """A^T (B, m, p), G (B, p, r) and B^T (B, p, n)."""

    at: np.ndarray
    g: np.ndarray
    bt: np.ndarray


def matrices(m: int, r: int, batch: CandidateBatch) -> Matrices:
    """Return the matrices of F(m, r) for every candidate of ``batch``."""
    n = m + r - 1
    count, points = batch.linear.shape
    moduli = batch.quadratic.shape[1]
    others, whole = _cofactors(batch, n)
    at, g, bt = [], [], []
    for i in range(points):
        p = batch.linear[:, i]
        norm = np.prod(np.delete(p[:, None] - batch.linear, i, 1), 1)
        for b, c in (batch.quadratic[:, k].T for k in range(moduli)):
            norm = norm * (p * p + b * p + c)
        at.append(p[:, None] ** np.arange(m))
        g.append(p[:, None] ** np.arange(r) / norm[:, None])
        bt.append(others[:, i, :n])
    small = _karatsuba()
    for k in range(moduli):
        b, c = batch.quadratic[:, k].T
        rest = others[:, points + k]
        unmixing = _inverse(_residue(rest, b, c), b, c)
        h_residues = _powers(np.stack([np.ones(count), np.zeros(count)], -1), b, c, m)
        g_residues = _powers(unmixing, b, c, r)
        for a in range(3):
            at.append(np.einsum("d,bkd->bk", small.bt[a], h_residues))
            g.append(np.einsum("d,bkd->bk", small.g[a], g_residues))
            w0 = small.at[0, a] - c * small.at[2, a]
            w1 = small.at[1, a] - b * small.at[2, a]
            row = w0[:, None] * rest[:, :n]
            row[:, 1:] += w1[:, None] * rest[:, : n - 1]
            bt.append(row)
    if batch.infinity:
        at.append(np.broadcast_to(np.eye(m)[-1], (count, m)))
        g.append(np.broadcast_to(np.eye(r)[-1], (count, r)))
        bt.append(whole[:, :n])
    return Matrices(np.stack(at, -1), np.stack(g, 1), np.stack(bt, 1))


def _cofactors(batch: CandidateBatch, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (the product of all factors but each, the product of all), lowest powers first.

    Opposite points must stand side by side: then coefficients that are 0 come out as exactly 0.
    """
    count, points = batch.linear.shape
    factors = points + batch.quadratic.shape[1]
    products = np.zeros((count, factors + 1, n + 1))  # the last one leaves nothing out
    products[:, :, 0] = 1.0
    for j in range(factors):
        keep = np.arange(factors + 1) != j
        old = products[:, keep]
        new = np.zeros_like(old)
        if j < points:
            new[..., 1:] = old[..., :-1]
            new -= batch.linear[:, j, None, None] * old
        else:
            b, c = (batch.quadratic[:, j - points, k, None, None] for k in (0, 1))
            new[..., 2:] = old[..., :-2]
            new[..., 1:] += b * old[..., :-1]
            new += c * old
        products[:, keep] = new
    return products[:, :-1], products[:, -1]


def _residue(polynomials: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Polynomials (B, n), lowest powers first, modulo x^2 + b x + c: (B, 2)."""
    size = polynomials.shape[1]
    one = np.stack([np.ones_like(b), np.zeros_like(b)], -1)
    return np.einsum("bk,bkd->bd", polynomials, _powers(one, b, c, size))


def _powers(start: np.ndarray, b: np.ndarray, c: np.ndarray, size: int) -> np.ndarray:
    """start * x^k modulo x^2 + b x + c for k < size: (B, size, 2)."""
    terms = [start]
    for _ in range(size - 1):
        low, high = terms[-1].T
        terms.append(np.stack([-c * high, low - b * high], -1))
    return np.stack(terms, 1)


def _inverse(residue: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """1 / (s0 + s1 x) modulo x^2 + b x + c, by its norm."""
    s0, s1 = residue.T
    norm = s0 * s0 - b * s0 * s1 + c * s1 * s1
    return np.stack([(s0 - b * s1) / norm, -s1 / norm], -1)


@cache
def _karatsuba() -> Matrices:
    """The product of two residues of degree < 2 in three multiplications, as ``crt`` does it."""
    from winogen.algebra import cook_toom

    small = cook_toom(2, 2, "0,1,inf").transpose()
    return Matrices(*small.arrays())
