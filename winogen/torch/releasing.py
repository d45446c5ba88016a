"""Weights in a file without a name: of such memory the system keeps what is in use, and no more.

An optimized model computes from packed filters. It reads the weights themselves only where it packs
filters for another size, is copied or saved, or leaves a call to the model as it was. So nothing is
lost if they lie in a file meanwhile.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from winogen.errors import OutOfMemory
from winogen.graph import Conv, Graph
from winogen.graph.ir import Scaled
from winogen.kernels.work import round_up
from winogen.records.machine import LINE
from winogen.torch.module import Conv2d
from winogen.torch.segment_op import SegmentModule


def release(model: nn.Module, body: nn.Module | None) -> None:
    """Move into a file the weights that kernels have in packed form and torch never reads.

    ``body`` computes what ``model`` does by segments; None where modules of ``model`` do it. Raises
    OutOfMemory.
    """
    if body is None:
        ours = [module.weight for module in model.modules() if type(module) is Conv2d]
    else:
        used = {id(tensor) for tensor in body.parameters()}
        ours = [tensor for tensor in model.parameters() if id(tensor) not in used]
        for module in body.modules():
            if isinstance(module, SegmentModule):
                module.segment.graph = released_graph(module.segment.graph)
    released(ours)


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


def released(parameters: Iterable[torch.Tensor]) -> None:
    """Move parameters into a file; they stay the same objects, and what they share they share."""
    storages: dict[int, list[torch.Tensor]] = {}
    for tensor in parameters:
        plain = type(tensor) in (torch.Tensor, nn.Parameter) and tensor.is_cpu
        if plain and tensor.layout is torch.strided and not tensor.is_inference():
            storages.setdefault(tensor.untyped_storage().data_ptr(), []).append(tensor)
    storages.pop(0, None)  # of tensors without numbers
    moved = mapped([_bytes(tensors[0]) for tensors in storages.values()])
    for tensors, array in zip(storages.values(), moved):
        storage = torch.from_numpy(array).untyped_storage()
        for tensor in tensors:
            place = tensor.storage_offset(), tensor.size(), tensor.stride()
            tensor.data = torch.empty(0, dtype=tensor.dtype).set_(storage, *place)


def _bytes(tensor: torch.Tensor) -> np.ndarray:
    """All bytes that a tensor's storage has."""
    numbers: np.ndarray = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage()).numpy()
    return numbers


def released_graph(graph: Graph) -> Graph:
    """Return the graph with its filters in a file."""

    def moved(op: Conv, array: np.ndarray) -> Conv:
        filters = array.view(op.weight.dtype).reshape(op.weight.shape)
        if isinstance(op.weight, Scaled):
            return replace(op, weight=replace(op.weight, filters=filters))
        return replace(op, weight=filters)

    ops = [node.op for node in graph.nodes if isinstance(node.op, Conv)]
    filters = [op.weight.filters if isinstance(op.weight, Scaled) else op.weight for op in ops]
    files = mapped([np.ascontiguousarray(one).reshape(-1).view(np.uint8) for one in filters])
    there = {id(op): moved(op, array) for op, array in zip(ops, files)}
    return graph.with_nodes([replace(n, op=there.get(id(n.op), n.op)) for n in graph.nodes])
