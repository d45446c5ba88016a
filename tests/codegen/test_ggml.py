"""A layer as a node of ggml's graphs: C11 and C++17 without a warning, and the layer's values."""

import shutil
import subprocess

import numpy as np
import pytest
from codegen.ggml_graph import HEADERS, Graph, Node

from winogen import Conv2d, conv2d
from winogen.conv.standalone import standalone
from winogen.errors import InvalidValue, Unsupported
from winogen.toolchain import find_compiler, host_target

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
@pytest.mark.parametrize("layer", LAYERS)
def test_no_compiler_warns(tmp_path, layer, language):
    compiler, *flags = LANGUAGES[language]
    program = found(compiler)
    if program is None:
        pytest.skip(f"this machine has no {compiler}")
    shape, weight, options = LAYERS[layer]
    target = host_target()
    for dtype, activation in (("float32", "silu"), ("float16", ("leaky_relu", 0.2))):
        files = standalone(
            shape, weight, name="conv", host="ggml", dtype=dtype, activation=activation,
            isa=target.name, add=True, **options,
        )  # fmt: skip
        written(tmp_path, files)
        subprocess.run(
            [program, *flags, *target.flags, "-isystem", HEADERS, *STRICT, "conv.c"],
            cwd=tmp_path, check=True,
        )  # fmt: skip


@pytest.mark.parametrize("side, channels", [(56, 128), (28, 256), (14, 512)])
def test_a_layer_is_a_file_of_1500_lines(side, channels):
    files = standalone(
        (1, channels, side, side), (channels, channels, 3, 3), padding=1, host="ggml",
        isa="avx2", activation=("leaky_relu", 0.2), name="conv",
    )  # fmt: skip
    lines = files["conv.c"].splitlines()
    assert len(lines) <= 1500 and max(map(len, lines)) <= 100
    for text in files.values():
        assert "SPDX-License-Identifier: MIT" in text
        assert "omp parallel" not in text


def test_the_excerpt_of_the_header_is_that_of_the_library():
    ggml = pytest.importorskip("ggml", reason="needs ggml-python")
    names = [name for name, *_ in ggml.ggml_tensor._fields_ if name != "padding"]
    assert {"src", "data", "ne", "type"} <= set(names)
    places = {name: getattr(ggml.ggml_tensor, name).offset for name in names}
    checks = "".join(
        f'_Static_assert(offsetof(struct ggml_tensor, {name}) == {place}, "{name}");\n'
        for name, place in places.items()
    )
    compiler = [found("gcc") or found("clang"), "-std=c11", "-fsyntax-only", "-x", "c"]
    text = f'#include "ggml.h"\n{checks}'
    subprocess.run([*compiler, "-isystem", HEADERS, "-"], input=text, text=True, check=True)


@pytest.mark.parametrize("filters", [np.float32, np.float16])
@pytest.mark.parametrize("layer", LAYERS)
def test_a_graph_computes_the_layer(tmp_path, layer, filters):
    """The same for any number of threads; predicted is the error without bias and activation."""
    pytest.importorskip("ggml", reason="needs ggml-python")
    shape, weight_shape, options = LAYERS[layer]
    asked = {"activation": ("leaky_relu", 0.2), "threads": 2, **options}
    written(tmp_path, standalone(shape, weight_shape, name="conv", host="ggml", **asked))
    draw = np.random.default_rng(len(layer))
    x = draw.standard_normal(shape, np.float32)
    w = draw.standard_normal(weight_shape, np.float32).astype(filters)
    bias = draw.standard_normal(weight_shape[:1], np.float32)
    node = Node(tmp_path, "conv", (find_compiler().command[0], "-std=gnu11", "-O1"))
    plan = Conv2d(w.astype(np.float32), bias, **asked).plan(shape)
    results = []
    with Graph() as graph:
        packed = node.packed(graph, graph.tensor(w))
        tensors = graph.tensor(x), packed, graph.tensor(bias)
        for made_for, threads in ((1, 1), (2, 2), (4, 4), (4, 1), (2, 4), (3, 2)):
            y = node(graph, *tensors, threads=made_for)
            graph.compute(y, threads)
            results.append(graph.data(y).copy())
        without = node(graph, *tensors[:2], None)
        graph.compute(without)
        unbiased = graph.data(without).copy()
    for y, b in ((results[0], bias), (unbiased, 0 * bias)):
        expected = exact_of(w, b, x, asked)
        assert abs(y - expected).max() <= 3 * plan.predicted_error * abs(expected).max()
    for y in results[1:]:
        assert np.array_equal(y, results[0])


def exact_of(w, bias, x, options):
    """The layer in float64."""
    named = {name: value for name, value in options.items() if name not in ("algorithm", "tile")}
    w, bias, x = (one.astype(np.float64) for one in (w, bias, x))
    return conv2d(x, w, bias, algorithm="direct", **named)
