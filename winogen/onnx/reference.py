"""A model in float64, and how far onnxruntime and a rewritten model are from that."""

from __future__ import annotations

import math
from contextlib import suppress
from functools import cached_property
from typing import Any, NamedTuple, get_args

import numpy as np

from winogen.conv import Conv2d
from winogen.conv.stock import stock_of
from winogen.errors import CompilerNotFound
from winogen.graph import simplify
from winogen.graph.ceilings import Errors, errors_of
from winogen.onnx.library import planner
from winogen.onnx.loading import new_session
from winogen.onnx.model import Model
from winogen.onnx.probes import Feed
from winogen.onnx.reading import read
from winogen.onnx.writing import Writer
from winogen.tasks.limit import limit
from winogen.toolchain import host_target
from winogen.typing import Layout2d

# Multiplications in float64 that are too many: they take some ten seconds on a core.
_MOST_PRODUCTS = 2e11


class Running(NamedTuple):
    """A model in a session that has run once, so that its kernels and plans are there."""

    session: Any
    outputs: list[Any]
    predicted: float  # the largest error of a layer that winogen predicts


def started(proto: Any, feed: Feed, threads: int, library: str = "") -> Running | None:
    """Return a model after its first run; None if onnxruntime does not run it.

    Or if the limit of seconds ends before its kernels are compiled: `Planner.late` has which.
    """
    try:
        # With the sums of bytes that its users get, and their speed.
        session = new_session(proto, library=library, threads=threads, saturates=True, spins=True)
        with planner().recording(limit=limit()) as answers:
            outputs = session.run(None, feed)
    except Exception:  # onnxruntime's own kinds of errors; what is wrong, the proof says
        return None
    predicted = (error.planned for answer in answers for error in answer.errors)
    return Running(session, outputs, max(predicted, default=0.0))


class Reference:
    """The outputs of a model of known sizes on ``feed``, by onnxruntime and in float64.

    ``threads``: of sessions, 0 for all.
    """

    def __init__(self, model: Model, feed: Feed, threads: int):
        self.model, self.feed, self.threads = model, feed, threads

    def errors(self, running: Running | None) -> Errors | None:
        """Return the errors at the output of a rewritten model that has `started` on ``feed``.

        None where nobody knows: the output holds no floats, or the model does not run in float64,
        or not in reasonable time.
        """
        if running is None or self.exact is None or self.original is None:
            return None
        return errors_of(_numbers(running.outputs), _numbers(self.original.outputs), self.exact)

    @cached_property
    def original(self) -> Running | None:
        """The model itself, with all of onnxruntime's optimizations; None if it does not run."""
        return started(self.model.proto, self.feed, self.threads)

    @cached_property
    def exact(self) -> np.ndarray | None:
        """All floats of its outputs in float64, by winogen's direct convolutions.

        None where nobody knows, as for `errors`.
        """
        outputs = self.doubled(self.feed)
        return None if outputs is None else _numbers(outputs)

    def doubled(self, feed: Feed) -> list[Any] | None:
        """Return the outputs in float64 for numbers of the same sizes; None as for `exact`."""
        if self._double is None:
            return None
        wide = {n: x.astype(np.float64) if x.dtype == np.float32 else x for n, x in feed.items()}
        try:
            with planner().recording(algorithm="direct"):
                outputs: list[Any] = self._double.run(None, wide)
        except Exception:  # onnxruntime has not all operators in float64
            return None
        return outputs

    @cached_property
    def _double(self) -> Any:
        """A session of the model in float64."""
        if not _computes_doubles():
            return None
        try:
            model = Model(in_double(self.model.proto), self.model.fixed)
            reading = read(model)
            graph = simplify(reading.graph)
            convolutions = graph.convolutions
            if not convolutions or sum(map(self._products, convolutions)) > _MOST_PRODUCTS:
                return None
            proto, installed = Writer(model, reading, {}).write(graph), planner()
            return new_session(proto, library=installed.path, threads=self.threads)
        except Exception:  # onnxruntime has not all operators in float64
            return None

    def _products(self, node: Any) -> float:
        sizes = self.model.sizes.get(node.output, ())
        if not all(size.known for size in sizes):
            return 0.0
        return math.prod(size.number for size in sizes) * math.prod(node.op.weight.shape[1:])


def _computes_doubles() -> bool:
    """Whether direct convolutions in float64 need no compiler, or there is one."""
    if stock_of(host_target()) is None:
        return True
    for layout in get_args(Layout2d):
        with suppress(CompilerNotFound):
            Conv2d(np.ones((1, 1, 1, 1)), layout=layout, algorithm="direct").plan((1, 1, 1, 1))
            return True
    return False


def in_double(proto: Any) -> Any:
    """Return a copy of a ModelProto whose float32 tensors are float64."""
    from onnx import TensorProto, numpy_helper

    def widen(tensor: Any) -> None:
        if tensor.data_type == TensorProto.FLOAT:
            array = numpy_helper.to_array(tensor).astype(np.float64)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))

    copy = type(proto)()
    copy.CopyFrom(proto)
    for tensor in copy.graph.initializer:
        widen(tensor)
    for value in (*copy.graph.input, *copy.graph.output, *copy.graph.value_info):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    for node in copy.graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                widen(attribute.t)
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == 1:
                attribute.i = TensorProto.DOUBLE
    return copy


def _numbers(outputs: list[Any]) -> np.ndarray:
    """All floats of the outputs, one behind the other."""
    parts = [y.ravel() for y in outputs if isinstance(y, np.ndarray) and y.dtype.kind == "f"]
    return np.concatenate([np.zeros(0), *parts])
