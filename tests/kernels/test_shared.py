"""What kernels share is the same text, and computes the same."""

import numpy as np
import pytest

import winogen
from winogen.codegen import transforms
from winogen.codegen.render import parts
from winogen.conv import execute
from winogen.kernels.spec import KernelSpec
from winogen.kernels import named
from winogen.records import TARGETS, Precision


def spec(variant, layout, m, target="avx2"):
    precision, here = Precision.of("float32"), TARGETS[target]
    tuning = named(variant).tuning(here, precision).compiled
    along = [transforms.load(m, 3) if is_along else None for is_along in named(variant).along]
    return KernelSpec(variant, layout, precision, here, tuning, *along)


def test_tiles_and_layouts_share_micro_kernels():
    of = [parts(spec("mcmr", layout, m)) for layout in ("NCHW", "NHWC") for m in (2, 4)]
    assert len({text["gemm_avx2"] for text in of}) == 1
    assert len({text["finish_avx2"] for text in of}) == 2  # by layouts
    assert "finish_avx2" in parts(spec("direct", "NHWC", None))


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("algorithm", ["mcmr", "winograd1d", "winograd2d", "direct"])
def test_a_kernel_of_parts_has_the_bits_of_the_whole(monkeypatch, algorithm, layout):
    rng = np.random.default_rng(1)
    shape = (1, 19, 13, 15) if layout == "NCHW" else (1, 13, 15, 19)
    x = rng.standard_normal(shape, dtype=np.float32)
    weight = rng.standard_normal((37, 19, 3, 3), dtype=np.float32)
    tile = {} if algorithm == "direct" else {"tile": 2}
    options = {"padding": 1, "algorithm": algorithm, "layout": layout, "activation": "gelu", **tile}
    apart = winogen.conv2d(x, weight, **options)
    monkeypatch.setattr(execute, "_APART", ())
    monkeypatch.setattr(execute, "parts", lambda spec: {})
    execute.forget()
    try:
        whole = winogen.conv2d(x, weight, **options)
    finally:
        execute.forget()
    np.testing.assert_array_equal(apart, whole)
