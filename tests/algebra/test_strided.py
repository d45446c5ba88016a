"""Strided algorithms: proven as a whole, and what their polyphase parts cost."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from winogen.algebra import BilinearAlgorithm, cook_toom, strided
from winogen.codegen import transforms
from winogen.errors import InvalidType, InvalidValue, VerificationError

SIZES = st.tuples(st.integers(1, 5), st.integers(1, 7), st.integers(1, 5))


@given(SIZES, st.data())
def test_every_size_is_the_strided_correlation(sizes, data):
    m, r, stride = sizes
    f = strided(m, r, stride)
    assert f.verify()
    numbers = st.integers(-9, 9)
    g = data.draw(st.lists(numbers, min_size=r, max_size=r))
    d = data.draw(st.lists(numbers, min_size=f.n, max_size=f.n))
    assert list(f(g, d)) == [sum(g[k] * d[stride * i + k] for k in range(r)) for i in range(m)]
    assert f.products == (f.n if r >= stride else m * r)


@given(SIZES)
def test_the_transposed_algorithm_spreads_its_inputs(sizes):
    m, r, stride = sizes
    linear = strided(m, r, stride).transpose()
    assert linear.form == "linear" and linear.verify()
    g, d = range(1, r + 1), range(1, m + 1)
    spread = np.zeros(stride * (m - 1) + 1, int)
    spread[::stride] = d
    assert list(linear(g, d)) == list(np.convolve(spread, g))
    assert linear.transpose() == strided(m, r, stride)


def test_stride_one_is_cook_toom():
    assert strided(4, 3, 1) == cook_toom(4, 3)


def test_a_wrong_coefficient_or_stride_is_named():
    f = strided(2, 3, 2)
    wrong = tuple((*row[:-1], row[-1] + 1) if i == 0 else row for i, row in enumerate(f.at))
    with pytest.raises(VerificationError, match=r"F\(2,3\) at stride 2: .* \(0, 1, 3\)"):
        dataclasses.replace(f, at=wrong).verify()
    # F(2, 3) at stride 2 and F(2, 4) at stride 1 have as many inputs, and as many products.
    with pytest.raises(VerificationError):
        dataclasses.replace(strided(2, 4, 1), r=3, stride=2, g=f.g).verify()


def test_plain_data_keeps_the_stride():
    f = strided(3, 5, 3)
    assert BilinearAlgorithm.from_dict(f.to_dict()) == f
    assert "stride" not in cook_toom(3, 5).to_dict()


@pytest.mark.parametrize(
    "stride, error", [(0, InvalidValue), (True, InvalidType), ("2", InvalidType)]
)
def test_what_is_no_stride(stride, error):
    with pytest.raises(error, match="stride: got"):
        strided(2, 3, stride)


def test_the_gradient_of_a_strided_filter_is_no_such_algorithm():
    with pytest.raises(InvalidValue, match="stride: got 2; allowed: 1"):
        strided(2, 3, 2).exchange()


def test_transforms_are_shipped_and_refuse_points():
    shipped = transforms.load(4, 3, stride=2)
    assert shipped is transforms.load(4, 3, name="f4_3_s2")
    assert (shipped.n, shipped.products, shipped.step) == (9, 9, 8)
    derived = transforms.load(2, 3, order="naive", stride=2)
    assert derived.name == "f2_3_s2_naive" and "--stride 2" in derived.header
    with pytest.raises(InvalidValue, match="points: got '0,1,inf' with stride 2"):
        transforms.load(2, 3, "0,1,inf", stride=2)
