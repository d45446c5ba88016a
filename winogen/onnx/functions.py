"""ONNX nodes and groups of nodes that are functions of single numbers."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from winogen.graph import Activation
from winogen.onnx.matching import Match, Values
from winogen.records import ACTIVATIONS
from winogen.records.activation import Argument, FrameworkFunction
from winogen.records.activations import spelled

# The activations that an operator may be, the fewest parameters first: Clip is "relu6" or "relu"
# with their limits.
_MEANINGS: dict[str, list[tuple[str, FrameworkFunction]]] = defaultdict(list)
for _known in sorted(ACTIVATIONS.values(), key=lambda one: len(one.parameters)):
    for _function in _known.onnx:
        _MEANINGS[_function.names].append((_known.name, _function))


class Functions(Values):
    """Recognizes activations, whether they are one node or several."""

    def _activation(self, node: Any) -> Match | None:
        return self._active(node.op_type, partial(self._argument, node), node.input[0])

    def _active(
        self, operator: str, argument: Callable[..., Any], x: str, within: tuple[Any, ...] = ()
    ) -> Match | None:
        """The activation that an operator is; ``argument`` gives what it gets, or None."""
        for name, function in _MEANINGS[operator]:
            known = ACTIVATIONS[name]
            values = {
                one.name: argument(place, one, known.per_filter)
                for place, one in enumerate(function.arguments, 1)
            }
            parameters = known.taken(function, values)
            if parameters is None or any(one is None for one in parameters):
                continue
            if known.per_filter or known.allows(*parameters):
                return Match(Activation(spelled(name, parameters)), (x,), within)
        return None

    def _argument(self, node: Any, place: int, argument: Argument, per_filter: bool) -> Any:
        """An attribute, or the constant that is this input; None for another number."""
        given = place < len(node.input) and node.input[place]
        if given and per_filter:
            output = node.output[0]
            rank = 3 if len(self.model.sizes[output]) == 5 else 2
            return self._per_channel(node.input[place], self.channels(output), rank)
        if given:
            number = self._scalar(node.input[place])
            return number if number is not None and number == np.float32(number) else None
        value = self.model.attributes(node).get(argument.name, argument.default)
        return float(np.float32(value)) if isinstance(value, (int, float)) else value

    def _Max(self, node: Any) -> Match | None:
        """The larger of a map and a number, or the smaller; one behind the other, they are Clip."""
        limit = self._limit(node)
        if limit is None:
            return None
        x, values = limit
        inner = self._alone(x, "Min" if node.op_type == "Max" else "Max")
        more = self._limit(inner) if inner is not None else None
        if more is not None:
            x, values = more[0], values | more[1]
        return self._active(
            "Clip",
            lambda _, one, __: values.get(one.name, one.default),
            x,
            (inner,) if more is not None else (),
        )

    _Min = _Max

    def _limit(self, node: Any) -> tuple[str, dict[str, float]] | None:
        """What a node limits, and by what: as the argument of Clip."""
        if len(node.input) == 2:
            for x, other in (node.input, reversed(node.input)):
                number = self._scalar(other)
                if number is not None and number == np.float32(number):
                    return x, {"min" if node.op_type == "Max" else "max": number}
        return None

    def _gated(self, node: Any) -> Match | None:
        """A product of a map and its own sigmoid."""
        for x, gate in (node.input, reversed(node.input)):
            sigmoid = self._alone(gate, "Sigmoid")
            if sigmoid is not None and sigmoid.input[0] == x:
                return Match(Activation("silu"), (x,), (sigmoid,))
            hard = self._alone(gate, "HardSigmoid")
            if hard is not None and hard.input[0] == x:
                values = self.model.attributes(hard)
                alpha, beta = values.get("alpha", 0.2), values.get("beta", 0.5)
                if abs(alpha - 1 / 6) < 1e-6 and beta == 0.5:
                    return Match(Activation("hardswish"), (x,), (hard,))
        return None

    def _gelu(self, node: Any) -> Match | None:
        """x * 0.5 * (1 + erf(x / sqrt 2)), its factors in any order."""
        factor, factors, within = self._factors(node)
        if len(factors) != 2 or abs(factor - 0.5) > 1e-6:
            return None
        for x, gate in (factors, factors[::-1]):
            total = self._alone(gate, "Add")
            if total is None:
                continue
            erf = None
            for name, other in (total.input, reversed(total.input)):
                if self._scalar(other) == 1:
                    erf = self._alone(name, "Erf")
            if erf is None:
                continue
            scaled = self._alone(erf.input[0], "Div") or self._alone(erf.input[0], "Mul")
            if scaled is None:
                continue
            scale, inner, _ = self._factors(scaled)
            if inner == [x] and abs(scale - math.sqrt(0.5)) < 1e-6:
                return Match(Activation("gelu"), (x,), (*within, total, erf, scaled))
        return None

    def _factors(self, node: Any) -> tuple[float, list[str], tuple[Any, ...]]:
        """The constant and the values that a tree of products multiplies, and its other nodes."""
        constant, values, within = 1.0, [], []
        for place, name in enumerate(node.input):
            divided = node.op_type == "Div" and place == 1
            scalar = self._scalar(name)
            below = self._alone(name, "Mul") or self._alone(name, "Div")
            if scalar:
                constant = constant / scalar if divided else constant * scalar
            elif below is not None and not divided:
                factor, inner, nodes = self._factors(below)
                constant *= factor
                values += inner
                within += [below, *nodes]
            else:
                values.append(name if not divided else "")
        return constant, values, tuple(within)
