"""One layer with the user's own weights and input: the error of everything that can compute it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from winogen.conv.plan import Plan

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from time import perf_counter

import numpy as np

from winogen.conv import Conv2d
from winogen.errors import InvalidType, InvalidValue
from winogen.reports.catalog import shares, short
from winogen.reports.layers import Case, layer_errors
from winogen.reports.predict import InputMoments, bound, predicted
from winogen.reports.ways import LayerWay, narrow, ways
from winogen.tasks.pareto import front
from winogen.tasks.turns import in_turns

TOLERANCE = 1e-5  # of max |error| / max |output|
_HISTOGRAM_ROWS = 6
_COMPILERS = 4  # at once
_TURNS, _PATIENCE = 7, 30.0  # of measuring times: so often, or until so many seconds have passed
_LARGEST = 1e30  # of a sum of products; transforms of the largest tiles grow numbers 1e6 times


def check_array(name: str, array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return ``array``, C-contiguous; it must be float32, finite and of this shape.

    Raises InvalidType, InvalidValue.
    """
    if array.dtype != np.float32:
        raise InvalidType(
            f"{name}: got dtype {array.dtype}; allowed: float32 (float64 is what it is compared "
            "with; save array.astype(numpy.float32))"
        )
    if array.shape != tuple(shape):
        raise InvalidValue(
            f"{name}: got shape {array.shape}; allowed: {tuple(shape)}, as the layer says"
        )
    if not np.isfinite(array).all():
        raise InvalidValue(f"{name}: got infinities or NaN; allowed: finite numbers")
    return np.ascontiguousarray(array)


def _check_sizes(x_max: float, w_max: float, terms: int) -> None:
    """Raise InvalidValue for data whose tiles may overflow: infinities have no error to tell."""
    largest = max(x_max, w_max, x_max * w_max * terms)
    if largest > _LARGEST:
        raise InvalidValue(
            f"input, weights: got numbers up to {x_max:.2g} and {w_max:.2g}, {terms} products of "
            f"which may reach {largest:.2g}; allowed: up to {_LARGEST:.0e}, so that no tile "
            "overflows float32"
        )


def measure_own(
    case: Case,
    *,
    tolerance: float = TOLERANCE,
    thorough: bool = False,
    numbers: bool = False,
    timed: bool = False,
    progress: Callable[[int, int, str], None] | None = None,
) -> dict:
    """Return the report of one layer as plain data; see `layer_report`.

    Raises InvalidValue for data of other shapes than the layer's, or a tolerance that is not
    positive.
    """
    if not 0 < tolerance < np.inf:
        raise InvalidValue(f"tolerance: got {tolerance}; allowed: a positive number")
    progress = progress or (lambda done, total, text: None)
    x, weight = case.data()
    problem, layer = case.problem, case.problem.layer
    x = check_array("input", x, problem.input_shape)
    weight = check_array("weights", weight, layer.weight_shape)
    limits = float(np.abs(x).max(initial=0)), float(np.abs(weight).max(initial=0))
    _check_sizes(*limits, weight[0].size)
    tried, refused = ways(case, thorough)
    if numbers:
        tried += narrow(case)
    shown = _shown(tried)
    moments = InputMoments.of(x, weight)
    rows: dict[LayerWay, dict] = {}
    spread: dict[LayerWay, np.ndarray] = {}
    calls: dict[LayerWay, Callable[[], Any]] = {}
    for way, conv, inputs, y64, plan in _computed(case, x, weight, tried):
        y = conv(inputs)
        if not np.isfinite(y).all():
            why = "numbers that do not overflow"
            refused.append({"algorithm": way.label(), "why": why})
            continue
        calls[way] = partial(conv, inputs, np.empty_like(y))
        rows[way] = {
            "label": way.label() if way.algorithm != "auto" else f"auto: {_named(plan)}",
            "algorithm": plan.algorithm,
            "numbers": way.numbers,
            "tile": None if plan.tile is None else list(plan.tile),
            "points": _lists(plan.points),
            "moduli": _lists(plan.moduli),
            "asked": {key: _plain(value) for key, value in way.options().items()},
            **layer_errors(y, y64),
            "predicted_relative_l2": short(predicted(plan, moments)),
            "planned_relative_max": short(plan.predicted_error),
            # The theorem is about numbers of one type.
            "bound": short(bound(plan, layer, *limits)) if plan.precision.plain else None,
            "multiplications": plan.multiplications,
            "direct_multiplications": plan.direct_multiplications,
            "workspace_bytes": plan.workspace_bytes,
            "packed_weight_bytes": plan.packed_weight_bytes,
            "predicted_ms": short(1e3 * plan.predictions[0][0]),
        }
        if way in shown:
            spread[way] = np.abs(y - y64).ravel() / (float(np.sqrt(np.mean(y64**2))) or 1.0)
        progress(len(rows), len(tried), way.label())
    ordered = [rows[way] for way in tried if way in rows]
    if timed:
        for way, seconds in _times(calls).items():
            rows[way]["measured_ms"] = short(1e3 * seconds)
    for row, best in zip(ordered, front((cost(row), row["relative_max"]) for row in ordered)):
        row["pareto"] = best
    return {
        "kind": "layer",
        "layer": {
            "name": case.name,
            "input": list(x.shape),
            "weight": list(weight.shape),
            "output": list(y64.shape),
            **{key: _plain(value) for key, value in case.options().items()},
        },
        "data": {
            name: {**_describe(array), "source": case.sources.get(name, "")}
            for name, array in (("input", x), ("weights", weight), ("output", y64))
        },
        "rows": ordered,
        "refused": refused,
        "timed": timed,
        "narrow": numbers,
        "tolerance": tolerance,
        "recommended": recommend(ordered, tolerance),
        "histogram": shares(
            [(way.label(), spread[way]) for way in shown if way in spread],
            "this layer, all outputs",
        ),
    }


def cost(row: dict) -> float:
    """Milliseconds: measured, or else predicted."""
    return row.get("measured_ms", row["predicted_ms"])


def _times(calls: dict[LayerWay, Callable[[], Any]]) -> dict[LayerWay, float]:
    """The least seconds of every call, measured in turns so that all see the same machine."""
    taken = in_turns(list(calls.values()), perf_counter, (2, _TURNS), _PATIENCE)
    return {way: min(seconds) for way, seconds in zip(calls, taken)}


def recommend(rows: list[dict], tolerance: float) -> dict:
    """Return indices of rows: the fastest within the tolerance, the fastest no worse than direct,
    and the most accurate; None where there is none. Fast means by `cost`."""

    def fastest(allowed: Iterable[int]) -> int | None:
        return min(allowed, key=lambda k: (cost(rows[k]), k), default=None)

    every = range(len(rows))
    direct = next(row for row in rows if row["label"] == "direct")
    return {
        "within_tolerance": fastest(k for k in every if rows[k]["relative_max"] <= tolerance),
        "as_accurate_as_direct": fastest(
            k for k in every if rows[k]["relative_max"] <= direct["relative_max"]
        ),
        "most_accurate": min(every, key=lambda k: (rows[k]["relative_max"], k)),
    }


def _computed(
    case: Case, x: np.ndarray, weight: np.ndarray, tried: list[LayerWay]
) -> Iterator[tuple]:
    """Yield (way, layer, its input, output in float64, plan) as they get ready.

    Compilers run in parallel. The float64 output is of the input as the layer gets it.
    """
    inputs = {way.arrays: x.astype(way.arrays) for way in tried}

    def prepare(way: LayerWay) -> Any:
        conv = Conv2d(weight, **case.options(), **way.options())
        arrays: dict[str, Any] = {} if way.arrays == "float32" else {"dtype": way.arrays}
        return conv, conv.plan(x.shape, **arrays)

    pool = ThreadPoolExecutor(min(_COMPILERS, os.cpu_count() or 1))
    try:
        truths = {name: pool.submit(case.truth, array, weight) for name, array in inputs.items()}
        futures = {pool.submit(prepare, way): way for way in tried}
        for future in as_completed(futures):
            way, (conv, plan) = futures[future], future.result()
            yield way, conv, inputs[way.arrays], truths[way.arrays].result(), plan
    finally:
        pool.shutdown(cancel_futures=True)


def _named(plan: Plan) -> str:
    if plan.tile is None:
        return plan.algorithm
    (m_h, m_w), (r_h, r_w) = plan.tile, plan.weight_shape[2:]
    one = plan.algorithm == "winograd1d"
    name = f"{plan.algorithm} " + (f"F({m_w},{r_w})" if one else f"F({m_h}x{m_w},{r_h}x{r_w})")
    return f"{name} of moduli" if any(plan.moduli or ()) else name


def _lists(sets: tuple | None) -> list:
    """Points or moduli along height and width for JSON; nothing without tiles."""
    return [None if one is None else list(one) for one in sets or ()]


def _shown(tried: list[LayerWay]) -> list[LayerWay]:
    """A picture takes so many curves: `direct`, and `mcmr` with every tile as far as they fit."""
    curves = [way for way in tried if way.algorithm == "direct"]
    curves += [way for way in tried if way.algorithm == "mcmr" and not way.given]
    curves = [way for way in curves if way.numbers == "float32"]
    return curves[:_HISTOGRAM_ROWS] if len(curves) > 1 else tried[1:]


def _describe(values: np.ndarray) -> dict:
    wide = values.astype(np.float64)
    return {
        "mean": short(float(wide.mean())),
        "deviation": short(float(wide.std())),
        "least": short(float(wide.min())),
        "largest": short(float(wide.max())),
        "zeros": short(float((wide == 0).mean())),
    }


def _plain(value: Any) -> Any:
    return [_plain(item) for item in value] if isinstance(value, tuple) else value
