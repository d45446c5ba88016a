"""Pictures filtered by one kernel, beside sums written out in float64."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import winogen
from winogen.conv import pictures
from winogen.errors import InvalidType, InvalidValue
from winogen.records import TARGETS, Machine

MODES = ("reflect", "symmetric", "edge", "replicate", "wrap", "circular", "constant", "zeros")
NUMPY = {"replicate": "edge", "circular": "wrap", "zeros": "constant"}
GREY = np.arange(48, dtype=np.uint8).reshape(6, 8)
BOX = np.full((3, 3), 1 / 9)


def exact(picture, kernel, mode, convolve):
    """The sums in float64, of the taps as they are rounded for the pixels."""
    taps = kernel.astype("float64" if picture.dtype == "float64" else "float32").astype(float)
    ends = [(count // 2, count - 1 - count // 2) for count in taps.shape]
    if convolve:
        taps, ends = taps[::-1, ::-1], [end[::-1] for end in ends]
    around = [*ends, (0, 0)][: picture.ndim]
    x = np.pad(picture.astype(float), around, mode=NUMPY.get(mode, mode))
    height, width = picture.shape[:2]
    total = np.zeros(picture.shape)
    for i, row in enumerate(taps):
        for j, tap in enumerate(row):
            total += tap * x[i : i + height, j : j + width]
    return total


def check(y, picture, sums):
    assert y.shape == picture.shape and y.dtype == picture.dtype
    if picture.dtype.kind == "u":
        most = np.iinfo(picture.dtype).max
        assert np.abs(y.astype(float) - np.clip(np.rint(sums), 0, most)).max() <= 1
        # Only sums that lie between two integers may become either.
        apart = np.abs(np.abs(sums - np.floor(sums)) - 0.5) > 1e-5 * max(1, np.abs(sums).max())
        assert np.array_equal(y[apart], np.clip(np.rint(sums), 0, most)[apart].astype(y.dtype))
    else:
        assert np.abs(y - sums).max() <= (1e-5 if y.dtype == "float32" else 1e-13) * (
            np.abs(sums).max() + 1e-30
        )


@st.composite
def cases(draw):
    sizes = st.integers(1, 40) | st.integers(30, 90)
    shape = [draw(sizes), draw(sizes), *draw(st.sampled_from([[], [1], [2], [3], [4]]))]
    taps = draw(st.tuples(st.integers(1, 7), st.integers(1, 7)) | st.just((12, 9)))
    return shape, taps, draw(st.sampled_from(pictures.TYPES)), draw(st.integers(0, 2**32 - 1))


@given(cases(), st.sampled_from(MODES), st.booleans(), st.sampled_from([0.05, 0.3, 3.0]))
def test_what_is_filtered_is_the_sum_of_pixels_times_taps(case, mode, convolve, size):
    shape, taps, pixels, seed = case
    random = np.random.default_rng(seed)
    most = 65536 if pixels == "uint16" else 256
    picture = random.integers(0, most, shape).astype(pixels)
    kernel = random.standard_normal(taps) * size
    before = picture.copy()
    y = winogen.filter2d(picture, kernel, mode=mode, convolve=convolve)
    check(y, picture, exact(picture, kernel, mode, convolve))
    assert np.array_equal(picture, before)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cases(), st.sampled_from(MODES), st.booleans(), st.booleans(), st.booleans())
def test_borders_apart_and_colours_as_rows(monkeypatch, case, mode, convolve, rim, rows):
    """As large pictures are filtered, whatever would be faster."""
    shape, taps, pixels, seed = case
    random = np.random.default_rng(seed)
    picture, kernel = random.integers(0, 256, shape).astype(pixels), random.random(taps) / 20
    with monkeypatch.context() as here:
        here.setattr(pictures, "_fastest", lambda wanted, *_: (
            rim and wanted.border != "zeros", rows and wanted.colours > 0
        ))  # fmt: skip
        y = winogen.filter2d(picture, kernel, mode=mode, convolve=convolve)
    check(y, picture, exact(picture, kernel, mode, convolve))


def test_the_border_of_a_large_picture_is_filtered_apart():
    """Where nothing but the picture has to be read then, which is large beside its border."""
    ends, target = (1, 1), TARGETS["avx512"]
    key = pictures.FilterKey(
        np.ones(9, "f4").tobytes(), (3, 3), "float32", "reflect", ends, ends, 3
    )
    large, small = (
        pictures._fastest(key, (*size, 3), target, Machine()) for size in ((2160, 3840), (40, 50))
    )
    assert large == (True, True) and small == (False, False)


@pytest.mark.parametrize("colours", [0, 3])
@pytest.mark.parametrize("pixels", pictures.TYPES)
@pytest.mark.parametrize("is_separable", [False, True])
def test_large_kernels(colours, pixels, is_separable):
    random = np.random.default_rng(colours)
    shape = (150, 170, colours) if colours else (150, 170)
    picture = random.integers(0, 256, shape).astype(pixels)
    kernel = random.standard_normal((31, 33)) / 31
    if is_separable:
        kernel = np.outer(random.random(31), random.random(33)) / 250
    y = winogen.filter2d(picture, kernel, mode="reflect")
    check(y, picture, exact(picture, kernel, "reflect", False))


def test_large_kernels_of_integers():
    """Of any taps by transforms in C; where a column times a row is faster, by way of floats."""
    random = np.random.default_rng(0)
    bell = np.exp(-(np.linspace(-2, 2, 151) ** 2))
    for kernel, by_floats in ((np.outer(bell, bell), True), (random.random((63, 63)), False)):
        taps = kernel.astype(np.float32)
        ends = [(count // 2, count - 1 - count // 2) for count in taps.shape]
        wanted = pictures.FilterKey(taps.tobytes(), taps.shape, "uint8", "reflect", *ends)
        plan = pictures.filter_of(wanted).plan((1, 1080, 1920))
        assert ("two passes" if by_floats else "tiles in the lanes") in plan.variant
        assert ("of integers as float32" in plan.variant) == by_floats
        assert (plan.workspace_bytes > 2 * 4 * 1080 * 1920) == by_floats


def test_large_kernels_of_integers_run_at_addresses():
    taps, picture = np.full((31, 31), 1 / 961, np.float32), np.full((1, 200, 300), 7, np.uint8)
    key = pictures.FilterKey(taps.tobytes(), taps.shape, "uint8", "reflect", (15, 15), (15, 15))
    bound, packed = pictures.filter_of(key).bound(picture.shape)
    y = np.zeros_like(picture)
    bound.run_at(packed, picture.ctypes.data, 0, 0, 0, 0, y.ctypes.data)
    assert (y == 7).all() and "integers" in bound.plan().variant


def test_integers_are_saturated_and_rounded_to_even():
    picture = np.uint8([[0, 1, 2, 3, 100, 255]])
    assert winogen.filter2d(picture, [[0.5]]).tolist() == [[0, 0, 1, 2, 50, 128]]
    assert winogen.filter2d(picture, [[3.0]]).tolist() == [[0, 3, 6, 9, 255, 255]]
    assert winogen.filter2d(picture, [[-1.0]]).tolist() == [[0] * 6]
    wide = np.uint16([[0, 1, 40000, 65535]])
    assert winogen.filter2d(wide, [[2.0]]).tolist() == [[0, 2, 65535, 65535]]


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_it_is_scipys(count):
    ndimage = pytest.importorskip("scipy.ndimage")
    random = np.random.default_rng(0)
    picture, kernel = random.random((20, 30)), random.random((count, count + 1))
    names = {"reflect": "mirror", "symmetric": "reflect", "edge": "nearest", "wrap": "grid-wrap",
             "constant": "constant"}  # fmt: skip
    for mode, theirs in names.items():
        y = winogen.filter2d(picture, kernel, mode=mode)
        assert np.allclose(y, ndimage.correlate(picture, kernel, mode=theirs))
        y = winogen.filter2d(picture, kernel, mode=mode, convolve=True)
        assert np.allclose(y, ndimage.convolve(picture, kernel, mode=theirs))


def test_views_are_read_and_written_where_they_lie():
    random = np.random.default_rng(0)
    whole = random.integers(0, 256, (40, 50, 4), np.uint8)
    kernel = random.standard_normal((3, 3))
    views = whole[..., :3], whole[..., ::-1], whole[::2, ::-3], whole[..., 1], whole[:0], whole.T
    for view in views:
        y = winogen.filter2d(view, kernel)
        assert y.shape == view.shape
        if view.size:
            check(y, view, exact(view, kernel, "reflect", False))
    room = np.full((40, 50, 5), 7, np.uint8)
    out = room[..., 1:4]
    assert winogen.filter2d(whole[..., :3], kernel, out=out) is out
    assert np.array_equal(out, winogen.filter2d(whole[..., :3], kernel))
    assert (room[..., [0, 4]] == 7).all()
    grey = np.empty((40, 50), np.uint8)
    assert winogen.filter2d(whole[..., 0], kernel, out=grey) is grey
    assert np.array_equal(grey, winogen.filter2d(whole[..., 0], kernel))


@pytest.mark.parametrize("wrong, error, said", [
    (dict(picture=[[1, 2]]), InvalidType, "picture: got"),
    (dict(picture=GREY.astype(np.int8)), InvalidType, "picture: got dtype int8; allowed: uint8,"),
    (dict(picture=GREY.astype(">u2")), InvalidType, "picture: got dtype >u2; allowed"),
    (dict(picture=GREY[0]), InvalidValue, "picture: got shape (8,); allowed: (H, W) or"),
    (dict(kernel=BOX[0]), InvalidValue, "kernel: got shape (3,); allowed: (KH, KW)"),
    (dict(kernel=BOX[:0]), InvalidValue, "kernel: got shape (0, 3)"),
    (dict(kernel=BOX * 1j), InvalidType, "kernel: got dtype complex128"),
    (dict(kernel=BOX * np.nan), InvalidValue, "kernel: got numbers that are not finite"),
    (dict(kernel=BOX * 1e300), InvalidValue, "not finite in float32"),
    (dict(mode="mirror"), InvalidValue, "mode: got 'mirror'; allowed: \"reflect\""),
    (dict(mode=None), InvalidValue, "mode: got None"),
    (dict(convolve=1), InvalidType, "convolve: got 1; allowed: True or False"),
    (dict(out=GREY), InvalidValue, "out: got an array that overlaps picture"),
    (dict(out=np.zeros((6, 8))), InvalidType, "out: got dtype <f8; allowed: |u1, as picture has"),
    (dict(out=np.zeros((6, 9), np.uint8)), InvalidValue, "out: got shape (6, 9); allowed: (6, 8)"),
    (dict(out=GREY.copy()[::-1]), InvalidValue, "out: got an array"),
])  # fmt: skip
def test_wrong_arguments_are_named(wrong, error, said):
    with pytest.raises(error) as raised:
        winogen.filter2d(**dict(picture=GREY, kernel=BOX) | wrong)
    assert said in str(raised.value)
