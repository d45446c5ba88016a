"""The algorithm object: proof, negative fixtures, transposition, scaling, nesting, JSON."""

import json
import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError, replace
from fractions import Fraction

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from winogen.algebra import BilinearAlgorithm, cook_toom, nest, winograd
from winogen.errors import InvalidValue, VerificationError

from . import strategies


def changed(rows, row, column, value):
    """The matrix with one entry replaced."""
    rows = [list(r) for r in rows]
    rows[row][column] = value
    return rows


def test_misprint_in_f23():
    """Seen in print: the last row of B^T as [0 1 0 1]."""
    f = cook_toom(2, 3, "0,1,-1,inf")
    good = replace(f, at=changed(f.at, 1, 3, -1), bt=[*f.bt[:3], (0, 1, 0, -1)])
    assert good.verify()
    bad = replace(good, bt=[*f.bt[:3], (0, 1, 0, 1)])
    with pytest.raises(VerificationError, match=r"F\(2,3\).*\(i, j, k\) = \(1, 2, 3\)"):
        bad.verify()


@pytest.mark.parametrize("power", [3, 5])
def test_misprint_in_f63(power):
    """Seen in print: F(6,3) in {0, ±1, ±2, ±3} with -27 and -243 in A^T for the point +3."""
    f = cook_toom(6, 3, "0,1,-1,2,-2,3,-3,inf")
    assert f.verify() and f.at[power][5] == 3**power and f.at[power][6] == -(3**power)
    bad = replace(f, at=changed(f.at, power, 5, -(3**power)))
    with pytest.raises(VerificationError, match=rf"first wrong \(i, j, k\) = \({power}, 0, 1\)"):
        bad.verify()


@given(data=st.data())
@settings(max_examples=40)
def test_any_single_change_is_caught(data):
    f = data.draw(st.sampled_from([cook_toom(3, 3), winograd(2, 3, "x,x-1,x^2+1")]))
    name = data.draw(st.sampled_from(["at", "g", "bt"]))
    rows = getattr(f, name)
    i = data.draw(st.integers(0, len(rows) - 1))
    k = data.draw(st.integers(0, len(rows[0]) - 1))
    bad = replace(f, **{name: changed(rows, i, k, rows[i][k] + data.draw(strategies.nonzero))})
    with pytest.raises(VerificationError):
        bad.verify()


@given(data=st.data(), size=strategies.sizes)
@settings(max_examples=40)
def test_transposition_gives_linear_convolution(data, size):
    m, r = size
    f = cook_toom(m, r, data.draw(strategies.points(m + r - 1)))
    linear = f.transpose()
    assert linear.form == "linear" and linear.products == f.products and linear.verify()
    g, h = data.draw(strategies.vectors(r)), data.draw(strategies.vectors(m))
    assert list(linear(g, h)) == strategies.convolution(g, h)
    assert linear.transpose() == f
    with pytest.raises(VerificationError):
        replace(linear, at=changed(linear.at, 0, 0, linear.at[0][0] + 1)).verify()


@given(data=st.data(), size=strategies.sizes)
@settings(max_examples=40)
def test_exchange_gives_the_gradient_of_the_filter(data, size):
    m, r = size
    f = cook_toom(m, r, data.draw(strategies.points(m + r - 1)))
    turned = f.exchange()
    assert (turned.m, turned.r, turned.n) == (r, m, f.n) and turned.bt == f.bt and turned.verify()
    dy, d = data.draw(strategies.vectors(m)), data.draw(strategies.vectors(f.n))
    gradient = [sum(dy[i] * d[i + k] for i in range(m)) for k in range(r)]
    assert list(turned(dy, d)) == gradient
    assert turned.exchange() == f
    with pytest.raises(VerificationError):
        replace(turned, g=changed(turned.g, 0, 0, turned.g[0][0] + 1)).verify()


def test_exchange_is_for_correlation():
    with pytest.raises(ValueError, match="form: got 'linear'; allowed: 'fir'"):
        cook_toom(2, 3).transpose().exchange()


@given(data=st.data(), size=strategies.sizes)
@settings(max_examples=40)
def test_scaling_keeps_the_result(data, size):
    f = cook_toom(*size, data.draw(strategies.points(sum(size) - 1)))
    factors = st.lists(strategies.nonzero, min_size=f.products, max_size=f.products)
    sides = {"input": "bt", "filter": "g", "output": "at"}
    given_sides = data.draw(st.sets(st.sampled_from(sorted(sides)), max_size=2))
    scales = {side: data.draw(factors) for side in given_sides}
    scaled = f.scale(**scales)
    assert scaled.verify()
    for side, values in scales.items():
        rows, old = getattr(scaled, sides[side]), getattr(f, sides[side])
        if side == "output":
            rows, old = zip(*rows), zip(*old)
        for factor, row, old_row in zip(values, rows, old):
            assert row == tuple(factor * c for c in old_row)
    # What is left out and not needed to make up for the rest stays as it was.
    free = [side for side in ("filter", "input", "output") if side not in scales]
    for side in free[1:]:
        assert getattr(scaled, sides[side]) == getattr(f, sides[side])
    inverse = {side: [1 / c for c in values] for side, values in scales.items()}
    assert scaled.scale(**inverse) == f


@given(data=st.data())
@settings(max_examples=25)
def test_nesting_correlates_in_two_dimensions(data):
    axes = [
        cook_toom(3, 2),
        cook_toom(2, 3, "0,1,-1,inf"),
        cook_toom(1, 3),
        cook_toom(2, 1),
        winograd(2, 3, "x,x-1,x^2+1"),
        cook_toom(2, 2, "sqrt(2),-sqrt(2),inf"),
    ]
    h, w = data.draw(st.sampled_from(axes)), data.draw(st.sampled_from(axes))
    f = nest(h, w)
    assert f.verify() and f.products == h.products * w.products
    g = [data.draw(strategies.vectors(w.r)) for _ in range(h.r)]
    d = [data.draw(strategies.vectors(w.n)) for _ in range(h.n)]
    expected = [
        [sum(g[a][b] * d[i + a][k + b] for a in range(h.r) for b in range(w.r)) for k in range(w.m)]
        for i in range(h.m)
    ]
    assert [list(row) for row in f(g, d)] == expected
    full = nest(h.transpose(), w.transpose())
    assert full.verify()
    bad = nest(h, replace(w, g=changed(w.g, 0, 0, w.g[0][0] + 1)))
    with pytest.raises(VerificationError, match="width: "):
        bad.verify()


@pytest.mark.parametrize(
    "f",
    [
        cook_toom(4, 3),
        cook_toom(1, 3),
        cook_toom(4, 3).transpose(),
        winograd(4, 3, "x,x-1/2,x^3+2,inf"),
        cook_toom(4, 3, "0,sqrt(2)/2,-sqrt(2)/2,sqrt(3),-sqrt(3),inf"),
    ],
    ids=str,
)
def test_json_and_pickle_keep_everything(f):
    text = json.dumps(f.to_dict())
    assert BilinearAlgorithm.from_dict(json.loads(text)) == f
    assert pickle.loads(pickle.dumps(f)) == f
    assert {"m", "r", "n", "points", "AT", "G", "BT"} <= set(json.loads(text))


def test_immutable_and_plain_numbers_accepted():
    f = BilinearAlgorithm(1, 2, at=[[1, 1]], g=[["1", 0], [0, 1]], bt=[[1, 0], [0, Fraction(1)]])
    assert f.verify() and f.at == ((1, 1),)
    with pytest.raises(FrozenInstanceError):
        f.m = 3


def test_arrays_are_rounded_from_exact():
    at, g, bt = cook_toom(4, 3, "0,1/3,-1/3,sqrt(2),-sqrt(2),inf").arrays("float32")
    assert (at.shape, g.shape, bt.shape) == ((4, 6), (6, 3), (6, 6))
    assert at.dtype == "float32" and at[1, 1] == numpy.float32(1 / 3)
    assert at[1, 3] == numpy.float32(2**0.5) and at[2, 3] == 2


def test_one_line_for_an_algorithm():
    f = cook_toom(4, 3, "0, 1, -1, 1/2, -1/2, inf")
    assert repr(f) == "<BilinearAlgorithm F(4, 3) on 0, 1, -1, 1/2, -1/2, inf>"
    assert repr(f.transpose()).startswith("<BilinearAlgorithm F(4, 3) linear on 0, ")
    assert repr(cook_toom(1, 1)) == "<BilinearAlgorithm F(1, 1)>"
    assert repr(cook_toom(11, 3)).endswith("-10/11, 4/3, ...>")
    g = winograd(2, 3, "x, x^2+1, inf")
    assert repr(g) == "<BilinearAlgorithm F(2, 3) by x, x^2 + 1, inf>"
    assert repr(nest(g, f)).startswith(
        "<BilinearAlgorithm2D <F(2, 3) by x, x^2 + 1, inf> x <F(4, 3)"
    )


def test_rational_work_needs_no_sympy():
    code = (
        "import sys, winogen.algebra as a; f = a.cook_toom(6, 3, '0,1,-1,1/2,-1/2,2,-2,inf');"
        "assert f.verify() and a.winograd(2, 3, 'x,x-1,x^2+1').verify();"
        "assert a.BilinearAlgorithm.from_dict(f.to_dict()) == f and a.nest(f, f).verify();"
        "assert not {'sympy', 'numpy'} & set(sys.modules), 'heavy import'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# What Maji's thesis prints in section 4.4 and after, by what an audit says of each: (4.36) is
# B^T of F(4, 3) in {0, ±1, ±2, inf} with -1 for 1 in column 5 of rows 2 and 3.
_WORKED = "0, 1, -1, 2, -2, inf"


@pytest.mark.parametrize("row", [1, 2])
def test_misprints_of_the_worked_example(row):
    """(4.36): either sign alone is refused, with both mended and W of (4.38) it is F(4, 3)."""
    f = cook_toom(4, 3, _WORKED)
    assert [f.bt[k][4] for k in (1, 2)] == [1, 1] and f.verify()
    with pytest.raises(VerificationError, match=r"F\(4,3\).*first wrong"):
        replace(f, bt=changed(f.bt, row, 4, -1)).verify()


def test_weights_of_the_other_convention():
    """(4.37): W with the signs of rows 2 and 3 turned needs these of B^T turned, too."""
    f = cook_toom(4, 3, _WORKED)
    signs = [1, -1, -1, 1, 1, 1]
    turned = f.scale(input=signs, filter=signs)
    assert turned.verify()
    with pytest.raises(VerificationError):
        replace(f, g=turned.g).verify()


@pytest.mark.parametrize("points", ["0,1,-1,2,-2,3,-3,inf", "0,1,-1,2,-2,1/2,-1/2,inf"])
def test_f27_of_both_sets(points):
    """(4.43) to (4.48): F(2, 7) in points to 3, and with halves; a lost column is refused."""
    f = cook_toom(2, 7, points)
    assert f.verify() and f.products == 8
    with pytest.raises(InvalidValue, match="at: .*7"):
        replace(f, at=[row[:6] + row[7:] for row in f.at])


@pytest.mark.parametrize("lost", range(8))
def test_f63_without_a_point(lost):
    """(4.41): A^T of F(6, 3) lost the column of -3; no other column may be absent either."""
    f = cook_toom(6, 3, "0,1,-1,2,-2,3,-3,inf")
    zeros = [[*row[:lost], 0, *row[lost + 1 :]] for row in f.at]
    with pytest.raises(VerificationError):
        replace(f, at=zeros).verify()
