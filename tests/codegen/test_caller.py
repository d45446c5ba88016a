"""Parts of a layer on threads of whoever calls: any order, any number, the bits of one part."""

import ctypes
import random
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

from winogen.conv.standalone import standalone
from winogen.conv.standalone_gemm import standalone_gemm
from winogen.conv.standalone_quantized import standalone_quantized
from winogen.conv.standalone_transposed import standalone_transposed
from winogen.errors import InvalidType, InvalidValue
from winogen.toolchain import find_compiler, host_target

STRICT = "-std=c11 -Wall -Wextra -Wpedantic -Wshadow -Werror".split()
QUICK = ("-O1", "-fPIC", "-shared")

# Between them all that runs in phases, works in shared memory or writes through a buffer.
LAYERS = {
    "tiles": (standalone, (2, 24, 21, 19), (40, 24, 3, 3), {"padding": 1, "algorithm": "mcmr"}),
    "shared filters": (standalone, (1, 64, 7, 7), (256, 64, 3, 3),
                       {"padding": 1, "algorithm": "mcmr", "tile": 2}),
    "NHWC": (standalone, (1, 21, 19, 24), (40, 24, 3, 3), {"padding": 1, "layout": "NHWC"}),
    "winograd2d": (standalone, (2, 5, 11, 9), (7, 5, 3, 3), {"algorithm": "winograd2d"}),
    "direct": (standalone, (2, 6, 19, 17), (10, 3, 5, 5), {"stride": 2, "groups": 2}),
    "depthwise": (standalone, (1, 16, 20, 20), (16, 1, 3, 3), {"padding": 1, "groups": 16}),
    "float16": (standalone, (1, 24, 21, 19), (40, 24, 3, 3), {"dtype": "float16", "padding": 1}),
    "int16": (standalone, (1, 64, 7, 7), (256, 64, 3, 3),
              {"padding": 1, "algorithm": "mcmr", "tile": 4, "product_dtype": "int16"}),
    "int8": (standalone, (1, 64, 7, 7), (256, 64, 3, 3),
             {"padding": 1, "algorithm": "mcmr", "tile": 2, "product_dtype": "int8"}),
    "transposed": (standalone_transposed, (1, 16, 9, 9), (16, 12, 4, 4),
                   {"stride": 2, "padding": 1}),
    "transposed, zeros": (standalone_transposed, (2, 5, 6, 6), (5, 7, 2, 2), {"stride": 3}),
    "bytes": (standalone_quantized, (2, 16, 13, 11), (24, 16, 3, 3), {"padding": 1}),
    "bytes, depthwise": (standalone_quantized, (1, 16, 13, 11), (16, 1, 3, 3), {"groups": 16}),
    "product": (standalone_gemm, (70, 300), (300, 50), {}),
}  # fmt: skip


class Layer:
    """The C of a layer, compiled and packed, with what it reads."""

    def __init__(self, folder, draw, write, shape, weight, options):
        sizes = (shape[0], weight[1], shape[1]) if write is standalone_gemm else (shape, weight)
        files = write(*sizes, name="made", threads="caller:3", **options)
        for name, text in files.items():
            (folder / name).write_text(text)
        flags = [*host_target().flags, *QUICK, *STRICT]
        words = [*find_compiler().command, *flags, "made.c", "-lm", "-o", "made.so"]
        subprocess.run(words, cwd=folder, check=True)
        self.code = ctypes.CDLL(str(folder / "made.so"))
        for one in ("packed_bytes", "workspace_bytes"):
            getattr(self.code, f"made_{one}").restype = ctypes.c_size_t
        numbers = draw.integers(-9, 9, shape)
        self.bytes = write is standalone_quantized
        kind = np.uint8 if self.bytes else np.dtype(options.get("dtype", "float32"))
        self.input = abs(numbers).astype(kind)
        filters = weight[0] if write is not standalone_gemm else weight[1]
        if write is standalone_transposed:
            filters = weight[1] * options.get("groups", 1)
        packs = [draw.integers(-9, 9, weight).astype(np.int8 if self.bytes else np.float32)]
        self.bias = draw.integers(-9, 9, filters).astype(np.int32 if self.bytes else np.float32)
        if self.bytes:
            packs += [self.bias, np.full(filters, 0.01, np.float32)]
        self.packed = aligned(self.code.made_packed_bytes())
        arrays = [*packs, self.packed]
        if write is standalone_transposed:
            arrays.append(aligned(self.code.made_scratch_bytes()))
        self.code.made_pack(*map(pointer, arrays))
        (head,) = (line for line in files["made.h"].splitlines() if line.startswith(" * output "))
        self.shape = [int(size) for size in head.split(",")[0].split()[2:][::2]]

    def run(self, parts, order, each=map):
        """Its output of so many parts in an order; ``each`` calls a function for all of them."""
        output = aligned(int(np.prod(self.shape)) * self.input.itemsize)
        work = aligned(self.code.made_workspace_bytes(parts))
        output[:] = work[:] = 0xFF
        given = [self.input, self.packed, *([] if self.bytes else [self.bias]), output, work]
        given = list(map(pointer, given))
        list(each(lambda part: self.code.made_run_part(*given, part, parts), order))
        return output.tobytes()


def aligned(count):
    """Bytes at a multiple of 64."""
    whole = np.zeros(count + 64, np.uint8)
    first = -whole.ctypes.data % 64
    return whole[first : first + count]


def pointer(array):
    return ctypes.c_void_p(array.ctypes.data)


@pytest.mark.parametrize("name", LAYERS)
def test_any_parts_in_any_order_are_the_bits_of_one(name, tmp_path, seed):
    layer = Layer(tmp_path, np.random.default_rng(seed), *LAYERS[name])
    whole = layer.run(1, [0])
    assert np.frombuffer(whole, layer.input.dtype).astype(float).any()
    chance = random.Random(seed)
    for parts in (2, 3, 7, 50):
        order = chance.sample(range(parts), parts)
        assert layer.run(parts, order) == whole
    with ThreadPoolExecutor(4) as pool:  # whose threads take the next part each
        for parts in (4, 9):
            assert layer.run(parts, range(parts), pool.map) == whole
    # Without a part something is missing: nothing else computes it.
    if name in ("tiles", "direct", "product", "transposed"):
        assert layer.run(2, [1]) != whole


@pytest.mark.parametrize("name", ["tiles", "direct", "transposed", "product"])
def test_it_is_what_threads_of_openmp_compute(name, tmp_path, seed):
    write, shape, weight, options = LAYERS[name]
    layer = Layer(tmp_path, np.random.default_rng(seed), write, shape, weight, options)
    sizes = (shape[0], weight[1], shape[1]) if write is standalone_gemm else (shape, weight)
    for file, text in write(*sizes, name="other", threads=3, **options).items():
        (tmp_path / file).write_text(text)
    words = [*find_compiler().command, *host_target().flags, *QUICK, "other.c", "-o", "other.so"]
    subprocess.run(words, cwd=tmp_path, check=True)
    other = ctypes.CDLL(str(tmp_path / "other.so"))
    output = aligned(len(layer.run(1, [0])))
    work = aligned(layer.code.made_workspace_bytes(3))
    given = (layer.input, layer.packed, layer.bias, output, work)
    other.other_run(*map(pointer, given), 1)
    assert output.tobytes() == layer.run(1, [0])


def test_the_object_knows_no_threads(tmp_path):
    Layer(tmp_path, np.random.default_rng(0), *LAYERS["tiles"])
    text = (tmp_path / "made.c").read_text()
    assert not {"omp", "pthread", "__atomic", "malloc"} & {*text.replace("(", " ").split()}
    assert "_OPENMP" not in text
    words = ["nm", "-u", "made.so"]
    undefined = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    names = {line.split()[-1].split("@")[0] for line in undefined.stdout.splitlines()}
    assert {name for name in names if not name.startswith(("_", "w"))} <= {"memcpy", "memset"}


THREADED = """
#include "made.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SANITIZE_THREAD__    /* which does not see threads of C11 begin */
#include <pthread.h>
typedef pthread_t thrd_t;
#define thrd_create(thread, function, argument) pthread_create(thread, NULL, function, argument)
#define thrd_join pthread_join
#define RESULT(value) NULL
typedef void *result;
#else
#include <threads.h>
#define RESULT(value) value
typedef int result;
#endif

enum { INPUT = %d, WEIGHT = %d, OUTPUT = %d, PARTS = 7, THREADS = 3 };
static float input[INPUT], weight[WEIGHT], output[OUTPUT], whole[OUTPUT];
static float *packed;
static char *workspace;
static atomic_int next;

static result take(void *unused)    /* each thread the next part that nobody has taken */
{
    (void)unused;
    for (int part; (part = atomic_fetch_add(&next, 1)) < PARTS;)
        made_run_part(input, packed, NULL, output, workspace, part, PARTS);
    return RESULT(0);
}

int main(void)
{
    for (int i = 0; i < INPUT; i++) input[i] = (float)(i %% 13 - 6);
    for (int i = 0; i < WEIGHT; i++) weight[i] = (float)(i %% 7 - 3);
    packed = aligned_alloc(64, made_packed_bytes());
    workspace = aligned_alloc(64, made_workspace_bytes(PARTS));
    made_pack(weight, packed);
    made_run_part(input, packed, NULL, whole, workspace, 0, 1);
    memset(output, 0xff, sizeof output);
    thrd_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) thrd_create(threads + i, take, NULL);
    for (int i = 0; i < THREADS; i++) thrd_join(threads[i], NULL);
    const int same = !memcmp(output, whole, sizeof whole);
    puts(same ? "the same" : "OTHERS");
    free(packed), free(workspace);
    return !same;
}
"""


@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
@pytest.mark.parametrize("name", ["tiles", "shared filters", "depthwise"])
def test_threads_of_c11_under_sanitizers(name, sanitizer, tmp_path):
    write, shape, weight, options = LAYERS[name]
    files = write(shape, weight, name="made", threads="caller", **options)
    (head,) = (line for line in files["made.h"].splitlines() if line.startswith(" * output "))
    output = np.prod([int(size) for size in head.split()[2:][::2]])
    main = THREADED % (np.prod(shape), np.prod(weight), output)
    for file, text in {**files, "main.c": main}.items():
        (tmp_path / file).write_text(text)
    words = [*find_compiler().command, *host_target().flags, "-std=c11", "-g", "-O1"]
    words += [f"-fsanitize={sanitizer}", "made.c", "main.c", "-o", "made"]
    subprocess.run(words, cwd=tmp_path, check=True)
    done = subprocess.run(["./made"], cwd=tmp_path, capture_output=True, text=True)
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("this kernel's addresses are not what ThreadSanitizer knows")
    assert done.returncode == 0 and done.stdout == "the same\n", done.stdout + done.stderr


def drawn(draw):
    """A layer of random sizes and options."""
    groups = int(draw.choice([1, 1, 2]))
    channels, filters = (groups * int(draw.integers(1, 40)) for _ in range(2))
    kernel = [int(draw.integers(1, 6)) for _ in range(2)]
    size = [k + int(draw.integers(0, 20)) for k in kernel]
    options = {
        "padding": int(draw.integers(0, 2)),
        "stride": int(draw.choice([1, 1, 2])),
        "groups": groups,
        "layout": str(draw.choice(["NCHW", "NHWC"])),
        "activation": draw.choice([None, "relu"]),
    }
    batch = int(draw.integers(1, 3))
    shape = (channels, *size) if options["layout"] == "NCHW" else (*size, channels)
    return standalone, (batch, *shape), (filters, channels // groups, *kernel), options


@pytest.mark.thorough
@pytest.mark.parametrize("some", range(20))
@pytest.mark.draws
def test_random_layers_in_random_parts(some, tmp_path, seed):
    """A hundred arrangements of parts in all for a layer; twenty layers here."""
    draw = np.random.default_rng([seed, some])
    write, shape, weight, options = drawn(draw)
    layer = Layer(tmp_path, draw, write, shape, weight, options)
    whole = layer.run(1, [0])
    with ThreadPoolExecutor(3) as pool:
        for turn in range(100):
            parts = int(draw.integers(1, 8))
            order = draw.permutation(parts).tolist()
            assert layer.run(parts, order, pool.map if turn % 2 else map) == whole


@pytest.mark.parametrize("threads", ["callers", "caller:", "caller:x", "caller:0", "caller:-1"])
def test_wrong_threads_are_named(threads):
    with pytest.raises((InvalidType, InvalidValue), match="^threads: got '?"):
        partial(standalone, (1, 8, 9, 9), (8, 8, 3, 3), threads=threads)()
