"""The estimate is near what is measured."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winogen.algebra import cook_toom, nest, winograd
from winogen.codegen import shipped, transforms
from winogen.errors import WinogenError
from winogen.numerics import PRACTICAL, Direct, estimate, measure
from winogen.rounding.tiles import axes_of
from winogen.rounding.variance import chain_variance

# Every catalog entry in one of the protocols, so that all are seen and the time stays short.
PROTOCOLS = [
    {"trials": 800},
    {"dims": 1, "trials": 1500},
    {**PRACTICAL, "order": "naive", "trials": 60},
    {"channels": 20, "distribution": "relu", "block": 8, "trials": 150, "order": "pairwise"},
]


@pytest.mark.parametrize("number,name", list(enumerate(sorted(shipped.catalog()))))
def test_the_whole_catalog_within_a_factor_of_2(number, name):
    entry = shipped.catalog()[name]
    transform = transforms.load(entry["m"], entry["r"], name=name)
    settings = PROTOCOLS[number % len(PROTOCOLS)]
    measured = measure(transform, **settings)
    expected = estimate(transform, **{k: v for k, v in settings.items() if k != "trials"})
    assert measured.mean / 2 < expected.mean < measured.mean * 2
    assert measured.relative_l2 / 2 < expected.relative_l2 < measured.relative_l2 * 2


def test_the_programs_of_a_transform_are_those_that_ship():
    """Shortening its matrices again may find others."""
    for name in ("f4_3", "f8_3", "f4_3_gaussian"):
        t = transforms.load(int(name[1]), 3, name=name)
        height, width = axes_of(t, 2, "program")
        assert height == width
        assert (width.input, width.output) == (t.programs["input"], t.programs["output"])
        assert axes_of(t, 2, "huffman")[1].input != t.programs["input"]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"order": "program"},
        {"channels": 64, "filters": "float64", "fused": True, "distribution": "normal"},
        {"channels": 256, "distribution": "relu", "filters": "float64", "block": 32},
        {"dtype": "bfloat16", "channels": 4, "distribution": "normal"},
        {"transforms": "float64", "distribution": "normal"},
    ],
)
def test_usual_settings_within_15_per_cent(settings):
    f = cook_toom(4, 3)
    measured = measure(
        f, **{"trials": 1500 if settings.get("channels", 1) < 9 else 150, **settings}
    )
    assert estimate(f, **settings).relative_l2 == pytest.approx(measured.relative_l2, rel=0.15)


@pytest.mark.parametrize("channels,block", [(1, 64), (64, None), (256, 64)])
def test_direct_convolution(channels, block):
    settings = {"channels": channels, "block": block, "distribution": "normal"}
    measured = measure(Direct(1, 3), trials=2000, **settings).relative_l2
    assert estimate(Direct(1, 3), **settings).relative_l2 == pytest.approx(measured, rel=0.2)


def test_rounded_constants_add_up():
    # In bfloat16 constants such as 5/7 are off by as much as a rounding, and at every tile alike.
    f = cook_toom(4, 3, "0,5/7,-5/7,11/7,-11/7,inf")
    settings = {"dtype": "bfloat16", "distribution": "normal", "fused": True, "dims": 1}
    measured = measure(f, trials=6000, **settings).relative_l2
    assert estimate(f, **settings).relative_l2 == pytest.approx(measured, rel=0.08)


def test_unlike_axes_and_moduli():
    f = nest(cook_toom(2, 3), winograd(4, 3, "x,x-1,x+1,x^2+1,inf"))
    assert estimate(f).mean == pytest.approx(measure(f, trials=1500).mean, rel=0.2)


@given(st.integers(1, 300), st.integers(1, 300), st.booleans(), st.integers(1, 4))
def test_chains_by_brute_force(count, block, fused, chains):
    total, done = 0.0, 0
    while done < count:
        lengths, joined = [0] * chains, 0
        for product in range(min(block, count - done)):
            chain = product % chains
            lengths[chain] += 1
            total += lengths[chain] if lengths[chain] > 1 else 0
            total += not fused or lengths[chain] == 1
        for length in filter(None, lengths):
            total += joined + length if joined else 0
            joined += length
        total += done + joined if done else 0
        done += joined
    assert chain_variance(count, block, fused, chains) == total


def test_wrong_arguments_are_named():
    for wrong in ({"channels": 0}, {"dtype": "int8"}, {"order": "x"}, {"distribution": "x"}):
        with pytest.raises(WinogenError, match=next(iter(wrong))):
            estimate(cook_toom(2, 3), **wrong)
