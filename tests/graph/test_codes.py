"""Graphs of codes that run as one call compute what their operators compute in numpy."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest

from winogen import QConv2d
from winogen.conv.tolerance import MARGIN
from winogen.errors import InvalidValue
from winogen.graph import Activation, Graph, MaxPool, Node, QConv, code_choice, code_tiles
from winogen.graph.code_segment import CodeSegment
from winogen.graph.ops import Codes, Lookup, QAdd, QGlobalMean, QMean, Recast, ScaleSums, Spread
from winogen.graph.ops.quantized import After
from winogen.tasks.limit import limited
from winogen.testing import every_layer

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


@pytest.mark.parametrize("kind", [(2, "int16"), (4, "int8"), (6, "int16")])
@pytest.mark.parametrize("seed", range(3))
def test_tiles_have_the_bytes_of_layers_of_uint8(kind, seed):
    """Codes of int8 are the numbers of uint8 with another bit, channels beyond vectors, too."""
    random = np.random.default_rng(seed)
    filters, channels, height, width = random.integers((3, 3, 5, 5), (40, 70, 30, 30))
    op = near_conv(filters, channels, (3, 1 + 2 * seed)[seed > 0], y_zero=-128 + 9 * seed)
    x = random.integers(0, 256, (2, height, width, channels)).astype(np.uint8)
    options = replace(op, x_dtype="uint8", y_dtype="uint8", x_zero=0, y_zero=op.y_zero + 128)
    tile, products = kind
    layer = QConv2d(op.weight, op.bias, **options.options, layout="NHWC", algorithm="mcmr",
                    tile=tile, product_dtype=products)  # fmt: skip
    segment = CodeSegment(graph(replace(op, tiles=kind)))
    (y,) = segment([(x ^ 128).view(np.int8)])
    assert list(segment.bound([(2, channels, height, width)], 1).near) == ["y"]
    assert (y.view(np.uint8) ^ 128 == layer(x)).all()
    (again,) = segment([(x ^ 128).view(np.int8)], 3)
    assert (again == y).all()


def near_conv(filters, channels, taps, **options):
    return replace(conv(filters, channels, taps, **options), x_zero=-128)


def in_tiles(op, shape, tolerance):
    """A graph of a layer in the tiles that are predicted to be best."""
    with every_layer():
        tiles = code_choice.fastest([(op, shape)], tolerance)
    whole = graph(op, 1 + (op.z is not None))
    return code_choice.with_tiles(whole, dict.fromkeys(whole.inputs, shape), tiles)


NEAR = {
    "plain": (-128, {}),
    "relu": (-128, {"activation": "relu", "y_zero": -20}),
    "strided": (5, {"stride": 2}),
    "of one sign": (127, {}),
    "a second map": (-128, {"z": Z, "y_zero": -7}),
    "relu of a second map": (-100, {"z": Codes(0.003, 128), "activation": "relu", "y_zero": 10}),
}


@pytest.mark.parametrize("x_zero, options", NEAR.values(), ids=NEAR)
@pytest.mark.parametrize("tolerance", [2e-3, 5e-2])
def test_codes_are_within_a_step_and_the_tolerance(x_zero, options, tolerance):
    op = replace(conv(32, 48, 3, **options), x_zero=x_zero)
    x, z = codes(1, 48, 24, 20), codes(1, 32, 24, 20)
    segment = CodeSegment(in_tiles(op, x.shape, tolerance))
    (y,) = segment([np.ascontiguousarray(one.transpose(0, 2, 3, 1))
                    for one in (x, z)[: 1 + (op.z is not None)]])  # fmt: skip
    sums = replace(op, y_scale=None).computed(x) * op.multiplier.reshape(-1, 1, 1)
    added = 0 if op.z is None else float(op.z_step) * (z.astype(float) - op.z.zero)
    exact = np.clip(sums + added + op.y_zero, *op.limits).transpose(0, 2, 3, 1)
    off = np.abs(y - exact).max()
    assert 0.5 < off <= 0.5 + MARGIN * tolerance * np.abs(sums).max()
    assert y.min() >= op.limits[0] and y.std() > 5


EXACT = {
    "no tolerance": (0.0, {}),
    "one below all errors": (1e-6, {}),
    "sums": (0.5, {"y_scale": None, "bias": None}),
    "one tap": (0.5, {"taps": 1}),
    "strides too large for tiles": (0.5, {"stride": (5, 5)}),
}


@pytest.mark.parametrize("tolerance, options", EXACT.values(), ids=EXACT)
def test_where_tiles_do_not_apply_codes_are_exact(tolerance, options):
    given = dict(options)
    op = replace(near_conv(32, 48, given.pop("taps", 3)), **given)
    shape = 1, 48, 16, 15
    kind = (4, "int8") if tolerance == 0.5 else None  # an operator that asks for tiles, too
    segment = CodeSegment(in_tiles(replace(op, tiles=kind), shape, tolerance))
    maps = [shape, (1, 32, *shape[2:])][: 1 + (op.z is not None)]
    arrays = [np.ascontiguousarray(codes(*one).transpose(0, 2, 3, 1)) for one in maps]
    assert not segment.bound(maps, 1).near
    (y,), (wanted,) = segment(arrays), CodeSegment(graph(op, len(arrays)))(arrays)
    assert (y.view(np.uint8) == wanted.view(np.uint8)).all()


SLOW = near_conv(64, 64, 3), (3, 64, 40, 40)  # predicted to be faster in tiles


def times(monkeypatch, *seconds):
    """Let ways of a layer take these seconds in turn; return which were measured."""
    asked = []

    def measured(contest):
        asked.append([way.tiles for way in contest.ways])
        return [seconds[n % len(seconds)] for n in range(len(contest.ways))]

    monkeypatch.setattr(code_choice, "_seconds", measured)
    monkeypatch.setattr(code_choice, "_times", {})
    return asked


def test_the_fastest_way_is_taken(monkeypatch):
    op, shape = SLOW
    asked = times(monkeypatch, 3.0, 2.0, 1.0, 2.0, 2.0, 2.0, 2.0)
    found = code_choice.fastest([(op, shape), (op, (1, *shape[1:]))], 0.05)
    (ways,) = asked  # of both: they are the same layer
    assert ways[0] is None and len(ways) > 2
    assert found == {code_choice.layer_of(op, shape): ways[2]}
    assert code_choice.fastest([(op, shape)], 0.05) == found and len(asked) == 1
    times(monkeypatch, 1.0, 2.0)
    assert code_choice.fastest([(op, (1, 64, 41, 40))], 0.05) == {}


def test_layers_that_stay_exact_keep_none_of_the_same_sizes_out_of_tiles():
    op, shape = SLOW
    sums = replace(op, y_scale=None)
    with every_layer():
        alone = code_choice.fastest([(op, shape)], 0.05)
        assert alone and code_choice.fastest([(sums, shape), (op, shape)], 0.05) == alone


def test_what_is_added_to_sums_takes_part_in_no_measurement(monkeypatch):
    op, shape = SLOW
    times(monkeypatch, 3.0, 2.0, 1.0)
    found = code_choice.fastest([(replace(op, z=Z), shape)], 0.05)
    assert found and found == code_choice.fastest([(op, shape)], 0.05)
    contest = code_choice._contest("a layer", replace(op, z=Z), (1, *shape[1:]), 0.05)
    assert len(contest.ways) > 2 and all(way.z is None for way in contest.ways)


def test_tiles_take_half_of_what_is_left(monkeypatch):
    """Kernels of what is exact have to be compiled, too."""
    op, shape = SLOW
    given = []

    def compile_all(specs, step, others, limit):
        given.append(limit.left())
        return set()

    monkeypatch.setattr(code_choice, "compile_all", compile_all)
    asked = times(monkeypatch, 3.0, 2.0)
    with limited(1000.0):
        assert code_choice.fastest([(op, shape)], 0.05) == {}
    assert 490 < given[0] <= 500 and not asked


def test_steps_are_allowed_for_taps_beyond_a_corner():
    far = replace(conv(4, 3, 3), padding=(0,) * 4, dilation=(9, 1))
    assert code_tiles.steps_allowed(far, codes(1, 3, 19, 3), 0.05) > 1.5


def test_later_processes_know_what_was_measured(monkeypatch, tmp_path):
    monkeypatch.setenv("WINOGEN_CACHE", str(tmp_path))
    monkeypatch.setenv("WINOGEN_WISDOM", str(tmp_path / "wisdom.json"))
    op, shape = SLOW
    asked = times(monkeypatch, 3.0, 2.0)
    found = code_choice.fastest([(op, shape)], 0.05)
    assert found and len(asked) == 1
    again = times(monkeypatch, 1.0, 2.0)
    assert code_choice.fastest([(op, shape)], 0.05) == found and not again
    monkeypatch.setenv("WINOGEN_WISDOM", "0")
    times(monkeypatch, 1.0, 2.0)
    assert code_choice.fastest([(op, shape)], 0.05) == {}


def test_what_there_is_no_time_to_measure_is_exact(monkeypatch):
    op, _ = SLOW
    asked = times(monkeypatch, 3.0, 2.0)
    with limited(0.0):
        assert code_choice.fastest([(op, (1, 64, 39, 40))], 0.05) == {}
    assert not asked


def test_ways_of_a_layer_take_turns():
    op, (_, *image) = SLOW
    contest = code_choice._contest("a layer", op, (1, *image), 0.05)
    seconds = code_choice._seconds(contest)
    assert len(seconds) == len(contest.ways) > 1 and min(seconds) > 0


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
    "pixels": Spread((2, 5), "pixels"),
    "shuffled pixels": Spread((5, 7)),
    "cropped": Spread((5, 2), "pixels", (3, 6, 1, 0)),
    "shuffled and cropped": Spread((1, 10), "channels", (2, 1, 13, 7)),
}


@pytest.mark.parametrize("op", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("threads", [1, 3])
def test_what_lies_between(op, threads):
    reads = op.inputs.start
    agree(graph(op, reads), [codes(2, 70, 13, 9) for _ in range(reads)], threads)


TRANSPOSED = {
    "of as many taps": (2, 2, (0,) * 4, (0, 0), 1, 1),
    "of more taps": (4, 2, (1,) * 4, (0, 0), 1, 1),
    "of fewer taps": (2, 3, (0,) * 4, (1, 2), 1, 1),
    "of different ends": (5, 2, (0, 3, 2, 1), (1, 0), 1, 1),
    "of groups": (3, 2, (1,) * 4, (1, 1), 4, 1),
    "of each channel": (4, 2, (1,) * 4, (0, 0), 24, 1),
    "of no stride": (3, 1, (1, 0, 1, 2), (0, 0), 1, 1),
    "of gaps": (3, 2, (1,) * 4, (1, 0), 1, 3),
    "of padding beyond its taps": (2, 2, (3, 2, 4, 3), (0, 0), 1, 1),
}


@pytest.mark.parametrize("options", TRANSPOSED.values(), ids=TRANSPOSED)
def test_transposed_layers_are_sums_over_all_inputs_that_reach_an_output(options):
    taps, step, ends, more, groups, apart = options
    layer = replace(conv(24, 24, taps, groups), padding=(0,) * 4, dilation=(apart, apart))
    op, spread = layer.transposed((step, step), ends, more)
    assert (spread is None) == (step == 1)
    x = codes(2, 24, 7, 6)
    whole = [n * step + apart * (taps - 1) + more[0] for n in x.shape[2:]]
    sums, each = np.zeros((2, 24, whole[0], whole[1] + more[1])), 24 // groups
    for i, j in np.ndindex(taps, taps):
        weight = layer.weight[:, :, i, j].reshape(groups, each, each)
        numbers = (x.astype(int) - layer.x_zero).reshape(2, groups, each, 7, 6)
        made = np.einsum("gmc,ngchw->ngmhw", weight.astype(int), numbers).reshape(2, 24, 7, 6)
        rows, columns = (slice(apart * k, apart * k + step * n, step) for k, n in ((i, 7), (j, 6)))
        sums[:, :, rows, columns] += made
    top, bottom, left, right = ends
    high, wide = (
        (n - 1) * step + apart * (taps - 1) + 1 + last - before - after
        for n, last, before, after in ((7, more[0], top, bottom), (6, more[1], left, right))
    )
    sums = sums[:, :, top : top + high, left : left + wide] + layer.bias.reshape(-1, 1, 1)
    steps = sums * layer.multiplier.astype(np.float64).reshape(-1, 1, 1)
    exact = np.clip(steps + layer.y_zero, *layer.limits)
    nodes = [Node(op, ("x",), ("a",)), Node(spread, ("a",), ("y",))]
    made = graph(op) if spread is None else Graph(("x",), nodes, ("y",))
    (y,) = agree(made, [x], steps=1)
    assert y.transpose(0, 3, 1, 2).shape == exact.shape and y.std() > 5
    assert np.abs(y.transpose(0, 3, 1, 2) - exact).max() <= 0.5 + 1e-3


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
