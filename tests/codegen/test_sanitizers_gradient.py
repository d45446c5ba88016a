"""The C of weight gradients: no warnings, and nothing that C leaves undefined."""

from itertools import product

import pytest
from codegen.sanitized import EMITTABLE, VECTORS, WARNINGS, calls_of, check, compile_c, no_warning
from kernels.turns import turns

from winogen.codegen.render import render
from winogen.codegen.transforms import load
from winogen.kernels import weight_gradient as sizes
from winogen.kernels.weight_gradient import GradientSpec, GradientWork
from winogen.records import Precision
from winogen.toolchain import host_targets

LAYOUTS = ("NCHW", "NHWC")


def spec_of(layout, dtype, target, tile=(2, 3), kernel=(3, 2)):
    """A kernel that is unlike along both axes."""
    height, width = map(load, tile, kernel)
    return GradientSpec(layout, Precision.of(dtype), target, sizes.tuning(target), height, width)


@pytest.mark.parametrize("target", EMITTABLE, ids=lambda target: target.name)
def test_no_gradient_makes_a_warning(target, tmp_path):
    texts = {}
    for layout, dtype in product(LAYOUTS, ("float32", "float64")):
        texts[f"{layout}_{dtype}.c"] = render(spec_of(layout, dtype, target))
    no_warning(tmp_path, texts, target)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_warning_when_optimised_and_without_openmp(layout, tmp_path):
    target = host_targets()[0]
    (tmp_path / "kernel.c").write_text(render(spec_of(layout, "float32", target)))
    words = (*WARNINGS, "-O2", "-fPIC", "-c")
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
    dtype, target = VECTORS[lanes][LAYOUTS.index(layout) % len(VECTORS[lanes])]
    spec = spec_of(layout, dtype, target)
    calls = calls_of(spec, works(spec))
    with monkeypatch.context() as small:
        for name, value in (("_CHUNK_BYTES", 1), ("_LEAST_TILES", 5), ("_UNIT_PIXELS", 6)):
            small.setattr(sizes, name, value)
        small.setattr(sizes, "_SUM_BYTES", 1 << 13)
        for most in (8, 1):
            small.setattr(sizes, "_MOST_SLABS", most)
            calls += calls_of(spec, works(spec))
    assert {call.struct["alone"] for call in calls} == {0, 1}
    assert max(call.struct["bands"] for call in calls) > 1
    known = [
        f"typedef {spec.precision.real.c} real;",
        f"enum {{ KERNEL_H = {spec.transform_h.r}, KERNEL_W = {spec.transform_w.r} }};",
    ]
    check(tmp_path, "gradient", spec, calls, known)
