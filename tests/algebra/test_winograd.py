"""Winograd's algorithms over moduli of any degree."""

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from winogen.algebra import BilinearAlgorithm, winograd

from . import strategies


@given(data=st.data(), size=strategies.sizes)
@settings(max_examples=60)
def test_random_moduli_are_proven_and_correlate(data, size):
    m, r = size
    moduli = data.draw(strategies.moduli(m + r - 1))
    f = winograd(m, r, moduli)
    assert f.products == sum(1 if q == "inf" else 2 * q.degree - 1 for q in moduli)
    assert f.verify() is True
    g, d = data.draw(strategies.vectors(r)), data.draw(strategies.vectors(f.n))
    assert list(f(g, d)) == strategies.correlation(g, d)
    assert f.transpose().verify()
    assert BilinearAlgorithm.from_dict(f.to_dict()) == f


@pytest.mark.parametrize(
    ("m", "r", "moduli", "products"),
    [
        (2, 3, "x, x-1, x^2+1", 5),
        (4, 3, "x, x-1, x+1, x^2+1, inf", 7),
        (2, 3, "x^2+1, x^2-2", 6),
        (2, 2, "x^3-x-1", 5),
        (3, 3, "x^2, x^2+x+1, inf", 7),
        (6, 5, "x^4+1, x^3-2, x, x+1, inf", 15),
        (1, 1, "inf", 1),
        (1, 4, "x^2+1, x, inf", 5),
        (8, 4, "x^11 - 2", 21),
    ],
)
def test_products(m, r, moduli, products):
    f = winograd(m, r, moduli)
    assert f.products == products and f.verify()


def test_degree_two_is_karatsuba():
    """(g0 + g1 x)(h0 + h1 x) mod x^2 + 1 by g0 h0, (g0 + g1)(h0 + h1), g1 h1."""
    f = winograd(2, 1, ["x^2+1"])
    assert f.AT == sympy.Matrix([[1, 1, 0], [0, 1, 1]])
    f = winograd(2, 2, ["x^2+1", "inf"])
    assert f.AT == sympy.Matrix([[1, 1, 0, 0], [0, 1, 1, 1]])
    assert f.G == sympy.Matrix([[1, 0], [1, 1], [0, 1], [0, 1]])


def test_all_ways_to_write_a_modulus():
    x, z = sympy.symbols("x z")
    expected = winograd(2, 3, ["x", "x-1/2", "x^2+1"])
    for moduli in (
        "x, x - 1/2, x^2 + 1",
        [x, 2 * x - 1, x**2 + 1],
        [sympy.Poly(z), sympy.Poly(z - sympy.Rational(1, 2)), sympy.Poly(z**2 + 1)],
        [[1, 0], [1, "-1/2"], [1, 0, 1]],
        ["-3*x", "(2*x-1)", "(x^2+1)/5"],
        list(expected.moduli),
    ):
        assert winograd(2, 3, moduli) == expected


def test_moduli_with_algebraic_coefficients():
    f = winograd(3, 2, ["x - sqrt(2)", "x + sqrt(2)", "x^2 - sqrt(2)*x + 1"])
    assert f.verify() and f.products == 5
    assert BilinearAlgorithm.from_dict(f.to_dict()) == f
