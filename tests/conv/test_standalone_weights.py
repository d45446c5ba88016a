"""Files of a layer that carry its weights: the bits of those that pack, and no byte allocated."""

import ctypes
import random
import subprocess
from math import prod

import numpy as np
import pytest

from winogen.conv import packing
from winogen.conv.standalone import standalone
from winogen.conv.standalone_gemm import standalone_gemm
from winogen.conv.standalone_quantized import standalone_quantized
from winogen.conv.standalone_transposed import standalone_transposed
from winogen.errors import InvalidType, InvalidValue, Unsupported
from winogen.toolchain import find_compiler

pytestmark = pytest.mark.usefixtures("written")
STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror", "-std=c11")
X, W = (1, 6, 9, 11), (10, 6, 3, 3)

CARRIED = """
#include "net.h"
static _Alignas(64) char workspace[NET_WORKSPACE_BYTES(1)];
void go(const {input} *input, const {extra} *slopes, {output} *output);
void go(const {input} *input, const {extra} *slopes, {output} *output)
{{
    (void)slopes;
    net_run(input, net_packed, {bias}{carried_slopes}output, workspace, 1);
}}
size_t room(int threads, size_t *macro);
size_t room(int threads, size_t *macro)
{{
    *macro = NET_WORKSPACE_BYTES(threads);
    return net_workspace_bytes(threads);
}}
"""

PACKED = """
#include "net.h"
static _Alignas(64) char workspace[NET_WORKSPACE_BYTES(1)], packed[NET_PACKED_BYTES];
void go(const {input} *input, {given}{output} *output);
void go(const {input} *input, {given}{output} *output)
{{
    net_pack({arrays}, (void *)packed, 1);
    net_run(input, (void *)packed, {bias}{slopes}output, workspace, 1);
}}
"""


def compiled(folder, files, wrapper):
    folder.mkdir()
    for name, text in {**files, "wrapper.c": wrapper}.items():
        (folder / name).write_text(text)
    sources = [name for name in ("wrapper.c", *files) if name.endswith(".c")]
    command = [*find_compiler().command, *STRICT, "-O1", "-shared", "-fPIC", "-o", "net.so"]
    done = subprocess.run([*command, *sources, "-lm"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(folder / "net.so"))


def run(library, x, given, y):
    """Call `go` and return its outputs, which nothing has been in before."""
    y.view(np.uint8)[...] = 0xA5
    library.go(*(ctypes.c_void_p(one.ctypes.data) for one in (x, *given, y)))
    return y.copy()


def both(tmp_path, write, weights, x, y, types, bias, slopes=""):
    """The outputs of the files that pack, and of those that carry."""
    kinds = {name: {"float32": "float", "float64": "double", "uint16": "uint16_t",
                    "int8": "int8_t", "int32": "int32_t", "uint8": "uint8_t"}[a.dtype.name]
             for name, a in weights.items()}  # fmt: skip
    known = {**types, "extra": types.get("extra", "float")}
    given = "".join(f"const {kinds[name]} *{name}, " for name in weights)
    arrays = ", ".join(weights if not bias else [n for n in weights if n not in ("bias", "slopes")])
    plain = PACKED.format(
        **known, given=given, arrays=arrays, bias="bias, " * bias, slopes="slopes, " * bool(slopes)
    )
    carried = CARRIED.format(
        **known, bias="net_bias, " * bias, carried_slopes="net_slopes, " * bool(slopes)
    )
    packs = compiled(tmp_path / "packs", write(), plain)
    carries = compiled(tmp_path / "carries", write(weights=weights), carried)
    macro = ctypes.c_size_t()
    carries.room.restype = ctypes.c_size_t
    for threads in (1, 2, 5):
        assert carries.room(threads, ctypes.byref(macro)) == macro.value
    return (
        run(packs, x, [*weights.values()], y),
        run(carries, x, [next(iter(weights.values()))], y),
    )


@pytest.mark.parametrize(
    "options",
    [
        {"algorithm": "mcmr", "padding": 1},
        {"algorithm": "direct", "layout": "NHWC"},
        {"algorithm": "winograd2d", "dtype": "float64"},
        {"padding": "same", "activation": ("prelu", np.zeros(10, "f4"))},
        {"padding": 1, "filter_dtype": "flyte24"},
        {"padding": 1, "filter_dtype": "bfloat16", "algorithm": "direct"},
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_a_layer(tmp_path, options, seed):
    rng = np.random.default_rng(seed)
    dtype = options.get("dtype", "float32")
    number = {"float32": "float", "float64": "double"}[dtype]
    weights = {"weight": rng.standard_normal(W).astype(dtype),
               "bias": rng.standard_normal(W[0]).astype(dtype)}  # fmt: skip
    if "activation" in options:
        weights["slopes"] = rng.standard_normal(W[0]).astype(dtype)
    shape = X if options.get("layout") != "NHWC" else (X[0], *X[2:], X[1])
    x = rng.standard_normal(shape).astype(dtype)
    size = 1 * W[0] * prod(X[2:] if options.get("padding") else (7, 9))
    types = {"input": number, "output": number, "extra": number}

    def write(**more):
        return standalone(shape, W, name="net", isa="generic", **options, **more)

    one, other = both(
        tmp_path, write, weights, x, np.empty(size, dtype), types, True, "slopes" in weights
    )
    assert np.array_equal(one, other) and np.isfinite(one).all() and np.ptp(one) > 1


@pytest.mark.parametrize("turned", [False, True])
def test_a_product(tmp_path, seed, turned):
    rng = np.random.default_rng(seed)
    shape = (20, 7) if turned else (7, 20)
    weights = {"b": rng.standard_normal(shape).astype("f4"),
               "bias": rng.standard_normal(20).astype("f4")}  # fmt: skip
    x = rng.standard_normal((33, 7)).astype("f4")

    def write(**more):
        return standalone_gemm(33, 20, 7, name="net", isa="generic", transpose_b=turned, **more)

    types = {"input": "float", "output": "float"}
    one, other = both(tmp_path, write, weights, x, np.empty((33, 20), "f4"), types, True)
    assert np.array_equal(one, other)
    exact = x.astype("f8") @ (weights["b"].T if turned else weights["b"]) + weights["bias"]
    assert np.allclose(one, exact, rtol=1e-5, atol=1e-5)


def test_a_layer_of_bytes(tmp_path, seed):
    rng = np.random.default_rng(seed)
    weights = {"weight": rng.integers(-128, 128, W).astype("i1"),
               "bias": rng.integers(-999, 999, W[0]).astype("i4"),
               "multiplier": np.full(W[0], 2e-3, "f4")}  # fmt: skip
    weights["bias"][0] = -(2**31) + 2**26  # near the least that is no literal
    x = rng.integers(0, 256, X).astype("u1")

    def write(**more):
        return standalone_quantized(X, W, name="net", isa="generic", padding=1, **more)

    types = {"input": "uint8_t", "output": "uint8_t"}
    y = np.empty((1, W[0], *X[2:]), "u1")
    one, other = both(tmp_path, write, weights, x, y, types, False)
    assert np.array_equal(one, other) and len(np.unique(one)) > 50


@pytest.mark.parametrize(
    "isa", ["avx512+vnni", "avx2+avxvnni", "avx2", "sse2", "neon+i8mm", "neon"]
)
def test_bytes_are_packed_for_other_cpus_as_for_this_one(isa, seed, monkeypatch):
    """Where this CPU has the instructions, its own kernel packs the same bytes as portable C."""
    chance = random.Random(seed)
    rng = np.random.default_rng(seed)
    shape = 8 * chance.randint(1, 3), chance.choice((5, 16)), 3, 3
    weights = {"weight": rng.integers(-128, 128, shape).astype("i1"),
               "multiplier": np.full(shape[0], 1e-3, "f4")}  # fmt: skip

    def write():
        return standalone_quantized((1, shape[1], 9, 9), shape, name="n", isa=isa, weights=weights)

    own = write()
    monkeypatch.setattr(packing, "_runs_here", lambda target: False)
    assert write() == own
    assert len(own["n_weights.c"]) > 5 * prod(shape) // 2


def test_the_macros_are_what_functions_return(tmp_path, seed):
    """Of transposed layers, too, whose calls follow one another in one workspace."""
    main = """
    #include "net.h"
    int right(void);
    int right(void)
    {
        int wrong = net_packed_bytes() != NET_PACKED_BYTES;
        for (int n = 1; n < 6; n++) wrong |= net_workspace_bytes(n) != NET_WORKSPACE_BYTES(n);
        return !wrong && NET_WORKSPACE_BYTES(1) % 64 == 0 && NET_PACKED_BYTES % 64 == 0;
    }
    """
    chance = random.Random(seed)
    for number, threads in enumerate((1, 2, "caller")):
        files = standalone(X, W, padding=1, threads=threads, name="net")
        assert compiled(tmp_path / f"one{number}", files, main).right()
        stride = chance.randint(2, 3)
        files = standalone_transposed(
            X, (6, 5, 4, 4), stride=stride, padding=3, threads=threads, name="net"
        )
        assert compiled(tmp_path / f"up{number}", files, main).right()


ALLOWED = "weights: got .*; allowed: "


@pytest.mark.parametrize(
    "weights, error, words",
    [
        (np.zeros((10, 6, 3, 2), "f4"), InvalidValue, r"\(10, 6, 3, 3\)"),
        (np.zeros(W, "i4"), InvalidType, "floats"),
        ({"weights": np.zeros(W, "f4")}, InvalidValue, "weight, bias"),
        ({"bias": np.zeros(10, "f4")}, InvalidValue, "weight, bias"),
        ({"weight": np.zeros(W, "f4"), "bias": np.zeros(9, "f4")}, InvalidValue, r"\(10,\)"),
        ({"weight": np.zeros(W, "f4"), "slopes": np.zeros(10, "f4")}, InvalidValue, "weight, bias"),
    ],
)
def test_others_are_refused(weights, error, words):
    with pytest.raises(error, match=ALLOWED + words):
        standalone(X, W, name="net", weights=weights)


def test_bytes_that_are_none_are_refused():
    many = {"weight": np.full(W, 128), "multiplier": np.ones(10, "f4")}
    with pytest.raises(InvalidType, match="weights: got weight of int64; allowed: integers"):
        standalone_quantized(X, W, weights=many)
    with pytest.raises(InvalidValue, match="weights: got no multiplier"):
        standalone_quantized(X, W, weights=np.zeros(W, "i1"))


def test_other_hosts_pack():
    with pytest.raises(Unsupported, match="allowed: --host c$"):
        standalone(X, W, host="c++", weights=np.zeros(W, "f4"))
