"""Headers that compute in integers: compiled with sanitizers, equal to direct convolution."""

import re
import shutil
import subprocess

import numpy as np
import pytest
from typer.testing import CliRunner

from winogen import cook_toom, winograd
from winogen.algebra import strided
from winogen.cli.app import app
from winogen.codegen import fixed
from winogen.errors import InvalidValue
from winogen.fixed import integral, of_adders
from winogen.fixed.ranges import signed
from winogen.toolchain import find_compiler

FRACTIONS = "0, 5/8, -3/2, inf"
GAUSSIAN = "x, x-1, x+1, x^2+1, inf"
_LAYER = """
#include <stdio.h>
#include <stdlib.h>
#include "tile.h"
int main(void)
{
    int32_t of[5]; /* height, width, channels, padding, filters */
    if (fread(of, sizeof of, 1, stdin) != 1)
        return 1;
    enum { R = WINOGEN_TILE_R, P = WINOGEN_TILE_PRODUCTS, S = WINOGEN_TILE_STRIDE };
    const int rows = (of[0] + 2 * of[3] - R) / S + 1, cols = (of[1] + 2 * of[3] - R) / S + 1;
    const size_t inputs = (size_t)(of[0] * of[1] * of[2]), taps = (size_t)(of[4] * R * R * of[2]);
    const size_t words = (size_t)(P * P * of[2]), outputs = (size_t)(rows * cols * of[4]);
    winogen_tile_input_t *x = malloc(inputs * sizeof *x);
    winogen_tile_filter_t *w = malloc(taps * sizeof *w);
    winogen_tile_word_t *u = malloc((size_t)of[4] * words * sizeof *u);
    winogen_tile_word_t *v = malloc(words * sizeof *v);
    winogen_tile_result_t *y = malloc(outputs * sizeof *y);
    if (fread(x, sizeof *x, inputs, stdin) != inputs || fread(w, sizeof *w, taps, stdin) != taps)
        return 2;
    winogen_tile_filters(w, of[4], of[2], u);
    winogen_tile_layer(x, of[0], of[1], of[2], of[3], u, of[4], v, y);
    for (size_t k = 0; k < outputs; k++)
        printf("%lld\\n", (long long)y[k]);
    free(x), free(w), free(u), free(v), free(y);
    return 0;
}
"""
_STRICT = "-std=c11 -O1 -Wall -Wextra -Wconversion -Wpedantic -Werror".split()
_SANITIZED = "-fsanitize=undefined,address -fno-sanitize-recover=all".split()
_ARM, _QEMU = "arm-linux-gnueabihf-gcc", "qemu-arm"
CASES = {  # what makes an algorithm, the bits of its inputs, channels, and bits of words and sums
    "f2_3": (lambda: cook_toom(2, 3), 8, 3640, (16, 32)),
    "f4_3": (lambda: winograd(4, 3, GAUSSIAN), 8, 910, (16, 32)),
    "odd": (lambda: cook_toom(4, 3, "0, 1, -1, 1/2, -2, inf"), 8, 3640, (16, 32)),
    "many channels": (lambda: cook_toom(2, 3), 8, 3641, (16, 64)),
    "fractions": (lambda: cook_toom(3, 2, FRACTIONS), 8, 5, (32, 64)),
    "16 bits": (lambda: cook_toom(2, 2), 16, 40, (32, 64)),
    "one tap": (lambda: cook_toom(2, 1), 4, 9, (16, 32)),
    "adders": (lambda: cook_toom(4, 3, "0, 1, -1, 2, -2, inf"), 8, 227, (16, 32)),
    "strided": (lambda: strided(2, 3, 2), 8, 7, (16, 32)),
}


def compiled(name, command, folder):
    """An algorithm, its widths, its most channels, and the program of its layers."""
    make, bits, channels, expected = CASES[name]
    made = integral(make())
    if name == "adders":
        made = of_adders(made)
    found = fixed.widths(made, bits, bits, channels)
    assert (found.word, found.sums) == expected and found.channels >= channels
    (folder / "tile.h").write_text(fixed.render(made, found, "tile", "a test"))
    (folder / "layer.c").write_text(_LAYER)
    program = folder / "layer"
    subprocess.run([*command, str(folder / "layer.c"), "-o", str(program)], check=True)
    return made, found, channels, program


def run(command, made, found, x, w, padding):
    """What the program makes of x, height x width x channels, and w, filters x r x r x channels."""
    height, width, channels = x.shape
    sizes = np.array([height, width, channels, padding, len(w)], np.int32)
    kind = "int8" if found.inputs.bits <= 8 else "int16"
    data = b"".join(array.tobytes() for array in (sizes, x.astype(kind), w.astype(kind)))
    done = subprocess.run(command, input=data, capture_output=True, check=True)
    return np.array(done.stdout.split(), np.int64)


def direct(x, w, padding, stride):
    """The same in integers, height x width x filters, one after the other."""
    x = np.pad(x.astype(np.int64), [(padding, padding)] * 2 + [(0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[1:3], (0, 1))
    return np.einsum("ijckl,fklc->ijf", windows[::stride, ::stride], w.astype(np.int64)).ravel()


def check(command, made, found, most):
    """Random layers, and the largest results of as many channels as are allowed."""
    random, r, s = np.random.default_rng(1), made.algorithm.r, made.algorithm.stride
    for height, width, channels, padding, filters in ((5, 7, 3, 1, 2), (4, 9, 4, 0, 3)):
        x = random.integers(found.inputs.low, found.inputs.high + 1, (height, width, channels))
        w = random.integers(found.filters.low, found.filters.high + 1, (filters, r, r, channels))
        y = run(command, made, found, x, w, padding)
        assert (y == direct(x, w, padding, s)).all()
    for one in found.inputs:
        for other in found.filters:
            x, w = np.full((r, r, most), one), np.full((1, r, r, most), other)
            assert (run(command, made, found, x, w, 0) == direct(x, w, 0, s)).all()


@pytest.mark.parametrize("name", CASES)
def test_a_layer_equals_direct_convolution(name, tmp_path):
    command = [*find_compiler().command, *_STRICT, *_SANITIZED]
    made, found, most, program = compiled(name, command, tmp_path)
    check([program], made, found, most)


@pytest.mark.parametrize("name", ["f4_3", "many channels"])
@pytest.mark.skipif(
    not (shutil.which(_ARM) and shutil.which(_QEMU)), reason=f"needs {_ARM} and {_QEMU}"
)
def test_so_it_does_by_two_products_at_once(name, tmp_path):
    command = [_ARM, *_STRICT, "-static", "-march=armv7-a+simd", "-mfloat-abi=hard"]
    made, found, most, program = compiled(name, command, tmp_path)
    listing = subprocess.run(
        ["arm-linux-gnueabihf-objdump", "-d", program], capture_output=True, text=True, check=True
    ).stdout
    assert re.search(r"\tsmlal?d\t", listing)
    check([_QEMU, program], made, found, most)


def test_more_than_any_sum_holds_is_refused():
    made = integral(cook_toom(3, 2, FRACTIONS))
    most = made.channels(signed(8), signed(8), 64)
    with pytest.raises(InvalidValue, match=f"channels: got {most + 1}; allowed: at most {most},"):
        fixed.widths(made, 8, 8, most + 1)
    with pytest.raises(InvalidValue, match="bits: got numbers that lead to operands of"):
        fixed.widths(integral(cook_toom(6, 5)), 16, 16)


def test_the_command_line():
    def run(*words):
        return CliRunner().invoke(app, ["derive", *words])

    header = run("2", "3", "--format", "fixed", "--channels", "3640").stdout
    assert "4 Y = A^T" in header and "typedef uint32_t winogen_f2_3_int8_sum_t" in header
    assert header == run("2", "3", "--format", "fixed", "--channels", "3640").stdout
    for words, name in (
        (("--points", "0,1,-1,inf"), "f2_3"),
        (("--points", "0,1,-2,inf"), "f2_3_[0-9a-f]{8}"),
        (("--stride", "2"), "f2_3_s2"),
    ):  # other functions have other names: one file may include several headers
        other = run("2", "3", *words, "--format", "fixed").stdout
        assert re.search(rf"^#ifndef WINOGEN_{name}_INT8_H$", other, re.MULTILINE | re.IGNORECASE)
    sums = run(
        "3", "2", "--points", "0,1,2,inf", "--format", "fixed", "--multiplier", "slow"
    ).stdout
    assert "--multiplier slow --bits 8`" in sums
    factors = re.findall(r"^    .*= .*?(\d+)u? \* ", sums, re.MULTILINE)
    assert factors and all(int(one).bit_count() == 1 for one in factors)
    narrow = run("2", "3", "--format", "fixed", "--bits", "8,6").stdout
    assert "--format fixed --bits 8,6`" in narrow and "WINOGEN_F2_3_INT8_BY_INT6_H" in narrow
    text = run("4", "3", "--bits", "8", "--matrices").stdout
    assert "147615    19" in text and "f4_3_gaussian" in text  # the catalog knows better
    for words, message in (
        (("--format", "c", "--bits", "8"), "bits: got it with --format c"),
        (("--bits", "17"), "bits: got '17'; allowed: 2 to 16, two of them with a comma"),
        (("--channels", "2"), "channels: got it with --format text"),
        (("--multiplier", "slow"), "multiplier: got slow with --format text"),
        (("--format", "fixed", "--order", "naive"), "order: got naive for integers"),
    ):
        refused = run("2", "3", *words)
        assert refused.exit_code and message in " ".join(refused.output.split())


def test_a_cortex_m4_takes_fewer_instructions(on_m4):
    script = on_m4("cortex_m4")
    ours, direct = script.counted("F(4x4,3x3)", 8, 32, 16)  # exits where results differ
    assert 0 < ours < direct
