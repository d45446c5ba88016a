"""Inputs like the example of a model: other numbers, another batch, other sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized

import torch
from torch import Tensor

from winogen.torch.arrays import CHANNELS_LAST, memory_format

SEED = 20
PERTURBED = 1e-6  # relative to every number of an input
# What is added to heights and widths, or to half of them; all but the first are for models that
# want multiples.
_MORE = ((1, 2), (16, 32), (32, 64))
_LARGE = 32  # maps of so many rows and columns are halved
_LOUD = 4.0  # times as large as the example: what is cut off is cut off, then


def others(
    tensors: Sequence[Tensor], accepted: Sized, sides: int
) -> Iterator[tuple[str, list[Tensor]]]:
    """Yield names and tensors; ``accepted`` grows by the cases that the model takes.

    Every call takes its time. So one has other numbers and the channels last, and one another batch
    and another size, where a model takes both at once. The sides of large maps are half as long
    there; where calls take long, they are ``sides`` times as short in all of these cases.
    """
    generator = torch.Generator().manual_seed(SEED)
    maps = list(filter(_is_map, tensors))
    other = [_redrawn(tensor, generator) for tensor in tensors]
    ways = [("other content", other)]
    if maps:
        ways.insert(0, ("other content, channels last", list(map(_channels_last, other))))
        height, width = maps[0].shape[-2:]
        smaller = (size for size in _other_sizes(height, width, sides) if size[0] < height)
        ways = [
            (
                f"other content of {high}x{wide} pixels, channels last",
                list(map(_channels_last, _resized(tensors, generator, high, wide))),
            )
            for high, wide in (smaller if sides > 1 else ())
        ] + ways
    yield from _first(ways, accepted)
    if not maps:
        return
    batch, *_, height, width = maps[0].shape
    more = f"a batch of {batch + 1}"
    sizes = list(_other_sizes(height, width, sides))
    if batch:
        both = (
            (f"{more} of {high}x{wide} pixels", _resized(tensors, generator, high, wide, batch))
            for high, wide in sizes
        )
        before = len(accepted)
        yield from _first(both, accepted)
        if len(accepted) > before:
            return
        yield more, [_one_more(t) if t.dim() and len(t) == batch else t for t in tensors]
    alone = (
        (f"{high}x{wide} pixels", _resized(tensors, generator, high, wide)) for high, wide in sizes
    )
    yield from _first(alone, accepted)


def _first(
    ways: Iterable[tuple[str, list[Tensor]]], accepted: Sized
) -> Iterator[tuple[str, list[Tensor]]]:
    """Yield names and tensors until a model takes one."""
    before = len(accepted)
    for way in ways:
        if len(accepted) > before:
            return
        yield way


def _other_sizes(height: int, width: int, sides: int) -> Iterator[tuple[int, int]]:
    """Sizes of maps: small ones are soon computed, but a model may want multiples or more."""
    for parts in (4, 2)[sides < 4 :] if min(height, width) >= _LARGE else ():
        for high, wide in _MORE:
            small = (
                (height // parts + high) // high * high,
                (width // parts + wide) // wide * wide,
            )
            if small != (height, width):
                yield small
    for high, wide in _MORE:
        yield height + high, width + wide


def _resized(
    tensors: Sequence[Tensor], generator: torch.Generator, high: int, wide: int, batch: int = 0
) -> list[Tensor]:
    """Tensors whose maps have another size, and where they have this ``batch`` one image more."""
    height, width = next(filter(_is_map, tensors)).shape[-2:]
    changed = []
    for tensor in tensors:
        shape = list(tensor.shape)
        if _is_map(tensor):  # the depth of volumes changes with the rows
            shape[2:-1] = [max(1, size + high - height) for size in shape[2:-1]]
            shape[-1] = max(1, shape[-1] + wide - width)
        if batch and shape and shape[0] == batch:
            shape[0] += 1
        if _is_map(tensor):
            tensor = _LOUD * _redrawn(tensor, generator, shape)
        elif shape != list(tensor.shape):
            tensor = _one_more(tensor)
        changed.append(tensor)
    return changed


def _one_more(tensor: Tensor) -> Tensor:
    return torch.cat([tensor, tensor[:1].flip(-1)])


def _channels_last(tensor: Tensor) -> Tensor:
    if tensor.dim() not in (4, 5):
        return tensor
    return tensor.contiguous(memory_format=memory_format(CHANNELS_LAST, tensor.dim()))


def _is_map(tensor: Tensor) -> bool:
    """Whether a tensor may be a map or volumes."""
    return tensor.dim() in (4, 5) and tensor.is_floating_point()


def alike(tensors: Sequence[Tensor], seed: int) -> list[Tensor]:
    """Return tensors of the same sizes whose numbers are about as large: normal ones."""
    generator = torch.Generator().manual_seed(SEED + seed)
    return [_redrawn(tensor, generator) for tensor in tensors]


def _redrawn(
    tensor: Tensor, generator: torch.Generator, shape: Sequence[int] | None = None
) -> Tensor:
    """Numbers of about the same size; what is no float is turned around."""
    if not tensor.is_floating_point() or not tensor.numel():
        return tensor.flip(0) if tensor.dim() else tensor
    numbers = tensor.double()
    spread = float(numbers.std()) if tensor.numel() > 1 else 1.0
    drawn = torch.randn(shape or tensor.shape, generator=generator, dtype=torch.float64)
    return (drawn * spread + float(numbers.mean())).to(tensor.dtype)


def near(tensor: Tensor, generator: torch.Generator) -> Tensor:
    if not tensor.is_floating_point():
        return tensor.clone()
    noise = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
    return (tensor.double() * (1 + PERTURBED * noise)).to(tensor.dtype)
