"""A layer of low rank trains: gradients of both stages by winogen's kernels are those of torch."""

import copy

import numpy as np
import pytest

from winogen.lowrank import LowRank

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("options", [{}, {"stride": 2, "groups": 2}])
def test_gradients_of_both_stages(options):
    import winogen.torch

    generator = np.random.default_rng(0)
    w = generator.standard_normal((6, 4 // options.get("groups", 1), 3, 3))
    b = generator.standard_normal(6)
    low = LowRank.from_conv(w, b, compression=1.5, padding=1, activation="silu", **options)
    plain = low.to_torch()
    ours = winogen.torch.replace(copy.deepcopy(plain), algorithm="direct")
    assert [type(m) for m in ours[:2]] == [winogen.torch.Conv2d] * 2
    x = torch.from_numpy(generator.standard_normal((2, 4, 9, 10)))
    gradients = []
    for net in (plain, ours):
        seen = x.clone().requires_grad_()
        y = net(seen)
        (y * torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)).sum().backward()
        gradients.append([seen.grad, *(p.grad for p in net.parameters())])
    assert len(gradients[0]) == 4  # of the input, both weights and the bias
    for expected, found in zip(*gradients):
        assert (expected - found).abs().max() < 1e-12 * expected.abs().max()
