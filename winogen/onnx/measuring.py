"""The times of winogen's nodes here, beside the nodes of onnxruntime that they stand for.

A part of a model runs in two sessions that take turns: winogen's nodes, and the original's with all
of onnxruntime's optimizations, on the same threads and on random numbers of the real sizes.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from winogen.errors import BuildError, InvalidValue
from winogen.extras import MissingPackage
from winogen.graph.adapter import TimedPart
from winogen.graph.measured import Memory, digest
from winogen.onnx.library import get_library_path, planner
from winogen.onnx.loading import first_line, require, without
from winogen.onnx.model import Model
from winogen.onnx.probes import Feed, feed_of, numbers_of, sized, usual_sizes
from winogen.onnx.reference import Reference, Running, started
from winogen.onnx.soundness import Part, alone
from winogen.progress import working
from winogen.tasks.duel import Times, duel, duel_of_wholes
from winogen.tasks.turns import clock_of
from winogen.testing import is_every_layer


class Unmeasured(Exception):
    """Why nothing is measured."""


class Measuring:
    """Measures what becomes of one model.

    Sizes are the model's and its `fixed` sizes, with a batch of 1 where it is open. ``memory`` is
    what earlier processes found. Raises Unmeasured.
    """

    def __init__(
        self,
        model: Model,
        threads: int | None,
        tolerance: float | None = None,
        output_tolerance: float | None = None,
    ):
        if is_every_layer():
            raise Unmeasured("winogen computes every layer that it can")
        try:
            self.model = sized(model)
            self.library = get_library_path()
            runtime = require("onnxruntime")
            self.feed = feed_of(model, usual_sizes(model), 1)
            self.reference = Reference(self.model, self.feed, threads or 0)
        except (InvalidValue, BuildError, MissingPackage, TypeError) as problem:
            raise Unmeasured(first_line(problem)) from problem
        self.threads = threads
        self.memory = Memory(
            runtime.__version__,
            _texts(model.proto),
            [(tensor.name, tensor.data_type, *tensor.dims) for tensor in model.graph.initializer],
            [(name, x.dtype, x.shape) for name, x in self.feed.items()],
            (threads, tolerance, *(() if output_tolerance is None else (output_tolerance,))),
        )
        self.numbers = _numbers(model.proto)
        self._failed: set[str] = set()  # keys of parts that cannot be measured
        self._latest: tuple[Any, Running | None] | None = None

    @cached_property
    def seconds(self) -> float:
        """Of a run of the original; 0 where it does not run."""
        with working("running the model"):
            original = self.reference.original
            if original is None:
                return 0.0
            begin = time.monotonic()
            original.session.run(None, self.feed)
            return time.monotonic() - begin

    def running(self, proto: Any) -> Running | None:
        """Return a rewritten model after its first run; None if it does not run. Keeps the latest.

        A node of many layers compiles their kernels side by side, layers alone one after the other:
        so this comes before these are measured.
        """
        if self._latest is None or self._latest[0] is not proto:
            self._latest = None  # and with it what that one holds
            self._latest = proto, started(proto, self.feed, self.threads or 0, self.library)
        return self._latest[1]

    def late(self, proto: Any) -> Mapping[str, Collection[int]]:
        """Compile the kernels of a rewritten model as far as the limit of seconds allows.

        Returns numbers of layers that lack theirs, by nodes: of the first such node at least.
        """
        if self.running(proto) is not None:
            return {}
        return dict(planner().late)

    def whole(self, proto: Any, earlier: float = 0.0) -> Times | None:
        """Return the times of a rewritten model and of the original; None if one does not run.

        ``earlier``: the gain of another that was made of the same, if there is one.
        """
        ours, theirs = self.running(proto), self.reference.original
        if ours is None or theirs is None:
            return None
        return self._duel(ours, theirs, self.feed, partial(duel_of_wholes, earlier=earlier))

    def parts(
        self, parts: Iterable[Part], constants: Mapping[str, Any], opsets: Sequence[Any]
    ) -> Iterator[TimedPart]:
        """Return those of new nodes that can be measured.

        ``constants``: the TensorProtos that they read, by name. ``opsets``: what their nodes mean.
        """
        for part in parts:
            shapes, originals = self._shapes(part), part.originals(self.model)
            if shapes is None or originals is None:
                continue
            nodes, arrays = originals
            read = {name for node in part.nodes for name in node.input}
            tensors = [tensor for name, tensor in constants.items() if name in read]
            known = shapes | {name: array.shape for name, array in arrays.items()}
            known |= {tensor.name: tuple(tensor.dims) for tensor in tensors}
            key, name = digest(_kind(part.nodes, known), _kind(nodes, known)), part.outputs[0]
            subject = part, tensors, nodes, arrays, opsets
            yield TimedPart(key, name, "", self._products(tensors, part), subject, [name])

    def time(self, part: TimedPart) -> Times | None:
        """Return the times of a part; None where it cannot be measured."""
        if part.key in self._failed:
            return None
        ours, tensors, nodes, arrays, opsets = part.subject
        feed, threads = self._feed(ours), self.threads or 0
        to_tensor = self.model.onnx.numpy_helper.from_array
        theirs = [to_tensor(array, name) for name, array in arrays.items()]
        rest = ours.outputs, opsets, self.model.proto.ir_version, True
        if feed is not None:
            one = started(alone(ours.nodes, tensors, feed, *rest), feed, threads, self.library)
            other = started(alone(nodes, theirs, feed, *rest), feed, threads)
            if one is not None and other is not None:
                return self._duel(one, other, feed, duel)
        self._failed.add(part.key)
        return None

    def _products(self, tensors: Iterable[Any], part: Part) -> float:
        """Multiplications of a part, about: its filters at every pixel of its outputs."""
        weights = sum(math.prod(tensor.dims) for tensor in tensors)
        sizes = [size for name in part.outputs for size in self.model.sizes.get(name, ())[2:]]
        return float(weights * math.prod(size.number for size in sizes if size.known))

    def _shapes(self, part: Part) -> dict[str, tuple[int, ...]] | None:
        """The sizes of what a part reads; None where not all are known."""
        sizes = {name: self.model.sizes.get(name) for name in part.inputs}
        if any(one is None or not all(size.known for size in one) for one in sizes.values()):
            return None
        return {name: tuple(size.number for size in one) for name, one in sizes.items() if one}

    def _feed(self, part: Part) -> Feed | None:
        """Numbers for what a part reads; None where there are none of their types."""
        random, feed = np.random.default_rng(0), {}
        for name, shape in (self._shapes(part) or {}).items():
            kind = self.model.kind(name)
            if not kind:
                return None
            dtype = np.dtype(self.model.onnx.helper.tensor_dtype_to_np_dtype(kind))
            try:
                feed[name] = numbers_of(random, dtype, shape, True)
            except TypeError:
                return None
        return feed

    def _duel(
        self, ours: Running, theirs: Running, feed: Feed, measure: Callable[..., Times]
    ) -> Times:
        """The times of two sessions."""
        mine, other = (partial(one.session.run, None, feed) for one in (ours, theirs))
        return measure(mine, other, clock_of(self.threads or 0))


def text_of(node: Any) -> bytes:
    """Return what a node is, without the weights of what it stands for."""
    light = without(node, "attribute")
    light.attribute.extend(_attributes(node))
    text: bytes = light.SerializeToString(deterministic=True)
    return text


def _attributes(node: Any) -> list[Any]:
    return [attribute for attribute in node.attribute if attribute.name != "original"]


def _texts(proto: Any) -> list[bytes]:
    """What the nodes of a model are, without their weights."""
    return [node.SerializeToString(deterministic=True) for node in proto.graph.node]


def _numbers(proto: Any) -> str:
    """Return a digest of the weights of a model."""
    found = hashlib.sha256()
    for tensor in proto.graph.initializer:
        found.update(tensor.SerializeToString(deterministic=True))
    return found.hexdigest()


def _kind(nodes: Sequence[Any], shapes: Mapping[str, tuple[int, ...]]) -> Any:
    """What parts have in common that take the same time: all but names and numbers."""
    places: dict[str, int] = {}
    return tuple(
        (
            node.domain,
            node.op_type,
            tuple(sorted(a.SerializeToString(deterministic=True) for a in _attributes(node))),
            tuple((places.setdefault(name, len(places)), shapes.get(name)) for name in node.input),
            tuple(places.setdefault(name, len(places)) for name in node.output),
        )
        for node in nodes
    )
