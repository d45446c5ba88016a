"""The C of every variant as it is: a change of a template or its data shows as a diff, to be read.

``python -m pytest tests/kernels/test_golden.py --update-golden`` rewrites the files; look at them
with ``git diff tests/golden`` before they are committed.
"""

import difflib
import re
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import pytest
from kernels.samples import LAYOUTS, borders, reaching
from kernels.turns import turns

from winogen import kernels
from winogen.codegen import transforms
from winogen.codegen.render import render
from winogen.kernels import gemm, weight_gradient
from winogen.kernels.dots import DOTS
from winogen.kernels.quantized import ALGORITHMS, QuantizedSpec
from winogen.kernels.spec import KernelSpec
from winogen.records import EXTENSIONS, TARGETS, Precision

FOLDER = Path(__file__).parents[1] / "golden" / "kernels"
# One with masks, broadcasts and stores past the caches, and one without.
SHOWN = ("avx512", "neon")
HEADERS = re.compile(
    r"(#define WINOGEN_REAL real\n).*?(/\* Outputs, inputs and products)", re.DOTALL
)
LEFT_OUT = r"\1\n/* Here are headers of transforms/, left out. */\n\n\2"


def able(variant, name):
    """A target, with arithmetic in float16 for variants that need it, if some CPUs have both."""
    target = TARGETS[name]
    if variant.runs_on(target) or name not in EXTENSIONS["fp16"].targets:
        return target
    return target.adjusted("+fp16")


def golden(variant, layout, target, filters=None):
    """The C of one kernel with F(4, 3), but for the transforms: they are shipped as files.

    Nothing if a variant has no kernels of this kind. ``filters``: what its filters are packed in,
    if not float32.
    """
    works = next(iter(reaching(variant, layout, "float32", able(variant, target)).values()), None)
    if works is None:
        return ""
    spec = KernelSpec.of(
        replace(works[0], precision=Precision.of("float32", filters)) if filters else works[0]
    )
    if spec.transform_w:
        height, width = (
            transforms.load(4, 3) if along else transforms.load(1, 1) for along in variant.along
        )
        spec = replace(spec, transform_h=height, transform_w=width)
    return HEADERS.sub(LEFT_OUT, render(spec))


def product_of(target, dtype="float32", columns=64):
    """The C of a product of matrices."""
    tuning = gemm.tuning(TARGETS[target], columns, dtype)
    return render(gemm.GemmSpec(Precision.of(dtype), TARGETS[target], tuning))


NAMES = {
    f"{variant.name}_{layout.lower()}_{target}": partial(golden, variant, layout, target)
    for variant in kernels.variants().values()
    for layout in LAYOUTS
    for target in SHOWN
} | {f"gemm_{target}": partial(product_of, target) for target in SHOWN}
# One with scales, and one whose loads read beyond their numbers.
NAMES |= {
    f"{name}_{layout.lower()}_{target}_{filters}": partial(
        golden, kernels.named(name), layout, target, filters
    )
    for name, layout, target, filters in (
        ("mcmr", "NHWC", "avx512", "float16"),
        ("direct", "NCHW", "neon", "flyte24"),
    )
}


def difference(old, new):
    """The first lines that differ."""
    lines = list(
        difflib.unified_diff(old.splitlines(), new.splitlines(), "golden", "now", "", "", 2)
    )
    rest = len(lines) - 40
    return "\n".join(
        [line.rstrip() for line in lines[:40]] + [f"... {rest} lines more"] * (rest > 0)
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_c_is_as_it_was(name, request):
    path, text = FOLDER / f"{name}.c", NAMES[name]()
    if request.config.getoption("--update-golden"):
        FOLDER.mkdir(parents=True, exist_ok=True)
        path.write_text(text) if text else path.unlink(missing_ok=True)
    old = path.read_text() if path.is_file() else ""
    command = "python -m pytest tests/kernels/test_golden.py --update-golden"
    assert text == old, f"{path.name} is now another; if that is meant:\n{command}\n" + difference(
        old, text
    )


def test_no_golden_file_is_left_over(request):
    over = [path for path in FOLDER.glob("*") if path.stem not in NAMES]
    if request.config.getoption("--update-golden"):
        for path in over:
            path.unlink()
    else:
        assert not over


@pytest.mark.parametrize("name, target", turns(kernels.variants(), TARGETS))
def test_the_c_is_neat(name, target):
    """Whoever opens a kernel finds it laid out as if by hand."""
    variant = kernels.named(name)
    dtype = ("float32", "float64")[list(TARGETS).index(target) % 2]
    for layout in LAYOUTS:
        for border in borders(variant):
            specs = list(reaching(variant, layout, dtype, able(variant, target), border))
            specs += [spec.profiled() for spec in specs[:1]]
            for spec in specs:
                assert flaws(render(spec)) == []


@pytest.mark.parametrize("target", TARGETS)
def test_the_c_of_a_product_is_neat(target):
    for dtype, columns in (("float32", 64), ("float64", 512)):
        assert flaws(product_of(target, dtype, columns)) == []


@pytest.mark.parametrize("target", TARGETS)
def test_the_c_of_gradients_and_of_bytes_is_neat(target):
    wanted = TARGETS[target]
    precision, tuning = Precision.of("float32"), weight_gradient.tuning(wanted)
    tile = transforms.load(4, 3)
    for layout in LAYOUTS:
        spec = weight_gradient.GradientSpec(layout, precision, wanted, tuning, tile, tile)
        assert flaws(render(spec)) == []
        for algorithm, sums in product((*ALGORITHMS, "depthwise"), (True, False)):
            for dot in (dot for dot in DOTS if dot.target == target):
                able = replace(wanted, extensions=frozenset(dot.extensions))
                assert flaws(render(QuantizedSpec.of(algorithm, layout, sums, able))) == []


def flaws(text):
    """What is wrong with the layout of a text: (line, what)."""
    lines = text.split("\n")
    found = [
        (number, what)
        for number, line in enumerate(lines, 1)
        for what, wrong in (
            ("more than 100 columns", len(line) > 100),
            ("blanks at the end", line != line.rstrip()),
            ("a tab", "\t" in line),
            ("two blank lines", not line and not lines[number - 2] and number < len(lines)),
        )
        if wrong
    ]
    if not lines[0].startswith("/* Generated by"):
        found.append((1, "no word of where it comes from"))
    if lines[-1] or not lines[-2]:
        found.append((len(lines), "no newline at the end, or more than one"))
    return [(number, what, lines[number - 1]) for number, what in found]


def test_flaws_are_seen():
    text = "/* Generated by\na \n\n\n\tb\n" + "c" * 101 + "\n"
    assert [(n, w) for n, w, _ in flaws(text)] == [
        (2, "blanks at the end"),
        (4, "two blank lines"),
        (5, "a tab"),
        (6, "more than 100 columns"),
    ]
    assert flaws("/* Generated by */") and flaws("/* Generated by */\n\n") and flaws("int x;\n")
    assert flaws("/* Generated by */\n") == []
