"""What our contestants inherit from the main one, and what they are refused for."""

import numpy as np
import pytest

from winogen.errors import InvalidType, InvalidValue, Unsupported
from winogen.tuning.layers import BenchLayer
from winogen_lab.bench.kinds import DTYPES, KINDS
from winogen_lab.bench.own import OPTIONS, Own
from winogen_lab.cli.contestants import contestants

LAYER = BenchLayer.from_dict(
    {"name": "a", "input": [1, 8, 9, 9], "weight": [8, 8, 3, 3], "padding": 1}
)
STRIDED = BenchLayer.from_dict(
    {"name": "b", "input": [1, 8, 9, 9], "weight": [8, 8, 3, 3], "stride": 5}
)
MAIN = Own(options={"algorithm": "mcmr", "tile": (4, 4), "filter_dtype": "float16"})


@pytest.mark.parametrize(
    "changes, options",
    [
        ({}, MAIN.options),
        ({"filter_dtype": None}, {"algorithm": "mcmr", "tile": (4, 4)}),
        (
            {"product_dtype": "int16"},
            {"algorithm": "mcmr", "tile": (4, 4), "product_dtype": "int16"},
        ),
        ({"algorithm": "direct"}, {"algorithm": "direct", "filter_dtype": "float16"}),
        ({"algorithm": "winograd1d"}, {**MAIN.options, "algorithm": "winograd1d"}),
        ({"dtype": "float64"}, {"algorithm": "mcmr", "tile": (4, 4)}),
        ({"dtype": "int8"}, {"algorithm": "mcmr", "tile": (4, 4)}),
        (
            {"points": "0,1,-1,inf"},
            {"algorithm": "mcmr", "filter_dtype": "float16", "points": "0,1,-1,inf"},
        ),
        ({"layout": "NHWC"}, {**MAIN.options, "layout": "NHWC"}),
        ({"isa": "avx2"}, MAIN.options),
    ],
)
def test_who_differs_inherits_what_goes_with_that(changes, options):
    other = MAIN.but("other", **changes)
    assert other.name == "other" and other.options == options
    assert other.dtype == changes.get("dtype", "float32")
    assert other.process["environment"] == ({"WINOGEN_ISA": "avx2"} if "isa" in changes else {})
    assert MAIN.options["filter_dtype"] == "float16"  # the main one stays as it is


def test_all_that_conv2d_takes_can_be_asked_for():
    assert {"algorithm", "tile", "points", "edge", "border", "tolerance"} <= set(OPTIONS)
    assert not {"stride", "groups", "threads", "activation"} & set(OPTIONS)
    with pytest.raises(InvalidValue, match="option: got 'stride'; allowed: layout, algorithm"):
        MAIN.but("other", stride=2)


def test_one_layer_that_can_be_computed_is_enough():
    MAIN.check([STRIDED, LAYER])
    tiles = Own(dtype="int8", options={"algorithm": "mcmr", "product_dtype": "int8"})
    tiles.check([STRIDED, LAYER])
    assert tiles.but("other", tile=2).options == {**tiles.options, "tile": 2}
    assert tiles.but("other", algorithm="direct").options == {"algorithm": "direct"}
    for own in (MAIN, Own(dtype="int8", options={"algorithm": "mcmr", "tile": 2})):
        with pytest.raises(Unsupported, match="stride"):
            own.check([STRIDED])


@pytest.mark.parametrize(
    "own, error, message",
    [
        (Own(dtype="float8"), InvalidValue, "dtype: got 'float8'; allowed: "),
        (Own(options={"tolerance": "small"}), InvalidType, "tolerance: got 'small'"),
        (Own(options={"layout": "CHWN"}), InvalidValue, "layout: got 'CHWN'"),
        (Own(dtype="int8", options={"tile": 4}), InvalidValue, "tile: got 4; allowed: None"),
        (Own(dtype="int8", options={"edge": "direct"}), InvalidValue, "edge: .* with int8"),
    ],
)
def test_mistakes(own, error, message):
    with pytest.raises(error, match=message):
        own.check([LAYER])


def test_transposed_layers():
    up = BenchLayer.from_dict({"name": "up", "input": [1, 8, 9, 9], "weight": [8, 8, 4, 4],
                               "stride": 2, "transposed": True})  # fmt: skip
    Own(options={"algorithm": "mcmr", "tile": 2, "layout": "NHWC"}).check([up])
    for own, message in (
        (Own(options={"algorithm": "winograd2d"}), 'got "winograd2d" for a transposed layer'),
        (Own(options={"edge": "direct"}), 'edge: got "direct"; allowed: "discard"'),
        (Own(dtype="int8"), "layers: got up, a transposed layer; allowed: ordinary"),
    ):
        with pytest.raises(InvalidValue, match=message):
            own.check([up])


def test_a_text_says_what_is_different():
    usual = dict(dtype="float32", algorithm="auto", tolerance=1e-3, layout="NCHW")
    texts = ["tolerance=none", "algorithm=mcmr,points=0,1,-1,2,-2,inf, edge=direct", "tile=2x4"]
    main, others = contestants([LAYER], texts, "direct,direct", **usual)
    assert main == Own(options={"tolerance": 1e-3})
    assert [own.name for own in others] == [*texts, "algorithm=direct"]
    plain, points, tiles, direct = others
    assert plain.options == {}
    assert points.options == {
        "tolerance": 1e-3, "algorithm": "mcmr", "points": "0,1,-1,2,-2,inf", "edge": "direct",
    }  # fmt: skip
    assert tiles.options == {"tolerance": 1e-3, "tile": (2, 4)}
    assert direct.options == {"tolerance": 1e-3, "algorithm": "direct"}
    _, same = contestants([LAYER], ["algorithm=direct"], "all", **usual)
    assert len(same) == 5  # the text said one of them


def test_data_are_numbers_of_their_type():
    assert DTYPES == tuple(KINDS)
    x, weight = LAYER.data()
    for dtype, bits in (("float16", 13), ("bfloat16", 16)):
        for rounded, plain in zip(KINDS[dtype].data(LAYER), (x, weight)):
            assert rounded.dtype == np.float32 and not (rounded == plain).all()
            assert np.abs(rounded - plain).max() < 2.0 ** (bits - 22) * np.abs(plain).max()
            assert not (rounded.view(np.uint32) & ((1 << bits) - 1)).any()
    for dtype in ("float32", "float64"):
        assert (KINDS[dtype].data(LAYER)[0] == x).all()
