"""Other ways to make a layer smaller, at the products of a layer of low rank: what filters lose.

Tucker-2 puts a small K x K layer between two of single pixels, CP makes a chain of four, and a
depthwise layer with several filters a channel is followed by one of single pixels. Tucker and CP
are computed by tensorly, with the extra `lowrank`. Pruning leaves out whole filters, whole input
channels or single weights, those of the least magnitudes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from winogen.columns import aligned
from winogen.conv import Conv2d
from winogen.extras import MissingPackage, require
from winogen.lowrank.factors import decompose, joined
from winogen.lowrank.form import Form
from winogen.tuning.layers import BenchLayer

OURS, TUCKER, CP, DEPTHWISE = "columns and rows", "Tucker-2", "CP", "depthwise + pointwise"
# What one piece of a layer (M, C, KH, KW) that is pruned spans.
PRUNED = {
    "pruned filters": (1, 2, 3),
    "pruned channels": (0, 2, 3),
    "pruned weights": (),
}
# CP solves for so many unknowns at once, again and again: beyond, a layer takes minutes.
_LARGEST_CP = 300
_STEPS = 30  # of the iterations of Tucker and CP


@dataclass(frozen=True)
class Rival:
    """What became of filters; a way that was left out has a reason instead."""

    way: str
    ranks: tuple[int, ...] = ()  # of what is pruned: how many are kept
    products: int = 0  # per pixel of the output, each of which has a weight of its own
    weight: np.ndarray | None = None  # (M, C, KH, KW) that its layers amount to, float64
    residual: float | None = None  # √ of the share of squares that is lost
    reason: str = ""


def rivals(form: Form, weight: np.ndarray, products: int) -> list[Rival]:
    """Return what each way makes of (M, C, KH, KW) by so many products per pixel at most.

    The layer has one group and stride 1. A way is left out, with a reason, where its package is
    missing, where it would take minutes or has no rank so small.
    """
    makers: dict[str, Callable[[np.ndarray, int], tuple[tuple[int, ...], int, np.ndarray]]] = {
        OURS: lambda w, most: _separated(form, w, most),
        TUCKER: _tucker,
        CP: _cp,
        DEPTHWISE: _depthwise,
        **{way: partial(_pruned, axes=axes) for way, axes in PRUNED.items()},
    }
    found, exact = [], np.asarray(weight, np.float64)
    for way, make in makers.items():
        try:
            ranks, count, made = make(exact, products)
        except (MissingPackage, _LeftOut) as problem:
            found.append(Rival(way, reason=str(problem)))
            continue
        residual = float(np.linalg.norm(made - exact) / np.linalg.norm(exact))
        found.append(Rival(way, ranks, count, made, residual))
    return found


def of_layer(layer: BenchLayer, factor: float) -> list[dict[str, Any]]:
    """Return what each way does to normal filters, and to outputs of normal inputs, as plain data.

    ``factor``: how many times fewer products than direct convolution, as for `LowRank`.
    """
    problem = layer.problem()
    if problem.layer.groups > 1 or max(layer.stride) > 1:
        return [_row(Rival(OURS, reason="only layers of one group and stride 1 have rivals"))]
    x, weight = layer.data()
    form = Form.of(problem.layer, "columns")
    exact = Conv2d(weight, **layer.options)(x)
    rows = []
    for one in rivals(form, weight, form.products(form.rank(factor))):
        error = None
        if one.weight is not None:
            y = Conv2d(one.weight.astype(np.float32), **layer.options)(x)
            error = float(np.linalg.norm(y - exact) / np.linalg.norm(exact))
        rows.append({**_row(one), "error": error})
    return rows


def _row(one: Rival) -> dict[str, Any]:
    fields = "way", "ranks", "products", "residual", "reason"
    return {name: getattr(one, name) for name in fields}


def table(found: Sequence[dict[str, Any]]) -> str:
    """Return rows of `of_layer`, each with "layer" and "factor" besides, for people to read."""
    lines = [["layer", "c", "way", "rank", "products", "filters", "outputs", ""]]
    for row in found:
        head = [row["layer"], f"{row['factor']:g}", row["way"]]
        if row["reason"]:
            lines.append([*head, "", "", "", "", f"left out: {row['reason']}"])
            continue
        ranks = ", ".join(map(str, row["ranks"]))
        errors = f"{row['residual']:.2f}", f"{row['error']:.2f}"
        lines.append([*head, ranks, f"{row['products']:,}", *errors, ""])
    return "\n".join([
        "Rivals with at most as many products per pixel, which are as many weights; errors:",
        "",
        *aligned(lines),
        "",
        "pruned: those with the least sum of magnitudes; the rank is how many are kept.",
        "Without single weights dense kernels take as long as before.",
    ])  # fmt: skip


class _LeftOut(Exception):
    """Why a way was not tried."""


def _separated(form: Form, w: np.ndarray, most: int) -> tuple[tuple[int, ...], int, np.ndarray]:
    rank = _least_one(most // form.products(1))
    stages = decompose(form, w).stages(rank)
    return (rank,), form.products(rank), joined(form, *stages)


def _tucker(w: np.ndarray, most: int) -> tuple[tuple[int, ...], int, np.ndarray]:
    """Both ranks are the same part of filters and channels."""
    filters, channels, *taps = w.shape
    area = int(np.prod(taps))

    def ranks(part: float) -> tuple[int, int]:
        return max(1, int(part * filters)), max(1, int(part * channels))

    def count(part: float) -> int:
        outer, inner = ranks(part)
        return channels * inner + area * inner * outer + outer * filters

    parts = [n / 256 for n in range(1, 257) if count(n / 256) <= most]
    _least_one(len(parts))
    decomposition = require("tensorly.decomposition", "lowrank", "winogen-lab")
    chosen = ranks(parts[-1])
    (core, (outer, inner)), _ = decomposition.partial_tucker(
        w, rank=list(chosen), modes=[0, 1], n_iter_max=_STEPS
    )
    made = np.einsum("abij,oa,cb->ocij", core, outer, inner, optimize=True)
    return chosen, count(parts[-1]), made


def _cp(w: np.ndarray, most: int) -> tuple[tuple[int, ...], int, np.ndarray]:
    rank = _least_one(most // sum(w.shape))
    decomposition = require("tensorly.decomposition", "lowrank", "winogen-lab")
    if rank > _LARGEST_CP:
        raise _LeftOut(f"a rank of {rank} takes minutes; those up to {_LARGEST_CP} are tried")
    weights, factors = decomposition.parafac(
        w, rank, n_iter_max=_STEPS, init="random", random_state=0, tol=1e-5
    )
    made = np.einsum("r,or,cr,ir,jr->ocij", weights, *factors, optimize=True)
    return (rank,), rank * sum(w.shape), made


def _depthwise(w: np.ndarray, most: int) -> tuple[tuple[int, ...], int, np.ndarray]:
    """Each channel's filters as a matrix, M x taps, by its singular values."""
    filters, channels, *taps = w.shape
    area = int(np.prod(taps))
    rank = min(_least_one(most // (channels * (area + filters))), area, filters)
    u, values, vt = np.linalg.svd(w.swapaxes(0, 1).reshape(channels, filters, area), False)
    made = (u[:, :, :rank] * values[:, None, :rank]) @ vt[:, :rank]
    made = made.reshape(channels, filters, *taps).swapaxes(0, 1)
    return (rank,), rank * channels * (area + filters), made


def _pruned(
    w: np.ndarray, most: int, axes: tuple[int, ...]
) -> tuple[tuple[int, ...], int, np.ndarray]:
    sizes = np.abs(w).sum(axes, keepdims=True)
    each = w.size // sizes.size
    kept = min(_least_one(most // each), sizes.size)
    mask = np.zeros(sizes.size, bool)
    mask[largest(sizes, kept)] = True
    return (kept,), kept * each, w * mask.reshape(sizes.shape)


def largest(sizes: np.ndarray, count: int) -> np.ndarray:
    """Return the places of the largest numbers in the order of an array, of equals the first.

    >>> largest(np.array([3, 9, 4, 4]), 2).tolist()
    [1, 2]
    """
    return np.sort(np.argsort(-sizes, axis=None, kind="stable")[:count])


def _least_one(rank: int) -> int:
    if rank < 1:
        raise _LeftOut("even the least rank has more products")
    return rank
