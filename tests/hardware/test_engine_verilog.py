"""Engines as Verilog: simulated beside numpy's integers, to the bit and to the cycle."""

import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from codegen.verilog_tools import linted, need, simulated

from winogen.algebra import cook_toom
from winogen.errors import InvalidValue, Unsupported
from winogen.hardware import Engine
from winogen.hardware.accelerator import LayerShape, accelerator
from winogen.hardware.emulation import ByteLayer, convolved, finish, finished, quantised
from winogen.hardware.verilog import files, random_layer

HEADLINE = LayerShape(16, 16, 16, 16, 3, 1)
ARITHMETICS = pytest.mark.parametrize("rounded", [False, True], ids=["exact", "quantised"])


def written(folder, engine, shape, rounded=False, layer=None, largest=None, **options):
    """Write an engine and a layer; return what was made."""
    made = accelerator(Engine(*engine), largest or shape, quantised=rounded, **options)
    layer = random_layer(shape) if layer is None else layer
    for file, text in files(made, layer, "core", "a test").items():
        (folder / file).write_text(text)
    return made


def figures(output):
    """(cycles, of these busy, fill, drain) of each run, from what a testbench prints."""
    assert output.splitlines()[-1].startswith("PASS"), output
    cycles = re.findall(r"(\d+) cycles from .*, (\d+) of them busy", output)
    ends = re.findall(r"fill (\d+) cycles, drain (\d+) cycles", output)
    return [tuple(map(int, (*one, *two))) for one, two in zip(cycles, ends)]


@ARITHMETICS
def test_the_layer_of_the_model_takes_its_1024_cycles(tmp_path, rounded):
    need("iverilog")
    made = written(tmp_path, (8, 4, 8, 1), HEADLINE, rounded)
    model = made.engine.mapping((1, 16, 16, 16), (16, 16, 3, 3), padding=1).cycles
    (found,) = figures(simulated(tmp_path, "core", "-g2005"))
    assert found == (1024, 1024, 10 if rounded else 8, 7) and model == 1024


# Sizes that divide, that do not, and that are smaller than a tile or a group.
LAYERS = {
    "one pixel": LayerShape(1, 1, 1, 1, 3, 1),
    "nothing divides": LayerShape(5, 7, 9, 5, 3, 1),
    "no padding": LayerShape(3, 5, 8, 2, 3, 0),
    "padding of two": LayerShape(2, 4, 3, 3, 3, 2),
    "one row of tiles": LayerShape(4, 2, 12, 7, 3, 1),
    "one column of tiles": LayerShape(5, 7, 2, 7, 3, 1),
    "pixels": LayerShape(5, 7, 9, 5, 1, 0),
    "one pixel of 1x1": LayerShape(5, 1, 1, 5, 1, 0),
    "many pixels": LayerShape(2, 13, 13, 2, 1, 0),
}
ENGINES = {
    "2,4,2,1": (2, 4, 2, 1),
    "2,4,2,2": (2, 4, 2, 2),
    "3,5,1,3": (3, 5, 1, 3),
    "1,6,3,1": (1, 6, 3, 1),
}


def of_model(made, shape):
    """The model's cycles of a layer whose rows of tiles all fill the lanes, as they must here."""
    height, width, padding = shape.height, shape.width, shape.padding
    if shape.pointwise:  # one line of pixels
        height, width = 1, height * width
    else:
        step = made.engine.L * made.circuit.m
        width += -shape.out_width % step
    weight = (shape.filters, shape.channels, shape.taps, shape.taps)
    size = (1, shape.channels, height, width)
    return made.engine.mapping(size, weight, padding=padding).cycles


def cases():
    """Every layer on every engine, in one arithmetic or the other by turns."""
    for i, layer in enumerate(LAYERS):
        for j, engine in enumerate(ENGINES):
            rounded = bool((i + j) % 2)
            yield pytest.param(engine, layer, rounded, id=f"{engine}-{layer}-{rounded}")


@pytest.mark.parametrize(("engine", "layer", "rounded"), list(cases()))
def test_engines_compute_what_python_computes_without_a_gap(tmp_path, engine, layer, rounded):
    need("iverilog")
    shape = LAYERS[layer]
    made = written(tmp_path, ENGINES[engine], shape, rounded)
    ((cycles, busy, fill, drain),) = figures(simulated(tmp_path, "core", "-g2005"))
    assert cycles == busy == made.cycles(shape) == of_model(made, shape)
    tile = 0 if shape.pointwise else made.circuit.t
    assert fill == 4 + tile + 2 * rounded
    assert drain == (5 if shape.pointwise else tile + 3)


@ARITHMETICS
@pytest.mark.parametrize("buffers", [1, 2, None])
def test_streams_may_pause_and_layers_follow_each_other(tmp_path, rounded, buffers):
    need("iverilog")
    for layer in ("nothing divides", "one column of tiles", "pixels"):
        made = written(tmp_path, (2, 4, 2, 1), LAYERS[layer], rounded, buffers=buffers)
        parameters = "-Pcore_tb.GAPS=1", "-Pcore_tb.RUNS=2"
        runs = figures(simulated(tmp_path, "core", "-g2005", *parameters))
        assert len(runs) == 2
        assert all(cycles >= busy == made.cycles(LAYERS[layer]) for cycles, busy, *_ in runs)
        assert buffers != 1 or runs[0][0] > runs[0][1]  # for its filters it waits


def test_an_engine_takes_every_layer_that_fits_into_its_memories(tmp_path):
    need("iverilog")
    largest = LayerShape(6, 12, 12, 6, 3, 1)
    texts = set()
    for shape in (
        largest,
        LAYERS["padding of two"],
        LAYERS["pixels"],
        LayerShape(6, 3, 11, 4, 3, 0),
    ):
        made = written(tmp_path, (2, 4, 2, 1), shape, largest=largest)
        texts.add(
            tuple((tmp_path / f"core{part}.v").read_text() for part in ("", "_rows", "_sums"))
        )
        assert figures(simulated(tmp_path, "core", "-g2005"))[0][0] == made.cycles(shape)
    assert len(texts) == 1
    with pytest.raises(Unsupported, match=r"^width: got 40; allowed: at most 12, "):
        made.settings(LayerShape(6, 12, 40, 6, 3, 1))
    with pytest.raises(Unsupported, match=r"^filters: got 8; allowed: at most 6, "):
        made.settings(LayerShape(6, 12, 12, 8, 3, 1))


@ARITHMETICS
def test_extremes_and_relu(tmp_path, rounded):
    need("iverilog")
    shape = LayerShape(8, 6, 6, 4, 3, 1)
    # Squares of two by two, moved from channel to channel: the largest and the least of a tile.
    c, i, j = np.ogrid[:8, :6, :6]
    x = np.where((i + c % 2) // 2 + (j + c // 2) // 2 & 1, 127, -128)
    weight = np.full((4, 8, 3, 3), -128)
    weight[1], weight[2, :, 1] = 127, 0
    weight[3] = np.where(np.arange(9).reshape(3, 3) % 2, 127, -128)
    layer = ByteLayer(
        x, weight, 1, np.array([2**20, -(2**20), 0, 5]), np.full(4, 1e-4), 127, -5, True
    )
    written(tmp_path, (4, 4, 2, 1), shape, rounded, layer)
    assert figures(simulated(tmp_path, "core", "-g2005"))


def test_exact_results_are_those_of_direct_convolution():
    shape = LayerShape(5, 7, 9, 3, 3, 1)
    layer = random_layer(shape, 3)
    zeros = layer.in_zero * layer.weight.sum((1, 2, 3))
    sums = convolved(layer)
    plain = np.pad(layer.x - layer.in_zero, ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(plain, (3, 3), (1, 2))
    direct = np.einsum("cijkl,mckl->mij", windows, layer.weight)
    assert np.array_equal(sums - zeros[:, None, None], direct)
    reals = (direct + layer.bias[:, None, None]) * layer.multiplier[:, None, None] + layer.out_zero
    bytes_ = finished(layer, sums, finish(layer, 1, zeros))
    assert np.abs(bytes_ - np.clip(reals, -128, 127)).max() < 0.51


@pytest.mark.parametrize(("tile", "most"), [(4, 0.03), (6, 0.3)])
def test_quantised_results_are_near_those_of_direct_convolution(tile, most):
    layer = random_layer(HEADLINE)
    circuit = accelerator(Engine(8, tile, 8, 1), HEADLINE, quantised=True).circuit
    sums, scales = quantised(circuit, layer)
    direct = convolved(layer) - layer.in_zero * layer.weight.sum((1, 2, 3))[:, None, None]
    error = sums * scales.unit[:, None, None] - direct
    assert np.sqrt((error**2).mean() / (direct.astype(float) ** 2).mean()) < most


def test_words_are_as_wide_as_their_ranges():
    exact = accelerator(Engine(8, 4, 8, 1), HEADLINE).circuit
    assert (exact.values.bits, exact.filters.bits, exact.made.divisor()) == (10, 12, (1, 2))
    assert exact.channels == 3640
    classic = accelerator(Engine(4, 6, 4, 1), HEADLINE).circuit
    assert (classic.values.bits, classic.filters.bits, classic.channels) == (15, 14, 227)
    points = cook_toom(4, 3, "0,1,-1,1/2,-2,inf")
    other = accelerator(Engine(4, 6, 4, 1), HEADLINE, algorithm=points).circuit
    assert (other.values.bits, other.filters.bits, other.channels) == (16, 14, 3640)
    rounded = accelerator(Engine(4, 6, 4, 1), HEADLINE, quantised=True).circuit
    assert (rounded.values.bits, rounded.filters.bits, rounded.channels) == (8, 8, 181)


@pytest.mark.parametrize(
    ("engine", "shape", "message"),
    [
        ((8, 6, 8, 1), LayerShape(228, 8, 8, 8, 3, 1),
         "weight: got 228 channels; allowed: at most 227, which the engine's sums of 32 bits hold"),
        ((8, 3, 8, 1), HEADLINE, "engine: got T = 3 for filters of 3 x 3; allowed: at least 4"),
        ((8, 4, 8, 1), LayerShape(8, 8, 8, 8, 5, 1),
         "weight: got filters of 5 x 5; allowed: 1 x 1 and 3 x 3"),
        ((8, 4, 8, 1), LayerShape(8, 8, 8, 8, 3, 3),
         "padding: got 3; allowed: 0 .. 2 for filters of 3 x 3"),
        ((8, 4, 8, 1), LayerShape(8, 300, 300, 8, 1, 0),
         "input: got 90000 pixels; allowed: at most 65535 for 1 x 1"),
        ((2, 10, 2, 1), HEADLINE,
         "engine: got T = 10, of which sums of 32 bits hold not one channel of bytes; allowed: "
         "smaller tiles, or points that are small integers"),
        ((4096, 4, 4096, 1), HEADLINE, "engine: got 67108864 multipliers; allowed: at most 16384"),
    ],
)  # fmt: skip
def test_what_an_engine_does_not_compute_is_refused_in_a_sentence(engine, shape, message):
    with pytest.raises(Unsupported) as error:
        accelerator(Engine(*engine), shape)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"x": np.full((2, 4, 4), 200)}, "x: got 200 .. 200; allowed: -128 .. 127"),
        ({"x": np.zeros((2, 4, 4))}, "x: got float64; allowed: integers"),
        ({"x": np.zeros((4, 4), int)}, "x: got the shape (4, 4); allowed: 3 axes"),
        ({"x": np.zeros((3, 4, 4), int)},
         "weight: got the shape (2, 2, 3, 3); allowed: (M, 3, r, r)"),
        ({"bias": np.zeros(3, int)}, "bias: got the shape (3,); allowed: (2,)"),
        ({"in_zero": 200}, "in_zero: got 200; allowed: -128 .. 127"),
    ],
)  # fmt: skip
def test_a_layer_that_is_none_is_refused(changed, message):
    plain = {
        "x": np.zeros((2, 4, 4), int), "weight": np.zeros((2, 2, 3, 3), int), "padding": 1,
        "bias": np.zeros(2, int), "multiplier": np.ones(2),
    }  # fmt: skip
    with pytest.raises(InvalidValue) as error:
        ByteLayer(**{**plain, **changed})
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"multiplier": np.array([1.0, 70000.0])}, "multiplier: "),
        ({"bias": np.array([0, 2**60])}, "bias: "),
    ],
)
def test_scales_beyond_their_words_are_refused(changed, message):
    layer = replace(random_layer(LayerShape(2, 4, 4, 2, 3, 1)), **changed)
    with pytest.raises(InvalidValue, match=f"^{message}"):
        finish(layer, 1, 0)


@ARITHMETICS
@pytest.mark.parametrize("engine", [*ENGINES.values(), (1, 4, 1, 1), (4, 8, 2, 1)], ids=str)
def test_a_lint_has_nothing_to_say(tmp_path, engine, rounded):
    need("verilator")
    written(tmp_path, engine, LayerShape(6, 8, 8, 6, 3, 1), rounded)
    assert linted(tmp_path, "core") == ""
    for path in tmp_path.glob("*.v"):
        for line in path.read_text().splitlines():
            assert len(line) <= 100 and line == line.rstrip(), (path.name, line)


def synthesized(folder, *steps):
    """What yosys prints of an engine after some steps."""
    script = "; ".join(["read_verilog core.v", "hierarchy -libdir . -top core", *steps])
    run = subprocess.run(["yosys", "-p", script], cwd=folder, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout.rpartition("design hierarchy")[2]


@pytest.mark.thorough
@ARITHMETICS
def test_yosys_infers_memories_and_multipliers_and_no_latch(tmp_path, rounded):
    need("yosys")
    written(tmp_path, (2, 4, 2, 1), LayerShape(4, 6, 6, 4, 3, 1), rounded)
    cells = synthesized(tmp_path, "synth -run begin:fine", "check -assert", "stat")
    # Two banks of lines, hold buffers of two filters, sums, results' scales; scales and offsets.
    assert int(re.search(r"\$mem_v2 +(\d+)", cells)[1]) == 6 + 2 * rounded
    assert "latch" not in cells
    operands = (8, 8) if rounded else (10, 12)
    narrow = [f"r:{side}_WIDTH={bits} %i" for side, bits in zip("AB", operands)]
    count = f"select -assert-count 2 core_dot/t:$mul {' '.join(narrow)} r:A_SIGNED=1 %i"
    synthesized(tmp_path, "proc", "opt", "wreduce", count)


@pytest.mark.thorough
@ARITHMETICS
def test_yosys_maps_an_engine_to_gates(tmp_path, rounded):
    need("yosys")
    written(tmp_path, (2, 4, 2, 1), LayerShape(4, 6, 6, 4, 3, 1), rounded)
    cells = synthesized(tmp_path, "synth", "check -assert", "stat")
    assert "LATCH" not in cells.upper() and int(re.search(r"Number of cells: +(\d+)", cells)[1])


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("engine", "shape", "rounded"),
    [
        ((8, 4, 8, 1), HEADLINE, True),
        ((4, 6, 4, 1), LayerShape(9, 15, 18, 9, 3, 1), False),
        ((4, 4, 4, 2), LayerShape(9, 11, 13, 7, 1, 0), True),
    ],
    ids=str,
)
def test_verilator_agrees(tmp_path, engine, shape, rounded):
    need("verilator", "make", "g++")
    made = written(tmp_path, engine, shape, rounded)
    command = [
        "verilator",
        "--binary",
        "--top-module",
        "core_tb",
        "-Wno-fatal",
        "core_tb.v",
        "-y",
        ".",
        "-MAKEFLAGS",
        "OPT_FAST=-O0 OPT_SLOW=-O0 OPT_GLOBAL=-O0",  # compiling takes seconds, running none
    ]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    run = subprocess.run(["obj_dir/Vcore_tb"], cwd=tmp_path, capture_output=True, text=True)
    output = "\n".join(line for line in run.stdout.splitlines() if not line.startswith("-"))
    assert figures(output)[0][0] == made.cycles(shape)
    shutil.rmtree(tmp_path / "obj_dir")


@pytest.mark.thorough
@ARITHMETICS
@pytest.mark.parametrize("seed", range(12))
def test_random_engines_and_layers(tmp_path, seed, rounded):
    need("iverilog")
    draw = np.random.default_rng(seed)
    engine = tuple(int(draw.integers(low, high)) for low, high in ((1, 5), (4, 8), (1, 4), (1, 4)))
    taps = int(draw.choice([1, 3, 3]))
    padding = int(draw.integers(0, taps))
    sizes = [int(one) for one in draw.integers(3, 16, 2)]
    channels, filters = (int(one) for one in draw.integers(1, 12, 2))
    shape = LayerShape(channels, *sizes, filters, taps, padding)
    made = written(tmp_path, engine, shape, rounded, random_layer(shape, seed, bool(seed % 2)))
    ((cycles, busy, *_),) = figures(simulated(tmp_path, "core", "-g2005"))
    assert busy == made.cycles(shape) and (cycles == busy) == made.in_time(shape)
