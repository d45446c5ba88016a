"""The roofline on limits made up for it: every figure can be checked by hand."""

import pytest

from winogen.kernels.count import Demand, Move
from winogen.toolchain.limits import Limits
from winogen.tuning.layers import BenchLayer
from winogen_lab.bench import roofline

KIB, MIB = 1 << 10, 1 << 20
LIMITS = Limits(
    1,
    {1: 100.0},
    (("L1", 32 * KIB, 200.0), ("L2", MIB, 50.0), ("memory", 1 << 30, 10.0)),
    (("L1", 32 * KIB, 100.0), ("L2", MIB, 25.0), ("memory", 1 << 30, 5.0)),
)


def problem_of(size, **more):
    layer = {"name": "x", "input": [1, 64, size, size], "weight": [32, 64, 3, 3], "padding": 1}
    return BenchLayer.from_dict({**layer, **more})


def test_arithmetic_binds_where_products_are_many():
    roof = roofline.of_layer(problem_of(8).problem(), 10**9, 1000, 100.0, LIMITS)
    assert roof.binds == "arithmetic" and roof.seconds == pytest.approx(0.02)


@pytest.mark.parametrize(
    "dtype, products, seconds, outputs",
    [
        ("float64", "float64", 0.04, 8),
        ("float32", "int16", 0.01, 4),
        ("float16", "float32", 0.02, 2),
    ],
)
def test_a_vector_holds_more_of_narrower_numbers(dtype, products, seconds, outputs):
    problem = problem_of(8).problem("NHWC", dtype)
    roof = roofline.of_layer(problem, 10**9, 1000, 100.0, LIMITS, products)
    assert roof.arithmetic == pytest.approx(seconds)
    assert roof.passages[2].bytes == outputs * 32 * 8 * 8


@pytest.mark.parametrize(
    "variant, seconds",
    [
        ("direct_vpdpbusd", 0.02 / 4),
        ("im2col_tdpbusd", 0.02 / 32),
        ("direct_smlal", 0.02 * 3),  # two products by six instructions
        ("depthwise_pmaddwd", 0.02),
    ],
)
def test_bytes_are_multiplied_at_the_rate_of_their_instruction(variant, seconds):
    problem = problem_of(8).problem("NHWC", "int8")
    roof = roofline.of_layer(problem, 10**9, 1000, 100.0, LIMITS, "int8", variant)
    assert roof.arithmetic == pytest.approx(seconds)
    assert roof.passages[2].bytes == 32 * 8 * 8


def test_traffic_is_weights_inputs_and_outputs_at_their_levels():
    size = 128  # 4 MiB of inputs, 2 MiB of outputs: memory; weights in the second level
    roof = roofline.of_layer(problem_of(size).problem(), 1, 500_000, 100.0, LIMITS)
    moved = {passage.what: passage for passage in roof.passages}
    assert {what: (p.level, p.gbytes_per_s, p.writes) for what, p in moved.items()} == {
        "U": ("L2", 50.0, False),
        "input": ("memory", 10.0, False),
        "output": ("memory", 5.0, True),
    }
    inputs, outputs = 4 * 64 * size**2, 4 * 32 * size**2
    assert roof.traffic == pytest.approx(500_000 / 50e9 + inputs / 10e9 + outputs / 5e9)
    assert roof.binds == "traffic" and roof.seconds == roof.traffic


def test_threads_share_what_is_theirs_together():
    two = Limits(2, {1: 100.0, 2: 180.0}, (("L2", 2 * MIB, 100.0), ("memory", 1 << 30, 15.0)))
    own = Demand(moves=(Move("U", 10**9, 3 * MIB // 2, private=True),))
    shared = Demand(moves=(Move("V", 10**9, 3 * MIB // 2),))
    levels = [roofline.of_stage(d, 16, 180.0, two).passages[0].level for d in (own, shared)]
    assert levels == ["memory", "L2"]  # two copies of 1.5 MiB fill both second levels


def test_a_stage_counts_instructions_and_loads_of_whole_vectors():
    demand = Demand(products=10, steps=10**9, instructions=10**9, loads=3 * 10**9)
    roof = roofline.of_stage(demand, 16, 100.0, LIMITS)
    assert roof.arithmetic == pytest.approx(2 * 16 * 2 / 100)
    assert roof.loads == pytest.approx(2 * 16 * 3 / 100) and roof.binds == "loads"


def test_the_first_level_is_read_and_written_at_once():
    near = (Move("strip", 10**9, KIB), Move("strip", 10**9, KIB, writes=True))
    far = Move("V", 10**9, MIB, writes=True)
    roof = roofline.of_stage(Demand(moves=(*near, far)), 16, 100.0, LIMITS)
    assert roof.traffic == pytest.approx(1 / 100 + 1 / 25)  # not 1 / 200 besides


@pytest.mark.parametrize(
    "sizes, rows",
    [
        ((8, 8, 3, 1, 1, 1), 8),  # padded on both sides
        ((8, 4, 1, 2, 1, 0), 4),  # every other row
        ((9, 3, 2, 3, 1, 0), 6),
        ((9, 5, 3, 1, 2, 0), 9),
        ((9, 1, 3, 1, 4, 0), 3),
    ],
)
def test_rows_that_are_seen(sizes, rows):
    assert roofline.seen(*sizes) == rows


def test_strides_skip_rows_and_in_nhwc_pixels():
    layer = BenchLayer.from_dict(
        {"name": "x", "input": [1, 64, 8, 8], "weight": [32, 64, 1, 1], "stride": 2}
    )
    read = {
        layout: roofline.compulsory(layer.problem(layout), 1000)[1].bytes
        for layout in ("NCHW", "NHWC")
    }
    assert read == {"NCHW": 4 * 64 * 4 * 8, "NHWC": 4 * 64 * 4 * 4}


def test_a_transposed_layer_reads_all_inputs():
    layer = BenchLayer.from_dict(
        {"name": "x", "input": [1, 64, 8, 8], "weight": [64, 32, 2, 2], "stride": 3,
         "transposed": True}
    )  # fmt: skip
    roof = roofline.of_layer(layer.posed("NHWC"), 10**9, 1000, 100.0, LIMITS)
    moved = {passage.what: passage.bytes for passage in roof.passages}
    assert moved == {"U": 1000, "input": 4 * 64 * 64, "output": 4 * 32 * 23 * 23}
    assert roof.arithmetic == pytest.approx(2 / 100)


def test_what_goes_to_json():
    roof = roofline.of_layer(problem_of(8).problem(), 10**6, 1000, 100.0, LIMITS)
    fields = roof.to_dict()
    assert set(fields) == {"seconds", "binds", "arithmetic_s", "loads_s", "traffic_s", "moves"}
    assert [move["what"] for move in fields["moves"]] == ["U", "input", "output"]
    assert fields["moves"][0]["seconds"] == pytest.approx(1000 / 200e9)
