"""`torch.compile(model, backend="winogen")`: what dynamo captured, as segments and torch's rest."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch._ops import HigherOrderOperator

from winogen.graph.later import waiting
from winogen.torch import mutation
from winogen.torch.cases import Case
from winogen.torch.drafting import measured
from winogen.torch.proving import unproven
from winogen.torch.reading import Untraceable, read

Compiled = Callable[..., Any]

# After so many compilations in a row, of one call each, weights count as changing inputs.
_PATIENCE = 4


def winogen(module: fx.GraphModule, inputs: Sequence[Any]) -> Compiled:
    """Return a function that computes a captured graph; the backend of `torch.compile`.

    Parameters arrive as inputs. Weights of convolutions and normalizations are taken as they are
    now, and compared at every call: once one of them has changed, the graph is compiled anew. Where
    they change at every call it soon runs as captured.

    The graph runs as captured where gradients are wanted, where sizes are symbols, and for tensors
    elsewhere than on the CPU. So does a graph with a change of an input or a buffer in place, or
    with regions (`torch.autocast`, `torch.no_grad`, `torch.cond`, transforms). What winogen cannot
    compile runs as captured, too, with a warning.
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
        self.wasted = 0  # compilations in a row that served one call each
        self.given_up = (
            self.symbolic or not all(_plain(x) for x in inputs) or not _only_values(module)
        )

    def __call__(self, *inputs: Any) -> Any:
        if self.given_up or (
            torch.is_grad_enabled()
            and any(isinstance(x, torch.Tensor) and x.requires_grad for x in inputs)
        ):
            return self.module(*inputs)
        if self.compiled is not None and all(
            stamp.holds(inputs[i]) for i, stamp in self.stamps.items()
        ):
            self.wasted = 0
            return self.compiled(*inputs)
        self.wasted += 1
        if self.wasted > _PATIENCE:
            self._give_up()
            return self.module(*inputs)
        return self._first(inputs)

    def _first(self, inputs: Sequence[Any]) -> Any:
        """Compile and compute; kernels are planned and loaded by the first call."""
        states = [_Stamp(x) for x in inputs if isinstance(x, torch.Tensor)]
        try:
            self._compile(inputs)
            return (self.compiled or self.module)(*inputs)
        except Exception as problem:
            # What torch computes in between may have changed a buffer already, and would again.
            if not all(state.holds(state.tensor) for state in states):
                raise
            self._give_up()
            result = self.module(*inputs)  # where this raises, it is the model's own error
            warnings.warn(
                f"torch.compile: winogen leaves a graph to torch: {problem}",
                RuntimeWarning,
                stacklevel=2,
            )
            return result

    def _compile(self, inputs: Sequence[Any]) -> None:
        given = zip(self.names, inputs)
        constants = _Constants({name: x for name, x in given if isinstance(x, torch.Tensor)})
        try:
            reading = read(self.module, constants=constants)
        except Untraceable:
            self._give_up()
            return
        self.stamps = {
            i: _Stamp(inputs[i]) for i, name in enumerate(self.names) if name in constants.asked
        }
        if not reading.graph.convolutions:
            self._give_up()
            return
        body, decision = measured(reading)
        case = Case("this call", list(inputs), [], None)
        with waiting():  # torch would prove itself
            wrong = unproven(self.module, reading, body, decision, [case])
        if wrong:
            raise Untraceable(next(iter(wrong.values())))
        self.compiled = body

    def _give_up(self) -> None:
        self.given_up, self.compiled, self.stamps = True, None, {}


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


def _only_values(module: fx.GraphModule) -> bool:
    """Whether nodes are there for their values, and none for a state that others compute in.

    What begins or ends a region of autocast, of a gradient mode or of a transform has no result
    that anybody reads; a branch or a checkpoint is a function of functions.
    """
    modules = dict(module.named_modules())
    for node in module.graph.nodes:
        if isinstance(node.target, HigherOrderOperator):
            return False
        idle = node.op in ("call_function", "call_method") and not node.users
        if idle and mutation.changed_by(node, modules) is None and not _harmless(node):
            return False
    return True


def _harmless(node: fx.Node) -> bool:
    """Whether a node that nobody reads has a tensor, or a tuple, as its result."""
    return isinstance(node.meta.get("example_value"), (torch.Tensor, tuple))


def _plain(x: Any) -> bool:
    return not isinstance(x, torch.Tensor) or (
        x.device.type == "cpu"
        and x.layout is torch.strided
        and all(isinstance(size, int) for size in x.shape)
    )
