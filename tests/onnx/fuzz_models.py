"""Random ONNX models, optimized and run beside the originals in onnxruntime.

    python tests/onnx/fuzz_models.py --models 2000 --seed 1 --jobs 2

The models are those of tests/graph/onnx_models.py. A failure is repeated in one line, which is
printed with it. A part that `optimize` gives back counts as a failure, too.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, numpy_helper

if __name__ == "__main__":
    # Behind onnx itself, which the folder of this file has the name of.
    sys.path = [path for path in sys.path if Path(path) != Path(__file__).parent]
    sys.path.append(str(Path(__file__).parents[1]))

from conv.fuzz import compile_quickly
from graph.onnx_models import Case, case_of

from winogen.onnx.library import get_library_path
from winogen.onnx.loading import evaluator
from winogen.onnx.rewrite import Rewritten, rewrite
from winogen.testing import every_layer

# Of the whole network, relative to the largest output. Where it is more, the network itself says
# how it amplifies errors, as by a Cast to float16: a change of its input, so large by TOUCH, may
# change the output TIMES less than winogen does. float64 decides otherwise: the original may be as
# far off.
NEAR, TOUCH, TIMES = 1e-5, 1e-6, 20
# With numbers of 8 bits in a model: of the largest output, at most and on average.
STEPS_MOST, STEPS_MEAN = 0.3, 0.02
CONVOLUTIONS = ("Conv", "ConvTranspose")


@dataclass
class Outcome:
    """What became of one model."""

    wrong: str = ""
    rewritten: bool = False
    eligible: int = 0  # convolutions that winogen could run
    run: int = 0  # ... and does
    feeds: int = 0  # that the original accepted


def _session(model: onnx.ModelProto, library: str = "") -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if library:
        options.register_custom_ops_library(library)
    else:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def outcome_of(case: Case) -> Outcome:
    """Return what becomes of a model; ``wrong`` says what is wrong, if anything is."""
    outcome = Outcome()
    evaluated = _has_doubles(case.model)
    try:
        original = evaluator(case.model) if evaluated else _session(case.model)
        wanted = []
        for feed in case.feeds:
            try:
                _check_sizes(case.model, feed)
                with np.errstate(all="ignore"):
                    wanted.append(original.run(None, feed))
            except Exception:  # a size that it cannot have
                wanted.append(None)
    except Exception:  # no model
        return outcome
    outcome.feeds = sum(one is not None for one in wanted)
    if not outcome.feeds:
        return outcome
    try:
        with every_layer():
            result = rewrite(case.model)
        outcome.rewritten = bool(result.segments or result.quantized)
        _count(case.model, result, outcome)
        if result.given_back:
            outcome.wrong = f"given back: {result.given_back[0]}"
        elif outcome.rewritten and not result.verdict.sizes:
            outcome.wrong = f"not compared: {result.verdict.unproven}"
        else:
            outcome.wrong = _compared(case, original, result.model, wanted)
    except Exception as error:  # whatever it is, it is no right result
        outcome.wrong = f"{type(error).__name__}: {error}"
    return outcome


def _check_sizes(model: onnx.ModelProto, feed: dict[str, np.ndarray]) -> None:
    """Raise ValueError for sizes that are not declared: onnx's evaluator takes them, too."""
    for dim, size in zip(model.graph.input[0].type.tensor_type.shape.dim, feed["x"].shape):
        if dim.dim_value not in (-1, 0, size):
            raise ValueError(f"got {size}; allowed: {dim.dim_value}")


def _has_doubles(model: onnx.ModelProto) -> bool:
    return any(v.type.tensor_type.elem_type == TensorProto.DOUBLE for v in model.graph.input)


def _compared(case: Case, original: Any, model: onnx.ModelProto, wanted: list) -> str:
    try:
        session = _session(model, get_library_path())
    except Exception as error:
        if "NOT_IMPLEMENTED" in str(error) and _has_doubles(case.model):
            return ""  # of the original's own convolutions, which onnxruntime does not have
        raise
    for feed, outputs in zip(case.feeds, wanted):
        if outputs is None:
            continue
        exact = near = None
        for place, (y, z) in enumerate(zip(outputs, session.run(None, feed))):
            what = f"output {place} of x {feed['x'].shape}"
            if y.dtype != z.dtype or y.shape != z.shape:
                return f"{what}: {z.dtype} {z.shape}, not {y.dtype} {y.shape}"
            if case.quantized:
                if not _near_steps(y, z):
                    return f"{what}: more steps off than rounding explains"
                continue
            error = _error(z, y)
            if error > NEAR:
                near = near or original.run(None, _touched(feed))
                if error <= TIMES * _error(near[place], y):
                    continue
                exact = exact or _exact(case.model, feed)
                if exact is None or not (
                    _error(z, exact[place]) <= max(NEAR, TIMES * _error(y, exact[place]))
                ):
                    return f"{what}: off by {error:.1e}"
    return ""


def _touched(feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The same numbers but for the last digits."""
    signs = np.random.default_rng(0).choice((-TOUCH, TOUCH), feed["x"].shape)
    return {"x": (feed["x"] * (1 + signs)).astype(feed["x"].dtype)}


def _error(z: np.ndarray, y: np.ndarray) -> float:
    if not y.size:
        return 0.0
    finite = np.isfinite(y)
    if not finite.any():
        return 0.0
    error = np.abs(z[finite].astype(np.float64) - y[finite]).max()
    return float(error / max(np.abs(y[finite]).max(), 1e-6)) if error == error else np.inf


def _near_steps(y: np.ndarray, z: np.ndarray) -> bool:
    if not y.size:
        return True
    largest = max(np.abs(y).max(), 1.0)
    error = np.abs(z.astype(np.float64) - y) / largest
    return bool(error.max() <= STEPS_MOST and error.mean() <= STEPS_MEAN)


def _exact(model: onnx.ModelProto, feed: dict[str, np.ndarray]) -> list | None:
    """The outputs in float64, as onnx's evaluator computes them; None where it cannot."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    swap = {TensorProto.FLOAT: TensorProto.DOUBLE}
    tensors = list(wide.graph.initializer)
    for node in wide.graph.node:
        for attribute in node.attribute:
            if attribute.name == "to":
                attribute.i = swap.get(attribute.i, attribute.i)
            if node.op_type == "Constant":
                tensors.append(attribute.t)
    for tensor in tensors:
        array = numpy_helper.to_array(tensor)
        if array.dtype == np.float32:
            tensor.CopyFrom(numpy_helper.from_array(array.astype(np.float64), tensor.name))
    for value in (*wide.graph.input, *wide.graph.output):
        kind = value.type.tensor_type
        kind.elem_type = swap.get(kind.elem_type, kind.elem_type)
    try:
        with np.errstate(all="ignore"):
            wide_feed = {name: x.astype(np.float64) for name, x in feed.items()}
            return evaluator(wide).run(None, wide_feed)
    except Exception:  # it does not know all operators of all opsets
        return None


def _count(model: onnx.ModelProto, result: Rewritten, outcome: Outcome) -> None:
    """Count convolutions with constant weights that do more than multiply channels."""
    constant = {t.name: list(t.dims) for t in model.graph.initializer}
    if model.ir_version >= 4:
        for value in model.graph.input:
            constant.pop(value.name, None)
    needed = {value.name for value in model.graph.output}
    convs = []
    nodes = list(model.graph.node)
    for node in nodes:
        if node.op_type == "Constant":
            constant[node.output[0]] = list(node.attribute[0].t.dims)
        elif node.op_type in ("Identity", "DequantizeLinear") and node.input[0] in constant:
            constant[node.output[0]] = constant[node.input[0]]
    for node in reversed(nodes):
        if not needed.intersection(node.output):
            continue
        needed.update(node.input)
        for attribute in node.attribute:
            needed.update(name for one in attribute.g.node for name in one.input)
        dims = [constant.get(name) for name in node.input[1:]]
        if node.op_type in CONVOLUTIONS and all(dims) and dims[0][1:] != [1, 1, 1]:
            convs.append(node.output[0])
    stay = [node for node in result.model.graph.node if not node.domain]
    left = {name for node in stay if node.op_type in CONVOLUTIONS for name in node.output}
    outcome.eligible = len(convs)
    outcome.run = sum(name not in left for name in convs)


def outcomes(seed: int, indices: range) -> Iterator[tuple[int, Outcome]]:
    """Yield what becomes of the models of a seed."""
    for index in indices:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield index, outcome_of(case_of(seed, index))


def _piece(seed: int, indices: range, quickly: bool) -> list[tuple[int, Outcome]]:
    ort.set_default_logger_severity(4)
    if quickly:
        compile_quickly()
    return list(outcomes(seed, indices))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="index of the first model")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--shipped", action="store_true", help="compile as for users, not with -Og")
    asked = parser.parse_args()
    os.environ.setdefault("WINOGEN_CALIBRATE", "0")  # the same plans on every machine
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    last, step = asked.first + asked.models, 20
    pieces = [range(i, min(i + step, last)) for i in range(asked.first, last, step)]
    wrong = done = models = rewritten = eligible = run = 0
    begin = time.perf_counter()
    with ProcessPoolExecutor(asked.jobs, get_context("spawn")) as pool:
        work = [pool.submit(_piece, asked.seed, one, not asked.shipped) for one in pieces]
        for piece, future in zip(pieces, work):
            try:
                found = future.result()
            except Exception as error:  # the process is gone, and with it all that were to come
                print(f"{piece}: {type(error).__name__}: {error}", flush=True)
                return 1
            for index, outcome in found:
                models += outcome.feeds > 0
                rewritten += outcome.rewritten
                eligible += outcome.eligible
                run += outcome.run
                if outcome.wrong:
                    wrong += 1
                    again = f"--seed {asked.seed} --first {index} --models 1"
                    print(
                        f"python tests/onnx/fuzz_models.py {again}\n  {outcome.wrong}", flush=True
                    )
            done += len(piece)
            rate = done / (time.perf_counter() - begin)
            print(f"{done} graphs, {wrong} wrong, {rate:.1f} a second", file=sys.stderr, flush=True)
    share = f"{run} of {eligible} eligible convolutions by winogen ({run / max(eligible, 1):.1%})"
    print(
        f"{done} graphs, {models} run in onnxruntime, {rewritten} rewritten, {wrong} wrong; {share}"
    )
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
