"""Algorithms of integers: equal to direct convolution, and how many channels a sum holds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from winogen import cook_toom, winograd
from winogen.errors import InvalidValue, VerificationError
from winogen.fixed import integral
from winogen.fixed.integral import Integral
from winogen.fixed.ranges import forms, signed

GAUSSIAN = "x, x-1, x+1, x^2+1, inf"
_POINTS = st.sampled_from(["1", "-1", "2", "-2", "1/2", "3", "-3/2", "5/8"])


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 4), st.integers(1, 4), st.data())
def test_integers_compute_the_scaled_convolution(m, r, data):
    count = m + r - 1
    some = data.draw(st.lists(_POINTS, min_size=count - 1, max_size=count - 1, unique=True))
    made = integral(cook_toom(m, r, ["0", *some][:count]))
    random = np.random.default_rng(count)
    d, g = (random.integers(-128, 128, size).astype(object) for size in (made.algorithm.n, r))
    bt, gm, at = (np.array(rows, object) for rows in (made.bt, made.g, made.at))
    y = at @ ((gm @ g) * (bt @ d))
    assert y.tolist() == [made.scale * sum(g[k] * d[i + k] for k in range(r)) for i in range(m)]


def test_what_is_known_of_bytes():
    two, four = integral(cook_toom(2, 3)), integral(winograd(4, 3, GAUSSIAN))
    for made, scale, channels in ((two, 4, 3640), (four, 16, 910)):
        assert made.scale**2 == scale
        assert made.channels(signed(8), signed(8)) == channels
        assert all(made.operands(kind, signed(8)).bits <= 16 for kind in ("input", "filter"))
    grown = integral(cook_toom(4, 3)).operands("input", signed(8), axes=1).bits - 8
    assert grown == 11  # by the points that are the best of float32


def test_an_odd_factor_of_the_scale_needs_no_bits():
    made = integral(cook_toom(4, 3, "0, 1, -1, 2, -2, inf"))
    assert made.scale == 24 and made.divisor() == (9, 6)
    assert made.channels(signed(8), signed(8)) == ((1 << 31) - 1) // (128 * 128 * 9 * 64)


@pytest.mark.parametrize("make", [lambda: cook_toom(2, 3), lambda: winograd(4, 3, GAUSSIAN)])
def test_programs_are_of_integers(make):
    made = integral(make())
    for kind, program in made.programs.items():
        assert program.verify(made.matrices[kind])
        assert forms(program)


def test_a_wrong_scale_is_noticed():
    made = integral(cook_toom(2, 3))
    with pytest.raises(VerificationError):
        Integral(made.algorithm, made.bt, made.g, made.at, 4).verify()


def test_roots_are_refused():
    with pytest.raises(InvalidValue, match="algorithm: got the coefficient"):
        integral(cook_toom(2, 2, ["sqrt(2)", "-sqrt(2)", "inf"]))
