"""Nine networks as people bring them, of real widths: `make(name)` and its example inputs.

They are written as strangers write them, in plain torch, and know nothing of winogen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Subject:
    """A network, and two shapes that it is called with.

    ``doors`` are what its kind can go through: "torch", "onnx", "quantize", "c", "bundle",
    "compress".
    """

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    second: tuple[int, ...]
    doors: tuple[str, ...] = ("torch", "onnx", "quantize", "c", "bundle", "compress")


class Unit(nn.Sequential):
    """A convolution, its normalization, ReLU."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 3, stride: int = 1, rank: int = 2):
        conv = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[rank - 1]
        norm = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)[rank - 1]
        super().__init__(
            conv(inputs, outputs, kernel, stride, kernel // 2, bias=False), norm(outputs), nn.ReLU()
        )


class Residual(nn.Module):
    """The basic block of a ResNet."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1):
        super().__init__()
        self.one = Unit(inputs, outputs, stride=stride)
        self.two = nn.Sequential(*[*Unit(outputs, outputs)][:2])
        self.short = nn.Identity()
        if stride > 1 or inputs != outputs:
            self.short = nn.Sequential(*[*Unit(inputs, outputs, 1, stride)][:2])

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.two(self.one(x)) + self.short(x))


class ResNet(nn.Module):
    """Four stages of one block, and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(Unit(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1))
        steps = ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2))
        self.stages = nn.Sequential(*(Residual(*step) for step in steps))
        self.head = nn.Linear(512, 100)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.flatten(F.adaptive_avg_pool2d(self.stages(self.stem(x)), 1), 1))


class UNet(nn.Module):
    """Down by a ResNet's blocks, up by the nearest pixel, with what was seen on the way down."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([Unit(3, 32), Residual(32, 64, 2), Residual(64, 128, 2)])
        self.up = nn.ModuleList([
            nn.Sequential(Unit(128 + 64, 64), Unit(64, 64)),
            nn.Sequential(Unit(64 + 32, 32), Unit(32, 32)),
        ])  # fmt: skip
        self.head = nn.Conv2d(32, 2, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        seen = []
        for block in self.down:
            x = block(x)
            seen.append(x)
        for block, skip in zip(self.up, seen[-2::-1]):
            x = block(torch.cat([F.interpolate(x, scale_factor=2), skip], 1))
        return torch.sigmoid(self.head(x))


class Dense(nn.Module):
    """Five convolutions, each of which sees all before it, as in ESRGAN."""

    def __init__(self, width: int = 64, growth: int = 32):
        super().__init__()
        sizes = [(width + k * growth, growth if k < 4 else width) for k in range(5)]
        self.convs = nn.ModuleList(nn.Conv2d(*size, 3, padding=1) for size in sizes)

    def forward(self, x: Tensor) -> Tensor:
        seen = [x]
        for conv in self.convs[:-1]:
            seen.append(F.leaky_relu(conv(torch.cat(seen, 1)), 0.2))
        return x + 0.2 * self.convs[-1](torch.cat(seen, 1))


class RRDB(nn.Module):
    """A block of ESRGAN and its pixel shuffle."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 64, 3, padding=1)
        self.body = nn.Sequential(Dense(), Dense(), nn.Conv2d(64, 64, 3, padding=1))
        self.last = nn.Sequential(nn.Conv2d(64, 48, 3, padding=1), nn.PixelShuffle(4))

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        return self.last(y + self.body(y))


class Inverted(nn.Module):
    """A block of MobileNet-v2."""

    def __init__(self, inputs: int, outputs: int, stride: int, wider: int = 6):
        super().__init__()
        inner = wider * inputs
        self.body = nn.Sequential(
            nn.Conv2d(inputs, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU6(),
            nn.Conv2d(inner, inner, 3, stride, 1, groups=inner, bias=False),
            nn.BatchNorm2d(inner), nn.ReLU6(),
            nn.Conv2d(inner, outputs, 1, bias=False), nn.BatchNorm2d(outputs),
        )  # fmt: skip
        self.skips = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.skips else self.body(x)


def mobilenet() -> nn.Module:
    """Return a MobileNet-v2 of six blocks."""
    steps = ((32, 16, 1), (16, 24, 2), (24, 24, 1), (24, 64, 2), (64, 64, 1), (64, 160, 2))
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU6(), *(Inverted(*step) for step in steps),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(160, 100),
    )  # fmt: skip


class Detector(nn.Module):
    """A backbone with three scales, a top-down path, and boxes and scores of each scale."""

    def __init__(self) -> None:
        super().__init__()
        sizes = ((3, 32), (32, 64), (64, 128), (128, 256))
        self.down = nn.ModuleList(
            nn.Sequential(nn.Conv2d(a, b, 3, 2, 1), nn.SiLU(), nn.Conv2d(b, b, 3, 1, 1), nn.SiLU())
            for a, b in sizes
        )
        self.side = nn.ModuleList(nn.Conv2d(width, 64, 1) for width in (64, 128, 256))
        self.boxes = nn.ModuleList(nn.Conv2d(64, 4, 3, padding=1) for _ in range(3))
        self.scores = nn.ModuleList(nn.Conv2d(64, 20, 3, padding=1) for _ in range(3))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        seen = []
        for block in self.down:
            x = block(x)
            seen.append(x)
        top, levels = None, []
        for side, x in zip(list(self.side)[::-1], seen[:0:-1]):
            top = side(x) if top is None else side(x) + F.interpolate(top, scale_factor=2.0)
            levels.append(top)
        flat = [
            [head(level).flatten(2) for head, level in zip(heads, levels)]
            for heads in (self.boxes, self.scores)
        ]
        return torch.cat(flat[0], 2), torch.softmax(torch.cat(flat[1], 2), 1)


class Attention(nn.Module):
    """Self-attention over the pixels of a map, beside a depthwise convolution."""

    def __init__(self, width: int = 64, heads: int = 4):
        super().__init__()
        self.heads = heads
        self.local = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.norm, self.again = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.inner = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.local(x)
        n, c, h, w = x.shape
        y = x.flatten(2).transpose(1, 2)
        qkv = self.qkv(self.norm(y)).reshape(n, h * w, 3, self.heads, c // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = y + self.out(
            F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, h * w, c)
        )
        y = y + self.inner(self.again(y))
        return y.transpose(1, 2).reshape(n, c, h, w)


def transformer() -> nn.Module:
    """Return a transformer that begins and ends with convolutions."""
    return nn.Sequential(
        nn.Conv2d(3, 64, 4, 4), Attention(), nn.Conv2d(64, 64, 3, padding=1), Attention(),
        nn.ConvTranspose2d(64, 3, 4, 4),
    )  # fmt: skip


class Reader(nn.Module):
    """Convolutions, then an LSTM over the columns, as networks that read lines of text."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.Sequential(
            Unit(1, 64), nn.MaxPool2d(2), Unit(64, 128), nn.MaxPool2d(2), Unit(128, 128)
        )
        self.lstm = nn.LSTM(128 * 8, 128, bidirectional=True, batch_first=True)
        self.head = nn.Linear(256, 80)

    def forward(self, x: Tensor) -> Tensor:
        columns = self.convs(x).permute(0, 3, 1, 2).flatten(2)
        return self.head(self.lstm(columns)[0])


class UNet3d(nn.Module):
    """A U-Net of volumes."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = Unit(1, 16, rank=3), Unit(16, 32, rank=3)
        self.up = nn.ConvTranspose3d(32, 16, 2, 2)
        self.last = nn.Sequential(Unit(32, 16, rank=3), nn.Conv3d(16, 2, 1))

    def forward(self, x: Tensor) -> Tensor:
        x = self.one(x)
        return self.last(torch.cat([x, self.up(self.two(F.max_pool3d(x, 2)))], 1))


class WaveUNet(nn.Module):
    """A U-Net of sound, with filters of 15 taps."""

    def __init__(self) -> None:
        super().__init__()
        widths = (1, 24, 48, 72)
        self.down = nn.ModuleList(Unit(a, b, 15, rank=1) for a, b in pairwise(widths))
        self.middle = Unit(72, 72, 15, rank=1)
        self.up = nn.ModuleList(Unit(a, b, 5, rank=1) for a, b in ((144, 48), (96, 24), (48, 24)))
        self.last = nn.Conv1d(24, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        seen = []
        for block in self.down:
            x = block(x)
            seen.append(x)
            x = x[..., ::2]
        x = self.middle(x)
        for block in self.up:
            x = block(torch.cat([F.interpolate(x, scale_factor=2.0), seen.pop()], 1))
        return torch.tanh(self.last(x))


NOT_AS_C = ("torch", "onnx", "bundle")
SUBJECTS = {
    "resnet": Subject(ResNet, (1, 3, 128, 128), (2, 3, 96, 160)),
    "unet": Subject(UNet, (1, 3, 128, 128), (1, 3, 96, 64)),
    "rrdb": Subject(RRDB, (1, 3, 64, 64), (1, 3, 48, 80)),
    "mobilenet": Subject(mobilenet, (1, 3, 160, 160), (2, 3, 128, 96)),
    "detector": Subject(Detector, (1, 3, 160, 160), (1, 3, 96, 128)),
    "transformer": Subject(transformer, (1, 3, 64, 64), (1, 3, 64, 64)),
    "reader": Subject(Reader, (1, 1, 32, 128), (2, 1, 32, 96), NOT_AS_C),
    "unet3d": Subject(UNet3d, (1, 1, 24, 32, 32), (1, 1, 16, 24, 32)),
    "waveunet": Subject(WaveUNet, (1, 1, 4096), (2, 1, 2048)),
}


def prepared(name: str) -> nn.Module:
    """Return a network in eval mode; its normalizations have seen something."""
    torch.manual_seed(0)
    model = SUBJECTS[name].make()
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.running_mean.normal_(0, 0.2)
            module.running_var.uniform_(0.5, 1.5)
            module.weight.data.uniform_(0.5, 1.5)
    return model.eval()


def inputs(shape: tuple[int, ...], seed: int = 1) -> Tensor:
    """Return normally distributed numbers."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))
