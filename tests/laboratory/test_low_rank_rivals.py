"""Rivals of low rank: equal products, kernels of their own form recovered, reasons otherwise."""

import numpy as np
import pytest

from winogen.conv.problem import Layer
from winogen.lowrank.form import Form
from winogen_lab import low_rank_rivals
from winogen_lab.low_rank_rivals import CP, DEPTHWISE, OURS, PRUNED, TUCKER, rivals


def random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def found(weight, products):
    form = Form.of(Layer.of(weight.shape, "float32", padding=1), "columns")
    return {one.way: one for one in rivals(form, weight, products)}


def test_each_keeps_to_the_products():
    weight = random(12, 10, 3, 3)
    for one in found(weight, 540).values():
        if one.weight is None:
            assert one.reason.startswith("tensorly: cannot be imported")
            continue
        assert one.weight.shape == weight.shape and 0 < one.products <= 540
        assert one.residual == np.linalg.norm(one.weight - weight) / np.linalg.norm(weight)
        assert 0.2 < one.residual < 1


def test_depthwise_recovers_its_own():
    weight = np.einsum("ocd,cdij->ocij", random(12, 10, 2), random(10, 2, 3, 3, seed=1))
    one = found(weight, 2 * 10 * (9 + 12))[DEPTHWISE]
    assert one.ranks == (2,) and one.products == 420 and one.residual < 1e-12


def test_ours_is_the_singular_tail():
    weight = random(12, 10, 3, 3)
    one = found(weight, 5 * 66 + 65)[OURS]
    values = np.linalg.svd(weight.transpose(1, 2, 3, 0).reshape(30, 36), compute_uv=False)
    assert one.ranks == (5,) and one.products == 5 * (30 + 36)
    assert one.residual == pytest.approx((np.sum(values[5:] ** 2) / np.sum(values**2)) ** 0.5)


def test_tensorly_recovers_its_own():
    pytest.importorskip("tensorly")
    core, outer, inner = random(4, 3, 3, 3), random(8, 4, seed=1), random(6, 3, seed=2)
    weight = np.einsum("abij,oa,cb->ocij", core, outer, inner)
    assert found(weight, 6 * 3 + 9 * 12 + 4 * 8)[TUCKER].residual < 1e-9
    rank_one = np.einsum("o,c,i,j->ocij", *(random(n, seed=n) for n in (8, 6, 3, 2)))
    assert found(rank_one, 19)[CP].residual < 1e-9


@pytest.mark.parametrize("way", PRUNED)
def test_pruning_keeps_the_largest(way):
    """What is kept is as it was; errors are the squares of what is not."""
    weight = random(12, 10, 3, 3)
    one = found(weight, 560)[way]
    pieces = {"pruned filters": (6, 90), "pruned channels": (5, 108), "pruned weights": (560, 1)}
    count, size = pieces[way]
    assert one.ranks == (count,) and one.products == count * size
    kept = one.weight != 0
    assert kept.sum() == count * size and (one.weight[kept] == weight[kept]).all()
    assert one.residual**2 == pytest.approx(np.sum(weight[~kept] ** 2) / np.sum(weight**2))
    moved = np.moveaxis(np.abs(weight), 1 if way == "pruned channels" else 0, 0)
    sums = moved.reshape(-1, size).sum(1)
    there = np.moveaxis(kept, 1 if way == "pruned channels" else 0, 0).reshape(-1, size)
    assert (there.all(1) == there.any(1)).all()
    assert sums[there[:, 0]].min() >= sums[~there[:, 0]].max()


def test_of_equals_the_first_are_kept():
    kept, products, made = low_rank_rivals._pruned(np.ones((4, 4, 3, 3)), 80, (1, 2, 3))
    assert (kept, products) == ((2,), 72) and made[:2].all() and not made[2:].any()


def test_reasons(monkeypatch):
    weight = random(12, 10, 3, 3)
    reasons = {way: one.reason for way, one in found(weight, 9).items()}
    assert reasons.pop("pruned weights") == ""
    assert set(reasons.values()) == {"even the least rank has more products"}
    monkeypatch.setattr(low_rank_rivals, "_LARGEST_CP", 3)
    reason = found(weight, 540)[CP].reason
    assert "a rank of 19 takes minutes" in reason or "tensorly" in reason
