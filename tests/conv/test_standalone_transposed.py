"""A transposed layer as a pair of files: the calls' filters, its C alone, and refusals."""

import re
import subprocess
from math import prod

import numpy as np
import pytest

import winogen
from winogen.conv import arguments
from winogen.conv.options import Options
from winogen.conv.phases import joined_weight, ordinary, phase_weight
from winogen.conv.problem import Seams
from winogen.conv.standalone_transposed import _taps, standalone_transposed
from winogen.conv.transposed import joined_planes
from winogen.conv.transposed_problem import TransposedLayer
from winogen.errors import InvalidValue, Unsupported
from winogen.toolchain import find_compiler

FUNCTIONS = {
    1: winogen.conv_transpose1d, 2: winogen.conv_transpose2d, 3: winogen.conv_transpose3d,
}  # fmt: skip
STRICT = ("-Wall", "-Wextra", "-Wconversion", "-Wpedantic", "-Werror", "-std=gnu11")
SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover")


@pytest.mark.parametrize(
    "kernel, stride", [((4,), 3), ((4, 4), 2), ((5, 3), (2, 1)), ((3, 4, 4), (2, 3, 2))]
)
def test_the_taps_in_the_c_are_the_filters_that_calls_pack(kernel, stride):
    """Every tap by its place in the kernel, for each phase alone and for those of a plane."""
    rank = len(kernel)
    options = Options(stride, layout=arguments.LAYOUTS[rank][0])
    layer = TransposedLayer.of((2, 3, *kernel), "float32", options, 0)
    problem = layer.problem((1, 2, *[7] * rank))
    weight = np.arange(1, 1 + 6 * prod(kernel), dtype=np.float32).reshape(2, 3, *kernel)
    plain = ordinary(weight)
    flat = plain.reshape(3, 2, -1)
    for part in (*problem.together(Seams(2, 3), 8), *problem.apart(Seams(2, 3))):
        kind, *taken = part.weight
        taps = np.array(_taps(problem, part))
        made = np.where(taps >= 0, flat[..., np.maximum(taps, 0)], 0)  # filters, channels, phases
        made = np.moveaxis(made, 2, 0)
        if kind == "one":
            expected = phase_weight(plain, taken)[None]
        else:
            planes = phase_weight(plain, [*taken, *map(range, kernel[len(taken) :])])
            expected = joined_planes(planes, len(taken), layer, 3)
            if not taken:
                assert np.array_equal(expected, joined_weight(plain, layer.stride, 1, 3))
        assert np.array_equal(made.ravel(), expected.ravel())


def data(x_shape, w_shape, layout):
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-3, 4, shape).astype("f4") for shape in (x_shape, w_shape))
    if layout[1] != "C":
        x = np.ascontiguousarray(np.moveaxis(x, 1, -1))
    return x, 4 * w


MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include "up.h"
int main(void)
{
    const size_t inputs = %d, weights = %d, filters = %d, outputs = %d;
    float *x = malloc(inputs * 4), *w = malloc(weights * 4);
    float *b = malloc(filters * 4), *y = malloc(outputs * 4);
    FILE *file = fopen("in.bin", "rb");
    if (fread(x, 4, inputs, file) != inputs || fread(w, 4, weights, file) != weights) return 1;
    if (fread(b, 4, filters, file) != filters) return 1;
    fclose(file);
    void *packed = aligned_alloc(64, up_packed_bytes());
    void *scratch = aligned_alloc(64, up_scratch_bytes());
    void *work = aligned_alloc(64, up_workspace_bytes(1));
    up_pack(w, packed, scratch, 1);
    free(scratch), free(w);
    up_run(x, packed, b, y, work, 1);
    free(packed), free(work), free(x), free(b);
    file = fopen("y.bin", "wb");
    if (fwrite(y, 4, outputs, file) != outputs) return 1;
    free(y);
    return fclose(file);
}
"""

LAYERS = [  # input, weight, layout, options, and whether sanitizers look on
    ((2, 6, 7, 6), (6, 4, 2, 2), "NCHW",
     {"stride": 3, "padding": 1, "groups": 2, "output_padding": 2}, ()),  # phases of no tap
    ((1, 5, 7, 6), (5, 6, 4, 4), "NHWC",
     {"stride": 2, "padding": 1, "algorithm": "mcmr", "tile": 2}, ()),
    *(pytest.param(*one, marks=pytest.mark.thorough) for one in (
        ((1, 3, 9, 9), (3, 5, 2, 2), "NHWC", {"stride": 2, "padding": 1}, SANITIZED),  # cut off
        ((2, 5, 7, 6), (5, 6, 3, 3), "NCHW",
         {"stride": 2, "padding": 1, "output_padding": 1, "algorithm": "mcmr", "tile": 2},
         SANITIZED),
        ((2, 5, 3, 5, 6), (5, 6, 4, 4, 4), "NCDHW",
         {"stride": 2, "padding": 1, "algorithm": "mcmr", "tile": 2}, SANITIZED),
        ((1, 5, 3, 5, 6), (5, 6, 1, 4, 4), "NDHWC", {"stride": 2, "padding": (0, 1, 1)}, SANITIZED),
        ((2, 5, 17), (5, 6, 3), "NWC", {"stride": 3, "padding": 1}, SANITIZED),
    )),
]  # fmt: skip


@pytest.mark.parametrize("x_shape, w_shape, layout, options, flags", LAYERS)
def test_the_files_compute_what_the_library_does(
    tmp_path, x_shape, w_shape, layout, options, flags
):
    """Alone, without a warning, on arrays of just the right size."""
    options = {"algorithm": "direct", "layout": layout, **options}
    x, w = data(x_shape, w_shape, layout)
    bias = np.arange(options.get("groups", 1) * w_shape[1], dtype=np.float32)
    expected = FUNCTIONS[len(layout) - 2](x, w, bias, **options)
    files = standalone_transposed(x.shape, w_shape, isa="generic", name="up", **options)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "in.bin").write_bytes(x.tobytes() + w.tobytes() + bias.tobytes())
    (tmp_path / "main.c").write_text(MAIN % (x.size, w.size, bias.size, expected.size))
    command = [*find_compiler().command, *STRICT, *flags, "-O1", "main.c", "up.c", "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True)
    subprocess.run(["./main"], cwd=tmp_path, check=True)
    y = np.fromfile(tmp_path / "y.bin", np.float32).reshape(expected.shape)
    assert np.array_equal(y, expected)


def test_the_head_says_what_the_layer_is():
    how = {"stride": 2, "padding": 1, "isa": "avx512", "name": "up", "add": True}
    text = standalone_transposed((1, 64, 48, 48), (64, 64, 4, 4), **how)["up.h"]
    assert "2D transposed convolution, float32, NCHW, for avx512." in text
    assert "weight   64 x 64 x 4 x 4" in text and "output   1 x 64 x 96 x 96" in text
    assert "computed by mcmr" in text and "all phases in one call" in text
    assert "bias: 64 numbers or NULL" in text and "const float *add" in text
    shapes = (1, 8, 5, 5), (8, 8, 3, 3)
    apart = standalone_transposed(*shapes, **how | {"algorithm": "direct", "isa": "neon"})
    assert "one phase in each of 4 calls" in apart["up.h"]


def test_phases_share_one_kernel():
    """For this target one of them alone would run on another variant than the rest."""
    how = {"stride": 2, "padding": 1, "algorithm": "direct", "isa": "avx512", "layout": "NHWC"}
    text = standalone_transposed((1, 9, 9, 8), (8, 3, 3, 3), name="up", **how)["up.c"]
    assert len(re.findall(r"^static void winogen_run\(", text, re.MULTILINE)) == 1
    assert "LAYER_CALLS = 4" in text


@pytest.mark.parametrize(
    "kind, wrong, message",
    [
        (Unsupported, {"algorithm": "mcmr"}, "several kernels .direct, mcmr.*allowed: algorithm"),
        (
            InvalidValue,
            {"padding_mode": "reflect"},
            'padding_mode: got "reflect"; allowed: "zeros"',
        ),
        (InvalidValue, {"edge": "direct"}, 'edge: got "direct"; allowed: "discard"'),
        (InvalidValue, {"output_padding": 2}, "output_padding: got"),
        (InvalidValue, {"algorithm": "direct", "workspace_limit": 0}, "workspace_limit: got 0"),
        (InvalidValue, {"isa": "z80"}, "isa: got"),
    ],
)
def test_wrong_values_are_named(kind, wrong, message):
    layer = {"stride": 2, "padding": (0, 1, 1), "layout": "NCDHW", "isa": "avx2"}
    with pytest.raises(kind, match=message):
        standalone_transposed((1, 5, 3, 5, 6), (5, 6, 1, 4, 4), **{**layer, **wrong})


def test_zeros_count_as_workspace():
    layer = {"stride": (1, 3), "algorithm": "direct", "isa": "generic"}
    with pytest.raises(InvalidValue, match="reads zeros for outputs that see no input") as error:
        standalone_transposed((1, 1, 9, 64), (1, 1, 1, 2), workspace_limit=1700, **layer)
    enough = int(re.search(r"at least (\d+)", str(error.value))[1])
    files = standalone_transposed(
        (1, 1, 9, 64), (1, 1, 1, 2), workspace_limit=enough, name="up", **layer
    )
    assert "((size_t)2304 + " in files["up.h"]  # 9 x 64 numbers
