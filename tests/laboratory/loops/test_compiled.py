"""Nests as C: a sample of them, compiled together, equals integer arithmetic to the bit."""

import re
import subprocess
from dataclasses import replace
from itertools import product
from random import Random

import numpy as np
import pytest
from cffi import FFI
from codegen.sanitized_convolution import check
from laboratory.loops.samples import LAYERS, PADDED, data, draw, problem, target_of

from winogen.codegen.render import cdef, render
from winogen.conv import Layer
from winogen.conv.choice import Choice
from winogen.conv.cuts import work_of
from winogen.kernels import assign
from winogen.kernels.spec import KernelSpec
from winogen.records import Precision
from winogen.toolchain import find_compiler
from winogen_lab.loops.parameters import STRATEGIES

LAYOUTS = ("NCHW", "NHWC")


def drawn(rng, strategy, layout, layer, blocked=0.3, arrays="float32", filters=None, **options):
    """The call of a layer by a nest drawn at random."""
    target, precision = target_of(strategy), Precision.of(arrays, filters)
    types = {"arrays": arrays if precision.narrow else "", "weights": filters or ""}
    nest = draw(rng, problem(layout, layer, **types), strategy, target, blocked)
    top, bottom, left, right = layer.get("padding", (0, 0, 0, 0))
    known = {name: layer[name] for name in ("stride", "dilation", "groups", "padding_mode")
             if name in layer}  # fmt: skip
    shape = (layer["filters"], layer["channels"] // layer.get("groups", 1), *layer["kernel"])
    of = Layer.of(shape, arrays, padding=((top, bottom), (left, right)), layout=layout,
                  **known, **options)  # fmt: skip
    x = data(layout, layer)[0]
    # Pixels in rows stay that: the nest is one for rows and columns.
    work = work_of(
        of.problem(x.shape), Choice("loops", parameters=nest, precision=precision), target
    )
    if work.size != tuple(layer["size"]):
        (part,) = [(0, layer["size"][0], 0, layer["size"][1])]
        work = replace(work, size=layer["size"], output_size=layer["size"], part=part,
                       input=problem(layout, layer).input,
                       output=problem(layout, layer).output)  # fmt: skip
    return assign(work)


def sample(seed, times):
    """Calls by all micro-kernels; layers and layouts in turn."""
    rng = Random(seed)
    for turn, strategy in product(range(times), STRATEGIES):
        index = turn * len(STRATEGIES) + list(STRATEGIES).index(strategy) + turn
        layer = LAYERS[(index + turn) % len(LAYERS)]
        layout = LAYOUTS[(index + turn // 2) % 2]
        yield layer, layout, drawn(rng, strategy, layout, layer, 0.2 + 0.1 * (turn % 4))


def run_all(folder, calls, flags):
    """Compile one file for each call into one library, and compare what they compute."""
    ffi, names = FFI(), []
    for index, (_, _, work) in enumerate(calls):
        prefix = f"nest{index}"
        spec = KernelSpec.of(work)
        (folder / f"{prefix}.c").write_text(render(spec, prefix))
        text = cdef(spec, prefix)
        ffi.cdef(text if not names else text[text.index("typedef struct {\n    const") :])
        names.append(f"{prefix}.c")
    words = [*find_compiler().command, "-std=gnu11", "-Wno-psabi", *flags, "-fPIC", "-shared",
             *names, "-o", "nests.so"]  # fmt: skip
    built = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr[:4000]
    library = ffi.dlopen(str(folder / "nests.so"))
    for index, (layer, layout, work) in enumerate(calls):
        got = results(ffi, library, f"nest{index}", work, *data(layout, layer))
        assert np.array_equal(got, data(layout, layer)[3]), (work.parameters, layer, layout)


def results(ffi, library, prefix, work, x, w, bias, y):
    """What a compiled nest computes, in memory filled with NaN."""
    struct = ffi.new("winogen_conv *", KernelSpec.of(work).values(work))

    def numbers(array):
        return ffi.from_buffer("float[]", array)

    def filled(size):
        room = np.full(size // 4 + 32, np.nan, np.float32)
        skip = -room.ctypes.data % 64 // 4
        return room[skip : skip + size // 4]

    packed = filled(int(struct.packed_bytes))
    workspace = filled(int(struct.thread_bytes + struct.shared_bytes))
    out = np.full(y.shape, np.nan, np.float32)
    arrays = [np.ascontiguousarray(one, np.float32) for one in (x, w, bias)]
    getattr(library, f"{prefix}_pack")(struct, numbers(arrays[1]), numbers(packed), 1)
    call = ffi.new(f"{prefix}_call *", {
        "p": struct, "input": numbers(arrays[0]), "packed": numbers(packed),
        "bias": numbers(arrays[2]), "output": numbers(out),
        "workspace": ffi.cast("void *", workspace.ctypes.data),
    })  # fmt: skip
    getattr(library, f"{prefix}_run")(call, 1)
    return out


@pytest.mark.thorough
def test_sampled_nests_are_exact(tmp_path):
    run_all(tmp_path, list(sample("some", 1)), ("-O0",))


@pytest.mark.thorough
def test_many_sampled_nests_are_exact(tmp_path):
    calls = list(sample("many", 8))
    assert len(calls) >= 100
    run_all(tmp_path, calls, ("-Og",))  # twice as quick to compile as -O1


@pytest.mark.parametrize("strategy", ("filters-m", "outer-yxc-permuted"))
def test_no_nest_leaves_its_arrays_or_the_language(strategy, tmp_path):
    """With an epilogue and arrays of just the right size, under AddressSanitizer and UBSan."""
    at = list(STRATEGIES).index(strategy)
    layer, layout = LAYERS[at % len(LAYERS)], LAYOUTS[at % 2]
    check(tmp_path, [drawn(Random(strategy), strategy, layout, layer, activation="relu")])


@pytest.mark.thorough
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_many_nests_leave_nothing(strategy, tmp_path):
    """The layouts take turns, and each strategy has every other layer."""
    rng, at = Random(f"sanitized {strategy}"), list(STRATEGIES).index(strategy)
    for index, layer in enumerate(LAYERS):
        if (at + index) % 4 > 1:
            continue
        layout = LAYOUTS[(at + index) % 2]
        work = drawn(rng, strategy, layout, layer, activation=("leaky_relu", 0.25))
        (folder := tmp_path / str(index)).mkdir()
        check(folder, [work])


def test_parameters_stand_in_the_c():
    """Whoever finds a kernel can make it again."""
    work = drawn(Random(1), "filters-c", "NHWC", PADDED)
    text = render(KernelSpec.of(work))
    about = text[text.index("* Parameters of the nest:") : text.index("enum {\n    CHANNELS")]
    lines = re.findall(r"^ \* (.*)$", about, re.M)
    assert "".join(lines).replace(" ", "") == work.parameters.text
