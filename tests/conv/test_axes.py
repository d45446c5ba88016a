"""Layers of one and three axes: torch's semantics, exact integers, and what is refused."""

import json
import subprocess

import numpy as np
import pytest
from conv.reference import convolve
from hypothesis import given, settings
from hypothesis import strategies as st

import winogen
from winogen.conv import Layer, arguments, planner, wisdom
from winogen.conv.candidates import applies
from winogen.conv.choice import Choice
from winogen.conv.cuts import Cut
from winogen.conv.request import Request
from winogen.conv.standalone import standalone
from winogen.errors import InvalidValue, Unsupported
from winogen.kernels import algorithms
from winogen.kernels.spec import PADDING_MODES
from winogen.records import TARGETS
from winogen.toolchain import host_target

RANKS = (1, 3)
FUNCTIONS = {1: winogen.conv1d, 3: winogen.conv3d}
CLASSES = {1: winogen.Conv1d, 3: winogen.Conv3d}


def ints(rng, *shape):
    return rng.integers(-3, 4, shape).astype(np.float32)


def in_layout(x, layout):
    return np.ascontiguousarray(np.moveaxis(x, 1, -1)) if layout[-1] == "C" else x


def out_of(y, layout):
    return np.moveaxis(y, -1, 1) if layout[-1] == "C" else y


@st.composite
def layers(draw):
    """A layer of small integers whose result every algorithm can hold exactly."""
    rank = draw(st.sampled_from(RANKS))
    algorithm = draw(st.sampled_from(["direct", "im2col", "mcmr"]))
    tiled = algorithm == "mcmr"
    deep = rank == 3 and draw(st.booleans())  # no taps but along the depth
    axes = []
    for axis in range(rank):
        if deep and axis:
            axes.append((draw(st.integers(1, 9)), 1, 1, 1, (0, 0)))
            continue
        plain = tiled and (deep or axis >= rank - 2)  # where tiles are: few kernels, no steps
        taps = draw(st.sampled_from([3] if plain else [1, 2, 3]))
        stride, dilation = (1 if plain else draw(st.integers(1, 3)) for _ in range(2))
        ends = draw(st.integers(0, 2)), draw(st.integers(0, 2))
        least = max(1, dilation * (taps - 1) + 1 - sum(ends), *(end + 1 for end in ends))
        axes.append((draw(st.integers(least, least + 9)), taps, stride, dilation, ends))
    size, taps, stride, dilation, padding = zip(*axes)
    groups = draw(st.sampled_from([1, 1, 2]))
    channels, filters = draw(st.sampled_from([(1, 1), (3, 5), (16, 16), (18, 33)]))
    options = {
        "stride": stride,
        "dilation": dilation,
        "padding": padding,
        "groups": groups,
        "padding_mode": draw(st.sampled_from(PADDING_MODES)),
        "layout": draw(st.sampled_from(arguments.LAYOUTS[rank])),
    }
    shapes = (
        (draw(st.integers(1, 2)), groups * channels, *size),
        (groups * filters, channels, *taps),
    )
    how = {"algorithm": algorithm, "threads": draw(st.integers(1, 2))}
    if tiled:
        how["tile"] = 2
    return rank, shapes, options, how, draw(st.integers(0, 2**32))


@given(layers())
@settings(max_examples=40, deadline=None)
def test_integers_are_exact(layer):
    rank, (x_shape, w_shape), options, how, seed = layer
    rng = np.random.default_rng(seed)
    # F(2, 3) halves filters: even ones stay integers.
    x, w = ints(rng, *x_shape), 4 * ints(rng, *w_shape)
    bias = ints(rng, len(w))
    data = in_layout(x, options["layout"])
    expected = convolve(data, w, bias, **options)
    out = np.full(expected.shape, np.nan, np.float32)
    assert FUNCTIONS[rank](data, w, bias, **options, **how, out=out) is out
    assert np.array_equal(out, expected)


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("last", [False, True])
def test_additions_slices_and_unbatched_inputs(rank, last):
    rng = np.random.default_rng(rank)
    layout = arguments.LAYOUTS[rank][last]
    size, taps = (4, 9, 11)[-rank:], (2, 3, 3)[-rank:]
    x, w = ints(rng, 2, 6, *size), 4 * ints(rng, 16, 6, *taps)
    plain = {"stride": (1,) * rank, "dilation": (1,) * rank}
    padding = ((1, 0), (1, 1), (1, 1))[-rank:]
    data = in_layout(x, layout)
    shape = convolve(data, w, padding=padding, layout=layout, **plain).shape
    add, after = ints(rng, *shape), ints(rng, *shape)
    for how in ({"algorithm": "direct"}, {"algorithm": "mcmr", "tile": 2}):
        made = CLASSES[rank](w, padding=padding, layout=layout, activation="relu", **how)
        expected = convolve(
            data, w, padding=padding, layout=layout, activation="relu", add=add, add_after=after,
            **plain,
        )  # fmt: skip
        assert np.array_equal(made(data, add=add, add_after=after), expected)
        assert np.array_equal(made(data[0], add=add[0], add_after=after[0]), expected[0])
        # Read and written where they lie: slices of the channels of larger arrays.
        channels = -1 if last else 1
        around = np.full([s + 5 * (i == channels % x.ndim) for i, s in enumerate(data.shape)], 7.0)
        wide = around.astype(np.float32)
        inside = _slice(wide, channels, 2, 6)
        inside[...] = data
        results = np.full([s + 9 * (i == channels % x.ndim) for i, s in enumerate(shape)], np.nan)
        results = results.astype(np.float32)
        made(inside, out=_slice(results, channels, 3, 16), add=add, add_after=after)
        assert np.array_equal(_slice(results, channels, 3, 16), expected)
        assert np.isnan(_slice(results, channels, 0, 3)).all()
        assert np.isnan(_slice(results, channels, 19, 6)).all()


def _slice(array, axis, first, count):
    places = [slice(None)] * array.ndim
    places[axis] = slice(first, first + count)
    return array[tuple(places)]


@pytest.mark.parametrize("rank", RANKS)
def test_one_channel_needs_no_axis_and_an_empty_batch_is_empty(rank):
    size = (4, 5, 6)[-rank:]
    x, w = np.ones(size, np.float32), np.ones((1, 1, *[3] * rank), np.float32)
    y = FUNCTIONS[rank](x, w, padding="same")
    assert y.shape == (1, *size) and y[(0, *[1] * rank)] == 3**rank
    assert FUNCTIONS[rank](np.ones((0, 1, *size), np.float32), w).shape[0] == 0


@pytest.mark.parametrize("rank", RANKS)
def test_as_torch(rank):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    theirs = getattr(torch.nn.functional, f"conv{rank}d")
    for options in (
        {},
        {"stride": 2, "padding": 1},
        {"stride": [2], "dilation": 2, "padding": "valid"},
        {"padding": "same", "dilation": (2, 1, 3)[-rank:], "groups": 3},
        {"stride": (2, 1, 3)[-rank:], "padding": (1, 0, 2)[-rank:]},
    ):
        for shape in ((2, 6, 9, 8, 11), (6, 9, 8, 11)):
            shape = (*shape[:-3], *shape[-rank:])
            x = rng.standard_normal(shape)
            w = rng.standard_normal((9, 6 // options.get("groups", 1), *(3, 2, 4)[:rank]))
            b = rng.standard_normal(9)
            y = FUNCTIONS[rank](x, w, b, **options)
            expected = theirs(*map(torch.from_numpy, (x, w, b)), **options).numpy()
            np.testing.assert_allclose(y, expected, rtol=1e-9, atol=1e-9)


REFUSED = {
    "winograd2d": (1, {"algorithm": "winograd2d"}, Unsupported, "2 axes, or algorithm auto"),
    "winograd1d": (3, {"algorithm": "winograd1d"}, Unsupported, "of 3 axes, layout NCDHW"),
    "a layout": (1, {"layout": "NCHW"}, InvalidValue, '"NCW", "NWC"'),
    "a pair": (1, {"stride": (1, 2)}, InvalidValue, r"a tuple \(width,\)"),
    "a pair of three": (3, {"padding": (1, 2)}, InvalidValue, "a triple"),
    "sides": (3, {"padding": ((1, 1),)}, InvalidValue, r"\(\(front, back\), "),
    "a tile along the depth": (3, {"algorithm": "mcmr", "tile": (2, 2, 2)}, InvalidValue,
                               r"allowed: \(1, m, m\)"),
    "points along the depth": (3, {"points": ("0,1,-1,inf", None, None)}, InvalidValue,
                               r"\(None, points, points\)"),
    "products": (3, {"product_dtype": "int16"}, Unsupported, "of 3 axes"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_named(name):
    rank, options, error, words = REFUSED[name]
    weight = np.ones((4, 4, *[3] * rank), np.float32)
    with pytest.raises(error, match=words):
        CLASSES[rank](weight, **options)


def test_wrong_shapes_are_named():
    weight = np.ones((4, 4, 3, 3, 3), np.float32)
    for shape, words in (
        ((4, 5, 5), r"5 axes \(N, C, D, H, W\)"),
        ((1, 3, 5, 5, 5), "allowed: 4"),
        ((1, 4, 2, 5, 5), "3 x 3 x 3; allowed: at most the padded input, 2 x 5 x 5"),
        ((1, 4, 0, 5, 5), "depth, height and width of at least 1"),
    ):
        with pytest.raises(InvalidValue, match=words):
            winogen.Conv3d(weight).plan(shape)
    with pytest.raises(InvalidValue, match=r"5 axes \(M, C/groups, KD, KH, KW\)"):
        winogen.Conv3d(np.ones((4, 4, 3, 3), np.float32))
    with pytest.raises(InvalidValue, match=r"or \(W,\) with one channel"):
        winogen.conv1d(np.ones((1, 1, 1, 9), np.float32), np.ones((1, 1, 3), np.float32))


@pytest.mark.parametrize("rank", RANKS)
def test_every_algorithm_is_refused_or_computes(rank):
    assert set(algorithms(rank=rank)) == {"direct", "im2col", "mcmr"} | (
        {"loops"} if rank == 1 else set()
    )
    x, w = np.ones((1, 4, *[6] * rank), np.float32), np.ones((4, 4, *[3] * rank), np.float32)
    for algorithm in ("direct", "im2col", "mcmr"):
        y = FUNCTIONS[rank](x, w, algorithm=algorithm)
        assert np.allclose(y, 4 * 3**rank)


@pytest.mark.parametrize("rank", RANKS)
def test_bits_do_not_depend_on_threads_or_memory(rank):
    rng = np.random.default_rng(3)
    x = rng.standard_normal((2, 20, *(7, 20, 30)[-rank:])).astype(np.float32)
    w = rng.standard_normal((24, 20, *[3] * rank)).astype(np.float32)
    how = {"algorithm": "mcmr", "tile": 4, "padding": 1}
    one = CLASSES[rank](w, threads=1, **how)
    least = one.plan(x.shape).workspace_bytes
    y = one(x)
    for options in ({"threads": 3}, {"threads": 1, "workspace_limit": least // 2}):
        try:
            assert np.array_equal(CLASSES[rank](w, **how, **options)(x), y)
        except InvalidValue as refused:  # less is not enough
            assert "workspace_limit" in str(refused)


@pytest.mark.parametrize("rank", RANKS)
def test_errors_are_as_predicted(rank):
    rng = np.random.default_rng(7)
    x = rng.standard_normal((1, 32, *(6, 16, 24)[-rank:])).astype(np.float32)
    w = rng.standard_normal((32, 32, *[3] * rank)).astype(np.float32)
    exact = FUNCTIONS[rank](x.astype(float), w.astype(float), padding=1, algorithm="direct")
    for how in ({}, {"algorithm": "mcmr", "tile": 4}, {"algorithm": "direct"}):
        made = CLASSES[rank](w, padding=1, **how)
        error = np.abs(made(x) - exact).max() / np.abs(exact).max()
        assert error < 3.5 * made.plan(x.shape).predicted_error


@pytest.mark.parametrize("layout", arguments.LAYOUTS[3])
def test_taps_along_the_depth_alone_are_those_of_maps(layout):
    rng = np.random.default_rng(5)
    x, w = ints(rng, 2, 24, 9, 6, 7), ints(rng, 12, 8, 3, 1, 1)
    last = layout == "NDHWC"
    rows = (
        (lambda a: a.reshape(2, a.shape[1], 42, -1))
        if last
        else lambda a: a.reshape(*a.shape[:3], 42)
    )
    maps = {"layout": "NHWC" if last else "NCHW", "padding": (1, 0)}
    volumes = {"layout": layout, "padding": (1, 0, 0)}
    x = in_layout(x, layout)
    some = (..., slice(5, 13)) if last else (slice(None), slice(5, 13))
    few = (..., slice(0, 12)) if last else (slice(None), slice(0, 12))
    for how in (
        {"tile": 4},
        {"tile": (4, 1, 1)},
        {"algorithm": "direct"},
        {"algorithm": "fft"},
        {},
    ):
        of_maps = {**how, "tile": 4} if "tile" in how else how
        conv = winogen.Conv3d(w, **volumes, **how)
        same = winogen.Conv2d(w[..., 0].copy(), **maps, **of_maps)
        part = x[some]
        plain = conv(np.ascontiguousarray(part))
        assert (rows(plain) == same(rows(np.ascontiguousarray(part)))).all()
        out = np.full_like(x, np.nan)
        assert conv(part, out=out[few], add=x[few]).base is out
        assert np.allclose(out[few], plain + x[few])
        assert np.isnan(np.delete(out, np.arange(12), axis=-1 if last else 1)).all()
        plan, other = conv.plan(plain_shape := part.shape), same.plan(rows(part).shape)
        assert plan.input_shape == plain_shape and plan.layout == layout
        assert plan.multiplications == other.multiplications
        assert plan.tile == (None if other.tile is None else (*other.tile, 1))
        assert str(plan).count("x1x1)") >= (other.tile is not None)


def test_plans_say_axes_and_count_products():
    layer = winogen.Conv3d(np.ones((8, 4, 3, 3, 3), np.float32), algorithm="mcmr", tile=2)
    plan = layer.plan((1, 4, 5, 6, 6))
    assert plan.tile == (1, 2, 2) and plan.points[0] is None and plan.points[1] == plan.points[2]
    assert plan.multiplications == 3 * 3 * 4 * 16 * 8 * 4  # planes, taps, tiles, products
    assert plan.direct_multiplications == 3 * 4 * 4 * 27 * 8 * 4
    assert "conv3d float32 NCDHW" in str(plan) and "F(1x2x2,3x3x3)" in str(plan)
    assert json.loads(json.dumps(plan.to_dict()))["tile"] == [1, 2, 2]
    line = winogen.Conv1d(np.ones((8, 4, 3), np.float32), algorithm="mcmr", tile=4).plan((1, 4, 10))
    assert line.tile == (4,) and len(line.points) == 1 and "F(4,3)" in str(line)


@pytest.mark.parametrize("rank", RANKS)
def test_wisdom_knows_axes(rank, tmp_path):
    layer = Layer.of((16, 16, *[3] * rank), "float32", layout=arguments.LAYOUTS[rank][0])
    problem = layer.problem((1, 16, *[12] * rank))
    choice = Choice("mcmr", (1, 2, 4)[-rank:], cut=Cut((1, 2), images=2 if rank == 3 else 1))
    target = host_target()
    measured = planner.choose(problem, Request(), target)
    record = wisdom.record(
        problem, None, target, choice, wisdom.MeasuredChoice(1e-4, 2e-4, 1, "2026-01-01")
    )
    wisdom.add([record], tmp_path / "w.jsonl")
    known = wisdom.of_file(tmp_path / "w.jsonl", target)
    found = known.entry(problem, Request(), target, applies)
    assert found is not None and found.choice == choice and measured.choice.tile != ()
    (ranked, *_) = planner.ranked(problem, Request(), target, wisdom=known)
    assert ranked.choice.tile == choice.tile


@pytest.mark.parametrize(
    "algorithm",
    ["direct", *(pytest.param(one, marks=pytest.mark.thorough) for one in ("mcmr", "im2col"))],
)
@pytest.mark.parametrize("layout", arguments.LAYOUTS[3])
@pytest.mark.parametrize("in_plane", [3, pytest.param(1, marks=pytest.mark.thorough)])
def test_files_of_volumes_run_alone_within_their_memory(tmp_path, in_plane, algorithm, layout):
    """A pair of files under sanitizers, on arrays of just the right size."""
    x_shape, w_shape = (2, 5, 4, 7, 9), (6, 5, 3, in_plane, in_plane)
    first = layout[1] == "C"
    shape = x_shape if first else (*x_shape[:1], *x_shape[2:], x_shape[1])
    how = {"algorithm": algorithm, **({"tile": 2} if algorithm == "mcmr" else {})}
    options = {"padding": (1, *(in_plane // 2,) * 2), "stride": (2, 1, 1), "layout": layout}
    options["dilation"] = (2 if in_plane > 1 else 1, 1, 1)
    target = host_target().name
    files = standalone(shape, w_shape, isa=target, name="box", **options, **how)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    rng = np.random.default_rng(0)
    x, w = in_layout(ints(rng, *x_shape), layout), 4 * ints(rng, *w_shape)
    per_axis = {"padding": tuple((end, end) for end in options["padding"]), "groups": 1}
    expected = convolve(x, w, **{**options, **per_axis})
    (tmp_path / "x.bin").write_bytes(x.tobytes() + w.tobytes())
    (tmp_path / "main.c").write_text(MAIN % (x.size, w.size, expected.size))
    flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover", "-O1", "-std=gnu11"]
    command = ["gcc", *flags, *TARGETS[target].flags, "main.c", "box.c", "-o", "main", "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True)
    subprocess.run(["./main"], cwd=tmp_path, check=True)
    y = np.fromfile(tmp_path / "y.bin", np.float32).reshape(expected.shape)
    assert np.array_equal(y, expected)


MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include "box.h"
int main(void)
{
    const size_t inputs = %d, weights = %d, outputs = %d;
    float *x = malloc(inputs * 4), *w = malloc(weights * 4), *y = malloc(outputs * 4);
    FILE *file = fopen("x.bin", "rb");
    if (fread(x, 4, inputs, file) != inputs || fread(w, 4, weights, file) != weights) return 1;
    fclose(file);
    void *packed = aligned_alloc(64, box_packed_bytes());
    void *work = aligned_alloc(64, box_workspace_bytes(1));
    box_pack(w, packed, 1);
    box_run(x, packed, NULL, y, work, 1);
    free(packed), free(work), free(x), free(w);
    file = fopen("y.bin", "wb");
    if (fwrite(y, 4, outputs, file) != outputs) return 1;
    free(y);
    return fclose(file);
}
"""
