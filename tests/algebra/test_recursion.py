"""Products of blocks by the same kind of algorithm again."""

import pytest

from winogen.algebra import Decomposition, known, matrix_product, recurse
from winogen.errors import InvalidType, InvalidValue, VerificationError


def test_two_levels_are_a_product_of_matrices():
    twice = recurse(known("strassen"), known("strassen"))
    assert twice.products == 49 and twice.verify()
    a, b = [(7 * k) % 11 - 5 for k in range(16)], [(5 * k) % 13 - 6 for k in range(16)]
    assert twice(a, b) == matrix_product(4, 4, 4)(a, b)


@pytest.mark.parametrize("sizes", [(1, 2, 3), (2, 1, 1), (3, 2, 2)])
def test_oblong_blocks(sizes):
    """Definitions of any sizes outside and inside: where numbers stand is right along all sides."""
    n, m, p = sizes
    plain = matrix_product(n, m, p)
    terms = sorted(plain.tensor)
    one = Decomposition(
        plain,
        u=[[int(j == c) for j in range(n * m)] for _, c, _ in terms],
        v=[[int(k == c) for k in range(m * p)] for *_, c in terms],
        w=[[int(i == c) for c, *_ in terms] for i in range(n * p)],
    )
    assert recurse(one, known("strassen")).verify() and recurse(known("strassen"), one).verify()


def test_the_proof_sees_a_wrong_sign():
    strassen = known("strassen")
    rows = [list(row) for row in strassen.w]
    rows[3][0] = -rows[3][0]
    with pytest.raises(VerificationError):
        recurse(Decomposition(strassen.map, strassen.u, strassen.v, rows), strassen).verify()


def test_refused():
    with pytest.raises(InvalidValue, match="inner: got complex product; allowed: a matrix product"):
        recurse(known("strassen"), known("gauss"))
    with pytest.raises(InvalidType, match="outer: got 7"):
        recurse(7, known("strassen"))
