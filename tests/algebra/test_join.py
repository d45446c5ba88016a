"""Complex products joined across axes: counts, proofs, and exact results."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from winogen.algebra import cook_toom, join, nest, winograd
from winogen.algebra.residues import residues
from winogen.algebra.ring import Ring
from winogen.errors import InvalidType, InvalidValue, VerificationError
from winogen.numerics import Direct, estimate

from . import strategies

SIXTH = "x, x-1, x+1, x^2+x+1, x^2-x+1, inf"
FOURIER_8 = "x-1, x+1, x^2+1, x^2+sqrt(2)*x+1, x^2-sqrt(2)*x+1"
FOURIER_16 = FOURIER_8 + "".join(
    f", x^2+{sign}sqrt(2{inner}sqrt(2))*x+1" for inner, sign in itertools.product("+-", ("", "-1*"))
)


def count(rows, pairs):
    """(3 prod n_i - prod (n_i - 2 k_i)) / 2."""
    reals = [n - 2 * k for n, k in zip(rows, pairs)]
    return (3 * math.prod(rows) - math.prod(reals)) // 2


@pytest.mark.parametrize(
    ("m", "r", "moduli", "joined", "nested"),
    [
        (8, 3, "x, x-3/5, x+3/5, x-1, x+1, x-5/3, x+5/3, x^2+1, inf", 118, 121),
        (8, 3, "x, x-3/5, x+3/5, x-5/3, x+5/3, x^2+1, x^2+4, inf", 132, 144),
        (6, 3, SIXTH, 88, 100),  # SFC, arXiv 2407.02913
        (7, 3, SIXTH.replace("x,", "x^2,", 1), 132, 144),  # likewise; powers stay nested
        (6, 3, FOURIER_8, 94, 121),
        (14, 3, FOURIER_16, 382, 529),
        (6, 3, "x, x-3/4, x+3/4, x-4/3, x+4/3, x^2+1, inf", 78, 81),
        (4, 3, "x^2-2, x^2+1, x, inf", 61, 64),  # x^2 - 2 has real roots and stays nested
    ],
)
def test_published_counts_are_cases_of_the_rule(m, r, moduli, joined, nested):
    f = winograd(m, r, moduli)
    both = join(f, f)
    assert (both.products, f.products**2) == (joined, nested)
    assert sum(cell.product.products for cell in both.cells) == joined
    if m < 14:  # there the proof takes seconds
        assert both.verify()


@pytest.mark.thorough
@pytest.mark.parametrize("m, r", [(14, 3), (12, 5)])
def test_fourier_tiles_are_about_as_accurate_as_direct_convolution(m, r):
    f = winograd(m, r, FOURIER_16)
    some = dict(channels=64, distribution="normal", fused=True, block=16, filters="float64")
    direct = estimate(Direct(m, r), **some).relative_l2
    assert estimate(join(f, f), **some).relative_l2 < 1.6 * direct


@pytest.mark.parametrize("size", [4, 8, 16, 32, 64])
def test_the_real_fourier_transform_is_the_case_of_all_roots_of_unity(size):
    """n^2/2 - 2 complex products and 4 real ones: with Gauss' three, 3 n^2 / 2 - 2."""
    ring = Ring(0, 1)
    pairs = (size - 2) // 2
    products = 4 + 2 * 2 * pairs * ring.power(1).products + pairs**2 * ring.power(2).products
    assert products == count((size, size), (pairs, pairs)) == 3 * size * size // 2 - 2


@given(data=st.data())
@settings(max_examples=25)
def test_random_moduli_along_three_axes(data):
    """Axes with their own sets; every coefficient of the whole form, which knows no axes."""
    axes = []
    for _ in range(data.draw(st.integers(1, 3))):
        m, r = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 2)))
        axes.append(winograd(m, r, data.draw(rational_moduli(m + r - 1))))
    both = join(*axes)
    assert both.verify()
    along = [residues(axis) for axis in axes]
    assert both.products == count([f.rows for f in along], [f.pairs for f in along])
    assert both.products <= math.prod(axis.products for axis in axes)
    assert both.decomposition.verify()


@st.composite
def rational_moduli(draw, n):
    """Moduli with x^2 + c or complex points a + b i among them, and what is left linear."""
    moduli, left = [], n
    if n >= 2 and draw(st.booleans()):
        a, b = draw(st.integers(-2, 2)), draw(st.integers(1, 3))
        moduli, left = [f"x^2 + {-2 * a}*x + {a * a + b * b}"], n - 2
    return [*moduli, *(f"x-{k}" for k in range(left))]


def test_different_discriminants_meet_in_one_ring():
    """sqrt(2), since -8 times -4 is no square; with x^2 + 9 instead all stays rational."""
    first, second, third = (
        winograd(2, 3, f"x, inf, {modulus}") for modulus in ("x^2+2", "x^2+1", "x^2+9")
    )
    assert join(first, second).products == count((4, 4), (1, 1)) == 22
    assert join(first, second).verify()
    rational = join(second, third)
    assert rational.verify()
    values = [
        x for kind in ("input", "filter", "output") for row in rational.matrix(kind) for x in row
    ]
    assert all(isinstance(x, Fraction) for x in values)


@given(data=st.data())
@settings(max_examples=10)
def test_exact_results(data):
    f = join(winograd(4, 3, "x, x-1, x+1, x^2+1, inf"), winograd(3, 2, "x-1, x^2+1, inf"))
    g, d = (
        [data.draw(strategies.vectors(width)) for _ in range(height)]
        for height, width in ((3, 2), (6, 4))
    )
    expected = tuple(
        tuple(sum(g[k][q] * d[i + k][j + q] for k in range(3) for q in range(2)) for j in range(3))
        for i in range(4)
    )
    assert f(g, d) == expected


def test_points_are_nested():
    h, w = cook_toom(2, 3), cook_toom(4, 3)
    both = join(h, w)
    assert both.products == nest(h, w).products
    assert both.matrix("input") == tuple(
        tuple(a * b for a in row for b in other) for row in h.bt for other in w.bt
    )


@pytest.mark.parametrize("ring", [Ring(0, 1), Ring(1, 1), Ring(0, Fraction(5, 4)), Ring(-3, 7)])
def test_tensor_powers_of_rings(ring):
    assert [ring.power(axes).products for axes in range(4)] == [1, 3, 6, 12]
    assert all(ring.verify(axes) for axes in range(4))


def test_what_is_wrong_is_refused():
    f = winograd(4, 3, "x, x-1, x+1, x^2+1, inf")
    both = join(f, f)
    wrong = replace(both.axes[0], g=(*both.axes[0].g[:-1], both.axes[0].g[-2]))
    with pytest.raises(VerificationError, match=r"axis 1: F\(4,3\): the coefficient of g\["):
        replace(both, axes=(both.axes[0], wrong)).verify()
    with pytest.raises(InvalidValue, match="axes: got none"):
        join()
    with pytest.raises(InvalidType, match="algorithm: got 3"):
        join(f, 3)
    with pytest.raises(InvalidValue, match="form linear"):
        join(f.transpose())
    with pytest.raises(InvalidValue, match="g: got another shape; allowed: 3 x 3"):
        both([[1, 2, 3]], [[0] * 6] * 6)
