"""What an ONNX node is, and what is asked of values to find that out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from winogen.graph.ops import Operator
from winogen.onnx.model import Model
from winogen.onnx.sizes import STANDARD, input_of


def axes_of(model: Any, node: Any, rank: int) -> set[int] | None:
    """Return the axes of an attribute or an input, of ``rank``, from the front; None if unknown."""
    axes, array = model.attributes(node).get("axes"), model.constant(input_of(node, 1))
    if axes is None and array is not None:
        axes = array.reshape(-1).tolist()
    return None if axes is None else {axis % rank for axis in axes}


class Match(NamedTuple):
    """An operator, what it reads, and the nodes besides its own that it stands for."""

    op: Operator
    inputs: tuple[str, ...]
    within: tuple[Any, ...] = ()
    label: str = ""  # what people call it, if not as its own node
    others: tuple[Operator, ...] = ()  # what makes the outputs but the first


class Values:
    """The values of a model whose numbers are of type ``kind``."""

    def __init__(self, model: Model, kind: int, everywhere: bool = False):
        self.model = model
        self.everywhere = everywhere  # whether constants join maps that no layer takes on, too
        self.kind = kind
        self.dtype = model.onnx.helper.tensor_dtype_to_np_dtype(kind)

    def channels(self, name: str) -> int:
        """Return the channels of a map."""
        return self.model.sizes[name][1].number

    def _is_map(self, name: str) -> bool:
        """Whether a value is (N, C, H, W), or (N, C, D, H, W), of the right type with a known C.

        Constants are none: graphs have them as parameters of operators only.
        """
        sizes = self.model.sizes.get(name)
        if sizes is None or len(sizes) not in (4, 5) or not sizes[1].known:
            return False
        if self.model.constant(name) is not None:
            return False
        return self.model.kind(name) in (self.kind, 0)

    def rank(self, name: str) -> int:
        """Return how many axes a map has besides those of images and channels."""
        return len(self.model.sizes[name]) - 2

    def _is_channels(self, axis: Any, name: str) -> bool:
        """Whether an axis of a map is that of its channels, counted from either end."""
        return axis in (1, -1 - self.rank(name))

    def _array(self, name: str) -> np.ndarray | None:
        """A constant of the right type."""
        array = self.model.constant(name)
        return array if array is not None and array.dtype == self.dtype else None

    def _scalar(self, name: str) -> float | None:
        array = self.model.constant(name)
        return float(array.reshape(-1)[0]) if array is not None and array.size == 1 else None

    def _per_channel(self, name: str, channels: int, rank: int = 2) -> np.ndarray | None:
        """A constant that is one number per channel of a map of ``rank`` axes, or one for all."""
        array = self._array(name)
        if array is None or array.ndim > 2 + rank:
            return None
        shape = (1,) * (2 + rank - array.ndim) + array.shape
        if shape not in ((1, channels, *[1] * rank), (1,) * (2 + rank)):
            return None
        return np.ascontiguousarray(np.broadcast_to(array.reshape(-1), (channels,)))

    def _mean_axes(self, node: Any) -> set[int] | None:
        """The axes that a ReduceMean is over, counted from the front; None if nobody knows."""
        sizes = self.model.sizes.get(node.input[0])
        return None if sizes is None else axes_of(self.model, node, len(sizes))

    def _alone(self, name: str, kind: str) -> Any:
        """The node of this kind that makes a value with a single reader."""
        node = self.model.makers.get(name)
        if node is None or node.op_type != kind or node.domain not in STANDARD:
            return None
        return node if self.model.uses[name] == 1 else None
