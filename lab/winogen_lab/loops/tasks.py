"""What a search for loop nests has done: nests compiled, checked and timed, each as a task.

The work is done in a process of its own, for what was just generated may crash or never end. That
is then the result of the task, like any other error: the search goes on.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from winogen.conv.choice import Choice
from winogen.conv.cuts import evaluate, work_of
from winogen.conv.execute import Prepared
from winogen.conv.problem import Problem
from winogen.errors import InvalidValue, WinogenError
from winogen.kernels import assign
from winogen.records import TARGETS, Target
from winogen.toolchain.machine import current
from winogen.tuning.layers import BenchLayer
from winogen_lab.bench.cachegrind import COUNTS
from winogen_lab.bench.team import Contestant, ContestantFailed
from winogen_lab.loops.counting import counts_of
from winogen_lab.loops.parameters import LoopProblem, Parameters
from winogen_lab.loops.variant import problem_of

_TASKS = ("compile", "measure", "count")
_PATIENCE = 180.0  # seconds for a task, of which the compiler may take most
_CALLS = 5  # timed for an effort of 1, and the least of their times counts
_LONG = 0.25  # a call of so many seconds is timed once
_LARGEST = 3  # of the integers that all nests are checked with: sums are exact in float32


def compile_task(layer: BenchLayer, layout: str, target: Target, nest: Parameters) -> dict:
    """The task of compiling a nest into the cache of kernels."""
    return _task("compile", layer, layout, target, nest)


def measure_task(
    layer: BenchLayer, layout: str, target: Target, nest: Parameters, effort: int
) -> dict:
    """The task of checking a nest against direct convolution and timing it, with one thread."""
    return {**_task("measure", layer, layout, target, nest), "effort": effort}


def count_task(layer: BenchLayer, layout: str, target: Target, nest: Parameters) -> dict:
    """The task of counting a nest's instructions and cache misses, under cachegrind."""
    return _task("count", layer, layout, target, nest)


def _task(kind: str, layer: BenchLayer, layout: str, target: Target, nest: Parameters) -> dict:
    shape = {name: value for name, value in layer.to_dict().items() if name not in ("name", "net")}
    return {
        "task": kind,
        "layer": shape,
        "layout": layout,
        "target": target.name,
        "nest": nest.to_dict(),
    }


def check_entry(entry: Any) -> None:
    """Raise InvalidValue unless ``entry`` is ``{"task", "result"}`` as this search writes it."""
    if not isinstance(entry, dict) or entry.keys() != {"task", "result"}:
        raise InvalidValue('allowed: an object with "task" and "result"')
    task, result = entry["task"], entry["result"]
    if not isinstance(task, dict) or task.get("task") not in _TASKS:
        raise InvalidValue(f"task: allowed: one of {', '.join(_TASKS)}")
    if not isinstance(result, dict) or len(result) != 1:
        raise InvalidValue('result: allowed: {"seconds"}, {"counts"} or {"error"}')
    ((name, value),) = result.items()
    if name == "counts":
        if not isinstance(value, dict) or value.keys() != COUNTS.keys():
            raise InvalidValue(f"result, counts: allowed: {', '.join(COUNTS)}")
        timed = all(type(one) is int and one >= 0 for one in value.values())
        name = "seconds"
        value = 0.0 if timed else None
    timed = type(value) in (int, float) and 0 <= value < math.inf
    if not (timed if name == "seconds" else name == "error" and isinstance(value, str)):
        raise InvalidValue('result: allowed: {"seconds": a number} or {"error": a text}')


# ---- in the process that asks --------------------------------------------------------------------

_child: Contestant | None = None


def run(task: dict) -> dict:
    """Have a task done by this process' child; return {"seconds"}, {"counts"} or {"error"}."""
    try:
        return {"counts" if task["task"] == "count" else "seconds": ask(task)}
    except ContestantFailed as failure:
        return {"error": str(failure)}


def ask(task: dict) -> Any:
    """Have anything done by the child, which is started anew after it died or hung.

    Raises ContestantFailed.
    """
    global _child
    child = _child = _child or Contestant("nests", threads=1, patience=_PATIENCE)
    try:
        return child.ask("nest", task)
    except ContestantFailed:
        if not child.alive:
            close()
        raise


def close() -> None:
    """End the child, if there is one."""
    global _child
    child, _child = _child, None
    if child is not None:
        child.close()


# ---- in the child --------------------------------------------------------------------------------


class WrongNest(WinogenError):
    """A nest computes something else than convolution."""


def work(task: dict) -> Any:
    """Do a task; return seconds, those of every nest for the task "compare"."""
    layer = BenchLayer.from_dict({"name": "nest", **task["layer"]})
    problem, target = layer.problem(task["layout"]), TARGETS[task["target"]]
    if task["task"] == "compare":
        return _compare(problem, target, task["nests"])
    if task["task"] == "count":
        nest = Parameters.from_dict(task["nest"])
        return counts_of(problem, target, Choice("loops", parameters=nest))
    begin = time.perf_counter()
    prepared = prepare(problem, target, Parameters.from_dict(task["nest"]))
    if task["task"] == "compile":
        return time.perf_counter() - begin
    return _measure(prepared, task["effort"])


def problem_of_layer(layer: BenchLayer, layout: str, target: Target) -> LoopProblem:
    """Return what a nest for the layer computes."""
    return problem_of(assign(work_of(layer.problem(layout), Choice("loops"), target)))


def prepare(problem: Problem, target: Target, nest: Parameters | None) -> Prepared:
    """Return a compiled nest, or the planner's direct convolution."""
    choice = Choice("direct") if nest is None else Choice("loops", parameters=nest)
    return Prepared(problem, evaluate(problem, [choice], target, current(), None), target)


@lru_cache(maxsize=4)
def _data(problem: Problem, target: Target) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Input, weights and the output by direct convolution, all small integers."""
    source = np.random.default_rng(0)
    shapes = problem.input_shape, problem.layer.weight_shape
    x, weight = (
        source.integers(-_LARGEST, _LARGEST + 1, shape).astype(np.float32) for shape in shapes
    )
    return x, weight, _output(prepare(problem, target, None), x, weight)


def _output(prepared: Prepared, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    y = np.full(prepared.output_shape, np.nan, np.float32)
    prepared.run(x, prepared.pack(weight), None, y)
    return y


def _measure(prepared: Prepared, effort: int) -> float:
    """The least seconds of a call; raises WrongNest unless the outputs are right to the bit."""
    x, weight, expected = _data(prepared.problem, prepared.target)
    y = _output(prepared, x, weight)
    wrong = np.argwhere(y != expected)
    if len(wrong):
        place = tuple(int(i) for i in wrong[0])
        raise WrongNest(
            f"{len(wrong)} of {y.size} outputs are wrong: got {y[place]} at {place}; "
            f"right: {expected[place]}"
        )
    packed = prepared.pack(weight)
    least = math.inf
    for _ in range(_CALLS * effort):
        begin = time.thread_time()
        prepared.run(x, packed, None, y)
        least = min(least, time.thread_time() - begin)
        if least > _LONG:
            break
    return least


def _compare(problem: Problem, target: Target, nests: Sequence[dict]) -> list[float]:
    """Seconds of direct convolution, then of each nest, measured in turns."""
    from winogen_lab.bench.regret import heats

    parameters = [None, *map(Parameters.from_dict, nests)]
    ways = [prepare(problem, target, nest) for nest in parameters]
    return heats(ways, lambda text: None)
