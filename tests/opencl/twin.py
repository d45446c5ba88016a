"""Kernels as C with a main program: it reads arrays, runs the kernels and writes all arrays."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest

WARNINGS = ("-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-Wno-psabi")
CHECKS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
_TYPES = {"float32": "float", "float16": "_Float16"}


def main(work):
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
        lines.append(f"    {kernel.name}({names});")
    for one in work.arrays:
        lines += [
            f'    f_{one.name} = fopen("{one.name}", "wb");',
            f"    fwrite({one.name}_, 1, {one.nbytes}, f_{one.name});",
            f"    fclose(f_{one.name});",
            f"    free({one.name}_);",
        ]
    return "\n".join([*lines, "    return 0;", "}", ""])


def run(text, work, arrays, folder, flags=CHECKS):
    """Run all kernels of a text in C, as `devices.run` does on a device."""
    compiler = shutil.which("gcc") or pytest.skip("no gcc: apt-get install gcc")
    every = {
        one.name: np.ascontiguousarray(arrays[one.name], one.dtype)
        if one.name in arrays
        else np.full(one.shape, np.nan, one.dtype)
        for one in work.arrays
    }
    for name, array in every.items():
        array.tofile(folder / name)
    (folder / "kernels.c").write_text(text + main(work))
    command = (compiler, "-std=gnu11", "-O1", "-g", *WARNINGS, *flags, "kernels.c", "-lm")
    built = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert not built.returncode, built.stderr
    done = subprocess.run(["./a.out"], cwd=folder, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return {
        one.name: np.fromfile(folder / one.name, one.dtype).reshape(one.shape)
        for one in work.arrays
    }
