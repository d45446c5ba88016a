"""`algorithm="loops"` means what every algorithm means: any layer, threads, slices, epilogues."""

import numpy as np
import pytest
from conv.exact import check, integers
from kernels.turns import turns

from winogen.conv import Conv2d

CASES = (
    dict(x=(2, 5, 9, 11), w=(9, 5, 3, 2), padding=((1, 1), (1, 0))),
    dict(x=(1, 8, 7, 6), w=(6, 4, 3, 3), padding=((2, 1), (0, 2)), groups=2, stride=(2, 1),
         padding_mode="replicate"),
    dict(x=(1, 4, 8, 10), w=(20, 4, 1, 1)),
)  # fmt: skip


@pytest.mark.parametrize("case, layout", turns(CASES, ("NCHW", "NHWC")))
def test_results_are_exact(case, layout):
    rng = np.random.default_rng(1)
    options = {name: value for name, value in case.items() if name not in "xw"}
    x, w = integers(rng, case["x"], 5), integers(rng, case["w"], 5)
    check(x, w, integers(rng, case["w"][0], 5), layout=layout, relu=True, seams=rng,
          algorithm=dict(algorithm="loops", threads=2), **options)  # fmt: skip


@pytest.mark.parametrize("layout", ("NCHW", "NHWC"))
def test_threads_change_no_bit(layout):
    rng = np.random.default_rng(2)
    x = rng.standard_normal((2, 12, 12, 12), np.float32)
    w = rng.standard_normal((40, 12, 3, 3), np.float32)
    one, *others = (
        Conv2d(w, padding=1, layout=layout, algorithm="loops", threads=threads)(x)
        for threads in (1, 2, 3)
    )
    assert all(np.array_equal(one, other) for other in others)
