"""Where the time of one call goes: input transform, multiplication, output transform.

The kernel is rendered once more with ``profile`` set, which lets it count the seconds of each stage
on one thread. Each stage's rate stands beside the limit that binds it: the FMA peak for arithmetic
(an instruction of a transform is half a multiply-add), or reading and writing at the speed of the
level of memory where the data must be.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from winogen.bench.layers import BenchLayer
from winogen.codegen.render import cdef, render
from winogen.conv import Conv2d, memory
from winogen.conv.execute import Call
from winogen.conv.plan import Plan
from winogen.kernels.spec import KernelSpec
from winogen.kernels.struct import values
from winogen.toolchain import load
from winogen.toolchain.limits import Limits

STAGES = ("input transform", "multiply", "output transform", "other")
_MOST_CALLS, _SECONDS = 200, 0.3


def profile(
    layer: BenchLayer,
    x: np.ndarray,
    weight: np.ndarray,
    layout: str = "NCHW",
    algorithm: str = "auto",
    tile: int | tuple[int, int] | None = None,
    tolerance: float | None = None,
) -> dict:
    """Return seconds per call of each stage on one thread, and what each stage does.

    ``{"algorithm", "tile", "seconds", "stages": {name: {"seconds", "share"}}, "work": {name:
    {"flop", "bytes"}}}``; see `add_rates`.
    """
    conv = Conv2d(
        weight,
        stride=layer.stride,
        padding=tuple((size, size) for size in layer.padding),
        dilation=layer.dilation,
        groups=layer.groups,
        layout=layout,
        algorithm=algorithm,
        tile=None if algorithm in ("direct", "im2col") else tile,
        tolerance=tolerance,
        threads=1,
    )
    data = np.ascontiguousarray(x.transpose(0, 2, 3, 1)) if layout == "NHWC" else x
    prepared = conv._prepare(data.shape)
    calls = [_Profiled(call, weight) for call in prepared.calls]
    found: list[tuple[float, ...]] = []
    output = np.empty(prepared.output_shape, np.float32)
    scratch = memory.workspace(prepared.workspace_bytes)
    end = time.perf_counter() + _SECONDS
    while len(found) < 2 or (len(found) < _MOST_CALLS and time.perf_counter() < end):
        for call in calls:
            call.reset()
        begin = time.perf_counter()
        for call in calls:
            call.run(data, output, scratch)
        whole = time.perf_counter() - begin
        stages = [sum(call.seconds[i] for call in calls) for i in range(3)]
        found.append((whole, *stages))
    # Of the middle call, not the middle of each stage: the parts must make the whole.
    whole, *stages = sorted(found[1:])[len(found[1:]) // 2]
    stages.append(max(0.0, whole - sum(stages)))
    plan = prepared.plan()
    return {
        "algorithm": plan.algorithm,
        "tile": None if plan.tile is None else list(plan.tile),
        "seconds": whole,
        "stages": {
            name: {"seconds": seconds, "share": seconds / whole}
            for name, seconds in zip(STAGES, stages)
        },
        "work": work(layer, plan, calls[0].spec),
    }


def work(layer: BenchLayer, plan: Plan, spec: KernelSpec) -> dict[str, dict]:
    """Return what each stage must do: operations (an FMA is two), and bytes by where they are.

    "bytes" are read from or written to the arrays of the caller, "near" is traffic with the
    workspace, which should stay in the second-level cache. Without tiles only the multiplication
    has a model.
    """
    multiply = {"flop": 2 * plan.multiplications, "bytes": plan.packed_weight_bytes, "near": 0}
    h, w = spec.transform_h, spec.transform_w
    if plan.tile is None or h is None or w is None:
        return {"multiply": multiply}
    batch, filters, rows, cols = layer.output
    channels = layer.input[1]
    m_h, m_w = plan.tile
    wide = -(-cols // m_w)
    if plan.algorithm == "winograd1d":  # every row of the input is transformed on its own
        tiles, inputs = batch * rows * wide, batch * (rows + layer.weight[2] - 1) * wide
    else:
        tiles = inputs = batch * -(-rows // m_h) * wide
    # Rows first, then columns: h works on w.n columns of a tile, w on the products of h.
    before = h.instructions[0] * w.n + w.instructions[0] * h.products
    after = h.instructions[2] * w.products + w.instructions[2] * m_h
    positions = h.products * w.products
    return {
        "input transform": {
            "flop": 2 * before * inputs * channels,
            "bytes": 4 * int(np.prod(layer.input)),
            "near": 4 * positions * inputs * channels,
        },
        "multiply": multiply,
        "output transform": {
            "flop": 2 * after * tiles * filters,
            "bytes": 4 * int(np.prod(layer.output)),
            "near": 4 * positions * tiles * filters,
        },
    }


def add_rates(found: dict, peak_gflops: float, limits: Limits) -> dict:
    """Return a profile whose stages have "rate", "limit" and "unit" (GFLOP/s, or GB/s if it binds).

    ``peak_gflops`` is that of one thread at the time of the measurement.
    """
    stages = {name: dict(stage) for name, stage in found["stages"].items()}
    _, near_speed = limits.reading(_second_level(limits))
    for name, job in found["work"].items():
        stage = stages[name]
        _, speed = limits.reading(job["bytes"])
        arithmetic = job["flop"] / peak_gflops / 1e9
        moving = job["bytes"] / speed / 1e9 + job["near"] / near_speed / 1e9
        amount, least, unit = (job["flop"], arithmetic, "GFLOP/s")
        if moving > arithmetic:
            amount, least, unit = (job["bytes"] + job["near"], moving, "GB/s")
        if stage["seconds"] > 0:
            stage["rate"] = amount / stage["seconds"] / 1e9
            stage["limit"] = amount / least / 1e9
            stage["unit"] = unit
    return {**{k: v for k, v in found.items() if k != "work"}, "stages": stages}


class _Profiled:
    """One kernel call of a prepared problem, by the profiled twin of its kernel."""

    def __init__(self, call: Call, weight: np.ndarray):
        self.spec = call.kernel.spec.profiled()
        name = f"{self.spec.variant}_profile"
        library = load(render(self.spec), cdef(self.spec), self.spec.target, name=name)
        self._ffi, self._lib = library.ffi, library.lib
        self._sizes = self._ffi.new("winogen_conv *", values(self.spec.kind, call.work))
        self._packed = memory.aligned(self._sizes.packed_bytes, "packed weights")
        self._lib.winogen_pack(self._sizes, self._floats(weight), self._floats(self._packed), 1)

    @property
    def seconds(self) -> list[float]:
        """Seconds of each stage since `reset`."""
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
        self._lib.winogen_run(call, 1)

    def _floats(self, array: np.ndarray) -> Any:
        return self._ffi.from_buffer("float[]", array)


def _second_level(limits: Limits) -> int:
    sizes = {level: size for level, size, _ in limits.read}
    return sizes.get("L2", min(sizes.values()))
