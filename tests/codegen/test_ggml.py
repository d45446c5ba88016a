"""A layer as a node of ggml's graphs: C11 and C++17 without a warning, and the layer's values."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from cli.conftest import refused, winogen
from codegen.ggml_graph import HEADERS, Graph, Node
from kernels.turns import turns

from winogen import Conv2d, conv2d
from winogen.conv.standalone import standalone
from winogen.errors import InvalidValue, Unsupported
from winogen.toolchain import find_compiler, host_target

__all__ = ["refused", "winogen"]  # fixtures

NO_GGML = "no ggml: pip install 'winogen[ggml]'"
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


@pytest.mark.parametrize("layer, language", turns(LAYERS, LANGUAGES))
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
    ggml = pytest.importorskip("ggml", reason=NO_GGML)
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


@pytest.mark.parametrize("layer, filters", turns(LAYERS, (np.float32, np.float16)))
def test_a_graph_computes_the_layer(tmp_path, layer, filters):
    """The same for any number of threads; predicted is the error without bias and activation."""
    pytest.importorskip("ggml", reason=NO_GGML)
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
    with Graph(megabytes=200) as graph:
        packed = node.packed(graph, graph.tensor(w))
        tensors = graph.tensor(x), packed, graph.tensor(bias)
        for made_for, threads in ((1, 1), (2, 2), (4, 4), (4, 1), (2, 4), (3, 2)):
            y = node(graph, *tensors, threads=made_for)
            behind = graph.data(graph.tensor(np.zeros(1 << 21, np.float32)))
            # ggml calls a node on all threads that some node of the graph wants.
            graph.compute(graph.ggml.ggml_add(graph.context, y, y), threads)
            assert not behind.any(), "a node wrote behind its workspace"
            results.append(graph.data(y).copy())
        without = node(graph, *tensors[:2], None)
        graph.compute(without)
        unbiased = graph.data(without).copy()
    for y, b in ((results[0], bias), (unbiased, 0 * bias)):
        expected = exact_of(w, b, x, asked)
        assert abs(y - expected).max() <= 3 * plan.predicted_error * abs(expected).max()
    for y in results[1:]:
        assert np.array_equal(y, results[0])


ADAPTER = """
extern "C" {
struct ggml_tensor *page_packed(struct ggml_context *);
void page_pack(const struct ggml_tensor *, struct ggml_tensor *);
struct ggml_tensor *page(ggml_context *, ggml_tensor *, ggml_tensor *, ggml_tensor *, int);
}
static HrConv hr;
struct ggml_tensor *page_packed(ggml_context *ctx) { hr.init_params(ctx); return hr.packed; }
void page_pack(const ggml_tensor *weight, ggml_tensor *)
{
    hr.weight = const_cast<ggml_tensor *>(weight);
    hr.loaded();
}
struct ggml_tensor *page(ggml_context *ctx, ggml_tensor *x, ggml_tensor *, ggml_tensor *bias, int n)
{
    hr.bias = bias;
    return hr.forward(ctx, x, n);
}
"""


def test_the_lines_of_the_page(tmp_path, winogen):
    """They compile as C++, and compute the layer, for inputs that fit and for others."""
    pytest.importorskip("ggml", reason=NO_GGML)
    program = found("g++") or found("clang++")
    if program is None:
        pytest.skip("this machine has no compiler of C++")
    text = (Path(__file__).parents[2] / "docs" / "ggml.md").read_text("utf-8")
    command = re.search(r"```sh\n(winogen generate .*?)\n```", text, re.DOTALL)[1]
    words = shlex.split(command.replace("\\\n", " "))[1:]
    words[words.index("--isa") + 1] = host_target().name
    words[words.index("-o") + 1] = tmp_path
    result = winogen(*words)
    assert result.exit_code == 0, result.output
    pasted = re.search(r"```cpp\n(.*?)```", text, re.DOTALL)[1]
    assert len(pasted[pasted.index("struct") :].strip().splitlines()) <= 13
    kernel = f'#include "{tmp_path}/hr_conv.c"\n'
    (tmp_path / "page.c").write_text(f"{DECLARED}{kernel}{pasted}{ADAPTER}")
    node = Node(tmp_path, "page", (program, "-std=c++17", "-O1", "-x", "c++", f"-I{tmp_path}"))
    draw = np.random.default_rng(5)
    w = draw.standard_normal((64, 64, 3, 3)).astype(np.float16)
    bias = draw.standard_normal(64).astype(np.float32)
    with Graph(megabytes=200) as graph:
        weight = graph.tensor(w)
        packed = node.packed(graph, weight)
        for side, allowed in ((128, 1e-5), (40, 2e-3)):  # ggml rounds inputs to float16
            x = draw.standard_normal((1, 64, side, side)).astype(np.float32)
            y = node(graph, graph.tensor(x), packed, graph.tensor(bias), threads=2)
            graph.compute(y, 2)
            expected = exact_of(w, bias, x, {"padding": 1, "activation": ("leaky_relu", 0.2)})
            assert abs(graph.data(y) - expected).max() <= allowed * abs(expected).max()


# What the lines call besides.
DECLARED = """#include "ggml.h"
extern "C" {
struct ggml_tensor *ggml_conv_2d(
    struct ggml_context *, struct ggml_tensor *, struct ggml_tensor *,
    int, int, int, int, int, int);
struct ggml_tensor *ggml_add(struct ggml_context *, struct ggml_tensor *, struct ggml_tensor *);
struct ggml_tensor *ggml_reshape_4d(
    struct ggml_context *, struct ggml_tensor *, int64_t, int64_t, int64_t, int64_t);
struct ggml_tensor *ggml_leaky_relu(struct ggml_context *, struct ggml_tensor *, float, bool);
}
"""


def test_other_numbers_and_what_is_added(tmp_path):
    """Arrays of float16, packed filters of float16, and an addition that a node reads."""
    pytest.importorskip("ggml", reason=NO_GGML)
    shape, weight_shape = (2, 5, 11, 9), (7, 5, 3, 3)
    draw = np.random.default_rng(3)
    x, w = (draw.integers(-3, 4, one).astype(np.float16) for one in (shape, weight_shape))
    add = draw.integers(-3, 4, (2, 7, 11, 9)).astype(np.float16)
    options = {"padding": 1, "algorithm": "direct"}
    files = standalone(
        shape, weight_shape, name="conv", host="ggml", dtype="float16", add=True, **options
    )
    written(tmp_path, files)
    node = Node(tmp_path, "conv", (find_compiler().command[0], "-std=gnu11", "-O1"))
    with Graph() as graph:
        packed = node.packed(graph, graph.tensor(w))
        y = node(graph, graph.tensor(x), packed, None, graph.tensor(add), threads=2)
        graph.compute(y, 2)
        expected = exact_of(w, np.zeros(7), x, options) + add
        assert np.array_equal(graph.data(y, np.float16), expected.astype(np.float16))


def test_an_input_that_is_not_contiguous(tmp_path):
    """A view of the first channels of more: the node has it copied."""
    ggml = pytest.importorskip("ggml", reason=NO_GGML)
    files = standalone((1, 5, 9, 8), (7, 5, 3, 3), name="conv", host="ggml", algorithm="direct")
    written(tmp_path, files)
    node = Node(tmp_path, "conv", (find_compiler().command[0], "-std=gnu11", "-O1"))
    draw = np.random.default_rng(3)
    x = draw.integers(-3, 4, (1, 5, 9, 16)).astype(np.float32)
    w = draw.integers(-3, 4, (7, 5, 3, 3)).astype(np.float32)
    with Graph() as graph:
        whole = graph.tensor(x)
        view = ggml.ggml_view_4d(
            graph.context, whole, 8, 9, 5, 1, *(whole.contents.nb[axis] for axis in (1, 2, 3)), 0
        )
        y = node(graph, view, node.packed(graph, graph.tensor(w)), None)
        graph.compute(y)
        assert np.array_equal(graph.data(y), exact_of(w, np.zeros(7), x[..., :8], {}))


@pytest.mark.parametrize(
    "changes, error, words",
    [
        ({"name": "ggml_conv"}, InvalidValue, "name: got 'ggml_conv', which is ggml's"),
        ({"name": "compute"}, InvalidValue, "name: got 'compute'"),
        ({"name": "n", "algorithm": "mcmr"}, InvalidValue, "the kernel itself has N_H; allowed"),
        ({"dtype": "float64"}, Unsupported, "dtype: got 'float64'; allowed: float32, float16"),
        ({"layout": "NHWC"}, Unsupported, "layout: got 'NHWC'; allowed: NCHW, as --host ggml"),
        ({"host": "gglm"}, InvalidValue, "host: got 'gglm'"),
    ],
)
def test_what_ggml_has_no_node_for(changes, error, words):
    shape = (1, 8, 8, 5) if "layout" in changes else (1, 5, 8, 8)
    asked = {"name": "conv", "host": "ggml", **changes}
    with pytest.raises(error, match=re.escape(words)):
        standalone(shape, (7, 5, 3, 3), **asked)
    with pytest.raises(Unsupported, match="layout: got 'NCW'; allowed: NCHW"):
        standalone((1, 5, 8), (7, 5, 3), layout="NCW", host="ggml")


@pytest.mark.parametrize(
    "words, where",
    [
        (("--input", "1,5,8,8", "--weight", "5,7,3,3", "--transposed"),
         "host: got 'ggml' for a transposed convolution; allowed: c, "),
        (("--input", "1,5,8,8", "--weight", "7,5,3,3", "--dtype", "int8"),
         "host: got 'ggml' for a convolution of bytes; allowed: c, "),
        (("--input", "5,8", "--weight", "8,7"), "for a layer, not for a product of matrices"),
        (("--input", "1,5,8,8", "--weight", "7,5,3,3", "--backend", "cuda"), "--backend cuda"),
        (("model.onnx",), "only without a model"),
    ],
)  # fmt: skip
def test_commands_that_have_no_host(refused, tmp_path, words, where):
    (tmp_path / "model.onnx").write_bytes(b"")
    words = [str(tmp_path / word) if word == "model.onnx" else word for word in words]
    line = refused("generate", *words, "--host", "ggml", "-o", tmp_path)
    assert "host: got 'ggml'" in line and where in line


def exact_of(w, bias, x, options):
    """The layer in float64."""
    named = {name: value for name, value in options.items() if name not in ("algorithm", "tile")}
    w, bias, x = (one.astype(np.float64) for one in (w, bias, x))
    return conv2d(x, w, bias, algorithm="direct", **named)


def test_memory_of_backends_and_allocators(tmp_path):
    """As stable-diffusion.cpp has it: contexts allocate nothing, and layers share a workspace."""
    ggml = pytest.importorskip("ggml", reason=NO_GGML)
    shape, options, threads, layers = (1, 16, 24, 24), {"padding": 1, "activation": "relu"}, 2, 6
    written(tmp_path, standalone(shape, (16, 16, 3, 3), name="conv", host="ggml", **options))
    node = Node(tmp_path, "conv", (find_compiler().command[0], "-std=gnu11", "-O1"))
    draw = np.random.default_rng(3)
    w = (draw.standard_normal((16, 16, 3, 3)) / 8).astype(np.float16)
    bias, x = (draw.standard_normal(size).astype(np.float32) for size in ((16,), shape))
    backend = ggml.ggml_backend_cpu_init()
    ggml.ggml_backend_cpu_set_n_threads(backend, threads)
    with Graph(1, allocates=False) as weights, Graph(1, allocates=False) as graph:
        own = weights.empty(w), weights.empty(bias)
        packed = node.empty_packed(weights)
        buffer = ggml.ggml_backend_alloc_ctx_tensors(weights.context, backend)
        for tensor, array in zip(own, (w, bias)):
            weights.fill(tensor, array)
        node.pack(own[0], packed)
        input = y = graph.empty(x)
        ggml.ggml_set_input(input)
        for _ in range(layers):
            y = node(graph, y, packed, own[1], threads=threads)
        ggml.ggml_set_output(y)
        whole = ggml.ggml_new_graph(graph.context)
        ggml.ggml_build_forward_expand(whole, y)
        allocator = ggml.ggml_gallocr_new(ggml.ggml_backend_get_default_buffer_type(backend))
        assert ggml.ggml_gallocr_alloc_graph(allocator, whole)
        graph.fill(input, x)
        assert ggml.ggml_backend_graph_compute(backend, whole) == 0
        expected = x.astype(float)
        for _ in range(layers):
            expected = exact_of(w, bias, expected, options)
        assert abs(graph.data(y) - expected).max() <= 1e-5 * abs(expected).max()
        used = ggml.ggml_gallocr_get_buffer_size(allocator, 0)
        assert used <= node.workspace_bytes(threads) + 4 * x.nbytes + 4096
        ggml.ggml_gallocr_free(allocator)
        ggml.ggml_backend_buffer_free(buffer)
    ggml.ggml_backend_free(backend)
