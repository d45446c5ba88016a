"""`optimize`: a copy of a model whose convolutions, and what lies between them, run as segments."""

from __future__ import annotations

import copy
from collections.abc import Collection
from typing import Any

import torch
from torch import fx, nn

from winogen.conv import arguments
from winogen.errors import InvalidType, InvalidValue
from winogen.graph import Conv, Graph, simplify
from winogen.torch.building import build
from winogen.torch.deciding import Decision, decide
from winogen.torch.reading import Reading, Untraceable, excluding, read
from winogen.torch.report import Reference, Report
from winogen.torch.segment_op import SegmentModule
from winogen.torch.swapping import swap
from winogen.torch.tracing import traced

# Packed filters take at most this many times the bytes of the weights, unless `memory_limit` says
# otherwise.
MEMORY = 3
# Without a tolerance, the L2 error at the output should be at most so many times torch's. Until it
# is, layers with a larger predicted error than this are computed more carefully.
USUAL = 1.5
CEILINGS = (None, 2e-6, 6e-7, 3e-7)


class Optimized(nn.Module):
    """An optimized copy of a model, for inference on the CPU; made by `optimize`."""

    def __init__(self, body: nn.Module, report: Report):
        super().__init__()
        self.body = body
        self.winogen_report = report
        super().train(False)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the model returns."""
        return self.body(*args, **kwargs)

    def train(self, mode: bool = True) -> Optimized:
        """Refuse to train: normalizations are folded into weights that are packed."""
        if mode:
            raise InvalidValue(
                "train: got True; allowed: False for an optimized model. Train the original, then "
                "optimize it again"
            )
        return self


def optimize(
    model: nn.Module,
    example_inputs: Any,
    *,
    tolerance: float | None = None,
    threads: int | None = None,
    exclude: Collection[Any] = (),
    memory_limit: int | None = None,
) -> Optimized:
    """Return a copy of ``model`` for inference whose convolutions run by winogen where faster.

    The copy is made now: later changes of the model's weights have no effect on it. Normalizations,
    activations, residual additions, paddings and concatenations are fused into the convolutions.
    What lies between two operations that stay torch's is one call. Every convolution is measured
    against torch's on inputs of the shapes of ``example_inputs``, and stays torch's where that is
    faster. Other shapes work, too; their kernels are planned at the first call.

    Parameters
    ----------
    model
        Its parameters are float32 or float64, on the CPU. It is not changed, and is computed as
        after `model.eval()`.
    example_inputs
        A tensor, or a tuple of all positional arguments of the model.
    tolerance
        The largest error of each layer, as in `winogen.conv2d`. None for what keeps the L2 error
        at the output, on the example inputs, within 1.5 times that of torch, if anything does.
    threads
        None for as many as torch uses at the time of a call, or a positive int.
    exclude
        Layers that stay torch's: names of modules (all in them are meant), or types.
    memory_limit
        The most bytes of packed filters; None for three times the bytes of the weights.

    Raises
    ------
    InvalidType, InvalidValue
        For an argument that is not allowed, before any work.
    BuildError
        When no kernel can be compiled.

    Where a model can't be traced, every `nn.Conv2d` in it is replaced by a `winogen.torch.Conv2d`.
    `winogen.torch.report` tells what became of a model.
    """
    inputs = _inputs(example_inputs)
    _check(model, inputs)
    if tolerance is not None:
        arguments.positive("tolerance", tolerance, "None or a positive number, as 1e-6")
    if threads is not None:
        arguments.threads(threads)
    if memory_limit is not None:
        arguments.whole("memory_limit", memory_limit, 0, "None or a number of bytes", 2**62)
    _check_excluded(exclude, model)
    options: dict[str, Any] = {
        "tolerance": tolerance,
        "threads": threads,
        "memory_limit": memory_limit,
    }
    own = copy.deepcopy(model).eval().requires_grad_(False)
    try:
        module, tracer = traced(own, inputs)
        reading = read(module, exclude=excluding(exclude, dict(own.named_modules())))
    except (RuntimeError, Untraceable) as problem:
        return _swapped(model, inputs, str(problem), exclude, options)
    reference = Reference(model, inputs)
    ceilings = CEILINGS if tolerance is None else CEILINGS[:1]
    for most_error in ceilings:
        body, decision = compiled(reading, most_error=most_error, **options)
        measured = reference.errors(body)
        if measured is None or not measured.torch_l2:  # a model in float64
            break
        if measured.ours_l2 <= USUAL * measured.torch_l2:
            break
    segments = sum(isinstance(m, SegmentModule) for m in body.modules())
    return Optimized(
        body,
        Report(decision.rows, tracer, decision.layout, measured, decision.weight_bytes, segments),
    )


def compiled(
    reading: Reading,
    *,
    tolerance: float | None = None,
    threads: int | None = None,
    memory_limit: int | None = None,
    most_error: float | None = None,
) -> tuple[fx.GraphModule, Decision]:
    """Return the module of a reading, its kernels compiled, and what was decided."""
    graph = simplify(reading.graph)
    if memory_limit is None:
        memory_limit = MEMORY * sum(
            node.op.weight.nbytes for node in graph.nodes if isinstance(node.op, Conv)
        )
    decision = decide(
        graph,
        reading.shapes,
        tolerance=tolerance,
        threads=threads,
        memory_limit=memory_limit,
        most_error=most_error,
    )

    def segment(part: Graph) -> SegmentModule:
        return SegmentModule(
            part,
            tolerance=tolerance,
            threads=threads,
            layout=decision.layout,
            memory_limit=decision.share(part),
            most_error=most_error,
        )

    return build(reading, graph, decision.excluded, segment), decision


def _swapped(
    model: nn.Module, inputs: tuple[Any, ...], reason: str, exclude: Collection[Any], options: dict
) -> Optimized:
    """Return a copy whose convolutions are modules of winogen, one by one."""
    own = copy.deepcopy(model).eval().requires_grad_(False)
    own, decision = swap(own, inputs, exclude, **options)
    return Optimized(
        own,
        Report(
            decision.rows,
            f"nothing, modules were replaced ({reason})",
            f"that of the input, here {decision.layout}",
            Reference(model, inputs).errors(own),
            decision.weight_bytes,
            sum(row.runs != "torch" for row in decision.rows),
        ),
    )


def _inputs(example_inputs: Any) -> tuple[Any, ...]:
    if isinstance(example_inputs, torch.Tensor):
        return (example_inputs,)
    if isinstance(example_inputs, (tuple, list)):
        return tuple(example_inputs)
    raise InvalidType(
        f"example_inputs: got {type(example_inputs).__name__}; allowed: a tensor or a tuple of "
        "the model's arguments"
    )


def _check(model: Any, inputs: tuple[Any, ...]) -> None:
    if not isinstance(model, nn.Module):
        raise InvalidType(f"model: got {type(model).__name__}; allowed: an nn.Module")
    if isinstance(model, torch.jit.ScriptModule):
        raise InvalidType("model: got a ScriptModule; allowed: the nn.Module that it was made of")
    if isinstance(model, Optimized):
        raise InvalidValue("model: got one that is optimized; allowed: the original")
    tensors = [("example_inputs", x) for x in inputs if isinstance(x, torch.Tensor)]
    tensors += [(name, p) for name, p in model.named_parameters()]
    for name, tensor in tensors:
        if tensor.device.type != "cpu":
            raise InvalidValue(f"{name}: got a tensor on {tensor.device}; allowed: the CPU")
        if tensor.is_floating_point() and tensor.dtype not in (torch.float32, torch.float64):
            raise InvalidType(
                f"{name}: got {tensor.dtype}; allowed: torch.float32 or torch.float64, as "
                "model.float() makes it"
            )


def _check_excluded(exclude: Any, model: nn.Module) -> None:
    allowed = "names of modules of the model, or types of modules"
    if isinstance(exclude, str) or not isinstance(exclude, Collection):
        raise InvalidType(f"exclude: got {exclude!r}; allowed: a collection of {allowed}")
    names = {name for name, _ in model.named_modules()}
    for one in exclude:
        if not (isinstance(one, str) or (isinstance(one, type) and issubclass(one, nn.Module))):
            raise InvalidType(f"exclude: got {one!r}; allowed: {allowed}")
        if isinstance(one, str) and one not in names:
            raise InvalidValue(f"exclude: got {one!r}; allowed: {allowed}")
