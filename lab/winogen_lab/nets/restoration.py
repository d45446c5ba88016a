"""Nets from pictures to pictures, nearly all of it 3x3: U-Net, DnCNN, RRDB; and one that detects.

Written from the papers (arXiv 1505.04597, 1608.03981, 1809.00219); the last has the parts of
YOLOv8's backbone.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from winogen_lab.nets.blocks import ConvBN


def _twice(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(ConvBN(inputs, outputs), ConvBN(outputs, outputs))


class UNet(nn.Module):
    """Down by poolings, up by transposed convolutions, with what was seen on the way down."""

    def __init__(self, widths: tuple[int, ...] = (32, 64, 128, 256), classes: int = 2):
        super().__init__()
        pairs = list(zip((3, *widths), widths))
        self.down = nn.ModuleList(_twice(*pair) for pair in pairs)
        self.pool = nn.MaxPool2d(2)
        steps = [(widths[k + 1], widths[k]) for k in reversed(range(len(widths) - 1))]
        self.enlarge = nn.ModuleList(nn.ConvTranspose2d(*step, 2, 2) for step in steps)
        self.up = nn.ModuleList(_twice(2 * outputs, outputs) for _, outputs in steps)
        self.head = nn.Conv2d(widths[0], classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        seen = []
        for number, block in enumerate(self.down):
            x = block(self.pool(x) if number else x)
            seen.append(x)
        seen.pop()
        for enlarge, block in zip(self.enlarge, self.up):
            x = block(torch.cat([seen.pop(), enlarge(x)], 1))
        return self.head(x)


class DnCNN(nn.Module):
    """Seventeen layers that find the noise of a grey picture, to take it away."""

    def __init__(self, depth: int = 17, width: int = 64):
        super().__init__()
        self.noise = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1),
            nn.ReLU(),
            *(ConvBN(width, width) for _ in range(depth - 2)),
            nn.Conv2d(width, 1, 3, padding=1),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x - self.noise(x)


class ResidualDense(nn.Module):
    """Five 3x3 convolutions, each of which sees all before it; a fifth of the result is added."""

    def __init__(self, width: int = 64, growth: int = 32):
        super().__init__()
        self.convs = nn.ModuleList(
            nn.Conv2d(width + k * growth, growth if k < 4 else width, 3, padding=1)
            for k in range(5)
        )
        self.activation = nn.LeakyReLU(0.2)

    def forward(self, x: Tensor) -> Tensor:
        seen = [x]
        for number, conv in enumerate(self.convs):
            y = conv(torch.cat(seen, 1) if number else x)
            if number < len(self.convs) - 1:
                seen.append(self.activation(y))
        return x + y * 0.2


class RRDB(nn.Module):
    """The body of Real-ESRGAN: blocks of three dense blocks, with shortcuts around everything."""

    def __init__(self, blocks: int = 4, width: int = 64):
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(*(ResidualDense(width) for _ in range(3))) for _ in range(blocks)
        )
        self.last = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        features = y = self.first(x)
        for block in self.blocks:
            y = y + block(y) * 0.2
        return features + self.last(y)


def _silu(inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> ConvBN:
    return ConvBN(inputs, outputs, kernel, stride, activation=nn.SiLU, eps=1e-3)


class Split(nn.Module):
    """Half of the channels pass through pairs of 3x3, and every step is kept for the last 1x1."""

    def __init__(self, width: int, depth: int):
        super().__init__()
        half = width // 2
        self.half = half
        self.first = _silu(width, width, 1)
        self.pairs = nn.ModuleList(
            nn.Sequential(_silu(half, half), _silu(half, half)) for _ in range(depth)
        )
        self.last = _silu((2 + depth) * half, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        kept = [x[:, : self.half], x[:, self.half :]]
        for pair in self.pairs:
            kept.append(kept[-1] + pair(kept[-1]))
        return self.last(torch.cat(kept, 1))


class Pyramid(nn.Module):
    """Maxima over ever larger windows, side by side."""

    def __init__(self, width: int):
        super().__init__()
        self.first = _silu(width, width // 2, 1)
        self.pool = nn.MaxPool2d(5, 1, 2)
        self.last = _silu(2 * width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept = [self.first(x)]
        for _ in range(3):
            kept.append(self.pool(kept[-1]))
        return self.last(torch.cat(kept, 1))


def yolo(widths: tuple[int, ...] = (32, 64, 128, 256, 512)) -> nn.Sequential:
    """Return a detector's backbone: (N, 3, H, W) to (N, 512, H/32, W/32)."""
    layers: list[nn.Module] = [_silu(3, widths[0], 3, 2)]
    for inputs, width, depth in zip(widths, widths[1:], (1, 2, 2, 1)):
        layers += [_silu(inputs, width, 3, 2), Split(width, depth)]
    return nn.Sequential(*layers, Pyramid(widths[-1]))
