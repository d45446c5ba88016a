"""An RRDB as stable-diffusion.cpp builds ESRGAN's upscaler: of ggml's layers, of nodes, in float64.

The network stands once, in `upscaled`; what its layers are is the argument.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from winogen import conv2d
from winogen.conv.standalone import standalone

FEATURES, GROWTH, COLOURS = 64, 32, 3
SLOPE = 0.2
Shape = tuple[int, int, int]  # channels, filters, side


class Layers(Protocol):
    """What a network is made of."""

    def conv(self, x: Any, name: str, leaky: bool = False) -> Any:
        """A 3x3 layer with its bias."""

    def joined(self, x: Any, y: Any) -> Any:
        """The channels of both."""

    def added(self, x: Any, y: Any, scale: float = 1.0) -> Any:
        """x + scale y."""

    def enlarged(self, x: Any) -> Any:
        """Twice as high and wide, by the nearest pixels."""


def upscaled(layers: Layers, x: Any, blocks: int) -> Any:
    """Return a picture of four times the side."""
    first = layers.conv(x, "first")
    body = first
    for block in range(blocks):
        inner = body
        for dense in range(3):
            parts = inner
            for index in range(1, 5):
                grown = layers.conv(parts, f"body.{block}.{dense}.{index}", leaky=True)
                parts = layers.joined(parts, grown)
            last = layers.conv(parts, f"body.{block}.{dense}.5")
            inner = layers.added(inner, last, 0.2)
        body = layers.added(body, inner, 0.2)
    features = layers.added(first, layers.conv(body, "after"))
    for name in ("up1", "up2"):
        features = layers.conv(layers.enlarged(features), name, leaky=True)
    return layers.conv(layers.conv(features, "hr", leaky=True), "last")


def shapes(side: int, blocks: int) -> dict[str, Shape]:
    """Return (channels, filters, side) of every layer."""
    found = {"first": (COLOURS, FEATURES, side), "after": (FEATURES, FEATURES, side)}
    for block in range(blocks):
        for dense in range(3):
            for index in range(5):
                channels = FEATURES + GROWTH * index
                filters = GROWTH if index < 4 else FEATURES
                found[f"body.{block}.{dense}.{index + 1}"] = (channels, filters, side)
    found |= {"up1": (FEATURES, FEATURES, 2 * side), "up2": (FEATURES, FEATURES, 4 * side)}
    return found | {
        "hr": (FEATURES, FEATURES, 4 * side), "last": (FEATURES, COLOURS, 4 * side)
    }  # fmt: skip


Weights = Mapping[str, tuple[np.ndarray, np.ndarray]]


def weights(side: int, blocks: int) -> Weights:
    """Return random weights, of float16 as files have them, and biases."""
    draw = np.random.default_rng(0)
    made = {}
    for name, (channels, filters, _) in shapes(side, blocks).items():
        weight = draw.standard_normal((filters, channels, 3, 3)) / (3 * channels**0.5)
        made[name] = weight.astype(np.float16), draw.standard_normal(filters).astype(np.float32)
    return made


class Exact:
    """In float64."""

    def __init__(self, known: Weights) -> None:
        self.known = known

    def conv(self, x: Any, name: str, leaky: bool = False) -> Any:
        """See `Layers`."""
        weight, bias = (one.astype(float) for one in self.known[name])
        activation: Any = ("leaky_relu", SLOPE) if leaky else None
        return conv2d(x, weight, bias, padding=1, activation=activation, algorithm="direct")

    def joined(self, x: Any, y: Any) -> Any:
        """See `Layers`."""
        return np.concatenate([x, y], 1)

    def added(self, x: Any, y: Any, scale: float = 1.0) -> Any:
        """See `Layers`."""
        return x + scale * y

    def enlarged(self, x: Any) -> Any:
        """See `Layers`."""
        return x.repeat(2, 2).repeat(2, 3)


class Own:
    """By ggml's own nodes, as stable-diffusion.cpp makes them; ``conv``: which of its two ways."""

    def __init__(self, graph: Any, known: Weights, conv: Callable[..., Any]) -> None:
        self.graph, self.ggml, self.way = graph, graph.ggml, conv
        self.known = {name: tuple(map(graph.tensor, pair)) for name, pair in known.items()}

    def conv(self, x: Any, name: str, leaky: bool = False) -> Any:
        """See `Layers`."""
        ggml, context, (weight, bias) = self.ggml, self.graph.context, self.known[name]
        y = self.way(context, weight, x, 1, 1, 1, 1, 1, 1)
        filters = bias.contents.ne[0]
        y = ggml.ggml_add(context, y, ggml.ggml_reshape_4d(context, bias, 1, 1, filters, 1))
        return ggml.ggml_leaky_relu(context, y, SLOPE, True) if leaky else y

    def joined(self, x: Any, y: Any) -> Any:
        """See `Layers`."""
        return self.ggml.ggml_concat(self.graph.context, x, y, 2)

    def added(self, x: Any, y: Any, scale: float = 1.0) -> Any:
        """See `Layers`."""
        if scale != 1:
            y = self.ggml.ggml_scale(self.graph.context, y, scale)
        return self.ggml.ggml_add(self.graph.context, y, x)

    def enlarged(self, x: Any) -> Any:
        """See `Layers`."""
        nearest = self.ggml.GGML_SCALE_MODE_NEAREST
        return self.ggml.ggml_upscale(self.graph.context, x, 2, nearest)


class Generated(Own):
    """The same with a node of winogen's for every layer; ``compiled``: see `nodes`."""

    def __init__(
        self, graph: Any, known: Weights, compiled: Mapping[Any, Any], side: int, threads: int
    ) -> None:
        super().__init__(graph, known, graph.ggml.ggml_conv_2d)
        self.threads, self.nodes = threads, {}
        count = sum(name.startswith("body") for name in known) // 15
        for name, shape in shapes(side, count).items():
            node = compiled[shape, _is_leaky(name)]
            self.nodes[name] = node, node.packed(graph, self.known[name][0])

    def conv(self, x: Any, name: str, leaky: bool = False) -> Any:
        """See `Layers`."""
        node, packed = self.nodes[name]
        return node(self.graph, x, packed, self.known[name][1], threads=self.threads)


def _is_leaky(name: str) -> bool:
    return name in ("up1", "up2", "hr") or (name.startswith("body") and not name.endswith(".5"))


def nodes(folder: Path, side: int, threads: int, compiled: Callable[[Path, str], Any]) -> Any:
    """Return the generated layer of each shape, with and without an activation."""
    made = {}
    for name, shape in shapes(side, 1).items():
        key = shape, _is_leaky(name)
        if key in made:
            continue
        (channels, filters, size), leaky = key
        called = f"conv_{size}_{channels}_{filters}{'_leaky' * leaky}"
        files = standalone(
            (1, channels, size, size), (filters, channels, 3, 3), padding=1, name=called,
            host="ggml", threads=threads, activation=("leaky_relu", SLOPE) if leaky else None,
        )  # fmt: skip
        for file, text in files.items():
            (folder / file).write_text(text)
        made[key] = compiled(folder, called)
    return made
