"""The decoder of a diffusion model: from latents of 4 channels to a picture, beside torch.

Run: python examples/decode_latents.py --side 16 --width 32

    python examples/decode_latents.py --side 32 --width 128     # Stable Diffusion's, 256 x 256

Layers are those of the autoencoder of Stable Diffusion, weights are random; load yours.
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


def normed(channels: int) -> nn.GroupNorm:
    return nn.GroupNorm(32, channels, eps=1e-6)


class Residual(nn.Module):
    """Two layers of 3x3 beside a shortcut."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = normed(inputs), nn.Conv2d(inputs, outputs, 3, padding=1)
        self.norm2, self.conv2 = normed(outputs), nn.Conv2d(outputs, outputs, 3, padding=1)
        self.short = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv1(F.silu(self.norm1(x)))
        return self.short(x) + self.conv2(F.silu(self.norm2(y)))


class Attention(nn.Module):
    """Every pixel looks at all others."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = normed(channels)
        self.to_qkv = nn.Conv2d(channels, 3 * channels, 1)
        self.out = nn.Conv2d(channels, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.to_qkv(self.norm(x)).flatten(2).transpose(1, 2).chunk(3, 2)
        y = F.scaled_dot_product_attention(q, k, v)
        return x + self.out(y.transpose(1, 2).reshape(x.shape))


class Decoder(nn.Module):
    """From latents to a picture, eight times as wide and high."""

    def __init__(self, width: int) -> None:
        super().__init__()
        top = 4 * width
        layers = [nn.Conv2d(4, top, 3, padding=1), Residual(top, top), Attention(top)]
        layers.append(Residual(top, top))
        for inputs, outputs in ((top, top), (top, top), (top, 2 * width), (2 * width, width)):
            layers += [Residual(inputs, outputs), *(Residual(outputs, outputs) for _ in range(2))]
            if outputs != width:
                layers += [nn.Upsample(scale_factor=2.0), nn.Conv2d(outputs, outputs, 3, padding=1)]
        layers += [normed(width), nn.SiLU(), nn.Conv2d(width, 3, 3, padding=1)]
        self.layers = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


parser = argparse.ArgumentParser(description="Decode the latents of a diffusion model.")
parser.add_argument("--side", type=int, default=32, help="of the latents, in pixels")
parser.add_argument("--width", type=int, default=128, help="channels at the end, 32 or more")
options = parser.parse_args()

torch.manual_seed(0)
latents = torch.randn(1, 4, options.side, options.side)
model = Decoder(options.width).eval()


def decode(net: nn.Module) -> np.ndarray:
    return net(latents).contiguous().numpy()


picture = beside_torch(model, latents, decode)
print(
    f"a picture of {picture.shape[3]} x {picture.shape[2]}, {np.ptp(picture):.2f} from end to end"
)
