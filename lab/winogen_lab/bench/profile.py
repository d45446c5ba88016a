"""Where the time of one call goes: input transform, multiplication, output transform.

The kernel is rendered once more with ``profile`` set, and then counts the seconds of its threads in
each stage. `rates` puts each stage's rate beside the limit that binds it: see
`winogen_lab.bench.roofline`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from winogen.conv import memory
from winogen.conv.api import CONVOLUTIONS
from winogen.conv.execute import Call, Environment, Prepared
from winogen.conv.plan import Plan
from winogen.conv.problem import Problem
from winogen.conv.quantized import QConv2d
from winogen.errors import Unsupported
from winogen.kernels import Work, named
from winogen.kernels.count import Demand
from winogen.kernels.quantized import QuantizedWork
from winogen.records import NUMBERS
from winogen.toolchain.limits import Limits
from winogen.tuning.layers import BenchLayer, layout_of
from winogen.typing import Layout
from winogen_lab.bench import quantized, roofline

STAGES = ("input transform", "multiply", "output transform", "other")
_MOST_CALLS, _SECONDS = 200, 0.3


@dataclass(frozen=True)
class Profile:
    """The time of one call, and what was done in it."""

    problem: Problem
    plan: Plan
    works: tuple[Work | QuantizedWork, ...]  # its kernel calls
    seconds: float
    stages: dict[str, float]  # seconds of each of `STAGES`; several threads: their mean
    demands: dict[str, Demand]  # of the stages that do something

    @property
    def lanes(self) -> int:
        """Numbers in one vector; words, where several are in each."""
        return self.works[0].lanes

    @property
    def together(self) -> int:
        """Numbers that a multiply-add of vectors takes at once: more than lanes of narrow ones."""
        work = self.works[0]
        if isinstance(work, QuantizedWork):
            return work.lanes * work.spec.dot.together
        return work.target.vector_bytes // NUMBERS[work.precision.products].itemsize

    @property
    def at_once(self) -> int:
        """Multiply-adds of vectors in the time of one of floats."""
        work = self.works[0]
        return work.spec.dot.at_once if isinstance(work, QuantizedWork) else 1


class _Layer(NamedTuple):
    """A layer that was prepared by `Conv2d` or `QConv2d`."""

    problem: Problem
    plan: Plan
    calls: Sequence[Call]
    packs: tuple[np.ndarray | None, ...]  # the arrays that its kernels pack
    output: np.ndarray


def profile(
    layer: BenchLayer,
    x: np.ndarray,
    weight: np.ndarray,
    layout: Layout = "NCHW",
    threads: int = 1,
    **options: Any,
) -> Profile:
    """Measure the stages of a layer; ``x`` is NCHW, ``weight`` (M, C/groups, KH, KW).

    Both are float32, or int8 as `winogen_lab.bench.quantized` makes them. ``options`` are those of
    `Conv2d`, or of `QConv2d`, besides. Raises what these raise; "mcmr" of bytes is refused.
    """
    data = np.ascontiguousarray(np.moveaxis(x, 1, -1)) if layout == "NHWC" else x
    options |= {**layer.options, "layout": layout_of(layout, layer.rank), "threads": threads}
    prepared = (_bytes if x.dtype == np.int8 else _floats)(layer, data, weight, options)
    calls = [ProfiledCall(call.kernel.spec, call.work, *prepared.packs) for call in prepared.calls]
    measured: list[tuple[float, ...]] = []
    end = time.perf_counter() + _SECONDS
    while len(measured) < 2 or (len(measured) < _MOST_CALLS and time.perf_counter() < end):
        measured.append(timed(calls, data, prepared.output))
    # Of the middle call, not the middle of each stage: the parts must make the whole.
    whole, *stages = sorted(measured[1:])[len(measured[1:]) // 2]
    works = tuple(call.work for call in prepared.calls)
    return Profile(
        prepared.problem,
        prepared.plan,
        works,
        whole,
        dict(zip(STAGES, stages)),
        demands(works),
    )


def timed(calls: Sequence[ProfiledCall], data: np.ndarray, output: np.ndarray) -> tuple[float, ...]:
    """Run the kernel calls of a layer once; return the seconds of the whole and of `STAGES`."""
    for call in calls:
        call.reset()
    begin = time.perf_counter()
    for call in calls:
        call(data, output)
    whole = time.perf_counter() - begin
    stages = [sum(call.seconds[i] / call.threads for call in calls) for i in range(3)]
    return (whole, *stages, max(0.0, whole - sum(stages)))


def _floats(
    layer: BenchLayer, data: np.ndarray, weight: np.ndarray, options: dict[str, Any]
) -> _Layer:
    prepared = CONVOLUTIONS[layer.rank](weight, **options)._prepare(data.shape)
    if not isinstance(prepared, Prepared):
        raise Unsupported(
            f'algorithm: got "{options.get("algorithm", "auto")}", which takes '
            f"{prepared.plan().variant} for {layer.name}; allowed: those whose kernels count the "
            "time of each stage, as direct"
        )
    output = memory.empty(prepared.output_shape, np.dtype(np.float32), "output")
    return _Layer(prepared.problem, prepared.plan(), prepared.calls, (weight,), output)


def _bytes(
    layer: BenchLayer, data: np.ndarray, weight: np.ndarray, options: dict[str, Any]
) -> _Layer:
    scale = quantized.steps(layer)
    conv = QConv2d(
        weight, w_scale=scale.w, x_scale=float(scale.x), y_scale=float(scale.y), **options
    )
    call, plan = conv.bound(data.shape, data.dtype.name), conv.plan(data.shape, data.dtype.name)
    problem = layer.problem(options["layout"], "int8")
    output = memory.empty(problem.output_shape, data.dtype, "output")
    return _Layer(problem, plan, [call], conv.packs, output)


def demands(works: tuple[Work | QuantizedWork, ...]) -> dict[str, Demand]:
    """Return what each stage of some kernel calls does; stages that do nothing are left out."""
    stages = [Demand()] * 3
    for work in works:
        if isinstance(work, QuantizedWork):
            own = work.demands()
        else:
            own = named(work.variant).demands(work)
        stages = [sum_ + one for sum_, one in zip(stages, own)]
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
        roof = roofline.of_stage(demand, profile.lanes, peak_gflops, limits, profile.at_once)
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


class ProfiledCall(Call):
    """One kernel call, with its packed filters, by the profiled twin of its kernel."""

    def __init__(self, spec: Any, work: Any, *packs: np.ndarray | None):
        super().__init__(spec.profiled(), work, Environment.now(), seconds=0.0)
        self._packed = self.pack(*packs)

    @property
    def seconds(self) -> list[float]:
        """Seconds of each stage since `reset`, of all threads together."""
        return [1e-9 * spent for spent in self.kernel.lib.winogen_profile]

    def reset(self) -> None:
        for stage in range(len(STAGES)):
            self.kernel.lib.winogen_profile[stage] = 0

    def __call__(self, x: np.ndarray, output: np.ndarray) -> None:
        pointer = self.kernel.pointer
        none = [pointer(None)] * (len(self.kernel.spec.inputs) - 2)  # the bias, what is added, …
        self.run(pointer(x), pointer(self._packed), *none, pointer(output))
