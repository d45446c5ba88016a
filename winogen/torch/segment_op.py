"""The operator `winogen::segment`: a part of a network as one call of torch.

A tensor can stand for a segment in no schema, so the operator takes its number. Numbers are random,
so that what another process traced meets no segment of this one by chance.
"""

from __future__ import annotations

import secrets
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch import nn

from winogen.errors import BuildError, InvalidType, InvalidValue, Unsupported
from winogen.graph import Graph, Segment
from winogen.graph.later import waits
from winogen.graph.shapes import Shape
from winogen.graph.steps import Bound
from winogen.torch.arrays import memory_format
from winogen.torch.filters import as_tensor, filters_of, with_filters
from winogen.torch.plain import PlainGraph
from winogen.torch.watched import transformed

_Module = TypeVar("_Module", bound=nn.Module)

library = torch.library.Library("winogen", "FRAGMENT")
library.define("segment(Tensor[] inputs, int number) -> Tensor[]")

_segments: WeakValueDictionary[int, SegmentModule] = WeakValueDictionary()
_noted = threading.local()  # calls of segments, where somebody wants to know
_LEFT_KEPT = 1024  # sizes that one segment remembers to leave to torch
_told: set[str] = set()  # why kernels could not be compiled
_DTYPES = {np.dtype(np.float32): torch.float32, np.dtype(np.float64): torch.float64}
# Computed in the segment's own type and rounded, as torch does it under autocast.
_NARROW = (torch.bfloat16, torch.float16)


class SegmentModule(nn.Module):
    """A segment of a network, with weights of its own: no parameters, nothing in the state.

    The options are the same as for `Segment`; ``threads`` None is what torch uses at the time of a
    call.
    """

    def __init__(self, graph: Graph, **options: Any):
        super().__init__()
        self._begin(graph, options)

    def _begin(self, graph: Graph, options: dict[str, Any]) -> None:
        self.options = options
        self.segment = Segment(graph, **options)
        self.dtype = _DTYPES[self.segment.dtype]
        self.single = len(graph.outputs) == 1
        self.number = secrets.randbits(62)
        self._plain = threading.local()  # what torch runs instead, made when it is needed
        self._left: set[Any] = set()  # shapes and threads for which that is so
        _segments[self.number] = self

    def forward(self, *inputs: torch.Tensor) -> Any:
        """Return the output, or a list of several."""
        if transformed() or (torch.is_grad_enabled() and any(x.requires_grad for x in inputs)):
            outputs = self.plain()(*inputs)  # slowly, and with the right gradients
        else:
            outputs = torch.ops.winogen.segment(list(inputs), self.number)
        return outputs[0] if self.single else outputs

    def memory_format(self, axes: int) -> torch.memory_format:
        """How a tensor of so many axes lies in memory."""
        return memory_format(self.segment.layout, axes)

    def plain(self) -> PlainGraph:
        """Return the same by torch's own functions."""
        plain: PlainGraph | None = getattr(self._plain, "graph", None)
        if plain is None:
            plain = self._plain.graph = PlainGraph(self.segment.graph)
        return plain

    def soon(self, shapes: tuple[Shape, ...]) -> Bound | None:
        """Return the segment for inputs of these shapes; None where torch computes it.

        That is so for sizes, and until there are kernels: a thread goes on with these.
        """
        key = self._key(shapes)
        try:
            return self.segment.soon(*key)
        except InvalidValue:
            self._leave(key)
            if _output_shapes(self.segment, shapes) is not None:  # it is not the sizes
                raise
        except BuildError as problem:
            self._leave(key)
            if waits():
                raise
            _tell(problem)
        return None

    def is_settled(self, shapes: tuple[Shape, ...]) -> bool:
        """Whether there are kernels for these shapes, or torch computes them for good."""
        key = self._key(shapes)
        return self.segment.is_bound(*key) or key in self._left

    def _leave(self, key: Any) -> None:
        if len(self._left) >= _LEFT_KEPT:
            self._left.clear()
        self._left.add(key)

    def _key(self, shapes: tuple[Shape, ...]) -> tuple[tuple[Shape, ...], int]:
        return shapes, self.options.get("threads") or torch.get_num_threads()

    def forget(self) -> object:
        """Forget what was made for any shape, as `Segment.forget` does, and torch's twin."""
        self._plain = threading.local()
        self._left = set()
        return self.segment.forget()

    def extra_repr(self) -> str:
        """What it computes."""
        return str(self.segment.graph)

    def _apply(self, fn: Any, recurse: bool = True) -> SegmentModule:
        """Refuse what `.to` of another type or device would need; the weights are no tensors."""
        probe = fn(torch.empty(0, dtype=self.dtype))
        if probe.device.type != "cpu" or probe.dtype != self.dtype:
            raise Unsupported(
                f"to: got {probe.dtype} on {probe.device}; allowed: {self.dtype} on the CPU, which "
                "this model was optimized for. Convert the original, then optimize it"
            )
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles carry the graph; kernels are planned and loaded where they arrive.

        Its filters travel as tensors: torch saves once what they share with the model.
        """
        graph = self.segment.graph
        graph = with_filters(graph, list(map(as_tensor, filters_of(graph))))
        return {"graph": graph, "options": self.options, "training": self.training}

    def __setstate__(self, state: dict[str, Any]) -> None:
        nn.Module.__init__(self)
        graph = state["graph"]
        graph = with_filters(graph, [np.asarray(filters) for filters in filters_of(graph)])
        self._begin(graph, state["options"])
        self.training = state["training"]

    def __deepcopy__(self, memo: dict) -> SegmentModule:
        """The copy shares the weights, which nobody writes."""
        copy = SegmentModule(self.segment.graph, **self.options)
        memo[id(self)] = copy
        return copy.train(self.training)


def numbered(modules: Mapping[int, _Module], number: int, what: str) -> _Module:
    """Return the module of a number that an operator got; raises InvalidValue."""
    module = modules.get(number)
    if module is None:
        raise InvalidValue(
            f"{what}: got the number {number}; allowed: one of a model that was optimized in this "
            "process and still exists. A trace keeps no parts: save the optimized model itself"
        )
    return module


def _run(inputs: list[torch.Tensor], number: int) -> list[torch.Tensor]:
    """The segment on CPU tensors (N, C, H, W), (N, C, D, H, W) of any memory format."""
    module = numbered(_segments, number, "segment")
    dtype, given = module.dtype, inputs[0].dtype
    if any(x.dtype != dtype for x in inputs):
        if not all(x.dtype in (dtype, *_NARROW) for x in inputs):
            kinds = ", ".join(sorted({str(x.dtype) for x in inputs}))
            raise InvalidType(f"input: got {kinds}; allowed: {dtype}, as the weights")
        inputs = [x.to(dtype) for x in inputs]
    shapes = tuple([tuple(x.shape) for x in inputs])
    calls = getattr(_noted, "calls", None)
    if calls is not None:
        calls.append((module, shapes))
    bound = module.soon(shapes)
    if bound is None:
        return [y.to(given).clone() for y in module.plain()(*inputs)]
    inputs = [x.contiguous(memory_format=module.memory_format(x.dim())) for x in inputs]
    outputs = [
        torch.empty(shape, dtype=dtype, memory_format=module.memory_format(len(shape)))
        for shape in bound.planned.outputs
    ]
    bound.run([x.data_ptr() for x in (*inputs, *outputs)])
    return [y.to(given) for y in outputs] if given != dtype else outputs


@contextmanager
def noting() -> Iterator[list[tuple[SegmentModule, tuple[Shape, ...]]]]:
    """Give a list of the segments that this thread runs within it, and the shapes of inputs."""
    before = getattr(_noted, "calls", None)
    calls: list[tuple[SegmentModule, tuple[Shape, ...]]] = []
    _noted.calls = calls
    try:
        yield calls
    finally:
        _noted.calls = before


def _tell(problem: BuildError) -> None:
    """Warn, once, that torch goes on to compute a part."""
    if str(problem) not in _told:
        _told.add(str(problem))
        warnings.warn(
            "torch computes a part of an optimized model, since a kernel for inputs of these "
            f"sizes could not be compiled: {problem} (docs/torch.md says more of new sizes)",
            RuntimeWarning,
            stacklevel=4,
        )


def _output_shapes(segment: Segment, shapes: Sequence[Shape]) -> list[Shape] | None:
    """The shapes of outputs, or None for sizes that only torch can judge.

    It may repeat what is added, or say what is wrong in its own words.
    """
    try:
        return segment.output_shapes(shapes)
    except InvalidValue:
        return None


def _fake(inputs: list[torch.Tensor], number: int) -> list[torch.Tensor]:
    module, first = numbered(_segments, number, "segment"), inputs[0]
    shapes = _output_shapes(module.segment, [tuple(x.shape) for x in inputs])
    if shapes is None:
        return list(module.plain()(*inputs))
    return [
        torch.empty(
            shape,
            dtype=first.dtype,
            device=first.device,
            memory_format=module.memory_format(len(shape)),
        )
        for shape in shapes
    ]


def refuse_device(inputs: list[torch.Tensor], number: int) -> list[torch.Tensor]:
    """Raise Unsupported: kernels are for the CPU."""
    devices = ", ".join(sorted({str(x.device) for x in inputs}))
    raise Unsupported(
        f"input: got a tensor on {devices}; allowed: the CPU, which this model was optimized for"
    )


library.impl("segment", _run, "CPU")
library.impl("segment", refuse_device, "CUDA")
torch.library.register_fake("winogen::segment", _fake, lib=library)
