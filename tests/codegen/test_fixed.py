"""Headers that compute in integers: compiled with sanitizers, equal to direct convolution."""

import subprocess

import cffi
import numpy as np
import pytest
from typer.testing import CliRunner

from winogen import cook_toom, winograd
from winogen.cli.app import app
from winogen.codegen import fixed
from winogen.errors import InvalidValue
from winogen.fixed import integral
from winogen.fixed.ranges import signed
from winogen.toolchain import find_compiler

FRACTIONS = "0, 5/8, -3/2, inf"
GAUSSIAN = "x, x-1, x+1, x^2+1, inf"
_TILE = """
#include <string.h>
#include "tile.h"
void tile(const void *d, const void *g, int64_t channels, int64_t *y)
{{
    enum {{ N = {guard}_N, R = {guard}_R, P = {guard}_PRODUCTS, M = {guard}_M }};
    {name}_sum_t p[P * P];
    {name}_result_t out[M * M];
    memset(p, 0, sizeof p);
    for (int64_t c = 0; c < channels; c++) {{
        {name}_word_t u[P * P], v[P * P];
        {name}_input_2d((const {name}_input_t *)d + c * N * N, N, v);
        {name}_filter_2d((const {name}_filter_t *)g + c * R * R, R, u);
        {name}_add_products(u, v, p);
    }}
    {name}_output_2d(p, out, M);
    for (int k = 0; k < M * M; k++)
        y[k] = out[k];
}}
"""
_STRICT = "-std=c11 -O1 -Wall -Wextra -Wconversion -Wpedantic -Werror -shared -fPIC".split()
_SANITIZED = "-fsanitize=undefined -fno-sanitize-recover=all".split()
CASES = {
    "f2_3": (lambda: cook_toom(2, 3), 8, 3640, (16, 32)),
    "f4_3": (lambda: winograd(4, 3, GAUSSIAN), 8, 910, (16, 32)),
    "odd": (lambda: cook_toom(3, 3, "0, 1, -1, 2, inf"), 8, 3640, (16, 32)),
    "many channels": (lambda: cook_toom(2, 3), 8, 3641, (16, 64)),
    "fractions": (lambda: cook_toom(3, 2, FRACTIONS), 8, 5, (32, 64)),
    "16 bits": (lambda: cook_toom(2, 2), 16, 40, (32, 64)),
    "one tap": (lambda: cook_toom(2, 1), 4, 9, (16, 32)),
}


@pytest.fixture(params=CASES)
def tile(request, tmp_path):
    """An algorithm, its widths, and its compiled tile: (d, g) -> y of int64."""
    make, bits, channels, expected = CASES[request.param]
    made = integral(make())
    found = fixed.widths(made, bits, bits, channels)
    assert (found.word, found.sums) == expected and found.channels >= channels
    (tmp_path / "tile.h").write_text(fixed.render(made, found, "tile", "a test"))
    source = _TILE.format(name="winogen_tile", guard="WINOGEN_TILE")
    (tmp_path / "tile.c").write_text(source)
    library = tmp_path / "tile.so"
    command = [*find_compiler().command, *_STRICT, *_SANITIZED, str(tmp_path / "tile.c")]
    subprocess.run([*command, "-o", str(library)], check=True)
    ffi = cffi.FFI()
    ffi.cdef("void tile(const void *d, const void *g, int64_t channels, int64_t *y);")
    lib = ffi.dlopen(str(library))

    def run(d, g):
        kind = "int8" if bits <= 8 else "int16"
        d, g = (np.ascontiguousarray(x, kind) for x in (d, g))
        y = np.full((made.algorithm.m,) * 2, -77, np.int64)
        pointers = [ffi.cast("void *", x.ctypes.data) for x in (d, g)]
        lib.tile(*pointers, len(d), ffi.cast("int64_t *", y.ctypes.data))
        return y

    return made, found, channels, run


def _direct(d, g):
    m = d.shape[1] - g.shape[1] + 1
    windows = np.lib.stride_tricks.sliding_window_view(d.astype(np.int64), g.shape[1:], (1, 2))
    assert windows.shape[1:3] == (m, m)
    return np.einsum("cijkl,ckl->ij", windows, g.astype(np.int64))


def test_a_tile_equals_direct_convolution(tile):
    made, found, channels, run = tile
    n, r = made.algorithm.n, made.algorithm.r
    random = np.random.default_rng(1)
    for count in (1, 2, channels):
        d = random.integers(found.inputs.low, found.inputs.high + 1, (count, n, n))
        g = random.integers(found.filters.low, found.filters.high + 1, (count, r, r))
        assert (run(d, g) == _direct(d, g)).all()
    for one in found.inputs:  # the largest results of as many channels as allowed
        for other in found.filters:
            d, g = np.full((channels, n, n), one), np.full((channels, r, r), other)
            assert (run(d, g) == _direct(d, g)).all()


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
    text = run("4", "3", "--bits", "8", "--matrices").stdout
    assert "147615    19" in text and "f4_3_gaussian" in text  # the catalog knows better
    for words, message in (
        (("--format", "c", "--bits", "8"), "bits: got it with --format c"),
        (("--channels", "2"), "channels: got it with --format text"),
        (("--format", "fixed", "--order", "naive"), "order: got naive for integers"),
    ):
        refused = run("2", "3", *words)
        assert refused.exit_code and message in " ".join(refused.output.split())
