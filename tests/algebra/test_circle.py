"""The family of moduli from Cook-Toom's points to Fourier's, and what is taken by default."""

import math
from fractions import Fraction
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from winogen import conv2d
from winogen.algebra import cook_toom, default_moduli, default_points, join, winograd
from winogen.algebra.circle import LARGEST, MODULI_FROM, between, gaussian
from winogen.algebra.moduli import MOST_FOURIER, check_moduli, fourier_moduli
from winogen.algebra.polynomial import Polynomial
from winogen.errors import InvalidValue
from winogen.numerics import Direct, estimate

LAYER = {"channels": 64, "block": 16, "distribution": "normal", "filters": "float64"}


@pytest.mark.parametrize("family", [between, gaussian])
@settings(max_examples=25, deadline=None)
@given(n=st.integers(4, 32), data=st.data())
def test_every_member_has_total_degree_n_and_no_common_factors(family, n, data):
    pairs = data.draw(st.integers(0, (n - 1) // 2))
    moduli = check_moduli(n, 1, family(n, pairs))
    assert sum(not isinstance(q, str) and q.degree == 2 for q in moduli) == pairs
    # x -> -x maps the set to itself, which makes transforms even and odd.
    finite = [q for q in moduli if not isinstance(q, str)]
    mirrored = [Polynomial([c * (-1) ** k for k, c in enumerate(q.coefficients)]) for q in finite]
    assert {q.monic() for q in mirrored} == set(finite)


@pytest.mark.parametrize("family", [between, gaussian])
@pytest.mark.parametrize(
    "n, pairs", [(38, 0), (38, 3), (39, 0), (48, 1), (64, 2), (64, 31), (97, 40)]
)
def test_many_points_stay_apart(family, n, pairs):
    """So many that small fractions are too few: of them some would be 0, or the same."""
    moduli = family(n, pairs)
    assert check_moduli(n, 1, moduli)
    assert len(set(moduli)) == len(moduli) == n - pairs


@pytest.mark.parametrize("family", [between, gaussian])
@pytest.mark.parametrize("n, pairs", [(8, 4), (8, -1), (7, 1.0), (0, 0), ("8", 2)])
def test_other_numbers_of_pairs_are_refused(family, n, pairs):
    with pytest.raises(InvalidValue, match="^(n|pairs): got .*; allowed: "):
        family(n, pairs)


@pytest.mark.parametrize("n", [*range(MODULI_FROM, 24), 37, LARGEST])
def test_every_default_is_a_set_of_moduli(n):
    assert check_moduli(n - 2, 3, default_moduli(n - 2, 3))


@pytest.mark.parametrize("pairs", [1, 3, 4])
def test_complex_points_with_rational_parts_are_joined_by_rational_numbers(pairs):
    both = join(*[winograd(8, 3, gaussian(10, pairs))] * 2)
    assert both.verify() and both.products == (3 * 10**2 - (10 - 2 * pairs) ** 2) // 2
    for kind in ("input", "filter", "output"):
        assert all(isinstance(x, Fraction) for row in both.matrix(kind) for x in row)


def test_joined_products_of_points_on_the_circle_are_as_accurate_as_fouriers():
    """Nested, a third of the points should be real; joined, the more of the circle the better."""
    errors = {}
    for pairs in (2, 4, 7):
        f = winograd(14, 3, gaussian(16, pairs))
        errors[pairs] = estimate(join(f, f), **LAYER, fused=True).relative_l2
    fourier = winograd(14, 3, "fourier")
    whole = estimate(join(fourier, fourier), **LAYER, fused=True).relative_l2
    assert errors[7] < 1.1 * whole and errors[7] < errors[4] < errors[2] / 10


def test_with_most_pairs_it_is_fourier():
    for n in range(4, 17, 2):
        ours, fourier = between(n, n // 2 - 1), fourier_moduli(n)
        assert set(ours[:2]) == set(fourier[:2])  # x - 1 and x + 1
        for q, p in zip(ours[2:], fourier[2:]):
            assert math.isclose(float(q[1]), float(p[1]), abs_tol=1 / 50) and q[0] == p[0] == 1


@pytest.mark.parametrize(("m", "r"), [(12, 3), (3, 12), (8, 8), (17, 3), (2, 19), (20, 7)])
def test_defaults_from_14_inputs_on_are_moduli(m, r):
    f = cook_toom(m, r)
    assert f.points is None and f.moduli == default_moduli(m, r)
    assert f.products == f.n + f.n // 3 - 1 and f.verify()


def test_points_end_where_moduli_begin():
    assert cook_toom(11, 3).points == default_points(11, 3).points and MODULI_FROM == 14
    with pytest.raises(InvalidValue, match="n = m \\+ r - 1 = 49; allowed: n from 6 to 48"):
        cook_toom(47, 3)


def test_moduli_are_more_accurate_than_points_by_far():
    """One modulus of degree 2 has 3.1e-5 by the literature's protocol, the best points 8.0e-4."""
    assert estimate(cook_toom(14, 3)).mean < 2e-6
    assert estimate(cook_toom(14, 3, default_points(14, 3))).mean > 5e-4
    few = {k: estimate(winograd(14, 3, between(16, k))).mean for k in (0, 4, 7)}
    assert few[4] < few[7] < few[0]  # neither end is best


@pytest.mark.parametrize("n", range(1, 17))
def test_fourier_is_all_of_x_to_the_n_minus_1(n):
    whole = prod(fourier_moduli(n), start=Polynomial([1]))
    assert whole == Polynomial([-1] + [0] * (n - 1) + [1])


@pytest.mark.parametrize(
    ("m", "moduli", "products", "nested"),
    [
        (6, "fourier", 94, 121),
        (14, "fourier", 382, 529),
        (6, "x, x-1, x+1, x^2+x+1, x^2-x+1, inf", 88, 100),
        (7, "x^2, x-1, x+1, x^2+x+1, x^2-x+1, inf", 132, 144),
    ],
)
def test_products_of_two_axes(m, moduli, products, nested):
    f = winograd(m, 3, moduli)
    both = join(f, f)
    assert (both.products, f.products**2) == (products, nested)
    assert m == 14 or both.verify()


def test_fourier_is_nearly_as_accurate_as_direct():
    f = winograd(14, 3, " Fourier ")
    assert f.moduli == fourier_moduli(16)
    joined = estimate(join(f, f), **LAYER).relative_l2
    assert joined < 1.6 * estimate(Direct(14, 3), **LAYER).relative_l2


@pytest.mark.thorough
def test_fourier_computes_a_layer_exactly():
    rng = np.random.default_rng(0)
    x = rng.integers(-4, 5, (1, 3, 7, 9)).astype(np.float32)
    w = rng.integers(-2, 3, (2, 3, 3, 3)).astype(np.float32)
    # x - 1, x + 1 and x^2 + 1: quarters at most.
    y = conv2d(x, w, padding=1, moduli="fourier", tile=2)
    np.testing.assert_array_equal(y, conv2d(x, w, padding=1, algorithm="direct"))


@pytest.mark.thorough
def test_larger_tiles_run_where_rows_are_summed():
    """20 inputs along the width, without a search for programs."""
    rng = np.random.default_rng(6)
    x = rng.standard_normal((1, 2, 3, 40), dtype=np.float32)
    w = rng.standard_normal((2, 2, 1, 3), dtype=np.float32)
    y = conv2d(x, w, algorithm="mcmr", tile=(1, 18), order="huffman")
    exact = conv2d(x.astype(float), w.astype(float), algorithm="direct")
    assert abs(y - exact).max() < 2e-5 * abs(exact).max()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: winograd(31, 3, "fourier"), f"n = m \\+ r - 1 = 33; allowed: n <= {MOST_FOURIER}"),
        (lambda: winograd(2, 3, "fourier, x"), "moduli: got 'fourier'"),
        (lambda: default_moduli(2, 3), "allowed: n from 6 to 48"),
        (
            lambda: conv2d(np.ones((1, 1, 9, 9)), np.ones((1, 1, 3, 3)), moduli="fourier"),
            "without tile; allowed: with tile=",
        ),
    ],
)
def test_what_is_refused(call, words):
    with pytest.raises(InvalidValue, match=words):
        call()
