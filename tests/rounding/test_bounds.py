"""The bound holds for every way to compute, and is tight enough to catch a wrong result."""

import doctest
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels.turns import turns

from winogen.algebra import cook_toom, nest, winograd
from winogen.errors import WinogenError
from winogen.program.summation import shorten
from winogen.rounding import bounds
from winogen.rounding.bounds import Growth, Growths, error_bound, tile_error_bound
from winogen.rounding.tiles import Direct

ALGORITHMS = [
    cook_toom(2, 3),
    cook_toom(3, 3),
    cook_toom(4, 3),
    cook_toom(6, 3),
    cook_toom(8, 3),
    cook_toom(2, 5),
    cook_toom(4, 3, "0,1,-1,2,-2,inf"),
    cook_toom(4, 3, "0,sqrt(2)/2,-sqrt(2)/2,sqrt(2),-sqrt(2),inf"),
    winograd(4, 3, "x,x-1,x+1,x^2+1,inf"),
    cook_toom(1, 3),
    cook_toom(3, 1),
]
NAMES = [f"{f}-{f.points or f.moduli}".replace(" ", "") for f in ALGORITHMS]


@cache
def programs(f):
    """The three shortened programs of an algorithm."""
    return shorten(f.matrices)


def by_matrix(matrix, axis, data, dtype):
    """Sum each row from left to right, or pairwise, as numpy likes it."""
    rounded = np.array([[float(c) for c in row] for row in matrix], dtype)
    return np.moveaxis(np.tensordot(rounded, data.astype(dtype), (1, axis)), 0, axis).astype(dtype)


def by_program(program, axis, data, dtype):
    """Run the shortened program, statement by statement."""
    return np.moveaxis(program.run(np.moveaxis(data.astype(dtype), axis, 0)), 0, axis)


def by_fma(program, axis, data, dtype):
    """The same with every statement rounded once, as a fused multiply-add does."""
    values = dict(zip(program.inputs, np.moveaxis(data.astype(dtype), axis, 0)))
    values["0"] = np.zeros_like(next(iter(values.values())))
    for statement in program.statements:
        values[statement.target] = sum(
            dtype(float(t.coefficient)).astype("longdouble") * values[t.operand]
            for t in statement.terms
        ).astype(dtype)
    return np.moveaxis(np.stack([values[name] for name in program.outputs]), 0, axis)


def convolve(h, w, tile, weight, dtype, way):
    """One tile, C x n_h x n_w, in ``dtype``; the filter in double, rounded once."""
    run = {"matrix": by_matrix, "program": by_program, "fma": by_fma}[way]

    def both(kind, name, data, axes, dtype):
        for f, axis in zip((h, w), axes):
            step = getattr(f, name) if way == "matrix" else programs(f)[kind]
            data = run(step, axis, data, dtype)
        return data

    u = both("filter", "g", weight, (1, 2), np.float64).astype(dtype)
    v = both("input", "bt", tile, (1, 2), dtype)
    total = np.zeros(u.shape[1:], dtype)
    for product in u * v:  # the longest chain of additions there is
        total = total + product
    return both("output", "at", total, (0, 1), dtype)


def exact_tile(h, w, tile, weight):
    """The definition, without any rounding."""
    tile, weight = (np.vectorize(Fraction, otypes="O")(a.astype("float64")) for a in (tile, weight))
    y = np.zeros((h.m, w.m), "O")
    for i in range(h.r):
        for k in range(w.r):
            window = tile[:, i : i + h.m, k : k + w.m]
            y = y + (weight[:, i, k, None, None] * window).sum(axis=0)
    return y


def data(rng, h, w, channels, dtype, spread):
    """Values of very different sizes, some of them zero."""
    shapes = (channels, h.n, w.n), (channels, h.r, w.r)
    for shape in shapes:
        values = rng.uniform(-1, 1, shape) * 10.0 ** rng.uniform(-spread, spread, shape)
        yield (values * (rng.random(shape) > 0.1)).astype(dtype)


@pytest.mark.parametrize("f, way", turns(ALGORITHMS, ["matrix", "program", "fma"]))
def test_no_error_exceeds_the_bound(f, way):
    rng = np.random.default_rng(7)
    for partner, channels, spread in [(f, 3, 0), (ALGORITHMS[0], 5, 3), (f, 1, 0)]:
        for dtype in (np.float32, np.float64):
            tile, weight = data(rng, f, partner, channels, dtype, spread)
            y = convolve(f, partner, tile, weight, dtype, way)
            error = np.abs(y.astype("O") - exact_tile(f, partner, tile, weight)).astype("float64")
            sharp = tile_error_bound(f, partner, tile, weight, dtype)
            blunt = error_bound(
                f, partner, channels, dtype, np.abs(tile).max(), np.abs(weight).max()
            )
            assert (error <= sharp).all() and (sharp <= blunt).all()
            # A bound that holds always is of no use where it is far from what happens.
            assert error.max() == 0 or sharp.max() <= 20000 * error.max()


@pytest.mark.parametrize("name", ("f2_3", "f4_3", "f5_3", "f6_3", "f4_5", "f4_3_gaussian", "f7_3"))
def test_a_transform_is_bounded_by_its_own_programs(name):
    """A shortened program may carry a term further than its matrix shows; the bound knows."""
    from winogen.codegen.transforms import load

    entry = load(*map(int, name[1:4].split("_")), name=name)
    growths = Growths.of(entry)
    for kind, matrix, growth in (
        ("input", entry.bt, growths.input),
        ("output", entry.at, growths.output),
    ):
        entry.programs[kind].verify(matrix)
        assert (growth.matrix >= Growth.of_matrix(matrix).matrix * (1 - 1e-12)).all()


def test_a_program_that_cancels_is_measured():
    """t = g0 + g1, u = t - 2 g1 is g0 - g1, but carries three times the size of g1."""
    from winogen.program.ir import Program, Statement, Term

    program = Program(
        ("g0", "g1"),
        (
            Statement("t0", (Term(1, "g0"), Term(1, "g1"))),
            Statement("t1", (Term(1, "t0"), Term(-2, "g1"))),
        ),
        ("t0", "t1", "0"),
    )
    growth = Growth.of_program(program)
    assert growth.matrix.tolist() == [[1, 1], [1, 3], [0, 0]] and growth.roundings == 3
    kept, mixed = Growth.of_matrix([[1], [1], [1]]), Growth.of_matrix([[1, 1], [1, -1], [0, 0]])
    output = Growth.of_matrix([[1, 1, 1]])
    careless, careful = (Growths(kept, g, output) for g in (growth, mixed))
    assert error_bound(None, careless, 4) > 1.4 * error_bound(None, careful, 4)


@given(st.integers(0, 2000), st.floats(0, 1e3), st.floats(0, 1e3), st.sampled_from([0, 2, 4]))
@settings(max_examples=50)
def test_grows_with_everything(channels, x_max, w_max, index):
    f = ALGORITHMS[index]
    bound = error_bound(f, f, channels, "float32", x_max, w_max)
    assert 0 < bound < np.inf
    assert bound <= error_bound(f, f, channels + 1, "float32", x_max, w_max)
    assert bound <= error_bound(f, f, channels, "float32", 2 * x_max, w_max)
    assert bound <= error_bound(f, f, channels, "float32", x_max, w_max, bias_max=1)
    assert error_bound(f, f, channels, "float64", x_max, w_max) <= bound


def test_direct_convolution_is_the_classic_bound():
    """gamma_{n+3} |x||w| for n terms."""
    u = 2.0**-24
    for terms in (1, 9, 4608):
        assert error_bound(None, None, terms) == pytest.approx(terms * (terms + 3) * u, rel=1e-3)


def test_a_wrong_result_is_outside():
    """One wrong sign in a transform is far beyond the tolerance, even for F(6x6, 3x3)."""
    rng = np.random.default_rng(3)
    for f in ALGORITHMS[:4]:
        bad = replace(f, at=[*f.at[:-1], [-c for c in f.at[-1]]])
        tile, weight = data(rng, f, f, 64, np.float32, 0)
        y = convolve(bad, f, tile, weight, np.float32, "matrix")
        error = np.abs(y - exact_tile(f, f, tile, weight).astype("float64"))
        assert error.max() > 10 * tile_error_bound(f, f, tile, weight).max()


def test_one_algorithm_is_for_both_axes_as_in_measure():
    f, g = cook_toom(2, 3), cook_toom(4, 3)
    assert error_bound(f) == error_bound(f, f, 1)
    assert error_bound(f, channels=8, x_max=2) == error_bound(f, f, 8, x_max=2)
    assert error_bound((f, g)) == error_bound(nest(f, g)) == error_bound(f, g)
    assert error_bound(f, dims=1) == error_bound(None, f, 1) < error_bound(f)
    assert error_bound(f, None, 3) == error_bound(f, alg_w=None, channels=3) < error_bound(f, f, 3)
    assert error_bound(Direct(4, 3), channels=5) == error_bound(None, None, 5 * 9)
    assert error_bound(Direct(4, 3), dims=1) == error_bound(None, None, 3)


def test_refusals():
    f = cook_toom(2, 3)
    for arguments, words in [
        (("f2_3",), "algorithm: got 'f2_3'; allowed: a BilinearAlgorithm, "),
        ((f, 64), "algorithm: got 64; allowed"),
        ((f, f, 1.5), "channels: got 1.5; allowed"),
        (((f, f, f),), "algorithm: got 3 of them; allowed: a pair"),
    ]:
        with pytest.raises(WinogenError, match=words):
            error_bound(*arguments)
    with pytest.raises(WinogenError, match="dims: got 1 with algorithms for two axes"):
        error_bound((f, f), dims=1)
    with pytest.raises(WinogenError, match="dims: got 3"):
        error_bound(f, dims=3)
    for arguments, words in [
        ((f, f, -1), "channels: got -1"),
        ((f, f, 1, "int32"), "dtype: got int32"),
        ((f, f, 1, "float32", float("nan")), "x_max: got nan"),
        ((f, f, 1, "float32", 1, -1), "w_max: got -1"),
    ]:
        with pytest.raises(WinogenError, match=words):
            error_bound(*arguments)
    with pytest.raises(WinogenError, match="allowed: C x 4 x 4 and C x 3 x 3"):
        tile_error_bound(f, f, np.ones((1, 4, 5)), np.ones((1, 3, 3)))


def test_docstrings():
    assert doctest.testmod(bounds).failed == 0
