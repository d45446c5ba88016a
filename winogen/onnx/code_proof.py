"""Whether a node of codes computes the codes of the original, layer by layer.

Sums are exact and rounded once, where the original may round after each addition: a number near a
half between two codes may become the other one. From layer to layer such steps grow. So each layer
is given the original's codes; and the node must be these layers one after another, to the bit. With
a tolerance, layers in tiles may be off by that besides, as a share of the largest sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from winogen.graph import code_tiles
from winogen.graph.code_segment import BoundCodes, CodeSegment
from winogen.onnx.code_answers import held_tiles, segment_of
from winogen.onnx.code_reading import CodeValues
from winogen.onnx.loading import new_session, require
from winogen.onnx.model import Model
from winogen.onnx.originals import held
from winogen.onnx.soundness import Part, alone
from winogen.onnx.whole import MOST_OFF

_FEW = 2  # codes that may be off by a step however few there are


def steps_off(y: Any, wanted: Any) -> bool:
    """Return whether codes differ by more than a step, or more of them than halves explain."""
    difference = np.abs(y.astype(np.int64) - wanted.astype(np.int64))
    return bool(difference.max(initial=0) > 1 or (difference > 0).sum() > _FEW + MOST_OFF * y.size)


def share(y: Any, wanted: Any) -> str:
    """Return how many numbers differ, in words."""
    return f"differs in {np.mean(y != wanted):.1%} of its numbers"


def is_codes(part: Part) -> bool:
    """Return whether a part is a node of codes."""
    return any(node.op_type == "Codes" for node in part.nodes)


class CodesPart:
    """A node of codes alone, in a session of its own, and each of its layers."""

    error = 0.0  # codes have none that would be relative

    def __init__(self, model: Model, proto: Any, part: Part, installed: Any, codes: CodeValues):
        self.model, self.part, self.codes, self.planner = model, part, codes, installed
        self.outputs = part.outputs
        attributes = [one for node in part.nodes for one in node.attribute]
        self.tolerance = max((one.f for one in attributes if one.name == "tolerance"), default=0.0)
        self._tiles = held_tiles(part.nodes)
        self.near: dict[str, str] = {}  # layers that are not exact, and how far off
        self._allowed: dict[str, float] = {}  # steps that these may be off
        self._meaning = proto.opset_import, proto.ir_version
        self._layers: dict[tuple[Any, ...], CodeSegment] = {}
        self._session: Any = None

    @cached_property
    def values(self) -> list[str]:
        """All values of codes that the node computes, in the order of the model."""
        left, found = list(self.part.outputs), set[str]()
        while left:
            name = left.pop()
            if name not in found and name not in self.part.inputs:
                found.add(name)
                left += self.codes.reads[name]
        return [name for name in self.codes.reads if name in found]

    def refuted(self, values: Mapping[str, Any], other: bool) -> dict[str, str]:
        """Return which values are not the original's, and why. ``values``: those it has."""
        own = {name: values[name] for name in self.part.inputs}
        wrong: dict[str, str] = {}
        for name in self.values:
            reads = self.codes.reads[name]
            alike, given = all(own[one] is values[one] for one in reads), [values[n] for n in reads]
            y = self._layer(name, given)
            own[name] = y if alike else self._layer(name, [own[one] for one in reads])
            why = self._wrong(name, given, y, values[name])
            if why:
                wrong[name] = f"{name} {why}"
            elif (own[name] == values[name]).all():
                own[name] = values[name]
        feed = {name: values[name] for name in self.part.inputs}
        for name, y in zip(self.outputs, self._found(feed)):
            if y.shape != own[name].shape or (y != own[name]).any():
                why = f"{name} is not what its layers compute one after another"
                wrong |= dict.fromkeys(self.values, why)
        return wrong

    def _wrong(self, name: str, given: list[Any], y: Any, wanted: Any) -> str:
        """Why what a layer makes of the original's codes is not the original's; "" if it is."""
        segment = self._segment(name, given)
        how = self._bound(segment, given).near
        if not how:
            return share(y, wanted) if steps_off(y, wanted) else ""
        ((value, offer),) = how.items()
        op, (x, *_) = segment.graph.makers[value].op.quantized, given
        assert op is not None
        signed = (x ^ 128).view(np.int8) if x.dtype == np.uint8 else x
        allowed = code_tiles.steps_allowed(op, signed, self.tolerance)
        allowed = max(self._allowed.get(name, 0.0), allowed)
        off = int(np.abs(y.astype(np.int64) - wanted).max(initial=0))
        self._allowed[name] = allowed
        expected = f"error {offer.prediction.error:.1e} expected"
        self.near[name] = (
            f"{code_tiles.described(offer)}, {expected}, {off} steps off at most, "
            f"{allowed:.1f} allowed"
        )
        return f"is {off} steps off, {allowed:.1f} allowed" if off > allowed else ""

    def _segment(self, name: str, arrays: list[Any]) -> CodeSegment:
        """A layer alone."""
        reads, wanted = self.codes.reads[name], self.codes.sizes[name]
        shape, key = [size.number for size in wanted], (name, len(arrays[0]))
        if key not in self._layers:
            sizes = [(kind, array.shape[1:]) for kind, array in zip(self._kinds(reads), arrays)]
            known = dict(zip(reads, sizes)) | {name: (self._kinds([name])[0], shape[1:])}
            content = held(self.model, reads, [name], known)["original"]
            proto = require("onnx").ModelProto.FromString(content)
            given = {f"i{place}": array.shape for place, array in enumerate(arrays)}
            self._layers[key] = segment_of(Model(proto, given), self._tiles)
        return self._layers[key]

    def _bound(self, segment: CodeSegment, arrays: list[Any]) -> BoundCodes:
        return segment.bound([(*array.shape, 1, 1)[:4] for array in arrays], 1)

    def _layer(self, name: str, arrays: list[Any]) -> Any:
        """What a layer makes of codes."""
        bound = self._bound(self._segment(name, arrays), arrays)
        shape = len(arrays[0]), *(size.number for size in self.codes.sizes[name][1:])
        dtype = self.model.onnx.helper.tensor_dtype_to_np_dtype(self._kinds([name])[0])
        made = np.empty(shape, dtype)
        inputs = [np.ascontiguousarray(array) for array in arrays]
        bound.run([array.ctypes.data for array in (*inputs, made)])
        return made

    def _kinds(self, names: Any) -> list[int]:
        return [self.codes.kinds[name] for name in names]

    def _found(self, feed: Mapping[str, Any]) -> list[Any]:
        """What the node makes."""
        with self.planner.recording():
            if self._session is None:
                proto = alone(self.part.nodes, [], feed, self.outputs, *self._meaning)
                self._session = new_session(proto, library=self.planner.path)
            found: list[Any] = self._session.run(self.outputs, feed)
        return found

    def limits(self, values: Mapping[str, Any]) -> dict[str, float]:
        """Return which share of each value's codes may be off, or from 1 on, how many steps."""
        return dict.fromkeys(self.values, MOST_OFF) | self._allowed
