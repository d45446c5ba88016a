"""Other systems: their kernels compile, and where processes or files work otherwise it is said."""

import os
import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from winogen.codegen.render import render
from winogen.conv import planner, quantized_tiles
from winogen.conv.request import Request
from winogen.graph import runtime
from winogen.kernels.spec import KernelSpec
from winogen.onnx import library
from winogen.records import TARGETS
from winogen.toolchain import compiler, find_compiler, meters, threads
from winogen.toolchain.compiler import flags_for
from winogen.tuning.layers import load_layers

# And what its C library lacks something for, which docs/deploy.md lists.
SYSTEMS = [
    ("aarch64-macos", "neon", ()),
    ("x86_64-windows-gnu", "avx2", ("onnx_operators.c",)),
    ("x86_64-linux-musl", "avx2", ()),
]
# With code that is gone right away there is nothing to see; optimising all of it takes long.
QUICK = {"-O3": "-O1"}


def texts(target):
    """The C of all that a layer set runs with, with and without a tolerance, by file; its flags."""
    problems = [layer.problem() for layer in load_layers("thesis27")]
    chosen = {
        KernelSpec.of(work)
        for problem in problems
        for tolerance in (None, 1e-4)
        for work in planner.ranked(problem, Request(tolerance=tolerance), target)[0].works(problem)
    }
    assert len(chosen) > 10
    found = {f"{spec.name}.c": (render(spec), spec.target, ()) for spec in chosen}
    builds = (
        runtime.build_of(target, "float32"),
        quantized_tiles.build_of(target),
        library.build_of(),
        meters.build_of(target),
        threads.build_of(),
    )
    return found | {f"{one.name}.c": (str(one.source), one.target, one.flags) for one in builds}


@pytest.mark.thorough
@pytest.mark.parametrize("system, isa, left_out", SYSTEMS)
def test_kernels_of_a_layer_set_compile_for_other_systems(
    system, isa, left_out, tmp_path, monkeypatch
):
    """They are neither linked nor run: linking builds a C runtime, in minutes."""
    packaged = compiler._packaged()
    if packaged is None:
        pytest.skip("ziglang is not installed")
    monkeypatch.chdir(tmp_path)  # for macOS, zig writes a.o when it is asked for its version
    monkeypatch.setenv("CC", shlex.join((*packaged, "-target", system)))
    found = find_compiler()

    def compile(name, text, target, flags):
        (tmp_path / name).write_text(text)
        flags = [QUICK.get(flag, flag) for flag in found.spelled((*flags_for(target), *flags))]
        words = [*found.command, *flags, "-c", name, "-o", f"{name}.o"]
        run = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr[:4000]
        assert (tmp_path / f"{name}.o").stat().st_size

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        kept = {k: one for k, one in texts(TARGETS[isa]).items() if k not in left_out}
        jobs = [pool.submit(compile, name, *one) for name, one in kept.items()]
        for job in jobs:
            job.result()


# What Windows lacks of what is used here, as `winogen.toolchain.system` lists it.
WINDOWS = """
import os, sys
# These have code of their own for other systems.
import concurrent.futures.process, numpy, sympy, sysconfig, typer
sysconfig.get_config_vars()
sys.platform = "win32"
for name in ("resource", "fcntl", "pwd"):
    sys.modules[name] = None
for name in ("register_at_fork", "geteuid", "sched_getaffinity", "RTLD_NOLOAD"):
    delattr(os, name)
import winogen
assert winogen.cook_toom(2, 3).verify()
for use in ("winogen.conv2d", "winogen.gemm", "__import__('winogen.toolchain')"):
    try:
        eval(use)
    except ImportError as refusal:
        print(type(refusal).__name__, refusal)
from winogen.cli.app import app
try:
    app(["plan", "--input", "1,2,6,6", "--weight", "2,2,3,3"])
except SystemExit as end:
    assert end.code == 2
try:
    app(["derive", "2", "3"])
except SystemExit as end:
    assert not end.code
"""
DARWIN = """
import os, sys
sys.platform = "darwin"
del os.sched_getaffinity
import numpy as np, winogen
ones = np.ones((1, 1, 5, 5), np.float32)
assert winogen.conv2d(ones, ones[:, :, 2:, 2:], algorithm="direct")[0, 0, 1, 1] == 9
"""


def test_windows_is_told_what_it_lacks_and_has_all_that_needs_no_kernels(python):
    said = python(WINDOWS).finish().splitlines()
    refusals = [line for line in said if line.startswith("UnsupportedSystem")]
    assert len(refusals) == 3
    assert "system: got win32, which has no" in refusals[0]
    assert "os.register_at_fork" in refusals[0] and "allowed: Linux, macOS" in refusals[0]


@pytest.mark.thorough
def test_macos_lacks_nothing_that_is_asked_for(python):
    python(DARWIN).finish()
