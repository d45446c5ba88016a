"""One layer with the user's own weights and input: the error of everything that can compute it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

import numpy as np

from winogen.conv import Conv2d
from winogen.errors import InvalidType, InvalidValue, Unsupported
from winogen.numerics.report.catalog import shares, short
from winogen.numerics.report.layers import Case, layer_errors
from winogen.numerics.report.pareto import front
from winogen.numerics.report.predict import Moments, bound, is_moduli, predicted

TOLERANCE = 1e-5  # of max |error| / max |output|
_WINOGRAD = ("mcmr", "winograd1d", "winograd2d")
# All tiles of the algorithm that is usually fastest. The others transform alike and differ little
# in error; one of their tiles shows how much, and each more is a kernel to compile.
_FEW = (4,)
_MOST_POINTS = 10
_HISTOGRAM_ROWS = 6
_COMPILERS = 4  # at once


@dataclass(frozen=True)
class Way:
    """One way to compute the layer."""

    algorithm: str
    tile: int | None = None
    points: tuple[str, ...] | None = None  # None: the default ones
    name: str = ""

    def options(self) -> dict:
        """The arguments of `Conv2d` that ask for it."""
        given = {"algorithm": self.algorithm, "tile": self.tile, "points": self.points}
        return {key: value for key, value in given.items() if value is not None}

    def label(self) -> str:
        """What it is called in tables."""
        return " ".join(filter(None, (self.algorithm, self.name)))


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


def ways(case: Case, thorough: bool = False) -> tuple[list[Way], list[dict]]:
    """Return what is tried, and what does not apply: {"algorithm", "why"}.

    ``thorough``: every tile of every algorithm, and every other set of points in the catalog.
    """
    found = [Way("auto"), Way("direct"), Way("im2col")]
    weight = np.zeros(case.problem.layer.weight_shape, np.float32)
    refused = []
    for algorithm in _WINOGRAD:
        try:
            Conv2d(weight, algorithm=algorithm, **case.options())
        except Unsupported as error:
            why = str(error).partition("allowed: ")[2] or str(error)
            refused.append({"algorithm": algorithm, "why": why})
            continue
        found += _tiles(case, algorithm, thorough)
    return found, refused


def _tiles(case: Case, algorithm: str, thorough: bool) -> list[Way]:
    from winogen.codegen import transforms

    kernel = case.problem.layer.kernel
    along = kernel[1:] if algorithm == "winograd1d" else kernel
    along = sorted({taps for taps in along if taps > 1})
    if not along:
        return []  # F(1, 1) is the direct convolution of a 1 x 1 kernel
    known = transforms.catalog()
    sizes = [
        m
        for m in range(2, _MOST_POINTS)
        if m + along[-1] - 1 <= _MOST_POINTS and all(f"f{m}_{taps}" in known for taps in along)
    ]
    if algorithm != "mcmr" and not thorough:
        sizes = [m for m in sizes if m in _FEW]
    shape = f"{kernel[0]}x{kernel[1]}"
    found = []
    for m in sizes:
        m_h, m_w = (m if taps > 1 else 1 for taps in kernel)
        name = f"F({m},{kernel[1]})" if algorithm == "winograd1d" else f"F({m_h}x{m_w},{shape})"
        found.append(Way(algorithm, m, None, name))
    if thorough and algorithm == "mcmr" and len(along) == 1 and kernel[0] == kernel[1]:
        for key, entry in known.items():
            other = key != f"f{entry['m']}_{entry['r']}" and entry["points"]
            if other and entry["r"] == along[0] and entry["m"] in sizes:
                tag = key.partition("_")[2].partition("_")[2]
                name = f"F({entry['m']}x{entry['m']},{shape}) {tag}"
                found.append(Way(algorithm, entry["m"], tuple(entry["points"]), name))
    return found


def measure_own(
    case: Case,
    *,
    tolerance: float = TOLERANCE,
    thorough: bool = False,
    progress: Callable[[int, int, str], None] | None = None,
) -> dict:
    """Return the report of one layer as plain data.

    Raises InvalidValue for data that do not fit the layer, or a tolerance that is not positive.
    """
    if not 0 < tolerance < np.inf:
        raise InvalidValue(f"tolerance: got {tolerance}; allowed: a positive number")
    progress = progress or (lambda done, total, text: None)
    x, weight = case.data()
    problem, layer = case.problem, case.problem.layer
    x = check_array("input", x, problem.input_shape)
    weight = check_array("weights", weight, layer.weight_shape)
    tried, refused = ways(case, thorough)
    total = len(tried) + 1
    y64 = case.truth(x, weight)
    progress(1, total, "reference in float64")
    moments = Moments.of(x, weight)
    rows: dict[Way, dict] = {}
    spread: dict[Way, np.ndarray] = {}
    scale = float(np.sqrt(np.mean(y64**2))) or 1.0
    limits = float(np.abs(x).max(initial=0)), float(np.abs(weight).max(initial=0))
    for way, conv, plan in _compiled(case, weight, x.shape, tried):
        y = conv(x)
        spread[way] = np.abs(y - y64).ravel() / scale
        rows[way] = {
            "label": way.label() if way.algorithm != "auto" else f"auto: {_named(plan)}",
            "algorithm": plan.algorithm,
            "tile": None if plan.tile is None else list(plan.tile),
            "points": [None if p is None else list(p) for p in plan.points or ()],
            "asked": {key: _plain(value) for key, value in way.options().items()},
            **layer_errors(y, y64),
            "predicted_relative_l2": short(predicted(plan, moments)),
            "planned_relative_max": short(plan.predicted_error),
            "bound": short(bound(plan, layer, *limits)),
            "multiplications": plan.multiplications,
            "direct_multiplications": plan.direct_multiplications,
            "workspace_bytes": plan.workspace_bytes,
            "packed_weight_bytes": plan.packed_weight_bytes,
            "predicted_ms": short(1e3 * plan.predictions[0][0]),
        }
        progress(len(rows) + 1, total, way.label())
    ordered = [rows[way] for way in tried]
    for row, best in zip(
        ordered, front((row["predicted_ms"], row["relative_max"]) for row in ordered)
    ):
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
        "tolerance": tolerance,
        "recommended": recommend(ordered, tolerance),
        "histogram": shares(
            [(way.label(), spread[way]) for way in _shown(tried)], "this layer, all outputs"
        ),
    }


def recommend(rows: list[dict], tolerance: float) -> dict:
    """Return indices of rows: the fastest within the tolerance, the fastest no worse than direct,
    and the most accurate; None where there is none. Fast means in the planner's model."""

    def fastest(allowed):
        return min(allowed, key=lambda k: (rows[k]["predicted_ms"], k), default=None)

    every = range(len(rows))
    direct = next(row for row in rows if row["label"] == "direct")
    return {
        "within_tolerance": fastest(k for k in every if rows[k]["relative_max"] <= tolerance),
        "as_accurate_as_direct": fastest(
            k for k in every if rows[k]["relative_l2"] <= direct["relative_l2"]
        ),
        "most_accurate": min(every, key=lambda k: (rows[k]["relative_l2"], k)),
    }


def _compiled(case: Case, weight: np.ndarray, shape, tried: list[Way]) -> Iterator[tuple]:
    """Yield (way, convolution, plan) as they get ready; compilers run several at once."""

    def prepare(way: Way):
        conv = Conv2d(weight, **case.options(), **way.options())
        return conv, conv.plan(shape)

    pool = ThreadPoolExecutor(min(_COMPILERS, os.cpu_count() or 1))
    try:
        futures = {pool.submit(prepare, way): way for way in tried}
        for future in as_completed(futures):
            yield futures[future], *future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _named(plan) -> str:
    if plan.tile is None:
        return plan.algorithm
    (m_h, m_w), (r_h, r_w) = plan.tile, plan.weight_shape[2:]
    one = plan.algorithm == "winograd1d"
    name = f"{plan.algorithm} " + (f"F({m_w},{r_w})" if one else f"F({m_h}x{m_w},{r_h}x{r_w})")
    return f"{name} of moduli" if is_moduli(plan.points[1]) else name


def _shown(tried: list[Way]) -> list[Way]:
    """A picture takes so many curves: `direct`, and `mcmr` with every tile as far as they fit."""
    curves = [way for way in tried if way.algorithm == "direct"]
    curves += [way for way in tried if way.algorithm == "mcmr" and way.points is None]
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


def _plain(value):
    return [_plain(item) for item in value] if isinstance(value, tuple) else value
