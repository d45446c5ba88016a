"""Fourier transforms in C: results, memory, errors and threads are what plans say."""

import numpy as np
import pytest
from conv.activations import TRIALS
from conv.reference import convolve
from hypothesis import given, settings
from hypothesis import strategies as st

import winogen
from winogen.conv import fourier_tiles, pictures, solvers
from winogen.conv.execute import Environment
from winogen.conv.problem import Layer
from winogen.conv.query import Query
from winogen.conv.request import Request
from winogen.conv.solver import Offer
from winogen.conv.tolerance import MARGIN
from winogen.records import TARGETS, Machine
from winogen.toolchain import host_target

FEW = ((1, 32), (1, 64), (16, 32), (48, 32), (64, 64))  # lengths, so that few kernels are compiled
TYPES = ("float32", "float64", "uint8", "uint16")
AVX2 = TARGETS["avx2"]


def query_of(layer, shape, target=None, machine=None, **asked):
    request = Request.of(layer, **{"threads": 1, **asked})
    target = target or host_target()
    return Query(layer.problem(shape), request, target, machine or Machine())


def ways(query):
    found = fourier_tiles._candidates(query.problem, query.target, query.machine)
    return [one for one in found if one.work.spec.lengths in FEW]


def bound(query, way):
    offer = Offer(fourier_tiles.FourierTiles(), query, query.target, [way], query.request.threads)
    return offer.bind(Environment.now())


def drawn(seed, *shapes, dtype="float32", least=-4):
    random = np.random.default_rng(seed)
    return [random.integers(least, 5, shape).astype(dtype) for shape in shapes]


@st.composite
def layers(draw):
    """A layer whose channels are summed with no others, and the shape of an input."""
    rank = draw(st.integers(1, 2))

    def each(low, high):
        return tuple(draw(st.integers(low, high)) for _ in range(rank))

    size, kernel, dilation = each(1, 60), each(1, 9), each(1, 2)
    mode = draw(st.sampled_from(("zeros", "reflect", "replicate", "circular")))
    padding = []
    for count, taps, spread in zip(size, kernel, dilation):
        reach = spread * (taps - 1) + 1
        spare = {"reflect": count - 1, "circular": count}.get(mode, 20)
        least = max(0, reach - count)
        ends = draw(st.integers(0, 9)), draw(st.integers(0, 9))
        padding.append((min(spare, -(-least // 2) + ends[0]), min(spare, least // 2 + ends[1])))
    padded = [a + count + b for (a, b), count in zip(padding, size)]
    kernel = tuple(min(k, (most - 1) // d + 1) for k, most, d in zip(kernel, padded, dilation))
    layout = draw(st.sampled_from((("NCW", "NWC"), ("NCHW", "NHWC"))[rank - 1]))
    channels, images = draw(st.sampled_from((1, 2, 5, 17))), draw(st.integers(1, 3))
    options = dict(padding=tuple(padding), dilation=dilation, groups=channels,
                   padding_mode=mode, layout=layout)  # fmt: skip
    shape = (images, channels, *size) if layout[1] == "C" else (images, *size, channels)
    return shape, (channels, 1, *kernel), options


@settings(max_examples=80, deadline=None)
@given(layers(), st.sampled_from(TYPES), st.sampled_from((1, 3)), st.integers(0, 2**31))
def test_integers_are_exact_once_rounded(layer, dtype, threads, seed):
    shape, weight_shape, options = layer
    computed = "float64" if dtype == "float64" else "float32"
    least = 0 if dtype.startswith("u") else -4
    (x,), (w,) = drawn(seed, shape, dtype=dtype, least=least), drawn(seed + 1, weight_shape)
    exact = convolve(x.astype(np.int64), w.astype(np.int64), **options)
    if dtype.startswith("u"):
        exact = exact.clip(0, np.iinfo(dtype).max)
    layer = Layer.of(weight_shape, computed, **options)
    layer = fourier_tiles.replace(layer, dtype=dtype)
    query = query_of(layer, shape, threads=threads)
    way = ways(query)[seed % len(ways(query))]
    run = bound(query, way)
    y = np.full(exact.shape, 77, dtype)
    run.run(x, run.pack(w.astype(computed)), None, y)
    assert (np.rint(y) == exact).all()


@pytest.mark.parametrize("shape, kernel, padding", [
    ((1, 1, 300, 400), (17, 17), 8), ((2, 3, 90, 120), (9, 11), 4), ((1, 2, 40, 700), (1, 30), 0)
])  # fmt: skip
def test_predicted_errors_are_measured(shape, kernel, padding):
    groups = shape[1]
    layer = Layer.of((groups, 1, *kernel), "float32", padding=padding, groups=groups)
    query, random, ratios = query_of(layer, shape), np.random.default_rng(0), []
    for way in ways(query):
        run = bound(query, way)
        x, w = (random.standard_normal(s).astype("f") for s in (shape, (groups, 1, *kernel)))
        y = np.full(run.output_shape, np.nan, "f")
        run.run(x, run.pack(w), None, y)
        exact = convolve(x, w, padding=((padding, padding),) * 2, groups=groups)
        error = np.abs(y - exact).max() / np.abs(exact).max()
        ratios.append(error / fourier_tiles.FourierTiles().prediction(run.offer, way).error)
    assert 0.4 < np.median(ratios) < MARGIN, ratios


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_slices_and_additions(layout):
    """Read and written where they lie in larger arrays."""
    x, w, b = drawn(0, (2, 6, 50, 60), (4, 1, 9, 9), (4,))
    add, after, out = drawn(1, (2, 8, 50, 60), (2, 4, 50, 60), (2, 9, 50, 60))
    part = (slice(None), slice(1, 5))
    if layout == "NHWC":
        x, add, after, out = (
            np.ascontiguousarray(np.moveaxis(array, 1, -1)) for array in (x, add, after, out)
        )
        part = (..., slice(1, 5))
    kept, options = out.copy(), dict(padding=4, groups=4, layout=layout)
    conv = winogen.Conv2d(w, b, activation="relu", algorithm="fft", **options)
    conv(x[part], add=add[part], add_after=after, out=out[part])
    exact = convolve(x[part], w, b, add=add[part], add_after=after, activation="relu",
                     padding=((4, 4), (4, 4)), groups=4, layout=layout)  # fmt: skip
    assert (np.rint(out[part]) == exact).all()
    out[part] = kept[part]
    assert (out == kept).all()


@pytest.mark.parametrize("name", list(TRIALS))
def test_every_activation(name):
    x, w = drawn(0, (1, 3, 200, 300), (3, 1, 9, 9), dtype="float64")
    activation = TRIALS[name].of(3)
    conv = winogen.Conv2d(w, padding=4, groups=3, activation=activation, algorithm="fft")
    assert type(conv.bound(x.shape)[0]) is fourier_tiles.TilesInLanes
    exact = convolve(x / 8, w, padding=((4, 4), (4, 4)), groups=3, activation=activation)
    assert np.allclose(conv(x / 8), exact, rtol=1e-12, atol=1e-12)


def test_memory_is_what_the_plan_says_and_a_limit_is_kept():
    layer = Layer.of((1, 1, 21, 21), "float32", padding=10)
    shape, solver = (1, 1, 1080, 1920), fourier_tiles.FourierTiles()
    best = solvers.chosen(query_of(layer, shape, AVX2))
    assert best.solver.__class__ is fourier_tiles.FourierTiles
    limit = best.best.workspace_bytes - 1
    other = solver.offer(query_of(layer, shape, AVX2, workspace_limit=limit), best.beaten)
    assert other.best.workspace_bytes <= limit
    assert solver.offer(query_of(layer, shape, AVX2, workspace_limit=1000), best.beaten) is None
    conv = winogen.Conv2d(np.ones((1, 1, 21, 21), "f"), padding=10, threads=2, algorithm="fft")
    plan, (run, packed) = conv.plan(shape), conv.bound(shape)
    assert type(run) is fourier_tiles.TilesInLanes and "tiles in the lanes" in plan.variant
    assert packed[0].nbytes == plan.packed_weight_bytes
    assert run.workspace_bytes == plan.workspace_bytes and plan.threads == 2
    assert "butterfly_8" in plan.source


def test_auto_takes_it_where_each_filter_sees_one_channel():
    def name(weight, shape, **options):
        asked = {"algorithm": options.pop("algorithm", "auto")}
        layer = Layer.of(weight, options.pop("dtype", "float32"), **options)
        return type(solvers.chosen(query_of(layer, shape, AVX2, **asked)).solver).__name__

    large = (1, 1, 21, 21), (1, 1, 1080, 1920)
    assert name(*large, padding=10) == name(*large, algorithm="fft") == "FourierTiles"
    assert name(*large, dtype="float64") == "FourierTiles"
    assert name(*large, padding=10, stride=2) != "FourierTiles"
    assert name((1, 1, 3, 3), large[1]) == "Kernels"
    assert name((2, 1, 21, 21), large[1]) != "FourierTiles"  # two filters see a channel
    many = (64, 1, 31, 31), (1, 64, 56, 56)
    assert name(*many, groups=64, padding=15) == "FourierTiles"
    assert name((64, 64, 31, 31), (1, 64, 56, 56), padding=15) == "Fourier"  # a sum of channels
    assert name(*large, algorithm="direct") == "Kernels"


@pytest.mark.parametrize("pixels", pictures.TYPES)
def test_a_picture_of_real_size(pixels):
    """Filtered by tiles at once and by numpy's transforms of float64."""
    random = np.random.default_rng(0)
    picture = random.integers(0, 256, (540, 960, 3)).astype(pixels)
    kernel = (random.standard_normal((19, 23)) / 20).astype(np.float32)
    y = winogen.filter2d(picture, kernel)
    padded = np.pad(picture, ((9, 9), (11, 11), (0, 0)), mode="reflect").astype(float)
    size = padded.shape[:2]
    spectra = np.fft.rfft2(padded, axes=(0, 1))
    spectra *= np.conj(np.fft.rfft2(kernel, size))[..., None]
    exact = np.fft.irfft2(spectra, size, axes=(0, 1))[:540, :960]
    if pixels.startswith("u"):
        exact = np.rint(exact).clip(0, np.iinfo(pixels).max)
    assert np.abs(y - exact).max() <= (1 if pixels.startswith("u") else 1e-4 * 255)
