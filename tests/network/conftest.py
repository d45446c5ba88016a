"""Folders of C, made of small models, compiled and run."""

import subprocess

import numpy as np
import pytest
from codegen.elsewhere import ELSEWHERE
from conv.conftest import quick_kernels, written

from winogen.network import writing
from winogen.toolchain import find_compiler

__all__ = ["quick_kernels", "written"]

onnx = pytest.importorskip("onnx.helper") and pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

STRICT = "-Wall -Wextra -Wconversion -Wpedantic -Werror"


@pytest.fixture(autouse=True)
def uncompared(request, monkeypatch):
    """Networks are compared in tests of that; others compile what they write themselves."""
    if "compares" not in request.keywords:
        monkeypatch.setattr(writing, "compared", lambda *_: "")


@pytest.fixture
def make():
    """``make(folder, "test")`` runs make there and returns what it prints; it must succeed."""

    def run(folder, target, flags="-O0", isa=None):
        words = [f"CC={' '.join(find_compiler().command)}"]
        if isa is not None:
            other = ELSEWHERE[isa]
            other.need(other.runner[0])
            root = f" -L {other.root}" if other.root else ""
            words = [f"CC={' '.join(other.compiler)}", f"RUN={' '.join(other.runner)}{root}"]
            words += [f"AR={other.archiver}"]
        command = ["make", "-s", target, f"CFLAGS={flags} {STRICT}", *words]
        # Layers have tests of their own; in headers of transforms every name begins with theirs.
        for path in {*folder.glob("*.[ch]")} - {
            *folder.glob("*_[0-9][0-9].*"),
            *folder.glob("*_weights.c"),
            *folder.glob("*_f?_?.h"),
        }:
            assert max(map(len, path.read_text("utf-8").splitlines())) <= 100, path.name
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture
def ends():
    """Runs a folder's network of one input and one output through a program of its own."""

    def run(folder, x, size, make):
        (folder / "x.bin").write_bytes(np.ascontiguousarray(x).tobytes())
        (folder / "net_test.c").write_text(PROGRAM % (x.size, size))
        make(folder, "net_test", "-O0 -g -fsanitize=address,undefined -fno-sanitize-recover=all")
        subprocess.run(["./net_test"], cwd=folder, check=True)
        return np.fromfile(folder / "y.bin", np.float32)

    return run


# Arrays of exactly their sizes, for the sanitizers; what is not written stays NaN.
PROGRAM = """
#include "net.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
    const size_t in = %d, out = %d;
    float *const x = malloc(in * sizeof *x), *const y = malloc(out * sizeof *y);
    void *const arena = aligned_alloc(64, NET_ARENA_BYTES);
    FILE *file = fopen("x.bin", "rb");
    if (!x || !y || !arena || !file || fread(x, sizeof *x, in, file) != in) return 1;
    fclose(file);
    memset(y, 0xff, out * sizeof *y);
    memset(arena, 0xff, NET_ARENA_BYTES);
    net_run(x, y, arena);
    file = fopen("y.bin", "wb");
    if (!file || fwrite(y, sizeof *y, out, file) != out) return 1;
    fclose(file);
    free(x), free(y), free(arena);
    return 0;
}
"""
