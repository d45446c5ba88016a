"""Kernels as C, or as CUDA on the CPU, with a main program: it reads and writes all arrays."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

WARNINGS = ("-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-Wno-psabi")
# Of float16, without instructions for it, too: each operation is rounded.
HALF = ("-fexcess-precision=16",)
CHECKS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
_TYPES = {"float32": "float", "float16": "_Float16"}


def main(work, cuda=False):
    """The main program: each array is a block of memory of its own, exactly as large."""
    lines = ["#include <stdio.h>", "#include <stdlib.h>", "", "int main(void)", "{"]
    for one in work.arrays:
        kind = _TYPES[one.dtype]
        lines += [
            f"    {kind} *{one.name}_;",
            f"    if (posix_memalign((void **)&{one.name}_, 64, {one.nbytes})) return 1;",
            f'    FILE *f_{one.name} = fopen("{one.name}", "rb");',
            f"    if (fread({one.name}_, 1, {one.nbytes}, f_{one.name}) != {one.nbytes}) return 1;",
            f"    fclose(f_{one.name});",
        ]
    for kernel in (*work.pack, *work.kernels):
        names = ", ".join(f"{one.name}_" for one in kernel.parameters)
        sizes = zip(kernel.items, kernel.group, strict=True)
        blocks = ", ".join(str(n // size) for n, size in sizes)
        threads = ", ".join(map(str, kernel.group))
        call = f"{kernel.name}({names})"
        if cuda:
            call = f"on_all([=] {{ {call}; }}, {{{blocks}}}, {{{threads}}})"
        lines.append(f"    {call};")
    for one in work.arrays:
        lines += [
            f'    f_{one.name} = fopen("{one.name}", "wb");',
            f"    fwrite({one.name}_, 1, {one.nbytes}, f_{one.name});",
            f"    fclose(f_{one.name});",
            f"    free({one.name}_);",
        ]
    return "\n".join([*lines, "    return 0;", "}", ""])


def run(text, work, arrays, folder, cuda=False):
    """Run all kernels of a text in C or CUDA, as `devices.run` does on a device."""
    name = "g++" if cuda else "gcc"
    compiler = shutil.which(name) or pytest.skip(f"no {name}: apt-get install {name}")
    every = {
        one.name: np.ascontiguousarray(arrays[one.name], one.dtype)
        if one.name in arrays
        else np.full(one.shape, np.nan, one.dtype)
        for one in work.arrays
    }
    for array, numbers in every.items():
        numbers.tofile(folder / array)
    source = f"kernels.{'cpp' if cuda else 'c'}"
    (folder / source).write_text(text + main(work, cuda))
    here = Path(__file__).parent
    flags = ("-std=c++20", "-include", here / "cuda_on_cpu.h") if cuda else ("-std=gnu11",)
    flags += HALF if work.arithmetic == "float16" else ()
    flags = (*flags, *WARNINGS, *("-Wno-unknown-pragmas",) * cuda, *CHECKS)
    command = (compiler, *flags, "-O1", "-g", source, "-lm", "-pthread")
    built = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert not built.returncode, built.stderr
    done = subprocess.run(["./a.out"], cwd=folder, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return {
        one.name: np.fromfile(folder / one.name, one.dtype).reshape(one.shape)
        for one in work.arrays
    }
