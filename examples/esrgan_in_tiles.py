"""Real-ESRGAN on a CPU: a picture enlarged four times, tile by tile, beside torch.

Run: python examples/esrgan_in_tiles.py --blocks 1 --height 24 --tile 44
    python examples/esrgan_in_tiles.py photo.jpg --model RealESRGAN_x4plus.pth

Layers have the names of the published files, of 23 blocks. Without one weights are random.
Needs torch: pip install '.[torch]'.
"""

import argparse
import sys

import numpy as np

try:
    import torch
except ImportError:
    sys.exit("torch: cannot be imported; install it by pip install '.[torch]'")

from winogen.demo.beside import beside_torch
from winogen.demo.photograph import opened, photograph_or_drawing, write_png

nn, F = torch.nn, torch.nn.functional


class Dense(nn.Module):
    """Five layers, each of which sees what all before it made."""

    def __init__(self) -> None:
        super().__init__()
        for i in range(5):
            sizes = 64 + 32 * i, 32 if i < 4 else 64
            self.add_module(f"conv{i + 1}", nn.Conv2d(*sizes, 3, padding=1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = [x]
        for conv in (self.conv1, self.conv2, self.conv3, self.conv4):
            parts.append(F.leaky_relu(conv(torch.cat(parts, 1)), 0.2))
        return 0.2 * self.conv5(torch.cat(parts, 1)) + x


class Block(nn.Module):
    """Three of them, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.rdb1, self.rdb2, self.rdb3 = Dense(), Dense(), Dense()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 0.2 * self.rdb3(self.rdb2(self.rdb1(x))) + x


class ESRGAN(nn.Module):
    """The generator of Wang and others."""

    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.conv_first, self.conv_last = nn.Conv2d(3, 64, 3, 1, 1), nn.Conv2d(64, 3, 3, 1, 1)
        self.body = nn.Sequential(*(Block() for _ in range(blocks)))
        for name in ("conv_body", "conv_up1", "conv_up2", "conv_hr"):
            self.add_module(name, nn.Conv2d(64, 64, 3, padding=1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv_first(x)
        x = x + self.conv_body(self.body(x))
        for conv in (self.conv_up1, self.conv_up2):
            x = F.leaky_relu(conv(F.interpolate(x, scale_factor=2.0, mode="nearest")), 0.2)
        return self.conv_last(F.leaky_relu(self.conv_hr(x), 0.2))


parser = argparse.ArgumentParser(description="Enlarge a picture by Real-ESRGAN.")
parser.add_argument("photo", nargs="?", help="default: one of 512 x 600")
parser.add_argument("--model", help="a file of Real-ESRGAN, as RealESRGAN_x4plus.pth")
parser.add_argument("--blocks", type=int, default=23, help="of the net")
parser.add_argument("--tile", type=int, default=128, help="side of a tile with its margin")
parser.add_argument("--height", type=int, help="rows of the picture that are taken")
options = parser.parse_args()

model = ESRGAN(options.blocks).eval()
if options.model:
    model.load_state_dict(torch.load(options.model, weights_only=True)["params_ema"])
picture = opened(options.photo) if options.photo else photograph_or_drawing()
picture = torch.from_numpy(np.ascontiguousarray(picture[:, : options.height]))[None]
(height, width), margin, tile = picture.shape[2:], 10, options.tile  # further pixels change little
step, inner = tile - 2 * margin, slice(4 * margin, -4 * margin)
around = margin, -width % step + margin, margin, -height % step + margin
padded = F.pad(picture, around, "replicate")


def enlarge(net: nn.Module) -> np.ndarray:
    rows = []
    for top in range(0, height, step):
        inputs = (padded[:, :, top:, left:][:, :, :tile, :tile] for left in range(0, width, step))
        rows.append([net(one.contiguous())[0, :, inner, inner].numpy() for one in inputs])
    return np.block(rows)[:, : 4 * height, : 4 * width]


large = beside_torch(model, torch.rand(1, 3, tile, tile), enlarge)
write_png("large.png", np.clip(255 * large + 0.5, 0, 255).astype(np.uint8).transpose(1, 2, 0))
print(f"large.png {large.shape[2]} x {large.shape[1]}")
