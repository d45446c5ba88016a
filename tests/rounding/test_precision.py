"""Narrow filters, tiles, arrays and products of integers: what is predicted is what happens."""

import numpy as np
import pytest

from winogen.algebra import cook_toom
from winogen.codegen import transforms
from winogen.errors import WinogenError
from winogen.numerics import PRACTICAL, Direct, estimate, measure
from winogen.records import FILTER_TYPES, NUMBERS, Precision
from winogen.rounding.quantised import QUANTISED
from winogen.rounding.stages import Stages

REAL = ("float32",) * 3
# Of float64 nothing is emulated with multiply-adds.
FILTERS = [name for name in FILTER_TYPES if NUMBERS[name].wide != "float64"]
PRECISIONS = [
    *(Precision.of("float32", name) for name in FILTERS),
    Precision.of("float32", products="int16"),
    Precision.of("float32", products="bfloat16"),
    Precision.of("float32", products="int8"),
    Precision("float32", "float16", "float16", *REAL),
    Precision("float32", "bfloat16", "bfloat16", *REAL),
    Precision("float16", "float32", "float32", *REAL),
    Precision("bfloat16", "float16", "float32", *REAL),
    Precision("float16", "float16", "float16", "float16", "float32", "float32"),
]
ALGORITHMS = ["f2_3", "f4_3", "f6_3", "f4_3_gaussian", "1d", "direct"]


def settings_of(name, precision):
    """(algorithm, settings of `measure`)."""
    settings = {**PRACTICAL, "trials": 60, "precision": precision}
    if precision.products == "float16":
        settings["block"] = 8
    if name == "direct":
        return Direct(4, 3), settings
    if name == "1d":
        return transforms.load(4, 3), {**settings, "dims": 1, "channels": 192, "trials": 300}
    return transforms.load(int(name[1]), 3, name=name), settings


@pytest.mark.parametrize("precision", PRECISIONS, ids=lambda p: p.name)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_errors_are_as_predicted(name, precision):
    """L2 within a quarter; the largest error, which is what plans promise, within a factor of 2."""
    if name == "direct" and Stages.of(precision=precision).quantised:
        pytest.skip("products of integers need a transform")
    algorithm, settings = settings_of(name, precision)
    measured = measure(algorithm, **settings)
    expected = estimate(algorithm, **{k: v for k, v in settings.items() if k != "trials"})
    assert expected.relative_l2 == pytest.approx(measured.relative_l2, rel=0.25)
    assert measured.relative_max / 2 < expected.relative_max < measured.relative_max * 2


@pytest.mark.parametrize("channels", [3, 32, 100, 512])
@pytest.mark.parametrize("products", QUANTISED)
def test_products_of_integers_for_any_channels(products, channels):
    precision = Precision.of("float32", products=products)
    settings = {**PRACTICAL, "channels": channels, "precision": precision, "distribution": "relu"}
    settings["trials"] = 6000 // channels
    measured = measure(transforms.load(4, 3), **settings).relative_l2
    del settings["trials"]
    expected = estimate(transforms.load(4, 3), **settings).relative_l2
    assert expected == pytest.approx(measured, rel=0.3)


def test_the_types_of_float32_are_the_dtype():
    for dtype in ("float32", "float64"):
        plain = {"dtype": dtype, "filters": "float64", "channels": 8}
        precise = {**plain, "dtype": "float32", "precision": Precision.of(dtype)}
        f = cook_toom(4, 3)
        assert estimate(f, **plain) == estimate(f, **precise)
        if dtype == "float32":
            found = [measure(f, trials=50, **s).relative_l2 for s in (plain, precise)]
            assert found[0] == found[1]


@pytest.mark.parametrize("products", QUANTISED)
@pytest.mark.parametrize("channels", [1, 31, 33, 200])
def test_integers_fit_and_no_chunk_overflows(products, channels):
    quantised, rng = QUANTISED[products], np.random.default_rng(channels)
    # Positions that are worst in turn: many large numbers, one alone, none at all.
    u = rng.standard_normal((channels, 40)) ** 3
    u[:, 0], u[:, 1], u[1:, 2] = 1.0, 0.0, 0.0
    filters, step = quantised.scaled_filters(u)
    assert np.abs(filters).max() <= quantised.filters
    assert np.abs(filters * step - u).max() <= step.max() / 2 * (1 + 1e-9)
    for some in quantised.chunks(channels):
        v = rng.standard_normal(u[some].shape)
        tiles, tile_step = quantised.scaled_tiles(v)
        assert quantised.tiles / 3 < np.abs(tiles).max() <= quantised.tiles
        assert np.abs(tiles * tile_step - v).max() <= tile_step.max() / 2 * (1 + 1e-9)
        # The worst tile is one that resembles the filter.
        like, _ = quantised.scaled_tiles(u[some])
        assert np.abs((filters[some] * like).sum(0)).max() < 2**31


@pytest.mark.parametrize("products", QUANTISED)
@pytest.mark.parametrize("channels", [8, 64, 500])
def test_steps_by_drawing(products, channels):
    quantised, rng = QUANTISED[products], np.random.default_rng(0)
    u = rng.standard_normal((channels, 4000))
    _, step = quantised.scaled_filters(u)
    assert np.mean(step**2) / 12 == pytest.approx(quantised.filter_error(channels), rel=0.1)
    some = next(quantised.chunks(channels))
    _, step = quantised.scaled_tiles(u[some])
    assert np.mean(step**2) / 12 == pytest.approx(quantised.tile_error(channels), rel=0.05)


def test_what_does_not_go_together_is_refused():
    f, int16 = cook_toom(2, 3), Precision.of("float32", products="int16")
    for wrong in ({"dtype": "float64"}, {"storage": "float16"}, {"transforms": "float64"}):
        with pytest.raises(WinogenError, match=f"{next(iter(wrong))}: got .* allowed: not both"):
            measure(f, precision=int16, **wrong)
    for call in (measure, estimate):
        with pytest.raises(WinogenError, match="precision: got 'int16'; allowed: a Precision"):
            call(f, precision="int16")
        with pytest.raises(WinogenError, match="precision: got products of integers"):
            call(Direct(1, 3), precision=int16)
    with pytest.raises(WinogenError, match="precision: got float32, products int16 with header"):
        measure(f, precision=int16, compiled="header")
