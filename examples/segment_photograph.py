"""Segment a photograph by a U-Net, as fast as winogen makes it and beside torch.

Run: python examples/segment_photograph.py --height 128

    python examples/segment_photograph.py photo.jpg -o mask.png

Weights are random, so that the mask shows nothing; load yours into the model.
Needs torch: pip install '.[torch]'.
"""

import argparse
import sys

import numpy as np

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError:
    sys.exit("torch: cannot be imported; install it by pip install '.[torch]'")

from winogen.demo.beside import beside_torch
from winogen.demo.photograph import opened, photograph_or_drawing, write_png

STEP = 16  # pixels: the picture is halved four times


def twice(inputs: int, outputs: int) -> nn.Sequential:
    """Two layers of 3x3, each with what training adds."""
    layers = []
    for channels in (inputs, outputs):
        conv = nn.Conv2d(channels, outputs, 3, padding=1, bias=False)
        layers += [conv, nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """The net of Ronneberger, Fischer and Brox, with padded layers."""

    def __init__(self, classes: int = 1, widths: tuple[int, ...] = (32, 64, 128, 256, 256)) -> None:
        super().__init__()
        self.down = nn.ModuleList(map(twice, (3, *widths), widths))
        self.up = nn.ModuleList(
            twice(below + beside, beside) for below, beside in zip(widths[:0:-1], widths[-2::-1])
        )
        self.last = nn.Conv2d(widths[0], classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen = []
        for layers in self.down:
            x = layers(F.max_pool2d(x, 2) if seen else x)
            seen.append(x)
        for layers, skip in zip(self.up, seen[-2::-1]):
            x = layers(torch.cat([F.interpolate(x, scale_factor=2.0), skip], 1))
        return self.last(x)


parser = argparse.ArgumentParser(description="Segment a photograph by a U-Net.")
parser.add_argument("photo", nargs="?", help="default: one of 512 x 600")
parser.add_argument("-o", "--output", default="mask.png")
parser.add_argument("--height", type=int, help="rows of the photograph that are taken")
options = parser.parse_args()

picture = opened(options.photo) if options.photo else photograph_or_drawing()
picture = torch.from_numpy(np.ascontiguousarray(picture[:, : options.height]))[None]
height, width = picture.shape[2:]
padded = F.pad(picture, (0, -width % STEP, 0, -height % STEP), "reflect")

torch.manual_seed(0)
model = UNet().eval()


def segment(net: nn.Module) -> np.ndarray:
    return net(padded)[0, :, :height, :width].contiguous().numpy()


mask = beside_torch(model, padded, segment)
pixels = (255 * (mask > np.median(mask))).astype(np.uint8).transpose(1, 2, 0)
write_png(options.output, np.repeat(pixels, 3, 2))
print(f"{options.output} {width} x {height}")
