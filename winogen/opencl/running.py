"""A `DeviceWork` on a device: kernels compiled, buffers made, launches one behind the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from winogen.codegen.devices.render import render
from winogen.codegen.devices.statements import DeviceArray, DeviceKernel, DeviceWork
from winogen.errors import CompileFailed, OutOfMemory
from winogen.opencl.devices import platform


class CompiledWork:
    """A work that is compiled for the devices of a context.

    It has no arrays of its own but what `pack` and `workspace` return, so that threads may share
    it, if each brings a queue and launches under a lock: pyopencl's kernels keep their arguments.
    """

    def __init__(self, work: DeviceWork, context: Any):
        """Compile; raises CompileFailed with the driver's own words."""
        cl = platform()
        self.work = work
        self.context = context
        self.source = render(work, "opencl")
        try:
            self._program = cl.Program(context, self.source).build()
        except cl.Error as error:
            raise CompileFailed(f"OpenCL: the driver refused the kernels: {error}") from None
        every = (*work.pack, *work.kernels)
        self._kernels = {one.name: cl.Kernel(self._program, one.name) for one in every}

    @property
    def wave(self) -> int:
        """Work-items of a group that the device runs as one, as its driver says."""
        kernel, of = self._kernels[self.work.kernels[0].name], self.context.devices[0]
        name = platform().kernel_work_group_info.PREFERRED_WORK_GROUP_SIZE_MULTIPLE
        return max(1, int(kernel.get_work_group_info(name, of)))

    def pack(self, queue: Any, weights: np.ndarray) -> dict[str, Any]:
        """Return the buffers of packed weights by name, of weights as the layer has them."""
        arrays = dict.fromkeys(a for k in self.work.pack for a in k.parameters)
        buffers = {
            one.name: upload(self.context, one, weights)
            if one.role == "weights"
            else self.buffer(one)
            for one in arrays
        }
        self._launch(queue, self.work.pack, buffers, ())
        return {one.name: buffers[one.name] for one in arrays if one.role == "packed"}

    def workspace(self) -> dict[str, Any]:
        """Return buffers for a call's own arrays by name; raises OutOfMemory."""
        own = (one for one in self.work.arrays if one.role == "workspace")
        return {one.name: self.buffer(one) for one in own}

    def buffer(self, array: DeviceArray) -> Any:
        """Return a new buffer for an array; raises OutOfMemory."""
        return buffer(self.context, array.nbytes, array.name)

    def run(self, queue: Any, buffers: Mapping[str, Any], after: Sequence[Any] = ()) -> list[Any]:
        """Launch the kernels on a queue; returns their events.

        ``buffers``: of all arrays that they name, the packed ones and the workspace included.
        ``after``: events to wait for.
        """
        return self._launch(queue, self.work.kernels, buffers, after)

    def _launch(
        self, queue: Any, kernels: Sequence[DeviceKernel], buffers: Mapping[str, Any], after: Any
    ) -> list[Any]:
        cl = platform()
        events: list[Any] = []
        for one in kernels:
            kernel = self._kernels[one.name]
            kernel.set_args(*(buffers[array.name] for array in one.parameters))
            # One behind the other, on queues that promise no order, too.
            waits = [*after] if not events else [events[-1]]
            events.append(
                cl.enqueue_nd_range_kernel(queue, kernel, one.items, one.group, None, waits or None)
            )
        return events


def upload(context: Any, array: DeviceArray, values: np.ndarray) -> Any:
    """Return a new buffer of an array with these values; raises OutOfMemory."""
    numbers = np.ascontiguousarray(values, array.dtype)
    return buffer(context, array.nbytes, array.name, numbers)


def buffer(context: Any, nbytes: int, what: str, values: np.ndarray | None = None) -> Any:
    """Return a new buffer of so many bytes, with these values; raises OutOfMemory."""
    cl = platform()
    flags = cl.mem_flags.READ_WRITE
    try:
        if values is not None:
            return cl.Buffer(context, flags | cl.mem_flags.COPY_HOST_PTR, hostbuf=values)
        return cl.Buffer(context, flags, nbytes)
    except cl.Error as error:
        raise OutOfMemory(
            f"{what}: could not allocate {nbytes} bytes on the device ({error})"
        ) from None


def seconds(events: Sequence[Any]) -> list[float]:
    """Return the time that each launch took on the device, of a queue that takes times."""
    for event in events:
        event.wait()
    return [1e-9 * (event.profile.end - event.profile.start) for event in events]
