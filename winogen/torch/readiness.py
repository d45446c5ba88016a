"""Sizes not seen before: whether segments are ready for a call, and what they need if they aren't.

Until all are ready the model computes such a call as it always did, and nothing is done for later
calls before it has returned.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, fx, nn

from winogen.graph.later import go_on
from winogen.graph.shapes import Shape
from winogen.torch.segment_op import SegmentModule, noting

# Sizes of calls whose needs are remembered; each is some tuples.
_SIZES_KEPT = 1024

_Key = tuple[tuple[torch.Size, torch.dtype], ...]
_Needs = tuple[tuple[SegmentModule, tuple[Shape, ...]], ...]  # each segment, and its inputs' shapes


class Readiness:
    """What the segments of a built module need for calls of each size."""

    def __init__(self, body: fx.GraphModule):
        self._body = body
        self._needs: dict[_Key, _Needs | None] = {}  # None: to be learned from a run

    def holds(self, tensors: Sequence[Tensor]) -> bool:
        """Whether the module is to run: every segment is ready, or left to torch for good."""
        key = _key(tensors)
        needs = self._needs.get(key, ())
        if not needs:
            return needs is None or key in self._needs
        return all(module.is_settled(shapes) for module, shapes in needs)

    def run(self, tensors: Sequence[Tensor]) -> Any:
        """Return what the module makes of tensors."""
        key = _key(tensors)
        if self._needs.get(key) is not None:
            return self._body(*tensors)
        with noting() as calls:
            result = self._body(*tensors)
        self._remember(key, tuple(calls))
        return result

    def ask(self, tensors: Sequence[Tensor]) -> None:
        """Have a thread go on with what a call of these sizes lacks; to be called behind it."""
        key = _key(tensors)
        with suppress(Exception):  # what went wrong the next call says, if it matters there
            if key in self._needs:
                self._ask(self._needs[key] or ())
            else:
                go_on(self, (key,), None)

    def advance(self, key: _Key) -> None:
        """Find out what calls of a size need, and have a thread go on with that."""
        needs: _Needs | None = None
        # What meta tensors do not tell, a run does.
        with suppress(Exception), torch.no_grad(), torch.device("meta"):
            shapes = _Shapes(self._body)
            shapes.run(*(torch.empty(size, dtype=dtype) for size, dtype in key))
            needs = tuple(shapes.found)
        self._remember(key, needs)
        self._ask(needs or ())

    def _ask(self, needs: _Needs) -> None:
        for module, shapes in needs:
            if not module.is_settled(shapes):
                module.soon(shapes)

    def _remember(self, key: _Key, needs: _Needs | None) -> None:
        if len(self._needs) >= _SIZES_KEPT:
            del self._needs[next(iter(self._needs))]
        self._needs[key] = needs


def _key(tensors: Sequence[Tensor]) -> _Key:
    return tuple([(tensor.shape, tensor.dtype) for tensor in tensors])


class _Shapes(fx.Interpreter):
    """Runs a built module on tensors without numbers, and finds what its segments are given."""

    def __init__(self, body: fx.GraphModule):
        super().__init__(body)
        self.found: list[tuple[SegmentModule, tuple[Shape, ...]]] = []

    def fetch_attr(self, target: str) -> Any:
        """Return a tensor or a module of the body without its numbers."""
        held = super().fetch_attr(target)
        if isinstance(held, Tensor):
            return held.to("meta")
        return held if isinstance(held, SegmentModule) else _without_numbers(held)

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Note what a segment is given."""
        module = self.fetch_attr(target)
        if isinstance(module, SegmentModule):
            self.found.append((module, tuple(tuple(x.shape) for x in args)))
        return module(*args, **kwargs)


def _without_numbers(module: nn.Module) -> nn.Module:
    """Return a copy with tensors that have only sizes; other threads may run the module."""
    tables = (vars(m) | m._parameters | m._buffers for m in module.modules())
    tensors = [x for table in tables for x in table.values() if isinstance(x, Tensor)]
    with torch.no_grad():
        return copy.deepcopy(module, {id(x): x.detach().to("meta") for x in tensors})
