"""`report`: what a model would gain, layer by layer, before anything is installed or changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex

import numpy as np

from winogen.columns import wrapped
from winogen.conv import arguments
from winogen.conv.folded import unfolded
from winogen.conv.problem import Problem
from winogen.errors import InvalidValue
from winogen.graph import QConv, cut, shapes, simplify
from winogen.graph.ceilings import Errors
from winogen.graph.code_calls import offer_of
from winogen.graph.code_choice import Tiles, layer_of
from winogen.graph.code_tiles import described, is_near
from winogen.graph.ir import Node
from winogen.graph.layer_table import Line, table
from winogen.graph.lower import Step, lower
from winogen.graph.planning import Settings
from winogen.graph.promise import OutputPromise
from winogen.graph.spending import Spent
from winogen.graph.step_ways import problem_of, ways_of, ways_of_bytes
from winogen.onnx.code_answers import held_tiles
from winogen.onnx.drafting import late
from winogen.onnx.forms import FORMS
from winogen.onnx.loading import naming_damage, original
from winogen.onnx.model import Model
from winogen.onnx.padding import same
from winogen.onnx.probes import sized
from winogen.onnx.promising import settings_of
from winogen.onnx.reading import Reading, read
from winogen.onnx.rewrite import rewrite
from winogen.tasks.duel import Times
from winogen.tasks.limit import checked
from winogen.typing import FilePath, Real

if TYPE_CHECKING:
    from onnx import ModelProto


@dataclass(frozen=True)
class Row:
    """One layer that winogen can compute; of open sizes, only what it computes is known."""

    layer: str
    what: str
    output: tuple[int, ...] = ()
    algorithm: str = ""
    predicted_s: float | None = None
    direct_s: float | None = None  # predicted of direct convolution, as frameworks do it, about
    winogen_s: float | None = None  # measured; None: it was not
    onnxruntime_s: float | None = None  # ... of the nodes that the layer stands for
    spent: Spent | None = None  # of an error that is promised at the output

    @property
    def gain(self) -> float | None:
        """How many times as fast it is, as measured."""
        if self.onnxruntime_s is None or self.winogen_s is None:
            return None
        return self.onnxruntime_s / self.winogen_s

    @property
    def line(self) -> Line:
        """The row in a table."""
        times = self.predicted_s, self.winogen_s, self.onnxruntime_s
        tolerance, share = self.spent or (None, None)
        return Line(self.layer, self.what, self.algorithm, *times, tolerance=tolerance, share=share)


@dataclass(frozen=True)
class Report:
    """What a model would gain; ``print(report)`` shows it."""

    rows: tuple[Row, ...]
    threads: int
    refusals: tuple[str, ...]
    onnxruntime_s: float | None = None  # of the whole model, measured; None: it was not
    winogen_s: float | None = None  # ... with all nodes of winogen's that are faster
    unmeasured: str = ""  # why there is no measurement
    quantized: int = 0  # convolutions of 8 bits that winogen would compute
    quantized_times: Times | None = None  # of all measured ones, including what stays
    errors: Errors | None = None  # at the output of the whole model; None: they are not known
    predicted: tuple[str, ...] = ()  # layers that no seconds were left to measure
    promise: OutputPromise | None = None  # of the error at the output, if one was asked for

    @property
    def predicted_s(self) -> float:
        """Of all layers that winogen can compute."""
        return sum(row.predicted_s or 0.0 for row in self.rows)

    @property
    def direct_s(self) -> float:
        """Of the same layers by direct convolution, predicted, too."""
        return sum(row.direct_s or 0.0 for row in self.rows)

    @property
    def gain(self) -> float | None:
        """How many times as fast the whole is, as measured; None without a measurement.

        At 1 or below, `optimize` returns the model as it was.
        """
        if self.onnxruntime_s is None or self.winogen_s is None:
            return None
        return self.onnxruntime_s / self.winogen_s

    def __str__(self) -> str:
        """Return the table, at most 100 columns wide, with all that is known of the whole."""
        lines = ["no layer that winogen would compute"]
        if self.rows:
            lines = table([row.line for row in self.rows], "onnxruntime")
        rest = [*self._whole(), *(f"stays: {refusal}" for refusal in self.refusals)]
        lines += [""] if self.rows and rest else []
        return "\n".join([*lines, *(part for text in rest for part in wrapped(text))])

    def _whole(self) -> Iterator[str]:
        """What is said of all layers."""
        count = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        if self.gain is not None and self.onnxruntime_s and self.winogen_s:
            yield (
                f"{len(self.rows)} layers, {count}: onnxruntime takes "
                f"{1e3 * self.onnxruntime_s:.3g} ms for the whole model, with winogen's nodes "
                f"{1e3 * self.winogen_s:.3g} ms: {self.gain:.2f} times as fast, measured in turns"
            )
        elif not any(row.gain for row in self.rows) and self.predicted_s:
            yield (
                f"{len(self.rows)} layers, {count}, predicted: {1e3 * self.predicted_s:.3g} ms, by "
                f"direct convolution {1e3 * self.direct_s:.3g} ms, "
                f"{self.direct_s / self.predicted_s:.2f} times as long"
            )
        if self.errors is not None:
            yield self.errors.text("onnxruntime")
        if self.promise is not None:
            yield self.promise.line("onnxruntime")
        if self.unmeasured:
            yield f"not measured: {self.unmeasured}"
        if self.predicted:
            yield late(self.predicted)
        if self.quantized:
            measured = "not measured"
            if self.quantized_times:
                measured = f"each node alone, all together: onnxruntime {self.quantized_times}"
            yield f"{self.quantized} quantized convolutions that winogen would compute; {measured}"


@naming_damage
def report(
    model_or_path: ModelProto | FilePath,
    *,
    tolerance: Real | None = None,
    threads: SupportsIndex | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    seconds: Real | None = 30,
    output_tolerance: Real | None = None,
) -> Report:
    """Return what `optimize` gains, with the same arguments, and how it keeps to them.

    Where onnxruntime and a compiler are there, layers are measured as `optimize` does, and so is
    the whole model with all faster ones. Else there are only times that the planner predicts.
    Inputs whose sizes are open need ``input_shapes`` for any times, but for the batch, which is 1
    then. Raises as `optimize` does.
    """
    checked(seconds)
    proto = original(model_or_path)
    model = Model(proto, input_shapes)
    try:
        model = sized(model)
    except InvalidValue as unsized:
        return _of_open_sizes(model, arguments.threads(threads), str(unsized))
    count, largest = arguments.threads(threads), None if tolerance is None else float(tolerance)
    errors = {"tolerance": tolerance, "output_tolerance": output_tolerance}
    result = rewrite(proto, threads=count, input_shapes=input_shapes, seconds=seconds, **errors)
    reading = read(model)
    settings = settings_of(model, reading, count, largest)
    direct = replace(settings, algorithm="direct", tolerance=None)
    tiles = held_tiles(result.model.graph.node)
    narrow = {node.outputs[0] for node in reading.graph.nodes if reading.layers_of(node)}
    rows, narrow_times = [], [times for name, times in result.layers.items() if name in narrow]
    for whole in reading.graph.nodes:
        measured, own = result.layers, replace(settings, tolerance=None)  # which runs alone have
        if not whole.op.quantized:  # it is no layer, or a run, which is measured as one
            measured, own = {}, replace(settings, layout="NHWC")
        for node, op in reading.layers_of(whole):
            rows += _row_of_bytes(model, node, op, own, measured, tiles)
    for step, problem, made, shape in _steps(model, reading, settings) if reading.kind else ():
        spent = result.spent.get(step.label)
        own = settings if spent is None else replace(settings, tolerance=spent.tolerance)
        algorithm, seconds = _predicted(problem, own)
        what = str(step.op if made is None else made.op)
        predicted = seconds, _predicted(problem, direct)[1]
        times = result.layers.get(step.key, (None, None))
        sizes = shape or problem.output_shape
        row = Row(step.label, what, sizes, algorithm, *predicted, *times)
        rows.append(replace(row, spent=spent))
    theirs, ours = (result.whole.theirs, result.whole.ours) if result.whole else (None, None)
    refusals = (*result.refusals, *(f"{value}, given back" for value in result.given_back))
    known = tuple(rows), count, refusals, theirs, ours, result.unmeasured, result.quantized
    of_bytes = Times(*map(sum, zip(*narrow_times))) if narrow_times else None
    return Report(*known, of_bytes, result.errors, result.predicted, result.promise)


def _of_open_sizes(model: Model, threads: int, why: str) -> Report:
    """What is known without sizes: the layers."""
    reading = read(model)
    rows = tuple(
        Row(node.label or node.output, str(node.op))
        for node in simplify(reading.graph).convolutions
    )
    return Report(rows, threads, tuple(reading.refusals), unmeasured=why)


def _row_of_bytes(
    model: Model, node: Node, op: QConv, settings: Settings, measured: Mapping[str, Times],
    tiles: Tiles,
) -> list[Row]:  # fmt: skip
    """The row of a quantized layer; none where its sizes are open. ``tiles``: of all that have."""
    sizes, whole = (model.sizes.get(name, ()) for name in (node.inputs[0], node.output))
    if not sizes or not whole or not all(size.known for size in (*sizes, *whole)):
        return []
    shape, output = (tuple(size.number for size in some) for some in (sizes, whole))
    if isinstance(op.padding, str):
        axes = zip(shape[2:], op.weight.shape[2:], op.stride, op.dilation)
        sides = (same(op.padding, n, step, d * (taps - 1)) for n, taps, step, d in axes)
        (top, bottom), (left, right) = sides
        op = replace(op, padding=(top, bottom, left, right))
    best = ways_of_bytes(op, shape, settings)[0]
    direct = ways_of_bytes(op, shape, replace(settings, algorithm="direct"))[0]
    predicted = best.choice.algorithm, best.seconds, direct.seconds
    if settings.tolerance:
        near = replace(op.signed, tiles=tiles.get(layer_of(op.signed, shape)))
        offer = offer_of(near, shape, settings.threads)
        if is_near(offer):
            predicted = described(offer), offer.best.seconds, direct.seconds
    label = node.label or node.output
    return [Row(label, str(op), output, *predicted, *measured.get(node.output, (None, None)))]


class _Layer(NamedTuple):
    """A convolution of a segment, and what it computes."""

    step: Step
    problem: Problem
    node: Node | None  # that it is all of, or the larger part; None of what moves numbers
    shape: tuple[int, ...]  # of the node's output


def _steps(model: Model, reading: Reading, settings: Settings) -> list[_Layer]:
    """All convolutions of segments where all sizes are known."""
    steps = []
    for piece in cut(simplify(reading.graph)):
        if not piece.ours:
            continue
        sizes = {name: model.sizes.get(name, ()) for name in piece.graph.inputs}
        if any(not size or not all(s.known for s in size) for size in sizes.values()):
            continue
        whole = {name: tuple(s.number for s in size) for name, size in sizes.items()}
        for name in whole.keys() & reading.forms.keys():
            whole[name] = FORMS[reading.forms[name]].map_sizes(whole[name], 1)
        values = shapes(piece.graph, whole)
        lowered, buffers = lower(piece.graph, values, np.dtype(settings.dtype))
        makers = piece.graph.makers
        steps += [
            _Layer(
                step,
                problem_of(step, buffers, settings),
                makers.get(step.key),
                values.get(step.key, ()),
            )
            for step in lowered
            if step.op.is_convolution
        ]
    return steps


@naming_damage
def convolutions(
    model_or_path: Any, input_shapes: Mapping[str, Any] | None = None
) -> list[Problem]:
    """Return the convolutions that `optimize` would replace. Raises as it does."""
    proto = original(model_or_path)
    model = sized(Model(proto, input_shapes))
    reading = read(model)
    if not reading.kind:
        return []
    return [one.problem for one in _steps(model, reading, settings_of(model, reading))]


def _predicted(problem: Problem, settings: Settings) -> tuple[str, float]:
    """The algorithm that the planner would choose, and its seconds."""
    best = ways_of(problem.folded, settings)[0].candidate
    choice = best.choice
    sizes = unfolded(problem.layer, choice.tile, 1)
    if sizes is None:
        return choice.algorithm, best.seconds
    tile = "x".join(map(str, sizes))
    taps = "x".join(map(str, problem.layer.kernel))
    return f"{choice.algorithm} F({tile},{taps})", best.seconds
