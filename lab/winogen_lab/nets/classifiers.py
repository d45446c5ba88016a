"""Nets that say what a picture shows: VGG-16, ResNet, DenseNet, MobileNet-v2.

Written from the papers (arXiv 1409.1556, 1512.03385, 1608.06993, 1801.04381), with the sizes that
are customary.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from winogen_lab.nets.blocks import Classifier, ConvBN


def vgg16() -> nn.Sequential:
    """Return the thirteen convolutions and five poolings; (N, 3, H, W) to (N, 512, H/32, W/32)."""
    return _vgg((2, 2, 3, 3, 3))


def vgg16_connected() -> nn.Sequential:
    """Return all of VGG-16, connected layers and softmax, too: (N, 3, 224, 224) to (N, 1000)."""
    layers: list[nn.Module] = [vgg16(), nn.Flatten()]
    for inputs, outputs in ((512 * 7 * 7, 4096), (4096, 4096), (4096, 1000)):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1], nn.Softmax(1))


def vgg19() -> nn.Sequential:
    """Return VGG-19: three convolutions more than `vgg16`, one on each of the smaller maps."""
    return _vgg((2, 2, 4, 4, 4))


def _vgg(depths: tuple[int, ...]) -> nn.Sequential:
    layers: list[nn.Module] = []
    channels = 3
    for width, depth in zip((64, 128, 256, 512, 512), depths):
        for _ in range(depth):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
            channels = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers)


class Basic(nn.Module):
    """Two 3x3 convolutions beside a shortcut."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int):
        super().__init__()
        self.branch = nn.Sequential(
            ConvBN(inputs, width, 3, stride), ConvBN(width, width, 3, activation=None)
        )
        self.shortcut = _shortcut(inputs, width, stride)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.relu(self.branch(x) + self.shortcut(x))


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 beside a shortcut; strides are on the 3x3."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int):
        super().__init__()
        self.branch = nn.Sequential(
            ConvBN(inputs, width, 1),
            ConvBN(width, width, 3, stride),
            ConvBN(width, 4 * width, 1, activation=None),
        )
        self.shortcut = _shortcut(inputs, 4 * width, stride)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.relu(self.branch(x) + self.shortcut(x))


def _shortcut(inputs: int, outputs: int, stride: int) -> nn.Module:
    if inputs == outputs and stride == 1:
        return nn.Identity()
    return ConvBN(inputs, outputs, 1, stride, activation=None)


def _resnet(block: type[Basic] | type[Bottleneck], depths: tuple[int, ...]) -> nn.Sequential:
    layers: list[nn.Module] = [ConvBN(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, depth in enumerate(depths):
        width = 64 << stage
        for number in range(depth):
            layers.append(block(channels, width, 2 if stage and not number else 1))
            channels = width * block.expansion
    return nn.Sequential(*layers, Classifier(channels))


def resnet18() -> nn.Sequential:
    """Return ResNet-18: (N, 3, H, W) to (N, 1000)."""
    return _resnet(Basic, (2, 2, 2, 2))


def resnet50() -> nn.Sequential:
    """Return ResNet-50: (N, 3, H, W) to (N, 1000)."""
    return _resnet(Bottleneck, (3, 4, 6, 3))


class Dense(nn.Module):
    """A layer whose 32 channels are put behind its input; it begins with a normalisation."""

    def __init__(self, inputs: int, growth: int = 32):
        super().__init__()
        self.layers = nn.Sequential(
            nn.BatchNorm2d(inputs),
            nn.ReLU(),
            ConvBN(inputs, 4 * growth, 1),
            nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False),
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.layers(x)], 1)


def densenet121() -> nn.Sequential:
    """Return DenseNet-121: (N, 3, H, W) to (N, 1000)."""
    layers: list[nn.Module] = [ConvBN(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for depth in (6, 12, 24, 16):
        for _ in range(depth):
            layers.append(Dense(channels))
            channels += 32
        layers += [nn.BatchNorm2d(channels), nn.ReLU()]
        if depth != 16:
            layers += [nn.Conv2d(channels, channels // 2, 1, bias=False), nn.AvgPool2d(2)]
            channels //= 2
    return nn.Sequential(*layers, Classifier(channels))


class Inverted(nn.Module):
    """1x1 to more channels, depthwise 3x3, 1x1 back; added to the input where shapes agree."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int):
        super().__init__()
        width = inputs * expansion
        layers = [ConvBN(inputs, width, 1, activation=nn.ReLU6)] if expansion > 1 else []
        self.layers = nn.Sequential(
            *layers,
            ConvBN(width, width, 3, stride, groups=width, activation=nn.ReLU6),
            ConvBN(width, outputs, 1, activation=None),
        )
        self.residual = inputs == outputs and stride == 1

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x) if self.residual else self.layers(x)


def mobilenet_v2() -> nn.Sequential:
    """Return MobileNet-v2, width 1: (N, 3, H, W) to (N, 1000)."""
    layers: list[nn.Module] = [ConvBN(3, 32, 3, 2, activation=nn.ReLU6)]
    channels = 32
    for expansion, width, depth, stride in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):  # fmt: skip
        for number in range(depth):
            layers.append(Inverted(channels, width, 1 if number else stride, expansion))
            channels = width
    return nn.Sequential(*layers, ConvBN(320, 1280, 1, activation=nn.ReLU6), Classifier(1280))
