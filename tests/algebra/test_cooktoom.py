"""Cook-Toom against the definition, the closed formulas and the published matrices."""

from fractions import Fraction
from math import prod

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from winogen.algebra import INFINITY, cook_toom, default_points, winograd
from winogen.algebra.polynomial import Polynomial

from . import strategies


@given(data=st.data(), size=strategies.sizes)
@settings(max_examples=60)
def test_random_points_are_proven_and_correlate(data, size):
    m, r = size
    f = cook_toom(m, r, data.draw(strategies.points(m + r - 1)))
    assert (f.m, f.r, f.n, f.products) == (m, r, m + r - 1, m + r - 1)
    assert f.verify() is True
    g, d = data.draw(strategies.vectors(r)), data.draw(strategies.vectors(f.n))
    assert list(f(g, d)) == strategies.correlation(g, d)


@given(data=st.data(), size=strategies.sizes)
@settings(max_examples=40)
def test_matrices_are_vandermonde_and_lagrange(data, size):
    """The closed formulas of the docstring, computed here by products instead of remainders."""
    m, r = size
    points = data.draw(strategies.points(m + r - 1))
    f = cook_toom(m, r, points)
    finite = [p for p in points if p != INFINITY]
    for a, p in enumerate(points):
        if p == INFINITY:
            assert [row[a] for row in f.at] == [0] * (m - 1) + [1]
            assert list(f.g[a]) == [0] * (r - 1) + [1]
            expected = sympy.Poly.from_list([1], sympy.Symbol("x"))
            others, sign = finite, 1
        else:
            others = [q for q in finite if q != p]
            scale = prod((p - q for q in others), start=Fraction(1))
            sign = -1 if p == 0 and scale < 0 else 1
            assert [row[a] for row in f.at] == [p**i for i in range(m)]
            assert list(f.g[a]) == [sign * p**j / scale for j in range(r)]
        x = sympy.Symbol("x")
        expected = sympy.Poly(sign, x)
        for q in others:
            expected *= sympy.Poly(x - sympy.Rational(q.numerator, q.denominator), x)
        coefficients = [Fraction(int(c.p), int(c.q)) for c in expected.all_coeffs()[::-1]]
        assert list(f.bt[a]) == coefficients + [0] * (f.n - len(coefficients))


@given(data=st.data(), size=strategies.sizes)
@settings(max_examples=30)
def test_cook_toom_is_the_all_linear_case_of_winograd(data, size):
    m, r = size
    points = data.draw(strategies.points(m + r - 1))
    moduli = [p if p == INFINITY else f"x - ({p})" for p in points]
    by_points, by_moduli = cook_toom(m, r, points), winograd(m, r, moduli)
    assert (by_points.at, by_points.g, by_points.bt) == (by_moduli.at, by_moduli.g, by_moduli.bt)
    assert (by_points.moduli, by_moduli.points) == (None, None)
    assert by_moduli.moduli == tuple(p if p == INFINITY else Polynomial([-p, 1]) for p in points)


def equal_up_to_row_signs(matrix, published):
    assert matrix.shape == (len(published), len(published[0]))
    for k, row in enumerate(published):
        expected = sympy.Matrix([[sympy.Rational(c) for c in row]])
        assert matrix.row(k) in (expected, -expected)


def test_f23_is_the_classic():
    """Lavin & Gray, arXiv 1509.09308, equation 11."""
    f = cook_toom(2, 3, "0,1,-1,inf")
    equal_up_to_row_signs(f.BT, [[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]])
    equal_up_to_row_signs(
        f.G, [[1, 0, 0], ["1/2", "1/2", "1/2"], ["1/2", "-1/2", "1/2"], [0, 0, 1]]
    )
    equal_up_to_row_signs(f.AT.T, [[1, 0], [1, 1], [1, -1], [0, -1]])
    assert f.points == (0, 1, -1, "inf")


def test_f43_is_the_classic():
    """Lavin & Gray, section 4.3; here even the signs agree."""
    f = cook_toom(4, 3, [0, 1, -1, 2, -2, "inf"])
    assert f.BT == sympy.Matrix(
        [
            [4, 0, -5, 0, 1, 0],
            [0, -4, -4, 1, 1, 0],
            [0, 4, -4, -1, 1, 0],
            [0, -2, -1, 2, 1, 0],
            [0, 2, -1, -2, 1, 0],
            [0, 4, 0, -5, 0, 1],
        ]
    )
    rows = "1/4 0 0, -1/6 -1/6 -1/6, -1/6 1/6 -1/6, 1/24 1/12 1/6, 1/24 -1/12 1/6, 0 0 1"
    assert f.G == sympy.Matrix(
        [[sympy.Rational(c) for c in row.split()] for row in rows.split(",")]
    )
    assert f.AT == sympy.Matrix(
        [[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]]
    )


@pytest.mark.parametrize("size", [(1, 1), (1, 2), (1, 7), (2, 1), (6, 1), (1, 40), (40, 1)])
def test_degenerate_sizes_need_no_transform(size):
    f = cook_toom(*size)
    assert f.verify() and f.products == f.n and f.points == ()
    assert f.BT == sympy.eye(f.n)
    assert (f.G if f.m == 1 else f.AT) == sympy.eye(f.n)


def test_f11_is_the_identity_with_points_too():
    for points in (None, [5], ["inf"], ["sqrt(2)"]):
        f = cook_toom(1, 1, points)
        assert (f.at, f.g, f.bt) == (((1,),), ((1,),), ((1,),))


@pytest.mark.parametrize("n", range(1, 19))
def test_default_points_work_for_every_split_of_n(n):
    for m in range(1, n + 1):
        r = n + 1 - m
        chosen = default_points(m, r)
        assert len(chosen) == n and chosen.source
        f = cook_toom(m, r, chosen)
        assert f.points == chosen.points
        if m <= 2 or m == n // 2 or r == 3:
            assert f.verify()


ALGEBRAIC = [
    "0, sqrt(2)/2, -sqrt(2)/2, sqrt(2), -sqrt(2), inf",
    "0, sqrt(2), -sqrt(3), 1, sqrt(6), inf",
    "cos(pi/8), -cos(pi/8), cos(3*pi/8), -cos(3*pi/8), 0, inf",
    "cbrt(2), root(2,3)/2, 0, 1, (1+sqrt(5))/2 - sqrt(5)/2, 5",
]


@pytest.mark.parametrize("points", ALGEBRAIC)
def test_algebraic_points_stay_exact(points):
    f = cook_toom(4, 3, points)
    assert f.verify()
    assert f([1, 2, 3], [1, 2, 3, 4, 5, 6]) == (14, 20, 26, 32)
    # The sympy matrices are the same algorithm, to 30 digits.
    toeplitz = f.AT * sympy.diag(*(f.G * sympy.Matrix([1, 2, 3]))) * f.BT
    expected = sympy.Matrix(4, 6, lambda i, k: k - i + 1 if 0 <= k - i < 3 else 0)
    assert all(abs(c.evalf(30)) < 1e-25 for c in toeplitz - expected)


def test_even_powers_of_a_root_are_rational():
    """Why such points are used: the even part of the input transform is rational."""
    f = cook_toom(4, 3, "0, sqrt(2)/2, -sqrt(2)/2, sqrt(2), -sqrt(2), inf")
    assert f.bt[0] == (1, 0, Fraction(-5, 2), 0, 1, 0)
    assert all(isinstance(c, Fraction) for row in f.bt for c in row[::2])


def test_sympy_points_and_text_mean_the_same():
    text = cook_toom(2, 3, "0, 1/2, -sqrt(2), inf")
    objects = cook_toom(2, 3, [sympy.Integer(0), Fraction(1, 2), -sympy.sqrt(2), sympy.oo])
    assert text == objects and hash(text) == hash(objects)
