"""`optimize`: a copy of a model whose convolutions, and what lies between them, run as segments."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, SupportsIndex

import torch
from torch import fx, nn
from torch.nn.modules import module as _modules
from torch.nn.modules.conv import _ConvNd

from winogen.conv import arguments
from winogen.errors import BuildError, InvalidType, InvalidValue, OutOfMemory
from winogen.graph import Conv, Graph, simplify
from winogen.progress import working
from winogen.tasks.duel import Times
from winogen.toolchain.machine import described
from winogen.torch.building import build
from winogen.torch.calling import Calls, CallStructure
from winogen.torch.cases import Witness, witnessed
from winogen.torch.copies import bare, evaluated, restored
from winogen.torch.deciding import Decision, decide
from winogen.torch.optimized import Fast, Optimized
from winogen.torch.proving import confined, disagreement, unproven
from winogen.torch.reading import Reading, Untraceable, excluding, read
from winogen.torch.replacing import check_excluded
from winogen.torch.report import Reference, Report, Row
from winogen.torch.segment_op import SegmentModule
from winogen.torch.swapping import swap
from winogen.torch.tracing import Traced, traced
from winogen.typing import Real

# Packed filters take at most this many times the bytes of the weights, unless `memory_limit` says
# otherwise.
MEMORY = 3
# Without a tolerance, the L2 error at the output should be at most so many times torch's. Until it
# is, layers with a larger predicted error than this are computed more carefully.
USUAL = 1.5
CEILINGS = (None, 2e-6, 6e-7, 3e-7)
_GLOBAL_HOOKS = ("_global_forward_hooks", "_global_forward_pre_hooks")


def optimize(
    model: nn.Module,
    example_inputs: torch.Tensor | Sequence[Any],
    *,
    # parameters: tolerance threads
    tolerance: Real | None = None,
    threads: SupportsIndex | None = None,
    # end
    exclude: Collection[str | type[nn.Module]] = (),
    memory_limit: SupportsIndex | None = None,
) -> Optimized:
    """Return a copy of ``model`` for inference whose convolutions run by winogen where faster.

    The copy is made now: later changes of the model's weights have no effect on it. Normalizations,
    activations, residual additions, paddings and concatenations are fused into the convolutions.
    What lies between two operations that stay torch's is one call. Every convolution is measured
    against torch's on inputs of the shapes of ``example_inputs``, and stays torch's where that is
    faster. Other shapes work, too; their kernels are planned at the first call.

    Before it returns, every part is compared with the part of the model that it replaces, on the
    example, other numbers, another batch and another size. A part that is off by more than the
    tolerances of its layers, or ten times their predicted errors, goes back to torch.

    Parameters
    ----------
    model
        Its parameters are float32 or float64, on the CPU. It is not changed, and is computed as
        after `model.eval()`.
    example_inputs
        A tensor, or a tuple of all positional arguments of the model.
    tolerance
        The largest error of each layer, as in `winogen.conv2d`. None keeps the L2 error at the
        output, on the example inputs, within 1.5 times torch's, if possible.
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

    And whatever the model raises on the example.

    Where a model can't be traced, because it keeps state, or decides by its numbers, every
    `nn.Conv2d` in it is replaced by a `winogen.torch.Conv2d`; where even that differs, the copy is
    left alone. `winogen.torch.report` tells what became of a model.
    """
    inputs = _inputs(example_inputs)
    _check(model, inputs)
    if tolerance is not None:
        tolerance = arguments.positive("tolerance", tolerance, "None or a positive number, as 1e-6")
    if threads is not None:
        arguments.threads(threads)
    if memory_limit is not None:
        arguments.whole("memory_limit", memory_limit, 0, "None or a number of bytes", 2**62)
    check_excluded(exclude, model)
    options: dict[str, Any] = {
        "tolerance": tolerance,
        "threads": threads,
        "memory_limit": memory_limit,
    }
    copy = evaluated(model)
    calls = Calls(copy, inputs, {})
    with working("running the model"):
        witness = _witnessed(copy, calls, inputs)
    if witness.rewrites:
        return _alone(evaluated(model), f"a call changes {', '.join(witness.changes[:3])}")
    reasons: list[str] = []
    for trace in _traces(copy, calls, witness):
        if isinstance(trace, str):
            reasons.append(trace)
            continue
        try:
            with restored(copy):
                made, errors = _by_trace(copy, trace, calls, witness, exclude, options)
            with made.winogen_tested(), confined(made.winogen_fast.body):
                reason = disagreement(made, copy, calls, witness, errors)
        except (BuildError, OutOfMemory):
            raise
        except Exception as problem:
            if str(problem).partition(":")[0] in options:  # an argument that cannot be kept to
                raise
            reason = f"{type(problem).__name__}: {problem}"
        if not reason:
            return made
        reasons.append(f"{trace.tracer}: {reason}"[:200])
    return _swapped(copy, calls, witness, "; ".join(reasons), exclude, options)


def _witnessed(model: nn.Module, calls: Calls, inputs: tuple[Any, ...]) -> Witness:
    """Run a model; who gave sizes where tensors were meant reads that instead of torch's error."""
    try:
        return witnessed(model, calls)
    except Exception as problem:
        if calls.tensors:
            raise
        raise InvalidType(
            f"example_inputs: got {str(inputs)[:80]}; allowed: a tensor, or a tuple of the model's "
            "arguments with tensors in it, as torch.randn(1, 3, 224, 224)"
        ) from problem


def _traces(model: nn.Module, calls: Calls, witness: Witness) -> Iterator[Traced | str]:
    """Traces of a model whose calls leave no trace but their results; else why there are none."""
    if any(getattr(_modules, name, None) for name in _GLOBAL_HOOKS):
        yield "hooks of all modules may do anything"
    elif witness.changes:
        names = ", ".join(witness.changes[:3]) + (" ..." if len(witness.changes) > 3 else "")
        yield f"a call changes {names}"
    else:
        with restored(model):
            plain = bare(model)
        with restored(plain):
            yield from traced(plain, calls)


def _by_trace(
    model: nn.Module,
    trace: Traced,
    calls: Calls,
    witness: Witness,
    exclude: Collection[Any],
    options: dict[str, Any],
) -> tuple[Optimized, float]:
    """Return what becomes of a trace, and what all its layers together may be off.

    Layers that do not compute what the model does stay torch's. Raises Untraceable.
    """
    excluded = excluding(exclude, dict(model.named_modules()))
    reference = Reference(model, calls)
    refused: dict[str, str] = {}
    times: dict[tuple, Times] = {}
    guard = trace.guard
    cases = [case for case in witness.cases[1:] if guard is None or guard.holds(case.tensors)]

    def why_torch(node: fx.Node) -> str:
        return excluded(node) or refused.get(node.name, "")

    while True:
        reading = read(trace.module, exclude=why_torch)
        for most_error in CEILINGS if options["tolerance"] is None else CEILINGS[:1]:
            body, decision = compiled(reading, most_error=most_error, times=times, **options)
            fast = Fast(body, calls, trace.structure, _planar(witness), trace.guard)
            with Optimized(model, Report(), fast).winogen_tested() as tested:
                measured = reference.errors(tested)
            if measured is None or not measured.torch_l2:  # a model in float64
                break
            if measured.ours_l2 <= USUAL * measured.torch_l2:
                break
        with working("checking layers"), confined(body):
            failures = unproven(trace.module, reading, body, decision, cases)
        if not failures:
            break
        if failures.keys() <= refused.keys():
            raise Untraceable(next(iter(failures.values())))
        refused.update(failures)
    segments = sum(isinstance(m, SegmentModule) for m in body.modules())
    made = Report(
        (*decision.rows, *(Row(s.name, s.what, "torch", s.why) for s in reading.stays)),
        trace.tracer,
        decision.layout,
        measured,
        decision.weight_bytes,
        segments,
        str(witness),
        described(),
    )
    return Optimized(model, made, fast), sum(decision.allowed.values())


def _planar(witness: Witness) -> tuple[bool, ...]:
    """Which leaves of the output a contiguous example gives contiguous."""
    case = witness.cases[0]
    if not all(tensor.is_contiguous() for tensor in case.tensors):
        return (False,) * len(case.leaves)
    return tuple(isinstance(y, torch.Tensor) and y.is_contiguous() for y in case.leaves)


def compiled(
    reading: Reading,
    *,
    tolerance: float | None = None,
    threads: int | None = None,
    memory_limit: int | None = None,
    most_error: float | None = None,
    times: dict[tuple, Times] | None = None,
) -> tuple[fx.GraphModule, Decision]:
    """Return the module of a reading, its kernels compiled, and what was decided.

    ``times`` keeps what was measured, for a reading of the same model.
    """
    graph = simplify(reading.graph)
    usual = MEMORY * sum(node.op.weight.nbytes for node in graph.nodes if isinstance(node.op, Conv))
    decision = decide(
        graph,
        reading.shapes,
        tolerance=tolerance,
        threads=threads,
        memory_limit=memory_limit,
        usual_memory=usual,
        most_error=most_error,
        times=times,
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
    own: nn.Module,
    calls: Calls,
    witness: Witness,
    reason: str,
    exclude: Collection[Any],
    options: dict[str, Any],
) -> Optimized:
    """Return a copy whose convolutions are modules of winogen, or ``own`` where that differs."""
    with restored(own):
        other, decision = swap(evaluated(own), calls, exclude, **options)
    with restored(other):
        measured = Reference(own, calls).errors(other)
    named = {row.name for row in decision.rows}
    report = Report(
        (*decision.rows, *_kept(own, "it is left as it is", named)),
        f"nothing, modules were replaced ({reason})",
        f"the input's, here {decision.layout}",
        measured,
        decision.weight_bytes,
        sum(row.runs != "torch" for row in decision.rows),
        str(witness),
        described(),
    )
    errors = sum(decision.allowed.values())
    different = disagreement(other, other, calls, witness, errors)
    if not different:
        return Optimized(other, report, None)
    return _alone(own, f"{reason}; {different}")


def _alone(model: nn.Module, reason: str) -> Optimized:
    """Return a copy that is left alone."""
    rows = _kept(model, "the model was left alone")
    return Optimized(
        model, Report(tuple(rows), f"nothing, the model was left alone ({reason})"), None
    )


def _kept(model: nn.Module, why: str, but: Collection[str] = ()) -> list[Row]:
    """Convolutions of any kind that stay torch's."""
    return [
        Row(name, type(module).__name__, "torch", why)
        for name, module in model.named_modules()
        if isinstance(module, _ConvNd) and name not in but
    ]


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
    if any(torch.nn.parameter.is_lazy(p) for p in (*model.parameters(), *model.buffers())):
        raise InvalidValue(
            "model: got lazy layers without weights; allowed: a model that has been called once"
        )
    if isinstance(model, Optimized):
        raise InvalidValue("model: got one that is optimized; allowed: the original")
    leaves, _ = CallStructure.of(inputs)
    tensors = [("example_inputs", x) for x in leaves if isinstance(x, torch.Tensor)]
    tensors += [(name, p) for name, p in model.named_parameters()]
    for name, tensor in tensors:
        if tensor.device.type != "cpu":
            raise InvalidValue(f"{name}: got a tensor on {tensor.device}; allowed: the CPU")
        if tensor.is_floating_point() and tensor.dtype not in (torch.float32, torch.float64):
            raise InvalidType(
                f"{name}: got {tensor.dtype}; allowed: torch.float32 or torch.float64, as "
                "model.float() makes it"
            )
