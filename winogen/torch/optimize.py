"""`optimize`: a copy of a model whose convolutions, and what lies between them, run as segments."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import NoneType
from typing import Any, SupportsIndex

import torch
from torch import nn
from torch.nn.modules import module as _modules
from torch.nn.modules.conv import _ConvNd

from winogen.conv import arguments
from winogen.errors import BuildError, InvalidType, InvalidValue, OutOfMemory
from winogen.graph import runtime
from winogen.graph.compiling import load_soon
from winogen.graph.decide import INACCURATE
from winogen.graph.promise import certain, check_framework, checked_promise
from winogen.progress import counting, note, working
from winogen.tasks.duel import Times
from winogen.tasks.limit import checked, limit, limited
from winogen.testing import is_every_layer
from winogen.toolchain import host_target, machine
from winogen.torch import alone
from winogen.torch.calling import Calls, CallStructure
from winogen.torch.cases import Witness, described, seen, witnessed
from winogen.torch.copies import bare, evaluated, restored
from winogen.torch.drafting import Torch
from winogen.torch.known import Known
from winogen.torch.optimized import Optimized
from winogen.torch.preparing import prepare, tidy
from winogen.torch.promising import UnseenInputs
from winogen.torch.proving import disagreement
from winogen.torch.replacing import check_excluded
from winogen.torch.report import Reference, Report, Row
from winogen.torch.swapping import swap
from winogen.torch.tracing import Traced, traced
from winogen.torch.wholes import Rivals
from winogen.typing import Real

_LEFT = "the model was left alone"
# Runs of a model that all takes, about, and the seconds besides; those that nothing leaves out.
_RUNS, _ELSE, _FEWEST = 30.0, 15.0, 4.0
_LONG = 5.0  # seconds that are worth a word before they begin
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
    output_tolerance: Real | None = None,
    more_inputs: Sequence[torch.Tensor | Sequence[Any]] = (),
    release_weights: bool | None = None,
    seconds: Real | None = 30,
) -> Optimized:
    """Return a copy of ``model`` for inference whose convolutions run by winogen where faster.

    The copy is made now: later changes of the model's weights have no effect on it. Normalizations,
    activations, residual additions, paddings and concatenations are fused into the convolutions.
    What lies between two operations that stay torch's is one call. Every convolution is measured
    against torch's on inputs of the shapes of ``example_inputs``, and stays torch's where that is
    faster, unless the cuts around it make the whole slower. The whole is measured, too,
    beside the model as it is and beside torch with the channels last and folded normalizations; the
    fastest is returned. Other shapes work, too: the model itself computes such calls until a
    thread, which begins after the first of them, has planned and compiled.

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
        The largest error of each layer, as in `winogen.conv2d`. None keeps the error at the output,
        on the example inputs, small if possible: L2 within 1.5 times torch's, or none above 2e-6.
    output_tolerance
        The largest error of each output, |y - y64| / |y64| (L2) against the model in float64, for
        inputs like the example; None for no such promise. Each layer gets a tolerance of its own,
        where an error buys most time by what it becomes at the output, as measured on the example.
        The result is measured on the example and up to three inputs like it. A layer keeps to
        ``tolerance`` besides, if that is given. Where winogen's layers cannot keep it, the copy
        computes as torch does.
    threads
        None for as many as torch uses at the time of a call, or a positive int.
    exclude
        Layers that stay torch's: names of modules (all in them are meant), or types.
    memory_limit
        The most bytes of packed filters; None for three times the bytes of the weights, 0 for as
        few as possible.
    more_inputs
        More inputs, each as ``example_inputs``, of other sizes: kernels and packed filters for them
        are made now. Only the example's size decides what runs.
    release_weights
        True: the weights of the copy lie in a file without a name, in the folder that ``TMPDIR``
        names, and take memory only while something reads them. Only packed filters stay. All that
        the copy can do it still does. None: so with ``memory_limit=0``, if there is room for a
        file.
    seconds
        About how long compiling and measuring may go on; None for as long as they take. What gains
        most comes first. What is not measured then runs as predicted, and what is not compiled
        stays torch's; the report says so. The comparison is never left out: it takes as long as
        some three runs of the model.

    Raises
    ------
    InvalidType, InvalidValue
        For an argument that is not allowed, before any work; for an ``output_tolerance`` that not
        even torch keeps, or of a model whose outputs are not known in float64.
    BuildError
        When no kernel can be compiled.
    OutOfMemory
        When there is no room for filters, or for a file with the weights.

    And whatever the model raises on the example.

    Where a model can't be traced, because it keeps state, or decides by its numbers, convolutions
    of all kinds in it are replaced by the layers of `winogen.torch` that are faster; where even
    that differs, the copy is left alone. `winogen.torch.report` tells what became of a model.
    """
    inputs = _inputs("example_inputs", example_inputs)
    _check(model, inputs)
    given = enumerate(_sequence("more_inputs", more_inputs))
    others = {(name := f"more_inputs[{i}]"): _inputs(name, one) for i, one in given}
    if tolerance is not None:
        tolerance = arguments.positive("tolerance", tolerance, "None or a positive number, as 1e-6")
    if threads is not None:
        arguments.threads(threads)
    if memory_limit is not None:
        arguments.whole("memory_limit", memory_limit, 0, "None or a number of bytes", 2**62)
    if not isinstance(release_weights, (bool, NoneType)):
        raise InvalidType(f"release_weights: got {release_weights!r}; allowed: None, True or False")
    check_excluded(exclude, model)
    most = checked(seconds)
    options: dict[str, Any] = {
        "tolerance": tolerance,
        "threads": threads,
        "memory_limit": memory_limit,
    }
    if output_tolerance is not None:
        options["output_tolerance"] = checked_promise(output_tolerance)
    with limited(most):
        return _optimized(model, inputs, others, exclude, options, release_weights)


def _optimized(
    model: nn.Module,
    inputs: tuple[Any, ...],
    others: Mapping[str, tuple[Any, ...]],
    exclude: Collection[Any],
    options: dict[str, Any],
    release_weights: bool | None,
) -> Optimized:
    """Do what `optimize` does, with checked arguments."""
    machine.settle()
    if any(isinstance(module, _ConvNd) for module in model.modules()):  # while the model runs
        kinds = {p.dtype for p in model.parameters()}
        dtype = "float64" if torch.float64 in kinds else "float32"
        load_soon(partial(runtime.library, host_target(), dtype))
    # Whatever the caller's mode: tensors of inference mode have no counters of changes.
    with torch.inference_mode(False), torch.autocast("cpu", enabled=False):
        made = _ready(model, inputs, others, exclude, options, release_weights)
    tidy()
    return made


def _ready(
    model: nn.Module,
    inputs: tuple[Any, ...],
    others: Mapping[str, tuple[Any, ...]],
    exclude: Collection[Any],
    options: dict[str, Any],
    release_weights: bool | None,
) -> Optimized:
    """Return what becomes of a model, ready for its inputs."""
    with working("copying the model"):
        copy = evaluated(model)
    calls = Calls(copy, inputs, {})
    more = [_alike(calls, name, one) for name, one in others.items()]
    known = Known(copy, calls, more, exclude, options)
    again = partial(_again, copy, calls, inputs, exclude, options, known)
    made, is_again = again(False), True
    if made is None:
        with known.alone() as waited:
            made = again(True) if waited else None
            if made is None:
                is_again = False
                made = _made(model, copy, calls, inputs, more, exclude, options, known)
    least = options["memory_limit"] == 0
    made.__dict__["winogen_released"] = least if release_weights is None else release_weights
    prepare(made, calls, more, options["threads"], bool(release_weights), is_again)
    return made


def _again(
    copy: nn.Module,
    calls: Calls,
    inputs: tuple[Any, ...],
    exclude: Collection[Any],
    options: dict[str, Any],
    known: Known,
    waited: bool,
) -> Optimized | None:
    """Return what an earlier process made of the same model, compared on the example alone.

    None where nothing is known, or anything is not as it was then. What that process had no time to
    measure is measured now, unless this one has ``waited`` for it.
    """
    proof = known.proof()
    if proof is None or not (proof.is_complete or waited):
        return None
    with working("running the model"):
        witness = proof.of(_called(seen, copy, calls, inputs))
    try:
        for trace in () if witness.changes else _traces(copy, calls, witness):
            if isinstance(trace, Traced):
                with restored(copy):
                    adapter = Torch(copy, trace, calls, witness, exclude, options)
                    engine = adapter.engine(known.numbers, proof.facts)
                draft = engine.again()
                if draft is not None:
                    return engine.described(draft)
    except (BuildError, OutOfMemory):
        raise
    except Exception:  # the long way finds it, too, and knows what to do
        return None
    return None


def _made(
    model: nn.Module,
    copy: nn.Module,
    calls: Calls,
    inputs: tuple[Any, ...],
    more: Sequence[list[torch.Tensor]],
    exclude: Collection[Any],
    options: dict[str, Any],
    known: Known,
) -> Optimized:
    """Return what becomes of ``copy``, a copy of the model."""
    with counting("running the model") as step:
        told = False

        def say(name: str, seconds: float) -> None:
            nonlocal told
            step(0, 0, name)
            if not told:
                told = True
                _expected(seconds)

        witness = _called(witnessed, copy, calls, inputs, more, say)
    if witness.rewrites:
        return _alone(evaluated(model), f"a call changes {', '.join(witness.changes[:3])}")
    reasons: list[str] = []
    for trace in _traces(copy, calls, witness):
        if isinstance(trace, str):
            reasons.append(trace)
            continue
        found = None
        try:
            with restored(copy):
                adapter = Torch(copy, trace, calls, witness, exclude, options)
                engine = adapter.engine(known.numbers)
            draft = engine.best()
            reason = draft.reason
            if not reason:
                found = engine.described(draft)
        except (BuildError, OutOfMemory):
            raise
        except Exception as problem:
            if str(problem).partition(":")[0] in options:  # an argument that cannot be kept to
                raise
            reason = f"{type(problem).__name__}: {problem}"
        if found is not None:
            known.keep(witness, draft.facts, draft.made.decision.again().is_complete)
            return found
        reasons.append(f"{trace.tracer}: {reason}"[:200])
    return _swapped(copy, calls, witness, "; ".join(reasons), exclude, options)


def _expected(run: float) -> None:
    """Say how long it will take, by the seconds of one run of the model, if that is long."""
    most = limit().seconds
    about = _RUNS * run + _ELSE if most is None else max(most, most / 4 + _FEWEST * run)
    bound = "" if most is None else f" (seconds={most:g})"
    if about >= _LONG:
        note(f"a run of the model takes {run:.2g} s, so this takes up to {about:.0f} s{bound}")


def _called(
    run: Callable[..., Witness],
    model: nn.Module,
    calls: Calls,
    inputs: tuple[Any, ...],
    *rest: Any,
) -> Witness:
    """Run a model; who gave sizes where tensors were meant reads that instead of torch's error."""
    try:
        return run(model, calls, *rest)
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
            traces = traced(plain, calls, witness.is_long)
            while True:
                with working("tracing"):
                    trace = next(traces, None)
                if trace is None:
                    return
                yield trace


def _swapped(
    own: nn.Module,
    calls: Calls,
    witness: Witness,
    reason: str,
    exclude: Collection[Any],
    options: dict[str, Any],
) -> Optimized:
    """Return a copy whose convolutions are modules of winogen, or ``own`` where that differs."""
    options = dict(options)
    asked = options.pop("output_tolerance", None)
    with restored(own):
        other, decision = swap(evaluated(own), calls, exclude, **options)
    with restored(other):
        measured = Reference(own, calls, witness.cases[0]).errors(other)
    named = {row.name for row in decision.rows}
    report = Report(
        (*decision.rows, *_kept(own, "it is left as it is", named)),
        f"nothing, modules were replaced ({reason})",
        f"the input's, here {decision.layout}",
        measured,
        decision.weight_bytes,
        sum(row.runs != "torch" for row in decision.rows),
        str(witness),
        machine.described(),
        decision.budgets,
    )
    if asked is not None:  # nothing says what becomes of a layer's error: the whole is measured
        promise = certain(UnseenInputs(own, calls).promise(other, asked), asked)
        report = replace(report, promise=promise)
        if not promise.holds:
            check_framework(promise, "torch")
            return _alone(own, f"{reason}; {INACCURATE}")
    errors = sum(decision.allowed.values())
    different = disagreement(other, other, calls, witness, errors)
    if different:
        return _alone(own, f"{reason}; {different}")
    if report.segments and not is_every_layer():
        rivals = Rivals(own, calls, options["threads"])
        with working("measuring the whole model"), restored(own), restored(other):
            report = replace(report, whole=rivals.measured(other), rival=rivals.name)
        if report.whole is not None and report.whole.is_slower:
            rows = tuple(row.left_to_torch(_LEFT) for row in report.rows)
            return _alone(own, f"{reason}; torch is faster in the whole model", rows, report.whole)
    return Optimized(other, report, None)


def _alone(
    model: nn.Module, reason: str, rows: Sequence[Row] = (), whole: Times | None = None
) -> Optimized:
    """Return a copy that is left alone; ``rows`` and ``whole`` say what was measured before."""
    tracer = f"nothing, the model was left alone ({reason})"
    report = Report(
        tuple(rows or _kept(model, _LEFT)), tracer, "the input's", whole=whole, rival="as it is"
    )
    return Optimized(model, report, None)


def _kept(model: nn.Module, why: str, but: Collection[str] = ()) -> list[Row]:
    """Convolutions of any kind that stay torch's."""
    return [
        Row(name, alone.described(module), "torch", why)
        for name, module in model.named_modules()
        if isinstance(module, _ConvNd) and name not in but
    ]


def _inputs(name: str, given: Any) -> tuple[Any, ...]:
    if isinstance(given, torch.Tensor):
        return (given,)
    if isinstance(given, (tuple, list)):
        return tuple(given)
    raise InvalidType(
        f"{name}: got {type(given).__name__}; allowed: a tensor or a tuple of the model's arguments"
    )


def _sequence(name: str, given: Any) -> Sequence[Any]:
    if isinstance(given, (tuple, list)):
        return given
    raise InvalidType(
        f"{name}: got {type(given).__name__}; allowed: a list of tensors, or of tuples of the "
        "model's arguments"
    )


def _alike(calls: Calls, name: str, inputs: tuple[Any, ...]) -> list[torch.Tensor]:
    """Return the tensors of inputs that are like the example's but for their sizes."""
    tensors = calls.tensors_of(inputs, {})
    if tensors is None:
        raise InvalidValue(
            f"{name}: got {described(inputs)}; allowed: arguments as in example_inputs, "
            f"{described(calls.tensors)}, of other sizes"
        )
    return tensors


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
