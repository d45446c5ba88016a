"""Graphs of codes that run as one call compute what their operators compute in numpy."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest

from winogen import QConv2d
from winogen.conv.quantized_tiles import EVERY
from winogen.conv.tolerance import MARGIN
from winogen.errors import InvalidValue
from winogen.graph import Activation, Graph, MaxPool, Node, QConv, code_tiles
from winogen.graph.code_segment import CodeSegment
from winogen.graph.ops import Codes, Lookup, QAdd, QGlobalMean, QMean, Recast, ScaleSums
from winogen.graph.ops.quantized import After

RANDOM = np.random.default_rng(0)
FIRST = RANDOM.bit_generator.state
X, Z, Y = Codes(0.02, 3), Codes(0.03, -5), After(Codes(0.05, 3))


@pytest.fixture(autouse=True)
def first_numbers():
    """What a test draws does not depend on the tests before it."""
    RANDOM.bit_generator.state = FIRST


def conv(filters, channels, taps, groups=1, stride=1, y_zero=-128, sums=False, y=None, **options):
    shape = filters, channels // groups, taps, taps
    weight = RANDOM.integers(-127, 128, shape).astype(np.int8)
    scale = RANDOM.uniform(0.001, 0.002, filters).astype(np.float32)
    y_scale = np.float32(y or 0.02 * 0.0015 * 73 * np.sqrt(weight[0].size))
    bias = RANDOM.integers(-1000, 1000, filters).astype(np.int32)
    outputs = (None, 0, None) if sums else (y_scale, y_zero, "int8")
    return QConv(
        weight, None if sums else bias, "int8", -3, 0, np.float32(0.02), scale, *outputs,
        stride=(stride, stride), padding=(taps // 2,) * 4, groups=groups, **options,
    )  # fmt: skip


def graph(op, reads=1):
    names = tuple(f"x{i}" for i in range(reads))
    return Graph(names, [Node(op, names, ("y",))], ("y",))


def codes(*shape, dtype=np.int8):
    ends = np.iinfo(dtype)
    return RANDOM.integers(ends.min, ends.max + 1, shape).astype(dtype)


def agree(whole, arrays, threads=1, steps=0):
    """Assert that a segment computes what numpy does, channels last; at most ``steps`` apart."""
    wanted = whole.computed(arrays)
    last = [np.ascontiguousarray(x.transpose(0, 2, 3, 1)) for x in arrays]
    made = CodeSegment(whole)(last, threads)
    for y, other in zip(made, wanted, strict=True):
        assert y.transpose(0, 3, 1, 2).shape == other.shape
        far = np.abs(y.transpose(0, 3, 1, 2).astype(np.float64) - other)
        assert far.max() <= steps, (far.max(), np.mean(far > 0))
    return made


CONVOLUTIONS = {
    "plain": {},
    "relu": {"activation": "relu", "y_zero": -20},
    "relu6": {"activation": "relu6", "y_zero": -20},
    "strided": {"stride": 2},
    "grouped": {"groups": 4},
    "depthwise": {"groups": 32},
    "within ends": {"ends": (-100, 90)},
    "relu within ends": {"activation": "relu", "ends": (-100, 90), "y_zero": -30},
}


@pytest.mark.parametrize("options", CONVOLUTIONS.values(), ids=CONVOLUTIONS)
def test_convolutions(options):
    op = conv(32, 32 if options.get("groups", 1) > 1 else 16, 3, **options)
    channels = op.weight.shape[1] * op.groups
    (y,) = agree(graph(op), [codes(2, channels, 13, 17)], steps=1)
    assert y.min() >= op.limits[0] and y.max() <= op.limits[1] and y.std() > 5


def test_relu6_ends_at_six():
    op = conv(32, 16, 3, activation="relu6", y_zero=-20, y=0.1)
    (y,) = agree(graph(op), [codes(2, 16, 13, 17)], steps=1)
    assert (y.min(), y.max()) == (-20, -20 + 60)


@pytest.mark.parametrize("activation", [None, "relu", "relu6"])
def test_a_map_joins_the_sums_of_a_convolution(activation):
    op = conv(24, 16, 3, z=Z, activation=activation, y_zero=-7)
    agree(graph(op, 2), [codes(2, 16, 9, 11), codes(2, 24, 9, 11)], steps=1)


@pytest.fixture
def tiles(monkeypatch):
    """Every layer that can goes through these tiles, whatever is faster."""

    def choose(*kinds):
        monkeypatch.setattr(code_tiles, "EVERY", kinds or EVERY)
        monkeypatch.setattr(code_tiles, "_SAFETY", 1e-9)

    return choose


@pytest.mark.parametrize("kind", [(2, "int16"), (4, "int8"), (6, "int16")])
@pytest.mark.parametrize("seed", range(3))
def test_tiles_have_the_bytes_of_layers_of_uint8(kind, seed, tiles):
    """Codes of int8 are the numbers of uint8 with another bit, channels beyond vectors, too."""
    tiles(kind)
    random = np.random.default_rng(seed)
    filters, channels, height, width = random.integers((3, 3, 5, 5), (40, 70, 30, 30))
    op = near_conv(filters, channels, (3, 1 + 2 * seed)[seed > 0], y_zero=-128 + 9 * seed)
    x = random.integers(0, 256, (2, height, width, channels)).astype(np.uint8)
    options = replace(op, x_dtype="uint8", y_dtype="uint8", x_zero=0, y_zero=op.y_zero + 128)
    tile, products = kind
    layer = QConv2d(op.weight, op.bias, **options.options, layout="NHWC", algorithm="mcmr",
                    tile=tile, product_dtype=products)  # fmt: skip
    segment = CodeSegment(graph(op), 0.5)
    (y,) = segment([(x ^ 128).view(np.int8)])
    assert list(segment.bound([(2, channels, height, width)], 1).near) == ["y"]
    assert (y.view(np.uint8) ^ 128 == layer(x)).all()
    (again,) = segment([(x ^ 128).view(np.int8)], 3)
    assert (again == y).all()


def near_conv(filters, channels, taps, **options):
    return replace(conv(filters, channels, taps, **options), x_zero=-128)


NEAR = {
    "plain": (-128, {}),
    "relu": (-128, {"activation": "relu", "y_zero": -20}),
    "strided": (5, {"stride": 2}),
    "of one sign": (127, {}),
}


@pytest.mark.parametrize("x_zero, options", NEAR.values(), ids=NEAR)
@pytest.mark.parametrize("tolerance", [2e-3, 5e-2])
def test_codes_are_within_a_step_and_the_tolerance(x_zero, options, tolerance, tiles):
    tiles()
    op = replace(conv(32, 48, 3, **options), x_zero=x_zero)
    x = codes(1, 48, 24, 20)
    (y,) = CodeSegment(graph(op), tolerance)([np.ascontiguousarray(x.transpose(0, 2, 3, 1))])
    sums = replace(op, y_scale=None).computed(x) * op.multiplier.reshape(-1, 1, 1)
    exact = np.clip(sums + op.y_zero, *op.limits).transpose(0, 2, 3, 1)
    off = np.abs(y - exact).max()
    assert 0.5 < off <= 0.5 + MARGIN * tolerance * np.abs(sums).max()
    assert y.min() >= op.limits[0] and y.std() > 5


EXACT = {
    "no tolerance": (0.0, {}),
    "one below all errors": (1e-6, {}),
    "a second map": (0.5, {"z": Z}),
    "sums": (0.5, {"y_scale": None, "bias": None}),
    "one tap": (0.5, {"taps": 1}),
    "strides too large for tiles": (0.5, {"stride": (5, 5)}),
}


@pytest.mark.parametrize("tolerance, options", EXACT.values(), ids=EXACT)
def test_where_tiles_do_not_apply_codes_are_exact(tolerance, options, tiles):
    tiles()
    given = dict(options)
    op = replace(near_conv(32, 48, given.pop("taps", 3)), **given)
    shape = 1, 48, 16, 15
    segment = CodeSegment(graph(op, 1 + (op.z is not None)), tolerance)
    maps = [shape, (1, 32, *shape[2:])][: 1 + (op.z is not None)]
    arrays = [np.ascontiguousarray(codes(*one).transpose(0, 2, 3, 1)) for one in maps]
    assert not segment.bound(maps, 1).near
    (y,), (wanted,) = segment(arrays), CodeSegment(segment.graph)(arrays)
    assert (y.view(np.uint8) == wanted.view(np.uint8)).all()


OTHERS = {
    "sum": QAdd(X, Z, Y),
    "cut sum": QAdd(X, Z, Y.cut(0, 2)),
    "largest": MaxPool((3, 3), (2, 2), (1, 1, 1, 1)),
    "far apart": MaxPool((2, 3), (1, 2), (0, 1, 1, 0), (2, 1)),
    "mean": QMean(X, Y, (3, 2), (2, 1), (1, 1, 0, 1)),
    "counted mean": QMean(X, Y, (3, 2), (2, 1), (1, 1, 0, 1), True),
    "mean of maps": QGlobalMean(X, Y),
    "recoded": Lookup.recoding(X, Y),
    "of channels": Lookup(codes(70, 256), Codes(1.0, 0)),
}


@pytest.mark.parametrize("op", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("threads", [1, 3])
def test_what_lies_between(op, threads):
    reads = op.inputs.start
    agree(graph(op, reads), [codes(2, 70, 13, 9) for _ in range(reads)], threads)


def test_codes_of_callers_and_back():
    names = ("x", "a", "b", "y")
    ops = Recast("uint8"), Lookup.recoding(X, Y), Recast("uint8", True)
    nodes = [Node(op, (r,), (m,)) for op, r, m in zip(ops, names, names[1:])]
    whole, x = Graph(("x",), nodes, ("y",)), codes(1, 8, 5, 6, dtype=np.uint8)
    (wanted,) = whole.computed([x])
    (made,) = CodeSegment(whole)([np.ascontiguousarray(x.transpose(0, 2, 3, 1))])
    assert (made.view(np.uint8).transpose(0, 3, 1, 2) == wanted).all()


def test_sums_as_numbers():
    op = conv(10, 16, 1, sums=True)
    scale = ScaleSums(op.w_scale * op.x_scale, RANDOM.standard_normal(10).astype(np.float32))
    nodes = [Node(op, ("x",), ("s",)), Node(scale, ("s",), ("y",))]
    (y,) = agree(Graph(("x",), nodes, ("y",)), [codes(3, 16, 1, 2)], steps=2e-5)
    assert y.dtype == np.float32


def block():
    """A residual block behind a pool, with a mean at its end, and two outputs."""
    ops = {
        "a": (conv(32, 16, 3, activation="relu"), "x"),
        "b": (MaxPool((3, 3), (2, 2), (1, 1, 1, 1)), "a"),
        "c": (conv(32, 32, 3), "b"),
        "d": (conv(32, 32, 3, z=Codes(0.1, -4), activation="relu"), "c", "b"),
        "e": (QAdd(X, Z, Y), "d", "b"),
        "f": (QGlobalMean(X, Y), "e"),
    }
    nodes = [Node(op, tuple(reads), (made,)) for made, (op, *reads) in ops.items()]
    return Graph(("x",), nodes, ("d", "f"))


def test_a_block_of_any_size_by_the_kernels_of_the_first():
    whole = block()
    segment = CodeSegment(whole)
    kernels = []
    for size in ((1, 16, 12, 12), (3, 16, 31, 8), (1, 16, 4, 5)):
        x = codes(*size)
        made = segment([np.ascontiguousarray(x.transpose(0, 2, 3, 1))])
        for y, wanted in zip(made, whole.computed([x]), strict=True):
            assert np.abs(y.transpose(0, 3, 1, 2).astype(int) - wanted).max() <= 1
        kernels.append(segment.bound([size], 1).specs)
    assert kernels[0] == kernels[1] == kernels[2]


def test_threads_and_copies_change_no_bit():
    segment = CodeSegment(block())
    x = [codes(2, 12, 12, 16)]
    one = segment(x)
    for other in (segment(x, 3), copy.deepcopy(segment)(x), pickle.loads(pickle.dumps(segment))(x)):
        assert all((a == b).all() for a, b in zip(one, other, strict=True))


def test_other_operators_are_refused():
    node = Node(Activation("relu"), ("x",), ("y",))
    with pytest.raises(InvalidValue, match=r"graph: got the operator relu; allowed"):
        CodeSegment(Graph(("x",), [node], ("y",)))
