"""Traced modules run on tensors that have sizes and types, and no numbers."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, fx, nn

from winogen.tasks.idle import give_way


class WithoutNumbers(fx.Interpreter):
    """Runs a module on meta tensors; others may run it at the same time.

    What follows from numbers raises something.
    """

    def on(self, kinds: Iterable[tuple[tuple[int, ...], torch.dtype]]) -> Any:
        """Run on tensors of these sizes and types."""
        with torch.no_grad(), torch.device("meta"):
            return self.run(*(torch.empty(size, dtype=dtype) for size, dtype in kinds))

    def run_node(self, n: fx.Node) -> Any:
        """Run a node, once threads behind calls may."""
        give_way()
        return super().run_node(n)

    def fetch_attr(self, target: str) -> Any:
        """Return a tensor or a module without its numbers."""
        held = super().fetch_attr(target)
        if isinstance(held, Tensor):
            return held.detach().to("meta")
        return _without_numbers(held) if isinstance(held, nn.Module) else held


def _without_numbers(module: nn.Module) -> nn.Module:
    tables = (vars(m) | m._parameters | m._buffers for m in module.modules())
    tensors = [x for table in tables for x in table.values() if isinstance(x, Tensor)]
    return copy.deepcopy(module, {id(x): x.detach().to("meta") for x in tensors})
