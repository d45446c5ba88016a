"""`report`: what a model would gain, layer by layer, before anything is installed or changed."""

from __future__ import annotations

import importlib.util
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from winogen.conv import arguments, planner, wisdom
from winogen.conv.options import Options
from winogen.conv.problem import Layer, Problem, Seams
from winogen.conv.request import Request
from winogen.errors import InvalidValue
from winogen.graph import Conv, Graph, cut, shapes, simplify
from winogen.graph.lower import COPY, Step, lower
from winogen.onnx.loading import naming_damage, original, require
from winogen.onnx.model import Model
from winogen.onnx.quantized import narrowed
from winogen.onnx.reading import Reading, read
from winogen.onnx.running import sizes_of_inputs, zeros
from winogen.toolchain import host_target
from winogen.toolchain.machine import current

_RUNS = 5  # of onnxruntime; the fastest counts


@dataclass(frozen=True)
class Row:
    """One layer that winogen would compute."""

    layer: str
    what: str
    output: tuple[int, ...]
    algorithm: str
    predicted_s: float
    measured_s: float | None  # of onnxruntime for the same nodes; None if it is not there


@dataclass(frozen=True)
class Report:
    """What a model would gain; ``print(report)`` shows it."""

    rows: tuple[Row, ...]
    threads: int
    measured_s: float | None  # of onnxruntime for the whole model, node by node
    refusals: tuple[str, ...]
    quantized: int = 0  # convolutions of 8 bits that winogen would compute

    @property
    def predicted_s(self) -> float:
        """Of all layers that winogen would compute."""
        return sum(row.predicted_s for row in self.rows)

    @property
    def gain(self) -> float | None:
        """How many times as fast the whole would be; None without a measurement."""
        if self.measured_s is None or not self.rows:
            return None
        replaced = sum(row.measured_s or 0.0 for row in self.rows)
        return self.measured_s / (self.measured_s - replaced + self.predicted_s)

    def __str__(self) -> str:
        head = ("layer", "what", "output", "by", "winogen ms", "onnxruntime ms", "gain")
        table = [head, *map(_cells, self.rows)]
        widths = [max(map(len, column)) for column in zip(*table)]
        lines = [
            "  ".join(
                cell.ljust(width) if place < 4 else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(row, widths))
            ).rstrip()
            for row in table
        ]
        count = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        lines.append(f"{len(self.rows)} layers, {1e3 * self.predicted_s:.3g} ms predicted, {count}")
        if self.gain is not None and self.measured_s is not None:
            lines.append(
                f"onnxruntime takes {1e3 * self.measured_s:.3g} ms for the whole model; with "
                f"winogen's layers {self.gain:.2f} times as fast"
            )
        elif not self.rows:
            lines[-1] = "no layer that winogen would compute"
            if self.quantized:
                lines[-1] = "no float layer that winogen would compute"
        if self.quantized:
            lines.append(
                f"{self.quantized} quantized convolutions that winogen would compute, too; their "
                "times are not predicted"
            )
        return "\n".join([*lines, *(f"stays: {refusal}" for refusal in self.refusals)])


def _cells(row: Row) -> tuple[str, ...]:
    measured, gain = "", ""
    if row.measured_s:
        measured, gain = f"{1e3 * row.measured_s:.3f}", f"{row.measured_s / row.predicted_s:.2f}"
    sizes = "x".join(map(str, row.output))
    return row.layer, row.what, sizes, row.algorithm, f"{1e3 * row.predicted_s:.3f}", measured, gain


@naming_damage
def report(
    model_or_path: Any,
    *,
    tolerance: float | None = None,
    threads: int | None = None,
    input_shapes: Mapping[str, Any] | None = None,
) -> Report:
    """Return what `optimize` would gain, with the same arguments.

    Times of winogen are those that its planner predicts, and need no compiler. Where onnxruntime is
    installed, it runs the model a few times, on zeros. Inputs whose sizes are open need
    ``input_shapes``, but for the batch, which is 1 then. Raises as `optimize` does.
    """
    proto = original(model_or_path)
    model = Model(proto, sizes_of_inputs(Model(proto), input_shapes or {}))
    whole_model = model
    narrow = narrowed(model)
    if narrow.made:
        model = Model(narrow.model, model.fixed)
    reading = read(model, narrow)
    count = arguments.threads(threads)
    graph = simplify(reading.graph)
    steps = _steps(model, reading, graph) if reading.kind else []
    times = _measured(whole_model, count) if importlib.util.find_spec("onnxruntime") else None
    groups = _groups(model, graph)
    dtype = "float32" if reading.kind == model.onnx.TensorProto.FLOAT else "float64"
    rows = []
    for step, output in steps:
        algorithm, seconds = _predicted(step, dtype, count, tolerance)
        measured = None
        if times is not None:
            measured = sum(times.get(name, 0.0) for name in groups.get(step.key, ()))
        what = f"{step.shape[1]} channels" if step.label == COPY else str(step.op)
        rows.append(Row(step.label, what, output, algorithm, seconds, measured))
    whole = None if times is None else sum(times.values())
    refusals = tuple(reading.refusals)
    return Report(tuple(rows), count, whole, refusals, len(narrow.made))


def _steps(model: Model, reading: Reading, graph: Graph) -> list[tuple[Step, tuple[int, ...]]]:
    """All convolutions, of segments where all sizes are known, with the shapes of their outputs."""
    dtype = np.dtype(model.onnx.helper.tensor_dtype_to_np_dtype(reading.kind))
    steps = []
    for piece in cut(graph):
        if not piece.ours:
            continue
        sizes = {name: model.sizes.get(name, ()) for name in piece.graph.inputs}
        if any(not size or not all(s.known for s in size) for size in sizes.values()):
            continue
        whole = {name: tuple(s.number for s in size) for name, size in sizes.items()}
        values = shapes(piece.graph, whole)
        steps += [
            (step, values.get(step.key, step.shape))
            for step in lower(piece.graph, values, dtype)[0]
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
    dtype = "float32" if reading.kind == model.onnx.TensorProto.FLOAT else "float64"
    steps = _steps(model, reading, simplify(reading.graph))
    return [_problem(step, dtype, Options())[0] for step, _ in steps if step.label != COPY]


def _problem(step: Step, dtype: str, options: Options) -> tuple[Problem, Request]:
    """What a step computes, and what is asked for of how."""
    op = step.op
    assert isinstance(op, Conv)
    options = replace(options, **op.options)
    layer = Layer.from_options(op.weight.shape, dtype, options)
    problem = layer.problem(step.shape)
    around = Seams(
        step.input.channels,
        step.output.channels,
        step.add.channels if step.add else 0,
        step.add_after.channels if step.add_after else 0,
    )
    return problem.sewn(around), Request.from_options(layer, options)


def _predicted(step: Step, dtype: str, threads: int, tolerance: float | None) -> tuple[str, float]:
    """The algorithm that the planner would choose, and its seconds."""
    options = Options(threads=threads, tolerance=tolerance)
    problem, request = _problem(step, dtype, options)
    target = host_target()
    best = planner.ranked(problem, request, target, current(), 1, wisdom.current(target))[0]
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


def _measured(model: Model, threads: int) -> dict[str, float]:
    """Seconds of every node of onnxruntime's, by its name or that of what it makes."""
    ort = require("onnxruntime")
    proto = type(model.proto)()
    proto.CopyFrom(model.proto)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.enable_profiling = True
    with tempfile.TemporaryDirectory() as folder:
        options.profile_file_prefix = str(Path(folder) / "profile")
        try:
            session = ort.InferenceSession(
                proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
            feeds = {value.name: zeros(value, model) for value in session.get_inputs()}
            for _ in range(_RUNS):
                session.run(None, feeds)
        except Exception as problem:  # onnxruntime's own kinds of errors
            raise InvalidValue(f"model: onnxruntime does not run it ({problem})") from problem
        events = json.loads(Path(session.end_profiling()).read_text("utf-8"))
    fastest: dict[str, float] = {}
    for event in events:
        name = event["name"].removesuffix("_kernel_time")
        if event.get("cat") == "Node" and name != event["name"]:
            seconds = 1e-6 * event["dur"]
            fastest[name] = min(seconds, fastest.get(name, seconds))
    return {name.removesuffix("_nchwc").removeprefix("fused "): s for name, s in fastest.items()}
