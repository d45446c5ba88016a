"""The C of weight gradients: no warnings, and nothing that C leaves undefined."""

import os
import subprocess
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from codegen.test_sanitizers import EMITTABLE, OPENMP, VECTORS, WARNINGS, compile_c, initialiser
from kernels.turns import turns

from winogen.codegen.render import cdef, render
from winogen.codegen.transforms import load
from winogen.kernels import weight_gradient as sizes
from winogen.kernels.weight_gradient import GradientSpec, GradientWork
from winogen.records import Precision
from winogen.toolchain import find_compiler, host_targets

DRIVER = Path(__file__).with_name("sanitized_gradient.c")
LAYOUTS = ("NCHW", "NHWC")


def spec_of(layout, dtype, target, tile=(2, 3), kernel=(3, 2)):
    """A kernel that is unlike along both axes."""
    height, width = map(load, tile, kernel)
    return GradientSpec(layout, Precision.of(dtype), target, sizes.tuning(target), height, width)


@pytest.mark.parametrize("target", EMITTABLE, ids=lambda target: target.name)
def test_no_gradient_makes_a_warning(target, tmp_path):
    names = []
    for layout, dtype in product(LAYOUTS, ("float32", "float64")):
        names.append(f"{layout}_{dtype}.c")
        (tmp_path / names[-1]).write_text(render(spec_of(layout, dtype, target)))
    compile_c(tmp_path, *WARNINGS, *OPENMP, "-fsyntax-only", *target.flags, *names)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_warning_when_optimised_and_without_openmp(layout, tmp_path):
    target = host_targets()[0]
    (tmp_path / "kernel.c").write_text(render(spec_of(layout, "float32", target)))
    words = (*WARNINGS, "-Wno-unknown-pragmas", "-O2", "-fPIC", "-c")
    compile_c(tmp_path, *words, *target.flags, "kernel.c")


def works(spec):
    """Layers of all kinds of rests, cut as users' are and into small pieces."""
    counts = [(1, 1, 1), (1, 3, 5), (2, 17, 7), (1, 50, 33), (3, 2, 20)]
    images = [((1, 1), (2, 1)), ((5, 9), (1, 0)), ((12, 7), (0, 0)), ((3, 41), (1, 1))]
    for index, ((groups, channels, filters), (size, padding)) in enumerate(product(counts, images)):
        kernel = spec.transform_h.r, spec.transform_w.r
        yield GradientWork(
            spec,
            batch=1 + index % 3,
            groups=groups,
            channels=channels,
            filters=filters,
            size=size,
            output_size=tuple(n + 2 * p - k + 1 for n, p, k in zip(size, padding, kernel)),
            padding=padding,
            around=(groups * channels + index % 3, groups * filters + index % 2),
            threads=1 + index % 2 * 2,
        )


@pytest.mark.parametrize("lanes, layout", turns(VECTORS, LAYOUTS))
def test_no_gradient_leaves_its_arrays_or_the_language(lanes, layout, tmp_path, monkeypatch):
    (tmp_path / "probe.c").write_text("int main(void) { return 0; }\n")
    probe = (*find_compiler().command, "-fsanitize=address,undefined", "probe.c", "-o", "probe")
    if subprocess.run(probe, cwd=tmp_path, capture_output=True).returncode:
        pytest.skip("this compiler has no AddressSanitizer or UBSan")
    dtype, target = VECTORS[lanes][LAYOUTS.index(layout) % len(VECTORS[lanes])]
    spec = spec_of(layout, dtype, target)
    calls = [(spec.values(work), work.threads) for work in works(spec)]
    with monkeypatch.context() as small:
        for name, value in (("_CHUNK_BYTES", 1), ("_LEAST_TILES", 5), ("_UNIT_PIXELS", 6)):
            small.setattr(sizes, name, value)
        small.setattr(sizes, "_SUM_BYTES", 1 << 13)
        for most in (8, 1):
            small.setattr(sizes, "_MOST_SLABS", most)
            cut = [replace(work) for work in works(spec)]
            calls += [(spec.values(work, flush_denormals=most == 1), work.threads) for work in cut]
    assert {values["alone"] for values, _ in calls} == {0, 1}
    assert max(values["bands"] for values, _ in calls) > 1
    arrays = "{ p, input, grad, weight, workspace }"
    lines = [
        f"typedef {spec.precision.real.c} real;",
        cdef(spec),
        f"enum {{ KERNEL_H = {spec.transform_h.r}, KERNEL_W = {spec.transform_w.r} }};",
        f"#define CALL(p, input, grad, weight, workspace) {arrays}",
        "static const winogen_conv layers[] = {",
        *(f"    {initialiser(values)}," for values, _ in calls),
        "};",
        f"static const int threads[] = {{ {', '.join(str(n) for _, n in calls)} }};",
    ]
    (tmp_path / "layers.h").write_text("\n".join([*lines, ""]))
    (tmp_path / "kernel.c").write_text(render(spec))
    (tmp_path / "driver.c").write_text(DRIVER.read_text())
    sanitizers = (*OPENMP, "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    compile_c(tmp_path, "-O0", "-g1", *sanitizers, *WARNINGS, *target.flags, "-c", "kernel.c")
    compile_c(tmp_path, "-O1", *WARNINGS, "-c", "driver.c")
    compile_c(tmp_path, *sanitizers, "kernel.o", "driver.o", "-o", "driver", "-lm")
    # The OpenMP runtime keeps what it allocates for its threads, which is no leak of ours.
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0", "OMP_WAIT_POLICY": "passive"}
    run = subprocess.run(
        ["./driver"], cwd=tmp_path, capture_output=True, text=True, env=environment, timeout=300
    )
    assert run.returncode == 0, f"{run.stdout[-2000:]}{run.stderr[-4000:]}"
    assert f"{len(calls)} layers are right" in run.stdout
