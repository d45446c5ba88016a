"""One algorithm within another along the same axis: proven, counted, by short programs."""

import itertools

import pytest

from winogen.algebra import BilinearAlgorithm, cook_toom, iterate, strided, winograd
from winogen.algebra.iterated import all_sizes, iterated_points
from winogen.codegen import transforms
from winogen.errors import InvalidType, InvalidValue, VerificationError
from winogen.program import shortest_transforms
from winogen.program.iterated import parts, programs_of

SMALL = [
    (m, r, sizes) for m, r in ((2, 4), (4, 4), (5, 6), (9, 9), (10, 9)) for sizes in all_sizes(m, r)
]


@pytest.mark.parametrize("m,r,sizes", SMALL)
def test_is_the_correlation(m, r, sizes):
    """Proven coefficient by coefficient, and it computes one of integers."""
    f = iterate(cook_toom(*sizes[:2]), cook_toom(*sizes[2:]))
    assert (f.m, f.r, f.n) == (m, r, m + r - 1)
    assert f.products == sizes.products and f.verify()
    g, d = [3 * k - 4 for k in range(r)], [k * k - 5 for k in range(m + r - 1)]
    assert f(g, d) == tuple(sum(g[k] * d[i + k] for k in range(r)) for i in range(m))


def test_the_proof_sees_one_wrong_coefficient():
    f = cook_toom(4, 4, "0,1,inf; 0,1,inf")
    rows = [list(row) for row in f.bt]
    rows[3][2] += 1
    broken = BilinearAlgorithm(4, 4, at=f.at, g=f.g, bt=rows, points=f.points)
    with pytest.raises(VerificationError):
        broken.verify()


def test_products_of_long_filters():
    """What the page has: at n = m + r - 1 = 2 r - 1 the parts take (2 r_o - 1) (2 r_i - 1)."""
    assert [next(all_sizes(r, r)).products for r in (9, 15, 25)] == [25, 45, 81]
    assert next(all_sizes(4, 9)) == (1, 3, 4, 3)  # too few outputs for two rows: pieces of 3 taps


def test_three_levels_and_moduli():
    """The result is an algorithm like any other, and so are parts by moduli."""
    two = iterate(cook_toom(2, 2), iterate(cook_toom(2, 2), cook_toom(2, 2)))
    assert (two.m, two.r, two.products) == (8, 8, 27) and two.verify()
    mixed = iterate(cook_toom(2, 2), winograd(3, 3, "x, x^2+1, x-1, inf"))
    assert (mixed.products, mixed.points) == (3 * 6, ()) and mixed.verify()


def test_text_says_all_of_it():
    f = cook_toom(9, 9, "iterated")
    assert f.points == iterated_points(9, 9)
    again = cook_toom(9, 9, "1/3,-1/3,5/4,-5/4,inf; 1/3,-1/3,5/4,-5/4,inf")
    assert again == f == BilinearAlgorithm.from_dict(f.to_dict())
    pieces = cook_toom(2, 6, "; 0, 1, -1, inf")
    assert pieces.products == 8 and pieces.verify()


@pytest.mark.parametrize(
    "arguments,words",
    [
        ((9, 9, "0,1,inf; 0,1,inf"), r"got 3 of the outer and 3 of the inner .* 5 and 5"),
        ((9, 7, "0,1,inf; 0,1,inf"), "as 7 taps have no factor"),
        ((9, 9, "0;1;inf"), "a semicolon"),
        ((9, 9, "0,1;"), "a semicolon"),
        ((9, 7, "iterated"), "r with a factor"),
        ((99, 9, "iterated"), "so few outputs"),
        ((9, 9, "0,1,1,2,inf; 0,1,-1,2,inf"), "1 twice"),
    ],
)
def test_refused(arguments, words):
    with pytest.raises(InvalidValue, match=words):
        cook_toom(*arguments)


def test_refused_parts():
    with pytest.raises(InvalidType, match="inner: got 3"):
        iterate(cook_toom(2, 3), 3)
    with pytest.raises(InvalidValue, match="at stride 2"):
        iterate(cook_toom(2, 3), strided(2, 3, 2))
    with pytest.raises(InvalidValue, match="leaves gaps; allowed: at least 3 outputs"):
        iterate(cook_toom(2, 3), cook_toom(2, 3))


def test_programs_are_those_of_the_parts():
    """Each equals its matrix, and none is searched for in the large matrices."""
    f = cook_toom(9, 9, "iterated")
    made = programs_of(f)
    for kind, matrix in f.matrices.items():
        made[kind].verify(matrix)
    # 5 windows of 5 inputs, then 5 columns of them: 10 transforms of F(3, 3).
    one = programs_of(cook_toom(3, 3))["input"].counts().instructions
    assert made["input"].counts().instructions == 10 * one
    short = shortest_transforms(f)
    assert short.algorithm.verify()
    assert parts(f.scale(input=[2] * 25)) is None  # other matrices: no parts' programs


def test_overlapping_rows_of_outputs():
    """F(5, 6) of F(1 .. 2, ...) has outputs that two rows could compute: each is computed once."""
    for sizes in itertools.islice(all_sizes(7, 6), 4):
        f = iterate(cook_toom(*sizes[:2]), cook_toom(*sizes[2:]))
        made = programs_of(f)
        assert f.verify() and made["output"].verify(f.at)


def test_the_header_names_its_command():
    header = transforms.load(4, 4, "0,1,inf; 0,1,inf").header
    assert "winogen derive 4 4 --format c --points '0,1,inf;0,1,inf'" in header
    assert "Points: 0, 1, inf; 0, 1, inf" in header
