"""A 3D U-Net over a volume that is larger than what it sees at once: patches that overlap.

Run: python examples/volume_in_patches.py --side 40 --patch 24

    python examples/volume_in_patches.py --side 160 --patch 64

Values near the border of a patch know less of their surroundings, so that they count less. Weights
are random; load yours. Needs torch: pip install '.[torch]'.
"""

import argparse
import sys
from itertools import product

import numpy as np

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError:
    sys.exit("torch: cannot be imported; install it by pip install '.[torch]'")

from winogen.demo.beside import beside_torch


def twice(inputs: int, outputs: int) -> nn.Sequential:
    """Two layers of 3x3x3."""
    first, second = (nn.Conv3d(some, outputs, 3, padding=1) for some in (inputs, outputs))
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU())


class UNet(nn.Module):
    """The net of Çiçek and others, halved twice."""

    def __init__(self, classes: int = 2, widths: tuple[int, ...] = (16, 32, 64)) -> None:
        super().__init__()
        self.down = nn.ModuleList(map(twice, (1, *widths), widths))
        self.up = nn.ModuleList(
            twice(below + beside, beside) for below, beside in zip(widths[:0:-1], widths[-2::-1])
        )
        self.last = nn.Conv3d(widths[0], classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen = []
        for layers in self.down:
            x = layers(F.max_pool3d(x, 2) if seen else x)
            seen.append(x)
        for layers, skip in zip(self.up, seen[-2::-1]):
            x = layers(torch.cat([F.interpolate(x, scale_factor=2.0), skip], 1))
        return self.last(x)


parser = argparse.ArgumentParser(description="Run a 3D U-Net over a volume, patch by patch.")
parser.add_argument("--side", type=int, default=160, help="of the volume, in voxels")
parser.add_argument("--patch", type=int, default=64, help="side of a patch, a multiple of 4")
options = parser.parse_args()
side, patch = options.side, options.patch
if patch % 4 or not 8 <= patch <= side:
    parser.error(f"patch: got {patch}; allowed: a multiple of 4 from 8 to the side, {side}")

torch.manual_seed(0)
model = UNet().eval()
volume = torch.randn(1, 1, side, side, side)
begins = sorted({*range(0, side - patch, patch * 3 // 4), side - patch})
ramp = 1 - np.abs(np.linspace(-1, 1, patch, dtype=np.float32)) * 0.9
weight = ramp[:, None, None] * ramp[:, None] * ramp


def patches(net: nn.Module) -> np.ndarray:
    """The means of what all patches say of a voxel."""
    total = np.zeros((2, side, side, side), np.float32)
    weights = np.zeros((side, side, side), np.float32)
    for corner in product(begins, repeat=3):
        place = tuple(slice(begin, begin + patch) for begin in corner)
        total[(..., *place)] += net(volume[(..., *place)].contiguous())[0].numpy() * weight
        weights[place] += weight
    return total / weights


print(f"{len(begins) ** 3} patches of {patch} voxels a side")
labels = beside_torch(model, torch.randn(1, 1, patch, patch, patch), patches).argmax(0)
print(f"{side} voxels a side, {np.mean(labels == 0):.0%} of them of the first class")
