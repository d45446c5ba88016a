"""The same call gives the same bits: from run to run, and on any number of threads."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels.turns import turns

from winogen import Conv2d
from winogen.conv import Layer, execute, planner
from winogen.conv.request import Request
from winogen.records import TARGETS, Machine
from winogen.tuning.layers import load_layers

MACHINES = (
    Machine(),
    Machine(l3_bytes=64 << 20, l3_rate=40.0, memory_rate=20.0),
    Machine(l2_bytes=256 << 10, l2_rate=20.0, l3_rate=6.0, memory_rate=1.5),
)


def arithmetic(problem, threads, machine, target=TARGETS["avx512"]):
    """All of a choice but its threads; blocks and how they are shared change no sum."""
    request = Request.of(problem.layer, threads=threads)
    chosen = planner.choose(problem, request, target, machine).choice
    return chosen.algorithm, chosen.tile, chosen.points, chosen.order


@pytest.mark.parametrize("known, layout", turns(MACHINES, ("NCHW", "NHWC")))
def test_threads_do_not_change_the_algorithm_of_a_network(known, layout):
    for layer in load_layers("thesis27"):
        problem = layer.problem(layout)
        assert len({arithmetic(problem, n, known) for n in (1, 2, 4)}) == 1, layer.name


@settings(max_examples=60)
@given(
    channels=st.sampled_from((1, 3, 8, 16, 40, 200)),
    filters=st.sampled_from((1, 8, 24, 64, 300)),
    size=st.tuples(st.integers(3, 40), st.integers(3, 40)),
    batch=st.sampled_from((1, 3)),
    layout=st.sampled_from(("NCHW", "NHWC")),
    known=st.sampled_from(MACHINES),
)
def test_threads_never_change_the_algorithm(channels, filters, size, batch, layout, known):
    made = Layer.of((filters, channels, 3, 3), "float32", padding=1, layout=layout)
    problem = made.problem(
        (batch, *size, channels) if layout == "NHWC" else (batch, channels, *size)
    )
    assert len({arithmetic(problem, threads, known) for threads in (1, 2, 4, 7)}) == 1


# Small ones, among them some that would be computed in other ways if threads had a say.
CALLS = [
    ((8, 8, 3, 3), (14, 14), "NCHW"),
    ((8, 8, 3, 3), (7, 7), "NCHW"),
    ((24, 3, 3, 3), (19, 23), "NCHW"),
    ((40, 33, 3, 3), (15, 13), "NHWC"),
    ((40, 16, 5, 5), (12, 17), "NCHW"),
]


def outputs(weight, size, layout, batch, threads):
    generator = np.random.default_rng(0)
    w = generator.standard_normal(weight, np.float32)
    x = generator.standard_normal((batch, weight[1], *size), np.float32)
    x = x.transpose(0, 2, 3, 1) if layout == "NHWC" else x
    return Conv2d(w, padding="same", layout=layout, threads=threads)(x)


@pytest.mark.parametrize("batch", (1, 3))
@pytest.mark.parametrize("call", CALLS)
def test_threads_do_not_change_a_bit(call, batch):
    wanted = outputs(*call, batch, threads=1)
    for threads in (1, 2, 4):
        execute.prepare.cache_clear()
        for _ in range(3):
            got = outputs(*call, batch, threads)
            assert got.tobytes() == wanted.tobytes(), threads


def test_another_process_computes_the_same_bits():
    """Kernels as tests compile them are not those of another process: these are as shipped."""
    script = """
import hashlib
import numpy as np, winogen
draw = np.random.default_rng(0)
x, w = (draw.standard_normal(shape, np.float32) for shape in ((2, 16, 15, 13), (24, 16, 3, 3)))
print(hashlib.sha256(winogen.conv2d(x, w, padding=1).tobytes()).hexdigest())
"""
    runs = {subprocess.check_output([sys.executable, "-c", script]) for _ in range(2)}
    assert len(runs) == 1 and len(runs.pop().strip()) == 64
