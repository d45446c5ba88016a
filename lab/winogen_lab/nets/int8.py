"""Layers of a torch module with 8-bit inputs and weights, whatever multiplies the integers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np

Compute: TypeAlias = Callable[[np.ndarray], np.ndarray]  # one layer: (N, C, H, W) to its outputs


def largest_inputs(module: Any, convs: Iterable[Any], x: np.ndarray) -> dict[Any, float]:
    """Return the largest |input| that each of the layers gets while ``module`` sees ``x``."""
    import torch

    largest: dict[Any, float] = {}

    def watch(conv: Any, inputs: Any, output: Any) -> None:
        largest[conv] = max(largest.get(conv, 0.0), float(inputs[0].abs().max()))

    hooks = [conv.register_forward_hook(watch) for conv in convs]
    try:
        with torch.no_grad():
            module(torch.from_numpy(x))
    finally:
        for hook in hooks:
            hook.remove()
    return largest


@contextmanager
def replaced(layers: Mapping[Any, Compute]) -> Iterator[None]:
    """Within the ``with`` block, let functions of numpy compute the outputs of layers."""
    import torch

    def replace(compute: Compute) -> Callable[..., Any]:
        def hook(_: Any, inputs: Any, output: Any) -> Any:
            y = np.ascontiguousarray(compute(inputs[0].numpy()), np.float32)
            return torch.from_numpy(y)

        return hook

    hooks = [conv.register_forward_hook(replace(one)) for conv, one in layers.items()]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


class Int8Layer:
    """A convolution of integers of -127 to 127 around float arrays, by scales that are fixed.

    Inputs have one scale, by the ``largest`` |input|; every filter has its own. Between them is
    ``sums``: int8 (N, C, H, W) to the sums of products (N, M, OH, OW).
    """

    def __init__(self, conv: Any, largest: float):
        weight = conv.weight.detach().numpy()
        self._x_scale = (largest or 1.0) / 127
        scales = np.abs(weight).max((1, 2, 3)) / 127
        scales = np.where(scales > 0, scales, 1.0)
        self.weight = np.rint(weight / scales[:, None, None, None]).astype(np.int8)
        self._scales = (scales * self._x_scale).astype(np.float32)[:, None, None]
        self._bias = None if conv.bias is None else conv.bias.detach().numpy()[:, None, None]

    def integers(self, x: np.ndarray) -> np.ndarray:
        """Return inputs as int8."""
        return np.clip(np.rint(x / self._x_scale), -127, 127).astype(np.int8)

    def by(self, sums: Compute) -> Compute:
        """Return the layer whose integers are multiplied by ``sums``."""

        def compute(x: np.ndarray) -> np.ndarray:
            y = sums(self.integers(x)) * self._scales
            return y if self._bias is None else y + self._bias

        return compute
