"""`Conv2d` as an object: weights packed once, plans, copies, and several threads at once."""

import copy
import functools
import itertools
import pickle
import subprocess
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest
from conv import exact
from conv.reference import convolve
from kernels.turns import turns

import winogen
from winogen.conv import Conv2d, conv2d, execute
from winogen.conv.cuts import Candidate
from winogen.conv.plan import Prediction
from winogen.kernels import general


@pytest.fixture
def normal():
    rng = np.random.default_rng(8)

    def draw(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    return draw


def test_later_changes_of_the_callers_arrays_have_no_effect(normal):
    x, w, bias = normal(1, 3, 6, 7), normal(4, 3, 3, 2), normal(4)
    conv = Conv2d(w, bias, algorithm="direct")
    wanted = conv2d(x, w, bias, algorithm="direct")
    w[...] = bias[...] = np.nan
    assert np.array_equal(conv(x), wanted)


def test_weights_are_packed_once_for_all_shapes(normal, monkeypatch):
    packed = []
    pack = execute.Kernel.pack
    monkeypatch.setattr(
        execute.Kernel, "pack", lambda self, *rest: packed.append(self) or pack(self, *rest)
    )
    conv = Conv2d(normal(4, 3, 3, 2), padding=1, edge="direct", **exact.chosen("mcmr"))
    for size in ((8, 9), (10, 13), (8, 9), (4, 5), (3, 3)):
        conv(normal(2, 3, *size))
    assert len(packed) == 2  # mcmr, and direct at the rim


def test_plan_tells_what_runs(normal):
    conv = Conv2d(normal(4, 3, 3, 2), padding=1, threads=2, edge="direct", **exact.chosen("mcmr"))
    plan = conv.plan((2, 3, 11, 12))
    assert isinstance(plan, winogen.Plan)
    assert (plan.algorithm, plan.tile, plan.threads) == ("mcmr", (3, 4), 2)
    assert plan.points == (("0", "1", "-1", "2", "inf"),) * 2
    assert plan.isa in winogen.records.TARGETS
    assert plan.output_shape == (2, 4, 11, 13)
    # 3 x 3 tiles of 25 products, then 2 rows of 13 and 9 columns of 1 by the definition
    assert plan.multiplications == 2 * 3 * 4 * (3 * 3 * 25 + (2 * 13 + 9) * 6)
    assert plan.direct_multiplications == 2 * 3 * 4 * 11 * 13 * 6
    assert plan.workspace_bytes > 0 and plan.packed_weight_bytes >= 4 * 4 * 3 * (25 + 6)
    assert "winogen_run" in plan.source and "winogen_run" in plan.rim_source
    text = str(plan)
    for part in (
        "2x3x11x12 * 4x3x3x2 -> 2x4x11x13",
        "mcmr F(3x4,3x2), edge direct",
        "0, 1, -1, 2, inf",
        "2 threads",
        f"{plan.workspace_bytes:,} bytes",
        "fewer than direct",
    ):
        assert part in text, text
    assert conv.plan([2, 3, 11, 12]) == plan


@pytest.mark.parametrize("algorithm", exact.PLAIN + exact.WINOGRAD)
def test_plan_of_every_algorithm(normal, algorithm):
    conv = Conv2d(normal(4, 3, 3, 2), **exact.chosen(algorithm))
    plan = conv.plan((3, 9, 10))
    assert plan.algorithm == algorithm and plan.output_shape == (4, 7, 9)
    assert plan.algorithm in str(plan)
    per_filter = {
        "winograd2d": 3 * 3 * 25,
        "mcmr": 3 * 3 * 25,
        "winograd1d": 7 * 3 * 5 * 3,  # rows, tiles, products, taps
    }.get(algorithm, 7 * 9 * 6)
    assert plan.multiplications == 12 * per_filter
    assert (plan.points is None) == (plan.tile is None) == (algorithm in exact.PLAIN)


def test_plan_names_the_variant_unless_it_bears_the_name_of_the_algorithm(normal):
    single_pixels = Conv2d(normal(48, 32, 1, 1)).plan((2, 32, 28, 28))
    assert single_pixels.variant == "planes" and "  direct, variant planes\n" in str(single_pixels)
    windows = Conv2d(normal(48, 32, 3, 3), algorithm="direct").plan((2, 32, 28, 28))
    assert windows.variant == "direct" and "variant" not in str(windows)


MODULI = "x,x-1,x+1,x^2+1,inf"  # F(4, 3): seven products, and G has no denominators but 2 and 4


@pytest.mark.parametrize(
    "algorithm, order", turns(exact.WINOGRAD, (None, "naive", "huffman", "pairwise"))
)
def test_moduli_and_orders_compute_the_convolution_to_the_bit(algorithm, order):
    rng = np.random.default_rng(2)
    x = exact.integers(rng, (2, 18, 9, 11), 3)
    w = 16 * exact.integers(rng, (5, 18, 3, 3), 1)
    wanted = convolve(x, w, padding=((1, 1), (1, 1)))
    conv = Conv2d(w.astype(np.float32), padding=1, algorithm=algorithm, moduli=MODULI, order=order)
    assert np.array_equal(conv(x.astype(np.float32)), wanted)


def test_plan_tells_that_it_was_chosen_for_its_error(normal):
    plan = Conv2d(normal(8, 4, 3, 3)).plan((1, 4, 32, 32))
    ways = {
        "coarse": Prediction(1.0, 4e-6, "mcmr", (8, 8), ""),
        "fine": Prediction(1.1, 1e-6, "mcmr", (4, 4), ""),
    }
    for chosen, other, told in (("fine", "coarse", True), ("coarse", "fine", False)):
        text = str(replace(plan, predictions=(ways[chosen], ways[other])))
        assert ("as accurate as direct" in text) == told


def test_plan_of_moduli_and_an_order(normal):
    along = (MODULI, "x,x-1,x+1,inf")
    plan = Conv2d(normal(4, 8, 3, 3), moduli=along, order="pairwise").plan((1, 8, 10, 8))
    assert plan.points == (None, None) and plan.order == "pairwise"
    assert plan.moduli == plan.sets
    assert plan.moduli[0] == ("x", "x - 1", "x + 1", "x^2 + 1", "inf")
    assert plan.multiplications == 4 * 8 * (2 * 3) * (7 * 4)
    for part in ("moduli (height)  x, x - 1", "F(4x2,3x3)", "row by row, order pairwise"):
        assert part in str(plan)
    head = " ".join(plan.source[: plan.source.index("*/")].replace("\n *", " ").split())
    assert "modulo {x, x - 1, x + 1, x^2 + 1, inf}" in head
    # Rows that are summed one by one round differently, and the prediction knows.
    usual = Conv2d(normal(4, 8, 3, 3), algorithm="mcmr", tile=6).plan((1, 8, 8, 8))
    naive = Conv2d(normal(4, 8, 3, 3), tile=6, order="huffman").plan((1, 8, 8, 8))
    assert naive.predicted_error != usual.predicted_error


def test_plan_refuses_what_a_call_would(normal):
    conv = Conv2d(normal(4, 3, 3, 2))
    for shape in ((1, 4, 9, 9), (1, 3, 2, 9), (9, 9)):
        with pytest.raises(ValueError, match="input|weight"):
            conv.plan(shape)


def test_many_shapes_do_not_fill_the_memory(normal, monkeypatch):
    monkeypatch.setattr(winogen.conv.weighted, "SHAPES_KEPT", 3)
    conv = Conv2d(normal(2, 1, 2, 2), algorithm="direct")
    for height in range(2, 9):
        conv(normal(1, 1, height, 5))
    assert len(conv._bound) == 3


@pytest.mark.parametrize(
    "again", (copy.copy, copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c)))
)
def test_copies_and_pickles_work(normal, again):
    x, conv = normal(1, 3, 6, 7), Conv2d(normal(4, 3, 3, 2), normal(4), algorithm="direct")
    wanted = conv(x)
    other = again(conv)
    assert np.array_equal(other(x), wanted) and np.array_equal(conv(x), wanted)
    assert "(4, 3, 3, 2)" in repr(other) and "direct" in repr(other)


@pytest.mark.parametrize("algorithm", exact.PLAIN + exact.WINOGRAD)
def test_results_depend_neither_on_threads_nor_on_blocks(normal, algorithm, monkeypatch):
    """Bit for bit: threads share blocks, or the channels and filters of every block, or images."""
    x, w = normal(3, 40, 13, 15), normal(70, 40, *exact.KERNEL)
    chosen = dict(exact.chosen(algorithm), padding=1)
    wanted = conv2d(x, w, threads=1, **chosen)
    for threads in (2, 3):
        assert np.array_equal(conv2d(x, w, threads=threads, **chosen), wanted)
    works = Candidate.works
    blocks = ((1, 1), (1, 3), (2, 2), (20, 20))
    for threads, block, split, images in itertools.product((1, 2, 3), blocks, (0, 1), (1, 2, 3)):
        if images > 1 and (not general(algorithm).spans_images or threads == 3):
            continue
        forced = functools.partial(replace, block=block, split=split, images=images)
        monkeypatch.setattr(
            Candidate, "works", lambda *args, to=forced: [to(work) for work in works(*args)]
        )
        execute.forget()
        got = np.full_like(wanted, np.nan)  # memory that is used again would hide what is missing
        conv2d(x, w, threads=threads, out=got, **chosen)
        assert np.array_equal(got, wanted), (threads, block, split, images)
    execute.forget()


@pytest.mark.parametrize("algorithm", exact.PLAIN + exact.WINOGRAD)
def test_one_object_called_from_several_threads_at_once(normal, algorithm):
    conv = Conv2d(normal(20, 8, *exact.KERNEL), **exact.chosen(algorithm))
    inputs = [normal(1, 8, 9 + n % 3, 11) for n in range(12)]
    wanted = [Conv2d(conv._weight, **exact.chosen(algorithm))(x) for x in inputs]
    start, wrong = threading.Barrier(4), []

    def work(first):
        start.wait()
        for _ in range(5):
            for n in range(first, 12, 4):
                try:
                    if not np.array_equal(conv(inputs[n]), wanted[n]):
                        wrong.append(n)
                except Exception as error:
                    wrong.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_warm_start_loads_what_it_needs():
    """Neither algebra nor searches for what ships; no templates for what was rendered before."""
    script = """
import sys
import numpy as np, winogen
y = winogen.conv2d(np.ones((1, 32, 9, 9), 'f'), np.ones((32, 32, 3, 3), 'f'), algorithm='mcmr')
assert abs(y - 288).max() < 1e-2
heavy = {'sympy', 'matplotlib', 'typer', 'winogen.algebra', 'winogen.program.search', *sys.argv[1:]}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", script], check=True)
    subprocess.run([sys.executable, "-c", script, "jinja2", "filelock"], check=True)
