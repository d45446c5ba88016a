"""The reference that all else is compared with: checked by loops, and by torch if present."""

import numpy as np
import pytest
from conv.exact import integers
from conv.reference import convolve, slowly

CASES = [
    dict(),
    dict(stride=(2, 1), padding=((1, 2), (0, 3))),
    dict(dilation=(1, 2), padding=((2, 2), (2, 2)), padding_mode="reflect"),
    dict(padding=((3, 0), (1, 4)), padding_mode="replicate", stride=(1, 3)),
    dict(padding=((4, 1), (0, 5)), padding_mode="circular", groups=2),
    dict(groups=4, dilation=(2, 1), padding=((1, 1), (1, 1))),
]


@pytest.mark.parametrize("options", CASES)
def test_reference_equals_loops_over_single_numbers(options):
    rng = np.random.default_rng(1)
    groups = options.get("groups", 1)
    x, w = integers(rng, (2, 4, 5, 6), 9), integers(rng, (4, 4 // groups, 3, 2), 9)
    loops = {("mode" if k == "padding_mode" else k): v for k, v in options.items()}
    assert np.array_equal(convolve(x, w, **options), slowly(x, w, **loops))


@pytest.mark.parametrize("options", CASES)
def test_reference_and_conv2d_equal_torch(options):
    torch = pytest.importorskip("torch")
    from winogen import conv2d

    rng = np.random.default_rng(2)
    groups = options.get("groups", 1)
    x, w = integers(rng, (2, 4, 5, 6), 9), integers(rng, (4, 4 // groups, 3, 2), 9)
    mode = {"zeros": "constant"}.get(
        options.get("padding_mode", "zeros"), options.get("padding_mode")
    )
    (top, bottom), (left, right) = options.get("padding", ((0, 0), (0, 0)))
    tensor = torch.tensor(x.astype(np.float32))
    y = torch.nn.functional.conv2d(
        torch.nn.functional.pad(tensor, (left, right, top, bottom), mode=mode),
        torch.tensor(w.astype(np.float32)),
        stride=options.get("stride", 1),
        dilation=options.get("dilation", 1),
        groups=groups,
    ).numpy()
    assert np.array_equal(convolve(x, w, **options), y)
    assert np.array_equal(conv2d(tensor, w.astype(np.float32), algorithm="direct", **options), y)
