"""Data and distributions of one's own: measured as they are, estimated where moments are stated."""

import json

import numpy as np
import pytest

from winogen.algebra import cook_toom
from winogen.errors import WinogenError
from winogen.numerics import PRACTICAL, Direct, Distribution, estimate, measure
from winogen.numerics.search import Search

F23, F43 = cook_toom(2, 3), cook_toom(4, 3)
RNG = np.random.default_rng(5)
TILES = RNG.standard_normal((30, 4, 6, 6))
WEIGHTS = RNG.standard_normal((30, 4, 3, 3))


def laplace(rng, shape):
    return rng.laplace(size=shape)


def test_own_tiles_and_filters_are_what_is_measured():
    found = measure(F43, inputs=TILES, weights=WEIGHTS)
    assert found.errors.shape == (4, 4, 30) and found.settings["channels"] == 4
    assert found.settings["distribution"] == "own data"
    # By hand: direct convolution of what float32 makes of the data, of trial 7.
    tile, weight = (a[7].astype(np.float32).astype(float) for a in (TILES, WEIGHTS))
    y = [[(tile[:, i : i + 3, j : j + 3] * weight).sum() for j in range(4)] for i in range(4)]
    direct = measure(Direct(4, 3), inputs=TILES, weights=WEIGHTS, dtype="float64")
    assert direct.maximum < 1e-13
    assert found.maximum / found.relative_max > np.abs(y).max()  # the largest output of all trials
    alone = measure(F43, inputs=TILES[7:8], weights=WEIGHTS[7:8])
    assert np.array_equal(alone.errors[..., 0], found.errors[..., 7])
    assert alone.maximum / alone.relative_max == pytest.approx(np.abs(y).max())


def test_scaled_data_have_scaled_errors():
    once = measure(F43, inputs=TILES, weights=WEIGHTS)
    twice = measure(F43, inputs=2 * TILES, weights=WEIGHTS)
    assert np.array_equal(twice.errors, 2 * once.errors)
    assert twice.relative_l2 == once.relative_l2


def test_one_filter_serves_all_tiles_and_one_tile_all_filters():
    one = measure(F43, inputs=TILES, weights=WEIGHTS[:1])
    assert np.array_equal(
        one.errors, measure(F43, inputs=TILES, weights=np.repeat(WEIGHTS[:1], 30, 0)).errors
    )
    assert measure(F43, inputs=TILES[:1], weights=WEIGHTS).trials == 30
    # A filter of one's own with random tiles, as many as wanted.
    assert measure(F43, weights=WEIGHTS[:1], trials=70).errors.shape == (4, 4, 70)
    assert measure(F43, inputs=TILES).settings["weights"] is None


def test_chunks_do_not_matter(monkeypatch):
    from winogen.numerics import protocol

    whole = measure(F43, inputs=TILES, weights=WEIGHTS)
    monkeypatch.setattr(protocol, "_CHUNK", 1000)
    assert np.array_equal(whole.errors, measure(F43, inputs=TILES, weights=WEIGHTS).errors)


def test_own_data_in_one_dimension_compiled_and_as_in_a_layer():
    line = measure(F43, dims=1, inputs=TILES[:, :, 0], weights=WEIGHTS[:, :, 0])
    assert line.errors.shape == (1, 4, 30)
    data = {"inputs": TILES, "weights": WEIGHTS}
    numpy, c = (measure(F43, **data, compiled=compiled) for compiled in (None, "header"))
    assert np.array_equal(numpy.errors, c.errors)
    layer = {**PRACTICAL, "channels": None, "trials": None, "order": "huffman"}
    assert measure(F43, **layer, **data).relative_l2 < 1e-6
    assert json.loads(json.dumps(numpy.to_dict()))["settings"]["inputs"] == [30, 4, 6, 6]


def test_zeros_have_no_error():
    found = measure(F43, inputs=np.zeros((2, 1, 6, 6)), weights=np.ones((1, 1, 3, 3), int))
    assert found.mean == found.relative_l2 == found.relative_max == 0


@pytest.mark.parametrize(
    "wrong, message",
    [
        (
            {"inputs": TILES[0]},
            r"inputs: got shape \(4, 6, 6\); allowed: \(trials, channels, 6, 6\)",
        ),
        ({"inputs": TILES[:0]}, "inputs: got shape"),
        ({"weights": TILES}, r"weights: got shape .*; allowed: \(trials, channels, 3, 3\)"),
        ({"weights": WEIGHTS, "dims": 1}, r"allowed: \(trials, channels, 3\)"),
        ({"weights": WEIGHTS * np.nan}, "weights: got numbers that are not finite; allowed"),
        ({"weights": WEIGHTS * 1j}, "weights: got dtype complex128; allowed: real numbers"),
        ({"inputs": "noise"}, "inputs: got dtype <U5; allowed: real numbers"),
        ({"inputs": TILES, "weights": WEIGHTS[:7]}, "trials: got 7 in weights and 30 in inputs"),
        (
            {"inputs": TILES, "weights": WEIGHTS[:, :3]},
            "channels: got 3 in weights and 4 in inputs",
        ),
        ({"inputs": TILES, "channels": 3}, "channels: got 3; allowed: 4, as inputs have"),
        ({"inputs": TILES, "trials": 5}, "trials: got 5; allowed: 30, as inputs have"),
        (
            {"distribution": 3},
            r"distribution: got 3; allowed: uniform.* or a function \(rng, shape\)",
        ),
        ({"distribution": "cauchy"}, r"distribution: got 'cauchy'; allowed: uniform.*function"),
        (
            {"distribution": lambda rng, shape: 0},
            r"<lambda>, which returned the shape \(\); allowed",
        ),
        (
            {"distribution": lambda rng, shape: np.full(shape, np.inf)},
            "which returned numbers that",
        ),
        ({"distribution": lambda rng, shape: np.full(shape, "a")}, "which returned <U1; allowed"),
    ],
)  # fmt: skip
def test_wrong_data_are_named(wrong, message):
    with pytest.raises(WinogenError, match=message):
        measure(F43, **wrong)


# ---- distributions -------------------------------------------------------------------------------


def test_a_function_is_a_distribution():
    found = measure(F43, distribution=laplace, trials=300)
    assert found.settings["distribution"] == "laplace"
    assert found == measure(F43, distribution=laplace, trials=300)
    normal = measure(F43, distribution=lambda rng, shape: rng.standard_normal(shape), trials=300)
    assert np.array_equal(normal.errors, measure(F43, distribution="normal", trials=300).errors)


@pytest.mark.parametrize("mean", [0.0, 3.0])
def test_an_estimate_needs_the_moments(mean):
    def draw(rng, shape):
        return mean + rng.laplace(size=shape)

    stated = Distribution.of(draw, variance=2.0, mean=mean, filters="normal")
    for channels in (1, 16):
        seen = measure(F43, distribution=stated, trials=1500, channels=channels)
        expected = estimate(F43, distribution=stated, channels=channels)
        assert seen.relative_l2 == pytest.approx(expected.relative_l2, rel=0.15)
    for unknown in (draw, Distribution.of(draw), Distribution.of(draw, variance=2.0, mean=1.0)):
        with pytest.raises(WinogenError, match="got draw; an estimate needs.*allowed"):
            estimate(F43, distribution=unknown)
    assert estimate(F43, distribution=Distribution.of(draw, variance=2.0)).mean > 0


def test_wrong_distributions_are_named():
    for wrong, message in [
        ({"draw": 3}, "draw: got 3; allowed: a function"),
        ({"draw": laplace, "variance": 0}, "variance: got 0; allowed"),
        ({"draw": laplace, "mean": float("nan")}, "mean: got nan; allowed"),
        ({"draw": laplace, "filters": "cauchy"}, "distribution: got 'cauchy'"),
    ]:
        with pytest.raises(WinogenError, match=message):
            Distribution.of(**wrong)
    with pytest.raises(WinogenError, match="distribution: got .*allowed in a search: uniform"):
        Search(4, 3, settings={"distribution": laplace})


# ---- rectangular tiles ---------------------------------------------------------------------------


@pytest.mark.parametrize("compiled", [None, "header", "mcmr"])
def test_pairs_are_height_and_width(compiled):
    settings = {"trials": 60, "channels": 2, "compiled": compiled}
    found = measure((F23, F43), **settings)
    assert found.errors.shape == (2, 4, 60)
    assert "F(2,3) points 0, 1, -1, inf x F(4,3)" in found.settings["algorithm"]
    assert estimate((F23, F43)).mean < estimate((F43, F43)).mean == estimate(F43).mean


def test_wrong_pairs_are_named():
    with pytest.raises(WinogenError, match="algorithm: got 3 of them; allowed: one, or a pair"):
        measure((F23, F23, F23))
    with pytest.raises(WinogenError, match="dims: got 1 with a 2D algorithm; allowed: 2"):
        estimate((F23, F43), dims=1)


def test_one_line_for_a_measurement():
    text = repr(measure(F43, trials=50))
    assert text.startswith("<Measurement F(4,3) points 0, 5/8, -5/8") and "mean |error| " in text
    assert "\n" not in text and "Fraction" not in text and len(text) < 150
