"""What may become of a model that was traced: drafts, measured as wholes, the fastest proven."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import astuple, dataclass, replace
from functools import cached_property, partial
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

import torch
from torch import fx, nn

from winogen.graph import Graph, ceilings, simplify
from winogen.graph.ceilings import Errors, accurate
from winogen.graph.fold import fold_affine
from winogen.graph.later import waiting
from winogen.graph.measured import Memory, digest
from winogen.kernels.spec import KernelSpec
from winogen.progress import working
from winogen.tasks.duel import Times
from winogen.tasks.limit import exhausted, limit
from winogen.testing import is_every_layer
from winogen.toolchain.machine import described
from winogen.torch.building import build
from winogen.torch.calling import Calls
from winogen.torch.cases import Witness
from winogen.torch.copies import restored
from winogen.torch.deciding import Decision, decide
from winogen.torch.optimized import Fast, Optimized
from winogen.torch.proving import confined, disagreement, unproven
from winogen.torch.reading import Reading, Untraceable, excluding, read
from winogen.torch.report import Reference, Report, Row
from winogen.torch.segment_op import SegmentModule
from winogen.torch.tracing import Traced
from winogen.torch.wholes import Rivals

# Packed filters take at most this many times the bytes of the weights, unless `memory_limit` says
# otherwise.
MEMORY = 3
_WHOLE = "torch is faster in the whole model"
_PREDICTED = "nothing was measured, and the gain that is predicted is too small to rely on"
# Where no time is left to measure the whole, layers must be predicted to be so many times as fast.
_RELIABLE = 1.2
# Runs of a model that are never left out: what records its values, and ours beside it. Where they
# take long, ours and one other size alone.
_PROOF, _LONG_PROOF = 4.0, 3.0
# ... and that a comparison with float64 takes, about, and the measuring of wholes.
_DOUBLE, _WHOLES = 5.0, 5.0
# The ceiling of errors where no time is left to see the error at the output.
_CAREFUL = 1
_FOLDED = "channels last, normalizations folded"


@dataclass(frozen=True)
class Draft:
    """What may become of a model."""

    made: Optimized
    lost: bool = False  # whether torch is faster in some layers
    reason: str = ""  # why it must not be used
    whole: Times | None = None  # of winogen and of torch; None: not measured
    facts: Mapping[str, str] | None = None  # by which to make it again; None: not measured
    parts: _Parts | None = None  # to be proven before it is used; None: all is torch's
    is_complete: bool = False  # whether every layer was measured

    @property
    def gain(self) -> float:
        """How many times as fast as torch winogen is: 1 where nobody knows."""
        if self.reason:
            return 0.0
        return self.whole.gain if self.whole else 1.0


class _Parts(NamedTuple):
    """Segments in place of the layers of a model."""

    uncut: bool  # whether winogen computes layers that torch computes faster
    reading: Reading
    body: fx.GraphModule
    decision: Decision
    errors: Errors | None  # at the output
    ceiling: int  # which of `winogen.graph.ceilings.CEILINGS` that takes


class _Refuted(Exception):
    """The fastest draft is not what the model computes, and others are to be made."""


class Drafts:
    """Drafts of a model by one trace; what was measured or refused for one holds for the next."""

    def __init__(
        self,
        model: nn.Module,
        trace: Traced,
        calls: Calls,
        witness: Witness,
        exclude: Collection[Any],
        options: dict[str, Any],
        numbers: str,
        facts: Mapping[str, str] | None = None,
    ):
        """``numbers``: a digest of these; ``facts``: by what to make a draft again, if known."""
        self.model, self.trace, self.calls, self.witness = model, trace, calls, witness
        self.options = options
        self._excluded = excluding(exclude, dict(model.named_modules()))
        self._refused: dict[str, str] = {}
        self._wrong: dict[bool, Draft] = {}  # those that must not be used, uncut or not
        self._rivals: Rivals | None = None
        self._memory = Memory(trace.module.code, *facts_of(model, calls, exclude, options))
        self._facts = facts or (self._memory.known.facts if self._memory.known else {})
        names = [node.target for node in trace.module.graph.nodes if node.op == "get_attr"]
        constants = [attrgetter(name)(trace.module) for name in names]
        self._numbers = numbers and digest_of(numbers, constants)
        # What an earlier process has shown of the same net with the same numbers.
        same = self._numbers and self._facts.get("numbers") == self._numbers
        self._proof: dict[str, Any] | None = json.loads(self._facts["proof"]) if same else None

    @cached_property
    def _reference(self) -> Reference:
        return Reference(self.model, self.calls, self.witness.cases[0].leaves)

    def best(self) -> Draft:
        """Return the fastest draft that computes what the model does.

        It alone is compared with the model. Raises Untraceable.
        """
        witness = self.witness
        limit().reserve((_LONG_PROOF if witness.is_long else _PROOF) * witness.seconds)
        while True:
            with suppress(_Refuted):
                return self._settled()

    def again(self) -> Draft | None:
        """Return what an earlier process found of the same numbers; None if that is nothing.

        It is compared on the cases of this witness, and is nothing where it differs. Nothing is
        measured or compiled.
        """
        if self._proof is None or self._memory.known is None:
            return None
        with exhausted(), suppress(_Refuted):
            draft = self._settled()
            return draft if draft.facts else None
        return None

    def _settled(self) -> Draft:
        return self._memory.settled(
            self.made,
            lambda draft: draft.lost and self._has_time(_WHOLES),
            lambda draft: draft.gain,
            self._proven_facts,
        )

    def _has_time(self, runs: float) -> bool:
        """Whether the limit leaves time for so many runs of the model."""
        return limit().allows(runs * self.witness.seconds)

    def made(self, uncut: bool) -> Draft:
        """Return a draft with torch's layers where these are faster; ``uncut``: with none of them.

        Where winogen's whole is no faster than torch's, the draft is torch's.
        """
        if uncut in self._wrong:
            return self._wrong[uncut]
        with restored(self.model):
            parts = self._parts(uncut)
        decision = parts.decision
        made = self._optimized(parts.body, self._report(parts))
        if is_every_layer() or not decision.rows:
            return Draft(made, parts=parts)
        times, key = self._memory.times, digest("whole", decision.digest)
        if key not in times and not self._has_time(_WHOLES):
            if decision.gain >= _RELIABLE:
                return Draft(made, parts=parts)
            rows = tuple(row.left_to_torch(_PREDICTED) for row in decision.rows)
            report = replace(self._report(parts), rows=rows, segments=0, layout="the input's")
            return Draft(Optimized(self.model, report, None))
        if key not in times:
            with working("measuring the whole model"), restored(self.model):
                self._rivals = self._rivals or self._challenged(parts.reading)
                with waiting():  # else the model would compute until kernels are there
                    times[key] = self._rivals.measured(made)
        whole, known = times[key], None if self._rivals else self._memory.known
        rival = self._rivals.name if self._rivals else self._facts["rival"]
        day = known.day if known else ""
        report, fast = made.winogen_report, made.winogen_fast
        if whole.is_slower:
            fast = self._torchs(rival, parts.reading)
            if self._proof is None:
                kept = Optimized(self.model, report, fast)
                with restored(self.model), kept.winogen_tested(), working("comparing with float64"):
                    report = replace(report, errors=self._reference.errors(kept))
            rows = tuple(row.left_to_torch(_WHOLE) for row in report.rows)
            layout = "NHWC" if fast else "the input's"
            report = replace(report, rows=rows, segments=0, layout=layout)
        made = Optimized(self.model, replace(report, whole=whole, rival=rival, day=day), fast)
        facts = {
            "layout": decision.layout,
            "ceiling": str(parts.ceiling),
            "decision": decision.digest,
            "rival": rival,
            "numbers": self._numbers,
            "proof": json.dumps(
                {
                    "errors": report.errors and astuple(report.errors),
                    "refused": self._refused,
                }
            ),
        }
        proven = None if whole.is_slower else parts
        return Draft(made, decision.lost, "", whole, facts, proven, decision.is_complete)

    def _proven_facts(self, draft: Draft) -> Mapping[str, str] | None:
        """Return by what to make a draft again. Raises _Refuted, and Untraceable if none is left.

        Layers that do not compute what the model does stay torch's in all that are made later.
        """
        parts = draft.parts
        if draft.reason or parts is None:
            return None if draft.reason else draft.facts
        decision, known = parts.decision, self._proof is not None
        if not known:
            self._check_layers(parts)
        reason = self._different(draft.made, sum(decision.allowed.values()), decision.kernels)
        if not reason:
            return draft.facts
        if known:
            self._proof = None
        else:
            self._wrong[parts.uncut] = Draft(draft.made, reason=reason)
        raise _Refuted(reason)

    def _check_layers(self, parts: _Parts) -> None:
        """Compare each segment with the layers that it stands for.

        Where a call takes long, on maps of one other size alone, by the kernels of the example's.
        """
        guard = self.trace.guard
        first, _, *others = self.witness.cases
        cases = [case for case in (*others, first) if guard is None or guard.holds(case.tensors)]
        if self.witness.is_long and len(cases) > 1:
            cases = cases[-2:-1]
        body, decision = parts.body, parts.decision
        with restored(self.model), working("checking layers"), confined(body, decision.kernels):
            failures = unproven(self.trace.module, parts.reading, body, decision, cases)
        if not failures:
            return
        if failures.keys() <= self._refused.keys():
            raise Untraceable(next(iter(failures.values())))
        self._refused |= failures
        raise _Refuted(", ".join(failures))

    def _parts(self, uncut: bool) -> _Parts:
        """Return segments whose error at the output is small enough, if any is."""
        if self._proof is not None:
            self._refused = dict(self._proof["refused"])
            errors = self._proof["errors"]
            reading, ceiling = self._read(), int(self._facts["ceiling"])
            built = self._compiled(reading, uncut, ceiling)
            parts = self._measured(_Parts(uncut, reading, *built, None, ceiling))
            if parts.decision.digest != self._facts.get("decision"):  # another one was proven
                self._proof = None
                raise _Refuted("it runs otherwise")
            return parts._replace(errors=Errors(*errors) if errors else None)
        reading = self._read()
        tried: set[str] = set()

        def made(ceiling: int) -> _Parts | None:
            # Where its kernels lacked, all that the first has cost would be in vain.
            with limit().granted() if ceiling else nullcontext():
                body, decision = self._compiled(reading, uncut, ceiling)
            if decision.digest in tried:  # no layer was above this ceiling
                return None
            tried.add(decision.digest)
            return _Parts(uncut, reading, body, decision, self._errors(body), ceiling)

        # With memory_limit=0 there is no choice: filters are as small as they can be.
        careful = self.options["tolerance"] is None and self.options["memory_limit"] != 0
        if careful and not self._has_time(_DOUBLE):
            built = self._compiled(reading, uncut, _CAREFUL)
            return self._measured(_Parts(uncut, reading, *built, None, _CAREFUL))
        limit().reserve(_DOUBLE * self.witness.seconds)
        return self._measured(accurate(made, lambda parts: parts.errors, careful))

    def _measured(self, parts: _Parts) -> _Parts:
        """Return parts without the layers that torch computes faster.

        Those of another ceiling are not measured in vain, and leave time for their kernels.
        """
        build = partial(self._compiled, parts.reading, parts.uncut, parts.ceiling)
        body, decision = _without_slower(parts.body, parts.decision, build)
        errors = parts.errors
        if errors and body is not parts.body:
            errors = self._errors(body)
        return parts._replace(body=body, decision=decision, errors=errors)

    def _errors(self, body: fx.GraphModule) -> Errors | None:
        tested = self._optimized(body, Report())
        with working("comparing with float64"), tested.winogen_tested():
            return self._reference.errors(tested)

    def _read(self) -> Reading:
        return read(self.trace.module, exclude=self._why_torch)

    def _compiled(
        self, reading: Reading, uncut: bool, ceiling: int, decision: Decision | None = None
    ) -> tuple[fx.GraphModule, Decision]:
        return compiled(
            reading,
            decision,
            layout=self._facts.get("layout"),
            most_error=ceilings.CEILINGS[ceiling],
            times=self._memory.times,
            uncut=uncut,
            **self.options,
        )

    def _why_torch(self, node: fx.Node) -> str:
        return self._excluded(node) or self._refused.get(node.name, "")

    def _different(
        self, made: Optimized, errors: float, kernels: Collection[KernelSpec] = ()
    ) -> str:
        assert made.winogen_fast is not None
        fast = made.winogen_fast
        # Other sizes than the example's are tried with its kernels; alone it is computed to stay.
        several = len(self.witness.cases) > 1
        with (
            working("comparing with the model"),
            made.winogen_tested(),
            confined(fast.body, kernels) if several else nullcontext(),
        ):
            return disagreement(made, self.model, self.calls, self.witness, errors)

    def _challenged(self, reading: Reading) -> Rivals:
        """Return torch's ways, the fastest of them known."""
        rivals = Rivals(self.model, self.calls, self.options["threads"])
        rivals.challenge(_FOLDED, self._optimized(folded(reading), Report()))
        return rivals

    def _torchs(self, rival: str, reading: Reading) -> Fast | None:
        """What computes a model torch's way of this name; None: the model as it is."""
        if rival != _FOLDED:
            return None
        other = self._optimized(folded(reading), Report())
        return None if self._different(other, 0.0) else other.winogen_fast

    def _optimized(self, body: fx.GraphModule, report: Report) -> Optimized:
        trace = self.trace
        fast = Fast(body, self.calls, trace.structure, _planar(self.witness), trace.guard)
        return Optimized(self.model, report, fast)

    def _report(self, parts: _Parts) -> Report:
        decision = parts.decision
        return Report(
            (*decision.rows, *(Row(s.name, s.what, "torch", s.why) for s in parts.reading.stays)),
            self.trace.tracer,
            decision.layout,
            parts.errors,
            decision.weight_bytes,
            sum(isinstance(module, SegmentModule) for module in parts.body.modules()),
            str(self.witness),
            described(),
            decision.budgets,
        )


def facts_of(
    model: nn.Module, calls: Calls, exclude: Collection[Any], options: Mapping[str, Any]
) -> tuple[object, ...]:
    """Return what times and kernels follow from, beside the trace: no numbers."""
    return (
        torch.__version__,
        str(model),
        [(name, t.dtype, t.shape) for name, t in model.state_dict().items()],
        [(t.dtype, t.shape, t.stride()) for t in calls.tensors],
        sorted(map(str, exclude)),
        sorted(options.items()),
        torch.get_num_threads(),
    )


def numbers_of(model: nn.Module, calls: Calls, more: Iterable[Iterable[torch.Tensor]]) -> str:
    """Return a digest of the numbers of a model and its inputs; "" where some are hard to read."""
    return digest_of("", [*model.parameters(), *model.buffers(), *calls.tensors, *chain(*more)])


def digest_of(earlier: str, values: Iterable[Any]) -> str:
    """Return a digest of the tensors among ``values``, behind an ``earlier`` one; "" as above."""
    found = hashlib.sha256(earlier.encode())
    try:
        for tensor in filter(torch.is_tensor, values):
            found.update(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    except (RuntimeError, TypeError):  # sparse ones, and others of no plain memory
        return ""
    return found.hexdigest()


def _planar(witness: Witness) -> tuple[bool, ...]:
    """Which leaves of the output a contiguous example gives contiguous."""
    case = witness.cases[0]
    if not all(tensor.is_contiguous() for tensor in case.tensors):
        return (False,) * len(case.leaves)
    return tuple(isinstance(y, torch.Tensor) and y.is_contiguous() for y in case.leaves)


def folded(reading: Reading) -> fx.GraphModule:
    """Return a module by torch alone, channels last, normalizations in the weights before them."""
    graph = fold_affine(reading.graph.without_dead())
    every = {name for node in graph.nodes for name in node.outputs}
    return build(reading, graph, every, layout="NHWC")


def measured(reading: Reading) -> tuple[fx.GraphModule, Decision]:
    """Return what `compiled` does, without the layers that torch computes faster."""
    return _without_slower(*compiled(reading), partial(compiled, reading))


def _without_slower(
    body: fx.GraphModule,
    decision: Decision,
    build: Callable[[Decision], tuple[fx.GraphModule, Decision]],
) -> tuple[fx.GraphModule, Decision]:
    """Return a module and what was decided once all layers are measured; it is built anew, if
    torch turns out to be faster in some.
    """
    measured = decision.measured()
    if measured.excluded != decision.excluded:
        body, _ = build(measured)
    return body, measured


def compiled(
    reading: Reading,
    decision: Decision | None = None,
    *,
    tolerance: float | None = None,
    threads: int | None = None,
    memory_limit: int | None = None,
    layout: str | None = None,
    most_error: float | None = None,
    times: dict[str, Times] | None = None,
    uncut: bool = False,
) -> tuple[fx.GraphModule, Decision]:
    """Return the module of a reading, its kernels compiled, and what was decided, if not before.

    ``layout`` None is the one that is predicted to be faster. ``times`` keeps what was measured,
    for a reading of the same model; ``uncut``: winogen computes slower layers as well.
    """
    graph = simplify(reading.graph)
    usual = MEMORY * sum(node.op.weight_bytes for node in graph.nodes)
    decision = decision or decide(
        graph,
        reading.shapes,
        tolerance=tolerance,
        threads=threads,
        memory_limit=memory_limit,
        usual_memory=usual,
        layout=layout,
        most_error=most_error,
        times=times,
        uncut=uncut,
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

    return build(reading, graph, decision.excluded, segment, decision.layout), decision
