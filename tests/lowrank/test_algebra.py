"""The algebra of separable kernels in float64: exact at full rank, planted ranks, tails, counts."""

import numpy as np
import pytest
from conv.reference import convolve

from winogen.conv import Layer
from winogen.lowrank.factors import decompose, joined, matrices, second_weight
from winogen.lowrank.fitting import _Sums, covariance, refit, stage_one
from winogen.lowrank.form import FIRSTS, Form, axes_of


def layer_of(shape, **options):
    return Layer.of(shape, "float64", **options)


def random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def run(layer, form, stages, x, padding_mode="zeros"):
    """Both stages, by the definition."""
    for stage, weight in enumerate(stages):
        axes = axes_of(layer, form, stage)
        x = convolve(
            x,
            weight,
            stride=[axis.stride for axis in axes],
            padding=[(axis.before, axis.after) for axis in axes],
            dilation=[axis.dilation for axis in axes],
            groups=layer.groups,
            padding_mode=padding_mode,
        )
    return x


def exactly(layer, w, x):
    height, width = layer.axes
    return convolve(
        x,
        w,
        stride=layer.stride,
        padding=[(height.before, height.after), (width.before, width.after)],
        dilation=layer.dilation,
        groups=layer.groups,
        padding_mode=layer.padding_mode,
    )


def distance(y, exact):
    return np.abs(y - exact).max() / np.abs(exact).max()


LAYERS = {
    "plain": ((6, 4, 3, 3), {"padding": 1}),
    "taps differ": ((5, 3, 5, 2), {"padding": ((2, 1), (0, 1))}),
    "strides": ((4, 3, 3, 4), {"padding": 1, "stride": (2, 3)}),
    "dilated": ((4, 3, 3, 2), {"padding": 2, "dilation": (2, 3)}),
    "groups": ((8, 3, 3, 5), {"padding": ((0, 1), (2, 2)), "groups": 4}),
    "depthwise": ((6, 1, 5, 3), {"padding": 2, "groups": 6, "stride": 2}),
    "one row": ((4, 3, 1, 3), {"padding": ((0, 0), (1, 1))}),
    "pointwise": ((4, 6, 1, 1), {}),
    "reflected": ((4, 3, 3, 5), {"padding": 2, "padding_mode": "reflect", "stride": (1, 2)}),
    "replicated": ((4, 3, 3, 3), {"padding": 3, "padding_mode": "replicate"}),
    "circular": ((4, 3, 3, 3), {"padding": (1, 2), "padding_mode": "circular"}),
}
every_layer = pytest.mark.parametrize("shape, options", LAYERS.values(), ids=LAYERS)
either_first = pytest.mark.parametrize("first", FIRSTS)


@every_layer
@either_first
def test_full_rank_is_exact(shape, options, first):
    layer = layer_of(shape, **options)
    form = Form.of(layer, first)
    w, x = random(*shape), random(2, layer.channels, 9, 11, seed=1)
    stages = decompose(form, w).stages(form.full_rank)
    assert stages[0].size + stages[1].size == form.parameters(form.full_rank)
    y = run(layer, form, stages, x, layer.padding_mode)
    assert distance(y, exactly(layer, w, x)) < 1e-13
    assert distance(joined(form, *stages), w) < 1e-13


@every_layer
@either_first
def test_a_rank_is_the_layer_of_the_joined_kernel(shape, options, first):
    layer = layer_of(shape, **options)
    form = Form.of(layer, first)
    w, x = random(*shape), random(1, layer.channels, 9, 11, seed=1)
    stages = decompose(form, w).stages(max(1, form.full_rank // 2))
    y = run(layer, form, stages, x, layer.padding_mode)
    assert distance(y, exactly(layer, joined(form, *stages), x)) < 1e-13


@either_first
def test_planted_ranks_are_found(first):
    layer = layer_of((10, 6, 3, 5), groups=2)
    form = Form.of(layer, first)
    one = random(layer.groups * 4, 6, form.taps[0], seed=2)
    other = random(10, 4, form.taps[1], seed=3)
    planted = joined(form, one, other)
    factors = decompose(form, planted)
    assert factors.rank(0.0) == 4 < form.full_rank
    assert factors.residual(4) == 0 < factors.residual(3)
    assert distance(joined(form, *factors.stages(4)), planted) < 1e-13


@either_first
def test_the_residual_is_the_tail_of_the_singular_values(first):
    layer = layer_of((8, 6, 3, 3), groups=2)
    form = Form.of(layer, first)
    w = random(8, 6, 3, 3)
    factors = decompose(form, w)
    values = np.stack([np.linalg.svd(a, compute_uv=False) for a in matrices(form, w)])
    for rank in (0, 1, 5, form.full_rank):
        tail = np.sqrt((values[:, rank:] ** 2).sum() / (values**2).sum())
        assert factors.residual(rank) == pytest.approx(tail, abs=1e-14)
        if rank:
            left = np.linalg.norm(w - joined(form, *factors.stages(rank))) / np.linalg.norm(w)
            assert factors.residual(rank) == pytest.approx(left, abs=1e-13)
    allowed = factors.residual(5)
    assert factors.rank(allowed) == 5 and factors.rank(allowed * 0.999) == 6


def test_depthwise_kernels_are_exact_at_the_shorter_side():
    for shape in ((6, 1, 5, 3), (6, 1, 3, 7)):
        layer = layer_of(shape, groups=6)
        for first in FIRSTS:
            form = Form.of(layer, first)
            assert form.full_rank == 3
            stages = decompose(form, random(*shape)).stages(3)
            assert distance(joined(form, *stages), random(*shape)) < 1e-14


def test_zeros_have_rank_one():
    form = Form.of(layer_of((4, 3, 3, 3)), "columns")
    factors = decompose(form, np.zeros((4, 3, 3, 3)))
    assert factors.rank(0.0) == 1 and factors.residual(1) == 0
    assert not joined(form, *factors.stages(1)).any()


# Channels, filters, taps and ranks in the tables of ADaPT, chapter 3 of P. Maji's dissertation:
# VGG-16, nets for MNIST and CIFAR-10. The last number is the compression factor printed there.
PRINTED = [
    (3, 64, 3, 4, 2.15), (64, 64, 3, 12, 8.0), (64, 128, 3, 40, 3.2), (128, 128, 3, 40, 4.8),
    (128, 256, 3, 50, 5.12), (256, 256, 3, 60, 6.4), (256, 256, 3, 70, 5.49),
    (256, 512, 3, 80, 6.4), (512, 512, 3, 100, 7.68), (512, 512, 3, 110, 6.98),
    (512, 512, 3, 80, 9.6), (512, 512, 3, 78, 9.85),
    (1, 32, 5, 4, 1.21), (32, 64, 5, 16, 6.67),
    (3, 32, 5, 4, 3.43), (32, 64, 5, 16, 6.67), (64, 128, 5, 32, 6.67),
]  # fmt: skip


@pytest.mark.parametrize("channels, filters, taps, rank, printed", PRINTED)
def test_published_compression_factors(channels, filters, taps, rank, printed):
    for first in FIRSTS:
        form = Form.of(layer_of((filters, channels, taps, taps)), first)
        assert round(form.compression(rank), 2) == printed
        assert form.rank(form.compression(rank)) == rank


def test_strides_cost_stage_one():
    """Stage 1 computes every pixel along the axis of stage 2, which keeps one of two."""
    layer = layer_of((8, 4, 3, 5), stride=(3, 2))
    columns, rows = (Form.of(layer, first) for first in FIRSTS)
    assert columns.products(2) == 2 * (3 * 4 * 2 + 5 * 8)
    assert rows.products(2) == 2 * (5 * 4 * 3 + 3 * 8)
    assert columns.parameters(2) == 2 * (3 * 4 + 5 * 8)
    assert (columns.full_rank, rows.full_rank) == (12, 20)
    for form in (columns, rows):
        assert form.direct_products == 8 * 4 * 3 * 5
        assert form.compression(2) == 8 * 4 * 3 * 5 / form.products(2)


def test_a_rank_from_a_factor_stays_within_its_limits():
    form = Form.of(layer_of((8, 4, 3, 3)), "columns")
    assert form.rank(1e9) == 1 and form.rank(1e-9) == form.full_rank == 12
    assert form.rank(2.0) == 4


def correlated(n, channels, height, width, seed=5):
    """Inputs of which some directions are rare."""
    generator = np.random.default_rng(seed)
    x = generator.standard_normal((n, 2, height, width))
    x = np.cumsum(np.cumsum(x, axis=2), axis=3) / height
    mix = generator.standard_normal((channels, 2))
    return np.einsum("cd,ndhw->nchw", mix, x) + 0.01 * generator.standard_normal(
        (n, channels, height, width)
    )


@every_layer
@either_first
def test_the_covariance_is_of_what_stage_one_sees(shape, options, first):
    """... over all of its pixels and all images, padding included."""
    layer = layer_of(shape, **options)
    form = Form.of(layer, first)
    x = random(2, layer.channels, 9, 11, seed=1)
    seen = covariance(form, layer, [x[:1], x[1:]])
    size = form.channels * form.taps[0]
    identity = np.broadcast_to(np.eye(size), (form.groups, size, size))
    maps = np.concatenate([stage_one(form, layer, identity, one[None]) for one in x])
    maps = maps.reshape(2, form.groups, size, -1)
    np.testing.assert_allclose(seen, np.einsum("ngip,ngjp->gij", maps, maps), rtol=1e-12)


@either_first
def test_data_aware_factors_are_the_best_for_their_data(first):
    layer = layer_of((8, 6, 3, 3), padding=1)
    form = Form.of(layer, first)
    w, x = random(8, 6, 3, 3), correlated(2, 6, 12, 12)
    y = exactly(layer, w, x)
    plain, aware = decompose(form, w), decompose(form, w, covariance(form, layer, [x]))
    errors = []
    for factors in (plain, aware):
        errors.append(np.linalg.norm(run(layer, form, factors.stages(4), x) - y))
    left, right = aware.left[:, :, :4], aware.right[:, :4]
    fitted, bias = refit(form, layer, left, right, [(x, y)], ridges=[1e-2])
    stages = aware.stages(4)[0], second_weight(form, fitted)
    errors.append(np.linalg.norm(run(layer, form, stages, x) - y))
    assert not bias.any()
    assert errors[1] < 0.5 * errors[0] and errors[2] < errors[1]
    assert distance(joined(form, *aware.stages(form.full_rank)), w) < 1e-9


@every_layer
@either_first
def test_least_squares_find_a_layer_of_that_rank(shape, options, first):
    """Outputs of two stages are fitted exactly, whatever stage 2 begins with."""
    layer = layer_of(shape, **options)
    form = Form.of(layer, first)
    w, x = random(*shape), random(3, layer.channels, 15, 17, seed=1)
    factors = decompose(form, w)
    rank = max(1, form.full_rank // 2)
    left, right = factors.left[:, :, :rank], factors.right[:, :rank]
    bias = random(layer.filters, seed=7)
    y = run(layer, form, factors.stages(rank), x, layer.padding_mode) + bias[:, None, None]
    start = right + random(*right.shape, seed=6)
    pairs = [(x[:1], y[:1]), (x[1:], y[1:])]
    fitted, found = refit(form, layer, left, start, pairs, shifts=True, ridges=[1e-9])
    np.testing.assert_allclose(found, bias, atol=1e-4)
    np.testing.assert_allclose(fitted, right, atol=1e-4)


def test_noise_is_not_fitted():
    """Few pixels and outputs that have nothing to do with them: stage 2 stays as it is."""
    layer = layer_of((8, 8, 3, 3), padding=1)
    form = Form.of(layer, "columns")
    factors = decompose(form, random(8, 8, 3, 3))
    x, noise = random(1, 8, 8, 8, seed=1), random(1, 8, 8, 8, seed=2)
    y = run(layer, form, factors.stages(form.full_rank), x, "zeros") + noise

    found, _ = refit(form, layer, factors.left, factors.right, [(x, y)])
    assert np.linalg.norm(found - factors.right) == 0


def test_what_data_does_not_determine_stays():
    layer = layer_of((4, 3, 3, 3), padding=1)
    form = Form.of(layer, "columns")
    factors = decompose(form, random(4, 3, 3, 3))
    nothing = np.zeros((1, 3, 8, 8))
    fitted, _ = refit(form, layer, factors.left, factors.right, [(nothing, np.zeros((1, 4, 8, 8)))])
    np.testing.assert_allclose(fitted, factors.right)
    aware = decompose(form, random(4, 3, 3, 3), covariance(form, layer, [nothing]))
    np.testing.assert_allclose(aware.values, factors.values)


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("pixels", [0, 1, 5, 30, 60, 200])
def test_fewer_pixels_than_unknowns_have_the_same_solution(pixels, biased):
    weights, filters, groups = 40, 7, 2
    seen = random(groups, pixels, weights + biased, seed=1)
    seen[:, :, weights:] = 1
    wanted = random(groups, pixels, filters, seed=2)
    whole, one, other = (_Sums(groups, weights + biased, filters) for _ in range(3))
    for begin in range(0, pixels, 9):
        whole.add(seen[:, begin : begin + 9], wanted[:, begin : begin + 9])
    one.add(seen[:, : pixels // 2], wanted[:, : pixels // 2])
    other.add(seen[:, pixels // 2 :], wanted[:, pixels // 2 :])
    squares, products = seen.swapaxes(1, 2) @ seen, seen.swapaxes(1, 2) @ wanted
    change = random(groups, weights + biased, filters, seed=3)
    off = np.sum(change * (squares @ change - 2 * products))
    np.testing.assert_allclose(whole.error(change), off, rtol=1e-9, atol=1e-9)
    for ridge in (1e-3, 0.1, 10.0):
        matrix, diagonal = squares.copy(), np.arange(weights)
        mean = matrix[:, diagonal, diagonal].mean(axis=1, keepdims=True)
        matrix[:, diagonal, diagonal] += np.where(mean > 0, ridge * mean, 1.0)
        if not pixels:
            matrix[:, weights:, weights:] = 1.0
        expected = np.linalg.solve(matrix, products)
        for sums in (whole, one + other):
            np.testing.assert_allclose(sums.solution(ridge, weights), expected, atol=1e-9)
