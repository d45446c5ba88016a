"""The arguments of one node of a traced model, and what may become of it in a graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import fx


class Untranslated(Exception):
    """A node that stays torch's; says why where somebody may ask."""


class Translation(NamedTuple):
    """Operators one behind the other, and the tensors that they read; none: the tensor itself."""

    ops: list[Any]
    inputs: list[fx.Node]
    label: str = ""


# What methods, operators of aten and numpy call an argument, and what it is called here.
_NAMES = {"self": "input", "tensor": "input", "axis": "dim", "keepdims": "keepdim"}
_NAMES |= dict.fromkeys(("chunks", "split_size", "split_sizes", "split_size_or_sections"), "count")


def first(node: fx.Node) -> Any:
    """Return the first argument, given by position or by name; None where there is none."""
    by_name = (x for name, x in node.kwargs.items() if _NAMES.get(name, name) == "input")
    return node.args[0] if node.args else next(by_name, None)


def others(node: fx.Node) -> tuple[Any, ...]:
    """Return the other arguments, by position and by name, out of the list where they are one."""
    given = (*node.args, *node.kwargs.values())
    rest = tuple(x for x in given if x is not first(node))
    return tuple(rest[0]) if len(rest) == 1 and isinstance(rest[0], (tuple, list)) else rest


def weight_of(node: Any, constants: Mapping[str, torch.Tensor]) -> torch.Tensor | None:
    """Return the tensor of a node that is a weight; None for what may be an input of the model."""
    name = getattr(node, "name", "")
    if name not in constants:
        return None
    held = node.op != "placeholder" or isinstance(constants[name], torch.nn.Parameter)
    return constants.get(name) if held else None


class Call:
    """The arguments of one node, by name, and what is known of the tensors among them."""

    def __init__(
        self,
        node: fx.Node,
        constants: Mapping[str, torch.Tensor],
        shapes: Mapping[str, tuple[int, ...]],
    ):
        self.node, self.constants, self.shapes = node, constants, shapes

    def bind(self, names: str, **defaults: Any) -> dict[str, Any]:
        """The arguments by these names, in their order."""
        order, args = names.split(), self.node.args
        named = {n if n in order else _NAMES.get(n, n): x for n, x in self.node.kwargs.items()}
        if len(args) > len(order) or not named.keys() <= set(order):
            raise Untranslated
        return {**defaults, **dict(zip(order, args)), **named}

    def map(self, value: Any) -> fx.Node:
        """``value`` as a map (N, C, H, W) of floats, or as volumes (N, C, D, H, W)."""
        if not isinstance(value, fx.Node) or len(self.shapes.get(value.name, ())) not in (4, 5):
            raise Untranslated
        return value

    def rank(self, value: Any) -> int:
        """How many axes a map has besides those of images and channels."""
        return len(self.shapes[self.map(value).name]) - 2

    def is_channels(self, value: Any, axis: Any) -> bool:
        """Whether an axis of a map is that of its channels, counted from either end."""
        return axis in (1, -1 - self.rank(value))

    def channels(self, value: fx.Node) -> int:
        """Of a map; they must be known."""
        channels = self.shapes[value.name][1]
        if not isinstance(channels, int):
            raise Untranslated
        return channels

    def constant(self, value: Any) -> np.ndarray | None:
        """The numbers of a weight; None for None."""
        if value is None:
            return None
        tensor = self.constants.get(value.name) if isinstance(value, fx.Node) else value
        return array(tensor)


def array(tensor: Any) -> np.ndarray:
    """Return a CPU tensor of float32 or float64 as an array, in its memory if that is contiguous.

    Raises Untranslated.
    """
    if not isinstance(tensor, torch.Tensor) or tensor.device.type != "cpu":
        raise Untranslated
    if tensor.dtype not in (torch.float32, torch.float64):
        raise Untranslated
    numbers: np.ndarray = tensor.detach().contiguous().numpy()
    return numbers


def per_axis(value: Any, rank: int = 2) -> tuple[int, ...]:
    """Return what a number or a sequence says of each axis, as height and width."""
    values = list(value) if isinstance(value, (tuple, list)) else [value]
    if not all(isinstance(v, int) for v in values) or len(values) not in (1, rank):
        raise Untranslated
    return tuple(values) if len(values) == rank else (values[0],) * rank


def dtype(node: fx.Node) -> torch.dtype:
    """Return the type of a node's tensor, whoever noted it."""
    for key in ("val", "example_value", "tensor_meta"):
        if node.meta.get(key) is not None:
            kind: torch.dtype = node.meta[key].dtype
            return kind
    raise Untranslated
