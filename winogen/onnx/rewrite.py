"""`optimize`: a model whose convolutions are winogen's operators where these are faster."""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex

from winogen.conv import arguments
from winogen.conv.stock import stock_of
from winogen.errors import InvalidValue
from winogen.files import output_path, replace_file
from winogen.graph import ceilings, simplify
from winogen.graph.ceilings import Errors, accurate
from winogen.onnx.loading import as_it_is, naming_damage, original, require
from winogen.onnx.measuring import Measuring, Unmeasured
from winogen.onnx.model import Model, copied
from winogen.onnx.proof import Verdict, compare
from winogen.onnx.reading import read
from winogen.onnx.soundness import MOST_BYTES, parts_of
from winogen.onnx.validity import check_nodes
from winogen.onnx.writing import Writer
from winogen.progress import working
from winogen.tasks.duel import Times
from winogen.tasks.limit import checked, limit, limited
from winogen.testing import is_every_layer
from winogen.toolchain import host_target
from winogen.toolchain.machine import settle
from winogen.typing import FilePath, Real

if TYPE_CHECKING:
    from onnx import ModelProto


# Runs of a model that a comparison with float64 takes, about, and the ceiling of errors without it.
_DOUBLE, _CAREFUL = 5.0, 1
_LATE = "no time was left to compile its kernel"


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
        lines += [f"  {self.verdict}"] if self.verdict else []
        lines += [f"  {late(self.predicted)}"] if self.predicted else []
        lines += [f"  given back to onnxruntime: {value}" for value in self.given_back]
        return "\n".join([*lines, *(f"  stays: {refusal}" for refusal in self.refusals)])


def late(layers: Sequence[str]) -> str:
    """Return what is said of layers that the limit of seconds left no time to measure."""
    some = ", ".join(layers[:3]) + (" ..." if len(layers) > 3 else "")
    return (
        f"{len(layers)} layers run as predicted, since no seconds were left to measure them: {some}"
    )


def optimize(
    model_or_path: ModelProto | FilePath,
    output: FilePath | None = None,
    *,
    tolerance: Real | None = None,
    threads: SupportsIndex | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    seconds: Real | None = 30,
) -> ModelProto:
    """Return a model that computes the same with winogen's convolutions where these are faster.

    Quantized convolutions, as QLinearConv, ConvInteger or between DequantizeLinear and
    QuantizeLinear, become integer ones with the rounding of QLinearConv.
    Normalizations, activations, additions, paddings and concatenations become part of the
    convolutions beside them. onnxruntime runs the result with `get_library_path`.

    Every convolution, and every node of several, is measured beside the nodes of onnxruntime that
    it stands for, and stays onnxruntime's where these are faster, unless the whole model is faster
    without such cuts. A model that does not become faster is returned as it was, with a warning.
    This takes sizes: where an input's are open, but for the batch, and ``input_shapes`` has none,
    nothing is measured and winogen computes all that it can, with a warning. Within
    `winogen.testing.every_layer` it does so without one.

    Before it is returned or written, it runs beside the original, on numbers made for that. A part
    whose values differ by more than ``tolerance`` and rounding explain stays with onnxruntime, with
    a warning. Without onnxruntime or a compiler nothing is compared or measured, with a warning,
    too.

    Parameters
    ----------
    model_or_path
        An onnx.ModelProto, which is left alone, or a path.
    output
        Where to write the result.
    tolerance
        As `winogen.conv2d` has it, for every layer; None for its default.
    threads
        How many threads a convolution may use; None for as many as onnxruntime lends.
    input_shapes
        Sizes by input, {"x": (1, 3, 224, 224)}: inputs of a rewritten model that had others, or
        open ones, then have these.
    seconds
        About how long kernels are compiled, layers measured and errors reduced; None for as long as
        that takes. The largest layers come first. Those not measured then run as predicted, those
        whose kernels are not compiled stay with onnxruntime, and the account says so. The whole is
        measured and compared in any case.

    Returns
    -------
    A new model; the same, with a warning, if there is nothing to gain.

    Raises
    ------
    InvalidType, InvalidValue
        For an argument that is not allowed, a damaged model, and one that was optimized before.
    MissingPackage
        Without the extra `onnx`.
    OSError
        When a file cannot be read or written.
    """
    if output is not None:
        output_path(output)  # refuses before any work
    options: dict[str, Any] = {"tolerance": tolerance, "threads": threads}
    result = rewrite(model_or_path, input_shapes=input_shapes, seconds=seconds, **options)
    unmeasured = result.unmeasured and not is_every_layer()
    uncompared = not (result.verdict and result.verdict.sizes)
    if result.is_original or result.given_back or uncompared or unmeasured:
        warnings.warn(f"winogen.onnx.optimize: {result}", stacklevel=2)
    if output is not None:
        save(result.model, output)
    return result.model


@naming_damage
def rewrite(
    model_or_path: ModelProto | FilePath,
    *,
    tolerance: Real | None = None,
    threads: SupportsIndex | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    seconds: Real | None = None,
) -> Rewritten:
    """Return what `optimize` returns, with an account of it."""
    most = checked(seconds)
    if tolerance is not None:
        tolerance = arguments.positive("tolerance", tolerance, "None or a number below 1, as 1e-6")
        if tolerance >= 1:
            raise InvalidValue(f"tolerance: got {tolerance}; allowed: None or a number below 1")
    if threads is not None:
        threads = arguments.threads(threads)
    given = as_it_is(model_or_path)
    model = Model(original(given), input_shapes)
    check_nodes(model)
    with limited(most):
        result = _rewritten(model, tolerance, threads)
    # As it was, functions and all.
    return replace(result, model=given) if result.is_original else result


def _rewritten(model: Model, tolerance: float | None, threads: int | None) -> Rewritten:
    """Do what `rewrite` does, with checked arguments."""
    settle()
    measuring, unmeasured = None, ""
    try:
        measuring = Measuring(model, threads, tolerance)
    except Unmeasured as reason:
        unmeasured = str(reason)
    task = _Task(model, {"tolerance": tolerance, "threads": threads}, measuring, unmeasured)
    excluded: dict[str, str] = {}  # values that onnxruntime goes on to compute -> why
    given_back: list[str] = []
    while True:
        draft = _fastest(task, excluded)
        result = replace(draft.result, given_back=tuple(given_back))
        if result.is_original:
            return result
        with working("comparing with the original"):
            running = measuring and measuring.running(result.model)
            verdict = compare(model, result.model, running and running.session)
        if not verdict.refuted:
            return replace(result, verdict=verdict)
        for name, why in verdict.refuted.items():
            excluded |= dict.fromkeys(draft.within.get(name, (name,)), "its values differ")
            given_back.append(f"{name}: {why}")


@dataclass(frozen=True)
class _Task:
    """A model to rewrite, and what is known of it."""

    model: Model
    settings: Mapping[str, Any]  # tolerance, threads
    measuring: Measuring | None
    unmeasured: str  # why there are no times
    layers: dict[str, Times] = field(default_factory=dict)  # by what a layer makes, once measured


def _fastest(task: _Task, excluded: Mapping[str, str]) -> _Draft:
    """Return the fastest draft, with slower layers in it or without, which is not proven yet."""
    draft = partial(_measured, task, excluded)

    def has_lost(draft: _Draft) -> bool:
        if not limit().allows():
            return False
        lost = any(times.is_lost for times in draft.result.layers.values())
        return bool(lost and (draft.result.segments or draft.result.whole))

    def facts(draft: _Draft) -> dict[str, str]:
        assert task.measuring
        errors = json.dumps(draft.result.errors and astuple(draft.result.errors))
        return {
            "numbers": task.measuring.numbers,
            "ceiling": str(draft.result.ceiling),
            "errors": errors,
        }

    if task.measuring is None:
        return draft(False)
    return task.measuring.memory.settled(draft, has_lost, lambda draft: draft.result.gain, facts)


def _measured(task: _Task, excluded: Mapping[str, str], uncut: bool) -> _Draft:
    """Return a draft with its times, the original where that is as fast.

    ``uncut``: winogen computes slower layers as well.
    """
    draft = _Drafts(task, uncut, excluded).accurate()
    result, model = draft.result, task.model
    if result.is_original:
        return draft
    with working("measuring the whole model"):
        whole = task.measuring.whole(result.model) if task.measuring else None
    if whole is not None and whole.is_slower:
        count = len(model.graph.node)
        original = Rewritten(model.proto, count, count, refusals=result.refusals)
        draft.result = replace(original, whole=whole, layers=task.layers, ceiling=result.ceiling)
        return draft
    failed = "onnxruntime does not run the original, or not with winogen's nodes"
    unmeasured = "" if whole else task.unmeasured or failed
    draft.result = replace(result, whole=whole, unmeasured=unmeasured)
    return draft


class _Drafts:
    """Drafts of a model under each ceiling: layers that onnxruntime computes faster are its own.

    The arguments are those of `_measured`. ``excluded``: values that are onnxruntime's in any case.
    """

    def __init__(self, task: _Task, uncut: bool, excluded: Mapping[str, str]):
        self.task, self.uncut, self.excluded = task, uncut, excluded
        self.latest = 0  # ceiling of a draft
        self.largest = math.inf  # predicted error of its layers

    def accurate(self) -> _Draft:
        """Return the draft whose error at the output is small enough, or the least."""
        measuring = self.task.measuring
        facts = measuring.facts if measuring else {}
        if facts:
            errors = json.loads(facts["errors"])
            draft = self._fast(int(facts["ceiling"]))
            draft.result = replace(draft.result, errors=Errors(*errors) if errors else None)
            return draft
        careful = measuring is not None and self.task.settings["tolerance"] is None
        ends = limit().seconds is not None
        if measuring and careful and ends and not limit().allows(_DOUBLE * measuring.seconds):
            return self._fast(_CAREFUL)
        best = accurate(self._made, lambda draft: draft.result.errors, careful)
        if best.result.ceiling != self.latest:  # other layers were measured since
            self._fast(best.result.ceiling)
        return best

    def _made(self, ceiling: int) -> _Draft | None:
        if self.largest <= (ceilings.CEILINGS[ceiling] or 0):  # no layer is above it
            return None
        draft, self.latest = self._fast(ceiling), ceiling
        measuring = self.task.measuring
        if measuring and not draft.result.is_original:
            with working("comparing with float64"):
                running = measuring.running(draft.result.model)
                errors = measuring.reference.errors(running)
            self.largest = running.predicted if running and errors else 0.0
            draft.result = replace(draft.result, errors=errors)
        return draft

    def _fast(self, ceiling: int) -> _Draft:
        """Return a draft without slower layers."""
        task, measuring = self.task, self.task.measuring
        excluded, stays = dict(self.excluded), list[str]()
        settings = {**task.settings, "most_error": ceilings.CEILINGS[ceiling]}
        # Where nothing is compiled, layers that are measured alone lose nothing.
        prepared = bool(task.layers and not ceiling) or stock_of(host_target()) is not None
        while True:
            with working("reading the model"):
                draft = _Draft(task.model, settings, excluded)
            draft.result = replace(
                draft.result,
                refusals=(*draft.result.refusals, *stays),
                layers=task.layers,
                unmeasured=task.unmeasured,
                ceiling=ceiling,
            )
            if draft.result.is_original:
                return draft
            if measuring and (not prepared or limit().seconds is not None):
                with working("compiling kernels"):
                    late = draft.late(measuring)
                prepared = True
                for value, label in late.items():
                    excluded[value] = _LATE
                    stays += [f"{label}: {_LATE}"]
                if late:
                    continue
            known = self.uncut and task.layers
            slower = draft.slower(measuring, task.layers) if measuring and not known else []
            if not slower or self.uncut:
                if measuring:
                    draft.note_unmeasured(task.layers)
                return draft
            for lost in slower:
                excluded |= dict.fromkeys(lost.values, lost.why)
                stays += [f"{lost.label}: {lost.why}"] if lost.label else []


class _Slower(NamedTuple):
    """Values that onnxruntime computes faster."""

    values: list[str]
    why: str
    label: str  # "" for quantized ones, which the reading names


class _Draft:
    """A rewritten model before anything is known of it.

    ``excluded``: values that onnxruntime goes on to compute, and why.
    """

    def __init__(self, model: Model, settings: Mapping[str, Any], excluded: Mapping[str, str]):
        self.model = model
        reading = read(model, excluded)
        self.graph = simplify(reading.graph)
        self._writer = partial(Writer, model, reading, settings, excluded)
        writer = self._writer()
        proto = writer.write(self.graph)
        if not writer.segments and not writer.quantized:
            proto = model.proto
        self.within = writer.within  # output of a segment -> all that it computes
        self._layers = {node.name: names for node, names in writer.layers}
        self.result = Rewritten(
            proto,
            len(model.graph.node),
            len(proto.graph.node),
            writer.convolutions,
            writer.segments,
            writer.quantized,
            tuple(reading.refusals),
        )

    def note_unmeasured(self, layers: Mapping[str, Times]) -> None:
        """Note in the result which layers run without a measurement, if time was up."""
        if limit().allows():
            return
        computed = {name for names in self.within.values() for name in names}
        labels = tuple(
            node.label or node.output
            for node in self.graph.convolutions
            if node.output in computed and node.output not in layers
        )
        self.result = replace(self.result, predicted=labels)

    def late(self, measuring: Measuring) -> dict[str, str]:
        """Return layers whose kernels the limit left no time for: what they make, their labels.

        The kernels of all others are compiled then, if there are none.
        """
        labels = {node.output: node.label or node.output for node in self.graph.convolutions}
        late: dict[str, str] = {}
        for name, numbers in measuring.late(self.result.model).items():
            values = self._layers.get(name, [])
            found = [values[n] for n in sorted(numbers) if n < len(values) and values[n] in labels]
            late |= {value: labels[value] for value in found or values if value in labels}
        return late

    def slower(self, measuring: Measuring, layers: dict[str, Times]) -> list[_Slower]:
        """Return the layers that onnxruntime computes faster; if there are none, the segments.

        ``layers`` takes the times of each layer, by what it makes.
        """
        proto = self.result.model
        labels = {node.output: node.label for node in self.graph.convolutions}
        if self.result.segments:
            writer = self._writer()
            alone = list(writer.apart(self.graph))
            times = measuring.parts(alone, writer.constants.tensors, proto.opset_import)
            layers |= times
            lost = {name: one for name, one in times.items() if one.is_lost}
            if lost:
                return [_Slower([name], _why(one), labels[name]) for name, one in lost.items()]
        constants = {tensor.name: tensor for tensor in proto.graph.initializer}
        times = measuring.parts(parts_of(self.model, proto), constants, proto.opset_import)
        layers |= {name: one for name, one in times.items() if name not in self.within}
        slower = []
        for name, one in times.items():
            values = self.within.get(name, [name])
            names = [labels[value] for value in values if value in labels]
            several = f"{names[0]} to {names[-1]}, {len(names)} layers in one node" if names else ""
            if one.is_lost:
                slower.append(_Slower(values, _why(one), several))
        return slower


def _why(times: Times) -> str:
    return f"onnxruntime is faster, {times}"


def save(model: Any, output: Any) -> Path:
    """Write a model, its weights into a file beside it where they are too large; return its path.

    What is there before is replaced as a whole, or not at all. Raises InvalidType, InvalidValue for
    a path of no regular file, and OSError.
    """
    path = output_path(output)
    if model.ByteSize() <= MOST_BYTES:
        return replace_file(path, model.SerializeToString(deterministic=True))
    with TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        draft, data = Path(folder, path.name), f"{path.name}.data"
        require("onnx").save(
            copied(model), draft, save_as_external_data=True, location=data, size_threshold=0
        )
        os.replace(Path(folder, data), path.with_name(data))
        os.replace(draft, path)
    return path
