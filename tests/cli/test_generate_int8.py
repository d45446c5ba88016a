"""winogen generate --dtype int8: the pair of files compiles by itself and equals QConv2d."""

import ctypes
import os
import re
import subprocess

import numpy as np
import pytest
from cli.test_generate import compiled, generate

import winogen as package
from winogen.codegen.compiling import spelled_target
from winogen.conv.standalone_quantized import standalone_quantized
from winogen.errors import InvalidType, InvalidValue
from winogen.records import TARGETS
from winogen.toolchain import host_target, host_targets


def run(library, name, x, weight, bias, multiplier, shape, dtype, threads=1):
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
    y = np.full(shape, 77, dtype)
    given = [weight, bias, *([] if multiplier is None else [multiplier]), packed]
    function("pack")(*map(pointer, given), threads)
    function("run")(*map(pointer, (x, packed, y, workspace)), threads)
    return y


def cases():
    """Every target here, also with its products of bytes; those that take long aside."""
    extended = [
        target.name + names
        for target in host_targets()
        for names in ("+vnni", "+vnni+amx", "+avxvnni", "+dotprod")
        if target.extensions.issuperset(names[1:].split("+"))
    ]
    plain = [target.name for target in host_targets()]
    quick = ((extended or plain)[0], "generic")
    return [  # layouts take turns
        pytest.param(
            isa, ("NHWC", "NCHW")[turn % 2], marks=() if isa in quick else pytest.mark.thorough
        )
        for turn, isa in enumerate((*extended, *plain))
    ]


@pytest.mark.parametrize("isa, layout", cases())
def test_the_files_compute_what_qconv2d_computes(winogen, tmp_path, isa, layout):
    name = generate(
        winogen, tmp_path, "--input", "2,5,9,8", "--weight", "7,5,3,3", "--padding", "1",
        "--stride", "1,2", "--dtype", "int8", "--x", "uint8:9", "--y", "int8:-3",
        "--layout", layout, "--isa", isa, "--activation", "relu", "--threads", "2",
    )  # fmt: skip
    assert name == "qconv_9x8_5_7_3x3"
    rng = np.random.default_rng(1)
    x = rng.integers(0, 256, (2, 5, 9, 8) if layout == "NCHW" else (2, 9, 8, 5)).astype(np.uint8)
    weight = rng.integers(-128, 128, (7, 5, 3, 3)).astype(np.int8)
    bias = rng.integers(-999, 999, 7).astype(np.int32)
    scale = rng.uniform(0.001, 0.002, 7).astype(np.float32)
    conv = package.QConv2d(
        weight, bias, (1, 2), 1, w_scale=scale, x_scale=1, x_zero=9, y_scale=1, y_zero=-3,
        y_dtype="int8", layout=layout, activation="relu",
    )  # fmt: skip
    expected = conv(x)
    assert expected.min() == -3 and np.unique(expected).size > 20
    library = compiled(tmp_path, name, "-fopenmp")
    for threads in (1, 3):
        y = run(library, name, x, weight, bias, scale, expected.shape, np.int8, threads)
        assert np.array_equal(y, expected)


@pytest.mark.parametrize("isa", ["avx512+vnni+amx", "avx512+vnni", "avx2+avxvnni"])
def test_other_compilers_are_told_what_they_need(winogen, tmp_path, isa):
    """C11 without extensions of the library, and macros in the test for flags that are macros."""
    generate(
        winogen, tmp_path, "--input", "1,64,8,8", "--weight", "64,64,3,3", "--dtype", "int8",
        "--isa", isa, "--name", "one",
    )  # fmt: skip
    text = (tmp_path / "one.c").read_text().replace("\\\n", "")  # lines that go on
    assert ("tdpbusd" in text) == ("amx" in isa)
    names = re.findall(r"defined\(([^)]*)\)", text)
    assert names and all(re.fullmatch(r"\w+", name) for name in names), names
    (flags,) = re.findall('"compile with (.*)"', text)
    if set(isa.split("+")[1:]) <= host_target().extensions:  # then the compiler knows them, too
        command = [*os.environ.get("CC", "cc").split(), "-std=c11", "-Wall", "-Wextra", "-Werror"]
        command += ["-fsyntax-only", *flags.split(), "one.c"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_sums_need_no_multiplier(winogen, tmp_path):
    name = generate(
        winogen, tmp_path, "--input", "1,1,6,6", "--weight", "2,1,3,3", "--dtype", "int8",
        "--x", "int8", "--y", "int32", "--isa", "generic", "--name", "sums",
    )  # fmt: skip
    assert "computed by im2col, products by plain C" in (tmp_path / "sums.h").read_text()
    rng = np.random.default_rng(2)
    x = rng.integers(-128, 128, (1, 1, 6, 6)).astype(np.int8)
    weight = rng.integers(-128, 128, (2, 1, 3, 3)).astype(np.int8)
    expected = package.QConv2d(weight)(x)
    library = compiled(tmp_path, name)
    y = run(library, name, x, weight, None, None, expected.shape, np.int32)
    assert np.array_equal(y, expected)


@pytest.mark.parametrize("activation, add", [
    (None, True), ("silu", True), (("prelu", 0.3), False), (("leaky_relu", 0.1), False),
])  # fmt: skip
def test_files_take_activations_and_a_sum_of_two(tmp_path, activation, add):
    rng = np.random.default_rng(3)
    x, more = (rng.integers(0, 256, (1, n, 6, 7)).astype(np.uint8) for n in (5, 9))
    weight = rng.integers(-128, 128, (9, 5, 3, 3)).astype(np.int8)
    slopes = np.full(9, 0.3, np.float32)
    given = {"add": more.view(np.int8), "add_scale": 0.25, "add_zero": -8} if add else {}
    scales = {"x_zero": 9, "y_zero": 30, "activation": activation, "padding": 1}
    files = standalone_quantized(
        x.shape, weight.shape, **scales, y_scale=0.5, name="sum", add=add, add_dtype="int8",
        **{key: value for key, value in given.items() if key != "add"},
    )  # fmt: skip
    for file, text in files.items():
        (tmp_path / file).write_text(text)
    if add:
        assert "add      int8, scale 0.25, zero point -8" in files["sum.h"]
    step = np.full(9, 0.002, np.float32)
    expected = package.QConv2d(weight, w_scale=step, x_scale=1, y_scale=0.5, **scales)(x, **given)
    library = compiled(tmp_path, "sum")
    library.sum_workspace_bytes.restype = library.sum_packed_bytes.restype = ctypes.c_size_t
    packed, workspace = (
        aligned(int(size)) for size in (library.sum_packed_bytes(), library.sum_workspace_bytes(1))
    )
    y = np.zeros(expected.shape, np.uint8)
    per_filter = [slopes] if activation and activation[0] == "prelu" else []
    call(library.sum_pack, weight, None, step, *per_filter, packed, 1)
    call(library.sum_run, x, packed, *([given["add"]] if add else []), y, workspace, 1)
    assert np.array_equal(y, expected) and len(np.unique(y)) > 20


def aligned(size):
    """Bytes that begin at a cache line."""
    room = np.zeros(size + 64, np.uint8)
    begin = -room.ctypes.data % 64
    return room[begin : begin + size]


def call(function, *values):
    """Call a function of C with arrays, None and ints."""
    function(*(v.ctypes.data_as(ctypes.c_void_p) if isinstance(v, np.ndarray) else v
               for v in values))  # fmt: skip


@pytest.mark.parametrize("options, match", [
    ({"activation": "silu"}, "activation: got 'silu' with no y_scale"),
    ({"add": True, "y_dtype": "int32", "y_scale": 1}, "add: got True with outputs that are sums"),
    ({"y_scale": 0.5}, "y_scale: got 0.5; allowed: None"),
    ({"y_scale": 0.5, "add": True}, "add_scale: got None"),
    ({"add_scale": 0.5}, "add_scale: got 0.5 without add; allowed: none"),
    ({"add_zero": 3}, "add_zero: got 3 without add; allowed: none"),
])  # fmt: skip
def test_scales_that_files_need(options, match):
    with pytest.raises((InvalidValue, InvalidType), match=match):
        standalone_quantized((1, 3, 8, 8), (4, 3, 3, 3), **options)


@pytest.mark.parametrize("words, match", [
    (("--dtype", "int8", "--tile", "4"), "--tile: got 4; allowed: only without --dtype int8"),
    (("--x", "uint8:4"), "--x: got 'uint8:4'; allowed: only with --dtype int8"),
    (("--dtype", "int8", "--x", "uint8:256"), "x_zero: got 256; allowed: an int in 0..255"),
    (("--dtype", "int8", "--y", "int32:1"), "y_zero: got 1; allowed"),
    (("--dtype", "int8", "--x", "int16"), "x_dtype: got 'int16'"),
    (("--dtype", "int8", "--x", "int8:0:1"), "x: got 'int8:0:1'; allowed: TYPE, TYPE:ZERO"),
    (("--dtype", "int8", "--y", "int8:0.5"), "y: got 'int8:0.5'; allowed: .*, TYPE:ZERO:SCALE"),
    (("--dtype", "int8", "--isa", "avx2+vnni"), "isa: got 'avx2.vnni'; allowed: avx2 with"),
    (("--dtype", "int8", "--isa", "avx3"), "isa: got 'avx3'"),
    (("--dtype", "int8", "--algorithm", "mcmr"), "algorithm: got 'mcmr'"),
    (("--dtype", "int8", "--activation", "silu"), "activation: got 'silu'"),
    (("--y", "int8:0:0.5"), "--y: got 'int8:0:0.5'; allowed: only with --dtype int8"),
    (("--dtype", "int8", "--y", "int8:0:0.5"), "y_scale: got 0.5; allowed: None"),
    (("--dtype", "int8", "--activation", "silu", "--y", "uint8:0:-1"), "y_scale: got -1"),
])  # fmt: skip
def test_wrong_options_are_named(winogen, tmp_path, words, match):
    import re

    result = winogen(
        "generate", "--input", "1,3,8,8", "--weight", "4,3,3,3", "-o", tmp_path, *words
    )
    assert result.exit_code != 0
    assert re.search(match, " ".join(result.stderr.split())), result.stderr
    assert not list(tmp_path.iterdir())


def test_an_activation_comes_with_the_scale_of_the_outputs(winogen, tmp_path):
    words = "--input", "1,3,8,8", "--weight", "4,3,3,3", "--dtype", "int8", "--isa", "generic"
    result = winogen(
        "generate",
        *words,
        "--activation",
        "silu",
        "--y",
        "uint8:0:0.5",
        "--name",
        "q",
        "-o",
        tmp_path,
    )
    assert result.exit_code == 0, result.output
    assert "silu" in (tmp_path / "q.c").read_text()
    first = " ".join((tmp_path / "q.h").read_text().replace("*", " ").split())
    assert "--y uint8:0:0.5" in first


def test_too_long_sums_are_refused(winogen, tmp_path):
    shapes = "--input", "1,65793,8,8", "--weight", "4,65793,1,1"
    result = winogen("generate", *shapes, "--dtype", "int8", "-o", tmp_path)
    assert result.exit_code != 0 and "fewer than" in " ".join(result.stderr.split())


def test_arm_says_which_extension_it_needs():
    texts = spelled_target(TARGETS["neon"].using("dotprod"))
    assert texts["features"] == ["arch=armv8.2-a+dotprod"]
    assert texts["missing"] == "!defined(__ARM_FEATURE_DOTPROD)"
    both = spelled_target(TARGETS["neon"].using("dotprod", "i8mm"))
    assert both["features"] == ["arch=armv8.2-a+dotprod+i8mm"]
    assert "!defined(__ARM_FEATURE_MATMUL_INT8)" in both["missing"]
