"""What is known of a model follows from: digests that are the same in every process."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from typing import Any

import torch
from torch import nn

from winogen.torch.calling import Calls


def facts_of(
    model: nn.Module, calls: Calls, exclude: Collection[Any], options: Mapping[str, Any]
) -> tuple[object, ...]:
    """Return what times and kernels follow from, beside the trace: no numbers."""
    return (
        torch.__version__,
        str(model),
        [(name, t.dtype, t.shape) for name, t in model.state_dict().items()],
        [(t.dtype, t.shape, t.stride()) for t in calls.tensors],
        sorted(map(str, exclude)),
        sorted(options.items()),
        torch.get_num_threads(),
    )


def numbers_of(model: nn.Module, calls: Calls, more: Iterable[Iterable[torch.Tensor]]) -> str:
    """Return a digest of the numbers of a model and its inputs; "" where some are hard to read."""
    return digest_of("", [*model.parameters(), *model.buffers(), *calls.tensors, *chain(*more)])


def digest_of(earlier: str, values: Iterable[Any]) -> str:
    """Return a digest of the tensors among ``values``, behind an ``earlier`` one; "" as above."""
    found = hashlib.sha256(earlier.encode())
    try:
        for tensor in filter(torch.is_tensor, values):
            found.update(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    except (RuntimeError, TypeError):  # sparse ones, and others of no plain memory
        return ""
    return found.hexdigest()
