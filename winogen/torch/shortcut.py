"""The short way of a call that is like the one before: a few comparisons, and the kernel runs.

A layer of a small net takes some ten microseconds, and finding out layout, kernel and packed
weights may take as many again. So the last answer is kept beside the packed weights, with all that
it depends on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from winogen.conv.convolution import Convolution
from winogen.conv.memory import empty
from winogen.torch import packing
from winogen.torch.arrays import PLANAR, memory_format, tensor

if TYPE_CHECKING:
    from winogen.conv.executable import Executable

_LARGE = 1 << 20  # bytes of an output


class Shortcut(NamedTuple):
    """How an input of some shape was computed, in memory that kernels take as it is."""

    wanted: Any  # the options
    threads: int  # of torch
    dtype: torch.dtype
    shape: torch.Size
    strides: tuple[int, ...]
    packed: packing.Packed
    prepared: Executable
    weights: tuple[Any, ...]  # pointers
    layout: str
    result: tuple[tuple[int, ...], tuple[int, ...]]  # sizes and strides of the output

    def run(self, input: Tensor) -> Tensor:
        """Compute; ``input`` is like the one that this was made for."""
        prepared = self.prepared
        if prepared.output_bytes < _LARGE:
            y = input.new_empty_strided(*self.result)
        else:  # fresh pages may take longer than a layer: memory of tensors that are gone is used
            y = tensor(empty(prepared.output_shape, prepared.dtype, "output"), self.layout)
        addresses = self.packed.addresses
        prepared.run_at(self.weights, input.data_ptr(), *addresses, 0, 0, y.data_ptr())
        return y


def like_before(
    input: Tensor, weight: Tensor, bias: Tensor | None, slopes: Tensor | None, wanted: Any
) -> Tensor | None:
    """Return the output if the last call with this weight was alike, and nothing has changed."""
    entry = packing.entry(weight)
    if entry is None or entry.shortcut is None or entry.trained:
        return None
    last: Shortcut = entry.shortcut
    if (
        last.wanted == wanted
        and last.threads == torch.get_num_threads()
        and last.dtype is input.dtype
        and last.shape == input.shape
        and last.strides == input.stride()
        and input.is_cpu
        and not input.is_neg()
        and not input.data_ptr() & 7
        and entry.stamp.holds(weight)
        and last.packed.holds((bias, slopes))
    ):
        return last.run(input)
    return None


def whole(input: Tensor, packed: packing.Packed, way: str, wanted: Any) -> Shortcut | None:
    """Return how to compute ``input`` without seams, or None where it is not taken as it is.

    That is for slices of channels, for no images, for what is still to be negated, and for
    transposed layers, which may take several kernels.
    """
    images, channels, *sizes = input.shape
    if (
        not isinstance(packed.conv, Convolution)
        or not input.is_contiguous(memory_format=memory_format(way, input.dim()))
        or not images
        or input.is_neg()
        or input.data_ptr() & 7
    ):
        return None
    planar = way == PLANAR
    shape = (images, channels, *sizes) if planar else (images, *sizes, channels)
    prepared, weights = packed.conv.bound(shape)
    # A tensor without memory knows how an output lies.
    like = torch.empty(prepared.output_shape, device="meta")
    like = like if planar else like.movedim(-1, 1)
    return Shortcut(
        wanted,
        torch.get_num_threads(),
        input.dtype,
        input.shape,
        input.stride(),
        packed,
        prepared,
        weights,
        way,
        (tuple(like.shape), like.stride()),
    )
