"""What onnxruntime does for the engine that decides what becomes of a model: its adapter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from winogen.errors import Unsupported
from winogen.graph import ceilings, simplify
from winogen.graph.adapter import Adapter, Draft, DraftRequest, Fault, Replacement, TimedPart
from winogen.graph.ceilings import Errors
from winogen.graph.decide import LATE, Decider
from winogen.graph.measured import Memory, digest
from winogen.graph.promise import OutputPromise
from winogen.graph.spending import Spending, Spent, cheapest, offered
from winogen.onnx.measuring import Measuring, Unmeasured, text_of
from winogen.onnx.model import Model
from winogen.onnx.promising import UnseenFeeds, gains_of, settings_of, sized_parts
from winogen.onnx.proof import Verdict, compare
from winogen.onnx.reading import read
from winogen.onnx.soundness import parts_of
from winogen.onnx.writing import Writer
from winogen.progress import working
from winogen.tasks.duel import Times
from winogen.tasks.limit import limit


@dataclass(frozen=True)
class Rewritten:
    """A rewritten model, and what was done to it."""

    model: Any  # ModelProto
    nodes_before: int
    nodes: int
    convolutions: int = 0  # that winogen computes, besides 8-bit ones
    segments: int = 0  # ... in so many nodes
    quantized: int = 0  # convolutions of 8 bits that winogen computes, each a node
    refusals: tuple[str, ...] = ()  # convolutions that stay, and why
    given_back: tuple[str, ...] = ()  # values that winogen computed otherwise, and how far off
    verdict: Verdict | None = None  # of the comparison; None where there is nothing to compare
    whole: Times | None = None  # of the rewritten model and of the original
    layers: Mapping[str, Times] = field(default_factory=dict)  # of each, by what it makes
    predicted: tuple[str, ...] = ()  # layers that run so without a measurement: no time was left
    unmeasured: str = ""  # why there are no times
    errors: Errors | None = None  # at the output; None: they are not known
    ceiling: int = 0  # which of `winogen.graph.ceilings.CEILINGS` that takes
    promise: OutputPromise | None = None  # of the error at the output, where one was asked for
    spent: Mapping[str, Spent] = field(default_factory=dict)  # of each layer, where one was

    @property
    def gain(self) -> float:
        """How many times as fast the model becomes: 1 if it is as it was, or nobody knows."""
        return self.whole.gain if self.whole and not self.is_original else 1.0

    @property
    def is_original(self) -> bool:
        """Whether no node is winogen's."""
        return not self.segments and not self.quantized

    def __str__(self) -> str:
        made = []
        if self.segments:
            made.append(f"{self.convolutions} convolutions in {self.segments} of them")
        if self.quantized:
            made.append(f"{self.quantized} quantized convolutions")
        lines = [
            f"{self.nodes_before} nodes became {self.nodes}; winogen computes {' and '.join(made)}"
        ]
        if self.is_original:
            lines = ["nothing for winogen to do: the model is as it was"]
            if self.whole:
                lines = ["the model is as it was, because it would not become faster"]
            elif self.layers:
                lines = ["the model is as it was, because onnxruntime computes its layers faster"]
        if self.whole:
            lines.append(f"  the whole model, measured: onnxruntime {self.whole}")
        elif self.unmeasured and not self.is_original:
            lines.append(f"  not measured: {self.unmeasured}")
        lines += [f"  {self.errors.text('onnxruntime')}"] if self.errors else []
        lines += [f"  {self.promise.line('onnxruntime')}"] if self.promise else []
        lines += [f"    {name}: {spent}" for name, spent in self.spent.items()]
        lines += [f"  {self.verdict}"] if self.verdict else []
        near = self.verdict.near if self.verdict else {}
        lines += [f"    {name}: not exact, {how}" for name, how in near.items()]
        lines += [f"  {late(self.predicted)}"] if self.predicted else []
        lines += [f"  given back to onnxruntime: {value}" for value in self.given_back]
        return "\n".join([*lines, *(f"  stays: {refusal}" for refusal in self.refusals)])


def late(layers: Sequence[str]) -> str:
    """Return what is said of layers that the limit of seconds left no time to measure."""
    some = ", ".join(layers[:3]) + (" ..." if len(layers) > 3 else "")
    return (
        f"{len(layers)} layers run as predicted, since no seconds were left to measure them: {some}"
    )


class RewrittenNodes(Replacement):
    """A model with winogen's nodes in it, of which nothing else is known.

    ``excluded``: values that onnxruntime goes on to compute, and why.
    """

    def __init__(
        self,
        model: Model,
        settings: Mapping[str, Any],
        excluded: Mapping[str, str],
        measuring: Measuring | None,
        tolerances: Mapping[str, float] | None = None,
    ):
        self.model, self.measuring = model, measuring
        reading = read(model, excluded)
        self.refusals = reading.refusals
        self.graph = simplify(reading.graph)
        self._new_writer = partial(Writer, model, reading, settings, excluded, tolerances)
        self.writer = writer = self._new_writer()
        self.proto = writer.write(self.graph)
        self.is_empty = not writer.segments and not writer.quantized
        if self.is_empty:
            self.proto = model.proto
        self.labels = {node.output: node.label for node in self.graph.convolutions}
        layers = [one for node in reading.graph.nodes for one in reading.layers_of(node)]
        self.quantized = {node.output: node.label for node, _ in layers}

    @cached_property
    def key(self) -> str:  # type: ignore[override]
        """A name of how every layer runs."""
        return digest(*map(text_of, self.proto.graph.node))

    @property
    def largest(self) -> float:  # type: ignore[override]
        """The largest error that is predicted of a layer."""
        running = self.measuring.running(self.proto) if self.measuring else None
        return running.predicted if running else 0.0

    def stages(self) -> Iterable[Sequence[TimedPart]]:
        """Layers, each alone; then nodes, which may be segments of several."""
        if self.measuring is None or self.is_empty:
            return
        opsets = list(self.proto.opset_import)
        if self.writer.segments:
            writer = self._new_writer()
            alone = list(writer.apart(self.graph))
            parts = self.measuring.parts(alone, writer.constants.tensors, opsets)
            yield [replace(part, label=self.labels.get(part.name, "")) for part in parts]
        constants = {tensor.name: tensor for tensor in self.proto.graph.initializer}
        nodes = self.measuring.parts(parts_of(self.model, self.proto), constants, opsets)
        yield [replace(part, **self._joined(part.name)) for part in nodes]

    def _joined(self, name: str) -> dict[str, Any]:
        """What a node computes; the reading itself says what becomes of quantized ones."""
        writer = self.writer
        values = writer.within.get(name) or writer.codes.get(name) or [name]
        names = [self.labels[value] for value in values if value in self.labels]
        label = f"{names[0]} to {names[-1]}, {len(names)} layers in one node" if names else ""
        return {"label": label, "values": values, "is_layer": name not in writer.within}

    def late(self) -> dict[str, str]:
        """Return layers whose kernels the limit left no time for: what they make, their labels.

        The kernels of all others are compiled then, if there are none.
        """
        labels = self.quantized | self.labels
        layers = {node.name: names for node, names in self.writer.layers}
        late: dict[str, str] = {}
        found = self.measuring.late(self.proto) if self.measuring and not self.is_empty else {}
        for name, numbers in found.items():
            values = layers.get(name, [])
            some = [values[n] for n in sorted(numbers) if n < len(values)]
            some = [value for value in some if value in labels] or values
            late |= {value: labels[value] or value for value in some if value in labels}
        return late


class Onnxruntime(Adapter[RewrittenNodes]):
    """A model in onnxruntime."""

    name, needs_whole = "onnxruntime", True

    def __init__(
        self,
        model: Model,
        tolerance: float | None,
        threads: int | None,
        output_tolerance: float | None = None,
    ):
        self.model = model
        self._settings: dict[str, Any] = {"tolerance": tolerance, "threads": threads}
        self.output_tolerance = output_tolerance
        self.measuring: Measuring | None = None
        self._unmeasured = ""
        try:
            self.measuring = Measuring(model, threads, tolerance, output_tolerance)
        except Unmeasured as reason:
            self._unmeasured = str(reason)
        self.is_careful = self.measuring is not None and tolerance is None
        self._late: dict[tuple[bool, int], dict[str, str]] = {}
        self._given_back: list[str] = []
        self._verdict: Verdict | None = None
        self._gains: dict[str, float] | None = None
        self._cases: UnseenFeeds | None = None

    def rewritten(self) -> Rewritten:
        """Return the fastest model that computes what the original does."""
        measuring = self.measuring
        memory, numbers = (measuring.memory, measuring.numbers) if measuring else (Memory(), "")
        engine = Decider(self, memory, numbers)
        result: Rewritten = engine.described(engine.best())
        return result

    @cached_property
    def seconds(self) -> float:  # type: ignore[override]
        """Of a run of the original; 0 where it does not run."""
        return self.measuring.seconds if self.measuring else 0.0

    def replace(self, way: DraftRequest) -> RewrittenNodes:
        """Return a rewritten model whose kernels are there."""
        late = self._late.setdefault((way.uncut, way.ceiling), {})
        settings = {**self._settings, "most_error": ceilings.CEILINGS[way.ceiling]}
        excluded = dict(way.refused)
        for part, times in way.slower:
            excluded |= dict.fromkeys(part.values, _why(times))
        while True:
            with working("reading the model"):
                why = excluded | dict.fromkeys(late, LATE)
                own = way.spending.tolerances if way.spending else None
                made = RewrittenNodes(self.model, settings, why, self.measuring, own)
            with working("compiling kernels"):
                found = made.late()
            if not found:
                return made
            late |= found

    def time(self, made: RewrittenNodes, part: TimedPart | None, earlier: float) -> Times | None:
        """Return the times of winogen's nodes and of onnxruntime's."""
        if self.measuring is None:
            return None
        if part is not None:
            return self.measuring.time(part)
        return self.measuring.whole(made.proto, earlier)

    def run(self, draft: Draft[RewrittenNodes], is_known: bool) -> Fault | None:
        """Compare each new node with the original's, and the whole with the original."""
        made, measuring = draft.made, self.measuring
        if made.is_empty:
            return None
        with working("comparing with the original"):
            running = measuring.running(made.proto) if measuring else None
            self._verdict = compare(self.model, made.proto, running and running.session)
        refuted = self._verdict.refuted
        self._given_back += [f"{name}: {why}" for name, why in refuted.items()]
        values = [one for name in refuted for one in made.writer.within.get(name, (name,))]
        return Fault(dict.fromkeys(values, "its values differ")) if refuted else None

    def run_exactly(self, draft: Draft[RewrittenNodes]) -> Errors | None:
        """Return the errors at the output; None of what stays the original."""
        made, measuring = draft.made, self.measuring
        if measuring is None or made.is_empty or draft.left:
            return None
        return measuring.reference.errors(measuring.running(made.proto))

    def spend(self, budget: float) -> Spending:
        """Return the tolerances of layers for an error at the output, by gains on random inputs."""
        if self.measuring is None:
            raise Unsupported(
                f"output_tolerance: got {self.output_tolerance:g}; allowed: None where nothing can "
                f"be measured ({self._unmeasured})"
            )
        model = self.measuring.model
        reading = read(model)
        graph = simplify(reading.graph)
        if self._gains is None:
            names = [node.output for node in graph.convolutions]
            with working("measuring what errors of layers become"):
                self._gains = gains_of(model, names, self.measuring.feed)
        parts = sized_parts(model, reading, graph)
        if not any(part.convolutions for part, _ in parts):
            return Spending({}, {}, {})
        threads, tolerance = self._settings["threads"], self._settings["tolerance"]
        settings = settings_of(model, reading, threads or 1, tolerance)
        with working("planning"):
            return cheapest(offered(parts, settings), self._gains, budget)

    def promise(self, draft: Draft[RewrittenNodes]) -> OutputPromise | None:
        """Measure the error at the output, of what is returned, on random inputs."""
        measuring, spending, asked = self.measuring, draft.way.spending, self.output_tolerance
        if measuring is None or spending is None or asked is None:
            return None
        if draft.left or draft.made.is_empty:
            return self._unseen(measuring).promise(None, asked)
        running = measuring.running(draft.made.proto)
        computed = {name for names in draft.made.writer.within.values() for name in names}
        errors = {name: e for name, e in spending.errors.items() if name in computed}
        if running is None:
            return None
        run = partial(running.session.run, None)
        return self._unseen(measuring).promise(run, asked, spending.predicted(errors))

    def _unseen(self, measuring: Measuring) -> UnseenFeeds:
        if self._cases is None:
            self._cases = UnseenFeeds(measuring.model, measuring.reference)
        return self._cases

    def describe(self, draft: Draft[RewrittenNodes], layers: Mapping[str, Times]) -> Rewritten:
        """Return the rewritten model, or the original."""
        made, count = draft.made, len(self.model.graph.node)
        whole, ceiling = draft.whole, draft.way.ceiling
        given_back = tuple(dict.fromkeys(self._given_back))
        late = self._late[draft.way.uncut, ceiling].values()
        slower = draft.way.slower
        stays = [f"{part.label}: {_why(times)}" for part, times in slower if part.label]
        refusals = (*made.refusals, *(f"{label}: {LATE}" for label in late), *stays)
        if draft.left:
            return Rewritten(
                self.model.proto, count, count, refusals=refusals, whole=whole, layers=layers,
                ceiling=ceiling, given_back=given_back, promise=draft.promise,
            )  # fmt: skip
        failed = "onnxruntime does not run the original, or not with winogen's nodes"
        missing = self._unmeasured if made.is_empty else self._unmeasured or failed
        writer = made.writer
        return Rewritten(
            made.proto, count, len(made.proto.graph.node), writer.convolutions, writer.segments,
            writer.quantized, refusals, given_back, None if made.is_empty else self._verdict, whole,
            layers, self._predicted(made, layers), "" if whole else missing, draft.errors,
            ceiling, draft.promise, self._spent(draft),
        )  # fmt: skip

    def _spent(self, draft: Draft[RewrittenNodes]) -> dict[str, Spent]:
        """What each layer that winogen computes may spend of the error at the output."""
        spending, writer = draft.way.spending, draft.made.writer
        if spending is None:
            return {}
        computed = {name for names in writer.within.values() for name in names}
        errors = {name: e for name, e in spending.errors.items() if name in computed}
        return spending.spent(errors, draft.made.labels)

    def keep(self, draft: Draft[RewrittenNodes]) -> Mapping[str, str]:
        """Return nothing: what is made again is compared again."""
        return {}

    def _predicted(self, made: RewrittenNodes, layers: Mapping[str, Times]) -> tuple[str, ...]:
        """The layers that run without a measurement, if time was up."""
        if self.measuring is None or limit().allows():
            return ()
        computed = {name for names in made.writer.within.values() for name in names}
        return tuple(
            node.label or node.output
            for node in made.graph.convolutions
            if node.output in computed and node.output not in layers
        )


def _why(times: Times) -> str:
    return f"onnxruntime is faster, {times}"
