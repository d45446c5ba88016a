"""Candidates of a device, measured: the time on the device, and whether the result is right."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from winogen.codegen.devices.statements import DeviceArray
from winogen.conv.problem import Problem, plane_of
from winogen.errors import CompileFailed, OutOfMemory
from winogen.opencl import running, wisdom
from winogen.opencl.choice import DeviceCandidate
from winogen.opencl.devices import DeviceInfo, platform
from winogen.opencl.stores import Interleaving, stored, weight_array

# Largest errors of results, of the largest: what is beyond is wrong, not inaccurate.
_WRONG = {"float32": 1e-2, "float16": 3e-2}
_LOOKED_AT = 200  # outputs
_HOPELESS = 4  # times as long as the fastest


class DeviceMeasuring:
    """Measures candidates of a problem: a task says which, and how often.

    The problem has neither activation nor additions. Whoever takes far longer than the fastest is
    not called again.
    """

    def __init__(self, problem: Problem, context: Any):
        cl = platform()
        self.problem = problem
        self.context = context
        self.device = DeviceInfo.of(context.devices[0])
        self._queue = cl.CommandQueue(
            context, properties=cl.command_queue_properties.PROFILING_ENABLE
        )
        random = np.random.default_rng(0)
        layer = problem.layer
        self._input = random.standard_normal(problem.input_shape).astype(layer.dtype)
        self._weight = random.standard_normal(weight_array(problem).shape).astype(layer.dtype)
        self._samples = sampled(problem, self._input, self._weight)
        self._known: dict[str, Any] = {}
        self._least = inf

    def __call__(self, task: dict) -> dict[str, Any]:
        """Return {"seconds"} of the fastest call, or {"error"}: why there is none."""
        candidate = wisdom.decoded({**task["candidate"], "seconds": 1.0}, self.problem, self.device)
        if candidate is None:
            return {"error": "does not apply"}
        try:
            return self._measured(candidate, task["repeats"])
        except (CompileFailed, OutOfMemory) as error:
            return {"error": str(error).partition("\n")[0]}
        except platform().Error as error:
            return {"error": f"the driver: {error}".partition("\n")[0]}

    def _measured(self, candidate: DeviceCandidate, repeats: int) -> dict[str, Any]:
        cl = platform()
        compiled = running.CompiledWork(candidate.work(self.problem, self.device), self.context)
        arrays = {one.name: one for one in compiled.work.arrays}
        buffers = compiled.pack(self._queue, self._weight) | compiled.workspace()
        buffers["input"] = self._kept(arrays["input"], self._input)
        output = np.full(stored(self.problem).output_shape, np.nan, self.problem.layer.dtype)
        buffers["output"] = self._kept(arrays["output"], output)
        cl.enqueue_copy(self._queue, buffers["output"], output)
        self._queue.finish()
        least = inf
        for _ in range(repeats):
            least = min(least, sum(running.seconds(compiled.run(self._queue, buffers))))
            if least > _HOPELESS * self._least:
                break
        self._least = min(self._least, least)
        cl.enqueue_copy(self._queue, output, buffers["output"])
        self._queue.finish()
        if not self._is_right(output):
            return {"error": "wrong"}
        return {"seconds": max(least, 1e-9)}

    def _kept(self, array: DeviceArray, values: np.ndarray) -> Any:
        """A buffer that all candidates share."""
        if array.name not in self._known:
            self._known[array.name] = running.upload(self.context, array, values)
        return self._known[array.name]

    def _is_right(self, output: np.ndarray) -> bool:
        places, wanted = self._samples
        off = np.abs(output.reshape(-1)[places].astype(np.float64) - wanted).max()
        return bool(off <= _WRONG[self.problem.layer.dtype] * np.abs(wanted).max())


def sampled(
    problem: Problem, input: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return some outputs by their definition in float64: where they lie, and what they are."""
    layer, target = problem.layer, stored(problem)
    count = int(np.prod(target.output_shape))
    places = np.unique(np.random.default_rng(1).integers(0, count, _LOOKED_AT))
    planar, sizes, (height, width) = layer.planar, plane_of(problem.size), target.output_size
    images = input.reshape(problem.batch, *(
        (layer.channels, *sizes) if planar else (*sizes, layer.channels)
    )).astype(np.float64)  # fmt: skip
    images = images if planar else np.moveaxis(images, -1, 1)
    filters, channels = target.layer.filters, layer.channels // layer.groups
    taps = weight.astype(np.float64)
    if isinstance(problem.spread, Interleaving):  # its weights have the channels first
        taps = np.moveaxis(taps.reshape(layer.groups, channels, -1, *taps.shape[2:]), 1, 2)
    taps = taps.reshape(filters, channels, *taps.shape[-2:])
    shape = (problem.batch, *((filters, height, width) if planar else (height, width, filters)))
    wanted = []
    for index in zip(*np.unravel_index(places, shape)):
        image, filter, *at = index if planar else (index[0], *index[3:], *index[1:3])
        first = filter // (filters // layer.groups) * channels
        (rows, high), (columns, wide) = (_seen(problem, axis, at[axis]) for axis in (0, 1))
        window = images[image, first : first + channels][:, rows[:, None], columns]
        wanted.append(np.sum(window * taps[filter][:, high[:, None], wide]))
    return places, np.array(wanted)


def _seen(problem: Problem, axis: int, output: int) -> tuple[np.ndarray, np.ndarray]:
    """Which pixels an output sees along an axis, and by which taps."""
    spread, size, along = problem.spread, problem.size[axis], problem.layer.plane[axis]
    if isinstance(spread, Interleaving):
        taps = np.arange(spread.taps[axis])
        pixels, rest = np.divmod(
            output + spread.before[axis] - spread.apart[axis] * taps, spread.step[axis]
        )
        inside = (rest == 0) & (pixels >= 0) & (pixels < size)
        return pixels[inside], taps[inside]
    taps = np.arange(along.kernel)
    modes: Any = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    pixels = output * along.stride + along.dilation * taps - along.before
    mode = modes.get(problem.layer.padding_mode)
    if mode is None:
        inside = (pixels >= 0) & (pixels < size)
        return pixels[inside], taps[inside]
    before, after = max(0, along.before), max(0, along.after)
    return np.pad(np.arange(size), (before, after), mode)[pixels + before], taps
