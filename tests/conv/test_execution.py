"""How kernels run: in pieces that Ctrl-C gets between, with denormals or not, in memory kept."""

import os
import queue
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from kernels.turns import turns

import winogen
from winogen import Conv2d
from winogen.conv import binding, execute, gemm, gradients, memory

TINY = np.float32(1e-40)


@pytest.mark.parametrize("algorithm", ("direct", "mcmr", "winograd2d"))
@pytest.mark.parametrize("threads", (1, 2))
def test_a_long_call_in_pieces_computes_the_same_bits(algorithm, threads, monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 24, 30, 31), np.float32)
    conv = Conv2d(rng.standard_normal((40, 24, 3, 3), np.float32), padding=1, threads=threads,
                  algorithm=algorithm)  # fmt: skip
    wanted = conv(x)
    for pieces in (2, 3, 1000):
        prepared = conv._prepare(x.shape)
        monkeypatch.setattr(prepared.calls[0], "_pieces", pieces)
        y = np.full_like(wanted, np.nan)
        prepared.run(x, prepared.pack(conv._weight), None, y)
        assert y.tobytes() == wanted.tobytes()


def test_ctrl_c_is_heard_between_pieces(monkeypatch):
    conv = Conv2d(np.ones((4, 4, 3, 3), np.float32), algorithm="direct")
    x = np.ones((8, 4, 30, 30), np.float32)
    prepared = conv._prepare(x.shape)
    packed = prepared.pack(conv._weight)
    monkeypatch.setattr(prepared.calls[0], "_pieces", 4)
    calls = []

    class Interrupting:
        def __getattr__(self, name):
            def run(*arguments):
                calls.append(name)
                raise KeyboardInterrupt

            return run

    code = prepared.calls[0].kernel
    monkeypatch.setattr(code, "lib", Interrupting())
    with pytest.raises(KeyboardInterrupt):
        prepared.run(x, packed, None, np.empty(prepared.output_shape, np.float32))
    assert calls == ["winogen_run_some"]


def test_a_signal_ends_a_long_call_early():
    """A signal that comes in the fifth piece of a call ends it before the sixth."""
    code = """
import signal
from types import SimpleNamespace
import numpy as np, winogen
from winogen.conv import execute
execute._PATIENCE = 1e-5
signal.signal(signal.SIGINT, signal.default_int_handler)    # shells in the background ignore it
weight, x = np.ones((64, 64, 3, 3), np.float32), np.ones((20, 64, 56, 56), np.float32)
conv = winogen.Conv2d(weight, padding=1, algorithm="direct", threads=1)
prepared = conv._prepare(x.shape)
(call,) = prepared.calls
assert call._pieces > 10, call._pieces
piece, done = call.kernel.lib.winogen_run_some, []
def run_some(*arguments):
    piece(*arguments)
    done.append(arguments)
    if len(done) == 5:
        signal.raise_signal(signal.SIGINT)
lib = call.kernel.lib
call.kernel.lib = SimpleNamespace(
    winogen_pack=lib.winogen_pack, winogen_run=lib.winogen_run, winogen_run_some=run_some
)
out = np.zeros(prepared.output_shape, np.float32)
try:
    conv(x, out)
except KeyboardInterrupt:
    print("interrupted", len(done), bool(out[0].any()), bool(out[-1].any()))
"""
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "WINOGEN_CALIBRATE": "0"},
        capture_output=True,
        text=True,
    )
    assert run.stdout.split() == ["interrupted", "5", "True", "False"], run.stdout + run.stderr


@pytest.mark.parametrize("layout", ("NCHW", "NHWC"))
def test_denormals_count_as_zeros_where_asked_for(layout, monkeypatch):
    x = np.full((1, 3, 5, 5), TINY)
    x = np.ascontiguousarray(x.transpose(0, 2, 3, 1)) if layout == "NHWC" else x
    conv = Conv2d(np.ones((20, 3, 3, 3), np.float32), algorithm="direct", layout=layout)
    y = conv(x)
    assert (y > 0).all() and (y < 1e-38).all()
    monkeypatch.setenv("WINOGEN_FLUSH_DENORMALS", "1")
    assert not winogen.conv2d(x, conv._weight, algorithm="direct", layout=layout).any()
    assert TINY * np.float32(1) > 0  # numpy computes as before
    monkeypatch.delenv("WINOGEN_FLUSH_DENORMALS")
    assert (winogen.conv2d(x, conv._weight, algorithm="direct", layout=layout) == y).all()


def test_a_plan_belongs_to_its_machine_and_environment(monkeypatch):
    from winogen.records import Machine

    layer = Conv2d(np.ones((64, 64, 3, 3), np.float32), padding=1)
    problem = layer._layer.problem((1, 64, 28, 28))
    target, now = winogen.toolchain.host_target(), execute.Environment.now()
    one = binding.prepare(problem, layer._request, target, Machine(), now)
    assert one is binding.prepare(problem, layer._request, target, Machine(), now)
    slow = Machine(l2_rate=2.0, l3_rate=1.0, memory_rate=0.1)
    other = binding.prepare(problem, layer._request, target, slow, now)
    assert other is not one and other.ranked[0].seconds > one.ranked[0].seconds
    monkeypatch.setenv("WINOGEN_FLUSH_DENORMALS", "1")
    assert execute.Environment.now() != now


def test_calls_of_all_kinds_are_forgotten():
    x = np.ones((1, 16, 6, 6), np.float32)
    wanted = Conv2d(np.ones((16, 16, 3, 3), np.float32))(x)
    gemm.gemm(x[0, 0], x[0, 0])
    gradients.weight_gradient(x, wanted, 3)
    caches = (execute.kernel, binding.prepare, gemm.prepare, gradients.prepare)
    assert all(cache.cache_info().currsize for cache in caches)
    execute.forget()
    assert not any(cache.cache_info().currsize for cache in caches)


def test_a_result_larger_than_what_is_kept_pushes_nothing_out(monkeypatch):
    monkeypatch.setattr(memory, "_KEPT", 4 << 20)
    spare = memory._Spare()
    small = spare.lend(3 << 20)
    address = small.ctypes.data
    del small
    large = spare.lend(5 << 20)
    del large
    assert spare.lend(3 << 20).ctypes.data == address


def test_packed_weights_go_when_no_shape_needs_them(monkeypatch):
    monkeypatch.setattr("winogen.conv.weighted.SHAPES_KEPT", 1)
    conv = Conv2d(np.ones((20, 3, 1, 1), np.float32), algorithm="direct")
    variants = set()
    for size in (3, 16, 5, 32):  # planes are for rows that fill the lanes
        conv(np.ones((1, 3, size, size), np.float32))
        variants.add(conv.plan((1, 3, size, size)).variant)
        assert len(conv._packed) == 1
    assert len(variants) == 2


class Liar(np.ndarray):
    """An array that says it is larger than it is."""

    @property
    def shape(self):
        return (1, 4, 8, 8)


def test_an_output_that_lies_about_its_shape_is_seen_through():
    conv = Conv2d(np.ones((4, 1, 1, 1), np.float32), algorithm="direct")
    out = np.zeros((1, 1, 1, 3), np.float32).view(Liar)
    with pytest.raises(winogen.errors.InvalidValue, match=r"out: got shape \(1, 1, 1, 3\)"):
        conv(np.ones((1, 1, 8, 8), np.float32), out)


@pytest.mark.parametrize(
    "algorithm, layout", turns(("direct", "winograd2d", "mcmr"), ("NCHW", "NHWC"))
)
def test_any_pool_of_threads_can_drive_a_kernel(algorithm, layout):
    """Phases come one after the other; their parts in any order, each with buffers of its own."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 14, 13, 40), np.float32)
    x = x if layout == "NHWC" else np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    conv = Conv2d(rng.standard_normal((70, 40, 3, 3), np.float32), padding=1, threads=3,
                  algorithm=algorithm, layout=layout)  # fmt: skip
    wanted, prepared = conv(x), conv._prepare(x.shape)
    (filters,) = prepared.pack(conv._weight)
    (one,) = prepared.calls
    code, struct = one.kernel, one.struct
    y, scratch = np.full_like(wanted, np.nan), memory.workspace(prepared.workspace_bytes)
    none = [code.ffi.NULL] * 4  # bias, slopes, add, add_after
    arrays = code.pointer(x), filters, *none, code.pointer(y), code.ffi.from_buffer(scratch)
    call, members = code.ffi.new("winogen_call *", (struct, *arrays)), queue.SimpleQueue()
    for member in range(3):
        members.put(member)

    def run(phase, part):
        member = members.get()
        code.lib.winogen_part(call, phase, part, member)
        members.put(member)

    with ThreadPoolExecutor(3) as pool:
        for phase in range(struct.phases):
            list(pool.map(run, [phase] * struct.parts, reversed(range(struct.parts))))
    assert y.tobytes() == wanted.tobytes()
