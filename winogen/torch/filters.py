"""Filters of a graph as tensors, so that what they share with a model is moved and saved once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from winogen.graph import Graph


def filters_of(graph: Graph) -> list[Any]:
    """Return the filters of all convolutions, without factors: arrays, or tensors put there."""
    convolutions: list[Any] = [node.op for node in graph.convolutions]
    return [op.filters for op in convolutions]


def with_filters(graph: Graph, filters: Sequence[Any]) -> Graph:
    """Return the graph with others in the places of `filters_of`."""
    others = iter(filters)

    def changed(op: Any) -> Any:
        return op.with_filters(next(others)) if op.is_convolution else op

    return graph.with_nodes([replace(node, op=changed(node.op)) for node in graph.nodes])


def as_tensor(array: np.ndarray) -> torch.Tensor:
    """Return a tensor of the same memory; of the same storage where the array is one of torch's."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if not isinstance(base, torch.Tensor):
        return torch.from_numpy(array if array.flags.writeable else array.copy())
    storage, like = base.untyped_storage(), torch.from_numpy(array)
    offset = (like.data_ptr() - storage.data_ptr()) // array.itemsize
    return seen(storage, like, offset)


def seen(storage: torch.UntypedStorage, like: torch.Tensor, offset: int) -> torch.Tensor:
    """Return a tensor in a storage with the type, sizes and strides of another."""
    return torch.empty(0, dtype=like.dtype).set_(storage, offset, like.size(), like.stride())
