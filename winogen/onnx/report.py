"""`report`: what a model would gain, layer by layer, before anything is installed or changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from winogen.conv import arguments
from winogen.conv.problem import Problem
from winogen.errors import BuildError
from winogen.extras import MissingPackage
from winogen.graph import Conv, Graph, cut, shapes, simplify
from winogen.graph.lower import COPY, Step, lower
from winogen.graph.planning import Settings, problem_of, ways_of
from winogen.onnx.library import get_library_path
from winogen.onnx.loading import first_line, naming_damage, original
from winogen.onnx.model import Model
from winogen.onnx.quantized import narrowed
from winogen.onnx.reading import Reading, read
from winogen.onnx.rewrite import rewrite
from winogen.onnx.running import sizes_of_inputs, zeros
from winogen.onnx.timing import in_turns, of_nodes, started
from winogen.toolchain import host_target
from winogen.toolchain.machine import current
from winogen.typing import FilePath, Real

if TYPE_CHECKING:
    from onnx import ModelProto


@dataclass(frozen=True)
class Row:
    """One layer that winogen would compute."""

    layer: str
    what: str
    output: tuple[int, ...]
    algorithm: str
    predicted_s: float
    direct_s: float  # predicted of direct convolution, which is about what frameworks do
    onnxruntime_s: float | None = None  # measured, of the nodes that the layer stands for
    node: str = ""  # of winogen's that computes it, besides others perhaps


@dataclass(frozen=True)
class Timed:
    """One node of winogen's, measured, and the nodes of onnxruntime that it stands for."""

    name: str
    winogen_s: float
    onnxruntime_s: float

    @property
    def gain(self) -> float:
        """How many times as fast it is."""
        return self.onnxruntime_s / self.winogen_s


@dataclass(frozen=True)
class Report:
    """What a model would gain; ``print(report)`` shows it."""

    rows: tuple[Row, ...]
    threads: int
    refusals: tuple[str, ...]
    nodes: tuple[Timed, ...] = ()  # of winogen's; none without a measurement
    onnxruntime_s: float | None = None  # of the whole model, measured; None: it was not
    winogen_s: float | None = None  # ... as `optimize` makes it
    unmeasured: str = ""  # why there is no measurement
    quantized: int = 0  # convolutions of 8 bits that winogen would compute

    @property
    def predicted_s(self) -> float:
        """Of all layers that winogen would compute."""
        return sum(row.predicted_s for row in self.rows)

    @property
    def direct_s(self) -> float:
        """Of the same layers by direct convolution, predicted, too."""
        return sum(row.direct_s for row in self.rows)

    @property
    def gain(self) -> float | None:
        """How many times as fast the whole is, as measured; None without a measurement."""
        if self.onnxruntime_s is None or self.winogen_s is None:
            return None
        return self.onnxruntime_s / self.winogen_s

    def __str__(self) -> str:
        head = ("layer", "what", "output", "by", "predicted ms", "winogen ms", "onnxruntime ms",
                "gain")  # fmt: skip
        table = [head, *self._cells()]
        if self.gain is None:  # no column of what was not measured
            table = [(*row[:5], row[6]) if any(r[6] for r in table[1:]) else row[:5]
                     for row in table]  # fmt: skip
        widths = [max(map(len, column)) for column in zip(*table)]
        lines = [
            "  ".join(
                cell.ljust(width) if place < 4 else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(row, widths))
            ).rstrip()
            for row in table
        ]
        if not self.rows:
            lines = ["no float layer that winogen would compute" if self.quantized else
                     "no layer that winogen would compute"]  # fmt: skip
        lines += self._whole()
        return "\n".join([*lines, *(f"stays: {refusal}" for refusal in self.refusals)])

    def _cells(self) -> Iterator[tuple[str, ...]]:
        """Rows of the table: a layer each, and below those of a larger node the node."""
        timed = {node.name: node for node in self.nodes}
        for name, group in groupby(self.rows, lambda row: row.node):
            rows, node = list(group), timed.get(name)
            for row in rows:
                sizes = "x".join(map(str, row.output))
                alone = node if len(rows) == 1 else None
                yield (row.layer, row.what, sizes, row.algorithm, _ms(row.predicted_s),
                       *_measured_cells(alone, row.onnxruntime_s))  # fmt: skip
            if node is not None and len(rows) > 1:
                predicted = _ms(sum(row.predicted_s for row in rows))
                yield ("", f"these {len(rows)} layers, one node", "", "", predicted,
                       *_measured_cells(node, node.onnxruntime_s))  # fmt: skip

    def _whole(self) -> Iterator[str]:
        """What is said of all layers."""
        count = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        if self.gain is not None and self.onnxruntime_s and self.winogen_s:
            yield (
                f"{len(self.rows)} layers, {count}: onnxruntime takes "
                f"{1e3 * self.onnxruntime_s:.3g} ms for the whole model, with winogen's nodes "
                f"{1e3 * self.winogen_s:.3g} ms: {self.gain:.2f} times as fast, measured in turns"
            )
        elif self.rows:
            yield (
                f"{len(self.rows)} layers, {count}, predicted: {1e3 * self.predicted_s:.3g} ms, by "
                f"direct convolution {1e3 * self.direct_s:.3g} ms, "
                f"{self.direct_s / self.predicted_s:.2f} times as long"
            )
        if self.unmeasured:
            yield f"not measured: {self.unmeasured}"
        if self.quantized:
            yield (
                f"{self.quantized} quantized convolutions that winogen would compute, too; their "
                "times are not predicted"
            )


def _ms(seconds: float | None) -> str:
    return "" if seconds is None else f"{1e3 * seconds:.3f}"


def _measured_cells(node: Timed | None, onnxruntime_s: float | None) -> tuple[str, str, str]:
    if node is None:
        return "", _ms(onnxruntime_s), ""
    return _ms(node.winogen_s), _ms(onnxruntime_s), f"{node.gain:.2f}" if onnxruntime_s else ""


@naming_damage
def report(
    model_or_path: ModelProto | FilePath,
    *,
    tolerance: Real | None = None,
    threads: SupportsIndex | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
) -> Report:
    """Return what `optimize` gains, with the same arguments.

    Where onnxruntime and a compiler are there, the model runs on zeros, as it is and as `optimize`
    makes it, in turns. Else there are only times that the planner predicts. Inputs whose sizes are
    open need ``input_shapes``, but for the batch, which is 1 then. Raises as `optimize` does.
    """
    proto = original(model_or_path)
    model = Model(proto, sizes_of_inputs(Model(proto), input_shapes or {}))
    count = arguments.threads(threads)
    result = rewrite(proto, tolerance=tolerance, threads=threads, input_shapes=model.fixed)
    narrow = narrowed(model)
    wide = Model(narrow.model, model.fixed) if narrow.made else model
    reading = read(wide, narrow)
    graph = simplify(reading.graph)
    largest = None if tolerance is None else float(tolerance)
    settings = _settings(wide, reading, count, largest)
    direct = replace(settings, algorithm="direct", tolerance=None)
    steps = _steps(wide, reading, graph, settings) if reading.kind else []
    names = {name: node.name for node in result.model.graph.node for name in node.output}
    refusals = (*result.refusals, *(f"{value}, given back" for value in result.given_back))
    made = Report((), count, refusals, quantized=result.quantized)
    times: dict[str, float] | None = None
    try:
        feed = _zeros(model)
        times = of_nodes(proto, feed, count)
        library = get_library_path()
        fast = of_nodes(result.model, feed, count, library)
        sessions = [
            started(proto, threads=count), started(result.model, threads=count, library=library)
        ]  # fmt: skip
        seconds = in_turns(sessions, feed)
        made = replace(made, onnxruntime_s=seconds[0], winogen_s=seconds[1])
    except (MissingPackage, BuildError) as reason:
        fast, made = {}, replace(made, unmeasured=first_line(reason))
    groups = _groups(wide, graph)
    rows = []
    for step, problem, home in steps:
        algorithm, seconds_of_step = _predicted(problem, settings)
        what = f"{step.shape[1]} channels" if step.label == COPY else str(step.op)
        mine = groups.get(step.key, set())
        rows.append(
            Row(
                step.label, what, problem.output_shape, algorithm, seconds_of_step,
                _predicted(problem, direct)[1],
                None if times is None else sum(times.get(name, 0.0) for name in mine),
                names.get(home, ""),
            )
        )  # fmt: skip
    nodes = (
        Timed(name, fast[name], sum(row.onnxruntime_s or 0.0 for row in group))
        for name, group in groupby(rows, lambda row: row.node)
        if fast.get(name)
    )
    return replace(made, rows=tuple(rows), nodes=tuple(nodes))


def _zeros(model: Model) -> dict[str, np.ndarray]:
    """Zeros for all inputs of a model that onnxruntime runs."""
    session = started(model.proto)
    return {value.name: zeros(value, model) for value in session.get_inputs()}


def _settings(
    model: Model, reading: Reading, threads: int = 1, tolerance: float | None = None
) -> Settings:
    """What all layers of a model have in common."""
    dtype = "float32" if reading.kind == model.onnx.TensorProto.FLOAT else "float64"
    return Settings("NCHW", dtype, threads, tolerance, "auto", host_target(), current())


def _steps(
    model: Model, reading: Reading, graph: Graph, settings: Settings
) -> list[tuple[Step, Problem, str]]:
    """All convolutions of segments where all sizes are known.

    With what they compute, and the first output of the segment.
    """
    steps = []
    for piece in cut(graph):
        if not piece.ours:
            continue
        sizes = {name: model.sizes.get(name, ()) for name in piece.graph.inputs}
        if any(not size or not all(s.known for s in size) for size in sizes.values()):
            continue
        whole = {name: tuple(s.number for s in size) for name, size in sizes.items()}
        values = shapes(piece.graph, whole)
        lowered, buffers = lower(piece.graph, values, np.dtype(settings.dtype))
        steps += [
            (step, problem_of(step, buffers, settings), piece.graph.outputs[0])
            for step in lowered
            if isinstance(step.op, Conv)
        ]
    return steps


@naming_damage
def convolutions(
    model_or_path: Any, input_shapes: Mapping[str, Any] | None = None
) -> list[Problem]:
    """Return the convolutions that `optimize` would replace. Raises as it does."""
    proto = original(model_or_path)
    model = Model(proto, sizes_of_inputs(Model(proto), input_shapes or {}))
    reading = read(model)
    if not reading.kind:
        return []
    steps = _steps(model, reading, simplify(reading.graph), _settings(model, reading))
    return [problem for step, problem, _ in steps if step.label != COPY]


def _predicted(problem: Problem, settings: Settings) -> tuple[str, float]:
    """The algorithm that the planner would choose, and its seconds."""
    best = ways_of(problem, settings)[0].candidate
    choice = best.choice
    if choice.tile is None:
        return choice.algorithm, best.seconds
    tile = "x".join(map(str, choice.tile))
    taps = "x".join(map(str, problem.layer.kernel))
    return f"{choice.algorithm} F({tile},{taps})", best.seconds


def _groups(model: Model, graph: Graph) -> dict[str, set[str]]:
    """Names of the nodes of the original that each step stands for, and of what they make."""
    values = {*graph.inputs, *graph.makers}
    groups = {}
    for node in graph.nodes:
        if isinstance(node.op, Conv):
            originals = model.cone([node.output], values - {node.output})
            names = {name for one in originals for name in (one.name, *one.output)}
            groups[node.output] = names - {""}
    return groups
