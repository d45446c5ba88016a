"""Inception-v3 (arXiv 1512.00567) without its auxiliary classifier, which inference leaves out."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from winogen_lab.nets.blocks import Classifier, ConvBN


def _conv(
    inputs: int,
    outputs: int,
    kernel: int | tuple[int, int],
    stride: int = 1,
    padding: int | None = None,
) -> ConvBN:
    return ConvBN(inputs, outputs, kernel, stride, padding, eps=1e-3)


class Branches(nn.Module):
    """Branches on the same input, their channels behind one another."""

    def __init__(self, *branches: nn.Module):
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


def _pooled(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.AvgPool2d(3, 1, 1), _conv(inputs, outputs, 1))


def _on_35(inputs: int, pooled: int) -> Branches:
    """5x5, and twice 3x3."""
    return Branches(
        _conv(inputs, 64, 1),
        nn.Sequential(_conv(inputs, 48, 1), _conv(48, 64, 5)),
        nn.Sequential(_conv(inputs, 64, 1), _conv(64, 96, 3), _conv(96, 96, 3)),
        _pooled(inputs, pooled),
    )


def _to_17(inputs: int) -> Branches:
    return Branches(
        _conv(inputs, 384, 3, 2, 0),
        nn.Sequential(_conv(inputs, 64, 1), _conv(64, 96, 3), _conv(96, 96, 3, 2, 0)),
        nn.MaxPool2d(3, 2),
    )


def _on_17(width: int) -> Branches:
    """7x7 as 1x7 and 7x1."""
    return Branches(
        _conv(768, 192, 1),
        nn.Sequential(_conv(768, width, 1), _conv(width, width, (1, 7)), _conv(width, 192, (7, 1))),
        nn.Sequential(
            _conv(768, width, 1),
            _conv(width, width, (7, 1)),
            _conv(width, width, (1, 7)),
            _conv(width, width, (7, 1)),
            _conv(width, 192, (1, 7)),
        ),
        _pooled(768, 192),
    )


def _to_8() -> Branches:
    return Branches(
        nn.Sequential(_conv(768, 192, 1), _conv(192, 320, 3, 2, 0)),
        nn.Sequential(
            _conv(768, 192, 1),
            _conv(192, 192, (1, 7)),
            _conv(192, 192, (7, 1)),
            _conv(192, 192, 3, 2, 0),
        ),
        nn.MaxPool2d(3, 2),
    )


def _on_8(inputs: int) -> Branches:
    def fork() -> Branches:
        return Branches(_conv(384, 384, (1, 3)), _conv(384, 384, (3, 1)))

    return Branches(
        _conv(inputs, 320, 1),
        nn.Sequential(_conv(inputs, 384, 1), fork()),
        nn.Sequential(_conv(inputs, 448, 1), _conv(448, 384, 3), fork()),
        _pooled(inputs, 192),
    )


def inception_v3() -> nn.Sequential:
    """Return Inception-v3: (N, 3, 299, 299) to (N, 1000)."""
    return nn.Sequential(
        _conv(3, 32, 3, 2, 0),
        _conv(32, 32, 3, 1, 0),
        _conv(32, 64, 3),
        nn.MaxPool2d(3, 2),
        _conv(64, 80, 1),
        _conv(80, 192, 3, 1, 0),
        nn.MaxPool2d(3, 2),
        _on_35(192, 32),
        _on_35(256, 64),
        _on_35(288, 64),
        _to_17(288),
        _on_17(128),
        _on_17(160),
        _on_17(160),
        _on_17(192),
        _to_8(),
        _on_8(1280),
        _on_8(2048),
        Classifier(2048),
    )
