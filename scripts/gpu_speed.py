"""Prints how fast `winogen.opencl` is on a graphics processor, beside cuDNN.

    python scripts/gpu_speed.py                       # the nine layers of VGG-16, ten seconds each
    python scripts/gpu_speed.py --batch 16 --seconds 20 --layout NHWC

"predicted" is what runs without a search, "searched" the best that a search of so many seconds
finds within the default tolerance, and "CUDA" the same kernels written in CUDA C++, by cupy if that
is there. cuDNN is torch's convolution in float32, its algorithm chosen by measuring: once as
float32, once with TF32, whose factors have 11 bits. Times are medians of events on the device, in
turns, without copies of arrays. Errors are of the largest value, against float64. Needs torch with
CUDA, and pyopencl with the driver of the same processor.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from statistics import geometric_mean, median
from typing import Any

import numpy as np
import torch
from torch.nn import functional

import winogen.opencl
from winogen.codegen.devices.render import render
from winogen.conv.options import Options
from winogen.conv.problem import Layer, Problem
from winogen.conv.tolerance import Tolerance
from winogen.opencl import running
from winogen.opencl.choice import DeviceCandidate
from winogen.opencl.devices import context_of, platform
from winogen.opencl.rates import rates_of
from winogen.opencl.search import DeviceSearch
from winogen.tuning.layers import load_layers

try:
    import cupy
except ImportError:
    cupy = None

_TURNS, _CALLS = 7, 10


class OnOpenCL:
    """A candidate on the device, with its arrays."""

    def __init__(self, one: DeviceCandidate, problem: Problem, context: Any, layer: Any):
        cl = platform()
        properties = cl.command_queue_properties.PROFILING_ENABLE
        self._queue = cl.CommandQueue(context, properties=properties)
        self.work = one.work(problem, layer.device)
        self._running = running.CompiledWork(self.work, context)
        self._buffers: dict[str, Any] = {}

    def fill(self, x: np.ndarray, w: np.ndarray) -> None:
        """Bring the arrays."""
        arrays = {one.name: one for one in self.work.arrays}
        self._buffers = self._running.pack(self._queue, w) | self._running.workspace()
        context = self._running.context
        self._buffers["input"] = running.upload(context, arrays["input"], x)
        self._buffers["output"] = self._running.buffer(arrays["output"])

    def seconds(self) -> float:
        """Return the time of a call on the device."""
        every = [
            sum(running.seconds(self._running.run(self._queue, self._buffers)))
            for _ in range(_CALLS)
        ]
        return median(every)

    def output(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return what it computed."""
        y = np.empty(shape, np.float32)
        platform().enqueue_copy(self._queue, y, self._buffers["output"])
        self._queue.finish()
        return y


class OnCuda:
    """The same kernels in CUDA C++."""

    def __init__(self, one: OnOpenCL, x: np.ndarray, w: np.ndarray):
        self._work = one.work
        self._module = cupy.RawModule(code=render(one.work, "cuda"), options=("--std=c++17",))
        self._arrays = {a.name: cupy.full(a.shape, cupy.nan, a.dtype) for a in one.work.arrays}
        self._arrays["input"][...] = cupy.asarray(x)
        self._arrays["weights"][...] = cupy.asarray(w)
        self._run(self._work.pack)

    def _run(self, kernels: Any) -> None:
        for one in kernels:
            grid = tuple(items // group for items, group in zip(one.items, one.group))
            given = tuple(self._arrays[array.name] for array in one.parameters)
            self._module.get_function(one.name)(grid, one.group, given)

    def seconds(self) -> float:
        """Return the time of a call on the device."""
        return _by_events(lambda: self._run(self._work.kernels), cupy.cuda.Event, _cupy_elapsed)


def _cupy_elapsed(begin: Any, end: Any) -> float:
    return float(cupy.cuda.get_elapsed_time(begin, end))


def _by_events(call: Callable[[], Any], event: Any, elapsed: Callable[[Any, Any], float]) -> float:
    """Return the mean time of calls, one behind the other."""
    call()
    begin, end = event(), event()
    begin.record()
    for _ in range(_CALLS):
        call()
    end.record()
    end.synchronize()
    return 1e-3 * elapsed(begin, end) / _CALLS


def _cudnn(x: torch.Tensor, w: torch.Tensor, tf32: bool) -> Callable[[], float]:
    def seconds() -> float:
        torch.backends.cudnn.allow_tf32 = tf32
        timed = lambda: torch.cuda.Event(enable_timing=True)  # noqa: E731
        with torch.no_grad():
            return _by_events(
                lambda: functional.conv2d(x, w, padding=1), timed, lambda a, b: a.elapsed_time(b)
            )

    return seconds


def _off(y: torch.Tensor, exact: torch.Tensor) -> float:
    return float((y - exact).abs().max() / exact.abs().max())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--layout", choices=("NCHW", "NHWC"), default="NCHW")
    parser.add_argument("--seconds", type=float, default=10.0, help="of the search of a layer")
    parser.add_argument("--layers", default="", help="numbers of some, 1,5,9")
    asked = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    context = context_of()
    rates = rates_of(context)
    print(
        f"{torch.cuda.get_device_name()}: {2e-12 * rates.operations:.1f} Tflop/s in float32, "
        f"{1e-9 * rates.bytes:.0f} GB/s; cuDNN {torch.backends.cudnn.version()}, "
        f"torch {torch.__version__}; batch {asked.batch}, {asked.layout}; ms"
    )
    head = ("layer", "cuDNN", "TF32", "predicted", "searched", "CUDA", "gain", "error", "cuDNN's")
    print(f"{head[0]:24}" + "".join(f"{one:>10}" for one in head[1:]) + "  what is best")
    random, gains = np.random.default_rng(0), []
    numbers = {int(one) for one in asked.layers.split(",") if one}
    for number, one in enumerate(load_layers("vgg16"), 1):
        if numbers and number not in numbers:
            continue
        channels, size = one.weight[1], one.input[-2:]
        x = random.standard_normal((asked.batch, channels, *size)).astype(np.float32)
        w = random.standard_normal(one.weight).astype(np.float32)
        tx, tw = torch.from_numpy(x).cuda(), torch.from_numpy(w).cuda()
        exact = functional.conv2d(tx.double(), tw.double(), padding=1)
        if asked.layout == "NHWC":
            tx, tw = (t.contiguous(memory_format=torch.channels_last) for t in (tx, tw))
        order = (0, 1, 2, 3) if asked.layout == "NCHW" else (0, 2, 3, 1)
        given = np.ascontiguousarray(x.transpose(order))
        layer = Layer.from_options(w.shape, "float32", Options(padding=1, layout=asked.layout))
        problem = layer.problem(given.shape)
        conv = winogen.opencl.Conv2d(w, padding=1, layout=asked.layout, context=context)
        plan = conv.plan(given.shape)
        found = DeviceSearch(problem, context)(asked.seconds)
        rule = Tolerance.of(layer, None)
        best = next(c for c in found.every if c.error is not None and rule.allows(c.error))
        ours = OnOpenCL(best, problem, context, conv)
        ours.fill(given, w)
        turns: dict[str, Callable[[], float]] = {
            "cudnn": _cudnn(tx, tw, False),
            "tf32": _cudnn(tx, tw, True),
            "predicted": lambda conv=conv, given=given: median(  # type: ignore[misc]
                sum(conv.timed(given)[1].values()) for _ in range(_CALLS)
            ),
            "searched": ours.seconds,
        }
        if cupy is not None:
            turns["cuda"] = OnCuda(ours, given, w).seconds
        times: dict[str, list[float]] = {name: [] for name in turns}
        for _ in range(_TURNS):
            for name, seconds in turns.items():
                times[name].append(seconds())
        ms = {name: 1e3 * median(values) for name, values in times.items()}
        back = tuple(int(place) for place in np.argsort(order))
        y = torch.from_numpy(
            np.ascontiguousarray(ours.output(problem.output_shape).transpose(back))
        )
        torch.backends.cudnn.allow_tf32 = False
        rival = _off(functional.conv2d(tx, tw, padding=1), exact)
        gains.append(ms["cudnn"] / ms["searched"])
        print(
            f"{one.name:24}{ms['cudnn']:10.3f}{ms['tf32']:10.3f}{ms['predicted']:10.3f}"
            f"{ms['searched']:10.3f}{ms.get('cuda', float('nan')):10.3f}{gains[-1]:10.2f}"
            f"{_off(y.cuda(), exact):10.1e}{rival:10.1e}  {best.algorithm} "
            f"{best.tile or ''} {best.parameters}; predicted {plan.algorithm} "
            f"{getattr(plan, 'tile', '')}; tried {found.tried}, wrong {len(found.wrong)}",
            flush=True,
        )
    print(f"geometric mean of the gains over cuDNN in float32: {geometric_mean(gains):.2f}")


if __name__ == "__main__":
    main()
