"""Layers in NCHW whose windows do not overlap: what each tap reads becomes a plane."""

import numpy as np
import pytest
from conv import exact
from kernels.samples import work_for
from kernels.turns import turns

from winogen.kernels import named
from winogen.records import TARGETS
from winogen.toolchain import host_targets

ISAS = [target.name for target in host_targets()]
# Height and width of a kernel, and its strides.
LAYERS = [
    ((1, 1), (2, 2)), ((4, 4), (4, 4)), ((2, 1), (3, 2)), ((1, 3), (1, 3)), ((16, 16), (16, 16)),
]  # fmt: skip
# Rows and columns of outputs, and of the input behind them, which nothing reads.
SIZES = [
    ((1, 16), (0, 0)),
    ((7, 9), (0, 1)),
    ((4, 30), (1, 0)),
    ((13, 5), (1, 1)),
    ((3, 80), (0, 0)),
]


@pytest.mark.parametrize("isa, layer", turns(ISAS, range(len(LAYERS))))
def test_patches_of_every_size(isa, layer, monkeypatch):
    monkeypatch.setenv("WINOGEN_ISA", isa)
    kernel, stride = LAYERS[layer]
    rng = np.random.default_rng(layer)
    for index, (outputs, behind) in enumerate(SIZES):
        groups, channels, filters = ((1, 5, 40), (1, 17, 33), (2, 3, 16))[index % 3]
        size = [
            (count - 1) * step + taps + min(more, step - 1)
            for count, step, taps, more in zip(outputs, stride, kernel, behind)
        ]
        exact.check(
            exact.integers(rng, (2, groups * channels, *size), 2),
            exact.integers(rng, (groups * filters, channels, *kernel), 2),
            exact.integers(rng, groups * filters, 9) if index % 2 else None,
            dtype=("float32", "float64")[index % 2],
            algorithm={"algorithm": "direct", "threads": 1 + index % 2},
            activation=(None, "relu", ("leaky_relu", 0.5))[(index + layer) % 3],
            seams=rng if index % 2 else None,
            groups=groups,
            stride=stride,
        )


def test_which_layers_are_patches():
    def variant(kernel, stride, size=(32, 64), filters=64, **options):
        layer = (filters, 32, *kernel), (32, *size), "direct", TARGETS["avx512"]
        return work_for(*layer, stride=stride, **options).variant

    assert (
        variant((1, 1), (2, 2)) == variant((4, 4), (4, 4)) == variant((2, 1), (2, 3)) == "patches"
    )
    assert variant((1, 1), (2, 2), size=(14, 14)) == variant((3, 3), (2, 2)) == "direct"
    assert variant((2, 2), (2, 2), padding=(1, 0)) == "direct"
    assert variant((2, 2), (2, 2), layout="NHWC") == "direct"
    assert variant((1, 1), (2, 2), filters=8) == "pixels"


def test_rows_of_outputs_are_one_run():
    """Else each would end in a vector that is partly empty."""
    work = work_for((64, 32, 1, 1), (32, 14, 56), "direct", TARGETS["avx512"], stride=(2, 2))
    assert work.block == (7, 28)
    _, multiply, _ = named(work.variant).count(work)
    assert multiply.steps * work.lanes < 1.07 * multiply.products
