"""Headers of lanes with shifts: within their bound of direct convolution at any inputs."""

import shutil
import subprocess

import numpy as np
import pytest
from typer.testing import CliRunner

from winogen import cook_toom, winograd
from winogen.cli.app import app
from winogen.codegen.lanes import bound, render
from winogen.fixed import integral
from winogen.fixed.lanes import passes
from winogen.fixed.ranges import signed
from winogen.toolchain import find_compiler

MAKERS = {
    "f2": lambda: cook_toom(2, 3),
    "f4": lambda: winograd(4, 3, "x, x-1, x+1, x^2+1, inf"),
}
# Tiles of channels and filters in, sums of their products out.
PROGRAM = """
#include <stdio.h>
#include "tile.h"
enum { N = WINOGEN_TILE_N, R = WINOGEN_TILE_R, P = WINOGEN_TILE_PRODUCTS, M = WINOGEN_TILE_M };
int main(void)
{
    int32_t channels;
    while (fread(&channels, sizeof channels, 1, stdin) == 1) {
        int64_t p[P * P] = { 0 }, y[M * M];
        for (int32_t c = 0; c < channels; c++) {
            winogen_tile_lane_t d[N * N], g[R * R], v[P * P], u[P * P];
            if (fread(d, sizeof d, 1, stdin) != 1 || fread(g, sizeof g, 1, stdin) != 1)
                return 1;
            winogen_tile_input_2d(d, N, 1, v, 1);
            winogen_tile_filter_2d(g, R, 1, u, 1);
            for (int k = 0; k < P * P; k++)
                p[k] += (int32_t)v[k] * u[k];
        }
        winogen_tile_output_2d(p, y, M);
        for (int k = 0; k < M * M; k++)
            printf("%lld\\n", (long long)y[k]);
    }
    return 0;
}
"""
STRICT = "-std=c11 -O1 -Wall -Wextra -Wconversion -Wpedantic -Werror".split()
SANITIZED = "-fsanitize=undefined,address -fno-sanitize-recover=all".split()
ARM, QEMU = "arm-linux-gnueabihf-gcc", "qemu-arm"


def compiled(name, bits, command, folder):
    made = integral(MAKERS[name]())
    (folder / "tile.h").write_text(render(made, bits, "tile", "a test"))
    (folder / "tile.c").write_text(PROGRAM)
    subprocess.run([*command, str(folder / "tile.c"), "-o", str(folder / "tile")], check=True)
    return made


def check(made, bits, command):
    """Random numbers, ends of the range, and tiles that make one transformed number largest."""
    n, r = made.algorithm.n, made.algorithm.r
    (low, high), random = signed(bits), np.random.default_rng(bits)
    problems = []
    for count in (1, 3):
        for draw in (
            lambda s: random.integers(low, high + 1, s),
            lambda s: random.choice([low, high], s),
        ):
            problems += [(draw((count, n, n)), draw((count, r, r))) for _ in range(20)]
    for b, g in zip(made.bt, made.g):
        d, f = (np.where(np.outer(np.sign(x), np.sign(x)) > 0, high, low) for x in (b, g))
        problems += [(d[None], f[None]), (d[None], -1 - f[None])]
    data = b"".join(
        np.int32(len(d)).tobytes()
        + b"".join(x.astype(f"int{bits}").tobytes() for pair in zip(d, f) for x in pair)
        for d, f in problems
    )
    done = subprocess.run(command, input=data, capture_output=True, check=True)
    found = {k: passes(made.programs[k], signed(bits), bits) for k in ("input", "filter")}
    off, m = bound(made, found, bits), made.algorithm.m
    got = np.array(done.stdout.split(), np.int64).reshape(len(problems), m, m)
    worst = 0
    for (d, f), y in zip(problems, got):
        windows = np.lib.stride_tricks.sliding_window_view(d.astype(np.int64), (r, r), (1, 2))
        error = np.abs(y - np.einsum("cijkl,ckl->ij", windows, f.astype(np.int64))).max()
        assert error <= len(d) * off + 0.5
        worst = max(worst, error / len(d))
    assert worst > off / 50  # the bound says something


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("name", MAKERS)
def test_results_are_within_the_bound(name, bits, tmp_path):
    made = compiled(name, bits, [*find_compiler().command, *STRICT, *SANITIZED], tmp_path)
    check(made, bits, [tmp_path / "tile"])


@pytest.mark.skipif(not (shutil.which(ARM) and shutil.which(QEMU)), reason=f"needs {ARM}, {QEMU}")
def test_so_they_are_on_arm(tmp_path):
    made = compiled("f4", 16, [ARM, *STRICT, "-static"], tmp_path)
    check(made, 16, [QEMU, tmp_path / "tile"])


def test_the_command_line():
    def run(*words):
        return CliRunner().invoke(app, ["derive", "2", "3", *words])

    header = run("--format", "fixed", "--bits", "q15").stdout
    assert (
        "#ifndef WINOGEN_F2_3_Q15_H" in header
        and "--bits q15`" in header
        and "Each channel adds at most" in header
    )
    for words, message in (
        (("--bits", "q7"), "bits: got q7; allowed: with --format fixed"),
        (("--format", "fixed", "--bits", "q9"), "bits: got 'q9'; allowed: 2 to 16, two"),
    ):
        refused = run(*words)
        assert refused.exit_code and message in refused.output
