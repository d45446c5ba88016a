"""`LowRank`: called like `Conv2d`, with ranks by three words, plans, and what it refuses."""

import numpy as np
import pytest
from conv.reference import convolve

import winogen
from winogen.errors import InvalidType, InvalidValue
from winogen.lowrank import LowRank
from winogen.lowrank.factors import joined


def random(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def reference(layer, x, bias, **options):
    """The convolution by the kernel that both stages are."""
    kernel = joined(layer._form, *layer.weights)
    return convolve(x.astype(np.float64), kernel, bias, **options)


OPTIONS = {
    "plain": {},
    "padding, stride": {"padding": ((1, 2), (0, 1)), "stride": (2, 1)},
    "groups": {"groups": 2, "padding": ((1, 1), (1, 1))},
    "dilation, reflected": {
        "dilation": (1, 2), "padding": ((1, 1), (2, 2)), "padding_mode": "reflect"
    },
}  # fmt: skip


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_both_stages_compute_the_joined_kernel(options, layout):
    groups = options.get("groups", 1)
    w, b = random(8, 4 // groups, 3, 3), random(8, seed=1)
    layer = LowRank.from_conv(w, b, compression=1.5, layout=layout, activation="relu", **options)
    x = random(2, 4, 9, 10, seed=2)
    x = x if layout == "NCHW" else np.ascontiguousarray(np.moveaxis(x, 1, -1))
    y = layer(x)
    exact = reference(layer, x, b, layout=layout, activation="relu", **options)
    assert y.shape == exact.shape and y.dtype == np.float32
    assert np.abs(y - exact).max() < 1e-5 * np.abs(exact).max()


def test_full_rank_is_the_layer():
    w, b = random(6, 4, 3, 3, dtype=np.float64), random(6, seed=1, dtype=np.float64)
    x, more = random(1, 4, 8, 8, seed=2, dtype=np.float64), random(1, 6, 8, 8, dtype=np.float64)
    layer = LowRank.from_conv(w, b, rank=12, padding=1, algorithm="direct")
    exact = winogen.conv2d(x, w, b, padding=1, add=more, algorithm="direct")
    out = np.empty_like(exact)
    assert layer(x, out, add=more) is out
    assert np.abs(out - exact).max() < 1e-13 * np.abs(exact).max()
    assert layer.residual == 0 and layer.rank == layer.full_rank == 12


def test_ranks_by_three_words():
    w = random(16, 8, 3, 3)
    by_rank = LowRank.from_conv(w, rank=7)
    assert by_rank.rank == 7 < by_rank.full_rank == 24
    assert by_rank.products == by_rank.parameters == 7 * 3 * (8 + 16)
    assert by_rank.compression == 16 * 8 * 9 / by_rank.products
    assert LowRank.from_conv(w, compression=by_rank.compression).rank == 7
    by_error = LowRank.from_conv(w, error=by_rank.residual)
    assert by_error.rank == 7 and by_error.residual == by_rank.residual
    assert LowRank.from_conv(w, error=by_rank.residual * 0.999).rank == 8
    assert LowRank.from_conv(w, compression=1e-9).rank == 24
    assert f"rank 7 of 24, {by_rank.first} first, residual 0." in repr(by_rank)


def test_the_cheaper_order_comes_first():
    """5x3 taps, more filters than channels: stage 1 sees fewer maps, so it gets more taps."""
    assert LowRank.from_conv(random(16, 4, 5, 3), rank=4).first == "columns"
    assert LowRank.from_conv(random(16, 4, 3, 5), rank=4).first == "rows"
    assert LowRank.from_conv(random(4, 16, 5, 3), rank=4).first == "rows"
    # The stride along the width is paid for by stage 1 unless it has the rows.
    assert LowRank.from_conv(random(8, 8, 3, 3), rank=4, stride=(1, 2)).first == "rows"


def test_equal_orders_by_their_residual():
    taps = random(3, dtype=np.float64)
    rows_alone = np.einsum("o,cj,i->ocij", random(6, seed=1), random(4, 3, seed=2), taps)
    w = rows_alone + np.einsum("o,cj,i->ocij", random(6, seed=3), random(4, 3, seed=4), taps[::-1])
    layer = LowRank.from_conv(w, rank=2)
    other = LowRank.from_conv(w.transpose(0, 1, 3, 2), rank=2)
    assert {layer.first, other.first} == {"columns", "rows"}
    assert layer.residual == pytest.approx(other.residual, abs=1e-12)


def test_inputs_make_their_errors_small():
    w, b = random(8, 6, 3, 3), random(8, seed=1)
    generator = np.random.default_rng(5)
    smooth = np.cumsum(np.cumsum(generator.standard_normal((3, 2, 12, 12)), 2), 3) / 12
    x = np.einsum("cd,ndhw->nchw", generator.standard_normal((6, 2)), smooth).astype(np.float32)
    exact = convolve(x, w, b, padding=((1, 1), (1, 1)), activation="relu")
    errors = []
    for seen in (None, x[:2]):
        layer = LowRank.from_conv(w, b, rank=5, padding=1, activation="relu", inputs=seen)
        errors.append(np.linalg.norm(layer(x[2:]) - exact[2:]))
    assert errors[1] < 0.3 * errors[0]
    last = LowRank.from_conv(
        w, b, rank=5, padding=1, layout="NHWC", inputs=np.moveaxis(x[:2], 1, -1)
    )
    first = LowRank.from_conv(w, b, rank=5, padding=1, inputs=x[:2])
    np.testing.assert_allclose(last.weights[1], first.weights[1], atol=1e-4)


def test_a_plan_has_the_exact_layer_beside_it():
    w = random(16, 16, 3, 3)
    layer = LowRank.from_conv(w, rank=8, padding=1)
    plan = layer.plan((1, 16, 20, 24))
    assert [stage.weight_shape for stage in plan.stages] == [(8, 16, 3, 1), (16, 8, 1, 3)]
    assert plan.stages[1].output_shape == (1, 16, 20, 24)
    exact = winogen.Conv2d(w, padding=1).plan((1, 16, 20, 24)).predictions[0]
    assert plan.exact == exact
    assert plan.seconds == sum(stage.predictions[0].seconds for stage in plan.stages)
    assert plan.multiplications == sum(stage.multiplications for stage in plan.stages)
    assert plan.is_faster == (plan.seconds < exact.seconds)
    text = str(plan)
    assert f"for {1e3 * exact.seconds:.3g} ms of the layer as it was, by {exact.algorithm}" in text
    full = LowRank.from_conv(w, rank=48, padding=1).plan((1, 16, 20, 24))
    assert not full.is_faster and "not worth it" in str(full)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_other_types(dtype):
    w, x = random(6, 4, 3, 3, dtype=dtype), random(1, 4, 6, 6, seed=1, dtype=dtype)
    layer = LowRank.from_conv(w, rank=3, algorithm="direct")
    y = layer(x)
    exact = reference(layer, x, None)
    assert y.dtype == x.dtype and layer.weights[0].dtype == w.dtype
    assert np.abs(y - exact).max() < {"float16": 4e-3, "float64": 1e-13}[dtype] * abs(exact).max()


W = random(8, 4, 3, 3)
WRONG = [
    ({}, InvalidValue, "rank, compression, error: got none; allowed: one of them"),
    ({"rank": 1, "error": 0.1}, InvalidValue, "got rank and error; allowed: one of them"),
    ({"rank": 13}, InvalidValue, "rank: got 13; allowed: a positive int up to 12, the full rank"),
    ({"rank": 0}, InvalidValue, "rank: got 0; allowed: a positive int"),
    ({"rank": 2.0}, InvalidType, "rank: got 2.0; allowed: a positive int"),
    ({"compression": 0}, InvalidValue, "compression: got 0; allowed: a positive number"),
    ({"compression": "2x"}, InvalidType, "compression: got '2x'; allowed: a positive number"),
    ({"error": 1}, InvalidValue, "error: got 1; allowed: a number from 0 up to 1"),
    ({"error": None, "rank": 1, "bias": W[0, 0]}, InvalidValue, "bias: got shape (3, 3)"),
    ({"error": True}, InvalidType, "error: got True; allowed: a number from 0 up to 1"),
    ({"rank": 1, "layout": "NCW"}, InvalidValue, 'layout: got \'NCW\'; allowed: "NCHW", "NHWC"'),
    ({"rank": 1, "algorithm": "slow"}, InvalidValue, "algorithm: got 'slow'; allowed: "),
    ({"rank": 1, "groups": 3}, InvalidValue, "groups: got 3; allowed: a divisor of the 8"),
    ({"rank": 1, "inputs": W[:, :3]}, InvalidValue, "inputs: got 3 channels"),
    ({"rank": 1, "inputs": W.astype(int)}, InvalidType, "inputs: got dtype int64; allowed: "),
    ({"rank": 1, "inputs": W[:0]}, InvalidValue, "inputs: got none"),
    ({"rank": 1, "inputs": W * np.nan}, InvalidValue, "numbers that are not finite"),
]


@pytest.mark.parametrize("options, kind, message", WRONG)
def test_what_is_wrong_is_said(options, kind, message):
    with pytest.raises(kind) as error:
        LowRank.from_conv(W, **options)
    assert message in str(error.value)


def test_weights_must_be_finite():
    with pytest.raises(InvalidValue, match="weight: got numbers that are not finite"):
        LowRank.from_conv(W * np.inf, rank=1)
    with pytest.raises(InvalidValue, match=r"weight: got shape \(8, 4, 3\); allowed: 4 axes"):
        LowRank.from_conv(W[..., 0], rank=1)
