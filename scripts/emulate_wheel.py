#!/usr/bin/env python3
"""Run what an aarch64 wheel holds under qemu-aarch64: load every library, compute a convolution.

    python scripts/emulate_wheel.py dist/winogen-…_aarch64.whl

Needs aarch64-linux-gnu-gcc and qemu-aarch64 or qemu-aarch64-static.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from winogen.conv.choice import Choice  # noqa: E402
from winogen.conv.cuts import evaluate  # noqa: E402
from winogen.conv.problem import Layer  # noqa: E402
from winogen.conv.stock import build_of  # noqa: E402
from winogen.kernels.kind import declaration  # noqa: E402
from winogen.kernels.spec import KernelSpec  # noqa: E402
from winogen.records import TARGETS, Machine  # noqa: E402
from winogen.toolchain.prebuilt import SUFFIX, Archive  # noqa: E402

_COMPILER = "aarch64-linux-gnu-gcc"
_SYSTEM = "/usr/aarch64-linux-gnu"  # where Debian's cross compiler has its C library

# argv: a library to compute with, then others that are only loaded.
_PROGRAM = """
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
{struct}
typedef struct {{
    const winogen_conv *p;
    const void *{inputs};
    void *output, *workspace;
}} winogen_call;

static const winogen_conv p = {{ {values} }};

static float *integers(long count)
{{
    float *numbers = aligned_alloc(64, (count * 4 + 63) / 64 * 64);
    for (long i = 0; i < count; i++) numbers[i] = i * 7 % 9 - 4;
    return numbers;
}}

int main(int argc, char **argv)
{{
    for (int i = 2; i < argc; i++)
        if (!dlopen(argv[i], RTLD_NOW)) return fprintf(stderr, "%s\\n", dlerror()), 1;
    void *kernel = dlopen(argv[1], RTLD_NOW);
    if (!kernel) return fprintf(stderr, "%s\\n", dlerror()), 1;
    size_t (*packed_bytes)(const void *) = dlsym(kernel, "winogen_packed_bytes");
    size_t (*workspace_bytes)(const void *, int) = dlsym(kernel, "winogen_workspace_bytes");
    void (*pack)(const void *, const void *, void *, int) = dlsym(kernel, "winogen_pack");
    void (*run)(const void *, int) = dlsym(kernel, "winogen_run");
    void *packed = aligned_alloc(64, (packed_bytes(&p) + 63) / 64 * 64);
    void *workspace = aligned_alloc(64, (workspace_bytes(&p, 1) + 63) / 64 * 64);
    float *output = integers({outputs});
    pack(&p, integers({weights}), packed, 1);
    run(&(winogen_call){{.p = &p, .input = integers({inputs_count}), .packed = packed,
                         .output = output, .workspace = workspace}}, 1);
    for (long i = 0; i < {outputs}; i++) printf("%g\\n", output[i]);
}}
"""


def program(input_shape: tuple[int, ...], weight_shape: tuple[int, ...]) -> tuple[KernelSpec, str]:
    """Return a kernel for a layer, and the C of a program that calls it."""
    problem = Layer.of(weight_shape, "float32", padding=1).problem(input_shape)
    way = Choice("direct", variant="direct")
    (found,) = evaluate(problem, [way], TARGETS["neon"], Machine(), None)
    (work,) = found.works(problem)
    spec = KernelSpec.of(work)
    values = ", ".join(f".{name} = {_c(value)}" for name, value in spec.values(work).items())
    text = _PROGRAM.format(
        struct=declaration(spec.fields),
        inputs=", *".join(spec.inputs),
        values=values,
        outputs=np.prod(problem.output_shape),
        weights=np.prod(weight_shape),
        inputs_count=np.prod(input_shape),
    )
    return spec, text


def _c(value: Any) -> str:
    return f"{{{', '.join(map(str, value))}}}" if isinstance(value, tuple) else str(value)


def expected(input_shape: tuple[int, ...], weight_shape: tuple[int, ...]) -> np.ndarray:
    """Return what the program prints."""
    x, weight = (np.arange(np.prod(s)).reshape(s) * 7 % 9 - 4 for s in (input_shape, weight_shape))
    windows = np.lib.stride_tricks.sliding_window_view(
        np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)]), weight_shape[2:], axis=(2, 3)
    )
    return np.einsum("nchwij,mcij->nmhw", windows, weight).ravel()


def main() -> None:
    """Run the wheel of the command line."""
    emulator = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
    if not (emulator and shutil.which(_COMPILER)):
        print("qemu-aarch64 or its compiler is not installed: not run")
        return
    shapes = (1, 5, 9, 11), (6, 5, 3, 3)
    spec, text = program(*shapes)
    recipe = build_of(spec)._job("aarch64", "Linux").recipe
    with tempfile.TemporaryDirectory() as name, zipfile.ZipFile(sys.argv[1]) as wheel:
        folder, key, libraries = Path(name), "", []
        for member in wheel.namelist():
            if member.endswith(SUFFIX):
                archive = Archive(Path(wheel.extract(member, folder)), trusted=True)
                key = archive.recipes.get(recipe, key)
                for one in archive.entries:
                    libraries.append(folder / f"{one}.so")
                    libraries[-1].write_bytes(archive.library(one))
        source, made = folder / "main.c", folder / "main"
        source.write_text(text)
        # Python has the functions of libm for whatever it loads, and so has this program.
        libm = "-Wl,--no-as-needed", "-ldl", "-lm"
        subprocess.run([_COMPILER, str(source), "-o", str(made), *libm], check=True)
        words = [emulator, "-L", _SYSTEM, str(made), str(folder / f"{key}.so")]
        done = subprocess.run(
            [*words, *map(str, libraries)], check=False, capture_output=True, text=True
        )
    if done.returncode:
        raise SystemExit(f"qemu-aarch64: {done.stderr}")
    if not np.array_equal(np.array(done.stdout.split(), float), expected(*shapes)):
        raise SystemExit(f"qemu-aarch64: {spec.name} computes something else")
    print(f"qemu-aarch64: {len(libraries)} libraries load, {spec.name} computes what it should")


if __name__ == "__main__":
    main()
