"""Sizes not seen before: whether segments are ready for a call, and what they need if they aren't.

Until all are ready the model computes such a call as it always did, and nothing is done for later
calls before it has returned.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, fx

from winogen.graph.later import go_on
from winogen.graph.shapes import Shape
from winogen.torch.meta import WithoutNumbers
from winogen.torch.segment_op import SegmentModule, noting

# Sizes of calls whose needs are remembered; each is some tuples.
_SIZES_KEPT = 1024

_Key = tuple[tuple[torch.Size, torch.dtype], ...]
_Needs = tuple[tuple[SegmentModule, tuple[Shape, ...]], ...]  # each segment, and its inputs' shapes


class Readiness:
    """What the segments of a built module need for calls of each size."""

    def __init__(self, body: fx.GraphModule):
        self._body = body
        self._is_torchs = not any(isinstance(one, SegmentModule) for one in body.modules())
        self._needs: dict[_Key, _Needs | None] = {}  # None: to be learned from a run

    def holds(self, tensors: Sequence[Tensor]) -> bool:
        """Whether the module is to run: every segment is ready, or left to torch for good."""
        if self._is_torchs:
            return True
        key = _key(tensors)
        needs = self._needs.get(key, ())
        if not needs:
            return needs is None or key in self._needs
        return all(module.is_settled(shapes) for module, shapes in needs)

    def run(self, tensors: Sequence[Tensor]) -> Any:
        """Return what the module makes of tensors."""
        key = _key(tensors)
        if self._is_torchs or self._needs.get(key) is not None:
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

    def learn(self, tensors: Sequence[Tensor]) -> None:
        """Find out what a call of these sizes needs, whose segments ran for somebody else."""
        self.advance(_key(tensors))

    def advance(self, key: _Key) -> None:
        """Find out what calls of a size need, and have a thread go on with that."""
        needs: _Needs | None = None
        # What meta tensors do not tell, a run does.
        with suppress(Exception):
            shapes = _Shapes(self._body)
            shapes.on(key)
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


class _Shapes(WithoutNumbers):
    """Finds what the segments of a built module are given."""

    def __init__(self, body: fx.GraphModule):
        super().__init__(body)
        self.found: list[tuple[SegmentModule, tuple[Shape, ...]]] = []

    def fetch_attr(self, target: str) -> Any:
        """Return a segment as it is."""
        held = fx.Interpreter.fetch_attr(self, target)
        return held if isinstance(held, SegmentModule) else super().fetch_attr(target)

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Note what a segment is given."""
        module = self.fetch_attr(target)
        if isinstance(module, SegmentModule):
            self.found.append((module, tuple(tuple(x.shape) for x in args)))
        return module(*args, **kwargs)
