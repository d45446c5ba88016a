"""The way for models that nothing can trace: convolutions are replaced module by module."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple, cast

import torch
from torch import nn

from winogen.codegen.transform import Transform
from winogen.conv.choice import Choice, transform_of
from winogen.graph import Convolution, Graph, Node
from winogen.torch.calling import Calls
from winogen.torch.calls import Untranslated
from winogen.torch.cases import run
from winogen.torch.copies import restored
from winogen.torch.deciding import Decision, decide
from winogen.torch.drafting import MEMORY
from winogen.torch.functional import LayerOptions
from winogen.torch.layers import conv_of_module
from winogen.torch.replacing import exchange, replaceable
from winogen.torch.report import Budget, Row
from winogen.torch.translate import is_changed
from winogen.typing import Algorithm


def swap(
    model: nn.Module,
    calls: Calls,
    exclude: Collection[Any],
    *,
    tolerance: float | None,
    threads: int | None,
    memory_limit: int | None,
) -> tuple[nn.Module, Decision]:
    """Replace convolutions of ``model``, which is changed, by winogen's where faster.

    The model runs once, to see the shapes. What it does not call then stays torch's.
    """
    seen = _seen(model, calls, exclude)
    kinds = dict.fromkeys(one.module.weight.dtype for one in seen.values())
    rows: list[Row] = []
    total = Decision("NHWC", set(), ())
    for kind in kinds:
        layers = {name: one for name, one in seen.items() if one.module.weight.dtype == kind}
        limit = memory_limit
        if limit is not None:  # every type has its share
            limit = limit * _weight_bytes(layers.values()) // _weight_bytes(seen.values())
        decision = _decided(layers, tolerance, threads, limit)
        for name in (row.name for row in decision.rows if row.runs != "torch"):
            module = layers[name].module
            options = _options(decision.choices[name], module.kernel_size)
            exchange({name: module}, options._replace(tolerance=tolerance, threads=threads))
        rows += decision.rows
        total = replace(
            decision,
            rows=tuple(rows),
            weight_bytes=total.weight_bytes + decision.weight_bytes,
            allowed=total.allowed | decision.allowed,
            budgets=_joined(total.budgets, decision.budgets),
        )
    return model, total


def _options(choice: Choice, kernel: tuple[int, ...]) -> LayerOptions:
    """Return options of a layer that runs so; left to itself, it would heed no limit."""
    axes = [
        points and transform_of(m, taps, points, choice.order)
        for m, taps, points in zip(choice.tile or kernel, kernel, choice.points)
    ]
    name = "moduli" if any(one and one.moduli for one in axes) else "points"
    sets = tuple(one and ", ".join(getattr(one, name) or _moduli(one)) for one in axes)
    given: dict[str, Any] = {name: sets} if any(sets) else {}
    return LayerOptions(cast(Algorithm, choice.algorithm), choice.tile, **given)


def _moduli(one: Transform) -> list[str]:
    """The same as moduli: the point 2 is the modulus x - 2."""
    return [text if text == "inf" else f"x - ({text})" for text in one.points]


def _weight_bytes(layers: Collection[_Layer]) -> int:
    return sum(layer.module.weight.nbytes for layer in layers)


def _joined(budgets: tuple[Budget, ...], others: tuple[Budget, ...]) -> tuple[Budget, ...]:
    """Return what layers of two types take together."""
    if not (budgets and others):
        return budgets or others
    return tuple(
        Budget(
            one.times_weights,
            one.packed_bytes + other.packed_bytes,
            one.predicted + other.predicted,
        )
        for one, other in zip(budgets, others)
    )


class _Layer(NamedTuple):
    module: nn.Conv2d
    shape: tuple[int, ...]  # of its first input
    planar: bool


def _decided(
    layers: dict[str, _Layer], tolerance: float | None, threads: int | None, limit: int | None
) -> Decision:
    """Return how layers of one type run, each alone."""
    nodes: list[Node] = []
    shapes: dict[str, tuple[int, ...]] = {}
    for name, layer in layers.items():
        with suppress(Untranslated):
            op = conv_of_module(layer.module)
            nodes.append(Node(op, (f"{name}.input",), (name,), name))
            shapes[f"{name}.input"] = layer.shape
    usual = MEMORY * sum(
        node.op.weight.nbytes for node in nodes if isinstance(node.op, Convolution)
    )
    planar = sum(layer.planar for layer in layers.values())
    return decide(
        Graph([node.inputs[0] for node in nodes], nodes, [node.output for node in nodes]),
        shapes,
        tolerance=tolerance,
        threads=threads,
        memory_limit=limit,
        usual_memory=usual,
        layout="NCHW" if 2 * planar > len(layers) else "NHWC",
    )


def _seen(model: nn.Module, calls: Calls, exclude: Collection[Any]) -> dict[str, _Layer]:
    """The called convolutions whose type alone says what they compute."""
    seen: dict[str, _Layer] = {}
    handles = []

    def watch(name: str, module: nn.Conv2d) -> None:
        def hook(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            x = args[0] if args else kwargs.get("input")
            if isinstance(x, torch.Tensor) and x.dim() == 4 and name not in seen:
                seen[name] = _Layer(module, tuple(x.shape), x.is_contiguous())

        handles.append(module.register_forward_pre_hook(hook, with_kwargs=True))

    for name, module in replaceable(model, exclude).items():
        if not is_changed(module):
            watch(name, module)
    try:
        with torch.no_grad(), restored(model):
            run(model, calls)
    finally:
        for handle in handles:
            handle.remove()
    return seen
