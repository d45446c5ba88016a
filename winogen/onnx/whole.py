"""The whole rewritten model beside the original: what the errors of its parts may become.

The original runs once more with random errors in the places of new nodes, each as large as it is
allowed to be there. How far its outputs move bounds how far those of the rewritten model may be
off, by the rule of `winogen.graph.whole`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from winogen.graph.later import waiting
from winogen.graph.whole import GROWTH, distance, limit
from winogen.onnx.loading import evaluator, first_line, new_session
from winogen.onnx.model import Model, copied, fresh
from winogen.onnx.probes import Feed

# Of numbers of 8 bits, how many may be a step off: those near halves.
MOST_OFF = 0.02


class Unproven(Exception):
    """Why nothing was compared."""


class Whole:
    """The rewritten model as users run it, and the original with errors like those of its parts."""

    def __init__(
        self, model: Model, proto: Any, library: str, evaluated: bool, session: Any = None
    ):
        self.model = model
        self.proto = proto
        self.library = library
        self.evaluated = evaluated  # onnx runs the original, onnxruntime cannot
        self._session = session
        self._disturbed: Any = None

    def wrong(
        self, feed: Feed, values: Mapping[str, Any], allowed: Mapping[str, float]
    ) -> str | None:
        """Return what is wrong with the outputs; None if nothing is.

        ``values``: the original's outputs, and what it has in the places of new nodes.
        ``allowed``: how far each of these may be off, relative to its largest number. Raises
        Unproven where onnxruntime does not run what is to be compared.
        """
        try:
            if self._session is None:
                self._session = new_session(self.proto, library=self.library)
            with waiting():  # onnxruntime would prove itself
                found = self._session.run(None, feed)
        except Exception as problem:  # onnxruntime's own kinds of errors
            why = f"onnxruntime does not run it ({first_line(problem)})"
            if self.evaluated:  # nor the original
                raise Unproven(why) from problem
            return why
        try:
            moved = self._moved(feed, values, allowed)
        except Exception as problem:  # onnxruntime's own kinds of errors
            raise Unproven(f"errors in it stop the original ({first_line(problem)})") from problem
        names = [value.name for value in self.proto.graph.output]
        usual: list[Any] | None = None
        for place, (name, y, near) in enumerate(zip(names, found, moved)):
            wanted = values[name]
            if not isinstance(wanted, np.ndarray):
                if type(y) is not type(wanted):
                    return f"{name} is {type(y).__name__}, not {type(wanted).__name__}"
                continue
            if y.dtype != wanted.dtype or y.ndim != wanted.ndim:
                return f"{name} has numbers of {y.dtype}, {y.ndim} axes"
            if y.shape != wanted.shape and near.shape == wanted.shape:
                return f"{name} has sizes {y.shape}, not {wanted.shape}"
            off, shifted = _off(y, wanted), _off(near, wanted)
            if off > limit(shifted, _rounding(wanted)):  # its optimizations may move it, too
                usual = usual or self._usual(feed)
                most = limit(max(shifted, _off(usual[place], wanted)), _rounding(wanted))
                if off > most:
                    return (
                        f"{name}, an output of the whole model, differs by {off:.1e}, {most:.1e} "
                        "expected at most"
                    )
        return None

    def _moved(
        self, feed: Feed, values: Mapping[str, Any], allowed: Mapping[str, float]
    ) -> list[Any]:
        """The outputs of the original with errors in it."""
        names = [name for name in allowed if _kind(values[name])]
        if self._disturbed is None:
            proto, self._errors = disturbed(self.model, {name: values[name] for name in names})
            self._disturbed = (
                evaluator(proto) if self.evaluated else new_session(proto, optimized=False)
            )
        random = np.random.default_rng(0)
        errors = {self._errors[name]: _error(random, values[name], allowed[name]) for name in names}
        with np.errstate(all="ignore"):
            moved: list[Any] = self._disturbed.run(None, {**feed, **errors})
        return moved

    def _usual(self, feed: Feed) -> list[Any]:
        """The outputs of the original as onnxruntime's optimizations change them."""
        start = evaluator if self.evaluated else new_session
        try:
            with np.errstate(all="ignore"):
                usual: list[Any] = start(self.model.proto).run(None, feed)
        except Exception as problem:  # onnxruntime's own kinds of errors
            why = f"onnxruntime does not run the original optimized ({first_line(problem)})"
            raise Unproven(why) from problem
        return usual


def _kind(array: Any) -> str:
    """How errors are added to an array; "" where it has none."""
    if array.dtype.kind == "f":
        return "float"
    return "steps" if array.dtype.name in ("uint8", "int8") else ""


def _error(random: np.random.Generator, array: Any, limit: float) -> Any:
    """An error for each number of an array: of the size that is allowed, of either sign.

    Of codes ``limit`` is a share that is a step off, or from 1 on, how many steps.
    """
    if _kind(array) == "float":
        finite = array[np.isfinite(array)]
        largest = np.abs(finite).max(initial=0)
        return random.choice((-1, 1), array.shape).astype(array.dtype) * (limit * largest).astype(
            array.dtype
        )
    if limit >= 1:  # so many steps, within the type
        ends = np.iinfo(array.dtype)
        moved = array + random.choice((-1, 1), array.shape) * limit
        return (np.clip(np.rint(moved), ends.min, ends.max) - array).astype(np.float32)
    # Towards the middle, so that no number leaves its type.
    steps = np.where(array > np.iinfo(array.dtype).max // 2, -1, 1)
    return (steps * (random.random(array.shape) < limit)).astype(np.float32)


def disturbed(model: Model, values: Mapping[str, Any]) -> tuple[Any, dict[str, str]]:
    """Return the original with an error added to each of these values, and the inputs for these."""
    helper = model.onnx.helper
    proto = copied(model.proto)
    model.write_fixed(proto.graph)
    taken = model.names()
    errors, nodes = {}, []
    for node in proto.graph.node:
        nodes.append(node)
        for place, name in enumerate(node.output):
            if name not in values:
                continue
            exact, error = (fresh(f"{name} {what}", taken) for what in ("exact", "error"))
            node.output[place], errors[name] = exact, error
            kind = helper.np_dtype_to_tensor_dtype(values[name].dtype)
            if _kind(values[name]) == "float":
                nodes.append(helper.make_node("Add", [exact, error], [name]))
                made = kind
            else:
                wide, off = (fresh(f"{name} {what}", taken) for what in ("wide", "off"))
                made = model.onnx.TensorProto.FLOAT
                nodes += [
                    helper.make_node("Cast", [exact], [wide], to=made),
                    helper.make_node("Add", [wide, error], [off]),
                    helper.make_node("Cast", [off], [name], to=kind),
                ]
            shape = [None] * values[name].ndim
            proto.graph.input.append(helper.make_tensor_value_info(error, made, shape))
    made_nodes = [copied(node) for node in nodes]
    del proto.graph.node[:]
    proto.graph.node.extend(made_nodes)
    return proto, errors


def _rounding(wanted: Any) -> float:
    """What two ways of rounding may differ by in any case, as `_off` counts it."""
    return float(np.finfo(wanted.dtype).eps) if wanted.dtype.kind == "f" else MOST_OFF / GROWTH


def _off(y: Any, wanted: Any) -> float:
    """How far an output is off: relative to its largest number, else the share that differs."""
    if y.shape != wanted.shape:
        return math.inf
    if wanted.dtype.kind == "f":
        return distance(y, wanted)
    return float(np.mean(y != wanted)) if wanted.size else 0.0
