"""Kernels run by WebGPU: by wgpu, on a graphics card or on Mesa's software Vulkan."""

from __future__ import annotations

import functools

import numpy as np
import pytest


@functools.cache
def device():
    """A device of WebGPU with all that it has."""
    wgpu = pytest.importorskip("wgpu", reason="no wgpu: pip install wgpu")
    try:
        adapter = wgpu.gpu.request_adapter_sync()
    except RuntimeError:
        pytest.skip("no device of WebGPU: apt-get install mesa-vulkan-drivers")
    features = [one for one in ("shader-f16",) if one in adapter.features]
    return adapter.request_device_sync(required_features=features)


def run(text, work, arrays):
    """Run all kernels of a text, as `devices.run` does by OpenCL."""
    unit = device()
    import wgpu

    module = unit.create_shader_module(code=text)
    usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC
    every, buffers = {}, {}
    for one in work.arrays:
        given = arrays.get(one.name)
        every[one.name] = np.full(one.shape, np.nan, one.dtype) if given is None else given
        data = np.ascontiguousarray(every[one.name], one.dtype).tobytes()
        data += bytes(-len(data) % 4)
        buffers[one.name] = unit.create_buffer_with_data(data=data, usage=usage)
    encoder = unit.create_command_encoder()
    for kernel in (*work.pack, *work.kernels):
        stage = {"module": module, "entry_point": kernel.name}
        pipeline = unit.create_compute_pipeline(layout="auto", compute=stage)
        entries = [
            {"binding": i, "resource": {"buffer": buffers[one.name]}}
            for i, one in enumerate(work.arrays)
            if one in kernel.parameters
        ]
        layout = pipeline.get_bind_group_layout(0)
        step = encoder.begin_compute_pass()
        step.set_pipeline(pipeline)
        step.set_bind_group(0, unit.create_bind_group(layout=layout, entries=entries))
        step.dispatch_workgroups(
            *(n // size for n, size in zip(kernel.items, kernel.group, strict=True))
        )
        step.end()
    unit.queue.submit([encoder.finish()])
    return {
        one.name: np.frombuffer(unit.queue.read_buffer(buffers[one.name]), one.dtype)[
            : every[one.name].size
        ].reshape(one.shape)
        for one in work.arrays
    }
