"""Stems in NHWC: all that an output reads of a row of the picture is one run of numbers."""

import numpy as np
import pytest
from conv import exact
from kernels.samples import work_for
from kernels.turns import turns

from winogen.kernels import named
from winogen.records import TARGETS
from winogen.toolchain import host_targets

ISAS = [target.name for target in host_targets()]


@pytest.mark.parametrize("layer, options, expected", [
    ((64, 3, 7, 7), {"stride": (2, 2)}, "few_channels"), ((32, 4, 1, 3), {}, "few_channels"),
    ((64, 3, 7, 1), {}, "direct"), ((64, 16, 3, 3), {}, "direct"),
    ((64, 3, 3, 3), {"dilation": (1, 2)}, "direct"), ((2, 8, 3, 3), {}, "few_filters"),
    ((64, 3, 3, 3), {"dilation": (2, 1)}, "few_channels"), ((32, 4, 3, 3), {"groups": 2}, "direct"),
])  # fmt: skip
def test_which_layers_have_few_channels(layer, options, expected):
    groups = options.get("groups", 1)
    weight, shape = (groups * layer[0], *layer[1:]), (1, 20, 37)
    work = work_for(weight, shape, "direct", TARGETS["avx512"], layout="NHWC", **options)
    assert work.variant == expected


def test_the_strip_has_no_idle_lanes():
    """It had a vector for each pixel: 16 numbers for 3 that some tap reads."""
    layer = (32, 3, 3, 3), (1, 40, 112), "direct", TARGETS["avx512"]
    work = work_for(*layer, layout="NHWC", stride=(2, 2))
    read = work.block[0] * 2 * work.block[1] * 2 * 3 * 4
    assert named(work.variant).buffers(work)["strip"].bytes < 1.3 * read


GEOMETRIES = [
    # height, width, kernel, stride, dilation, padding
    (1, 1, (3, 3), (1, 1), (1, 1), ((1, 1), (1, 1))),
    (2, 3, (2, 2), (1, 1), (1, 1), ((0, 12), (11, 0))),
    (9, 70, (3, 3), (1, 1), (1, 1), ((12, 0), (0, 9))),
    (9, 35, (5, 2), (2, 3), (2, 1), ((1, 2), (2, 1))),
    (21, 40, (7, 7), (2, 2), (1, 1), ((3, 3), (3, 3))),
    (16, 24, (4, 4), (4, 4), (1, 1), ((0, 0), (0, 0))),
    (13, 12, (3, 3), (1, 1), (7, 1), ((7, 7), (1, 1))),
]


@pytest.mark.parametrize("isa, geometry", turns(ISAS, GEOMETRIES))
def test_every_geometry(isa, geometry, monkeypatch):
    monkeypatch.setenv("WINOGEN_ISA", isa)
    height, width, kernel, stride, dilation, padding = geometry
    rng = np.random.default_rng(height)
    for index, (channels, filters) in enumerate(((1, 32), (2, 9), (3, 17), (3, 40), (5, 33))):
        modes = exact.MODES if max(map(max, padding)) < min(height, width) else ("zeros",)
        exact.check(
            exact.integers(rng, (1 + index % 2, channels, height, width), 3),
            exact.integers(rng, (filters, channels, *kernel), 3),
            exact.integers(rng, (filters,), 9) if index % 2 else None,
            algorithm={"algorithm": "direct", "threads": 1 + index % 3},
            activation=(None, "relu", ("prelu", 0.5))[index % 3],
            seams=rng if index % 3 else None,
            layout="NHWC",
            padding=padding,
            padding_mode=modes[index % len(modes)],
            stride=stride,
            dilation=dilation,
        )


def test_numbers_beside_the_channels_do_not_matter():
    exact.check_slice_of_pixels((5, 40), (20, 3, 3, 3))
