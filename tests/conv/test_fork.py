"""Convolutions in forked children, as multiprocessing makes them: none hangs, all bits agree."""

import os
import subprocess
import sys

import pytest
from kernels.turns import first

CODE = """
import multiprocessing, os, signal, sys, threading, time, warnings
import numpy as np
import winogen
warnings.simplefilter("ignore")  # newer Pythons warn of any fork with threads
x = np.random.default_rng(0).standard_normal((2, 16, 20, 20), np.float32)
weight = np.random.default_rng(1).standard_normal((16, 16, 3, 3), np.float32)
options = {"padding": 1, "threads": 2, "algorithm": sys.argv[1]}
layer = winogen.Conv2d(weight, **options)

def agrees(expected, layer):
    signal.alarm(100)
    again = winogen.conv2d(x, weight, **options)
    return all(np.array_equal(y, expected) for y in (layer(x), layer(x), again))
"""


def run(code: str, algorithm: str) -> str:
    process = subprocess.run(
        [sys.executable, "-c", CODE + code, algorithm],
        env={**os.environ, "WINOGEN_CALIBRATE": "0"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout.strip()


@pytest.mark.parametrize("algorithm", first(1, [["mcmr"], ["direct"]]))
def test_a_child_of_a_process_with_a_team_computes_the_same_bits(algorithm):
    code = """
expected = layer(x)
with multiprocessing.get_context("fork").Pool(2) as pool:
    results = [pool.apply_async(agrees, (expected, layer)) for _ in range(2)]
    print([result.get(100) for result in results])
print(agrees(expected, layer))
"""
    assert run(code, algorithm) == "[True, True]\nTrue"


def test_a_layer_whose_weights_are_being_packed_by_another_thread_can_be_used_in_a_child():
    code = """
expected = winogen.conv2d(x, weight, **options)
held, gate = threading.Event(), threading.Event()
def pack(*arguments):
    if threading.current_thread() is not threading.main_thread():
        held.set()
        gate.wait()
    return original(*arguments)
from winogen.conv.execute import Prepared
original, Prepared.pack = Prepared.pack, pack
packing = threading.Thread(target=layer, args=(x,))
packing.start()
held.wait()
pid = os.fork()
if not pid:
    signal.alarm(100)
    os._exit(0 if np.array_equal(layer(x), expected) else 1)
print(os.waitpid(pid, 0)[1])
gate.set()
packing.join()
"""
    assert run(code, "direct") == "0"
