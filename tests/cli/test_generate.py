"""winogen generate: the pair of files compiles by itself and computes the layer."""

import ctypes
import platform
import subprocess

import numpy as np
import pytest
from conv.activations import TRIALS, activate
from kernels.turns import first

from winogen.records import ACTIVATIONS
from winogen.records.target import LEVELS
from winogen.toolchain import find_compiler, host_target, host_targets

HERE = [target.name for target in host_targets()]


def generate(winogen, folder, *words) -> str:
    """Generate into ``folder``; return the name of the layer."""
    result = winogen("generate", *words, "-o", folder)
    assert result.exit_code == 0, result.output
    source, header = result.stdout.split()
    assert source.endswith(".c") and header == source[:-2] + ".h"
    return source[:-2].rsplit("/", 1)[1]


def unwrapped(text: str) -> str:
    """The same with every paragraph of a comment in one line."""
    return text.replace("\n * ", " ")


def compiled(folder, name: str, *flags: str) -> ctypes.CDLL:
    """Compile with -O1 and no include path, every warning an error."""
    command = [*find_compiler().command, "-O1", "-Wall", "-Wextra", "-Werror", *flags]
    subprocess.run(
        [*command, "-fPIC", "-shared", f"{name}.c", "-o", f"{name}.so"], cwd=folder, check=True
    )
    return ctypes.CDLL(str(folder / f"{name}.so"))


def run(library, name: str, x, w, bias, shape, threads: int) -> np.ndarray:
    """Call the four functions as the header says, with memory of exactly the size asked for."""

    def function(suffix, result=None):
        found = getattr(library, f"{name}_{suffix}")
        found.restype = result
        return found

    def room(count):
        buffer = np.zeros(count + 64, np.uint8)
        start = -buffer.ctypes.data % 64
        return buffer[start : start + count]

    def pointer(array):
        return None if array is None else ctypes.c_void_p(array.ctypes.data)

    packed = room(function("packed_bytes", ctypes.c_size_t)())
    workspace = room(function("workspace_bytes", ctypes.c_size_t)(threads))
    assert packed.size % 64 == 0 and workspace.size % 64 == 0 and workspace.size
    y = np.full(shape, np.nan, x.dtype)
    function("pack")(pointer(w), pointer(packed), threads)
    function("run")(*map(pointer, (x, packed, bias, y, workspace)), threads)
    return y


def reference(x, w, bias, padding: int):
    """NCHW, float64, tap by tap."""
    x = np.pad(x.astype(float), ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    height, width = x.shape[2] - w.shape[2] + 1, x.shape[3] - w.shape[3] + 1
    y = 0 if bias is None else bias[:, None, None].astype(float)
    for i in range(w.shape[2]):
        for j in range(w.shape[3]):
            part = x[:, :, i : i + height, j : j + width]
            y = y + np.einsum("mc,nchw->nmhw", w[:, :, i, j].astype(float), part)
    return y


def data(x_shape, w_shape, dtype=np.float32):
    """Small integers: every algorithm must be exact up to the constants of its transforms."""
    draw = np.random.default_rng(1)
    return (
        draw.integers(-3, 4, x_shape).astype(dtype),
        draw.integers(-3, 4, w_shape).astype(dtype),
        draw.integers(-3, 4, w_shape[:1]).astype(dtype),
    )


@pytest.mark.parametrize(
    "algorithm, isa, flags",
    first(
        2,
        [
            ("im2col", "generic", ()),
            ("mcmr", HERE[0], ("-fopenmp",)),
            ("auto", HERE[min(1, len(HERE) - 1)], ()),
            ("direct", HERE[0], ("-fopenmp",)),
            ("winograd2d", "generic", ()),
            ("winograd1d", HERE[0], ()),
        ],
    ),
)
def test_the_files_compute_the_layer(winogen, tmp_path, algorithm, isa, flags):
    name = generate(
        *(winogen, tmp_path, "--input", "2,5,11,9", "--weight", "7,5,3,3", "--padding", 1),
        *("--algorithm", algorithm, "--isa", isa),
    )
    x, w, bias = data((2, 5, 11, 9), (7, 5, 3, 3))
    library = compiled(tmp_path, name, *flags)
    for b, threads in ((bias, 2), (None, 1), (bias, 0), (None, -3)):  # less than 1 counts as 1
        y = run(library, name, x, w, b, (2, 7, 11, 9), threads)
        np.testing.assert_allclose(y, reference(x, w, b, 1), rtol=0, atol=2e-3)


@pytest.mark.parametrize("filters, isa", first(1, [("float16", "generic"), ("flyte24", HERE[0])]))
def test_filters_in_narrow_numbers(winogen, tmp_path, filters, isa):
    name = generate(
        *(winogen, tmp_path, "--input", "2,5,11,9", "--weight", "7,5,3,3", "--padding", 1),
        *("--algorithm", "direct", "--isa", isa, "--filter-dtype", filters),
    )
    text = (tmp_path / f"{name}.h").read_text()
    assert f"2D convolution, float32, filters {filters}, NCHW" in text
    assert "void *packed = aligned_alloc" in text
    x, w, bias = data((2, 5, 11, 9), (7, 5, 3, 3))  # numbers that both formats hold
    y = run(compiled(tmp_path, name), name, x, w, bias, (2, 7, 11, 9), 1)
    assert np.array_equal(y, reference(x, w, bias, 1))


@pytest.mark.thorough
def test_products_of_integers(winogen, tmp_path):
    name = generate(
        *(winogen, tmp_path, "--input", "2,5,11,9", "--weight", "7,5,3,3", "--padding", 1),
        *("--tile", 2, "--isa", HERE[0], "--product-dtype", "int16"),
    )
    assert "2D convolution, float32, products int16, NCHW" in (tmp_path / f"{name}.h").read_text()
    x, w, bias = data((2, 5, 11, 9), (7, 5, 3, 3))
    y = run(compiled(tmp_path, name), name, x, w, bias, (2, 7, 11, 9), 1)
    exact = reference(x, w, bias, 1)
    assert 0 < abs(y - exact).max() < 1e-3 * abs(exact).max()


@pytest.mark.thorough
def test_products_of_float16(winogen, tmp_path):
    if "fp16" not in host_target().extensions:
        pytest.skip("this CPU or its compiler has no AVX512-FP16")
    name = generate(
        *(winogen, tmp_path, "--input", "2,5,11,9", "--weight", "7,5,3,3", "--padding", 1),
        *("--isa", "avx512+fp16", "--product-dtype", "float16"),
    )
    assert "2D convolution, float32, products float16" in (tmp_path / f"{name}.h").read_text()
    x, w, bias = data((2, 5, 11, 9), (7, 5, 3, 3))
    y = run(compiled(tmp_path, name), name, x, w, bias, (2, 7, 11, 9), 1)
    assert np.array_equal(y, reference(x, w, bias, 1))


def test_moduli_and_an_order_of_summation(winogen, tmp_path):
    moduli, order = "x,x-1,x+1,x^2+1,inf", "huffman"
    name = generate(
        *(winogen, tmp_path, "--input", "1,5,11,9", "--weight", "7,5,3,3", "--isa", "generic"),
        *("--moduli", moduli, "--order", order),
    )
    text = (tmp_path / f"{name}.h").read_text()
    assert f"--moduli {moduli} --order {order}" in unwrapped(text).replace("'", "")
    assert "F(4, 3), moduli x, x - 1, x + 1, x^2 + 1, inf" in text
    assert "rows of the transforms summed one by one, order huffman" in text
    x, w, bias = data((1, 5, 11, 9), (7, 5, 3, 3))
    y = run(compiled(tmp_path, name), name, x, w, bias, (1, 7, 9, 7), 1)
    np.testing.assert_allclose(y, reference(x, w, bias, 0), rtol=0, atol=2e-3)


def test_channels_last_doubles_and_relu(winogen, tmp_path):
    name = generate(
        *(winogen, tmp_path, "--input", "1,4,8,10", "--weight", "6,4,3,3", "--padding", "same"),
        *("--layout", "NHWC", "--dtype", "float64", "--activation", "relu", "--name", "last"),
    )
    x, w, bias = data((1, 4, 8, 10), (6, 4, 3, 3), np.float64)
    library = compiled(tmp_path, name)
    channels_last = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    y = run(library, name, channels_last, w, bias, (1, 8, 10, 6), 1)
    expected = np.maximum(reference(x, w, bias, 1), 0)
    np.testing.assert_allclose(y.transpose(0, 3, 1, 2), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("activation", [n for n, one in ACTIVATIONS.items() if not one.per_filter])
def test_every_activation(winogen, tmp_path, activation):
    """Only what it calls is in the file."""
    trial, known = TRIALS[activation], ACTIVATIONS[activation]
    words = known.spelling or (known.name, *trial.given)
    name = generate(
        *(winogen, tmp_path, "--input", "1,3,6,7", "--weight", "5,3,3,3", "--padding", 1),
        *("--algorithm", "direct", "--isa", HERE[0], "--activation", ":".join(map(str, words))),
    )
    x, w, bias = data((1, 3, 6, 7), (5, 3, 3, 3))
    y = run(compiled(tmp_path, name), name, x, w, bias, (1, 5, 6, 7), 1)
    expected = activate(reference(x, w, bias, 1), trial.asked)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)
    text = (tmp_path / f"{name}.c").read_text()
    for primitive in ("exp", "expm1", "log1p"):
        assert (f" {primitive}_of(" in text) == (primitive in known.needs)


def test_the_head_says_what_it_is_and_how_it_was_made(winogen, tmp_path):
    words = ("--input", "1,64,56,56", "--weight", "64,64,3,3", "--padding", "1", "--algorithm",
             "mcmr", "--tile", "4", "--isa", "avx2")  # fmt: skip
    name = generate(winogen, tmp_path, *words)
    assert name == "conv_56x56_64_64_3x3"
    for suffix in ("c", "h"):
        text = (tmp_path / f"{name}.{suffix}").read_text()
        assert unwrapped(text).startswith(f"/* Generated by `winogen generate {' '.join(words)}`")
    assert "F(4, 3), points" in text and "output   1 x 64 x 56 x 56" in text
    assert "28,901,376" not in text or "direct: 115,605,504" in text


def test_two_layers_link_into_one_program(winogen, tmp_path):
    for name in ("first", "second"):
        generate(
            *(winogen, tmp_path, "--input", "1,1,4,4", "--weight", "1,1,3,3", "--name", name),
            *("--isa", "generic", "--algorithm", "direct"),
        )
    (tmp_path / "main.c").write_text(
        '#include "first.h"\n#include "second.h"\n'
        "int main(void) { return first_packed_bytes() != second_packed_bytes(); }\n"
    )
    command = [*find_compiler().command, "-O1", "main.c", "first.c", "second.c", "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True)
    subprocess.run([tmp_path / "main"], check=True)


@pytest.mark.parametrize(
    "words, message",
    [
        (("--input", "1,2,8", "--weight", "4,2,3,3"), "input: got '1,2,8'; allowed: 4 integers"),
        (("--input", "1,2,8,x", "--weight", "4,2,3,3"), "input: got '1,2,8,x'"),
        (("--input", "1,3,8,8", "--weight", "4,2,3,3"), "input: got 3 channels"),
        (("--input", "0,2,8,8", "--weight", "4,2,3,3"), "batch of at least 1"),
        (("--input", "1,2,8,8", "--weight", "4,2,3,3", "--isa", "mmx"), "isa: got 'mmx'"),
        (("--input", "1,2,8,8", "--weight", "4,2,3,3", "--padding", "-1"), "padding: got -1"),
        (("--input", "1,2,8,8", "--weight", "4,2,3,3", "--name", "a-b"), "name: got 'a-b'"),
        (
            ("--input", "1,2,8,8", "--weight", "4,2,3,3", "--moduli", "x,x^2,inf"),
            "moduli: got x and x^2, which share",
        ),
        (("--input", "1,2,8,8", "--weight", "4,2,3,3", "--order", "x"), "order: got 'x'"),
        (
            ("--input", "1,2,8,8", "--weight", "4,2,3,3", "--stride", "5", "--algorithm", "mcmr"),
            'algorithm: got "mcmr" with stride',
        ),
    ],
)
def test_wrong_values_are_named(refused, tmp_path, words, message):
    assert message in refused("generate", *words, "-o", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_options_of_conv2d_reach_the_layer(winogen, tmp_path):
    words = ("generate", "--input", "1,4,20,20", "--weight", "4,4,3,3", "--isa", "generic")
    options = ("--dilation", "2", "--padding", "2", "--padding-mode", "reflect",
               "--tolerance", "1e-3", "--workspace-limit", "200000", "--name", "far")  # fmt: skip
    result = winogen(*words, *options, "-o", tmp_path)
    assert result.exit_code == 0, result.output
    text = (tmp_path / "far.h").read_text()
    assert "dilation 2 x 2" in text and "reflect" in text
    first = unwrapped(text)
    assert "--dilation 2 --padding-mode reflect" in first and "--workspace-limit 200000" in first


def test_a_limit_of_memory_is_kept_or_refused(refused, tmp_path):
    words = ("--input", "1,64,56,56", "--weight", "64,64,3,3", "-o", tmp_path)
    assert "workspace_limit" in refused("generate", *words, "--workspace-limit", "0")


def test_text_of_others_cannot_leave_the_comments(refused, winogen, tmp_path):
    evil = "0,1,-1 # */ int evil(void) { return 42; } /*\n,inf"
    shapes = ("--input", "1,1,8,8", "--weight", "1,1,3,3", "--isa", "generic", "-o", tmp_path)
    refused("generate", *shapes, "--algorithm", "mcmr", "--tile", "2", "--points", evil)
    from winogen.conv.standalone import standalone

    files = standalone((1, 1, 8, 8), (1, 1, 3, 3), isa="generic", name="safe",
                       command="winogen */ int evil; /*\nint more;")  # fmt: skip
    for text in files.values():
        head = text[: text.index("*/")]
        assert "int evil" in head and "int more" in head


def test_neon_is_not_for_32_bits(tmp_path, winogen):
    words = ("--input", "1,1,8,8", "--weight", "1,1,3,3", "--isa", "neon", "--name", "arm")
    assert winogen("generate", *words, "-o", tmp_path).exit_code == 0
    text = (tmp_path / "arm.c").read_text()
    assert '#if defined(__arm__) && !defined(__aarch64__)\n#error "neon is for 64-bit ARM' in text


def for_another_cpu(winogen, folder, isa) -> str:
    """Generate a layer, which must compile here, to pack weights; return its text."""
    words = ("--input", "1,8,8,8", "--weight", "8,8,3,3", "--isa", isa, "--name", "other")
    assert winogen("generate", *words, "-o", folder).exit_code == 0
    words = ("-std=gnu11", "-fsyntax-only", "-Wall", "-Werror", "other.c")
    subprocess.run([*find_compiler().command, *words], cwd=folder, check=True)
    return (folder / "other.c").read_text()


def test_armv7_asks_for_what_it_needs_on_that_cpu_alone(tmp_path, winogen):
    text = for_another_cpu(winogen, tmp_path, "armv7")
    head = text[text.index("#if defined(__arm__) && defined(__GNUC__)") :]
    assert head.index('target("fpu=neon-vfpv4")') < head.index('optimize("no-associative-math")')
    assert "#elif defined(__arm__) && !defined(__ARM_NEON)\n#error" in head


@pytest.mark.parametrize(
    "isa, macro, flags",
    [
        ("wasm", "simd128", "-msimd128"),
        ("wasm-relaxed", "relaxed_simd", "-msimd128 -mrelaxed-simd"),
    ],
)
def test_wasm_asks_for_what_it_needs_on_that_cpu_alone(isa, macro, flags, tmp_path, winogen):
    text = for_another_cpu(winogen, tmp_path, isa)
    wanted = f'#if defined(__wasm__) && !defined(__wasm_{macro}__)\n#error "compile with {flags}"'
    assert wanted in text and "#pragma GCC target" not in text


def test_rvv_asks_for_a_compiler_that_has_its_vectors(tmp_path, winogen):
    text = for_another_cpu(winogen, tmp_path, "rvv128")
    refused = "#if defined(__riscv) && !defined(__clang__) && __GNUC__ < 14\n#error"
    wanted = (
        '#if defined(__riscv) && !defined(__riscv_vector)\n#error "compile with -march=rv64gcv"'
    )
    assert refused in text and wanted in text and "#pragma GCC target" not in text


def test_sve_asks_for_the_length_of_its_vectors(tmp_path, winogen):
    words = ("--input", "1,8,8,8", "--weight", "8,8,3,3", "--isa", "sve256", "--name", "arm")
    assert winogen("generate", *words, "-o", tmp_path).exit_code == 0
    text = (tmp_path / "arm.c").read_text()
    wanted = ("#if defined(__aarch64__) && (!defined(__ARM_FEATURE_SVE) || "
              "__ARM_FEATURE_SVE_BITS != 256)")  # fmt: skip
    assert wanted in text and "#pragma GCC target" not in text
    command = [*find_compiler().command, "-std=gnu11", "-fsyntax-only", "arm.c"]
    if platform.machine() == "x86_64":  # to pack weights here; vectors are longer than without AVX
        subprocess.run([*command, "-Wall", "-Werror", "-Wno-psabi"], cwd=tmp_path, check=True)


@pytest.mark.parametrize("level", LEVELS)
def test_levels_of_x86_are_targets_that_compilers_have_by_name(level, tmp_path, winogen):
    if platform.machine() != "x86_64":
        pytest.skip("compiles for this machine")
    words = ("--input", "1,8,8,8", "--weight", "8,8,3,3", "--isa", level, "--dtype", "float16")
    assert winogen("generate", *words, "--name", "one", "-o", tmp_path).exit_code == 0
    # As clang would: the file sets no flags of its own, and asks for no more than the level has.
    text = (tmp_path / "one.c").read_text()
    assert "defined(__GNUC__) && !defined(__clang__)" in text
    (tmp_path / "one.c").write_text(text.replace("defined(__GNUC__) && !defined(__clang__)", "0"))
    march = f"-march={level}"
    command = [*find_compiler().command, "-std=gnu11", "-fsyntax-only", march, "one.c"]
    subprocess.run(command, cwd=tmp_path, check=True)
    refused = subprocess.run(
        [*command, "-mno-sse4.2"], cwd=tmp_path, capture_output=True, text=True
    )
    assert "compile with -m" in refused.stderr


def test_a_layer_or_a_model(refused, winogen, tmp_path):
    layer = ("--input", "1,4,8,8", "--weight", "4,4,3,3")
    here = ("-o", tmp_path / "out")
    assert "input: got none; allowed: --input and --weight" in refused("generate", *here)
    assert "weight: got none; allowed" in refused("generate", *layer[:2], *here)
    assert "weights: got 'file' (No such file or directory); allowed: what numpy.save" in refused(
        "generate", *layer, "--weights", "file", *here
    )
    assert "--weights: got 'file'; allowed: only without --transposed" in refused(
        "generate", *layer, "--transposed", "--weights", "file", *here
    )
    assert "--padding: got '1'; allowed: only without a model" in refused(
        "generate", "model.onnx", "--padding", "1", *here
    )
    assert not (tmp_path / "out").exists()


def test_a_transposed_layer(winogen, refused, tmp_path):
    layer = ("--input", "1,4,8,8", "--weight", "4,6,3,3", "--transposed", "--stride", "2")
    more = ("--output-padding", "1", "--isa", "generic", "--algorithm", "direct")
    name = generate(winogen, tmp_path, *layer, *more)
    text = (tmp_path / f"{name}.h").read_text()
    assert name == "conv_transpose_8x8_4_6_3x3" and "output   1 x 6 x 18 x 18" in text
    assert "--transposed --output-padding 1 --stride 2" in unwrapped(text)
    there = ("-o", tmp_path / "out")
    for words, message in (
        (
            (*layer, "--padding-mode", "reflect"),
            "padding_mode: got 'reflect'; allowed: only without",
        ),
        ((*layer, "--dtype", "int8"), "dtype: got 'int8'; allowed: only without --transposed"),
        ((*layer[:4], "--output-padding", "1"), "output_padding: got '1'; allowed: only with"),
        (("model.onnx", "--transposed"), "--transposed: got True; allowed: only without a model"),
    ):
        assert message in refused("generate", *words, *there), message
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("layout, words, axis", [
    ("NHWC", ("--input", "1,1,30,30", "--weight", "1,1,3,3"), "height"),
    ("NDHWC", ("--input", "1,4,9,8,8", "--weight", "8,4,3,1,1"), "depth"),
])  # fmt: skip
def test_the_header_names_axes_as_they_were_given(winogen, tmp_path, layout, words, axis):
    """Whatever the layer is run as: with one channel, or with taps along the depth only."""
    name = generate(winogen, tmp_path, *words, "--layout", layout, "--algorithm", "mcmr")
    text = (tmp_path / f"{name}.h").read_text()
    assert f", {layout}, for " in text and f"along the {axis} F(" in text
