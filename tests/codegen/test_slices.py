"""Parts of a layer touch no byte of the workspace that another part touches, and read none."""

import subprocess

import numpy as np
import pytest
from codegen.elsewhere import ELSEWHERE
from codegen.test_caller import LAYERS, Layer, aligned, pointer

from winogen.conv.standalone import standalone
from winogen.conv.standalone_transposed import standalone_transposed

PARTS = 5
# Whose slices might differ: each call computes a phase of its own.
MORE = {
    "phases of several sizes": (standalone_transposed, (1, 12, 13, 8), (8, 8, 5, 5),
                                {"stride": 2, "algorithm": "direct", "layout": "NHWC"}),
}  # fmt: skip
ALL = {**LAYERS, **MORE}


@pytest.mark.parametrize("name", ALL)
def test_slices_are_disjoint(name, tmp_path, seed):
    layer = Layer(tmp_path, np.random.default_rng(seed), *ALL[name])
    size = layer.code.made_workspace_bytes(PARTS)
    output = aligned(int(np.prod(layer.shape)) * layer.input.itemsize)
    touched = np.zeros((PARTS, size), bool)
    for part in range(PARTS):
        outputs = []
        for poison in (0x00, 0xFF):  # what a part writes differs from one of them, at least
            work = aligned(size)
            output[:], work[:] = 0x11, poison
            given = [layer.input, layer.packed, *([] if layer.bytes else [layer.bias])]
            layer.code.made_run_part(*map(pointer, (*given, output, work)), part, PARTS)
            touched[part] |= work != poison
            outputs.append(output.tobytes())
        assert outputs[0] == outputs[1]  # whatever others left there
    assert touched.sum(axis=0).max() <= 1
    assert touched.any() or size == 64 * PARTS or size == 64


@pytest.mark.parametrize("name", MORE)
def test_their_parts_are_the_bits_of_one(name, tmp_path, seed):
    layer = Layer(tmp_path, np.random.default_rng(seed), *MORE[name])
    whole = layer.run(1, [0])
    assert all(layer.run(parts, range(parts)[::-1]) == whole for parts in (2, 3, 5, 7, 20))


# The same of products of float16, whose largest numbers every part looks for, where an emulator has
# their instructions: parts of 5, each with the others' slices poisoned, then the bits of one part.
EMULATED = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "made.h"

enum { INPUT = %d, WEIGHT = %d, OUTPUT = %d, PARTS = 5 };
static float input[INPUT], weight[WEIGHT], output[OUTPUT], whole[OUTPUT];

int main(void)
{
    for (int i = 0; i < INPUT; i++) input[i] = (float)(i %% 13 - 6) * (1 + i %% 3);
    for (int i = 0; i < WEIGHT; i++) weight[i] = (float)(i %% 7 - 3);
    float *packed = aligned_alloc(64, made_packed_bytes());
    const size_t size = made_workspace_bytes(PARTS), slice = size / PARTS;
    unsigned char *work = aligned_alloc(64, size);
    made_pack(weight, packed);
    made_run_part(input, packed, NULL, whole, work, 0, 1);
    memset(output, 0xff, sizeof output);
    for (int part = PARTS - 1; part >= 0; part--) {
        memset(work, 0xa5, size);
        made_run_part(input, packed, NULL, output, work, part, PARTS);
        for (size_t i = 0; i < size; i++)
            if (i / slice != (size_t)part && work[i] != 0xa5) return 1;
    }
    return memcmp(output, whole, sizeof output) ? 2 : 0;
}
"""


@pytest.mark.thorough
@pytest.mark.parametrize("options", [
    {"algorithm": "mcmr", "tile": 2}, {"algorithm": "mcmr", "tile": 2, "layout": "NHWC"},
    {"algorithm": "direct"}, {"algorithm": "direct", "dilation": 2},
])  # fmt: skip
@pytest.mark.parametrize("channels, filters, side", [(8, 24, 13), (64, 256, 7)])
def test_largest_numbers_are_looked_for_by_each_part(tmp_path, options, channels, filters, side):
    other = ELSEWHERE["neon"]
    other.need(other.runner[0])
    image = (channels, side, side) if "layout" not in options else (side, side, channels)
    weight = (filters, channels, 3, 3)
    files = standalone(
        (2, *image), weight, name="made", threads="caller", isa="neon+fp16",
        product_dtype="float16", padding=2, **options,
    )  # fmt: skip
    assert "measure_band" in files["made.c"]
    (head,) = (line for line in files["made.h"].splitlines() if line.startswith(" * output "))
    output = np.prod([int(size) for size in head.split()[2:][::2]])
    main = EMULATED % (2 * np.prod(image), np.prod(weight), output)
    for file, text in {**files, "main.c": main}.items():
        (tmp_path / file).write_text(text)
    strict = ("-Wall", "-Wextra", "-Wpedantic", "-Wshadow")
    other.compile(tmp_path, "-O1", *strict, "-static", "made.c", "main.c", "-o", "made")
    subprocess.run([*other.runner, "./made"], cwd=tmp_path, check=True)
