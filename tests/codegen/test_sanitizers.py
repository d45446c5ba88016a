"""The C itself: no warnings anywhere, and no access or arithmetic that C leaves undefined.

Kernels are linked with a plain C program (`sanitized.c`) that runs them on a spread of layers
within allocations of just the right size, and compares with loops over single numbers. What a
kernel is told of a layer is made by the code that makes it for users.
"""

from dataclasses import replace
from itertools import islice, product

import pytest
from codegen import sanitized
from codegen.sanitized import EMITTABLE, VECTORS, WARNINGS, compile_c, no_warning
from codegen.sanitized_convolution import FRACTIONS, check
from kernels.samples import (
    BLOCKS,
    KERNEL,
    LAYOUTS,
    MODES,
    TILES,
    borders,
    computes,
    cuts,
    of_phases,
    products_of,
    reaching,
    work_for,
)

from winogen import kernels
from winogen.codegen.joining import joined
from winogen.codegen.render import render
from winogen.codegen.transforms import load
from winogen.kernels.spec import KernelSpec
from winogen.records import TARGETS, Precision
from winogen.toolchain import host_targets

VARIANTS = kernels.variants()


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
    texts = {}
    for variant in VARIANTS.values():
        if not computes(variant, dtype, target):
            continue
        specs = kinds(variant, dtype, target)
        assert specs, f"no layer of tests/kernels/samples.py reaches {variant.name}"
        for (layout, border), spec in specs.items():
            if border != "unswitch" and dtype == "float64":
                continue  # the text differs in the types only
            texts[f"{variant.name}_{layout}_{border}.c"] = render(spec)
    no_warning(tmp_path, texts, target)


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
    words = (*WARNINGS, "-O2", "-fPIC", "-c")
    flags = next(iter(kept.values())).target.flags  # with those of extensions that the kernel uses
    compile_c(tmp_path, *words, *flags, *(f"{border}.c" for border in kept))


def test_phases_make_no_warning(tmp_path):
    target, texts = host_targets()[0], {}
    for layout, numbers in product(LAYOUTS, (("float32", "float16"), ("float16", None))):
        for work in of_phases(layout, target, *numbers):
            spec = KernelSpec.of(work)
            texts[f"{work.variant}_{layout}_{numbers[0]}.c"] = render(
                replace(spec, tuning=small(spec.tuning))
            )
    no_warning(tmp_path, texts, spec.target)


# ---- what runs under the sanitizers --------------------------------------------------------------

# About as many calls of one kernel; they are taken from all over the spread.
MOST = 40


def works_of(variant, layouts, kind, border, turn):
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
    works = cut[::step]
    assert len(works) >= (1 if variant.one_layer else 10)
    return works


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
def test_no_kernel_leaves_its_arrays_or_the_language(name, lanes, tmp_path):
    """Every variant with vectors of every length; layouts, targets and tiles take turns."""
    index, turn = list(VARIANTS).index(name), list(VECTORS).index(lanes)
    kinds = [kind for kind in VECTORS[lanes] if computes(VARIANTS[name], *kind)]
    if not kinds:
        pytest.skip(f"{name} has no vectors of {lanes} numbers")
    kind = kinds[index % len(kinds)]
    layouts = LAYOUTS[:: (-1) ** (index + turn)]
    works = works_of(VARIANTS[name], layouts, kind, "unswitch", turn)
    check(tmp_path, works)


# Multiply-adds by lane in portable C: what NEON's kernels read, where sanitizers run.
BY_LANE = replace(TARGETS["generic"], by_lane=True)
EVERYWHERE = "direct", "im2col"  # whose rows lie in lanes in NCHW, too


@pytest.mark.parametrize(
    "name, layout",
    [
        pytest.param(name, layout, marks=() if name in ("direct", "mcmr") else pytest.mark.thorough)
        for name in (*EVERYWHERE, "few_channels", "pointwise", "winograd1d", "winograd2d", "mcmr")
        for layout in LAYOUTS
        if name in EVERYWHERE or layout == "NHWC"
    ],
)
def test_numbers_by_lane_leave_nothing(name, layout, tmp_path):
    works = works_of(VARIANTS[name], (layout,), ("float32", BY_LANE), "unswitch", 0)
    # More rows than lanes, and no multiple of them: of a panel the last vector overlaps another.
    check(tmp_path, [replace(work, tuning=replace(work.tuning, rows=6)) for work in works])


@pytest.mark.parametrize("layout, filters", [("NHWC", None), ("NCHW", "flyte24")])
def test_joined_products_leave_nothing(layout, filters, tmp_path):
    """Both axes have complex points, one along the height and two along the width."""
    sets = ((3, "x, x-1, x+1, x^2+1"), (4, "x-1, x^2+1, x^2+4"))
    along = (load(m, r, moduli=moduli) for (m, moduli), r in zip(sets, KERNEL))
    transforms, kind = joined(*along), ("float32", host_targets()[0])
    assert [t.rows - t.reals for t in transforms] == [2, 4]
    precision = Precision.of("float32", filters)
    works = works_of(VARIANTS["mcmr"], (layout,), kind, "unswitch", 0)
    check(
        tmp_path,
        [replace(work, transforms=transforms, precision=precision) for work in works[::2]],
    )


SPREAD = ({"stride": (2, 2)}, {"dilation": (2, 3)}, {"stride": (2, 1), "dilation": (1, 2)})
APART = [
    pytest.param(
        *(algorithm, layout, dtype, options),
        id=f"{algorithm}-{layout}-{dtype}-{'-'.join(options)}",
        marks=()
        if algorithm == "mcmr" and (layout == "NCHW") == ("dilation" in options)
        else pytest.mark.thorough,
    )
    for algorithm in ("mcmr", "winograd1d", "winograd2d")
    for layout in LAYOUTS
    for dtype in ("float32", "float16")
    for options in SPREAD
    if dtype == "float32" or "stride" not in options
]


@pytest.mark.parametrize("algorithm, layout, dtype, options", APART)
def test_tiles_of_strided_and_dilated_layers_leave_nothing(
    algorithm, layout, dtype, options, tmp_path
):
    tile, target, calls = (1 if algorithm == "winograd1d" else 3, 4), host_targets()[0], {}
    counts, areas = ((1, 9, 18), (2, 17, 20)), ((2, 9, 13), (1, 24, 20))
    for index, ((groups, channels, filters), area) in enumerate(product(counts, areas)):
        work = work_for(
            (groups * filters, channels, *KERNEL),
            area,
            algorithm,
            target,
            dtype=dtype,
            tile=tile,
            layout=layout,
            groups=groups,
            padding=((2, 3), (1, 4)),
            padding_mode=MODES[index],
            activation=("relu", ("leaky_relu", 0.25))[index % 2],
            slices=(3 * index, 5),
            added=(groups * filters, groups * filters + 7),
            threads=1 + index % 2,
            **options,
        )
        calls.setdefault(KernelSpec.of(work), []).append(work)
    works = max(calls.values(), key=len)
    check(tmp_path, [one for w in works for one in cuts(replace(w, tuning=small(w.tuning)))])


@pytest.mark.parametrize("name", ("mcmr", "direct"))  # with phases that follow each other, and not
def test_threads_do_not_race(name, tmp_path):
    works = works_of(VARIANTS[name], LAYOUTS, ("float32", host_targets()[0]), "unswitch", 0)
    check(tmp_path, [replace(work, threads=3) for work in works], sanitizers=sanitized.RACES)


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
def test_narrow_filters_are_not_left(name, dtype, tmp_path):
    """Three bytes are read with what is behind them, which must belong to the packed filters."""
    # Plain C reads beyond three bytes, other targets need not.
    turn = list(VARIANTS).index(name) + len(dtype)
    targets = host_targets()[::-1] if name == "direct" else host_targets()
    layouts, target = LAYOUTS[:: (-1) ** turn], targets[0]
    works = works_of(VARIANTS[name], layouts, ("float32", target), "unswitch", turn)
    precision = Precision.of("float32", dtype)
    works = [replace(work, precision=precision) for work in works[::2]]
    spec = KernelSpec.of(works[0])
    check(tmp_path, [work for work in works if KernelSpec.of(work) == spec])


@pytest.mark.parametrize("layout, last", [("NCHW", False), ("NHWC", True)])
def test_words_are_not_left(layout, last, tmp_path):
    """Words of two bfloat16: the last of a pixel or filter may have a single number."""
    target = host_targets()[-1 if last else 0]
    works = works_of(VARIANTS["direct"], (layout,), ("float32", target), "unswitch", 1)
    precision = Precision.of("float32", products="bfloat16")
    works = [replace(work, precision=precision) for work in works[::2]]
    spec = KernelSpec.of(works[0])
    check(tmp_path, [work for work in works if KernelSpec.of(work) == spec])


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
def test_no_kernel_leaves_its_narrow_arrays(name, lanes, tmp_path):
    """Arrays of 16-bit numbers: both formats, layouts and targets take turns."""
    index, turn = NARROW_ARRAYS.index(name), list(VECTORS).index(lanes)
    targets = [target for dtype, target in VECTORS[lanes] if dtype == "float32"]
    dtype = list(FRACTIONS)[(index // 2 + turn) % 2]
    layouts = LAYOUTS[:: (-1) ** (index + turn)]
    targets = [target for target in targets if VARIANTS[name].runs_on(target)]
    if not targets:
        pytest.skip(f"this CPU or its compiler has no instructions for {name}")
    kind = dtype, targets[index % len(targets)]
    works = works_of(VARIANTS[name], layouts, kind, "unswitch", turn)
    check(tmp_path, works)


# Of three, one and six bytes, rounded and cut.
FLYTES = ("flyte24", "flyte8_cut", "flyte48d")


@pytest.mark.thorough
@pytest.mark.draws
@pytest.mark.parametrize("name", [name for name in NARROW_ARRAYS if "16" not in name])
def test_no_kernel_leaves_its_flytes(name, tmp_path):
    index = NARROW_ARRAYS.index(name)
    wide = VARIANTS[name].computes(Precision.of("float64"))
    dtype = FLYTES[index % (3 if wide else 2)]
    works = works_of(VARIANTS[name], LAYOUTS, (dtype, host_targets()[0]), "unswitch", index)
    check(tmp_path, works)


@pytest.mark.parametrize(
    "name, border",
    [
        pytest.param(name, b, marks=() if name == "mcmr" else pytest.mark.thorough)
        for name, v in VARIANTS.items()
        for b in borders(v)[1:]
    ],
)
def test_no_border_leaves_its_arrays_or_the_language(name, border, tmp_path):
    index = list(VARIANTS).index(name) + (border == "buffer")
    kinds = [
        kind for same in VECTORS.values() for kind in same[:1] if computes(VARIANTS[name], *kind)
    ]
    if not kinds:
        pytest.skip(f"{name} has no instructions that sanitizers run with here")
    kind = kinds[index % len(kinds)]
    check(tmp_path, works_of(VARIANTS[name], LAYOUTS[:: (-1) ** index], kind, border, index))


@pytest.mark.parametrize("phases", (0, 1), ids=("all phases", "one phase"))
@pytest.mark.parametrize("layout", LAYOUTS)
def test_transposed_layers_leave_nothing(layout, phases, tmp_path):
    """Outputs of a phase lie apart, and what is between them is not touched."""
    work = of_phases(layout, host_targets()[0])[phases]
    assert work.spread is not None
    check(tmp_path, list(cuts(replace(work, tuning=small(work.tuning)))))
