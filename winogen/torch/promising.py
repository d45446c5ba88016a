"""What torch measures where a model's output has a tolerance: gains of layers, errors on inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx, nn

from winogen.graph.promise import PART, Promise, distance, draws_of
from winogen.tasks.limit import clock, limit
from winogen.torch.calling import Calls, clones
from winogen.torch.cases import alike, run
from winogen.torch.copies import evaluated, restored

# Noise of a layer, relative to its output: small enough that nets are about linear.
_NOISE = {torch.float32: 1e-3, torch.float64: 1e-6}
# Inputs besides the example on which errors are measured, but for one as far as there is time.
_OTHERS = 3


class Noisy(fx.Interpreter):
    """Runs a trace with noise in the value of one node."""

    def __init__(self, module: fx.GraphModule):
        super().__init__(module)
        self.name, self.generator, self.noise = "", torch.Generator(), 0.0

    def leaves(self, tensors: Sequence[Tensor], name: str = "", draw: int = 0) -> list[Tensor]:
        """Return the outputs that are floats; ``name``: the node with noise, "" for none."""
        self.name = name
        self.generator.manual_seed(draw)
        torch.manual_seed(0)
        found = self.run(*clones(tensors))
        return [y.detach().clone() for y in found if _is_real(y)]

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
    """Return how many times a layer's relative L2 error is the error that an output has from it.

    ``module`` is a trace, ``names`` are values of its graph: where nodes have such a name, noise is
    added to their values, on the example. The output that moves most counts. Layers whose value no
    node has are missing, and those that a part of the limit of seconds leaves no time for.
    """
    found: dict[str, float] = {}
    begin, most = clock(), limit().seconds
    noisy, nodes = Noisy(module), {node.name for node in module.graph.nodes}
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        clean = noisy.leaves(calls.tensors)
        draws = draws_of(y.numel() for y in clean)
        for name in names:
            if most is not None and clock() - begin > PART * most:
                break
            node = name.partition(".")[0]  # "conv.0" is a part of the node conv
            if node in nodes:
                squares = [0.0] * len(clean)
                for draw in range(draws):
                    noisy.noise = 0.0
                    moved = noisy.leaves(calls.tensors, node, draw)
                    for place, (y, exact) in enumerate(zip(moved, clean)):
                        off = distance(y.numpy(), exact.numpy()) / (noisy.noise or 1.0)
                        squares[place] += off**2 / draws
                if noisy.noise:
                    found[name] = max(squares, default=0.0) ** 0.5
    return found


class _Case(NamedTuple):
    tensors: list[Tensor]
    theirs: list[Any]  # what torch makes of them
    exact: list[Any]  # the same in float64


class Unseen:
    """A model in float64 and as torch computes it, on the example and on inputs like it."""

    def __init__(self, model: nn.Module, calls: Calls):
        self.model, self.calls = model, calls
        self._cases: list[_Case] = []
        double, most = evaluated(model).double(), limit().seconds
        begin = clock()
        with torch.no_grad():
            for seed in range(1 + _OTHERS):
                late = most is not None and clock() - begin > PART * most
                if late and len(self._cases) > 1:
                    break
                tensors = alike(calls.tensors, seed) if seed else calls.tensors
                try:
                    with restored(model):
                        theirs = run(model, calls, clones(tensors))[0]
                    exact = run(double, calls, [_double(t) for t in clones(tensors)])[0]
                except Exception:  # a model that is made for one type, or takes no other numbers
                    continue
                if _off(theirs, exact) is not None:
                    self._cases.append(_Case(tensors, theirs, exact))

    def promise(
        self, optimized: Callable[..., Any], asked: float, predicted: float = 0.0
    ) -> Promise | None:
        """Return the errors at the outputs; None where no input has known ones."""
        if not self._cases:
            return None
        measured = theirs = 0.0
        with torch.no_grad():
            for case in self._cases:
                with restored(self.model):
                    ours = run(optimized, self.calls, clones(case.tensors))[0]
                off = _off(ours, case.exact)
                measured = max(measured, float("inf") if off is None else off)
                theirs = max(theirs, _off(case.theirs, case.exact) or 0.0)
        return Promise(asked, measured, theirs, len(self._cases), predicted)


def _off(leaves: Sequence[Any], exact: Sequence[Any]) -> float | None:
    """The error of the worst output; None where there is none, or they are not alike."""
    pairs = [(y, e) for y, e in zip(leaves, exact) if _is_real(y)]
    if not pairs or len(leaves) != len(exact):
        return None
    if any(not _is_real(e) or y.shape != e.shape or not e.isfinite().all() for y, e in pairs):
        return None
    return max(distance(y.numpy(), e.numpy()) for y, e in pairs)


def _double(tensor: Tensor) -> Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


def _is_real(value: Any) -> bool:
    return (
        isinstance(value, Tensor)
        and value.dtype in _NOISE
        and value.layout is torch.strided
        and value.numel() > 0
    )
