"""The C itself: no warnings anywhere, and no access or arithmetic that C leaves undefined.

Kernels are linked with a plain C program (`sanitized.c`) that runs them on a spread of layers
within allocations of just the right size, and compares with loops over single numbers. What a
kernel is told of a layer is made by the code that makes it for users.
"""

import os
import subprocess
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from kernels.samples import (
    BLOCKS,
    LAYOUTS,
    TILES,
    borders,
    computes,
    cuts,
    named,
    products_of,
    reaching,
)

from winogen import kernels
from winogen.codegen.render import cdef, render
from winogen.kernels.spec import KernelSpec
from winogen.records import ACTIVATIONS, TARGETS, Precision
from winogen.toolchain import find_compiler, host_targets

DRIVER = Path(__file__).with_name("sanitized.c")
VARIANTS = kernels.variants()
# What a compiler for this machine can be asked to emit.
EMITTABLE = [
    target
    for target in TARGETS.values()
    if (target.name == "neon") <= any(host.name == "neon" for host in host_targets())
    and (target.name in ("neon", "generic") or any(host.name == "sse2" for host in host_targets()))
]
WARNINGS = ("-Wall", "-Wextra", "-Werror")
# clang may come without the runtime; then pragmas mean nothing.
OPENMP = ("-fopenmp",) if find_compiler().openmp else ("-Wno-unknown-pragmas",)


def compile_c(folder, *words):
    """Run the compiler without a word from it."""
    run = subprocess.run(
        [*find_compiler().command, "-std=gnu11", *words], cwd=folder, capture_output=True, text=True
    )
    assert run.returncode == 0 and not run.stderr, run.stderr[:4000]


def small(tuning):
    """A small register block: quick to compile, and more panels and rests in small layers.

    Outputs are large from 1 kB on, so that they go past the caches.
    """
    return replace(tuning, rows=min(tuning.rows, 4), non_temporal=1 << 10)


def kinds(variant, dtype, target, layouts=LAYOUTS):
    """One kernel of a variant for each of its layouts and borders."""
    specs = {}
    for layout in layouts:
        for border in borders(variant):
            for spec in islice(reaching(variant, layout, dtype, target, border), 1):
                specs[layout, border] = spec
    return specs


# All that code can be written for.
WARNED = [
    pytest.param(dtype, target, id=f"{dtype}-{target.name}")
    for dtype in ("float32", "float64")
    for target in EMITTABLE
]


@pytest.mark.thorough  # the sanitizers below warn, too, of a third of the variants every time
@pytest.mark.parametrize("dtype, target", WARNED)
def test_no_kernel_makes_a_warning(dtype, target, tmp_path):
    names = []
    for variant in VARIANTS.values():
        if not computes(variant, dtype, target):
            continue
        specs = kinds(variant, dtype, target)
        assert specs, f"no layer of tests/kernels/samples.py reaches {variant.name}"
        for (layout, border), spec in specs.items():
            if border != "unswitch" and dtype == "float64":
                continue  # the text differs in the types only
            names.append(f"{variant.name}_{layout}_{border}.c")
            (tmp_path / names[-1]).write_text(render(spec))
    compile_c(tmp_path, *WARNINGS, *OPENMP, "-fsyntax-only", *target.flags, *names)


@pytest.mark.thorough
@pytest.mark.parametrize("name", VARIANTS)
def test_no_warning_when_optimised_and_without_openmp(name, tmp_path):
    """Some warnings come only after data-flow analysis; without OpenMP other things are unused."""
    specs = kinds(VARIANTS[name], "float32", host_targets()[0])
    if not specs and not VARIANTS[name].runs_on(host_targets()[0]):
        pytest.skip(f"this CPU or its compiler has no instructions for {name}")
    # Every border once, the layouts in turn.
    kept = {border: spec for (_, border), spec in specs.items()}
    kept |= {border: spec for (layout, border), spec in specs.items()
             if (layout == "NCHW") == (border != "buffer")}  # fmt: skip
    for border, spec in kept.items():
        (tmp_path / f"{border}.c").write_text(render(replace(spec, tuning=small(spec.tuning))))
    words = (*WARNINGS, "-Wno-unknown-pragmas", "-O2", "-fPIC", "-c")
    flags = next(iter(kept.values())).target.flags  # with those of extensions that the kernel uses
    compile_c(tmp_path, *words, *flags, *(f"{border}.c" for border in kept))


# ---- what runs under the sanitizers --------------------------------------------------------------

# About as many calls of one kernel; they are taken from all over the spread.
MOST = 40
# Bits of the fraction, of arrays that hold narrower numbers than are computed with.
FRACTIONS = {"float16": 10, "bfloat16": 7}
# Vectors that this machine has, by how many numbers they hold: types of numbers and targets.
VECTORS = {}
for target in host_targets():
    for dtype in ("float32", "float64"):
        VECTORS.setdefault(target.lanes(dtype), []).append((dtype, target))


def calls_of(variant, layouts, kind, border, turn):
    """Calls of one kernel in the first of the layouts that it has; ``turn`` chooses the kernel."""
    for layout in layouts:
        found = reaching(variant, layout, *kind, border, TILES[turn // 2 % len(TILES)])
        if found:
            break
    else:
        pytest.fail(f"no layer of tests/kernels/samples.py reaches {variant.name}")
    works = list(found.values())[turn % len(found)]
    cut = [one for work in works for one in cuts(replace(work, tuning=small(work.tuning)))]
    step = len(cut) // MOST
    step += step % len(BLOCKS) == 0  # else all would be cut alike
    return cut[::step]


def initialiser(value):
    """How C spells the value of a field.

    >>> initialiser({"parts": 2, "input": (4, 1)})
    '{ .parts = 2, .input = { 4, 1 } }'
    """
    if isinstance(value, dict):
        fields = (f".{name} = {initialiser(item)}" for name, item in value.items())
        return "{ " + ", ".join(fields) + " }"
    return (
        "{ " + ", ".join(map(initialiser, value)) + " }"
        if isinstance(value, tuple)
        else repr(value)
    )


def apart(struct, work):
    """Move the buffers of a call apart; return what is between them: (offset, step, bytes)."""
    gaps, own, shared = [], 0, 0
    buffers = named(work).all_buffers(work)
    for name in sorted(buffers, key=lambda name: not buffers[name].shared):  # the shared ones first
        size, step = int(buffers[name].bytes), -(-int(buffers[name].bytes) // 64) * 64 + 64
        used = size + -size % 8  # of which the sanitizer can tell
        gaps.append((shared + own + used, not buffers[name].shared, step - used))
        struct[name] = (shared + own, not buffers[name].shared)
        if buffers[name].shared:
            shared += step
        else:
            own += step
    for name in buffers:
        struct[name] = (struct[name][0], own * struct[name][1])
    struct |= {"thread_bytes": own, "shared_bytes": shared}
    return [(offset, own * step, size) for offset, step, size in gaps]


def layers_h(works):
    """The declarations of the kernel, and its layers."""
    spec = KernelSpec.of(works[0])
    structs, sizes, gaps = [], [], []
    for index, work in enumerate(works):
        structs.append(spec.values(work, flush_denormals=index % 2 == 1))
        gaps.append(apart(structs[-1], work))
        # What the user sees: a kernel may take all groups of a depthwise layer as one.
        seen = spec.entry.view(replace(work, groups=7, channels=1, filters=1))
        one = seen.groups == 1
        multiplier = work.filters // work.channels
        counts = (work.channels, 1, multiplier) if one else (
            work.groups, work.channels, work.filters)  # fmt: skip
        flags = (index % 3 > 0, index % 4 > 0, index % 5 == 2)
        sizes.append((*counts, work.threads, *map(int, flags)))
    lines = [
        f"typedef {spec.precision.real.c} real;",
        # Of sums of some hundred products of small integers; rounded tiles are further off.
        f"#define TOLERANCE {0.25 if spec.precision.products == 'int16' else 0.02}",
        f"#define FRACTION {FRACTIONS.get(spec.precision.arrays, 0)}",
        cdef(spec),
        "enum {",
        *(f"    {name.upper()} = {one.code}," for name, one in ACTIVATIONS.items()),
        "};",
        "static const winogen_conv layers[] = {",
        *(f"    {initialiser(struct)}," for struct in structs),
        "};",
        "static const layer_sizes sizes[] = {",
        *(f"    {initialiser(one)}," for one in sizes),
        "};",
        f"enum {{ BUFFERS = {len(gaps[0])} }};",
        "static const gap gaps[][BUFFERS + 1] = {",
        *(f"    {initialiser((*one, (0, 0, 0)))}," for one in gaps),
        "};",
    ]
    return "\n".join([*lines, ""])


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """Skips where the compiler has no AddressSanitizer or UBSan."""
    folder = tmp_path_factory.mktemp("probe")
    (folder / "probe.c").write_text("int main(void) { return 0; }\n")
    words = (*find_compiler().command, "-fsanitize=address,undefined", "probe.c", "-o", "probe")
    built = subprocess.run(words, cwd=folder, capture_output=True).returncode == 0
    if not built or subprocess.run(["./probe"], cwd=folder, capture_output=True).returncode:
        pytest.skip("this compiler has no AddressSanitizer or UBSan")
    return DRIVER.read_text()


def check(folder, driver, works):
    """Compile the kernel of the layers with the driver, and run it."""
    spec = KernelSpec.of(works[0])
    (folder / "kernel.c").write_text(render(spec))
    (folder / "driver.c").write_text(driver)
    (folder / "layers.h").write_text(layers_h(works))
    sanitizers = (*OPENMP, "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    flags = spec.target.flags
    compile_c(folder, "-O0", "-g1", *sanitizers, *WARNINGS, *flags, "-c", "kernel.c")
    compile_c(folder, "-O1", *WARNINGS, "-c", "driver.c")
    compile_c(folder, *sanitizers, "kernel.o", "driver.o", "-o", "driver", "-lm")
    environment = {
        **os.environ,
        # The OpenMP runtime keeps what it allocates for its threads, which is no leak of ours.
        "ASAN_OPTIONS": "detect_leaks=0",
        "OMP_WAIT_POLICY": "passive",
    }
    run = subprocess.run(
        ["./driver"], cwd=folder, capture_output=True, text=True, env=environment, timeout=300
    )
    assert run.returncode == 0, f"{spec}\n{run.stdout[-2000:]}{run.stderr[-4000:]}"
    assert f"{len(works)} layers are right" in run.stdout


@pytest.mark.parametrize(
    "name, lanes",
    [
        pytest.param(
            name,
            n,
            marks=() if n == max(VECTORS) and index % 3 == 0 else pytest.mark.thorough,
        )
        for n in VECTORS
        for index, name in enumerate(VARIANTS)
    ],
)
def test_no_kernel_leaves_its_arrays_or_the_language(name, lanes, driver, tmp_path):
    """Every variant with vectors of every length; layouts, targets and tiles take turns."""
    index, turn = list(VARIANTS).index(name), list(VECTORS).index(lanes)
    kinds = [kind for kind in VECTORS[lanes] if computes(VARIANTS[name], *kind)]
    if not kinds:
        pytest.skip(f"{name} has no vectors of {lanes} numbers")
    kind = kinds[index % len(kinds)]
    layouts = LAYOUTS[:: (-1) ** (index + turn)]
    works = calls_of(VARIANTS[name], layouts, kind, "unswitch", turn)
    assert len(works) >= (1 if VARIANTS[name].one_layer else 10)
    check(tmp_path, driver, works)


# Both hold the weights of these layers, which are small integers; flyte24 their transforms, nearly.
NARROW_FILTERS = [
    pytest.param(
        name,
        dtype,
        id=f"{name}-{dtype}",
        marks=() if (name, dtype) == ("mcmr", "flyte24") else pytest.mark.thorough,
    )
    for dtype, names in (("float16", ("direct", "im2col")), ("flyte24", VARIANTS))
    for name in names
    if VARIANTS[name].computes(Precision.of("float32", dtype))
]


@pytest.mark.parametrize("name, dtype", NARROW_FILTERS)
def test_narrow_filters_are_not_left(name, dtype, driver, tmp_path):
    """Three bytes are read with what is behind them, which must belong to the packed filters."""
    # Plain C reads beyond three bytes, other targets need not.
    turn = list(VARIANTS).index(name) + len(dtype)
    targets = host_targets()[::-1] if name == "direct" else host_targets()
    layouts, target = LAYOUTS[:: (-1) ** turn], targets[0]
    works = calls_of(VARIANTS[name], layouts, ("float32", target), "unswitch", turn)
    precision = Precision.of("float32", dtype)
    works = [replace(work, precision=precision) for work in works[::2]]
    spec = KernelSpec.of(works[0])
    check(tmp_path, driver, [work for work in works if KernelSpec.of(work) == spec])


NARROW_ARRAYS = [
    name
    for name, v in VARIANTS.items()
    if v.computes(Precision.of("float16", products=products_of(v, "float16")))
]


QUICK = ("mcmr",)
# Every variant with the longest vectors of float32, and some with the shortest.
LENGTHS = [n for n, kinds in VECTORS.items() if any(dtype == "float32" for dtype, _ in kinds)]


@pytest.mark.parametrize(
    "name, lanes",
    [
        pytest.param(
            name,
            lanes,
            marks=() if name in QUICK and lanes == max(LENGTHS) else pytest.mark.thorough,
        )
        for name in NARROW_ARRAYS
        for lanes in ((max(LENGTHS), min(LENGTHS)) if name in QUICK else (max(LENGTHS),))
    ],
)
def test_no_kernel_leaves_its_narrow_arrays(name, lanes, driver, tmp_path):
    """Arrays of 16-bit numbers: both formats, layouts and targets take turns."""
    index, turn = NARROW_ARRAYS.index(name), list(VECTORS).index(lanes)
    targets = [target for dtype, target in VECTORS[lanes] if dtype == "float32"]
    dtype = list(FRACTIONS)[(index // 2 + turn) % 2]
    layouts = LAYOUTS[:: (-1) ** (index + turn)]
    targets = [target for target in targets if VARIANTS[name].runs_on(target)]
    if not targets:
        pytest.skip(f"this CPU or its compiler has no instructions for {name}")
    kind = dtype, targets[index % len(targets)]
    works = calls_of(VARIANTS[name], layouts, kind, "unswitch", turn)
    assert len(works) >= 10
    check(tmp_path, driver, works)


@pytest.mark.parametrize(
    "name, border",
    [
        pytest.param(name, b, marks=() if name == "mcmr" else pytest.mark.thorough)
        for name, v in VARIANTS.items()
        for b in borders(v)[1:]
    ],
)
def test_no_border_leaves_its_arrays_or_the_language(name, border, driver, tmp_path):
    index = list(VARIANTS).index(name) + (border == "buffer")
    kinds = [
        kind for same in VECTORS.values() for kind in same[:1] if computes(VARIANTS[name], *kind)
    ]
    kind = kinds[index % len(kinds)]
    check(
        tmp_path, driver, calls_of(VARIANTS[name], LAYOUTS[:: (-1) ** index], kind, border, index)
    )
