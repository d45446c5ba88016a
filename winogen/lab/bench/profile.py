"""Where the time of one call goes: input transform, multiplication, output transform.

The kernel is rendered once more with ``profile`` set, which lets it count the seconds that its
threads spend in each stage. `rates` puts each stage's rate beside the limit that binds it: see
`winogen.lab.bench.roofline`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from winogen.codegen.render import cdef, render
from winogen.conv import Conv2d, memory
from winogen.conv.execute import Call
from winogen.conv.plan import Plan
from winogen.conv.problem import Problem
from winogen.kernels import Work, named
from winogen.kernels.demand import Demand
from winogen.kernels.struct import values
from winogen.lab.bench import roofline
from winogen.toolchain import load
from winogen.toolchain.fork import team_threads
from winogen.toolchain.limits import Limits
from winogen.tuning.layers import BenchLayer

STAGES = ("input transform", "multiply", "output transform", "other")
_MOST_CALLS, _SECONDS = 200, 0.3


@dataclass(frozen=True)
class Profile:
    """The time of one call, and what was done in it."""

    problem: Problem
    plan: Plan
    works: tuple[Work, ...]  # its kernel calls
    seconds: float
    stages: dict[str, float]  # seconds of each of `STAGES`; several threads: their mean
    demands: dict[str, Demand]  # of the stages that do something

    @property
    def lanes(self) -> int:
        """Numbers in one vector."""
        return self.works[0].lanes


def profile(
    layer: BenchLayer,
    x: np.ndarray,
    weight: np.ndarray,
    layout: str = "NCHW",
    threads: int = 1,
    **options: Any,
) -> Profile:
    """Measure the stages of a layer; ``x`` is NCHW, ``weight`` (M, C/groups, KH, KW).

    Both are float32. ``options`` are those of `Conv2d` besides. Raises what it raises.
    """
    conv = Conv2d(weight, **layer.options, layout=layout, threads=threads, **options)
    data = np.ascontiguousarray(x.transpose(0, 2, 3, 1)) if layout == "NHWC" else x
    prepared = conv._prepare(data.shape)
    calls = [_Profiled(call, weight, threads) for call in prepared.calls]
    output = memory.empty(prepared.output_shape, np.dtype(np.float32), "output")
    scratch = memory.workspace(prepared.workspace_bytes)
    measured: list[tuple[float, ...]] = []
    end = time.perf_counter() + _SECONDS
    while len(measured) < 2 or (len(measured) < _MOST_CALLS and time.perf_counter() < end):
        for call in calls:
            call.reset()
        begin = time.perf_counter()
        for call in calls:
            call.run(data, output, scratch)
        whole = time.perf_counter() - begin
        stages = [sum(call.seconds[i] for call in calls) / threads for i in range(3)]
        measured.append((whole, *stages))
    # Of the middle call, not the middle of each stage: the parts must make the whole.
    whole, *stages = sorted(measured[1:])[len(measured[1:]) // 2]
    stages.append(max(0.0, whole - sum(stages)))
    works = tuple(call.work for call in prepared.calls)
    return Profile(
        prepared.problem,
        prepared.plan(),
        works,
        whole,
        dict(zip(STAGES, stages)),
        demands(works),
    )


def demands(works: tuple[Work, ...]) -> dict[str, Demand]:
    """Return what each stage of some kernel calls does; stages that do nothing are left out."""
    stages = [Demand()] * 3
    for work in works:
        stages = [sum_ + one for sum_, one in zip(stages, named(work.variant).demands(work))]
    return {name: stage for name, stage in zip(STAGES, stages) if stage != Demand()}


def rates(profile: Profile, peak_gflops: float, limits: Limits) -> dict:
    """Return the JSON form of a profile: stages with "rate", "limit" and "unit".

    GFLOP/s where instructions bind (a vector instruction counts as 2 operations per number), GB/s
    where traffic does. ``peak_gflops`` is that of the threads at the time of the measurement.
    """
    stages: dict[str, dict[str, Any]] = {}
    for name, seconds in profile.stages.items():
        stage = stages[name] = {"seconds": seconds, "share": seconds / profile.seconds}
        demand = profile.demands.get(name)
        if demand is None or not seconds:
            continue
        roof = roofline.of_stage(demand, profile.lanes, peak_gflops, limits)
        amount, unit = 2 * profile.lanes * (demand.steps + demand.instructions), "GFLOP/s"
        if roof.binds == "traffic":
            amount, unit = sum(move.bytes for move in demand.moves), "GB/s"
        if roof.seconds:
            stage |= {"rate": amount / seconds / 1e9, "limit": amount / roof.seconds / 1e9}
            stage["unit"] = unit
    return {
        "algorithm": profile.plan.algorithm,
        "tile": None if profile.plan.tile is None else list(profile.plan.tile),
        "threads": profile.plan.threads,
        "seconds": profile.seconds,
        "stages": stages,
    }


class _Profiled:
    """One kernel call of a prepared problem, by the profiled twin of its kernel."""

    def __init__(self, call: Call, weight: np.ndarray, threads: int):
        spec = call.kernel.spec.profiled()
        library = load(render(spec), cdef(spec), spec.target, name=f"{spec.variant}_profile")
        self._threads = team_threads(threads)
        self._ffi, self._lib = library.ffi, library.lib
        self._sizes = self._ffi.new("winogen_conv *", values(spec.kind, call.work))
        self._packed = memory.aligned(self._sizes.packed_bytes, "packed weights")
        self._lib.winogen_pack(self._sizes, self._floats(weight), self._floats(self._packed), 1)

    @property
    def seconds(self) -> list[float]:
        """Seconds of each stage since `reset`, of all threads together."""
        return list(self._lib.winogen_profile)

    def reset(self) -> None:
        for stage in range(len(STAGES)):
            self._lib.winogen_profile[stage] = 0.0

    def run(self, x: np.ndarray, output: np.ndarray, scratch: np.ndarray) -> None:
        null = self._ffi.NULL
        call = self._ffi.new(
            "winogen_call *",
            (self._sizes, self._floats(x), self._floats(self._packed), null, null, null, null,
             self._floats(output), self._ffi.from_buffer(scratch)),
        )  # fmt: skip
        self._lib.winogen_run(call, self._threads)

    def _floats(self, array: np.ndarray) -> Any:
        return self._ffi.from_buffer("float[]", array)
