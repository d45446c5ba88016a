"""Weights in a file without a name: of such memory the system keeps what is in use, and no more.

An optimized model computes from packed filters. It reads the weights themselves only where it packs
filters for another size, is copied or saved, or leaves a call to the model as it was. So nothing is
lost if they lie in a file meanwhile.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np
import torch
from torch import nn

from winogen.errors import OutOfMemory
from winogen.kernels.work import round_up
from winogen.records.machine import LINE
from winogen.torch.base import ConvolutionModule
from winogen.torch.filters import as_tensor, filters_of, seen, with_filters
from winogen.torch.segment_op import SegmentModule


def release(model: nn.Module, body: nn.Module | None) -> None:
    """Move into a file the weights that kernels have in packed form and torch never reads.

    ``body`` computes what ``model`` does by segments; None where modules of ``model`` do it. Raises
    OutOfMemory.
    """
    if body is None:
        released(
            [module.weight for module in model.modules() if isinstance(module, ConvolutionModule)]
        )
        return
    segments = [module.segment for module in body.modules() if isinstance(module, SegmentModule)]
    filters = [list(map(as_tensor, filters_of(one.graph))) for one in segments]
    used = {id(tensor) for tensor in body.parameters()}
    ours = [tensor for tensor in model.parameters() if id(tensor) not in used]
    released([*ours, *chain.from_iterable(filters)])
    for segment, tensors in zip(segments, filters):
        segment.graph = with_filters(segment.graph, [tensor.numpy() for tensor in tensors])


def mapped(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return arrays of bytes with the same numbers, in a file that writing to them leaves alone.

    Raises OutOfMemory where the file has no room.
    """
    begins, size = [], 1
    for array in arrays:
        begins.append(int(round_up(size, LINE)))
        size = begins[-1] + array.nbytes
    try:
        with tempfile.TemporaryFile(prefix="winogen-weights-") as file:
            for begin, array in zip(begins, arrays):
                file.seek(begin)
                file.write(array.data)
            file.truncate(size)
            file.flush()
            there = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY)
    except OSError as problem:
        raise OutOfMemory(
            f"release_weights: got {size} bytes for a file, {problem}; allowed: as many as there "
            "is room for, in the folder that TMPDIR names"
        ) from problem
    return [
        np.frombuffer(there, np.uint8, array.nbytes, begin) for begin, array in zip(begins, arrays)
    ]


def released(tensors: Iterable[torch.Tensor]) -> None:
    """Move tensors into a file; they stay the same objects, and what they share they share."""
    storages: dict[int, list[torch.Tensor]] = {}
    for tensor in tensors:
        plain = type(tensor) in (torch.Tensor, nn.Parameter) and tensor.is_cpu
        if plain and tensor.layout is torch.strided and not tensor.is_inference():
            storages.setdefault(tensor.untyped_storage().data_ptr(), []).append(tensor)
    storages.pop(0, None)  # of tensors without numbers
    moved = mapped([_bytes(some[0]) for some in storages.values()])
    for some, array in zip(storages.values(), moved):
        storage = torch.from_numpy(array).untyped_storage()
        for tensor in some:
            tensor.data = seen(storage, tensor, tensor.storage_offset())


def _bytes(tensor: torch.Tensor) -> np.ndarray:
    """All bytes that a tensor's storage has."""
    numbers: np.ndarray = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage()).numpy()
    return numbers
