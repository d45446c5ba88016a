"""winogen.gemm on integers, which no order of summation rounds: results equal those of numpy."""

import copy
import pickle
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from conv.activations import TRIALS
from conv.reference import convolve
from kernels.turns import turns

import winogen
from winogen.conv import execute
from winogen.conv import gemm as implementation
from winogen.conv.choice import Choice
from winogen.conv.cuts import MeasuredChoice
from winogen.conv.stock import only
from winogen.conv.wisdom import Entry, Wisdom
from winogen.errors import CompilerNotFound, InvalidType, InvalidValue
from winogen.kernels.gemm import GemmSpec, tuning
from winogen.records import Machine, Precision
from winogen.records.tuning import STREAMS
from winogen.toolchain import host_target, host_targets

TARGET = host_target()
DTYPES = ("float32", "float64")


def integers(shape, dtype, seed=0):
    return np.random.default_rng([seed, *shape]).integers(-4, 5, shape).astype(dtype)


def matrix(shape, dtype, transposed, seed):
    """A matrix, or a view of its transpose."""
    if transposed:
        return integers(shape[::-1], dtype, seed).T
    return integers(shape, dtype, seed)


def check(m, n, k, dtype="float32", turned=(False, False), **options):
    """Both ways to multiply equal numpy, and write nothing but the output."""
    a, b = matrix((m, k), dtype, turned[0], 1), matrix((k, n), dtype, turned[1], 2)
    expected = a.astype("int64") @ b.astype("int64")
    assert np.array_equal(winogen.Gemm(b, **options)(a), expected), (m, n, k)
    if "tuning" not in options:
        around = np.full((m + 2, n + 3), 7.0, dtype)
        out = around[1:-1, 2:-1]
        assert winogen.gemm(a, b, out=out, **options).base is not None
        assert np.array_equal(out, expected), (m, n, k)
        around[1:-1, 2:-1] = 7
        assert (around == 7).all()


@pytest.fixture
def small_caches(monkeypatch):
    """Caches so small that all five loops go round."""
    monkeypatch.setattr(
        implementation, "current", lambda: Machine(l2_bytes=1 << 13, l3_bytes=1 << 15)
    )


def test_a_product_is_planned_for_each_machine(small_caches, monkeypatch):
    b = np.ones((300, 1000), np.float32)
    small = winogen.Gemm(b)._call(200, (300, 1), 1000).work
    monkeypatch.setattr(implementation, "current", Machine)
    whole = winogen.Gemm(b)._call(200, (300, 1), 1000).work
    assert small.n_blocks > whole.n_blocks == 1


@pytest.mark.parametrize("dtype, columns", turns(DTYPES, (1, 1000)))
def test_every_residue(dtype, columns, small_caches):
    """Of rows, columns and terms, modulo the register block, the lanes and the depth of a block."""
    lanes = TARGET.lanes(dtype)
    block = replace(tuning(TARGET, columns, dtype), depth=2 * lanes)
    panel = block.vectors * lanes
    for m in range(1, 2 * block.rows + 2):
        check(m, panel + m % 3, 2 * lanes + m % 2, dtype, tuning=block)
    for n in range(1, 2 * panel + 2):
        check(block.rows + n % 2, n, lanes + n % 5, dtype, tuning=block)
    for k in range(1, 6 * lanes + 2):
        check(block.rows - k % 3, 1 + k % panel, k, dtype, tuning=block)


@pytest.mark.parametrize("turned", list(product((False, True), repeat=2)))
@pytest.mark.parametrize("dtype", DTYPES)
def test_transposed_operands(dtype, turned, small_caches):
    for m, n, k in ((1, 1, 1), (1, 40, 9), (40, 1, 9), (37, 70, 61), (5, 9, 300), (60, 200, 17)):
        for threads in (1, 3):
            check(m, n, k, dtype, turned, threads=threads)


@pytest.mark.parametrize("target", host_targets()[1:], ids=lambda target: target.name)
def test_other_instruction_sets(target, monkeypatch):
    monkeypatch.setenv("WINOGEN_ISA", target.name)
    for index, (m, n, k) in enumerate(product((1, 13, 30), (1, 7, 33), (1, 19, 260))):
        check(m, n, k, DTYPES[index % 2], (index % 3 == 0, index % 4 == 0))


def test_views_that_are_not_contiguous():
    whole = integers((60, 90), "float32")
    b = integers((90, 50), "float32", 2)[::2, ::-1]
    views = (
        whole[::2, 3:48],
        whole[::-1, ::2],
        whole[:45, 7:40].T,
        np.broadcast_to(whole[0, :45], (20, 45)),
        np.asfortranarray(whole[:, 45:]),
        whole[5:6, 45:],
        np.frombuffer(b"x" + whole.tobytes(), np.uint8)[1:].view("float32").reshape(-1, 45),
    )
    for a in views:
        terms = a.shape[1]
        expected = a.astype("int64") @ b[:terms].astype("int64")
        assert np.array_equal(winogen.gemm(a, b[:terms]), expected)
        assert np.array_equal(winogen.Gemm(b[:terms])(a), expected)
        assert np.array_equal(winogen.gemm(b[:terms].T, a.T), expected.T)


@pytest.mark.parametrize("m, n, k", [s for s in product((0, 1, 3), repeat=3) if 0 in s])
def test_sizes_of_zero(m, n, k):
    a, b, bias = np.zeros((m, k)), np.zeros((k, n)), np.full(n, -2.0)
    for y in (winogen.gemm(a, b, bias), winogen.Gemm(b, bias)(a)):
        assert np.array_equal(y, np.full((m, n), -2.0)) and y.dtype == float
    out = np.full((m, n), np.nan)
    assert winogen.gemm(a, b, activation="relu", out=out) is not None and not out.any()


ASKED = (
    *(trial.of(37) for trial in TRIALS.values()),
    *(("clip", -3, 5), ("prelu", 0.5), ("prelu", np.linspace(-2, 2, 37))),
)


@pytest.mark.parametrize("activation", ASKED, ids=lambda one: str(one)[:20])
def test_bias_and_activation(activation, small_caches):
    for dtype in DTYPES:
        a, b = integers((29, 50), dtype), integers((50, 37), dtype, 1)
        bias = integers((37,), dtype, 2)
        pixels, filters = a[None, None].astype(float), b.T[:, :, None, None]
        with np.errstate(over="ignore"):  # of exp, in the reference
            expected = convolve(pixels, filters, bias, layout="NHWC", activation=activation)[0, 0]
        for y in (
            winogen.gemm(a, b, bias, activation=activation, threads=2),
            winogen.Gemm(b, bias, activation=activation)(a),
        ):
            np.testing.assert_allclose(y, expected, rtol=3e-6, atol=3e-6)


@pytest.mark.thorough
def test_nothing_depends_on_threads_or_prefetching(small_caches, monkeypatch):
    """Of real numbers every bit is the same."""
    monkeypatch.setattr("winogen.conv.product._WORTHWHILE", 1)
    draw = np.random.default_rng(3)
    a, b = draw.standard_normal((133, 300), "f4"), draw.standard_normal((300, 95), "f4")
    bias = draw.standard_normal(95, "f4")
    first = winogen.gemm(a, b, bias, activation="gelu", threads=1)
    for threads in (2, 3, 8):
        assert np.array_equal(winogen.gemm(a, b, bias, activation="gelu", threads=threads), first)
    block = tuning(TARGET, 95)
    for stream, distance, level in (
        *(("none", 0, 2), ("A", 64, 1), ("B", 16384, 2), ("both", 0, 1), ("output", 64, 2)),
    ):
        sizes = replace(
            block,
            prefetch=distance,
            prefetch_streams=STREAMS[stream],
            prefetch_level=level,
            prefetch_output=distance,
            output_level=level,
        )
        product_of = winogen.Gemm(b, bias, activation="gelu", tuning=sizes)
        assert np.array_equal(product_of(a), first)


def test_large_products_stop_for_signals(monkeypatch):
    """In pieces the result is the same."""
    monkeypatch.setattr(execute, "_PATIENCE", 1e-6)
    execute.forget()
    check(200, 100, 300, threads=2)
    execute.forget()


@pytest.mark.parametrize("shape", [(20, 33), (0, 5), (4, 0)])
@pytest.mark.parametrize("again", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copies_and_pickles_compute_the_same(shape, again):
    b, a = integers(shape, "float32", 1), integers((7, shape[0]), "float32", 2)
    layer = winogen.Gemm(b.T.copy().T, integers(shape[1:], "float32", 3), activation="relu")
    other = again(layer)
    b[:] = 9  # what was packed stays
    assert other.shape == shape and other.dtype == np.float32
    assert np.array_equal(other(a), layer(a))


def test_a_packed_matrix_is_a_copy():
    a, b, bias = np.ones((3, 4)), np.ones((4, 5)), np.zeros(5)
    times = winogen.Gemm(b, bias)
    b[:], bias[:] = 7, 7
    assert (times(a) == 4).all() and "run_part" in times.source


def good(**changes):
    arguments = {"a": np.ones((2, 3), "f4"), "b": np.ones((3, 4), "f4")} | changes
    return winogen.gemm(**arguments)


@pytest.mark.parametrize(
    "changes, error, message",
    [
        ({"a": [[1.0]]}, InvalidType, "a: got"),
        ({"a": np.ones(3, "f4")}, InvalidValue, "a: got shape (3,); allowed: 2 axes"),
        ({"b": np.ones((3, 4, 1), "f4")}, InvalidValue, "b: got shape (3, 4, 1); allowed: 2 axes"),
        ({"a": np.ones((2, 4), "f4")}, InvalidValue, "a: got shape (2, 4); allowed: (M, 3)"),
        ({"a": np.ones((2, 3))}, InvalidType, "a: got dtype float64; allowed: float32"),
        ({"b": np.ones((3, 4), int)}, InvalidType, "b: got dtype int64"),
        ({"bias": np.ones(3, "f4")}, InvalidValue, "bias: got shape (3,); allowed: (4,)"),
        ({"bias": np.ones(4)}, InvalidType, "bias: got dtype float64"),
        ({"activation": "sine"}, InvalidValue, "activation: got 'sine'"),
        ({"activation": ("prelu", [1, 2])}, InvalidValue, "(4,), one slope for each column of b"),
        ({"threads": 0}, InvalidValue, "threads: got 0"),
        ({"out": np.ones((2, 3), "f4")}, InvalidValue, "out: got shape (2, 3); allowed: (2, 4)"),
        ({"out": np.ones((2, 4))}, InvalidType, "out: got dtype <f8; allowed: <f4, as a has"),
        ({"out": np.ones((4, 2), "f4").T}, InvalidValue, "columns lie side by side"),
        ({"out": np.broadcast_to(np.float32(1), (2, 4))}, InvalidValue, "not writeable"),
        ({"out": [1]}, InvalidType, "out: got list"),
    ],
)
def test_wrong_arguments_are_named(changes, error, message):
    with pytest.raises(error) as caught:
        good(**changes)
    assert message in str(caught.value)


def test_out_may_not_overlap():
    whole = np.ones((4, 4), "f4")
    for changes in ({"b": whole[:3]}, {"a": whole[:2, :3]}, {"bias": whole[1]}):
        with pytest.raises(InvalidValue, match="overlaps"):
            good(out=whole[:2], **changes)
    times = winogen.Gemm(np.ones((4, 4), "f4"))
    with pytest.raises(InvalidValue, match="out: got an array that overlaps a"):
        times(whole[:2], out=whole[1:3])
    with pytest.raises(InvalidValue, match=r"a: got shape \(4, 3\); allowed: \(M, 4\)"):
        times(whole[:, :3])


def test_plans_say_what_runs_and_how_accurate_it_is():
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(shape).astype("f4") for shape in ((300, 1100), (1100, 64)))
    layer = winogen.Gemm(b, threads=1)
    plan, call = layer.plan(a.shape), layer._call(300, (1100, 1), 64)
    assert (plan.operation, plan.input_shape, plan.output_shape) == ("gemm", (300, 1100), (300, 64))
    sizes = call.work.spec.tuning
    assert plan.variant == f"gemm {sizes.rows} x {sizes.vectors}" and plan.isa == TARGET.name
    assert plan.source == layer.source and plan.workspace_bytes == call.workspace_bytes
    assert plan.packed_weight_bytes == call.work.packed_bytes
    exact = a.astype("f8") @ b.astype("f8")
    error = np.abs(layer(a) - exact).max() / np.abs(exact).max()
    assert plan.predicted_error / 3 < error < 3 * plan.predicted_error
    assert plan.predictions[0].seconds < layer.plan((600, 1100)).predictions[0].seconds
    assert str(plan).startswith("gemm float32 C: 300x1100 * 1100x64 -> 300x64\n")
    for shape in ((300, 1101), (300,), (0, 1100)):
        with pytest.raises(InvalidValue, match="^a: got shape .*; allowed: "):
            layer.plan(shape)


def test_another_kernel_serves_where_the_usual_one_is_not_at_hand(monkeypatch):
    b = np.ones((40, 3), np.float32)
    usual = winogen.Gemm(b, threads=1).plan((50, 40)).variant
    target, wide = TARGET, tuning(TARGET, 3 * TARGET.lanes("float32"))
    if wide == tuning(TARGET, 3):
        pytest.skip(f"{target.name} has one register block for all products")
    kept = only(frozenset({GemmSpec(Precision.of("float32"), target, wide)}))
    monkeypatch.setattr("winogen.conv.query.stock_of", lambda target: kept)
    plan = winogen.Gemm(b, threads=1).plan((50, 40))
    assert plan.variant == f"gemm {wide.rows} x {wide.vectors}" != usual


def test_without_any_kernel_at_hand_a_product_says_what_is_missing(monkeypatch):
    b = np.ones((40, 3), np.float32)
    nothing = only(frozenset())
    monkeypatch.setattr("winogen.conv.query.stock_of", lambda target: nothing)
    with pytest.raises(CompilerNotFound, match="^a product of matrices in float32: no kernel"):
        winogen.Gemm(b, threads=1).plan((51, 40))


def test_measurements_of_convolutions_have_no_say(monkeypatch):
    entry = Entry(Choice("direct"), MeasuredChoice(1.0, 2.0, 1, "2026-01-01"))
    monkeypatch.setattr("winogen.conv.wisdom.current", lambda target: Wisdom({"a layer": entry}))
    execute.forget()
    a, b = integers((7, 5), "float32"), integers((5, 9), "float32", 1)
    assert np.array_equal(winogen.gemm(a, b), a @ b) and winogen.Gemm(b).plan((7, 5))
    execute.forget()
