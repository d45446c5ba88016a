"""What kernels share is the same text, and computes the same."""

import numpy as np
import pytest
from kernels.samples import LAYOUTS, reaching
from kernels.test_neat import flaws

import winogen
from winogen.codegen import transforms
from winogen.codegen.render import parts, render
from winogen.conv import execute, stock
from winogen.kernels import named, variants
from winogen.kernels.spec import KernelSpec
from winogen.records import TARGETS, Precision


def spec(variant, layout, m, target="avx2"):
    precision, here = Precision.of("float32"), TARGETS[target]
    tuning = named(variant).tuning(here, precision).compiled
    along = [transforms.load(m, 3) if is_along else None for is_along in named(variant).along]
    return KernelSpec(variant, layout, precision, here, tuning, *along)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_text_leaves_out_what_is_linked(layout):
    for variant in variants().values():
        for kernel in reaching(variant, layout, "float32", TARGETS["avx2"]):
            assert render(kernel).count("#ifdef WINOGEN_APART") == len(parts(kernel))
            for text in parts(kernel).values():
                assert flaws(text) == []


def test_tiles_and_layouts_share_micro_kernels():
    of = [parts(spec("mcmr", layout, m)) for layout in ("NCHW", "NHWC") for m in (2, 4)]
    assert len({text["gemm_avx2"] for text in of}) == 1
    assert len({text["finish_avx2"] for text in of}) == 2  # by layouts
    assert parts(spec("direct", "NHWC", None)) == {}


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("algorithm", ["mcmr", "winograd1d", "winograd2d"])
def test_a_kernel_of_parts_has_the_bits_of_the_whole(monkeypatch, algorithm, layout):
    rng = np.random.default_rng(1)
    shape = (1, 19, 13, 15) if layout == "NCHW" else (1, 13, 15, 19)
    x = rng.standard_normal(shape, dtype=np.float32)
    weight = rng.standard_normal((37, 19, 3, 3), dtype=np.float32)
    options = {"padding": 1, "algorithm": algorithm, "tile": 2, "layout": layout}
    options["activation"] = "gelu"
    apart = winogen.conv2d(x, weight, **options)
    whole_text = tuple(flag for flag in stock.FLAGS if flag != "-DWINOGEN_APART")
    monkeypatch.setattr(stock, "FLAGS", whole_text)
    monkeypatch.setattr(stock, "parts", lambda spec: {})
    execute.forget()
    try:
        whole = winogen.conv2d(x, weight, **options)
    finally:
        execute.forget()
    np.testing.assert_array_equal(apart, whole)
