"""A model as an fx graph whose nodes know their shapes: by `torch.fx`, else by `torch.export`."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx, nn
from torch.fx.passes.shape_prop import ShapeProp


class _Tracer(fx.Tracer):
    """Modules of torch and winogen stay whole, so that they are read by their type."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Whether the module is one node."""
        ours = type(m).__module__.startswith("winogen.torch.")
        return ours or super().is_leaf_module(m, module_qualified_name)


def traced(model: nn.Module, inputs: tuple[Any, ...]) -> tuple[fx.GraphModule, str]:
    """Return the traced model, in evaluation mode, and what traced it.

    The model is shared by the result. Raises RuntimeError where nothing can trace it, with the
    reasons.
    """
    reasons = []
    for name, way in (("torch.fx", _by_fx), ("torch.export", _by_export)):
        try:
            with torch.no_grad(), _silence():
                return way(model, inputs), name
        except Exception as problem:  # whatever a tracer raises, the next way is tried
            text = str(problem).strip().splitlines()
            reasons.append(f"{name}: {type(problem).__name__}: {text[0] if text else ''}"[:200])
    raise RuntimeError("; ".join(reasons))


def _by_fx(model: nn.Module, inputs: tuple[Any, ...]) -> fx.GraphModule:
    tracer = _Tracer()
    graph = tracer.trace(model)
    module = fx.GraphModule(tracer.root, graph, type(model).__name__)
    ShapeProp(module).propagate(*_copies(inputs))
    return module


def _by_export(model: nn.Module, inputs: tuple[Any, ...]) -> fx.GraphModule:
    """Sizes may vary where the model allows it."""
    try:
        shapes = tuple(
            dict.fromkeys(range(x.dim()), torch.export.Dim.AUTO) if _is_tensor(x) else None
            for x in inputs
        )
        program = torch.export.export(model, _copies(inputs), dynamic_shapes=shapes)
    except Exception:
        program = torch.export.export(model, _copies(inputs))
    exported = program.module()
    module = fx.GraphModule(exported, exported.graph, type(model).__name__)
    ShapeProp(module).propagate(*_copies(inputs))
    for node in module.graph.nodes:  # example sizes, where export has symbols
        if node.meta.get("tensor_meta") is not None:
            node.meta.pop("val", None)
    return module


@contextmanager
def _silence() -> Iterator[None]:
    """What a tracer says about a model that it cannot trace is told in the report, in a line."""
    loggers = [logging.getLogger(name) for name in list(logging.root.manager.loggerDict)]
    muted = [one for one in loggers if one.name.startswith("torch") and not one.disabled]
    for one in muted:
        one.disabled = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for one in muted:
            one.disabled = False


def _copies(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The model may change its inputs in place."""
    return tuple(x.clone() if _is_tensor(x) else x for x in inputs)


def _is_tensor(x: Any) -> bool:
    return isinstance(x, torch.Tensor)
