"""What hypothesis draws for the algebra: sizes, points, moduli, data."""

from fractions import Fraction

from hypothesis import strategies as st

from winogen.algebra.polynomial import Polynomial, gcd

sizes = st.tuples(st.integers(1, 6), st.integers(1, 5))
rationals = st.builds(Fraction, st.integers(-12, 12), st.integers(1, 6))
nonzero = rationals.filter(lambda c: c != 0)


@st.composite
def points(draw, n):
    """n distinct rational points, infinity among them or not."""
    chosen = draw(st.lists(rationals, min_size=n, max_size=n, unique=True))
    if draw(st.booleans()):
        chosen[draw(st.integers(0, n - 1))] = "inf"
    return chosen


@st.composite
def moduli(draw, n):
    """Pairwise coprime polynomials of total degree n, infinity among them or not."""
    chosen, missing = [], n
    if draw(st.booleans()):
        chosen, missing = ["inf"], n - 1
    spare = iter(range(100, 200))  # linear moduli that are coprime to what else is drawn
    while missing:
        degree = draw(st.integers(1, min(missing, 3)))
        low = draw(st.lists(st.integers(-3, 3), min_size=degree, max_size=degree))
        candidate = Polynomial([*low, 1])
        if any(gcd(candidate, q).degree > 0 for q in chosen if q != "inf"):
            candidate = Polynomial([-next(spare), 1])
        chosen.append(candidate)
        missing -= candidate.degree
    return draw(st.permutations(chosen))


def vectors(size):
    return st.lists(st.integers(-1000, 1000), min_size=size, max_size=size)


def correlation(g, d):
    """The definition: y[i] = sum_k g[k] d[i+k]."""
    return [sum(c * d[i + k] for k, c in enumerate(g)) for i in range(len(d) - len(g) + 1)]


def convolution(g, h):
    """The coefficients of the product of two polynomials."""
    s = [0] * (len(g) + len(h) - 1)
    for j, a in enumerate(g):
        for k, b in enumerate(h):
            s[j + k] += a * b
    return s
