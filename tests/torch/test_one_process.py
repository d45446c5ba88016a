"""torch, onnxruntime and winogen in one process, whichever comes first."""

import itertools
import subprocess
import sys

import pytest

pytest.importorskip("onnxruntime")

CODE = """
import time
import numpy as np
rng = np.random.default_rng(0)
x = rng.standard_normal((1, 16, 40, 40)).astype(np.float32)
w = rng.standard_normal((16, 16, 3, 3)).astype(np.float32)
used = {}

def use_winogen():
    import winogen
    from winogen.toolchain import threads
    ways = [winogen.Conv2d(w, algorithm="direct", threads=count) for count in (1, 2)]
    y = ways[0](x)
    def use():
        assert np.array_equal(ways[1](x), y)
        return threads._pool().winogen_threads_followed() == bool(threads.runtimes())
    return use

def use_torch():
    import torch
    torch.set_num_threads(2)
    arrays = torch.from_numpy(x), torch.from_numpy(w)
    return lambda: torch.conv2d(*arrays) is not None

def use_onnxruntime():
    import onnx, onnxruntime
    from onnx.parser import parse_model
    model = parse_model('''
        <ir_version: 8, opset_import: ["" : 13]>
        graph (float[1, 16, 40, 40] x, float[16, 16, 3, 3] w) => (float[1, 16, 38, 38] y)
        { y = Conv(x, w) }''')
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return lambda: session.run(None, {"x": x, "w": w}) is not None

ways = []
for name in order:
    ways.append(globals()[f"use_{name}"]())
    for _ in range(20):
        assert all(way() for way in ways)
since = time.process_time()
time.sleep(1)
print(time.process_time() - since)
"""
ORDERS = list(itertools.permutations(("winogen", "torch", "onnxruntime")))


@pytest.mark.parametrize(
    "order",
    [pytest.param(o, marks=() if o in ORDERS[::4] else pytest.mark.thorough) for o in ORDERS],
    ids="-".join,
)
def test_nobody_spins_when_all_are_done(order):
    done = subprocess.run(
        [sys.executable, "-c", f"order = {order!r}\n{CODE}"],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 0.5
