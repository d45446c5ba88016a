"""1x1 convolution in NHWC: pixels are read where they lie, however far apart."""

import numpy as np
import pytest
from conv import exact, test_sizes
from conv.reference import convolve
from kernels.samples import work_for
from kernels.turns import turns

from winogen.conv.choice import Choice
from winogen.conv.problem import Layer
from winogen.kernels import named
from winogen.records import TARGETS
from winogen.toolchain import host_targets

ISAS = [target.name for target in host_targets()]


@pytest.mark.parametrize("layer, options, expected", [
    ((64, 32, 1, 1), {}, "pointwise"), ((64, 32, 1, 1), {"stride": (2, 3)}, "pointwise"),
    ((64, 32, 1, 1), {"padding": ((1, 1), (0, 0))}, "direct"),
    ((64, 32, 1, 1), {"padding": ((0, 0), (0, 2))}, "direct"),
    ((64, 32, 1, 2), {}, "direct"), ((64, 32, 1, 1), {"layout": "NCHW"}, "planes"),
    # Rows that are 4 KiB apart: 14 of them would evict each other, 6 do not.
    ((64, 1024, 1, 1), {}, "direct"), ((64, 1024, 1, 1), {"target": "avx2"}, "pointwise"),
    ((64, 512, 1, 1), {"stride": (2, 2)}, "direct"), ((64, 1040, 1, 1), {}, "pointwise"),
])  # fmt: skip
def test_which_layers_are_read_where_they_lie(layer, options, expected):
    options = {"layout": "NHWC", **options}
    target = TARGETS[options.pop("target", "avx512")]
    assert work_for(layer, (1, 20, 37), "direct", target, **options).variant == expected


def test_nothing_of_the_image_is_kept():
    work = work_for((64, 32, 1, 1), (1, 20, 37), "direct", TARGETS["avx2"], layout="NHWC")
    assert set(named(work.variant).all_buffers(work)) == {"sum"}


@pytest.mark.parametrize("isa, size", turns(ISAS, [(1, 1), (3, 2), (9, 35), (16, 24)]))
def test_every_geometry(isa, size, monkeypatch):
    monkeypatch.setenv("WINOGEN_ISA", isa)
    rng = np.random.default_rng(size)
    shapes = ((7, 9), (16, 40), (19, 64), (33, 17), (600, 33))
    for index, (channels, filters) in enumerate(shapes):
        groups = 1 + index % 2
        exact.check(
            exact.integers(rng, (2, groups * channels, *size), 3),
            exact.integers(rng, (groups * filters, channels, 1, 1), 3),
            exact.integers(rng, (groups * filters,), 9) if index % 2 else None,
            algorithm={"algorithm": "direct", "threads": 1 + index % 4},
            activation=(None, "relu", ("prelu", 0.5))[index % 3],
            seams=rng if index % 3 else None,
            layout="NHWC",
            groups=groups,
            stride=(1 + index % 2, 1 + index % 3),
        )


def test_rows_beyond_the_first_pointer():
    """A block of nine rows reads the last of them from a pointer of their own."""
    problem = Layer.of((40, 35, 1, 1), "float32", layout="NHWC").problem((1, 2, 9, 35))
    rng = np.random.default_rng(5)
    x = rng.integers(-3, 4, problem.input_shape).astype(np.float32)
    weight = rng.integers(-3, 4, problem.layer.weight_shape).astype(np.float32)
    choice = Choice("direct", sizes=(("rows", 9), ("vectors", 1)))
    y = test_sizes.output(problem, choice, x, weight)
    assert np.array_equal(y, convolve(x, weight, layout="NHWC"))


def test_numbers_beside_the_channels_do_not_matter():
    exact.check_slice_of_pixels((5, 40), (20, 33, 1, 1))
