"""Groups of few channels in NHWC that share the lanes of a vector."""

import numpy as np
import pytest
from conv import exact
from kernels.samples import work_for
from kernels.turns import turns

from winogen.records import TARGETS
from winogen.toolchain import host_targets

ISAS = [target.name for target in host_targets()]
# Channels of a group; kernel, stride, dilation and padding.
LAYERS = [
    (4, 3, 1, 1, 1),
    (2, 3, 2, 1, 1),
    (8, 3, 1, 1, 1),
    (4, 5, 2, 1, 2),
    (2, 5, 1, 2, 4),
    (8, 7, 1, 1, 3),
]


@pytest.mark.parametrize("isa, layer", turns(ISAS, range(len(LAYERS))))
def test_groups_share_the_lanes(isa, layer, monkeypatch):
    monkeypatch.setenv("WINOGEN_ISA", isa)
    channels, kernel, stride, dilation, padding = LAYERS[layer]
    rng = np.random.default_rng(layer)
    for index, size in enumerate(((7, 9), (14, 21))):
        groups = 32 // channels * (index + 1)
        exact.check(
            exact.integers(rng, (2, groups * channels, *size), 3),
            exact.integers(rng, (groups * channels, channels, kernel, kernel), 3),
            exact.integers(rng, groups * channels, 9) if index else None,
            dtype=("float32", "float64")[(index + layer) % 2],
            algorithm={"algorithm": "direct", "threads": 1 + index},
            relu=layer % 2 == 1,
            seams=rng if index else None,
            groups=groups,
            stride=(stride, stride),
            dilation=(dilation, dilation),
            padding=((padding, padding), (padding, padding)),
            layout="NHWC",
        )


@pytest.mark.parametrize(
    "groups, channels, target, shared",
    [
        (8, 4, "avx512", True),
        (8, 8, "avx2", False),
        (9, 4, "avx512", False),
        (4, 8, "avx512", True),
    ],
)
def test_where_groups_share_the_lanes(groups, channels, target, shared):
    weight = (groups * channels, channels, 3, 3)
    work = work_for(weight, (1, 9, 9), "direct", TARGETS[target], groups=groups, layout="NHWC",
                    padding=((1, 1), (1, 1)))  # fmt: skip
    assert (work.merged == channels) == (work.variant == "depthwise_in_place") == shared
