"""The way for models that nothing can trace: convolutions are replaced module by module."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch import nn

from winogen.graph import Graph, Node
from winogen.torch.calling import Calls
from winogen.torch.calls import Untranslated
from winogen.torch.cases import run
from winogen.torch.copies import restored
from winogen.torch.deciding import Decision, decide
from winogen.torch.layers import conv_of_module
from winogen.torch.module import Conv2d
from winogen.torch.translate import is_changed


def swap(
    model: nn.Module,
    calls: Calls,
    exclude: Collection[Any],
    *,
    tolerance: float | None,
    threads: int | None,
    memory_limit: int | None,
) -> tuple[nn.Module, Decision]:
    """Replace convolutions of ``model``, which is changed, by those of winogen where faster.

    The model runs once, to see the shapes. What it does not call then stays torch's.
    """
    seen = _seen(model, calls, exclude)
    nodes: list[Node] = []
    shapes: dict[str, tuple[int, ...]] = {}
    planar = 0
    for name, (module, shape, is_planar) in seen.items():
        try:
            op = conv_of_module(module)
        except Untranslated:
            continue
        nodes.append(Node(op, (f"{name}.input",), (name,), name))
        shapes[f"{name}.input"] = shape
        planar += 1 if is_planar else -1
    graph = Graph([node.inputs[0] for node in nodes], nodes, [node.output for node in nodes])
    decision = decide(
        graph,
        shapes,
        tolerance=tolerance,
        threads=threads,
        memory_limit=memory_limit,
        layout="NCHW" if planar > 0 else "NHWC",
    )
    for node in nodes:
        if node.output not in decision.excluded:
            module = seen[node.output][0]
            ours = Conv2d.from_module(module, tolerance=tolerance, threads=threads).eval()
            model = _replaced(model, module, ours)
    return model, decision


def _seen(
    model: nn.Module, calls: Calls, exclude: Collection[Any]
) -> dict[str, tuple[nn.Conv2d, tuple[int, ...], bool]]:
    """The convolutions that are called, with the shape and memory order of their first input."""
    texts = [one for one in exclude if isinstance(one, str)]
    types = tuple(one for one in exclude if isinstance(one, type))
    seen: dict[str, Any] = {}
    handles = []

    def watch(name: str, module: nn.Module) -> None:
        def hook(_: nn.Module, args: tuple[Any, ...]) -> None:
            x = args[0] if args else None
            if isinstance(x, torch.Tensor) and x.dim() == 4 and name not in seen:
                seen[name] = (module, tuple(x.shape), x.is_contiguous())

        handles.append(module.register_forward_pre_hook(hook))

    kept: list[nn.Module] = [m for m in model.modules() if types and isinstance(m, types)]
    kept += [module for name, module in model.named_modules() if name in texts]
    spared = {id(inner) for module in kept for inner in module.modules()}
    for name, module in model.named_modules():
        if type(module) is nn.Conv2d and id(module) not in spared and not is_changed(module):
            watch(name, module)
    try:
        with torch.no_grad(), restored(model):
            run(model, calls)
    finally:
        for handle in handles:
            handle.remove()
    return seen


def _replaced(model: nn.Module, old: nn.Module, new: nn.Module) -> nn.Module:
    """Put a module wherever another is, which may be several places."""
    if model is old:
        return new
    for parent in list(model.modules()):
        for name, child in list(parent._modules.items()):
            if child is old:
                setattr(parent, name, new)
    return model
