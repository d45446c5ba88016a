"""Tensors as arrays and arrays as tensors, over the same memory.

A layout is chosen by how the input lies in memory, and the output lies likewise: torch's
channels-last is winogen's NHWC.
"""

from __future__ import annotations

import numpy as np
import torch

from winogen.conv.arguments import LAYOUTS
from winogen.typing import Layout

PLANAR, CHANNELS_LAST = "NCHW", "NHWC"


def layout(tensor: torch.Tensor, weight: torch.Tensor) -> str:
    """Return the layout in which to compute on ``tensor``, (N, C, H, W) or of other axes.

    A tensor with one channel or one pixel is contiguous in both senses; it follows ``weight``, so
    that the first layer of a channels-last net on a grey picture is channels-last, too. A slice of
    the channels of a larger tensor is contiguous in neither; then the strides tell. Signals are
    planar, as torch knows no other format of theirs.
    """
    if tensor.is_contiguous() or tensor.dim() not in (4, 5):
        both = tensor.shape[1] == 1 or all(size == 1 for size in tensor.shape[2:])
        return CHANNELS_LAST if both and is_channels_last(weight) else PLANAR
    if is_channels_last(tensor):
        return CHANNELS_LAST
    return CHANNELS_LAST if tensor.stride(1) == 1 and tensor.shape[1] > 1 else PLANAR


def named(layout: str, rank: int) -> Layout:
    """Return winogen's name of a layout, of layers with so many axes."""
    return LAYOUTS[rank][layout == CHANNELS_LAST]


def memory_format(layout: str, axes: int = 4) -> torch.memory_format:
    """Return torch's name of a layout, of tensors with so many axes.

    Those without channels, of fewer than 4, have only one.
    """
    if layout != CHANNELS_LAST or axes not in (4, 5):
        return torch.contiguous_format
    return torch.channels_last if axes == 4 else torch.channels_last_3d


def is_channels_last(tensor: torch.Tensor) -> bool:
    """Whether a tensor of images or volumes has its channels last, and in no sense first."""
    if tensor.dim() not in (4, 5) or tensor.is_contiguous():
        return False
    return tensor.is_contiguous(memory_format=memory_format(CHANNELS_LAST, tensor.dim()))


def is_planar(tensor: torch.Tensor) -> bool:
    """Whether torch's functions give contiguous results for it: its channels do not lie last."""
    if tensor.is_contiguous() or tensor.dim() not in (4, 5):
        return True
    return tensor.stride(1) >= tensor.stride(-1)


# By the number of axes: with channels last, and with channels first again.
_LAST = {axes: (0, *range(2, axes), 1) for axes in (3, 4, 5)}
_FIRST = {axes: (0, axes - 1, *range(1, axes - 1)) for axes in (3, 4, 5)}


def array(tensor: torch.Tensor, layout: str) -> np.ndarray:
    """Return a view of (N, C, H, W), or of other axes, with these in the order of ``layout``."""
    if tensor.requires_grad:
        tensor = tensor.detach()
    if tensor.is_neg():
        tensor = tensor.resolve_neg()
    return (tensor.permute(_LAST[tensor.dim()]) if layout == CHANNELS_LAST else tensor).numpy()


def tensor(array: np.ndarray, layout: str) -> torch.Tensor:
    """Return an array with the axes of ``layout`` as a tensor (N, C, H, W) over its memory.

    numpy permutes the axes, because autograd allows no change in place of a view that an operator
    returned.
    """
    planar = layout != CHANNELS_LAST
    return torch.from_numpy(array if planar else array.transpose(_FIRST[array.ndim]))
