"""A network as a graph: operators between named values, most of them maps (N, C, H, W).

Shapes are always (N, C, H, W) here, or (N, C, D, H, W) of volumes, with which the same operators go
that name no axes. How the numbers lie in memory is chosen later. All that a
framework keeps to itself is an `Opaque` operator, whose values may be anything. Operators are
immutable, and so are graphs: a pass returns a new one.

>>> import numpy as np
>>> weight = np.ones((8, 3, 3, 3), np.float32)
>>> nodes = [Node(Conv(weight, padding=(1, 1, 1, 1)), ("x",), ("y",)),
...          Node(Activation("relu"), ("y",), ("z",))]
>>> print(Graph(("x",), nodes, ("z",)))
x ->
y = conv 3x3 3->8 pad 1,1,1,1 (x)
z = relu (y)
-> z
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from winogen.errors import InvalidType, InvalidValue
from winogen.graph.convolutions import (
    Conv,
    Convolution,
    ConvTranspose,
    Joined,
    QConv,
    Scaled,
    Sizes,
    fill,
    listed,
    name_of,
    times,
)

# Of pickled graphs: raised when an operator changes its fields or what they mean.
FORMAT = 6
# What `conv2d` takes as `activation=`: None, a name, or (name, parameters...).
ActivationSpec = str | tuple | None


@dataclass(frozen=True, eq=False)
class Affine:
    """y[c] = scale[c] * x[c] + shift[c], per channel: a normalization at inference, or a factor."""

    scale: np.ndarray  # (C,)
    shift: np.ndarray  # (C,)

    @classmethod
    def batch_norm(cls, mean: Any, var: Any, weight: Any, bias: Any, eps: float) -> Affine:
        """Return the normalization by running statistics; ``weight`` and ``bias`` may be None."""
        kind = np.asarray(mean).dtype
        with np.errstate(all="ignore"):  # a variance of 0 makes infinite ones
            scale = 1 / np.sqrt(np.asarray(var, np.float64) + eps)
            if weight is not None:
                scale = scale * weight
            shift = -np.asarray(mean, np.float64) * scale
            if bias is not None:
                shift = shift + bias
            return cls(scale.astype(kind), shift.astype(kind))

    def __str__(self) -> str:
        return "affine"


@dataclass(frozen=True, eq=False)
class Activation:
    """A function of every number, as `conv2d` spells it."""

    activation: ActivationSpec

    def __str__(self) -> str:
        return name_of(self.activation)


@dataclass(frozen=True)
class Add:
    """The sum of two maps of one shape; ``repeated``: of a map and one of a single pixel."""

    repeated: bool = False

    def __str__(self) -> str:
        return "add pixel" if self.repeated else "add"


@dataclass(frozen=True)
class Multiply:
    """The product of two maps of one shape, or of a map and one of a single pixel (N, C, 1, 1)."""

    def __str__(self) -> str:
        return "multiply"


@dataclass(frozen=True)
class Concat:
    """Maps one behind the other along the channels."""

    def __str__(self) -> str:
        return "concat"


@dataclass(frozen=True)
class Slice:
    """Channels from ``start`` to before ``stop``; costs nothing."""

    start: int
    stop: int

    def __str__(self) -> str:
        return f"channels {self.start}:{self.stop}"


@dataclass(frozen=True)
class Pad:
    """Padding by itself: before and after each axis, in a mode of `conv2d`."""

    padding: Sizes  # top, bottom, left, right; of volumes front, back first
    mode: str = "zeros"

    def __str__(self) -> str:
        return f"pad {','.join(map(str, self.padding))} {self.mode}"


@dataclass(frozen=True)
class MaxPool:
    """The largest number of every window; padding, before and after each axis, is never larger."""

    kernel: Sizes
    stride: Sizes
    padding: Sizes = ()  # top, bottom, left, right; (): none
    dilation: Sizes = ()  # (): 1

    def __post_init__(self) -> None:
        fill(self, len(self.kernel), dilation=1)

    def __str__(self) -> str:
        text = f"max {times(self.kernel)} stride {listed(self.stride)}"
        if set(self.dilation) != {1}:
            text += f" dilation {listed(self.dilation)}"
        return text


@dataclass(frozen=True)
class AveragePool:
    """The mean of every window, of the numbers that are there; ``counted``: of padding, too."""

    kernel: Sizes
    stride: Sizes
    padding: Sizes = ()  # top, bottom, left, right; (): none
    counted: bool = False

    def __post_init__(self) -> None:
        fill(self, len(self.kernel))

    def __str__(self) -> str:
        return f"mean {times(self.kernel)} stride {listed(self.stride)}"


@dataclass(frozen=True)
class GlobalAverage:
    """The mean of every channel, a map of one pixel."""

    def __str__(self) -> str:
        return "global average"


@dataclass(frozen=True, eq=False)
class GroupNorm:
    """The channels of each group less their mean over all pixels, by their deviation.

    y = scale * (x - mean) / sqrt(variance + epsilon) + shift, None for 1 and 0.

    It may read a map of a single pixel besides, (N, C, 1, 1), which is added first.
    """

    groups: int
    scale: np.ndarray | None = None  # (C,)
    shift: np.ndarray | None = None  # (C,)
    epsilon: float = 1e-5
    activation: str | None = None  # or "relu" or "silu"
    needs: str = ""  # "image", "batch": values of a group there must be several, as in torch

    def __str__(self) -> str:
        text = f"group norm {self.groups}"
        return text + (f" + {self.activation}" if self.activation else "")


@dataclass(frozen=True, eq=False)
class LayerNorm:
    """Each pixel's channels less their mean, by their deviation.

    y = scale * (x - mean) / sqrt(variance + epsilon) + shift, None for 1 and 0.
    """

    scale: np.ndarray | None = None  # (C,)
    shift: np.ndarray | None = None  # (C,)
    epsilon: float = 1e-5
    activation: str | None = None  # or "relu" or "silu"

    def __str__(self) -> str:
        return "layer norm" + (f" + {self.activation}" if self.activation else "")


@dataclass(frozen=True)
class Softmax:
    """exp(x) by its sum over all channels of a pixel."""

    def __str__(self) -> str:
        return "softmax"


@dataclass(frozen=True)
class Shuffle:
    """Channels in another order: (g, c), by ``groups``, as (c, g)."""

    groups: int

    def __str__(self) -> str:
        return f"shuffle {self.groups}"


@dataclass(frozen=True)
class Repeat:
    """Every pixel repeated along each axis: enlarged by the nearest neighbour."""

    factor: Sizes

    def __str__(self) -> str:
        return f"repeat {times(self.factor)}"


@dataclass(frozen=True)
class Spread:
    """Channels of a map spread over blocks of pixels: so many times fewer channels, more pixels.

    Pixel (i, j) of the block of channel c comes from channel (c, i, j) with the order "channels",
    as in torch's `pixel_shuffle`, or from (i, j, c) with "pixels". What is cropped, top, bottom,
    left, right, is left out of the result.
    """

    factor: Sizes  # height, width
    order: str = "channels"
    crop: Sizes = (0, 0, 0, 0)

    def __str__(self) -> str:
        text = f"spread {self.factor[0]}x{self.factor[1]}"
        return text + (f" crop {','.join(map(str, self.crop))}" if any(self.crop) else "")


@dataclass(frozen=True, eq=False)
class Opaque:
    """What the framework keeps: passes and segments stop at it. ``payload`` is the framework's."""

    name: str
    payload: Any = None

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class Plain:
    """What loops over arrays of any number of axes compute, which passes and planners leave alone.

    ``shape``: of its output as a map. ``payload`` says what is computed, to who asked for it.
    """

    name: str
    shape: tuple[int, ...]
    payload: Any = None

    def __str__(self) -> str:
        return self.name


# What is a step of its own as it is: see `winogen.graph.maps`.
Norm = GroupNorm | LayerNorm
Pooling = MaxPool | AveragePool | GlobalAverage
Moving = Pooling | Norm | Softmax | Multiply | Shuffle | Repeat | Spread
Operator = (
    Convolution | QConv | Affine | Activation | Add | Concat | Slice | Pad | Moving | Plain | Opaque
)
# The numbers of inputs that an operator may have.
_INPUTS: dict[type, range] = {
    Conv: range(1, 4),
    ConvTranspose: range(1, 2),
    QConv: range(1, 2),
    Affine: range(1, 2),
    Activation: range(1, 2),
    Add: range(2, 3),
    Multiply: range(2, 3),
    Concat: range(1, 1 << 20),
    Slice: range(1, 2),
    Pad: range(1, 2),
    MaxPool: range(1, 2),
    AveragePool: range(1, 2),
    GlobalAverage: range(1, 2),
    GroupNorm: range(1, 3),
    LayerNorm: range(1, 2),
    Softmax: range(1, 2),
    Shuffle: range(1, 2),
    Repeat: range(1, 2),
    Spread: range(1, 2),
    Plain: range(1, 1 << 20),
    Opaque: range(1 << 20),
}


@dataclass(frozen=True, eq=False)
class Node:
    """An operator between values. All but Opaque have one output."""

    op: Operator
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    label: str = ""  # what people call it: the name of the layer

    @property
    def output(self) -> str:
        """The only output."""
        (output,) = self.outputs
        return output

    @property
    def add(self) -> str:
        """The value that is added before the activation, or the other factor; "" for none."""
        return self.inputs[1] if len(self.inputs) > 1 else ""

    @property
    def add_after(self) -> str:
        """The value that a convolution adds behind its activation; "" for none."""
        return self.inputs[2] if len(self.inputs) > 2 else ""

    @property
    def reads(self) -> tuple[str, ...]:
        """Its inputs without the missing ones."""
        return tuple(name for name in self.inputs if name)

    def seams(self, add: str, add_after: str) -> Node:
        """Return the convolution with these values to add."""
        inputs: tuple[str, ...] = (self.inputs[0], add, add_after)
        while not inputs[-1]:
            inputs = inputs[:-1]
        return replace(self, inputs=inputs)


class Graph:
    """Nodes in an order in which they can be computed, with the inputs and outputs of the whole.

    Raises InvalidValue for a value that is made twice, or read before it is made, and for an
    operator with a wrong number of inputs.
    """

    def __init__(self, inputs: Iterable[str], nodes: Iterable[Node], outputs: Iterable[str]):
        self.inputs = tuple(inputs)
        self.nodes: tuple[Node, ...] = tuple(nodes)
        self.outputs = tuple(outputs)
        self._check()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "format": FORMAT}

    def __setstate__(self, state: dict[str, Any]) -> None:
        written = state.pop("format", None)
        if written != FORMAT:
            raise InvalidValue(
                f"graph: got format {written}; allowed: {FORMAT}. Another version of winogen wrote "
                "it: optimize the model again"
            )
        self.__dict__.update(state)

    def _check(self) -> None:
        made = set(self.inputs)
        if len(made) < len(self.inputs):
            raise InvalidValue(f"inputs: got {self.inputs}; allowed: every name once")
        for node in self.nodes:
            if type(node.op) not in _INPUTS:
                raise InvalidType(f"op: got {type(node.op).__name__}; allowed: an operator of ir")
            if len(node.inputs) not in _INPUTS[type(node.op)] or (
                not isinstance(node.op, Opaque) and len(node.outputs) != 1
            ):
                raise InvalidValue(
                    f"node {node.label or node.op}: got {len(node.inputs)} inputs and "
                    f"{len(node.outputs)} outputs; allowed: as many as the operator has"
                )
            for name in node.reads:
                if name not in made:
                    raise InvalidValue(f"value {name!r}: read by {node.op} before it is made")
            for name in node.outputs:
                if name in made or not name:
                    raise InvalidValue(f"value {name!r}: made twice, or without a name")
                made.add(name)
        for name in self.outputs:
            if name not in made:
                raise InvalidValue(f"outputs: got {name!r}; allowed: values of the graph")

    def __str__(self) -> str:
        lines = [f"{', '.join(self.inputs)} ->"]
        for node in self.nodes:
            inputs = ", ".join(name or "-" for name in node.inputs)
            lines.append(f"{', '.join(node.outputs)} = {node.op} ({inputs})")
        return "\n".join([*lines, f"-> {', '.join(self.outputs)}"])

    @property
    def uses(self) -> Counter[str]:
        """How often each value is read, by nodes and as an output of the graph."""
        counts = Counter(self.outputs)
        for node in self.nodes:
            counts.update(node.reads)
        return counts

    @property
    def makers(self) -> dict[str, Node]:
        """The node that makes each value; inputs are not among them."""
        return {name: node for node in self.nodes for name in node.outputs}

    @property
    def dtype(self) -> np.dtype | None:
        """The type of all parameters; None if there are none. Raises InvalidType if they differ."""
        kinds = {array.dtype for node in self.nodes for array in parameters(node.op)}
        if len(kinds) > 1:
            names = ", ".join(sorted(map(str, kinds)))
            raise InvalidType(f"parameters: got dtypes {names}; allowed: one for the whole graph")
        return kinds.pop() if kinds else None

    def with_nodes(self, nodes: Sequence[Node]) -> Graph:
        """Return the same graph with other nodes."""
        return Graph(self.inputs, nodes, self.outputs)

    def without_dead(self) -> Graph:
        """Return the graph without nodes that nothing depends on; Opaque ones stay."""
        needed, kept = set(self.outputs), []
        for node in reversed(self.nodes):
            if isinstance(node.op, Opaque) or needed.intersection(node.outputs):
                kept.append(node)
                needed.update(node.reads)
        return self.with_nodes(kept[::-1])


def parameters(op: Operator) -> list[np.ndarray | Scaled | Joined]:
    """Return all arrays of an operator."""
    if isinstance(op, Convolution):
        arrays: list[np.ndarray | Scaled | Joined] = [
            op.weight,
            *([] if op.bias is None else [op.bias]),
        ]
    elif isinstance(op, Affine):
        return [op.scale, op.shift]
    elif isinstance(op, (GroupNorm, LayerNorm)):
        return [array for array in (op.scale, op.shift) if array is not None]
    elif isinstance(op, Activation):
        arrays = []
    else:
        return []
    spec = op.activation
    return (
        arrays + [v for v in spec[1:] if isinstance(v, np.ndarray)]
        if isinstance(spec, tuple)
        else arrays
    )
