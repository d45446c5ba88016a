"""What torch does for the engine that decides what becomes of a model: one adapter for a trace."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property
from operator import attrgetter
from typing import Any

from torch import Tensor, fx, nn

from winogen.graph import Graph, ceilings, simplify
from winogen.graph.adapter import Adapter, Draft, DraftRequest, Fault, Replacement, TimedPart
from winogen.graph.ceilings import Errors
from winogen.graph.decide import Decider
from winogen.graph.fold import fold_affine
from winogen.graph.measured import Memory, digest
from winogen.graph.promise import OutputPromise
from winogen.graph.spending import Spending
from winogen.progress import working
from winogen.tasks.duel import Times
from winogen.toolchain.machine import described
from winogen.torch import code_deciding, deciding
from winogen.torch.building import build
from winogen.torch.calling import Calls
from winogen.torch.cases import Witness
from winogen.torch.code_module import CodeModule
from winogen.torch.copies import restored
from winogen.torch.deciding import Decision, decide
from winogen.torch.facts import digest_of, facts_of
from winogen.torch.optimized import Fast, Optimized
from winogen.torch.promising import UnseenInputs, gains_of
from winogen.torch.proving import MOST_OF_CODES, confined, disagreement, unproven
from winogen.torch.reading import Reading, Untraceable, excluding, read
from winogen.torch.report import Reference, Report, Row
from winogen.torch.segment_op import SegmentModule
from winogen.torch.tracing import Traced
from winogen.torch.wholes import Rivals

# Packed filters take at most this many times the bytes of the weights, unless `memory_limit` says
# otherwise.
MEMORY = 3
# Runs of a model, where they take long: of the proof, by us and on small maps, and of its whole,
# two of torch's.
_LONG_PROOF, _LONG_CONTEST = 1.5, 3.0
_FOLDED = "channels last, normalizations folded"
_STEP = 1 / 255  # of the largest number that a code means


class Segments(Replacement):
    """Segments in place of the layers of a model."""

    def __init__(
        self,
        reading: Reading,
        body: fx.GraphModule,
        decision: Decision,
        times: Mapping[str, Times],
        threads: int | None,
    ):
        self.reading, self.body, self.decision = reading, body, decision
        self.codes = code_deciding.timed(reading, body, threads)
        keys = [decision.digest, *(part.key for part in self.codes)]
        self.key = digest(*keys) if self.codes else decision.digest
        self.is_empty = not decision.rows and not self.codes
        self.largest = max((row.error or 0.0 for row in decision.rows), default=0.0)
        self._times = times

    def stages(self) -> Iterable[Sequence[TimedPart]]:
        """All layers that winogen has a kernel for, those that torch computes, too."""
        yield [*self.codes, *self.decision.parts]

    @property
    def gain(self) -> float:  # type: ignore[override]
        """How many times as fast layers are, those not measured as predicted."""
        measured = [self._times[part.key] for part in self.codes if part.key in self._times]
        if not measured:
            return self.decision.again().gain
        return sum(one.theirs for one in measured) / sum(one.ours for one in measured)

    @property
    def allowed(self) -> float:
        """How far all layers together may be off; of codes each a step."""
        layers = sum(len(module.part.layers) for module in code_deciding.modules_of(self.body))
        return sum(self.decision.allowed.values()) + _STEP * layers


class Torch(Adapter[Segments]):
    """A model by one trace."""

    name = "torch"

    def __init__(
        self,
        model: nn.Module,
        trace: Traced,
        calls: Calls,
        witness: Witness,
        exclude: Collection[Any],
        options: dict[str, Any],
    ):
        self.model, self.trace, self.calls, self.witness = model, trace, calls, witness
        self.options = {k: v for k, v in options.items() if k != "output_tolerance"}
        self.output_tolerance = options.get("output_tolerance")
        # With memory_limit=0 there is no choice: filters are as small as they can be.
        self.is_careful = options["tolerance"] is None and options["memory_limit"] != 0
        self._gains: dict[str, float] | None = None
        self._promises: dict[tuple[str, str], OutputPromise | None] = {}
        self.seconds = witness.seconds
        if witness.is_long:
            self.proof, self.contest = _LONG_PROOF, _LONG_CONTEST
        # What is computed in float64, too: the example, or the smallest where calls take long.
        example = witness.cases[0]
        self._exact_case = witness.least(trace.guard) if witness.is_long else example
        self.double *= self._exact_case.numbers / max(1, example.numbers)
        self._excluded = excluding(exclude, dict(model.named_modules()))
        self._rivals: Rivals | None = None
        self._theirs: dict[Segments, Fast | None] = {}  # torch's best way, once it is compared
        self.memory = Memory(trace.module.code, *facts_of(model, calls, exclude, options))
        self._facts: Mapping[str, str] = {}
        # Nothing slower left out but parts of codes.
        self._latest: tuple[DraftRequest, dict[str, str], Segments] | None = None
        self._late: dict[str, str] = {}  # of codes, that there was no time to compile kernels for

    def engine(self, numbers: str, facts: Mapping[str, str] | None = None) -> Decider[Segments]:
        """Return what decides; ``facts``: by what to make a draft again, if that is known."""
        names = [n.target for n in self.trace.module.graph.nodes if n.op == "get_attr"]
        constants = [attrgetter(name)(self.trace.module) for name in names]
        known = self.memory.known
        self._facts = facts or (known.facts if known else {})
        return Decider(self, self.memory, numbers and digest_of(numbers, constants), self._facts)

    def replace(self, way: DraftRequest) -> Segments:
        """Return segments in place of layers."""
        asked = way._replace(slower=())
        lost = {
            name: f"torch is faster, {times}"
            for part, times in way.slower
            if isinstance(part.subject, code_deciding.CodeTrial)
            for name in part.values
        }
        with restored(self.model):
            if self._latest is None or self._latest[:2] != (asked, lost):
                reading = self._read({**way.refused, **lost})
                spending = way.spending
                decision = decided(
                    reading,
                    layout=(spending and spending.layout) or self._facts.get("layout"),
                    most_error=ceilings.CEILINGS[way.ceiling],
                    times=self.memory.times,
                    spending=spending,
                    **self.options,
                )
                self._latest = asked, lost, self._made(reading, decision)
            made = self._latest[2]
            slower = [part.name for part, _ in way.slower if part.name not in lost]
            if not slower:
                return made
            return self._made(made.reading, made.decision.without(slower))

    def _read(self, refused: Mapping[str, str]) -> Reading:
        """The model as a graph whose kernels of codes are there."""
        while True:
            why = {**refused, **self._late}

            def why_torch(node: fx.Node, why: Mapping[str, str] = why) -> str:
                return self._excluded(node) or why.get(node.name, "")

            reading = read(self.trace.module, exclude=why_torch)
            if self.options["tolerance"]:
                reading = code_deciding.in_tiles(reading, self.options["tolerance"])
            late = code_deciding.late(reading, self.options["threads"])
            if not late:
                return reading
            self._late |= late

    def _made(self, reading: Reading, decision: Decision) -> Segments:
        threads = self.options["threads"]
        body = compiled(reading, decision, threads, self.options["tolerance"])
        return Segments(reading, body, decision, self.memory.times, threads)

    def time(self, made: Segments, part: TimedPart | None, earlier: float) -> Times | None:
        """Return the times of a layer, or of the whole, whose rival is the best that torch does."""
        if part is not None:
            is_codes = isinstance(part.subject, code_deciding.CodeTrial)
            return part.subject.times() if is_codes else deciding.time(part)
        with restored(self.model):
            if self._rivals is None:
                self._rivals = Rivals(self.model, self.calls, self.options["threads"])
                self._rivals.challenge(_FOLDED, self._folded(made.reading))
            return self._rivals.measured(self._optimized(made.body, Report()), earlier)

    def run(self, draft: Draft[Segments], is_known: bool) -> Fault | None:
        """Compare segments with the layers that they stand for, and the whole with the model."""
        made, decision = draft.made, draft.made.decision
        if not is_known:
            failures = self._failures(made)
            if failures and failures.keys() <= draft.way.refused.keys():
                raise Untraceable(next(iter(failures.values())))
            if failures:
                return Fault(failures)
        whole = self._optimized(made.body, Report())
        most = MOST_OF_CODES if made.codes else None
        why = self._different(whole, made.allowed, decision.kernels, most)
        return Fault(why=why) if why else None

    def run_exactly(self, draft: Draft[Segments]) -> Errors | None:
        """Return the errors at the output, of what is returned, on the example."""
        tested = self._returned(draft)
        body, kernels = draft.made.body, draft.made.decision.kernels
        is_example = self._exact_case is self.witness.cases[0]
        with (
            restored(self.model),
            tested.winogen_tested(),
            nullcontext() if is_example else confined(body, kernels),
        ):
            return self._reference.errors(tested)

    def spend(self, budget: float) -> Spending:
        """Return the tolerances of layers for an error at the output, by the example's gains."""
        with restored(self.model):
            reading = self._read({})
            graph = simplify(reading.graph)
            if self._gains is None:
                names = [node.output for node in graph.convolutions]
                with working("measuring what errors of layers become"):
                    self._gains = gains_of(self.trace.module, names, self.calls)
            options = {name: self.options[name] for name in ("tolerance", "threads")}
            return deciding.spend(graph, reading.shapes, self._gains, budget, **options)

    def promise(self, draft: Draft[Segments]) -> OutputPromise | None:
        """Measure the error at the output, of what is returned, on the example and like inputs."""
        assert self.output_tolerance is not None
        key = draft.made.key, draft.left
        if key not in self._promises:
            tested, predicted = self._returned(draft), 0.0
            if draft.way.spending and not draft.left:
                predicted = draft.way.spending.predicted(draft.made.decision.errors)
            with restored(self.model), tested.winogen_tested():
                found = self._unseen.promise(tested, self.output_tolerance, predicted)
            if draft.left and found and found.measured > found.asked and tested.winogen_fast:
                self._theirs[draft.made] = None  # torch's fastest way is too inaccurate
                return self.promise(draft)
            self._promises[key] = found
        return self._promises[key]

    def describe(self, draft: Draft[Segments], layers: Mapping[str, Times]) -> Optimized:
        """Return the optimized model."""
        made, decision = draft.made, draft.made.decision.again()
        stays = [Row(s.name, s.what, "torch", s.why) for s in made.reading.stays]
        codes = code_deciding.rows(made.codes, self.memory.times)
        report = Report(
            (*codes, *decision.rows, *stays),
            self.trace.tracer,
            decision.layout,
            draft.errors,
            decision.weight_bytes + code_deciding.weight_bytes(made.body),
            sum(isinstance(one, (SegmentModule, CodeModule)) for one in made.body.modules()),
            str(self.witness),
            described(),
            decision.budgets,
            draft.whole,
            self._rival if draft.whole else "",
            draft.day,
            promise=draft.promise,
        )
        if not draft.left:
            return self._optimized(made.body, report)
        fast = self._kept_fast(draft)
        rows = tuple(row.left_to_torch(draft.left) for row in report.rows)
        layout = "NHWC" if fast else "the input's"
        return Optimized(self.model, replace(report, rows=rows, segments=0, layout=layout), fast)

    def keep(self, draft: Draft[Segments]) -> Mapping[str, str]:
        """Return how layers run, and what is the best that torch does."""
        decision = draft.made.decision
        return {"layout": decision.layout, "decision": draft.made.key, "rival": self._rival}

    def _returned(self, draft: Draft[Segments]) -> Optimized:
        if draft.left:
            return Optimized(self.model, Report(), self._kept_fast(draft))
        return self._optimized(draft.made.body, Report())

    @cached_property
    def _unseen(self) -> UnseenInputs:
        return UnseenInputs(self.model, self.calls)

    @cached_property
    def _reference(self) -> Reference:
        return Reference(self.model, self.calls, self._exact_case)

    @property
    def _rival(self) -> str:
        """Torch's best way, in words."""
        return self._rivals.name if self._rivals else self._facts.get("rival", "")

    def _failures(self, made: Segments) -> dict[str, str]:
        """The nodes whose segments compute something else, and why.

        Where a call takes long, on maps of one other size alone, by the kernels of the example's.
        """
        guard = self.trace.guard
        first, *others = self.witness.distinct
        cases = [case for case in (*others, first) if guard is None or guard.holds(case.tensors)]
        if self.witness.is_long and len(cases) > 1:
            cases = cases[-2:-1]
        body, decision = made.body, made.decision
        with restored(self.model), working("checking layers"), confined(body, decision.kernels):
            return unproven(self.trace.module, made.reading, body, decision, cases)

    def _different(
        self,
        made: Optimized,
        errors: float,
        kernels: Collection[Any] = (),
        most: float | None = None,
    ) -> str:
        options = {} if most is None else {"most": most}
        assert made.winogen_fast is not None
        fast = made.winogen_fast
        # Other sizes than the example's are tried with its kernels; alone it is computed to stay.
        several = len(self.witness.cases) > 1
        with (
            working("comparing with the model"),
            made.winogen_tested(),
            confined(fast.body, kernels) if several else nullcontext(),
        ):
            return disagreement(made, self.model, self.calls, self.witness, errors, **options)

    def _folded(self, reading: Reading) -> Optimized:
        if code_deciding.parts_of(reading):
            reading = read(self.trace.module, codes=False)
        return self._optimized(folded(reading), Report())

    def _kept_fast(self, draft: Draft[Segments]) -> Fast | None:
        """What computes the model torch's best way; None: the model as it is."""
        if not draft.whole or self._rival != _FOLDED:
            return None
        if draft.made not in self._theirs:
            other = self._folded(draft.made.reading)
            fast = None if self._different(other, 0.0) else other.winogen_fast
            self._theirs[draft.made] = fast
        return self._theirs[draft.made]

    def _optimized(self, body: fx.GraphModule, report: Report) -> Optimized:
        trace = self.trace
        fast = Fast(body, self.calls, trace.structure, _planar(self.witness), trace.guard)
        return Optimized(self.model, report, fast)


def _planar(witness: Witness) -> tuple[bool, ...]:
    """Which leaves of the output a contiguous example gives contiguous."""
    case = witness.cases[0]
    if not all(tensor.is_contiguous() for tensor in case.tensors):
        return (False,) * len(case.leaves)
    return tuple(isinstance(y, Tensor) and y.is_contiguous() for y in case.leaves)


def folded(reading: Reading) -> fx.GraphModule:
    """Return a module by torch alone, channels last, normalizations in the weights before them."""
    graph = fold_affine(reading.graph.without_dead())
    every = {name for node in graph.nodes for name in node.outputs}
    return build(reading, graph, every, layout="NHWC")


def measured(reading: Reading) -> tuple[fx.GraphModule, Decision]:
    """Return the module of a reading without the layers that torch computes faster."""
    decision = decided(reading).measured()
    return compiled(reading, decision), decision


def decided(reading: Reading, **options: Any) -> Decision:
    """Return what `winogen.torch.deciding.decide` says of a reading; its kernels are compiled."""
    graph = simplify(reading.graph)
    usual = MEMORY * sum(node.op.weight_bytes for node in graph.nodes)
    return decide(graph, reading.shapes, usual_memory=usual, **options)


def compiled(
    reading: Reading, decision: Decision, threads: int | None = None, tolerance: float | None = None
) -> fx.GraphModule:
    """Return the module of a reading; ``threads`` and ``tolerance`` are those of codes."""

    def segment(part: Graph) -> SegmentModule:
        return SegmentModule(
            part, layout=decision.layout, memory_limit=decision.share(part), **decision.options
        )

    graph = simplify(reading.graph)
    layout, excluded = decision.layout, decision.excluded
    return build(reading, graph, excluded, segment, layout, threads, tolerance)
