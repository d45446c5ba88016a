"""Layers in words of chosen widths: exact in wide ones; in short ones as integers and shifts."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from winogen.algebra import cook_toom, winograd
from winogen.errors import InvalidType, InvalidValue
from winogen.fixed import Integral, integral
from winogen.fixed.layer import WordConv2d
from winogen.fixed.ranges import signed
from winogen.fixed.words import (
    SUMMED,
    SUMS,
    TILES,
    Seen,
    Span,
    Widths,
    Words,
    full_widths,
    spans,
)  # fmt: skip

ALGORITHMS = {
    "F(2, 3)": lambda: cook_toom(2, 3),
    "F(4, 3)": lambda: cook_toom(4, 3),
    "F(4, 3), small": lambda: cook_toom(4, 3, "0, 1, -1, 2, -2, inf"),
    "F(4, 3), x^2 + 1": lambda: winograd(4, 3, "x, x-1, x+1, x^2+1, inf"),
    "F(6, 3)": lambda: cook_toom(6, 3),
    "F(2, 5)": lambda: cook_toom(2, 5, "0, 1, -1, 2, -2, inf"),
}
RANDOM = np.random.default_rng(0)


@cache
def made_by(name: str) -> Integral:
    return integral(ALGORITHMS[name]())


def direct(x, w, padding):
    ends = [(0, 0), (0, 0), *((p, p) for p in padding)]
    windows = np.lib.stride_tricks.sliding_window_view(
        np.pad(x.astype(np.int64), ends), w.shape[2:], (2, 3)
    )
    return np.einsum("nchwij,mcij->nmhw", windows, w.astype(np.int64))


def bytes_of(shape, ends=False):
    return (
        RANDOM.choice([-128, 127], shape).astype(np.int8)
        if ends
        else RANDOM.integers(-128, 128, shape).astype(np.int8)
    )


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(sorted(ALGORITHMS)), st.integers(1, 2), st.integers(1, 5), st.integers(1, 3),
    st.tuples(st.integers(5, 15), st.integers(5, 15)),
    st.tuples(st.integers(0, 2), st.integers(0, 2)), st.booleans(), st.booleans(),
)  # fmt: skip
def test_full_widths_are_direct_convolution(name, n, c, m, size, padding, ends, unlimited):
    made = made_by(name)
    taps = made.algorithm.r
    x, w = bytes_of((n, c, *size), ends), bytes_of((m, c, taps, taps), ends)
    widths = Widths() if unlimited else full_widths(made, c)
    y = WordConv2d(w, made, widths, padding=padding)(x)
    assert y.dtype == np.int64 and np.array_equal(y, direct(x, w, padding))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_nothing_is_wider_than_its_span(name):
    made = made_by(name)
    taps = made.algorithm.r
    x, w = bytes_of((9, 2, 12, 12), ends=True), bytes_of((4, 2, taps, taps), ends=True)
    layer = WordConv2d(w, made)
    known, seen = spans(made, 2), layer.see(x)
    assert seen.keys() <= known.keys() and {TILES, SUMS, SUMMED} <= seen.keys()
    for key, span in seen.items():
        assert len(span.bits) == len(known[key].bits)
        assert all(a <= b for a, b in zip(span.bits, known[key].bits)), key
    if name == "F(2, 3)":
        assert max(seen[TILES].bits) == made.operands("input", signed(8)).bits


def shifted(value: int, dropped: int, bits: int) -> int:
    """What a device holds of an integer, times its step."""
    held = (value + ((1 << dropped) >> 1)) >> dropped
    return min(max(held, signed(bits).low), signed(bits).high) << dropped


def run_on_integers(part, program, lines, known, bits):
    """Each line through a program, integer by integer."""
    found = []
    for number, line in enumerate(lines):
        values = dict(zip(program.inputs, line))
        for one in program.statements:
            total = sum(int(t.coefficient) * values[t.operand] for t in one.terms)
            dropped = int(known[part, one.target].dropped(bits)[number])
            values[one.target] = shifted(total, dropped, bits)
        found.append([values[name] for name in program.outputs])
    return list(map(list, zip(*found)))


@pytest.mark.parametrize("chunk", [1, 2, 3])
@pytest.mark.parametrize("name", ["F(2, 3)", "F(4, 3), small", "F(4, 3), x^2 + 1"])
@pytest.mark.parametrize("from_data", [False, True])
def test_one_tile_is_what_integers_and_shifts_make_of_it(name, from_data, chunk):
    made, widths, channels = made_by(name), Widths(7, 8, 11, 9), 3
    size, scale = len(made.bt[0]), made.scale**2
    x, w = bytes_of((1, channels, size, size)), bytes_of((1, channels, 3, 3))
    known = (
        WordConv2d(w, made).see(x // 2)
        if from_data else spans(made, channels)
    )  # fmt: skip
    y = WordConv2d(w, made, widths, seen=known if from_data else None, chunk=chunk)(x)

    program, g = made.quick_programs, np.array(made.g)
    tiles = []
    for tile in x[0].astype(int).tolist():
        columns = list(map(list, zip(*tile)))
        between = run_on_integers("input columns", program["input"], columns, known, 11)
        v = run_on_integers("input rows", program["input"], between, known, 11)
        tiles.append(list(map(list, zip(*v))))
    u = np.einsum("pi,cij,qj->pqc", g, w[0].astype(int), g)
    count = len(made.bt)
    sums = [[0] * count for _ in range(count)]
    own = Seen({})
    own(("filters", ""), u.reshape(-1, channels).astype(float))
    for p in range(count):
        for q in range(count):
            line = p * count + q
            at_filter = int(own.spans["filters", ""].dropped(7)[line])
            at_tile, at_sum = (int(known[key].dropped(b)[line]) for key, b in
                               ((TILES, 8), (SUMS, 9)))  # fmt: skip
            total = 0
            for first in range(0, channels, chunk):
                part = sum(
                    shifted(int(u[p, q, c]), at_filter, 7) * shifted(tiles[c][p][q], at_tile, 8)
                    for c in range(first, min(first + chunk, channels))
                )
                rounded = (part + ((1 << at_sum) >> 1)) >> at_sum << at_sum
                total = shifted(total + rounded, at_sum, 9)
            sums[p][q] = shifted(total, int(known[SUMMED].dropped(11)[line]), 11)
    columns = list(map(list, zip(*sums)))
    between = run_on_integers("output columns", program["output"], columns, known, 11)
    outputs = np.array(run_on_integers("output rows", program["output"], between, known, 11)).T
    assert np.array_equal(y[0, 0], np.floor(outputs / scale + 0.5))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-5000, 5000), min_size=2, max_size=30), st.integers(3, 12),
       st.booleans())  # fmt: skip
def test_words_keep_the_order_and_stay_within_their_bits(values, bits, from_data):
    key, array = ("any", ""), np.array([values], float)
    seen = Seen({})
    seen(key, array)
    known = seen.spans if from_data else {key: Span(seen.spans[key].bits)}
    words = Words(known, Widths(transforms=bits))
    held, step = words(key, array), 2.0 ** known[key].dropped(bits)[0]
    order = np.argsort(array[0], kind="stable")
    assert (np.diff(held[0][order]) >= 0).all()
    assert np.array_equal(words(key, held), held)
    integers = held / step
    assert np.array_equal(integers, np.rint(integers))
    assert signed(bits).low <= integers.min() and integers.max() <= signed(bits).high
    inside = (signed(bits).low * step <= array) & (array <= (signed(bits).high - 0.5) * step)
    assert (np.abs(held - array)[inside] <= step / 2).all()


@pytest.mark.parametrize("name", ["F(2, 3)", "F(4, 3), small", "F(6, 3)"])
@pytest.mark.parametrize("field", ["filters", "tiles", "transforms", "sums"])
def test_two_bits_more_are_never_worse(name, field):
    made = made_by(name)
    x, w = bytes_of((1, 8, 12, 12)), bytes_of((4, 8, 3, 3))
    expected = direct(x, w, (0, 0))
    known = WordConv2d(w, made).see(x)
    errors = [
        np.square(WordConv2d(w, made, Widths(**{field: bits}), seen=known)(x) - expected).mean()
        for bits in range(6, 26, 2)
    ]
    assert errors[0] > 100 * errors[-1] and errors == sorted(errors, reverse=True)


def test_spans_drop_what_loses_least():
    values = RANDOM.standard_normal((3, 4000)) * 40
    values[1] **= 3  # with long tails, whose ends are better cut off
    key, seen = ("any", ""), Seen({})
    values = np.rint(values)
    seen(key, values)
    for bits in (4, 6, 9):
        dropped = seen.spans[key].dropped(bits)
        for line, row in enumerate(values):
            steps = 2.0 ** np.arange(20)[:, None]
            held = np.clip(np.floor(row / steps + 0.5), *signed(bits)) * steps
            lost = np.square(held - row).mean(1)
            assert lost[dropped[line]] <= 1.5 * lost.min(), (bits, line)


def test_room_is_for_values_that_are_larger_than_those_seen():
    made = made_by("F(6, 3)")
    x, w = bytes_of((1, 4, 20, 20)), bytes_of((4, 4, 3, 3))
    layer, expected = WordConv2d(w, made), direct(x, w, (0, 0))
    known = [layer.see(x // 4, room) for room in (1, 4)]
    assert max(known[1][TILES].bits) == max(known[0][TILES].bits) + 2
    errors = [np.square(WordConv2d(w, made, Widths(tiles=14), seen=one)(x) - expected).mean()
              for one in known]  # fmt: skip
    assert errors[0] > 100 * errors[1]
    # Nothing is wider than the widest values that there are.
    widest = spans(made, 4)[TILES].bits
    assert all(a <= b for a, b in zip(layer.see(x, 16)[TILES].bits, widest))


def test_what_does_not_fit_is_refused():
    made = made_by("F(2, 3)")
    w = np.ones((2, 3, 3, 3), np.int8)
    with pytest.raises(InvalidValue, match=r"filters: got 1; allowed: None, 2 to 128 bits"):
        Widths(filters=1)
    with pytest.raises(InvalidValue, match="sums: got 8.0; allowed"):
        Widths(sums=8.0)
    with pytest.raises(InvalidType, match="weight: got float32; allowed: an array of integers"):
        WordConv2d(w.astype(np.float32), made)
    with pytest.raises(InvalidValue, match="weight: got 200 to 200; allowed: -128 to 127"):
        WordConv2d(np.full((2, 3, 3, 3), 200), made)
    with pytest.raises(InvalidValue, match=r"weight: got the shape \(2, 3, 5, 5\); allowed: "):
        WordConv2d(np.ones((2, 3, 5, 5), np.int8), made)
    with pytest.raises(InvalidValue, match="chunk: got 0; allowed: None, a positive number"):
        WordConv2d(w, made, chunk=0)
    layer = WordConv2d(w, made)
    with pytest.raises(InvalidValue, match=r"x: got the shape \(1, 2, 8, 8\); allowed: \(N, 3"):
        layer(np.ones((1, 2, 8, 8), np.int8))
    with pytest.raises(InvalidValue, match="x: got the shape .*; allowed: no smaller than"):
        layer(np.ones((1, 3, 2, 8), np.int8))
