"""Products of float16 of 64-bit ARM, by user-mode emulation: exact on integers, as far off on real
numbers as predicted.
"""

import subprocess
from dataclasses import replace
from math import prod
from random import Random

import numpy as np
import pytest
from codegen.elsewhere import ELSEWHERE
from codegen.sanitized import WARNINGS
from codegen.sanitized_convolution import check, exactly
from conv.reference import convolve
from kernels.samples import LAYOUTS, borders, cuts, reaching

from winogen import kernels
from winogen.conv.accuracy import predicted_error
from winogen.conv.choice import Choice
from winogen.conv.problem import Layer
from winogen.conv.standalone import standalone
from winogen.conv.standalone_transposed import standalone_transposed
from winogen.conv.tolerance import MARGIN
from winogen.records import TARGETS, Precision

pytestmark = pytest.mark.thorough  # they need compilers for other CPUs

OTHER = ELSEWHERE["neon"]
HALVES = Precision.of("float32", products="float16")
VARIANTS = [one.name for one in kernels.variants().values() if one.computes(HALVES)]
CALLS = 60
BY_LANE = TARGETS["neon"].adjusted("+fp16")
# With words that meet words, as AVX512-FP16 multiplies them, in shorter vectors: the same C but for
# loads, stores and shuffles.
TARGETS_OF_HALVES = {"lanes": BY_LANE, "words": replace(BY_LANE, by_lane=False)}

# Arrays are files: input, weights, output.
DRIVER = """
#include <stdio.h>
#include <stdlib.h>
#include "one.h"

static float *numbers(size_t count, const char *name)
{
    float *all = aligned_alloc(64, (count * sizeof(float) + 63) / 64 * 64);
    FILE *file = name ? fopen(name, "rb") : NULL;
    if (file && fread(all, sizeof(float), count, file) != count) exit(1);
    return all;
}

int main(void)
{
    float *x = numbers(INPUTS, "x"), *w = numbers(WEIGHTS, "w"), *y = numbers(OUTPUTS, NULL);
    void *packed = aligned_alloc(64, one_packed_bytes());
    void *workspace = aligned_alloc(64, one_workspace_bytes(1));
#if TRANSPOSED
    one_pack(w, packed, aligned_alloc(64, one_scratch_bytes()), 1);
#else
    one_pack(w, packed, 1);
#endif
    one_run(x, packed, NULL, y, workspace, 1);
    return fwrite(y, sizeof(float), OUTPUTS, fopen("y", "wb")) != OUTPUTS;
}
"""


@pytest.mark.parametrize("target", TARGETS_OF_HALVES.values(), ids=TARGETS_OF_HALVES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_integers_stay_integers(variant, target, tmp_path, seed):
    """Of filters in every rest of a register block, of words and of vectors."""
    OTHER.need(OTHER.runner[0])
    variant = kernels.named(variant)
    found = [
        works
        for layout in LAYOUTS
        for border in borders(variant)
        # Of 11 bits, transformed by few points.
        for works in reaching(variant, layout, "float32", target, border, (2, 2)).values()
    ]
    works = found[seed % len(found)]
    calls = [exactly(one) for work in works for one in cuts(work)]
    chosen = Random(seed).sample(calls, min(CALLS, len(calls)))
    chosen = [replace(one, threads=4) if one.threads > 1 else one for one in chosen]
    check(tmp_path, chosen, exact=True, elsewhere=OTHER)


def normal(weight, size, batch=1, groups=1):
    """Input in NCHW and weight of a layer."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((batch, groups * weight[1], *size)).astype(np.float32)
    return x, rng.standard_normal(weight).astype(np.float32)


def computed(folder, x, w, outputs, layout="NCHW", write=standalone, **options):
    """The output in NCHW, of this shape, by the pair of files that `write` makes of the layer."""
    OTHER.need(OTHER.runner[0])
    given = x if layout == "NCHW" else np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    options = {"product_dtype": "float16", "layout": layout, **options}
    files = write(given.shape, w.shape, isa="neon+fp16", name="one", **options)
    for name, text in (files | {"driver.c": DRIVER}).items():
        (folder / name).write_text(text)
    given.tofile(folder / "x")
    w.tofile(folder / "w")
    sizes = (f"-D{name}={count}" for name, count in
             (("INPUTS", x.size), ("WEIGHTS", w.size), ("OUTPUTS", prod(outputs)),
              ("TRANSPOSED", int(write is standalone_transposed))))  # fmt: skip
    # Without a flag for the CPU: the file asks for its instructions itself.
    OTHER.compile(folder, "-O1", *WARNINGS, *sizes, "driver.c", "one.c", "-static", "-o", "one")
    subprocess.run([*OTHER.runner, "./one"], cwd=folder, check=True, timeout=60)
    y = np.fromfile(folder / "y", np.float32)
    if layout == "NCHW":
        return y.reshape(outputs)
    batch, channels, *size = outputs
    return y.reshape(batch, *size, channels).transpose(0, 3, 1, 2)


def off(y, exact):
    """How far off results are, beside the largest one."""
    return np.abs(y - exact).max() / np.abs(exact).max()


# Filters and channels, and the kernel: short sums, whole vectors, rests; pixels in the lanes.
LAYERS = (
    ((24, 64, 1, 1), "NHWC"),
    ((17, 45, 3, 3), "NCHW"),
    ((24, 3, 3, 3), "NCHW"),
)


@pytest.mark.parametrize("weight, layout", LAYERS)
def test_errors_are_as_predicted(weight, layout, tmp_path):
    x, w = normal(weight, (20, 21))
    exact = convolve(x.astype(float), w.astype(float))
    y = computed(tmp_path, x, w, exact.shape, layout, algorithm="direct")
    choice = Choice("direct", precision=HALVES)
    predicted = predicted_error(Layer.of(weight, "float32"), choice, BY_LANE)
    assert 0.5 < off(y, exact) / predicted < MARGIN and 5e-4 < predicted < 8e-4


# Filters and channels, layout, tile, and the error that is predicted, about.
TILED = (
    ((24, 64, 3, 3), "NHWC", 2, 9.7e-4),
    ((17, 45, 3, 3), "NCHW", 2, 9.5e-4),
    ((17, 45, 3, 3), "NHWC", 4, 4.7e-3),
    ((24, 64, 3, 3), "NCHW", 4, 4.8e-3),
    ((24, 16, 3, 3), "NHWC", 4, 4.4e-3),
    ((24, 128, 3, 3), "NCHW", 6, 2.7e-2),
)


@pytest.mark.parametrize("weight, layout, tile, about", TILED)
def test_errors_of_tiles_are_as_predicted(weight, layout, tile, about, tmp_path):
    x, w = normal(weight, (38, 38))
    exact = convolve(x.astype(float), w.astype(float))
    y = computed(tmp_path, x, w, exact.shape, layout, algorithm="mcmr", tile=tile)
    choice = Choice("mcmr", (tile, tile), precision=HALVES)
    predicted = predicted_error(Layer.of(weight, "float32"), choice, BY_LANE)
    print(f"{weight} {tile} {layout}: {off(y, exact):.2e}, predicted {predicted:.2e}")
    assert 0.5 < off(y, exact) / predicted < MARGIN and predicted == pytest.approx(about, rel=0.1)


# Weight, groups, layout, and options: what no other layer here has.
OTHERS = (
    ((18, 13, 3, 3), 1, "NCHW", {"dilation": 2}),
    ((18, 13, 3, 3), 1, "NHWC", {"dilation": (2, 3)}),
    ((18, 13, 3, 3), 1, "NHWC", {"stride": 2}),
    ((12, 5, 3, 3), 3, "NHWC", {}),
    ((12, 7, 3, 3), 3, "NCHW", {"border": "buffer"}),
    ((18, 13, 3, 3), 1, "NHWC", {"padding_mode": "reflect", "border": "indirect"}),
)


@pytest.mark.parametrize("weight, groups, layout, options", OTHERS)
def test_tiles_of_every_kind_of_layer(weight, groups, layout, options, tmp_path):
    """Each image has a scale of its own, and what is no number stays in its group."""
    x, w = normal(weight, (17, 19), 3, groups)
    x *= np.float32([1, 1e-20, 3e20])[:, None, None, None]
    if groups > 1:
        x[:, weight[1]] = np.nan  # in NHWC next to the last channel of the first group
    pairs = {name: value for name, value in options.items() if name in ("stride", "dilation")}
    both = {name: (value if isinstance(value, tuple) else (value, value))
            for name, value in pairs.items()}  # fmt: skip
    around = {"padding": ((1, 1), (1, 1)), "padding_mode": options.get("padding_mode", "zeros")}
    exact = convolve(x.astype(float), w.astype(float), groups=groups, **around, **both)
    options = {"algorithm": "mcmr", "tile": 2, "padding": 1, "groups": groups, **options}
    y = computed(tmp_path, x, w, exact.shape, layout, **options)
    known = np.isfinite(exact)
    assert known.any() and np.array_equal(np.isfinite(y), known)
    for i in range(3):
        assert off(y[i][known[i]].astype(float), exact[i][known[i]]) < 2e-3


@pytest.mark.parametrize("layout", LAYOUTS)
def test_tiles_of_a_transposed_layer(layout, tmp_path):
    """Its phases have filters of their own, and images scales."""
    x, w = normal((24, 13, 4, 4), (9, 10), 2)
    w = w.transpose(1, 0, 2, 3).copy()  # of 13 channels 24 filters
    x *= np.float32([1, 1e-20])[:, None, None, None]
    spread = np.zeros((2, 13, 17, 19))
    spread[:, :, ::2, ::2] = x
    turned = w.astype(float).transpose(1, 0, 2, 3)[:, :, ::-1, ::-1]
    exact = convolve(spread, turned, padding=((2, 2), (2, 2)))
    options = {"write": standalone_transposed, "algorithm": "mcmr", "tile": 2}
    y = computed(tmp_path, x, w, exact.shape, layout, stride=2, padding=1, **options)
    assert max(map(off, y.astype(float), exact)) < 2e-3
