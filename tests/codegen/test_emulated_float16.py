"""Products of float16 of 64-bit ARM, by user-mode emulation: exact on integers, as far off on real
numbers as predicted.
"""

import subprocess
from random import Random

import numpy as np
import pytest
from codegen.elsewhere import ELSEWHERE
from codegen.sanitized import WARNINGS
from codegen.sanitized_convolution import check, exactly
from conv.reference import convolve
from kernels.samples import LAYOUTS, borders, cuts, reaching

from winogen import kernels
from winogen.conv.planner import MARGIN
from winogen.conv.standalone import standalone
from winogen.numerics import Direct, estimate
from winogen.records import TARGETS, Precision

pytestmark = pytest.mark.thorough  # they need compilers for other CPUs

OTHER = ELSEWHERE["neon"]
HALVES = Precision.of("float32", products="float16")
VARIANTS = [one.name for one in kernels.variants().values() if one.computes(HALVES)]
CALLS = 60

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
    one_pack(w, packed, 1);
    one_run(x, packed, NULL, y, workspace, 1);
    return fwrite(y, sizeof(float), OUTPUTS, fopen("y", "wb")) != OUTPUTS;
}
"""


@pytest.mark.parametrize("variant", VARIANTS)
def test_integers_stay_integers(variant, tmp_path, seed):
    """Of filters in every rest of a register block, of words and of vectors."""
    OTHER.need(OTHER.runner[0])
    variant, target = kernels.named(variant), TARGETS["neon"].adjusted("+fp16")
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
    check(tmp_path, chosen, exact=True, elsewhere=OTHER)


# Filters and channels, and the kernel: short sums, whole vectors, rests; pixels in the lanes.
LAYERS = (
    ((24, 64, 1, 1), "NHWC"),
    ((17, 45, 3, 3), "NCHW"),
    ((24, 3, 3, 3), "NCHW"),
)


@pytest.mark.parametrize("weight, layout", LAYERS)
def test_errors_are_as_predicted(weight, layout, tmp_path):
    OTHER.need(OTHER.runner[0])
    rng, size = np.random.default_rng(0), (20, 21)
    x = rng.standard_normal((1, weight[1], *size)).astype(np.float32)
    w = rng.standard_normal(weight).astype(np.float32)
    exactly = convolve(x.astype(float), w.astype(float))
    options = {"algorithm": "direct", "product_dtype": "float16", "layout": layout}
    given = x if layout == "NCHW" else np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    files = standalone(given.shape, weight, isa="neon+fp16", name="one", **options)
    for name, text in (files | {"driver.c": DRIVER}).items():
        (tmp_path / name).write_text(text)
    given.tofile(tmp_path / "x")
    w.tofile(tmp_path / "w")
    sizes = (f"-D{name}={array.size}" for name, array in
             (("INPUTS", x), ("WEIGHTS", w), ("OUTPUTS", exactly)))  # fmt: skip
    # Without a flag for the CPU: the file asks for its instructions itself.
    OTHER.compile(tmp_path, "-O1", *WARNINGS, *sizes, "driver.c", "one.c", "-static", "-o", "one")
    subprocess.run([*OTHER.runner, "./one"], cwd=tmp_path, check=True, timeout=60)
    y = np.fromfile(tmp_path / "y", np.float32)
    if layout == "NHWC":
        y = y.reshape(*exactly.shape[2:], -1).transpose(2, 0, 1)
    error = np.abs(y.reshape(exactly.shape) - exactly).max() / np.abs(exactly).max()
    summed = kernels.summation("direct", TARGETS["neon"], weight[1], HALVES)
    predicted = estimate(
        Direct(1, weight[1] * weight[2] * weight[3]), dims=1, channels=1, precision=HALVES,
        distribution="normal", fused=True, order="naive", filters="float64", **summed,
    ).relative_max  # fmt: skip
    assert 0.5 < error / predicted < MARGIN and 5e-4 < predicted < 8e-4
