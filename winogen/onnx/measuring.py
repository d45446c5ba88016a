"""The times of winogen's nodes here, beside the nodes of onnxruntime that they stand for.

A part of a model runs in two sessions that take turns: winogen's nodes, and the original's with all
of onnxruntime's optimizations, on the same threads and on random numbers of the real sizes.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from winogen.errors import BuildError, InvalidValue
from winogen.extras import MissingPackage
from winogen.graph.later import waiting
from winogen.graph.measured import Memory, digest
from winogen.onnx.library import get_library_path, planner
from winogen.onnx.loading import first_line, require
from winogen.onnx.model import Model
from winogen.onnx.probes import Feed, feed_of, numbers_of, sized, usual_sizes
from winogen.onnx.reference import Reference, Running, started
from winogen.onnx.soundness import Part, alone
from winogen.progress import counting, working
from winogen.tasks.duel import Times, duel, duel_of_wholes
from winogen.tasks.limit import limit
from winogen.tasks.turns import clock_of
from winogen.testing import is_every_layer

# Seconds for all parts of a model, about, after which the rest are not measured.
_MOST = 120.0


class Unmeasured(Exception):
    """Why nothing is measured."""


class Measuring:
    """Measures what becomes of one model, in several ways perhaps; what was measured is kept.

    Sizes are the model's and its `fixed` sizes, with a batch of 1 where it is open. ``memory`` is
    what earlier processes found. Raises Unmeasured.
    """

    def __init__(self, model: Model, threads: int | None, tolerance: float | None = None):
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
            (threads, tolerance),
        )
        self.numbers = _numbers(model.proto)
        facts = self.memory.known.facts if self.memory.known else {}
        # What an earlier process found of the same net with the same numbers.
        self.facts = facts if facts.get("numbers") == self.numbers else {}
        self._kept: dict[str, Times | None] = {}
        self._latest: tuple[Any, Running | None] | None = None
        self._gain = 0.0  # of the best whole so far
        self._left = _MOST

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

    def whole(self, proto: Any) -> Times | None:
        """Return the times of a rewritten model and of the original; None if one does not run."""
        key = digest("whole", _texts(proto))

        def measured() -> Times | None:
            ours, theirs = self.running(proto), self.reference.original
            if ours is None or theirs is None:
                return None
            measure = partial(duel_of_wholes, earlier=self._gain)
            return self._duel(ours.session, theirs.session, self.feed, measure)

        times = self._once(key, measured)
        self._gain = max(self._gain, times.gain if times else 0.0)
        return times

    def parts(
        self, parts: Sequence[Part], constants: Mapping[str, Any], opsets: Iterable[Any]
    ) -> dict[str, Times]:
        """Return the times of parts by their first outputs, of all that can be measured.

        ``constants``: the TensorProtos that they read, by name. ``opsets``: what their nodes mean.
        The largest come first: the limit of seconds may end before the last.
        """
        measured = {}
        ordered = sorted(parts, key=partial(self._products, constants), reverse=True)
        with counting("measuring layers") as step:
            for place, part in enumerate(ordered):
                step(place, len(parts), part.nodes[0].name)
                times = self._part(part, constants, list(opsets))
                if times is not None:
                    measured[part.outputs[0]] = times
        return measured

    def _part(self, part: Part, constants: Mapping[str, Any], opsets: list[Any]) -> Times | None:
        """The times of a part, or of another like it; None where they cannot be measured."""
        feed, originals = self._feed(part), part.originals(self.model)
        if feed is None or originals is None:
            return None
        nodes, arrays = originals
        read = {name for node in part.nodes for name in node.input}
        tensors = [tensor for name, tensor in constants.items() if name in read]
        shapes = {name: x.shape for name, x in (feed | arrays).items()}
        shapes |= {tensor.name: tuple(tensor.dims) for tensor in tensors}
        key = digest(_kind(part.nodes, shapes), _kind(nodes, shapes))

        def measured() -> Times | None:
            to_tensor = self.model.onnx.numpy_helper.from_array
            theirs = [to_tensor(array, name) for name, array in arrays.items()]
            threads = self.threads or 0
            rest = part.outputs, opsets, self.model.proto.ir_version, True
            ours = started(alone(part.nodes, tensors, feed, *rest), feed, threads, self.library)
            other = started(alone(nodes, theirs, feed, *rest), feed, threads)
            if ours is None or other is None:
                return None
            return self._duel(ours.session, other.session, feed, duel)

        known = key in self._kept or key in self.memory.times
        if not known and (self._left < 0 or not limit().allows()):
            return None
        return self._once(key, measured)

    def _products(self, constants: Mapping[str, Any], part: Part) -> float:
        """Multiplications of a part, about: its filters at every pixel of its outputs."""
        read = {name for node in part.nodes for name in node.input}
        weights = sum(math.prod(constants[name].dims) for name in read if name in constants)
        sizes = [size for name in part.outputs for size in self.model.sizes.get(name, ())[2:]]
        return weights * math.prod(size.number for size in sizes if size.known)

    def _once(self, key: str, measure: Callable[[], Times | None]) -> Times | None:
        """Return what ``measure`` returns, or returned under this key."""
        if key not in self._kept:
            self._kept[key] = self.memory.times.get(key) or measure()
        times = self._kept[key]
        if times:
            self.memory.times[key] = times
        return times

    def _feed(self, part: Part) -> Feed | None:
        """Numbers for what a part reads; None where their types or sizes are not known."""
        random, feed = np.random.default_rng(0), {}
        for name in part.inputs:
            sizes, kind = self.model.sizes.get(name), self.model.kind(name)
            if sizes is None or not kind or not all(size.known for size in sizes):
                return None
            dtype = np.dtype(self.model.onnx.helper.tensor_dtype_to_np_dtype(kind))
            shape = tuple(size.number for size in sizes)
            try:
                feed[name] = numbers_of(random, dtype, shape, True)
            except TypeError:
                return None
        return feed

    def _duel(self, ours: Any, theirs: Any, feed: Feed, measure: Callable[..., Times]) -> Times:
        """The times of two sessions."""
        begin = time.monotonic()
        mine, other = (partial(session.run, None, feed) for session in (ours, theirs))
        with waiting():  # else nodes would be the original until kernels are there
            times = measure(mine, other, clock_of(self.threads or 0))
        self._left -= time.monotonic() - begin
        return times


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
            tuple(sorted(a.SerializeToString(deterministic=True) for a in node.attribute)),
            tuple((places.setdefault(name, len(places)), shapes.get(name)) for name in node.input),
            tuple(places.setdefault(name, len(places)) for name in node.output),
        )
        for node in nodes
    )
