"""Whoever opens generated C finds it laid out as if by hand.

A flaw in a line that many kernels have fails the first test that meets it, and no other.
"""

import re
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from kernels.samples import LAYOUTS, borders, of_phases, reaching
from kernels.test_golden import able, fourier_of, product_of, standalone_files, words_of
from kernels.turns import turns

from winogen import kernels
from winogen.codegen import transforms
from winogen.codegen.render import render
from winogen.conv.standalone import standalone
from winogen.kernels import weight_gradient
from winogen.kernels.dots import DOTS
from winogen.kernels.quantized import ALGORITHMS, QuantizedSpec, RealsSpec
from winogen.kernels.spec import KernelSpec
from winogen.records import TARGETS, Precision

pytestmark = pytest.mark.xdist_group("neat")  # one process, which knows what was told


@pytest.mark.parametrize("name, target", turns(kernels.variants(), TARGETS))
def test_the_c_is_neat(name, target):
    variant = kernels.named(name)
    dtype = ("float32", "float64")[list(TARGETS).index(target) % 2]
    for layout in LAYOUTS:
        for border in borders(variant):
            specs = list(reaching(variant, layout, dtype, able(variant, target), border))
            specs += [spec.profiled() for spec in specs[:1]]
            for spec in specs:
                assert news(render(spec)) == []


@pytest.mark.parametrize("target", TARGETS)
def test_the_c_of_phases_is_neat(target):
    for layout in LAYOUTS:
        for work in of_phases(layout, TARGETS[target]):
            assert news(render(KernelSpec.of(work))) == []


@pytest.mark.parametrize("isa", ["avx512+bf16", *TARGETS])
def test_the_c_of_words_is_neat(isa):
    for layout in LAYOUTS:
        assert news(words_of(kernels.named("direct"), layout, isa)) == []


@pytest.mark.parametrize("algorithm", ["winograd1d", "winograd2d", "mcmr"])
def test_every_transform_of_a_kernel_is_called(algorithm):
    variant = kernels.general(algorithm)
    for spec in reaching(variant, "NHWC", "float32", TARGETS["avx2"]):
        text = render(spec)
        defined = re.findall(r"^INLINE void (winogen_f\w+)\(", text, re.MULTILINE)
        assert defined and all(len(re.findall(rf"\b{name}\(", text)) > 1 for name in defined)
        assert len(set(defined)) == len(defined)


@pytest.mark.parametrize("target", TARGETS)
def test_the_c_of_a_product_is_neat(target):
    for dtype, columns in (("float32", 64), ("float64", 512)):
        assert news(product_of(target, dtype, columns)) == []


@pytest.mark.parametrize("target", TARGETS)
def test_the_c_of_transforms_is_neat(target):
    for dtype, lengths in (("float32", (64, 64)), ("float64", (1, 96)), ("uint8", (48, 32))):
        for lanes in product(LAYOUTS, (False, True)):
            assert news(fourier_of(target, dtype, lengths, *lanes)) == []


@pytest.mark.parametrize("target", TARGETS)
def test_the_c_of_gradients_and_of_bytes_is_neat(target):
    wanted = TARGETS[target]
    precision, tuning = Precision.of("float32"), weight_gradient.tuning(wanted)
    tile = transforms.load(4, 3)
    for layout in LAYOUTS:
        spec = weight_gradient.GradientSpec(layout, precision, wanted, tuning, tile, tile)
        assert news(render(spec)) == []
        for algorithm, sums in product((*ALGORITHMS, "depthwise"), (True, False)):
            for dot in (dot for dot in DOTS if dot.target == target):
                capable = replace(wanted, extensions=frozenset(dot.extensions))
                kind = QuantizedSpec.of(algorithm, layout, sums, capable)
                assert news(render(kind)) == news(render(kind.profiled())) == []
                if not sums:
                    assert news(render(RealsSpec.of(algorithm, layout, sums, capable))) == []


@pytest.mark.parametrize("target", TARGETS)
def test_the_c_of_files_of_their_own_is_neat(target):
    for name, text in standalone_files(target).items():
        assert news(text) == [], name


@pytest.mark.parametrize("algorithm", ["direct", "mcmr", "winograd2d"])
def test_a_layer_of_its_own_asks_for_nothing_at_run_time(algorithm):
    shape, weight = (1, 32, 20, 20), (32, 32, 3, 3)
    for options in (
        {},
        {"activation": "relu6", "padding_mode": "reflect"},
        {"activation": ("prelu", np.ones(32, "f4")), "add": True},
        {"activation": "silu", "add_after": True},
    ):
        layer = {"padding": 1, "algorithm": algorithm, "isa": "avx2", "name": "layer_of", **options}
        text = standalone(shape, weight, **layer)["layer_of.c"]
        used = set(re.findall(r"\w+", re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)))
        assert not used & {"padding_mode", "add_early", "after_store", "flush_denormals", "relu"}
        asked = {"add", "add_after"} & set(options)
        activation = options.get("activation")
        asked |= {"cap"} if activation == "relu6" else {"slopes"} if "add" in options else set()
        assert used & {"add", "add_after", "cap", "slopes"} == asked, options


_told = set()


def news(text):
    """The flaws of a text that no test told of: kernels share most of their lines."""
    found = [one for one in flaws(text) if one[1:] not in _told]
    _told.update(one[1:] for one in found)
    return found


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


def test_a_flaw_is_told_once(monkeypatch):
    monkeypatch.setattr("kernels.test_neat._told", set())
    one, other = ("/* Generated by */\n" + before + "c" * 101 + "\n" for before in ("", "int x;\n"))
    assert len(news(one)) == 1 and news(other) == [] and len(flaws(other)) == 1
    assert len(news(other + "\tb\n")) == 1
