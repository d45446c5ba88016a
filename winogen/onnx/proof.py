"""A rewritten model beside the original: each new node on what the original computes before it.

Each part of new nodes is compared by itself, on the original's own values, so that what is allowed
does not depend on how a network amplifies errors. The first comparison is with onnxruntime in
float32. Where it differs more than expected, numbers of float64 decide which of the two is off.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from winogen.errors import BuildError
from winogen.extras import MissingPackage
from winogen.graph.whole import distance
from winogen.onnx.code_proof import CodesPart, is_codes, share, steps_off
from winogen.onnx.code_reading import CodeValues, coded
from winogen.onnx.library import planner
from winogen.onnx.loading import computed, evaluator, first_line, new_session
from winogen.onnx.model import Model, copied
from winogen.onnx.probes import Feed, Shapes, feed_of, first_sizes, other_sizes
from winogen.onnx.soundness import Part, alone, fault_of, parts_of
from winogen.onnx.whole import MOST_OFF, Unproven, Whole
from winogen.toolchain.room import memory_left

# The largest error of a layer may be so many times what is expected of random numbers.
_MARGIN = 10
# Attributes are of float32: what is meant by one, as 1/6, is off by so much.
_ATTRIBUTES = 2.0**-23
# Multiplications of a model without onnxruntime that are too many.
_MOST_PRODUCTS = 2e9
# All values of a model are held so many times at most: twice by the original, by ours as parts and
# as a whole, with errors, and while they are compared. Half of what is left may be taken.
_COPIES = 8


@dataclass
class Verdict:
    """What the comparison showed."""

    refuted: dict[str, str] = field(default_factory=dict)  # output of a new node -> why it goes
    sizes: list[Shapes] = field(default_factory=list)  # of the inputs that were compared
    error: float = 0.0  # the largest of a part, relative to its largest output
    unproven: str = ""  # why there was no comparison, or no other
    near: dict[str, str] = field(default_factory=dict)  # layers of codes in tiles, and how far off

    def __str__(self) -> str:
        if not self.sizes:
            return f"not compared with the original: {self.unproven}"
        shapes = ", ".join(
            " and ".join("x".join(map(str, shape)) or "1" for shape in one.values())
            for one in self.sizes
        )
        text = f"compared with the original at {shapes}: largest error of a node {self.error:.1e}"
        return f"{text}; no further: {self.unproven}" if self.unproven else text


def compare(model: Model, proto: Any, session: Any = None) -> Verdict:
    """Return what is wrong with ``proto``, which was made of ``model``; a ``session`` may run it.

    What cannot be loaded, or means something else as far as that is seen without running it, goes
    as a whole. The rest runs beside the original in onnxruntime, if it and a compiler are there.
    """
    verdict = Verdict()
    parts = parts_of(model, proto)
    everything = [name for part in parts for name in part.outputs]
    why = fault_of(model, proto)
    if why is not None:
        verdict.refuted = dict.fromkeys(everything, why)
        return verdict
    try:
        _run(model, proto, session, parts, verdict)
    except (Unproven, BuildError, MissingPackage) as reason:
        verdict.unproven = first_line(reason)
    return verdict


def _run(model: Model, proto: Any, session: Any, parts: list[Part], verdict: Verdict) -> None:
    installed = planner()  # raises BuildError
    codes = coded(model) if any(map(is_codes, parts)) else CodeValues()
    ours = [
        CodesPart(model, proto, part, installed, codes)
        if is_codes(part)
        else _Part(model, proto, part, installed)
        for part in parts
    ]
    boundary = dict.fromkeys(name for one in ours for name in (*one.part.inputs, *one.values))
    original = Exposed(model, list(boundary))
    whole = Whole(model, proto, installed.path, original.evaluated, session)
    for place, (shapes, feeds) in enumerate(_accepted(model, original)):
        values = [original.run(feed) for feed in feeds]
        for one in ours:
            if verdict.refuted.keys().isdisjoint(one.values):
                whys = (one.refuted(value, place > 0) for value in values)
                verdict.refuted |= next(filter(None, whys), {})
        verdict.error = max(one.error for one in ours)
        verdict.near |= {name: how for one in ours for name, how in one.near.items()}
        verdict.sizes.append(shapes)
        if not verdict.refuted:
            allowed = {k: limit for one in ours for k, limit in one.limits(values[0]).items()}
            why = whole.wrong(feeds[0], values[0], allowed)
            if why is not None:
                defined = original.defined(feeds[0])
                if defined is not None:  # onnxruntime may be what is wrong
                    evaluated = Whole(model, proto, installed.path, True, session)
                    why = evaluated.wrong(feeds[0], defined, allowed)
            if why is not None:
                verdict.refuted = {name: why for one in ours for name in one.values}


def _accepted(model: Model, original: Exposed) -> Iterator[tuple[Shapes, list[Feed]]]:
    """Sizes that the original accepts, with two sets of numbers for the first, one for others."""
    refusal = "it has no sizes"
    for shapes in first_sizes(model):
        feeds = _feeds(model, shapes, (1, 2))
        try:
            for feed in feeds:
                original.run(feed)
        except Exception as problem:  # onnxruntime's own kinds of errors
            refusal = first_line(problem)
            continue
        break
    else:
        raise Unproven(f"onnxruntime does not run the original ({refusal})")
    yield shapes, feeds
    for options in other_sizes(model, shapes):
        for other in options:
            try:
                feeds = _feeds(model, other, (3,))
                original.run(feeds[0])
            except Unproven:
                continue
            except Exception:  # it is made for some sizes only
                continue
            yield other, feeds
            break


def _feeds(model: Model, shapes: Shapes, seeds: Sequence[int]) -> list[Feed]:
    """Inputs of these sizes; raises Unproven where there is no memory for what follows of them."""
    needed, left = _COPIES * _bytes(model, shapes), memory_left()
    if left is not None and 2 * needed > left:
        raise Unproven(f"that takes {needed:.1e} bytes of memory, half of {left:.1e} may be taken")
    try:
        return [feed_of(model, shapes, seed) for seed in seeds]
    except TypeError as problem:
        raise Unproven(str(problem)) from problem


def _bytes(model: Model, shapes: Shapes) -> int:
    """How much all values are at these sizes of the inputs, as far as their sizes follow."""
    given = {name: shape for name, shape in shapes.items() if shape and min(shape) > 0}
    sizes = Model(model.proto, given).sizes.values()
    known = ([size.number for size in one] for one in sizes if all(size.known for size in one))
    return 4 * sum(map(math.prod, known))


class Exposed:
    """The original without optimizations, its values at the seams of new nodes exposed."""

    def __init__(self, model: Model, boundary: list[str]):
        self.model = model
        inputs = {value.name for value in model.graph.input}
        mine = [value.name for value in model.graph.output]
        self._defaults = {
            t.name: model.onnx.numpy_helper.to_array(t)
            for t in model.graph.initializer
            if t.name in boundary
        }
        self._names = list(
            dict.fromkeys([*mine, *(name for name in boundary if name not in inputs)])
        )
        proto = copied(model.proto)
        for name in self._names[len(mine) :]:
            kind = model.kind(name)
            make = model.onnx.helper.make_tensor_value_info
            empty = model.onnx.helper.make_empty_tensor_value_info(name)
            proto.graph.output.append(make(name, kind, None) if kind else empty)
        self._exposed = proto
        self.evaluated = any(
            model.kind(name) == model.onnx.TensorProto.DOUBLE
            for node in model.graph.node
            if node.op_type == "Conv"
            for name in (node.output[0], node.input[0])
        )
        self._session = self._start()

    def _start(self) -> Any:
        if self.evaluated:  # onnxruntime has no convolutions of them
            return evaluator(self._exposed)
        try:
            return new_session(self._exposed, optimized=False)
        except Exception as problem:  # onnxruntime's own kinds of errors
            if isinstance(problem, MissingPackage):
                raise
            why = first_line(problem)
            if "NOT_IMPLEMENTED" in why:  # for these types
                self.evaluated = True
                return evaluator(self._exposed)
            raise Unproven(f"onnxruntime does not load the original ({why})") from problem

    def run(self, feed: Feed) -> dict[str, Any]:
        """Return all values at the seams and all outputs, by name."""
        if self.evaluated and self._products(feed) > _MOST_PRODUCTS:
            raise Unproven("onnxruntime has no convolutions of float64, onnx's take too long")
        return self._values(self._session, feed)

    def defined(self, feed: Feed) -> dict[str, Any] | None:
        """Return the same by onnx's evaluator, of a model whose sums of bytes may saturate.

        On CPUs without VNNI, those of onnxruntime's ConvInteger do, whatever it is asked. None for
        other models, and where it would take too long.
        """
        narrow = any(node.op_type == "ConvInteger" for node in self.model.graph.node)
        if self.evaluated or not narrow or self._products(feed) > _MOST_PRODUCTS:
            return None
        return self._values(evaluator(self._exposed), feed)

    def _values(self, session: Any, feed: Feed) -> dict[str, Any]:
        with np.errstate(all="ignore"):
            found = session.run(self._names, feed)
        return {**self._defaults, **feed, **dict(zip(self._names, found))}

    def _products(self, feed: Feed) -> float:
        pixels = max(math.prod(x.shape[:1] + x.shape[2:]) for x in feed.values())
        weights = sum(
            math.prod(tensor.dims)
            for tensor in self.model.graph.initializer
            if len(tensor.dims) > 3
        )
        return float(pixels) * weights


class _Part:
    """New nodes alone, in a session of their own."""

    def __init__(self, model: Model, proto: Any, part: Part, installed: Any):
        self.model = model
        self.part = part
        self.outputs = self.values = part.outputs
        self.planner = installed
        self.error = 0.0
        self.near: dict[str, str] = {}  # codes alone have such layers
        self._meaning = proto.opset_import, proto.ir_version
        read = {name for node in part.nodes for name in node.input} - set(part.inputs)
        self._constants = [tensor for tensor in proto.graph.initializer if tensor.name in read]
        self._session: Any = None
        self._familiar: set[Any] | None = None
        self.allowed = self._expected = 0.0  # the largest error, and that of sums in one chain
        self._exact = any(n.op_type in ("ConvInteger", "NhwcMaxPool") for n in part.nodes)

    def refuted(self, values: dict[str, Any], other: bool) -> dict[str, str]:
        """Return its outputs, and why they are not the original's; ``other`` as for `wrong`."""
        why = self.wrong(values, other)
        return {} if why is None else dict.fromkeys(self.outputs, why)

    def wrong(self, values: dict[str, Any], other: bool) -> str | None:
        """Return why its outputs are not the original's; ``other``: sizes but the first."""
        feed = {name: values[name] for name in self.part.inputs}
        with self.planner.recording(self._familiar if other else None) as answers:
            try:
                if self._session is None:
                    graph = alone(
                        self.part.nodes, self._constants, feed, self.outputs, *self._meaning
                    )
                    self._session = new_session(graph, library=self.planner.path)
                found = self._session.run(self.outputs, feed)
            except Exception as problem:  # onnxruntime's own kinds of errors
                failure = self.planner.failure
                # Neither is the model's fault.
                if isinstance(failure, BuildError) or str(failure).startswith("tolerance: "):
                    raise failure from problem
                return f"onnxruntime does not run it ({first_line(problem)})"
        if answers:  # sizes that it meets for the first time
            expected = [error for answer in answers for error in answer.errors]
            tolerance = max(answer.tolerance for answer in answers)
            self._expected = sum(error.direct for error in expected)
            self.allowed = _ATTRIBUTES + sum(
                (tolerance or _MARGIN * error.planned) + _MARGIN * error.direct
                for error in expected
            )
        if self._familiar is None:
            self._familiar = {spec for answer in answers for spec in answer.specs}
        exact: list[Any] | None = None
        for place, (name, y) in enumerate(zip(self.outputs, found)):
            wanted = values[name]
            if y.dtype != wanted.dtype or y.shape != wanted.shape:
                return f"{name} is {y.dtype} {y.shape}, not {wanted.dtype} {wanted.shape}"
            if not all(_finite(x) for x in feed.values()):
                continue
            if y.dtype.kind in "iu":
                if self._steps_off(y, wanted):
                    exact = exact or self._evaluated(feed)
                    if exact is None or self._steps_off(y, exact[place]):
                        return f"{name} {share(y, wanted)}"
                continue
            error = distance(y, wanted)
            if error > self.allowed:
                exact = exact or self._evaluated(feed)
                error = _beyond(y, wanted, exact and exact[place], self._expected)
                if not error <= self.allowed:
                    return f"{name} differs by {error:.1e}, {self.allowed:.1e} expected at most"
            self.error = max(self.error, error)
        return None

    def limits(self, values: dict[str, Any]) -> dict[str, float]:
        """Return how far each of its outputs may be off: relative, of integers the share."""
        steps = 0.0 if self._exact else MOST_OFF
        return {
            name: steps if values[name].dtype.kind in "iu" else self.allowed
            for name in self.outputs
        }

    def _steps_off(self, y: Any, wanted: Any) -> bool:
        return bool((y != wanted).any()) if self._exact else steps_off(y, wanted)

    def _evaluated(self, feed: Feed) -> list[Any] | None:
        """The outputs as onnx's evaluator computes them of the original's nodes, in float64."""
        found = self.part.originals(self.model)
        if found is None:
            return None
        nodes, constants = found
        wide = all(n.op_type not in ("QuantizeLinear", "DequantizeLinear") for n in nodes)

        def widened(array: Any) -> Any:
            return array.astype(np.float64) if wide and array.dtype == np.float32 else array

        values = {name: widened(x) for name, x in (constants | feed).items()}
        return computed(nodes, values, self.outputs, self._meaning[0])


def _finite(x: Any) -> bool:
    return x.dtype.kind != "f" or bool(np.isfinite(x).all())


def _beyond(y: Any, wanted: Any, exact: Any, expected: float) -> float:
    """The error of y against exact numbers, in terms of what is to be expected of them.

    Where terms cancel, the original's own error is larger than that of sums of random numbers:
    by so many times, ours may be, too.
    """
    if exact is None:
        return math.inf
    amplified = distance(wanted, exact) / max(expected, 1e-300)
    return distance(y, exact) / max(1.0, amplified)
