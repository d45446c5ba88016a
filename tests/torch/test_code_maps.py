"""Maps of codes that are joined, enlarged and turned into channels, as PyTorch writes them."""

import numpy as np
import pytest
import torch
from coded import agree, untouched
from quantizing import KEEPS, quantized, scaled
from torch import nn

from winogen.graph.ops import (
    Concat,
    Enlarge,
    Lookup,
    MaxPool,
    QConv,
    Recast,
    ScaleSums,
    Spread,
)


@pytest.fixture
def x():
    return torch.randn(2, 8, 14, 12)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8], ids=str)
def test_maps_joined(dtype, x):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.other = nn.Conv2d(8, 12, 3), nn.Conv2d(8, 5, 3, bias=False)
            self.last = nn.Conv2d(29, 8, 1)

        def forward(self, x):
            y = self.one(x)
            return self.last(torch.cat([y, torch.relu(self.other(x)), y], -3))

    found = agree(quantized(scaled(Net()), x, dtype=dtype), x)
    assert found.count(Concat) == 1 and 1 <= found.count(Lookup) <= 3


def test_maps_of_the_same_codes_are_joined_as_they_are(x):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.last = nn.Conv2d(8, 12, 3), nn.Conv2d(24, 8, 1)

        def forward(self, x):
            y = self.one(x)
            return self.last(torch.cat([y, y], 1))

    found = agree(quantized(scaled(Net()), x), x)
    assert found.count(Concat) == 1 and Lookup not in found


def test_parts_of_a_join_that_wait_for_torch(x):
    """What becomes of the codes of a part is in one call with what joins them."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.other = nn.Conv2d(8, 12, 3), nn.Conv2d(12, 12, 1)
            self.last = nn.Conv2d(24, 8, 1)

        def forward(self, x):
            y = self.one(x)
            return self.last(torch.cat([y, 3 * torch.sinh(self.other(y))], 1))

    found = agree(quantized(scaled(Net()), x), x)
    assert found.count(Concat) == 1 and Lookup in found


@pytest.mark.parametrize("axis", [0, 2, -1])
def test_other_axes_are_joined_by_torch(axis, x):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.last = nn.Conv2d(8, 12, 3), nn.Conv2d(12, 8, 1)

        def forward(self, x):
            y = self.one(x)
            return self.last(torch.cat([y, y], axis))

    assert Concat not in untouched(quantized(scaled(Net()), x), x)


ENLARGED = {
    "by factors": {"scale_factor": (2, 3)},
    "to a size": {"size": (31, 12)},
    "smaller": {"size": (5, 31)},
}


@pytest.mark.parametrize("options", ENLARGED.values(), ids=ENLARGED)
def test_the_nearest_pixels(options, x):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.last = nn.Conv2d(8, 12, 3), nn.Conv2d(12, 8, 3)

        def forward(self, x):
            y = nn.functional.interpolate(torch.relu(self.one(x)), **options)
            return self.last(y)

    found = agree(quantized(scaled(Net()), x), x)
    assert found.count(Enlarge) == 1 and found.count(QConv) == 2


def test_pixels_are_those_of_torch():
    """Of factors and sizes whose quotients float32 rounds up, too."""
    for factor, count in [(3, 7), (41, 5), (47, 9), (1, 4)]:
        x = torch.randn(1, 2, count, 3)
        for op, options in [
            (Enlarge((factor, 2)), {"scale_factor": (factor, 2)}),
            (Enlarge(size=(factor, 7)), {"size": (factor, 7)}),
            (Enlarge(size=(count * factor - 1, 3)), {"size": (count * factor - 1, 3)}),
        ]:
            wanted = nn.functional.interpolate(x, **options).numpy()
            assert op.output([tuple(x.shape)]) == wanted.shape
            np.testing.assert_array_equal(op.computed(x.numpy()), wanted)


def test_factors_that_are_not_whole_stay(x):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.last = nn.Conv2d(8, 12, 3), nn.Conv2d(12, 8, 3)

        def forward(self, x):
            return self.last(nn.functional.interpolate(self.one(x), scale_factor=1.5))

    assert Enlarge not in untouched(quantized(scaled(Net()), x), x)


def test_channels_as_pixels(x):
    net = nn.Sequential(nn.Conv2d(8, 12, 3), nn.PixelShuffle(2), nn.ReLU(), nn.Conv2d(3, 8, 3))
    found = agree(quantized(scaled(net), x), x)
    assert found.count(Spread) == 1 and found.count(QConv) == 2


def test_numbers_that_are_chosen_before_they_are_quantized(x):
    """As PyTorch's quantizers leave a pool behind a layer, and more."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.last = nn.Conv2d(8, 6, 3), nn.Conv2d(3, 8, 3)

        def forward(self, x):
            y = nn.functional.max_pool2d(torch.relu(self.one(x)), 2, 2, 1)
            y = nn.functional.interpolate(torch.cat([y, y], 1), scale_factor=2)
            return self.last(torch.relu(nn.functional.pixel_shuffle(y, 2)))

    model = quantized(scaled(Net()), x)
    for node in [node for node in model.graph.nodes if node.target in KEEPS]:
        node.replace_input_with(node.args[0], node.args[0].args[0].args[0])
    model.graph.eliminate_dead_code()
    model.recompile()
    kinds = [one for one in agree(model, x) if one not in (Recast, Lookup)]
    assert kinds == [QConv, MaxPool, Concat, Enlarge, Spread, QConv, ScaleSums]
