"""`torch.compile(model, backend="winogen")`: what dynamo captured, as segments and torch's rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from winogen.graph import Conv
from winogen.torch.optimize import compiled
from winogen.torch.reading import Untraceable, read

Compiled = Callable[..., Any]


def winogen(module: fx.GraphModule, inputs: Sequence[Any]) -> Compiled:
    """Return a function that computes a captured graph; the backend of `torch.compile`.

    Parameters arrive as inputs. Those that are weights of convolutions and normalizations are taken
    as they are now, and compared at every call: once one of them has changed, the graph is compiled
    anew. Where gradients are wanted, where sizes are symbols, and for tensors elsewhere than on the
    CPU, the graph runs as captured.
    """
    return _Backend(module, inputs)


class _Backend:
    """A captured graph: compiled while its weights stay the same and no gradients are wanted."""

    def __init__(self, module: fx.GraphModule, inputs: Sequence[Any]):
        self.module = module
        self.names = [node.name for node in module.graph.nodes if node.op == "placeholder"]
        self.symbolic = any(not isinstance(x, torch.Tensor) for x in inputs)
        self.compiled: fx.GraphModule | None = None
        self.stamps: dict[int, _Stamp] = {}
        self.given_up = self.symbolic or not all(_plain(x) for x in inputs)

    def __call__(self, *inputs: Any) -> Any:
        if self.given_up or (
            torch.is_grad_enabled()
            and any(isinstance(x, torch.Tensor) and x.requires_grad for x in inputs)
        ):
            return self.module(*inputs)
        if self.compiled is None or not all(
            stamp.holds(inputs[i]) for i, stamp in self.stamps.items()
        ):
            self._compile(inputs)
        return (self.compiled or self.module)(*inputs)

    def _compile(self, inputs: Sequence[Any]) -> None:
        given = zip(self.names, inputs)
        constants = _Constants({name: x for name, x in given if isinstance(x, torch.Tensor)})
        try:
            reading = read(self.module, constants=constants)
        except Untraceable:
            self.given_up = True
            return
        self.stamps = {
            i: _Stamp(inputs[i]) for i, name in enumerate(self.names) if name in constants.asked
        }
        if not any(isinstance(node.op, Conv) for node in reading.graph.nodes):
            self.given_up = True
            return
        self.compiled, _ = compiled(reading)


class _Stamp:
    """A weight as it was: the same tensor, unless torch's counter of changes has moved on.

    Tensors made in inference mode have no counter; of them a copy is compared.
    """

    def __init__(self, tensor: torch.Tensor):
        self.tensor = tensor  # held, so that its memory is nobody else's
        self.pointer = tensor.data_ptr()
        self.version = None if tensor.is_inference() else tensor._version
        self.copy = tensor.clone() if tensor.is_inference() else None

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether this is the tensor, with the same numbers."""
        if tensor is not self.tensor or tensor.data_ptr() != self.pointer:
            return False
        if self.copy is not None:
            return torch.equal(tensor, self.copy)
        return tensor._version == self.version


class _Constants(dict):
    """Tensors by name, and which of them were asked for: the weights."""

    def __init__(self, tensors: dict[str, torch.Tensor]):
        super().__init__(tensors)
        self.asked: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        """Return a tensor, and note that it was asked for."""
        self.asked.add(name)
        return super().get(name, default)


def _plain(x: Any) -> bool:
    return not isinstance(x, torch.Tensor) or (
        x.device.type == "cpu" and all(isinstance(size, int) for size in x.shape)
    )
