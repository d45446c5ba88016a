"""A net read from ncnn's files as a `winogen.graph`: it runs on numpy arrays, without torch.

Convolutions and what they take on become segments, one call each; the rest is numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from winogen.errors import InvalidValue
from winogen.graph import (
    Activation,
    Add,
    Concat,
    Conv,
    ConvTranspose,
    Graph,
    Node,
    Opaque,
    Repeat,
    Segment,
    Spread,
    cut,
)
from winogen.graph import simplify as simplified
from winogen_lab.nets.ncnn_files import NcnnLayer


class NumpyNet:
    """The layers of `winogen_lab.nets.ncnn_files.read`, ready to run.

    Calls take and return float32 arrays (N, C, H, W). ``threads`` and ``tolerance`` mean what they
    mean in `winogen.conv2d`. Raises InvalidValue for what a layer asks for and this does not have.
    """

    def __init__(
        self,
        layers: list[NcnnLayer],
        *,
        threads: int | None = None,
        tolerance: float | None = None,
    ):
        self.graph = simplified(as_graph(layers))
        self._steps: list[tuple[Graph, Callable[..., Sequence[np.ndarray]]]] = []
        for piece in cut(self.graph):
            op = piece.graph.nodes[0].op
            if isinstance(op, Opaque):
                self._steps.append((piece.graph, op.payload))
            else:
                segment = Segment(piece.graph, threads=threads, tolerance=tolerance, layout="NCHW")
                self._steps.append((piece.graph, segment))

    def __call__(self, x: np.ndarray) -> np.ndarray:
        values = dict(zip(self.graph.inputs, [x]))
        for graph, call in self._steps:
            results = call(*(values[name] for name in graph.inputs))
            values.update(zip(graph.outputs, results))
        return values[self.graph.outputs[0]]


def as_graph(layers: list[NcnnLayer]) -> Graph:
    """Return the net with one input and one output, its last layer's."""
    inputs: list[str] = []
    nodes: list[Node] = []
    alias: dict[str, str] = {}
    for layer in layers:
        names = tuple(alias.get(name, name) for name in layer.inputs)
        if layer.kind == "Input":
            inputs += layer.outputs
        elif layer.kind == "Split":
            alias.update(dict.fromkeys(layer.outputs, names[0]))
        elif layer.kind not in _NODES:
            raise InvalidValue(
                f"{layer.kind} {layer.name}: got a layer that only torch runs; allowed: "
                f"{', '.join(_NODES)}"
            )
        else:
            nodes += _NODES[layer.kind](layer, names, layer.outputs[0])
    if len(inputs) != 1 or not nodes:
        raise InvalidValue(f"layers: got {len(inputs)} inputs; allowed: a net with one")
    return Graph(inputs, nodes, nodes[-1].outputs)


def _opaque(
    layer: NcnnLayer, names: tuple[str, ...], output: str, call: Callable[..., np.ndarray]
) -> list[Node]:
    """A function of arrays that numpy computes."""
    payload = lambda *arrays: (call(*arrays),)  # noqa: E731
    return [Node(Opaque(layer.kind, payload), names, (output,), layer.name)]


def _convolution(layer: NcnnLayer, names: tuple[str, ...], output: str) -> list[Node]:
    left, top = layer.integer(4), layer.integer(14, layer.integer(4))
    conv = Conv(
        layer.weights["weight"],
        layer.weights.get("bias"),
        stride=layer.pair(3, 1),
        padding=(top, layer.integer(16, top), left, layer.integer(15, left)),
        dilation=layer.pair(2, 1),
        activation=_activation(layer),
    )
    return [Node(conv, names, (output,), layer.name)]


def _activation(layer: NcnnLayer) -> str | tuple | None:
    kind = layer.integer(9)
    if kind not in (0, 1, 2):
        raise InvalidValue(f"{layer.kind} {layer.name}: got activation {kind}; allowed: 0, 1, 2")
    return (None, "relu", ("leaky_relu", *layer.numbers(10)))[kind]


def _deconvolution(layer: NcnnLayer, names: tuple[str, ...], output: str) -> list[Node]:
    weight, stride, crop = layer.weights["weight"], layer.pair(3, 1), layer.pair(4)
    square = len({*layer.pair(1), weight.shape[2]}) == len({*stride}) == len({*crop}) == 1
    if not square or layer.pair(2, 1) != (1, 1):
        raise InvalidValue(
            f"Deconvolution {layer.name}: got kernel {layer.pair(1)}, stride {stride}, padding "
            f"{crop}; allowed: the same along both axes, without dilation"
        )
    padding = (*crop, *crop)
    op = ConvTranspose(
        weight, layer.weights.get("bias"), stride, padding, activation=_activation(layer)
    )
    return [Node(op, names, (output,), layer.name)]


def _interp(layer: NcnnLayer, names: tuple[str, ...], output: str) -> list[Node]:
    rows, columns = layer.number(1, 1.0), layer.number(2, 1.0)
    if layer.integer(0) != 1 or rows % 1 or columns % 1:
        raise InvalidValue(
            f"Interp {layer.name}: got mode {layer.integer(0)}, factors {rows:g} and {columns:g}; "
            "allowed: mode 1, the nearest, and integers"
        )
    return [Node(Repeat((int(rows), int(columns))), names, (output,), layer.name)]


def _sum(layer: NcnnLayer, names: tuple[str, ...], output: str) -> list[Node]:
    is_sum = layer.integer(0) == (1 if layer.kind == "Eltwise" else 0)
    if not is_sum or len(names) != 2 or set(layer.numbers(1)) > {1.0}:
        raise InvalidValue(f"{layer.kind} {layer.name}: got a function; allowed: a sum of two")
    return [Node(Add(), names, (output,), layer.name)]


def _prelu(layer: NcnnLayer, names: tuple[str, ...], output: str) -> list[Node]:
    return [Node(Activation(("prelu", layer.weights["slopes"])), names, (output,), layer.name)]


def _relu(layer: NcnnLayer, names: tuple[str, ...], output: str) -> list[Node]:
    slope = layer.number(0, 0.0)
    activation = Activation(("leaky_relu", slope) if slope else "relu")
    return [Node(activation, names, (output,), layer.name)]


def _concat(layer: NcnnLayer, names: tuple[str, ...], output: str) -> list[Node]:
    return [Node(Concat(), names, (output,), layer.name)]


def _pixel_shuffle(layer: NcnnLayer, names: tuple[str, ...], output: str) -> list[Node]:
    factor = layer.integer(0, 1)
    return [Node(Spread((factor, factor)), names, (output,), layer.name)]


_NODES: dict[str, Callable[[NcnnLayer, tuple[str, ...], str], list[Node]]] = {
    "Convolution": _convolution,
    "Deconvolution": _deconvolution,
    "PReLU": _prelu,
    "ReLU": _relu,
    "PixelShuffle": _pixel_shuffle,
    "Interp": _interp,
    "Eltwise": _sum,
    "BinaryOp": _sum,
    "Concat": _concat,
}
