"""QConv2d by Winograd's algorithm: one step off at most, as seldom as its stated error says."""

import pickle
import re

import numpy as np
import pytest

import winogen
from winogen.conv.pictures import PixelConvolution
from winogen.conv.quantized_tiles import QuantizedTiles
from winogen.errors import CompilerNotFound, InvalidType, InvalidValue, Unsupported

from .conftest import quick_kernels

__all__ = ["quick_kernels"]

SCALES = {"x_scale": 0.02, "y_scale": 1.5}


def layer(tile=4, kind="uint8", products=None, **options):
    """A convolution by tiles, the same one directly, and an input."""
    random = np.random.default_rng(0)
    weight = random.integers(-127, 128, (20, 40, 3, 3)).astype(np.int8)
    numbers = {
        **SCALES, "w_scale": random.uniform(0.01, 0.03, 20).astype(np.float32), "padding": 1,
        "x_zero": 120 if kind == "uint8" else -7, "y_zero": 3, "threads": 1, **options,
    }  # fmt: skip
    bias = random.integers(-9999, 9999, 20).astype(np.int32)
    shape = (2, 40, 13, 18) if options.get("layout", "NCHW") == "NCHW" else (2, 13, 18, 40)
    x = random.integers(0, 256, shape).astype(np.uint8).view(kind)
    tiles = {"algorithm": "mcmr", "tile": tile, "product_dtype": products}
    by = winogen.QConv2d(weight, bias, **{**tiles, **numbers})
    numbers = {**numbers, "algorithm": "direct"}
    numbers.pop("tolerance", None)
    return by, winogen.QConv2d(weight, bias, **numbers), x


def check_near(by, exact, x):
    y, wanted = (conv(x) for conv in (by, exact))
    assert y.dtype == wanted.dtype and y.shape == wanted.shape
    wrong = np.abs(y.astype(int) - wanted)
    assert wrong.max() <= 1
    # An error e of numbers that lie anywhere between two halves moves a share of 2 |e| over one.
    assert wrong.mean() <= 2 * 255 * by.error(x.shape)


@pytest.mark.parametrize(
    "tile, kind, layout",
    [(2, "uint8", "NCHW"), (4, "int8", "NCHW"), (4, "uint8", "NHWC"), (6, "int8", "NHWC")],
)
def test_one_step_off_at_most(tile, kind, layout, quick_kernels):
    check_near(*layer(tile, kind, layout=layout))


@pytest.mark.parametrize("options", [{"activation": "relu"}, {"y_dtype": "int8"}, {"w_zero": 5}])
def test_all_that_quantized_layers_have(options, quick_kernels):
    by, exact, x = layer(**options)
    y = by(x)
    check_near(by, exact, x)
    if "activation" in options:
        assert y.min() == 3


def test_outputs_beyond_the_range_are_cut_off(quick_kernels):
    by, _, x = layer(y_scale=0.001, y_dtype="int8")
    y = by(x)
    assert (int(y.min()), int(y.max())) == (-128, 127)


@pytest.mark.parametrize(
    "tile, layout, most, options",
    [
        (2, "NCHW", 0.015, {}),
        (2, "NHWC", 0.015, {"stride": 2}),
        (4, "NHWC", 0.022, {}),  # modulo x^2 + 1
        (4, "NCHW", 0.022, {"dilation": 2}),
        (6, "NCHW", 0.045, {}),
        (4, "NCHW", 0.08, {"stride": 2}),  # by points
    ],
)
def test_tiles_of_bytes_are_as_far_off_as_they_say(tile, layout, most, options, quick_kernels):
    by, exact, x = layer(tile, products="int8", layout=layout, **options)
    y, wanted = (conv(x).astype(int) for conv in (by, exact))
    found = np.abs(y - wanted).max() / np.abs(wanted - 3).max()  # of codes: half a step besides
    assert 0.5 * by.error(x.shape) < found < 2 * by.error(x.shape) + 1 / 255
    assert "int8" in by.source(x.shape) and by.error(x.shape) < most
    assert (pickle.loads(pickle.dumps(by))(x) == y).all()


def test_the_error_is_stated(quick_kernels):
    small, exact, x = layer(2)
    large, _, _ = layer()
    largest, _, _ = layer(6)
    errors = [one.error(x.shape) for one in (small, large, largest)]
    assert 0 < errors[0] < errors[1] < 1e-3 < errors[2] < 5e-3
    assert exact.error(x.shape) == 0
    assert "int16" in small.source(x.shape)
    with pytest.raises(InvalidValue, match='algorithm: got "mcmr"; allowed: direct, im2col'):
        small.bound(x.shape)


@pytest.mark.parametrize("tile, layout", [(2, "NHWC"), (4, "NCHW"), (6, "NHWC")])
@pytest.mark.parametrize("more", [{"y_zero": 0, "activation": "relu"}, {"y_zero": 200}])
def test_bytes_that_stand_for_themselves_are_read_as_they_are(tile, layout, more, quick_kernels):
    by, exact, x = layer(tile, layout=layout, x_zero=0, **more)
    y = by(x)
    check_near(by, exact, x)
    assert "uint8" in by.source(x.shape) and "uint8" not in by.source(x.shape, "int8")
    assert by.plan(x.shape).workspace_bytes < by.plan(x.shape, "int8").workspace_bytes
    axis = 1 if layout == "NCHW" else 3
    whole = np.zeros(tuple(n + 20 * (k == axis) for k, n in enumerate(y.shape)), np.uint8)
    out = np.moveaxis(np.moveaxis(whole, axis, 0)[10:30], 0, axis)
    assert by(x, out=out) is out and (out == y).all() and whole.sum() == out.sum()


@pytest.mark.parametrize("tolerance", [0.05, 1e-3])
def test_a_tolerance_takes_the_fastest_tiles_within_it(tolerance, quick_kernels, monkeypatch):
    _, exact, x = layer()
    by, _, _ = layer(None, algorithm="auto", tolerance=tolerance)
    monkeypatch.setattr(QuantizedTiles, "seconds", lambda *given: 0.0)  # as large layers are
    assert 0 < by.error(x.shape) <= tolerance
    assert by.plan(x.shape).algorithm == "mcmr"
    products = by.plan(x.shape).precision.products
    assert products == "int16" or (tolerance == 0.05 and products == "int8")
    codes = by(x).astype(int) - exact(x)
    assert 0 < np.abs(codes).max() <= 2 * 255 * by.error(x.shape) + 1
    assert (pickle.loads(pickle.dumps(by))(x) == by(x)).all()
    with_add = dict(add=exact(x), add_scale=0.1)
    assert (by(x, **with_add) == exact(x, **with_add)).all(), "what tiles do not do is exact"


@pytest.mark.parametrize("options", [{"tolerance": 1e-9}, {"tolerance": 0.05, "stride": 5}])
def test_where_no_tile_is_within_a_tolerance_results_are_exact(options, quick_kernels):
    options = {"algorithm": "auto", **options}
    by, exact, x = layer(None, **options)
    assert by.error(x.shape) == 0 and by.plan(x.shape).algorithm != "mcmr"
    assert (by(x) == exact(x)).all()


def test_a_tolerance_leaves_out_what_has_no_kernel_here(quick_kernels, monkeypatch):
    def missing(self, shape):
        raise CompilerNotFound("no kernel")

    by, exact, x = layer(None, algorithm="auto", tolerance=0.05)
    named, _, _ = layer()
    monkeypatch.setattr(PixelConvolution, "plan", missing)
    assert by.error(x.shape) == 0 and (by(x) == exact(x)).all()
    with pytest.raises(CompilerNotFound):
        named.error(x.shape)


@pytest.mark.parametrize("options", [{}, {"algorithm": "auto", "tolerance": 0.05}])
def test_other_types_and_empty_batches(options):
    by, _, x = layer(None if options else 4, **options)
    for ask in (by.plan, by.source):
        with pytest.raises(InvalidValue, match='dtype: got \'float64\'; allowed: "uint8", "int8"'):
            ask(x.shape, "float64")
    assert by(x[:0]).shape == (0, 20, 13, 18)


def test_outputs_copies_and_single_images(quick_kernels):
    by, _, x = layer()
    y = by(x)
    out = np.zeros((2, 40, 13, 18), np.uint8)[:, 10:30]
    assert by(x, out=out) is out and (out == y).all()
    assert (pickle.loads(pickle.dumps(by))(x) == y).all()
    assert (by(x[1]) == y[1]).all()


def test_what_is_refused():
    weight = np.ones((4, 4, 3, 3), np.int8)
    for options, message in (
        ({"tile": 2}, 'tile: got 2; allowed: None, but with algorithm="mcmr"'),
        ({"product_dtype": "int8"}, "product_dtype: got 'int8'; allowed: None, but with algo"),
        ({"algorithm": "mcmr", "product_dtype": "bfloat16"}, "got 'bfloat16'; allowed: \"int16"),
        ({"algorithm": "mcmr", "tile": 8}, "tile: got 8; allowed: 2 or 4 or 6"),
        ({"algorithm": "mcmr", "tile": 3}, "tile: got 3; allowed: 2 or 4 or 6"),
        ({"algorithm": "mcmr", "tile": "4"}, "tile: got '4'; allowed: 2 or 4 or 6"),
        ({"algorithm": "mcmr", "tile": np.array([2, 4])}, "tile: got array([2, 4]); allowed"),
        ({"algorithm": "mcmr", "stride": 5}, "stride"),
        ({"tolerance": 0}, "tolerance: got 0; allowed: None or a positive number"),
        ({"tolerance": 0.1, "algorithm": "direct"}, "got 0.1 with algorithm 'direct'; allowed: N"),
        (
            {"tolerance": 0.1, "y_scale": None, "x_scale": None, "w_scale": None},
            "got 0.1 with outputs that are sums; allowed: None",
        ),
        ({"algorithm": "mcmr", "y_scale": None}, 'got "mcmr" without y_scale; allowed: direct'),
    ):
        with pytest.raises((InvalidType, InvalidValue, Unsupported), match=re.escape(message)):
            winogen.QConv2d(weight, **{**SCALES, "w_scale": 0.1, **options})


def test_choices_of_many_shapes_do_not_grow_without_an_end(monkeypatch):
    monkeypatch.setattr("winogen.conv.weighted.SHAPES_KEPT", 3)
    conv = winogen.QConv2d(np.ones((8, 8, 3, 3), np.int8), w_scale=0.01, x_scale=0.02, y_scale=0.5,
                   y_zero=100, tolerance=0.05)  # fmt: skip
    for width in range(6, 12):
        conv(np.ones((1, 8, 6, width), np.uint8))
    assert len(conv._ready) == 3 and len(conv._by_tiles) == 3
    assert len(conv._tiled()._chosen) <= 3
