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
        self._weight = random.standard_normal(layer.weight_shape).astype(layer.dtype)
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
        output = np.full(self.problem.output_shape, np.nan, self.problem.layer.dtype)
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
    layer = problem.layer
    count = int(np.prod(problem.output_shape))
    places = np.unique(np.random.default_rng(1).integers(0, count, _LOOKED_AT))
    size, (height, width) = plane_of(problem.size), plane_of(problem.output_size)
    images = input.reshape(problem.batch, *(
        (layer.channels, *size) if layer.planar else (*size, layer.channels)
    )).astype(np.float64)  # fmt: skip
    images = images if layer.planar else np.moveaxis(images, -1, 1)
    taps = weight.reshape(layer.filters, -1, *(axis.kernel for axis in layer.plane))
    channels, filters = taps.shape[1], layer.filters // layer.groups
    modes = {"zeros": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    ends = [(axis.before, axis.after) for axis in layer.plane]
    padded: Any = np.pad(
        images, [(0, 0), (0, 0), *ends], mode=modes[layer.padding_mode]  # type: ignore[call-overload]
    )  # fmt: skip
    shape = (problem.batch, *(
        (layer.filters, height, width) if layer.planar else (height, width, layer.filters)
    ))  # fmt: skip
    wanted = []
    for index in zip(*np.unravel_index(places, shape)):
        image, filter, row, column = index if layer.planar else (index[0], *index[3:], *index[1:3])
        first = filter // filters * channels
        rows, columns = (
            at * axis.stride + axis.dilation * np.arange(axis.kernel)
            for at, axis in zip((row, column), layer.plane)
        )
        window = padded[image, first : first + channels][:, rows[:, None], columns]
        wanted.append(np.sum(window * taps[filter].astype(np.float64)))
    return places, np.array(wanted)
