"""Errors of whole layers against float64: `conv2d`, its direct algorithm, and PyTorch."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from winogen.conv import Conv2d, Problem, conv2d
from winogen.errors import Unsupported
from winogen.reports.catalog import Step, short
from winogen.rounding.formats import format_named

TORCH = "torch channels-last"


@dataclass(frozen=True)
class Case:
    """A convolution to measure, and its data; float32, NCHW, no bias."""

    name: str
    problem: Problem
    data: Callable[[], tuple[np.ndarray, np.ndarray]]  # input and weights
    sources: dict[str, str] = field(default_factory=dict)  # where "input" and "weights" are from

    def options(self) -> dict:
        """The arguments of `conv2d` beside the arrays."""
        layer = self.problem.layer
        top, bottom, left, right = layer.padding
        return {
            "stride": layer.stride,
            "padding": ((top, bottom), (left, right)),
            "dilation": layer.dilation,
            "groups": layer.groups,
        }

    def truth(self, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """The convolution in float64, by the definition (the direct algorithm)."""
        return conv2d(
            x.astype(np.float64), weight.astype(np.float64), algorithm="direct", **self.options()
        )


def layer_errors(y: np.ndarray, y64: np.ndarray) -> dict:
    """Return how far ``y`` is from ``y64``: absolute, relative and in units of the last place.

    >>> found = layer_errors(np.float32([1, 2]), np.array([1.0, 2.0000002]))
    >>> found["relative_max"], found["ulp_median"] < 1
    (1e-07, True)
    """
    sizes = np.abs(y - y64)
    largest, norm = float(np.abs(y64).max(initial=0)), float(np.linalg.norm(y64))
    ulps = sizes / np.maximum(format_named("float32").ulp(y64), np.finfo(np.float32).tiny)
    return {
        "maximum": short(float(sizes.max(initial=0))),
        "mean": short(float(sizes.mean())) if sizes.size else 0.0,
        "relative_max": short(float(sizes.max(initial=0)) / largest) if largest else 0.0,
        "relative_l2": short(float(np.linalg.norm(sizes)) / norm) if norm else 0.0,
        "ulp_median": short(float(np.median(ulps))) if ulps.size else 0.0,
        "ulp_maximum": short(float(ulps.max(initial=0))),
    }


def measure_layers(cases: Iterable[Case], step: Step) -> dict:
    """Return the part "layers" of a report: errors by default, by `direct`, of torch if there."""
    torch = _torch()
    rows = []
    for case in cases:
        rows.append(_layer(case, torch))
        step(case.name)
    compared = [row["errors"] for row in rows if TORCH in row["errors"]]
    return {
        "torch": torch.__version__ if torch else None,
        "rows": rows,
        "compared": len(compared),
        "as_accurate_as_torch": sum(
            row["winogen"]["relative_max"] <= row[TORCH]["relative_max"] for row in compared
        ),
    }


@contextmanager
def compiled_ahead(cases: Iterable[Case]) -> Iterator[None]:
    """Compile what `measure_layers` will need while the block measures something else."""

    def compile_kernels(case: Case) -> None:
        problem = case.problem
        weight = np.zeros(problem.layer.weight_shape, np.float32)
        for dtype, algorithm in (("float32", "auto"), ("float32", "direct"), ("float64", "direct")):
            options = {"algorithm": algorithm, **case.options()}
            conv = Conv2d(weight.astype(dtype), **options)
            conv.plan(problem.input_shape)

    pool = ThreadPoolExecutor(1)
    try:
        for case in cases:
            pool.submit(compile_kernels, case)  # what fails here fails again where it is needed
        yield
    finally:
        pool.shutdown(cancel_futures=True)


def _layer(case: Case, torch: Any) -> dict:
    x, weight = case.data()
    y64 = case.truth(x, weight)
    conv = Conv2d(weight, **case.options())
    plan = conv.plan(x.shape)
    found = {
        "winogen": layer_errors(conv(x), y64),
        "direct": layer_errors(conv2d(x, weight, algorithm="direct", **case.options()), y64),
    }
    if torch:
        found[TORCH] = layer_errors(_channels_last(torch, case, x, weight), y64)
    return {
        "name": case.name,
        "input": list(x.shape),
        "weight": list(weight.shape),
        "algorithm": plan.algorithm,
        "tile": None if plan.tile is None else list(plan.tile),
        "errors": found,
    }


def _torch() -> Any:
    """The module, if it is installed and works."""
    if importlib.util.find_spec("torch") is None:
        return None
    try:
        import torch
    except Exception:  # a broken installation is like none
        return None
    return torch


def _channels_last(torch: Any, case: Case, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    options = case.options()
    (top, bottom), (left, right) = options.pop("padding")
    if (top, left) != (bottom, right):
        raise Unsupported(
            f"padding: got {(top, bottom, left, right)}; allowed: symmetric, for torch"
        )
    tensors = (
        torch.from_numpy(array).contiguous(memory_format=torch.channels_last)
        for array in (x, weight)
    )
    with torch.inference_mode():
        y = torch.nn.functional.conv2d(*tensors, padding=(top, left), **options)
    return y.contiguous().numpy()
