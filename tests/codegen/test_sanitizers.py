"""The C itself: no warnings anywhere, and no access or arithmetic that C leaves undefined.

Kernels are linked with a plain C program (`sanitized.c`) that runs them on a spread of layers
within allocations of just the right size, and compares with loops over single numbers.
"""

import itertools
import os
import subprocess
from pathlib import Path

import pytest

from winogen.codegen import kernels, transforms
from winogen.records import TARGETS
from winogen.toolchain import find_compiler, host_targets

DRIVER = Path(__file__).with_name("sanitized.c")
# m != r - 1 along both axes, and the axes differ.
KERNEL, TILE = (3, 2), (3, 4)
KINDS = [("direct", "unswitch"), ("im2col", "unswitch")] + [
    (algorithm, border) for algorithm in kernels.WINOGRAD for border in kernels.BORDERS
]
# What a compiler for this machine can be asked to emit.
EMITTABLE = [
    target
    for target in TARGETS.values()
    if (target.name == "neon") <= any(host.name == "neon" for host in host_targets())
    and (target.name in ("neon", "generic") or any(host.name == "sse2" for host in host_targets()))
]


def spec(algorithm, border, dtype, layout, target, **options):
    along_h = along_w = None
    if algorithm in kernels.WINOGRAD:
        along_h = transforms.load(*((1, 1) if algorithm == "winograd1d" else (TILE[0], KERNEL[0])))
        along_w = transforms.load(TILE[1], KERNEL[1])
    return kernels.KernelSpec(
        algorithm, dtype, layout, target, along_h, along_w, border=border, **options
    )


def compile_c(folder, *words):
    """Run the compiler without a word from it."""
    run = subprocess.run(
        [*find_compiler().command, "-std=gnu11", *words], cwd=folder, capture_output=True, text=True
    )
    assert run.returncode == 0 and not run.stderr, run.stderr[:4000]


@pytest.mark.parametrize("target", EMITTABLE, ids=lambda target: target.name)
@pytest.mark.parametrize("dtype", ("float32", "float64"))
@pytest.mark.parametrize("layout", ("NCHW", "NHWC"))
def test_no_kernel_makes_a_warning(target, dtype, layout, tmp_path):
    names = []
    for algorithm, border in KINDS:
        names.append(f"{algorithm}_{border}.c")
        text = kernels.render(spec(algorithm, border, dtype, layout, target))
        (tmp_path / names[-1]).write_text(text)
    warnings = ("-Wall", "-Wextra", "-Werror", "-fopenmp")
    compile_c(tmp_path, *warnings, "-fsyntax-only", *target.flags, *names)


@pytest.mark.parametrize("algorithm, border", KINDS)
def test_no_warning_when_optimised_and_without_openmp(algorithm, border, tmp_path):
    """Some warnings come only after data-flow analysis; without OpenMP other things are unused."""
    layout = ("NCHW", "NHWC")[KINDS.index((algorithm, border)) % 2]
    target = host_targets()[0]
    text = kernels.render(spec(algorithm, border, "float32", layout, target))
    (tmp_path / "kernel.c").write_text(text)
    words = ("-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas", "-O2", "-fPIC", "-shared")
    compile_c(tmp_path, *words, *target.flags, "kernel.c", "-o", "kernel.so")


def has_sanitizers(folder) -> bool:
    (folder / "probe.c").write_text("int main(void) { return 0; }\n")
    words = (*find_compiler().command, "-fsanitize=address,undefined", "probe.c", "-o", "probe")
    built = subprocess.run(words, cwd=folder, capture_output=True).returncode == 0
    return built and subprocess.run(["./probe"], cwd=folder, capture_output=True).returncode == 0


# Every kind once, every algorithm in either layout; vectors of 16, 8, 4 and 2 numbers.
SANITIZED = [
    (*kind, *rest)
    for kind, rest in zip(
        KINDS + [(algorithm, "unswitch") for algorithm in kernels.ALGORITHMS],
        itertools.cycle(
            [
                ("float32", "NCHW", 0),
                ("float32", "NHWC", 0),
                ("float64", "NCHW", 1),
                ("float32", "NHWC", -1),
                ("float64", "NHWC", -1),
            ]
        ),
    )
] + [("winograd2d", "unswitch", "float32", "NHWC", isa) for isa in (0, -1)]


@pytest.mark.parametrize("algorithm, border, dtype, layout, isa", SANITIZED)
def test_no_kernel_leaves_its_arrays_or_the_language(
    algorithm, border, dtype, layout, isa, tmp_path, monkeypatch
):
    if not has_sanitizers(tmp_path):
        pytest.skip("this compiler has no AddressSanitizer or UBSan")
    hosts = host_targets()
    target = hosts[min(isa, len(hosts) - 1)]
    small_outputs = dict.fromkeys(kernels.ALGORITHMS, 1 << 10)  # layers are small here
    monkeypatch.setattr(kernels, "PAST_CACHES", small_outputs)
    # A small register block: quick to compile, and more panels and rests in small layers.
    small = kernels.register_block(target, algorithm)._replace(rows=4)
    halves = algorithm in kernels.REGIONS and target.broadcasts
    kind = spec(algorithm, border, dtype, layout, target, block=small, halves=halves)
    (tmp_path / "kernel.c").write_text(kernels.render(kind))
    (tmp_path / "driver.c").write_text(DRIVER.read_text())
    winograd = algorithm in kernels.WINOGRAD
    compile_c(
        tmp_path,
        *("-O0", "-g", "-fopenmp", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
        *("-Wall", "-Wextra", "-Werror", *target.flags),
        f"-DREAL={'float' if dtype == 'float32' else 'double'}",
        f"-DNHWC={int(layout == 'NHWC')}",
        f"-DKERNEL_HEIGHT={KERNEL[0] if winograd else 0}",
        f"-DKERNEL_WIDTH={KERNEL[1] if winograd else 0}",
        *("kernel.c", "driver.c", "-o", "driver", "-lm"),
    )
    environment = {
        **os.environ,
        # The OpenMP runtime keeps what it allocates for its threads, which is no leak of ours.
        "ASAN_OPTIONS": "detect_leaks=0",
        "OMP_WAIT_POLICY": "passive",
    }
    run = subprocess.run(
        ["./driver"], cwd=tmp_path, capture_output=True, text=True, env=environment, timeout=300
    )
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-4000:]
    assert "layers are right" in run.stdout
