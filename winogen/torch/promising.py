"""What torch measures where a model's output has a tolerance: gains of layers, errors on inputs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn

from winogen.graph import promise
from winogen.torch.calling import Calls, clones
from winogen.torch.cases import run
from winogen.torch.copies import evaluated, restored
from winogen.torch.inputs import alike

# Noise of a layer, relative to its output: small enough that nets are about linear.
_NOISE = {torch.float32: 1e-3, torch.float64: 1e-6}
# Inputs besides the example on which errors are measured, but for one as far as there is time.
_OTHERS = 3


class Noisy(fx.Interpreter):
    """Runs a trace with noise in the value of one node."""

    def __init__(self, module: fx.GraphModule):
        super().__init__(module)
        self.name, self.generator, self.noise = "", torch.Generator(), 0.0

    def leaves(self, tensors: Sequence[Tensor], name: str = "", draw: int = 0) -> list[Any]:
        """Return the outputs as arrays; ``name``: the node with noise, "" for none."""
        self.name = name
        self.generator.manual_seed(draw)
        torch.manual_seed(0)
        found = self.run(*clones(tensors))
        return _arrays(y.detach().clone() if isinstance(y, Tensor) else y for y in found)

    def run_node(self, n: fx.Node) -> Any:
        """Run a node."""
        result = super().run_node(n)
        if n.name != self.name or not _is_real(result):
            return result
        self.noise = _NOISE[result.dtype]
        spread = result.double().square().mean().sqrt().item()
        drawn = torch.randn(result.shape, generator=self.generator, dtype=result.dtype)
        return result + self.noise * spread * drawn


def gains_of(module: fx.GraphModule, names: Iterable[str], calls: Calls) -> dict[str, float]:
    """Return the gains of values of a trace's graph: see `winogen.graph.promise.gains_of`.

    Where nodes have such a name, noise is added to their values, on the example.
    """
    is_late, noisy = promise.part_of_limit(), Noisy(module)
    nodes = {node.name for node in module.graph.nodes}

    def moved(name: str, draw: int) -> tuple[list[Any], float] | None:
        node = name.partition(".")[0]  # "conv.0" is a part of the node conv
        if node not in nodes:
            return None
        noisy.noise = 0.0
        leaves = noisy.leaves(calls.tensors, node, draw)
        return (leaves, noisy.noise) if noisy.noise else None

    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        return promise.gains_of(names, noisy.leaves(calls.tensors), moved, is_late)


class UnseenInputs:
    """A model in float64 and as torch computes it, on the example and on inputs like it."""

    def __init__(self, model: nn.Module, calls: Calls, fixed: Collection[Tensor] = ()):
        """``fixed``: arguments that are weights, the same in all inputs."""
        self.model, self.calls = model, calls
        self._cases: list[promise.Unseen] = []
        double, is_late = evaluated(model).double(), promise.part_of_limit()
        with torch.no_grad():
            for seed in range(1 + _OTHERS):
                if is_late() and len(self._cases) > 1:
                    break
                tensors = alike(calls.tensors, seed) if seed else calls.tensors
                for place, tensor in enumerate(calls.tensors):
                    if any(tensor is one for one in fixed):
                        tensors[place] = tensor
                try:
                    with restored(model):
                        theirs = _arrays(run(model, calls, clones(tensors))[0])
                    exact = _arrays(run(double, calls, [_double(t) for t in clones(tensors)])[0])
                except Exception:  # a model that is made for one type, or takes no other numbers
                    continue
                if promise.output_error(theirs, exact) is not None:
                    self._cases.append(promise.Unseen(tensors, theirs, exact))

    def promise(
        self, optimized: Callable[..., Any], asked: float, predicted: float = 0.0
    ) -> promise.OutputPromise | None:
        """Return the errors at the outputs; None where no input has known ones."""

        def outputs(tensors: list[Tensor]) -> list[Any]:
            with restored(self.model):
                return _arrays(run(optimized, self.calls, clones(tensors))[0])

        with torch.no_grad():
            return promise.promised(self._cases, outputs, asked, predicted)


def _arrays(leaves: Iterable[Any]) -> list[Any]:
    """Tensors of floats as arrays, and None for all else."""
    return [leaf.numpy() if _is_real(leaf) else None for leaf in leaves]


def _double(tensor: Tensor) -> Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


def _is_real(value: Any) -> bool:
    return (
        isinstance(value, Tensor)
        and value.dtype in _NOISE
        and value.layout is torch.strided
        and value.numel() > 0
    )
