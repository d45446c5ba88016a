"""A layer as a node of ggml's graphs: C11 and C++17 without a warning, and the layer's values."""

import shutil
import subprocess

import numpy as np
import pytest
from cli.test_generate import reference
from codegen.ggml_graph import HEADERS, Graph, Node
from kernels.turns import first

from winogen import Conv2d
from winogen.conv.standalone import standalone
from winogen.errors import InvalidValue, Unsupported
from winogen.toolchain import host_target

STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror", "-fsyntax-only")
LANGUAGES = {
    "gcc": ("gcc", "-std=c11"),
    "g++": ("g++", "-std=c++17", "-x", "c++"),
    "clang": ("clang", "-std=c11"),
    "clang++": ("clang++", "-std=c++17", "-x", "c++"),
}
# Between them, every variant that computes floats in NCHW.
LAYERS = {
    "mcmr": ((1, 64, 28, 28), (64, 64, 3, 3), {"padding": 1, "algorithm": "mcmr"}),
    "mcmr, few tiles": ((2, 5, 11, 9), (7, 5, 3, 3), {"algorithm": "mcmr", "tile": 2}),
    "winograd2d": ((2, 5, 11, 9), (7, 5, 3, 3), {"padding": 1, "algorithm": "winograd2d"}),
    "winograd1d": ((2, 5, 11, 9), (7, 5, 3, 3), {"padding": 1, "algorithm": "winograd1d"}),
    "direct": ((2, 6, 19, 17), (10, 3, 5, 5), {"stride": 2, "groups": 2, "padding": 2}),
    "im2col": ((1, 5, 11, 9), (7, 5, 3, 3), {"dilation": 2, "algorithm": "im2col"}),
    "depthwise": ((1, 16, 20, 20), (16, 1, 3, 3), {"padding": 1, "groups": 16}),
    "depthwise tiles": (
        (1, 16, 20, 20), (16, 1, 3, 3), {"padding": 1, "groups": 16, "algorithm": "winograd2d"},
    ),
    "few filters": ((1, 64, 32, 32), (3, 64, 3, 3), {"padding": 1}),
    "first": ((1, 3, 40, 40), (64, 3, 3, 3), {"padding": 1, "padding_mode": "reflect"}),
    "one tap": ((2, 32, 12, 12), (16, 32, 1, 1), {}),
}  # fmt: skip


def found(compiler: str) -> str | None:
    """The program of a compiler, whose newest may have a number in its name."""
    numbered = (f"{compiler}-{version}" for version in range(25, 9, -1))
    return next(filter(shutil.which, (compiler, *numbered)), None)


def written(folder, files):
    for file, text in files.items():
        (folder / file).write_text(text)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("layer", [pytest.param(one) for one in LAYERS])
def test_no_compiler_warns(tmp_path, layer, language):
    compiler, *flags = LANGUAGES[language]
    program = found(compiler)
    if program is None:
        pytest.skip(f"this machine has no {compiler}")
    shape, weight, options = LAYERS[layer]
    target = host_target()
    for dtype, activation in (("float32", "silu"), ("float16", ("leaky_relu", 0.2))):
        files = standalone(
            shape, weight, name="layer", host="ggml", dtype=dtype, activation=activation,
            isa=target.name, add=True, **options,
        )  # fmt: skip
        written(tmp_path, files)
        subprocess.run(
            [program, *flags, *target.flags, "-isystem", HEADERS, *STRICT, "layer.c"],
            cwd=tmp_path, check=True,
        )  # fmt: skip


@pytest.mark.parametrize("side, channels", [(56, 128), (28, 256), (14, 512)])
def test_a_layer_is_a_file_of_1500_lines(side, channels):
    files = standalone(
        (1, channels, side, side), (channels, channels, 3, 3), padding=1, host="ggml",
        isa="avx2", activation=("leaky_relu", 0.2), name="layer",
    )  # fmt: skip
    assert len(files["layer.c"].splitlines()) <= 1500
    assert max(map(len, files["layer.c"].splitlines())) <= 100
    for text in files.values():
        assert "SPDX-License-Identifier: MIT" in text
        assert "omp" not in text.lower().replace("compile", "").replace("comp", "")


def test_a_header_has_what_ggml_has():
    """The excerpt's struct is that of the library."""
    ggml = pytest.importorskip("ggml", reason="needs ggml-python")
    fields = dict(ggml.ggml_tensor._fields_)
    names = "type buffer ne nb op op_params flags src view_src view_offs data name".split()
    assert [name for name in fields if name in names] == names
    program = "\n".join(f"offsetof(struct ggml_tensor, {name})," for name in names)
    (text := f'#include "ggml.h"\nlong at[] = {{ {program} }};')
    assert text
    offsets = [getattr(ggml.ggml_tensor, name).offset for name in names]
    check = "".join(
        f'_Static_assert(offsetof(struct ggml_tensor, {name}) == {at}, "{name}");\n'
        for name, at in zip(names, offsets)
    )
    subprocess.run(
        ["cc", "-std=c11", "-isystem", HEADERS, "-fsyntax-only", "-x", "c", "-"],
        input=f'#include "ggml.h"\n{check}', text=True, check=True,
    )  # fmt: skip


def activated(y, activation):
    return np.where(y < 0, 0.2 * y, y) if activation else y
