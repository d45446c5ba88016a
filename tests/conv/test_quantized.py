"""QConv2d: equal to ONNX's reference to the bit, on every instruction set, whatever the numbers."""

import copy
import pickle

import numpy as np
import pytest
from conv import fuzz_quantized as fuzz
from conv.reference import convolve
from kernels.turns import turns

import winogen
from winogen.conv import quantized_planner
from winogen.conv.problem import Layer
from winogen.conv.quantization import TOO_MANY_TERMS
from winogen.conv.quantized_planner import CallNumbers
from winogen.conv.request import Request
from winogen.errors import InvalidType, InvalidValue
from winogen.kernels.dots import DOTS, dots_of
from winogen.records import TARGETS, Machine, costs_of
from winogen.toolchain import host_target, host_targets


def spellings():
    """WINOGEN_ISA for every kind of multiplication that this CPU can run."""
    for target in host_targets():
        own = {name for dot in DOTS if dot.target == target.name for name in dot.extensions}
        yield target.name
        yield from (f"{target.name}-{name}" for name in sorted(own & target.extensions))


ISAS = tuple(spellings())


@pytest.fixture
def isa(request, monkeypatch):
    monkeypatch.setenv("WINOGEN_ISA", request.param)
    return request.param


@pytest.mark.parametrize(
    "isa",
    [pytest.param(isa, marks=() if isa == ISAS[0] else pytest.mark.thorough) for isa in ISAS],
    indirect=True,
)
def test_problems_of_every_kind_are_computed_right(isa):
    wrong = list(fuzz.failures(20261122, range(60), "numpy"))
    assert not wrong, wrong[0][1]


# Each instruction set has cases of its own: what is wrong is seldom so with one of them alone.
@pytest.mark.thorough
@pytest.mark.draws
@pytest.mark.parametrize("part", range(5))
@pytest.mark.parametrize(
    "isa, begin", [(isa, turn % 4 * 500) for turn, isa in enumerate(ISAS)], indirect=["isa"]
)
def test_thousands_are_what_the_definition_says(isa, begin, part):
    wrong = list(fuzz.failures(20261122, range(begin + part, begin + 500, 5), "numpy"))
    assert not wrong, wrong[0][1]


@pytest.mark.parametrize(
    "isa, layout, depthwise, zero",
    turns(ISAS, ["NCHW", "NHWC"], [True, False], [0, 255]),
    indirect=["isa"],
)
def test_products_next_to_a_half_are_rounded_as_in_float64(isa, layout, depthwise, zero):
    rng = np.random.default_rng(zero)
    count = 4096
    sums = rng.integers(1, 1 << 31, count)
    sums[::4] = rng.integers(1, 1 << 12, count // 4)
    halves = (rng.integers(0, 256, count) + 0.5) * (-1 if zero else 1)
    sums = (sums * np.sign(halves)).astype(np.int32)
    scales = (halves / sums).astype(np.float32)
    steps = rng.integers(-1, 2, count)
    scales = (scales.view(np.int32) + steps.astype(np.int32)).view(np.float32)
    scales[:4] = 1e38, 1e-42, 1e38, 1e30
    sums[:3] = 0, 5, -5
    y = winogen.QConv2d(
        np.zeros((count, 1, 1, 1), np.int8), sums, groups=count if depthwise else 1,
        w_scale=scales, x_scale=1, y_scale=1, y_zero=zero, y_dtype="uint8", layout=layout,
    )(np.zeros((1, count if depthwise else 1, 1, 1) if layout == "NCHW"
               else (1, 1, 1, count if depthwise else 1), np.uint8))  # fmt: skip
    exact = np.clip(sums * scales.astype(np.float64), -zero, 255 - zero)
    assert np.array_equal(y.ravel(), np.rint(exact + zero))


@pytest.mark.parametrize("isa", [ISAS[0], pytest.param("generic", marks=pytest.mark.thorough)],
                         indirect=True)  # fmt: skip
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.parametrize("zero, dtype", [(0, "uint8"), (131, "uint8"), (-128, "int8"), (7, "int8")])
def test_products_next_to_a_half_are_rounded_at_once(isa, layout, depthwise, zero, dtype):
    """One float32 operation rounds them: multipliers are neither small nor large for their sums."""
    rng = np.random.default_rng(zero + 200)
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    count = 64 * 37
    halves = rng.integers(least - zero, most - zero, count) + 0.5
    sums = rng.integers(2, 1 << 13, count) * np.sign(halves).astype(int)
    scales = (halves / sums).astype(np.float32)
    steps = rng.integers(-1, 2, count).astype(np.int32)
    scales = np.maximum((scales.view(np.int32) + steps).view(np.float32), np.float32(2**-15))
    sums[:4] = -(2**20), 2**20, 2**30, -(2**30)  # which saturate
    scales[:4] = 1, 1, 2**-15, 2**-15
    groups = count if depthwise else 1
    conv = winogen.QConv2d(
        np.zeros((count, 1, 1, 1), np.int8), sums.astype(np.int32), groups=groups, w_scale=scales,
        x_scale=1, y_scale=1, y_zero=zero, y_dtype=dtype, layout=layout,
    )  # fmt: skip
    # More pixels than a vector has, and a rest.
    shape = (1, groups, 1, 19) if layout == "NCHW" else (1, 1, 19, groups)
    y = conv(np.zeros(shape, np.uint8))
    fused = conv.bound(shape).packed.view(np.int32)[3 * count : 4 * count]
    assert fused.all()
    exact = np.clip(np.rint(sums * scales.astype(np.float64) + zero), least, most)
    for pixel in range(19):
        found = y[0, :, 0, pixel] if layout == "NCHW" else y[0, 0, pixel]
        assert np.array_equal(found, exact)


@pytest.mark.parametrize("multiplier, bias, fused", [
    (2.0**-15, 2**30, True), (2.0**-16, 2**14, True), (2.0**-16, 2**15, False),
    (1.0, 2**21, True), (1.0, 2**21 + 1, False), (0.0, 2**30, True), (2.0**20, 3, False),
])  # fmt: skip
def test_which_multipliers_float32_is_enough_for(multiplier, bias, fused):
    conv = winogen.QConv2d(
        np.zeros((1, 1, 1, 1), np.int8), np.array([bias], np.int32), w_scale=np.float32(1),
        x_scale=max(multiplier, 1e-45), y_scale=1 if multiplier else 1e30,
    )  # fmt: skip
    call = conv.bound((1, 1, 1, 1))
    place = 3 * call.work.padded_filters
    assert call.packed.view(np.int32)[place] == fused


def amx_everywhere(monkeypatch):
    if "amx" not in host_targets()[0].extensions:
        pytest.skip("no AMX here")
    monkeypatch.setenv("WINOGEN_ISA", "avx512")
    monkeypatch.setattr(quantized_planner, "dots_of", fuzz.only_the_best)


def test_tiles_that_are_not_worth_it_are_right_too(monkeypatch):
    amx_everywhere(monkeypatch)
    assert "tdpbusd" in winogen.QConv2d(np.ones((1, 1, 1, 1), np.int8)).source((1, 1, 4, 4))
    wrong = list(fuzz.failures(31, range(80), "numpy"))
    assert not wrong, wrong[0][1]


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("channels, cols", [(64, 49), (70, 33), (130, 16), (16, 17), (200, 7)])
def test_tiles_of_every_rest_are_right(monkeypatch, layout, channels, cols):
    amx_everywhere(monkeypatch)
    rng = np.random.default_rng(channels)
    weight = rng.integers(-128, 128, (49, channels, 3, 3)).astype(np.int8)
    x = rng.integers(0, 256, (2, channels, 5, cols)).astype(np.uint8)
    given = x if layout == "NCHW" else np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    expected = convolve(x.astype(int) - 9, weight.astype(int))
    for threads in (1, 2):
        y = winogen.QConv2d(weight, x_zero=9, layout=layout, threads=threads)(given)
        assert np.array_equal(y if layout == "NCHW" else y.transpose(0, 3, 1, 2), expected)


def planned(weight, isa, shape=None, groups=1, **options):
    """What runs on a machine of Intel: algorithm and variant."""
    name, _, extensions = isa.partition("+")
    target = TARGETS[name].adjusted("+" + extensions if extensions else "")
    layer = Layer.of(weight, "uint8", groups=groups, padding=weight[2] // 2)
    problem = layer.problem(shape or (1, weight[1] * groups, 28, 28))
    machine = Machine(costs=costs_of("skylake_avx512"))
    ways = quantized_planner.ranked(problem, Request(**options), CallNumbers(), target, machine)
    assert [way.seconds for way in ways] == sorted(way.seconds for way in ways)
    return ways[0].choice.algorithm, ways[0].choice.variant


@pytest.mark.parametrize("weight, isa, expected", [
    ((32, 64, 3, 3), "avx512+vnni+amx", ("direct", "direct_tdpbusd")),
    ((32, 3, 7, 7), "avx512+vnni+amx", ("im2col", "im2col_tdpbusd")),
    ((32, 64, 1, 1), "avx512+vnni+amx", ("direct", "direct_tdpbusd")),
    ((32, 16, 1, 1), "avx512+vnni+amx", ("direct", "direct_vpdpbusd")),
    ((32, 3, 3, 3), "avx512+vnni+amx", ("im2col", "im2col_vpdpbusd")),
    ((32, 64, 3, 3), "avx512+vnni", ("direct", "direct_vpdpbusd")),
    ((32, 64, 3, 3), "avx512", ("direct", "direct_pmaddwd")),
    ((32, 64, 3, 3), "avx2+avxvnni", ("direct", "direct_vpdpbusd")),
    ((32, 64, 3, 3), "neon+dotprod", ("direct", "direct_sdot")),
    ((32, 64, 3, 3), "neon+dotprod+i8mm", ("direct", "direct_smmla")),
    # Words that would be half empty are filled by neighbouring taps.
    ((32, 1, 3, 3), "avx512+vnni", ("im2col", "im2col_vpdpbusd")),
    ((32, 1, 1, 1), "avx512+vnni", ("direct", "direct_vpdpbusd")),
])  # fmt: skip
def test_what_runs_is_what_is_predicted_to_be_fastest(weight, isa, expected):
    assert planned(weight, isa) == expected


def test_depthwise_layers_have_a_variant_of_their_own():
    assert planned((40, 1, 3, 3), "avx512+vnni", groups=40) == ("direct", "depthwise_vpdpwssd")
    asked = planned((40, 1, 3, 3), "sse2", groups=40, algorithm="im2col")
    assert asked == ("im2col", "im2col_pmaddwd")


@pytest.mark.parametrize("isa", ISAS[:1], indirect=True)
def test_results_are_those_of_the_reference_evaluator(isa):
    pytest.importorskip("onnx")
    wrong = list(fuzz.failures(7, range(100), "onnx"))
    assert not wrong, wrong[0][1]


@pytest.mark.thorough
@pytest.mark.draws
@pytest.mark.parametrize("part", range(3))
@pytest.mark.parametrize("isa, turn", [*zip(ISAS, range(len(ISAS)))], indirect=["isa"])
def test_ten_thousand_results_are_those_of_the_reference_evaluator(isa, turn, part):
    """Each instruction set has its part of them: the evaluator needs longer than any kernel."""
    pytest.importorskip("onnx")
    wrong = list(fuzz.failures(1, range(turn + part * len(ISAS), 10_000, 3 * len(ISAS)), "onnx"))
    assert not wrong, wrong[0][1]


def test_cases_are_of_every_kind():
    cases = [fuzz.case_of(1, index) for index in range(300)]
    assert fuzz.case_of(1, 5) == cases[5]
    assert any(case.image[1:] == (1, 1) for case in cases)
    assert any(abs(before - after) > 6 for case in cases for before, after in case.padding)
    assert any(case.stride[0] > case.weight[2] for case in cases)
    assert any(case.groups == case.weight[0] > 1 == case.weight[1] for case in cases)
    assert {case.types for case in cases} == {(x, w, y) for x in fuzz.TYPES for w in fuzz.TYPES
                                              for y in fuzz.TYPES}  # fmt: skip


def test_a_wrong_result_is_noticed(monkeypatch):
    honest = winogen.QConv2d.__call__

    def wrong(self, x, out):
        honest(self, x, out)
        out.reshape(-1)[-1] ^= 1
        return out

    monkeypatch.setattr(winogen.QConv2d, "__call__", wrong)
    _, what = next(fuzz.failures(1, range(30), "numpy"))
    assert "AssertionError" in what and "Case(" in what


@pytest.mark.parametrize("isa", ISAS, indirect=True)
@pytest.mark.parametrize("x_type, w_type, x, w", [
    ("uint8", "int8", 255, -128), ("uint8", "int8", 255, 127), ("int8", "int8", -128, -128),
    ("uint8", "uint8", 255, 255), ("int8", "uint8", -128, 255),
])  # fmt: skip
def test_no_sum_saturates(isa, x_type, w_type, x, w):
    """Two products of u8 and s8 pass 16 bits; all numbers are as large as they get."""
    channels = 130
    image = np.full((1, channels, 5, 6), x, x_type)
    weight = np.full((3, channels, 3, 3), w, w_type)
    conv = winogen.QConv2d(weight, padding=1)
    expected = convolve(image.astype(int), weight.astype(int), padding=((1, 1), (1, 1)))
    assert np.array_equal(conv(image), expected)


@pytest.mark.parametrize("isa", ISAS, indirect=True)
def test_the_longest_sums_do_not_overflow(isa):
    terms = TOO_MANY_TERMS - 1
    conv = winogen.QConv2d(np.full((1, terms, 1, 1), -128, np.int8))
    y = conv(np.full((1, terms, 1, 2), 255, np.uint8))
    assert y.tolist() == [[[[-128 * 255 * terms] * 2]]]
    with pytest.raises(InvalidValue, match=r"65793 products for every sum; allowed: fewer than"):
        winogen.QConv2d(np.zeros((1, terms + 1, 1, 1), np.int8))


def test_sums_that_may_leave_int32_are_refused():
    weight = np.full((2, 40_000, 1, 1), -128, np.int8)
    weight[0] = 1
    conv = winogen.QConv2d(weight, w_zero=127)
    with pytest.raises(InvalidValue, match="weight: got filter 1 with sums from -2601000000"):
        conv(np.zeros((1, 40_000, 1, 1), np.uint8))
    bias = np.array([2**31 - 1], np.int32)
    with pytest.raises(
        InvalidValue, match="filter 0 with sums from 2147483647 to 2147483902, bias"
    ):
        winogen.QConv2d(np.ones((1, 1, 1, 1), np.int8), bias)(np.zeros((1, 1, 1, 1), np.uint8))


def test_halves_go_to_the_even_integer_after_the_zero_point_is_added():
    image = np.arange(8, dtype=np.uint8).reshape(1, 1, 1, 8)
    weight = np.ones((1, 1, 1, 1), np.int8)
    scales = {"w_scale": 0.5, "x_scale": 1, "y_scale": 1}
    assert winogen.QConv2d(weight, **scales)(image).ravel().tolist() == [0, 0, 1, 2, 2, 2, 3, 4]
    odd = winogen.QConv2d(weight, **scales, y_zero=1)
    assert odd(image).ravel().tolist() == [1, 2, 2, 2, 3, 4, 4, 4]


def test_the_multiplier_is_rounded_after_each_operation():
    """In float32, and the product in float64: neither all in float32 nor all in float64."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        x, w, y = rng.uniform(0.1, 1, 3)
        image = rng.integers(0, 256, (1, 64, 9, 9)).astype(np.uint8)
        weight = rng.integers(-128, 128, (4, 64, 3, 3)).astype(np.int8)
        got = winogen.QConv2d(weight, w_scale=w, x_scale=x, y_scale=y * 3000)(image)
        multiplier = np.float32(x) * np.float32(w) / np.float32(y * 3000)
        sums = convolve(image.astype(int), weight.astype(int))
        assert np.array_equal(got, np.rint(np.clip(sums * np.float64(multiplier), 0, 255)))


@pytest.mark.parametrize("kernel", [1, 3])
def test_the_order_of_threads_and_blocks_changes_nothing(kernel):
    rng = np.random.default_rng(3)
    image = rng.integers(0, 256, (2, 20, 40, 33)).astype(np.uint8)
    weight = rng.integers(-128, 128, (70, 20, kernel, kernel)).astype(np.int8)
    convs = [winogen.QConv2d(weight, padding=kernel // 2, threads=n) for n in (1, 2, 3, 8)]
    results = [conv(image) for conv in convs]
    assert convs[-1].bound(image.shape).work.items > 8  # also where pixels are one row
    for result in results[1:]:
        assert np.array_equal(result, results[0])


def test_one_object_takes_inputs_of_both_types_and_all_sizes():
    rng = np.random.default_rng(4)
    weight = rng.integers(-128, 128, (5, 6, 3, 3)).astype(np.int8)
    conv = winogen.QConv2d(weight, x_zero=3)
    for again in (conv, copy.deepcopy(conv), pickle.loads(pickle.dumps(conv))):
        for dtype, size in (("uint8", 5), ("int8", 5), ("uint8", 9), ("uint8", 5)):
            x = rng.integers(0, 100, (1, 6, size, size)).astype(dtype)
            assert np.array_equal(again(x), convolve(x.astype(int) - 3, weight.astype(int)))
    assert np.array_equal(conv(x[0]), conv(x)[0])
    assert conv(x[:0]).shape == (0, 5, 3, 3)


def test_shapes_that_were_seen_are_not_looked_at_again(monkeypatch):
    """What a call finds out about CPU and layer takes longer than a small layer does."""
    rng = np.random.default_rng(5)
    weight = rng.integers(-128, 128, (5, 6, 3, 3)).astype(np.int8)
    conv = winogen.QConv2d(weight, x_zero=3)
    x = rng.integers(0, 100, (2, 6, 7, 9)).astype(np.uint8)
    conv(x), conv(x.view(np.int8))
    for name in ("host_target", "QuantizedKernels"):
        monkeypatch.setattr(f"winogen.conv.quantized.{name}", None)
    for dtype in (np.uint8, np.int8):  # the same bytes
        assert np.array_equal(conv(x.view(dtype)), convolve(x.astype(int) - 3, weight.astype(int)))
    assert np.array_equal(conv(x)[:1], conv(np.asfortranarray(x))[:1])


def test_changes_of_the_callers_arrays_have_no_effect():
    weight, bias = np.ones((1, 1, 1, 1), np.int8), np.ones(1, np.int32)
    conv = winogen.QConv2d(weight, bias)
    weight[:], bias[:] = 9, 9
    assert conv(np.ones((1, 1, 1, 1), np.uint8)).item() == 2


def test_its_source_tells_the_instruction(monkeypatch):
    conv = winogen.QConv2d(np.ones((1, 64, 3, 3), np.int8))
    assert dots_of(host_target())[0].what in conv.source((1, 64, 4, 4))
    monkeypatch.setenv("WINOGEN_ISA", "generic")
    assert "plain C" in conv.source((1, 64, 4, 4), "int8")


@pytest.mark.parametrize("algorithm", ["auto", "im2col", "mcmr"])
@pytest.mark.parametrize("batched", [False, True])
def test_its_plan_tells_what_runs(algorithm, batched):
    weight = np.ones((8, 64, 3, 3), np.int8)
    conv = winogen.QConv2d(weight, padding=1, **SCALES, algorithm=algorithm, threads=2)
    shape = (64, 9, 12) if not batched else (1, 64, 9, 12)
    plan = conv.plan(shape)
    assert plan.output_shape == conv(np.ones(shape, np.uint8)).shape
    assert plan.algorithm == ("direct" if algorithm == "auto" else algorithm)
    assert plan.source == conv.source(shape)
    assert plan.weight_shape == weight.shape and plan.threads == 2
    assert f"packed weights   {plan.packed_weight_bytes:,} bytes" in str(plan)
    assert plan.variant in str(plan) and "8x64x3x3" in str(plan)
    times = [one.seconds for one in plan.predictions]
    assert times == sorted(times) and times[0] > 0
    if algorithm != "mcmr":
        call = conv.bound(shape)
        assert plan.workspace_bytes == call.workspace_bytes
        assert plan.packed_weight_bytes == call.packed.nbytes
        assert plan.multiplications == 64 * 9 * 8 * 9 * 12
    with pytest.raises(InvalidValue, match="input: got 3 channels"):
        conv.plan((3, 9, 9))


def test_every_target_has_an_instruction():
    for target in TARGETS.values():
        assert dots_of(target)[0].extensions == ()


WEIGHT = np.ones((2, 4, 3, 3), np.int8)
SCALES = {"w_scale": 1.0, "x_scale": 1.0, "y_scale": 1.0}


@pytest.mark.parametrize("error, match, options", [
    (InvalidType, "weight: got dtype float32; allowed: uint8 or int8",
     {"weight": np.ones((1, 1, 1, 1), np.float32)}),
    (InvalidValue, r"weight: got shape \(2, 3\); allowed: 4 axes", {"weight": WEIGHT[:, :3, 0, 0]}),
    (InvalidType, "bias: got dtype float32; allowed: int32", {"bias": np.ones(2, np.float32)}),
    (InvalidValue, r"bias: got shape \(3,\); allowed: \(2,\)", {"bias": np.ones(3, np.int32)}),
    (InvalidValue, "w_scale: got -1.0; allowed: a positive float32, or", {"w_scale": -1.0}),
    (InvalidValue, r"w_scale: got shape \(3,\); allowed", {"w_scale": np.ones(3)}),
    (InvalidType, "w_scale: got 'a'", {"w_scale": "a"}),
    (InvalidValue, "w_scale: got None; allowed: a positive float32", {"w_scale": None}),
    (InvalidValue, "x_scale: got nan", {"x_scale": float("nan")}),
    (InvalidValue, "x_scale: got 0", {"x_scale": 0}),
    (InvalidValue, "y_scale: got 1e-30, with which", {"y_scale": 1e-30, "x_scale": 1e10}),
    (InvalidType, "x_zero: got 1.5; allowed: an int in -128..255", {"x_zero": 1.5}),
    (InvalidValue, "x_zero: got 256; allowed: an int in -128..255", {"x_zero": 256}),
    (InvalidValue, "w_zero: got 200; allowed: an int in -128..127", {"w_zero": 200}),
    (InvalidValue, r"w_zero: got shape \(3,\); allowed", {"w_zero": np.zeros(3, np.int8)}),
    (InvalidValue, "w_zero: got values from 0 to 200; allowed: -128..127, as weight is int8",
     {"w_zero": np.array([0, 200])}),
    (InvalidValue, "y_zero: got -1; allowed: an int in 0..255", {"y_zero": -1, "y_dtype": "uint8"}),
    (InvalidValue, "y_dtype: got 'int16'", {"y_dtype": np.int16}),
    (InvalidValue, "y_zero: got 3 without y_scale", {"y_scale": None, "y_zero": 3}),
    (InvalidType, "y_zero: got array", {"y_scale": None, "y_zero": np.array([3, 4])}),
    (InvalidValue, "y_dtype: got 'int8' without y_scale", {"y_scale": None, "y_dtype": "int8"}),
    (InvalidValue, "x_scale: got -1", {"y_scale": None, "x_scale": -1}),
    (InvalidType, "w_scale: got 'a'", {"y_scale": None, "w_scale": "a"}),
    (InvalidValue, "activation: got 'sin'; allowed: None, \"relu\"", {"activation": "sin"}),
    (InvalidValue, "algorithm: got 'loops'; allowed: \"auto\", \"direct\", \"im2col\"",
     {"algorithm": "loops"}),
    (InvalidValue, "layout: got 'HWCN'", {"layout": "HWCN"}),
    (InvalidValue, "stride: got 0", {"stride": 0}),
    (InvalidValue, "groups: got 3", {"groups": 3}),
])  # fmt: skip
def test_wrong_arguments_are_named(error, match, options):
    arguments = {"weight": WEIGHT, **SCALES, **options}
    with pytest.raises(error, match=match):
        winogen.QConv2d(**arguments)


@pytest.mark.parametrize("error, match, x, options", [
    (InvalidType, "input: got dtype float32; allowed: uint8 or int8", np.ones((1, 4, 5, 5), "f4"),
     {}),
    (InvalidType, "input: got 1; allowed: an array of uint8 or int8", 1, {}),
    (InvalidValue, "input: got 3 channels", np.ones((1, 3, 5, 5), "u1"), {}),
    (InvalidValue, "x_zero: got 200; allowed: an int in -128..127, for int8",
     np.ones((1, 4, 5, 5), "i1"), {"x_zero": 200}),
    (InvalidValue, "y_zero: got -3; allowed: an int in 0..255, for uint8",
     np.ones((1, 4, 5, 5), "u1"), {"y_zero": -3}),
])  # fmt: skip
def test_wrong_inputs_are_named(error, match, x, options):
    with pytest.raises(error, match=match):
        winogen.QConv2d(WEIGHT, **SCALES, **options)(x)


def test_wrong_outputs_are_named():
    conv, x = winogen.QConv2d(WEIGHT), np.ones((1, 4, 5, 5), np.uint8)
    with pytest.raises(InvalidType, match="out: got dtype [|]u1; allowed: <i4, as the result has"):
        conv(x, np.empty((1, 2, 3, 3), np.uint8))
    with pytest.raises(InvalidValue, match="out: got shape"):
        conv(x, np.empty((1, 2, 3, 4), np.int32))
    with pytest.raises(InvalidValue, match="input: got 3 channels"):
        conv.error((1, 3, 5, 5))
