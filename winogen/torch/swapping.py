"""The way for models that nothing can trace: convolutions are replaced module by module."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

import torch
from torch import nn

from winogen.codegen.transform import Transform
from winogen.conv.choice import Choice, transform_of
from winogen.graph import Graph, Node
from winogen.torch import alone
from winogen.torch.alone import Layer
from winogen.torch.arrays import is_channels_last
from winogen.torch.calling import Calls
from winogen.torch.calls import Untranslated
from winogen.torch.cases import run
from winogen.torch.copies import restored
from winogen.torch.deciding import LIKELY, Decision, decide
from winogen.torch.drafting import MEMORY
from winogen.torch.layers import conv_of_module
from winogen.torch.replacing import KINDS, exchange, replaceable
from winogen.torch.report import Budget, Row
from winogen.torch.request import LayerOptions
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
    others = {name: one for name, one in seen.items() if type(one.module) is not nn.Conv2d}
    maps = {name: one for name, one in seen.items() if name not in others}
    kinds = dict.fromkeys(one.module.weight.dtype for one in maps.values())
    rows: list[Row] = []
    total = Decision("NHWC", set(), ())
    for kind in kinds:
        layers = {name: one for name, one in maps.items() if one.module.weight.dtype == kind}
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
    times = memory_limit and memory_limit / max(1, _weight_bytes(seen.values()))
    found = alone.decided(others, tolerance, threads, times)
    for name, one in found.items():
        rows.append(one.row)
        if one.options is not None:
            exchange({name: others[name].module}, one.options)
            total.allowed[name] = tolerance or LIKELY * (one.row.error or 0.0)
    weights = total.weight_bytes + _weight_bytes(others.values())
    order = list(seen)
    rows.sort(key=lambda row: order.index(row.name))
    budgets = () if others else total.budgets  # which say what all layers take
    return model, replace(total, rows=tuple(rows), weight_bytes=weights, budgets=budgets)


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


def _weight_bytes(layers: Collection[Layer]) -> int:
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


def _decided(
    layers: dict[str, Layer], tolerance: float | None, threads: int | None, limit: int | None
) -> Decision:
    """Return how layers of one type run, each alone."""
    nodes: list[Node] = []
    shapes: dict[str, tuple[int, ...]] = {}
    for name, layer in layers.items():
        with suppress(Untranslated):
            op = conv_of_module(layer.module)
            nodes.append(Node(op, (f"{name}.input",), (name,), name))
            shapes[f"{name}.input"] = layer.shape
    usual = MEMORY * sum(node.op.weight_bytes for node in nodes)
    planar = sum(layer.planar for layer in layers.values())
    return decide(
        Graph([node.inputs[0] for node in nodes], nodes, [node.output for node in nodes]),
        shapes,
        tolerance=tolerance,
        threads=threads,
        memory_limit=limit,
        usual_memory=usual,
        layout="NCHW" if 2 * planar > len(layers) else "NHWC",
    ).measured()


def _seen(model: nn.Module, calls: Calls, exclude: Collection[Any]) -> dict[str, Layer]:
    """The called convolutions whose type alone says what they compute."""
    seen: dict[str, Layer] = {}
    handles = []

    def watch(name: str, module: Any) -> None:
        def hook(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            x = args[0] if args else kwargs.get("input")
            if not isinstance(x, torch.Tensor) or name in seen or not x.numel():
                return
            if x.dim() == module.weight.dim() - 1:
                x = x.unsqueeze(0)
            if x.dim() == module.weight.dim():
                seen[name] = Layer(module, tuple(x.shape), not is_channels_last(x))

        handles.append(module.register_forward_pre_hook(hook, with_kwargs=True))

    for name, module in replaceable(model, exclude, KINDS).items():
        if not is_changed(module) and module.weight.dtype in (torch.float32, torch.float64):
            watch(name, module)
    try:
        with torch.no_grad(), restored(model):
            run(model, calls)
    finally:
        for handle in handles:
            handle.remove()
    return seen
