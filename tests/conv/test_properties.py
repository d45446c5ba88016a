"""What a convolution must do with real numbers, within the error that theory allows.

The tolerance is `winogen.numerics.error_bound`, which no order of summation exceeds: no number
here was tuned. Where the error is to be what was promised, it is compared with `estimate`.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from conv.reference import convolve
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels.turns import first

from winogen.codegen.transforms import load
from winogen.conv import Conv2d
from winogen.kernels import summation
from winogen.numerics import Direct, error_bound, estimate
from winogen.toolchain import host_target


@dataclass(frozen=True)
class Case:
    algorithm: str
    kernel: tuple
    tile: tuple = None
    layout: str = "NCHW"
    dtype: str = "float32"
    stride: int = 1

    def conv(self, w, bias=None, **options):
        return Conv2d(
            w, bias, algorithm=self.algorithm, tile=self.tile, layout=self.layout, **options
        )

    def terms(self, channels):
        """Transforms along both axes and the length of the sums, as the bounds ask for them."""
        if self.tile is None:
            return None, None, channels * self.kernel[0] * self.kernel[1]
        along_w = load(self.tile[1], self.kernel[1], stride=self.stride)
        if self.algorithm == "winograd1d":
            return None, along_w, channels * self.kernel[0]
        return load(self.tile[0], self.kernel[0], stride=self.stride), along_w, channels

    def bound(self, x, w, bias=None):
        """The largest error of a convolution of x with w."""
        largest = [0 if a is None else float(np.abs(a).max(initial=0)) for a in (x, w, bias)]
        return error_bound(*self.terms(w.shape[1]), self.dtype, *largest)

    def draw(self, rng, channels, size, filters=3, batch=1, groups=1):
        """Normal x in the layout, w and bias."""
        x = rng.standard_normal((batch, groups * channels, *size)).astype(self.dtype)
        w = rng.standard_normal((groups * filters, channels, *self.kernel)).astype(self.dtype)
        bias = rng.standard_normal(groups * filters).astype(self.dtype)
        return self.arrange(x), w, bias

    def arrange(self, x):
        return np.ascontiguousarray(x.transpose(0, 2, 3, 1)) if self.layout == "NHWC" else x

    def __str__(self):
        tile = "x".join(map(str, self.tile or ("none",)))
        kernel = "x".join(map(str, self.kernel))
        return f"{self.algorithm}-{kernel}-tile-{tile}-{self.layout}-{self.dtype}"


CASES = [
    Case("mcmr", (3, 3), (4, 4)),
    Case("mcmr", (3, 3), (6, 6), "NHWC"),
    Case("mcmr", (3, 3), (2, 5)),
    Case("mcmr", (3, 3), (7, 8), "NHWC", "float64"),
    Case("mcmr", (1, 7), (1, 2)),
    Case("mcmr", (7, 1), (4, 1), "NHWC"),
    Case("mcmr", (1, 1), (1, 1)),
    Case("mcmr", (4, 5), (2, 4), "NHWC"),
    Case("winograd2d", (3, 3), (4, 4)),
    Case("winograd2d", (2, 2), (5, 3), "NHWC"),
    Case("winograd2d", (5, 5), (2, 4), "NCHW", "float64"),
    Case("winograd1d", (3, 3), (1, 6)),
    Case("winograd1d", (4, 2), (1, 4), "NHWC"),
    Case("winograd1d", (7, 1), (1, 1)),
    Case("winograd1d", (3, 7), (1, 3), "NCHW", "float64"),
    Case("direct", (3, 3)),
    Case("im2col", (5, 2), None, "NHWC", "float64"),
]
cases = pytest.mark.parametrize("case", CASES, ids=str)
some_cases = pytest.mark.parametrize("case", first(4, zip(CASES)), ids=str)
numbers = st.integers
# More than one tile along each axis, and ragged ones; one seed for the values.
sizes = st.tuples(numbers(9, 20), numbers(9, 20))
seeds = st.builds(np.random.default_rng, numbers(0, 2**32 - 1))


@some_cases
@settings(max_examples=25)
@given(
    rng=seeds,
    channels=numbers(1, 40),
    size=sizes,
    groups=numbers(1, 2),
    padding_mode=st.sampled_from(("zeros", "reflect", "replicate", "circular")),
    padding=st.tuples(numbers(0, 3), numbers(0, 3)),
    edge=st.sampled_from(("discard", "direct")),
)
def test_the_error_stays_below_its_bound(
    case, rng, channels, size, groups, padding_mode, padding, edge
):
    x, w, bias = case.draw(rng, channels, size, batch=2, groups=groups)
    options = dict(padding=(padding,) * 2, padding_mode=padding_mode, groups=groups)
    y = case.conv(w, bias, edge=edge, **options)(x)
    wanted = convolve(x, w, bias, layout=case.layout, **options)
    assert np.abs(y - wanted).max() <= case.bound(x, w, bias)


@some_cases
@settings(max_examples=10)
@given(rng=seeds, channels=numbers(1, 20), size=sizes)
def test_linear_in_the_input_and_in_the_weights(case, rng, channels, size):
    x, w, _ = case.draw(rng, channels, size)
    more_x, more_w, _ = case.draw(rng, channels, size)
    y = case.conv(w)(x)
    # Powers of two and signs pass through every operation unchanged.
    assert np.array_equal(case.conv(w)(-4 * x), -4 * y)
    assert np.array_equal(case.conv(-0.5 * w)(x), -0.5 * y)
    tolerance = case.bound(x, w) + case.bound(more_x, w) + case.bound(x + more_x, w)
    assert np.abs(case.conv(w)(x + more_x) - y - case.conv(w)(more_x)).max() <= 1.1 * tolerance
    tolerance = case.bound(x, w) + case.bound(x, more_w) + case.bound(x, w + more_w)
    assert np.abs(case.conv(w + more_w)(x) - y - case.conv(more_w)(x)).max() <= 1.1 * tolerance


@cases
@settings(max_examples=10)
@given(rng=seeds, size=sizes, data=st.data())
def test_an_impulse_recovers_the_filter(case, rng, size, data):
    """Cross-correlation: the filter appears mirrored about the impulse."""
    _, w, _ = case.draw(rng, 3, size)
    channel = data.draw(numbers(0, 2))
    row, col = (data.draw(numbers(0, extent - 1)) for extent in size)
    x = np.zeros((1, 3, *size), case.dtype)
    x[0, channel, row, col] = 1
    kh, kw = case.kernel
    y = case.conv(w, padding=(kh - 1, kw - 1))(case.arrange(x))
    y = y.transpose(0, 3, 1, 2) if case.layout == "NHWC" else y
    wanted = np.zeros_like(y)
    wanted[0, :, row : row + kh, col : col + kw] = w[:, channel, ::-1, ::-1]
    assert np.abs(y - wanted).max() <= case.bound(x, w)


@cases
@settings(max_examples=10)
@given(rng=seeds, size=sizes, shift=st.tuples(numbers(0, 7), numbers(0, 7)))
def test_a_shifted_input_shifts_the_output(case, rng, size, shift):
    x, w, _ = case.draw(rng, 2, size)
    kh, kw = case.kernel
    conv = case.conv(w, padding=(kh - 1, kw - 1))
    ends = ((0, 0), (shift[0], 0), (shift[1], 0))
    ends = (*ends, (0, 0)) if case.layout == "NHWC" else ((0, 0), *ends)
    y, moved = conv(x), conv(np.pad(x, ends))
    assert np.abs(moved - np.pad(y, ends)).max() <= 2 * case.bound(x, w)


@pytest.mark.thorough
def test_code_as_shipped_stays_below_the_bound(shipped_kernels):
    """The other tests compile with less optimisation, which need not round the same way."""
    rng = np.random.default_rng(9)
    for case in (CASES[0], CASES[8], CASES[11], CASES[15]):
        x, w, bias = case.draw(rng, 37, (17, 23), filters=35)
        wanted = convolve(x, w, bias, padding=((1, 1), (1, 1)))
        assert np.abs(case.conv(w, bias, padding=1)(x) - wanted).max() <= case.bound(x, w, bias)


@pytest.mark.parametrize("layout", ("NCHW", "NHWC"))
def test_whatever_auto_takes_is_right(layout):
    rng = np.random.default_rng(3)
    for options in (dict(stride=2), dict(dilation=2), dict(groups=16), dict(padding=1), dict()):
        groups = options.get("groups", 1)
        case = Case("auto", (3, 3), None, layout)
        x, w, bias = case.draw(rng, 16 // groups, (9, 11), 16 // groups, groups=groups)
        conv = case.conv(w, bias, **options)
        plan = conv.plan(x.shape)
        chosen = Case(plan.algorithm, (3, 3), plan.tile, layout, stride=options.get("stride", 1))
        pairs = {
            name: ((1, 1),) * 2
            if name == "padding"
            else value
            if name == "groups"
            else (value,) * 2
            for name, value in options.items()
        }
        wanted = convolve(x, w, bias, layout=layout, **pairs)
        assert np.abs(conv(x) - wanted).max() <= chosen.bound(x, w, bias)


@pytest.mark.parametrize(
    "algorithm, m",
    first(2, [("direct", 2), ("mcmr", 4), ("winograd2d", 4), *(("mcmr", m) for m in (2, 6, 8))]),
)
def test_the_error_is_what_was_estimated(algorithm, m, shipped_kernels):
    """A filter transformed in float32, or one long chain of sums, would show here."""
    case = Case(algorithm, (3, 3), None if algorithm == "direct" else (m, m))
    x, w, _ = case.draw(np.random.default_rng(10), 256, (24, 24), filters=32)
    wanted = convolve(x, w)
    error = np.linalg.norm(case.conv(w)(x) - wanted) / np.linalg.norm(wanted)
    terms = {"channels": 256, **summation(algorithm, host_target(), 256)}
    expected = estimate(
        Direct(m, 3) if algorithm == "direct" else load(m, 3),
        order="program",
        distribution="normal",
        filters="float64",
        fused=True,
        **terms,
    )
    assert expected.relative_l2 / 2 < error < 2 * expected.relative_l2
