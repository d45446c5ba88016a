"""The gradient of the weights: exact where it can be, accurate elsewhere, the same bits always."""

from itertools import product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kernels.turns import first

from winogen.codegen.gradient import gradient_of
from winogen.codegen.render import render
from winogen.codegen.transforms import load
from winogen.conv import execute, gradient_planner, gradients, memory
from winogen.conv.execute import Environment
from winogen.conv.gradients import weight_gradient
from winogen.conv.problem import Layer
from winogen.errors import InvalidType, InvalidValue, OutOfMemory, Unsupported
from winogen.kernels import weight_gradient as kernel_sizes
from winogen.kernels.weight_gradient import GradientSpec
from winogen.records import TARGETS, Machine, Precision
from winogen.toolchain import host_target, host_targets
from winogen.toolchain.machine import current

LAYOUTS = ("NCHW", "NHWC")
# Kernels, and tiles of which all coefficients are halves: integers stay exact in float64.
EXACT = (
    ((3, 3), (2, 2)),
    ((3, 2), (2, 3)),
    ((1, 3), (1, 2)),
    ((2, 2), (2, 2)),
    ((1, 1), (1, 1)),
    ((5, 5), (1, 1)),
)


def definition(x, dy, kernel, padding, groups):
    """The gradient of the weights, NCHW; integers stay integers."""
    kind = np.int64 if np.issubdtype(x.dtype, np.integer) else np.float64
    x, dy = np.pad(x.astype(kind), ((0, 0), (0, 0), *padding)), dy.astype(kind)
    batch, channels, *_ = x.shape
    _, filters, height, width = dy.shape
    x = x.reshape(batch, groups, channels // groups, *x.shape[2:])
    dy = dy.reshape(batch, groups, filters // groups, height, width)
    dw = np.zeros((groups, filters // groups, channels // groups, *kernel), kind)
    for i, j in product(*map(range, kernel)):
        dw[..., i, j] = np.einsum(
            "ngmyx,ngcyx->gmc", dy, x[:, :, :, i : i + height, j : j + width], optimize=True
        )
    return dw.reshape(filters, channels // groups, *kernel)


def in_layout(array, layout, dtype):
    """A read-only contiguous array in the layout, from NCHW."""
    array = array.transpose(0, 2, 3, 1) if layout == "NHWC" else array
    made = np.ascontiguousarray(array, dtype)
    made.flags.writeable = False
    return made


def data(shape, filters, kernel, padding, draw):
    """x and dy of a convolution, in NCHW, from a function of a shape."""
    batch, _, *size = shape
    out = [n + sum(ends) - k + 1 for n, ends, k in zip(size, padding, kernel)]
    return draw(shape), draw((batch, filters, *out))


def check_exact(shape, filters, kernel, padding=((0, 0), (0, 0)), groups=1, layouts=LAYOUTS, **how):
    rng = np.random.default_rng(0)
    x, dy = data(shape, filters, kernel, padding, lambda s: rng.integers(-4, 5, s))
    wanted = definition(x, dy, kernel, padding, groups)
    for layout in layouts:
        arrays = (in_layout(array, layout, "float64") for array in (x, dy))
        options = dict(padding=padding, groups=groups, layout=layout, threads=1) | how
        dw = weight_gradient(*arrays, kernel, **options)
        assert dw.shape == wanted.shape and dw.dtype == np.float64
        assert np.array_equal(dw, wanted), (shape, filters, kernel, padding, groups, layout, how)


@pytest.mark.parametrize("kernel, tile", first(2, EXACT))
def test_integers_are_exact(kernel, tile):
    for t in map(load, tile, kernel):
        denominators = [c.denominator for c in sum((*t.at, *t.g, *t.bt), ())]
        assert all(d & (d - 1) == 0 for d in denominators)

    ends = st.tuples(st.integers(0, 2), st.integers(0, 2))

    @settings(max_examples=40)
    @given(
        batch=st.integers(1, 3),
        groups=st.integers(1, 3),
        channels=st.integers(1, 19),
        filters=st.integers(1, 19),
        size=st.tuples(st.integers(1, 12), st.integers(1, 12)),
        padding=st.tuples(ends, ends),
        layout=st.sampled_from(LAYOUTS),
        threads=st.sampled_from((1, 2)),
    )
    @example(1, 1, 1, 1, (1, 1), ((2, 2), (2, 2)), "NCHW", 1)
    @example(3, 1, 33, 49, (7, 30), ((1, 1), (1, 1)), "NHWC", 1)
    @example(1, 1, 3, 2, (3, 300), ((1, 1), (1, 1)), "NCHW", 1)  # several units of a row
    def check(batch, groups, channels, filters, size, padding, layout, threads):
        reach = (n + sum(ends) - k for n, ends, k in zip(size, padding, kernel))
        if min(reach) >= 0:
            check_exact(
                (batch, groups * channels, *size),
                groups * filters,
                kernel,
                padding,
                groups,
                (layout,),
                tile=tile,
                threads=threads,
            )

    check()


@pytest.mark.parametrize("target", [target.name for target in host_targets()])
def test_every_instruction_set_is_exact(target, monkeypatch):
    monkeypatch.setattr(gradients, "host_target", lambda: TARGETS[target])
    for shape, filters in (((2, 5, 6, 9), 11), ((1, 34, 5, 4), 18)):
        check_exact(shape, filters, (3, 3), ((1, 1), (1, 1)), tile=2)


def test_chunks_chains_and_bands_are_exact(monkeypatch):
    monkeypatch.setattr(kernel_sizes, "_CHUNK_BYTES", 1)
    monkeypatch.setattr(kernel_sizes, "_LEAST_TILES", 21)
    monkeypatch.setattr(kernel_sizes, "_UNIT_PIXELS", 6)
    monkeypatch.setattr(kernel_sizes, "_SUM_BYTES", 1)  # every band as small as it can be
    execute.forget()
    for threads in (1, 2):
        check_exact((3, 40, 11, 17), 53, (3, 3), ((1, 1), (0, 2)), tile=2, threads=threads)
        check_exact((2, 8, 9, 9), 36, (3, 3), ((1, 1), (1, 1)), 2, tile=2, threads=threads)
    execute.forget()


def test_a_chunk_is_summed_in_chains_of_bounded_length():
    work = choose((4, 4, 3, 3), (1, 4, 200, 2000), tile=(1, 1))
    tiles = work.chunk_units * work.unit_cols
    assert tiles > 4 * work.spec.tuning.depth and 64 < work.depth <= work.spec.tuning.depth


def choose(weight, shape, tile=None, tolerance=None, threads=1, dtype="float32"):
    """The work that a problem becomes on AVX-512."""
    m, _, *kernel = weight
    out = (shape[0], m, *(n - k + 3 for n, k in zip(shape[2:], kernel)))
    problem = gradients._problem(
        shape, out, np.dtype(dtype), kernel, stride=1, padding=1, dilation=1, groups=1,
        layout="NCHW",
    )  # fmt: skip
    return gradient_planner.choose(problem, tile, threads, tolerance, TARGETS["avx512"], Machine())


@pytest.mark.parametrize(
    "kernel, tile",
    first(1, [((3, 3), 4), ((3, 5), (4, 2)), ((3, 3), 2), ((3, 3), 6), ((5, 5), 1)]),
)
def test_floats_are_as_accurate_as_expected(kernel, tile):
    """A weight is a sum over 2800 pixels; frameworks have errors between 5e-7 and 1e-5 there."""
    rng = np.random.default_rng(1)
    padding = ((1, 1), (1, 1))
    x, dy = data((4, 20, 27, 26), 37, kernel, padding, rng.standard_normal)
    both = [], []
    for layout in LAYOUTS:
        x32, dy32 = (in_layout(array, layout, "float32") for array in (x, dy))
        rounded = [a if layout == "NCHW" else a.transpose(0, 3, 1, 2) for a in (x32, dy32)]
        wanted = definition(*rounded, kernel, padding, 1)
        dw = weight_gradient(x32, dy32, kernel, padding=1, layout=layout, tile=tile)
        assert dw.dtype == np.float32
        both[0].append(dw)
        both[1].append(np.abs(dw - wanted).max() / np.abs(wanted).max())
    pair = tile if isinstance(tile, tuple) else (tile, tile)
    expected = gradient_planner.predicted_error(
        "float32", kernel, pair, 4 * 27 * 26 // (pair[0] * pair[1]), 128
    )
    assert max(both[1]) < min(4 * expected, 1e-5)
    # The layouts do the same arithmetic.
    assert np.array_equal(*both[0])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_threads_change_no_bit(layout):
    rng = np.random.default_rng(2)
    x, dy = data((3, 40, 30, 31), 50, (3, 3), ((1, 1), (1, 1)), rng.standard_normal)
    x, dy = (in_layout(array, layout, "float32") for array in (x, dy))
    results = [
        weight_gradient(x, dy, 3, padding=1, layout=layout, threads=threads).tobytes()
        for threads in (1, 2, 3, 5, 1)
    ]
    assert len(set(results)) == 1


def test_the_choice_does_not_depend_on_threads():
    for shape in ((16, 64, 56, 56), (1, 200, 9, 5), (2, 3, 31, 30)):
        works = [choose((32, shape[1], 3, 3), shape, threads=n) for n in (1, 2, 7)]
        assert len({(w.tile, w.chunk_units, w.unit_cols, w.depth) for w in works}) == 1


def test_the_error_that_is_tolerated_decides_the_tile():
    shape = (16, 64, 56, 56)
    tiles = [
        choose((64, 64, 3, 3), shape, tolerance=tolerance).tile
        for tolerance in (1e-4, 3e-6, 1.3e-6)
    ]
    assert tiles == sorted(tiles, reverse=True) and len(set(tiles)) == 3
    assert choose((64, 64, 3, 3), shape).tile == (4, 4)
    assert choose((64, 64, 1, 1), shape).tile == (1, 1)
    with pytest.raises(InvalidValue, match=r"tolerance: got 1e-09; allowed: at least \d"):
        choose((64, 64, 3, 3), shape, tolerance=1e-9)
    assert max(choose((64, 64, 3, 3), shape, tolerance=1e-12, dtype="float64").tile) > 1


@pytest.mark.parametrize("layout", LAYOUTS)
def test_slices_of_channels_are_read_in_place(layout, monkeypatch):
    rng = np.random.default_rng(4)
    x, dy = data((2, 21, 7, 9), 18, (3, 3), ((1, 1), (1, 1)), lambda s: rng.integers(-4, 5, s))
    wanted = definition(x, dy, (3, 3), ((1, 1), (1, 1)), 1)
    slices = []
    for array, around, begin in ((x, 40, 3), (dy, 18 + 16, 16)):
        batch, channels, *size = array.shape
        whole = np.full((batch, around, *size), np.nan)
        whole[:, begin : begin + channels] = array
        whole = np.ascontiguousarray(whole if layout == "NCHW" else whole.transpose(0, 2, 3, 1))
        part = (slice(None), slice(begin, begin + channels))
        slices.append(whole[part] if layout == "NCHW" else whole[..., part[1]])
    monkeypatch.setattr(memory, "contiguous", lambda *_: pytest.fail("copied"))
    dw = weight_gradient(*slices, 3, padding=1, layout=layout, tile=2)
    assert np.array_equal(dw, wanted)


def test_arrays_of_any_kind():
    rng = np.random.default_rng(3)
    x, dy = data((2, 4, 6, 7), 5, (3, 3), ((0, 0), (0, 0)), lambda s: rng.integers(-4, 5, s))
    wanted = definition(x, dy, (3, 3), ((0, 0), (0, 0)), 1)
    x, dy = x.astype(float), dy.astype(float)
    strided = np.zeros((2, 4, 6, 14))
    strided[..., ::2] = x
    for one in (x, np.asfortranarray(x), strided[..., ::2]):
        assert np.array_equal(weight_gradient(one, dy, [3], tile=2), wanted)
    # One image without a batch axis, no image, and nothing that is left of no image.
    one = weight_gradient(x[0], dy[0], (3, 3), tile=2)
    assert np.array_equal(one, definition(x[:1], dy[:1], (3, 3), ((0, 0), (0, 0)), 1))
    none = weight_gradient(x[:0], dy[:0], 3)
    assert none.shape == wanted.shape and not none.any()


X, DY = np.zeros((2, 4, 6, 7), np.float32), np.zeros((2, 6, 4, 5), np.float32)


@pytest.mark.parametrize(
    "error, message, arguments",
    [
        (InvalidType, r"input: got \[\[1.0\]\]", dict(input=[[1.0]])),
        (InvalidType, "grad_output: got dtype int64", dict(grad_output=DY.astype(int))),
        (InvalidType, "grad_output: got dtype float64", dict(grad_output=DY.astype(float))),
        (InvalidValue, r"input: got shape \(6, 7\)", dict(input=X[0, 0])),
        (InvalidValue, r"input: got shape \(2, 0, 6, 7\)", dict(input=X[:, :0])),
        (InvalidValue, r"grad_output: got shape \(6,\)", dict(grad_output=DY[0, :, 0, 0])),
        (InvalidValue, r"grad_output: got shape .*; allowed: \(2, 6, 6, 7\)", dict(padding=1)),
        (InvalidValue, "grad_output: got shape", dict(grad_output=DY[0])),
        (InvalidValue, "grad_output: got shape", dict(grad_output=DY[:1])),
        (InvalidType, "kernel: got 3.0", dict(kernel=3.0)),
        (InvalidValue, "kernel: got 0", dict(kernel=0)),
        (InvalidValue, "weight: got a kernel reaching over 9 x 9", dict(kernel=9)),
        (InvalidValue, "padding: got -1", dict(padding=-1)),
        (InvalidValue, "groups: got 4; .* 6 channels of grad_output", dict(groups=4)),
        (InvalidValue, "groups: got 3; .* 4 channels of input", dict(groups=3)),
        (InvalidValue, "layout: got 'CHWN'", dict(layout="CHWN")),
        (Unsupported, r"stride: got \(2, 2\); allowed: 1", dict(stride=2)),
        (Unsupported, r"dilation: got \(1, 2\); allowed: 1", dict(dilation=(1, 2))),
        (InvalidValue, "tile: got 0", dict(tile=0)),
        (InvalidType, "tile: got 2.5", dict(tile=2.5)),
        (InvalidValue, r"tile: got \(2, 2, 2\)", dict(tile=(2, 2, 2))),
        (InvalidValue, "tile: got 17 for 3 taps; allowed: at most 16", dict(tile=17)),
        (InvalidValue, "threads: got 0", dict(threads=0)),
        (InvalidValue, "tolerance: got -1", dict(tolerance=-1)),
    ],
)
def test_wrong_arguments_are_named_before_any_work(error, message, arguments, monkeypatch):
    monkeypatch.setattr(gradients, "prepare", lambda *_: pytest.fail("work was done"))
    with pytest.raises(error, match=message):
        weight_gradient(**dict(input=X, grad_output=DY, kernel=3) | arguments)


def test_the_workspace_is_asked_for_by_name(monkeypatch):
    def refuse(size):
        raise OutOfMemory(f"workspace: could not allocate {size} bytes")

    monkeypatch.setattr(memory, "workspace", refuse)
    with pytest.raises(OutOfMemory, match="workspace"):
        weight_gradient(X, DY, 3, tile=2)


def test_a_long_call_returns_to_python_now_and_then(monkeypatch):
    """The pieces together are the whole."""
    monkeypatch.setattr(execute, "_PATIENCE", 1e-12)
    monkeypatch.setattr(kernel_sizes, "_CHUNK_BYTES", 1)
    for slabs in (8, 1):
        monkeypatch.setattr(kernel_sizes, "_MOST_SLABS", slabs)
        execute.forget()
        for threads in (1, 2, 3):
            check_exact((2, 5, 12, 11), 7, (3, 3), tile=2, threads=threads)
    execute.forget()


def spec(target, layout, dtype):
    precision = Precision.of(dtype)
    sizes = kernel_sizes.tuning(TARGETS[target])
    return GradientSpec(layout, precision, TARGETS[target], sizes, load(2, 3), load(1, 1))


@pytest.mark.parametrize("target", TARGETS)
def test_the_c_is_neat(target):
    for layout, dtype in product(LAYOUTS, ("float32", "float64")):
        lines = render(spec(target, layout, dtype)).split("\n")
        assert lines[0].startswith("/* Generated by") and lines[-1] == "" != lines[-2]
        for before, line in zip(["", *lines], lines):
            assert len(line) <= 100 and line == line.rstrip() and "\t" not in line
            assert line or before or line is lines[-1]


def test_the_transforms_are_those_of_the_convolution_exchanged():
    t = load(4, 3)
    turned = gradient_of(t)
    assert (turned.m, turned.r, turned.n) == (3, 4, 6)
    assert turned.bt == t.bt and turned.g == tuple(zip(*t.at)) and turned.at == tuple(zip(*t.g))
    assert "F(4, 3) with filter and outputs exchanged" in turned.header
    # B^T and A are applied to every tile: both stay as short as in the convolution.
    assert turned.ops["input"]["instructions"] == t.ops["input"]["instructions"]
    assert turned.ops["filter"]["instructions"] <= t.ops["output"]["instructions"]


def test_transforms_by_moduli_are_exchanged_too():
    turned = gradient_of(load(2, 3, moduli="x, x^2+1, inf"))
    assert (turned.m, turned.r, turned.n, turned.products) == (3, 2, 4, 5)


def test_denormals_are_flushed_where_that_is_asked_for(monkeypatch):
    monkeypatch.setenv("WINOGEN_FLUSH_DENORMALS", "1")
    assert Environment.now().flush_denormals
    if not host_target().flushes:
        pytest.skip(f"{host_target().name} has no way to do it")
    x, dy = np.full((1, 1, 1, 1), 1e-40, np.float32), np.ones((1, 1, 1, 1), np.float32)
    assert weight_gradient(x, dy, 1)[0, 0, 0, 0] == 0
    monkeypatch.delenv("WINOGEN_FLUSH_DENORMALS")
    assert weight_gradient(x, dy, 1)[0, 0, 0, 0] == x[0, 0, 0, 0]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_plans_say_what_runs(layout):
    shape = (3, 40, 30, 31) if layout == "NCHW" else (3, 30, 31, 40)
    plan = gradients.plan_weight_gradient(shape, (50, 40, 3, 3), padding=1, layout=layout)
    problem = Layer.of((50, 40, 3, 3), "float32", padding=1, layout=layout).problem(shape)
    machine = current()
    work = gradient_planner.choose(problem, None, 1, None, host_target(), machine)
    assert plan.tile == work.tile and plan.workspace_bytes >= work.spec.workspace_bytes(work)
    assert plan.operation == "weight_gradient" and plan.dtype == "float32"
    assert plan.multiplications < plan.direct_multiplications == work.products
    seconds = [one.seconds for one in plan.predictions]
    assert len(seconds) > 2 and seconds[1:] == sorted(seconds[1:])
    assert plan.predictions[0].error == plan.predicted_error < 1e-5
    assert str(plan).startswith("weight_gradient float32 " + layout)
    plain = gradients.plan_weight_gradient(shape, (50, 40, 3, 3), tile=1, layout=layout)
    assert (plain.algorithm, plain.tile) == ("direct", None)
    assert plain.multiplications >= plain.direct_multiplications
