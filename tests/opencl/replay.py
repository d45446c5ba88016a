"""Runs commands of WebGPU that `gpu.mjs` noted, by wgpu; prints the bytes of what is read."""

import base64
import json
import sys

import wgpu

code, device, buffers = "", None, []
for what, *rest in json.load(sys.stdin):
    if what == "device":
        adapter = wgpu.gpu.request_adapter_sync()
        device = adapter.request_device_sync(required_features=rest[0])
    elif what == "code":
        code = device.create_shader_module(code=rest[0])
    elif what == "buffer":
        buffers.append(device.create_buffer(size=rest[0], usage=rest[1]))
    elif what == "write":
        device.queue.write_buffer(buffers[rest[0]], rest[1], base64.b64decode(rest[2]))
    elif what == "read":
        (source,) = rest
        buffers[source].map_sync(wgpu.MapMode.READ)
        print(base64.b64encode(buffers[source].read_mapped()).decode(), end="")
    else:
        encoder = device.create_command_encoder()
        if what == "copy":
            encoder.copy_buffer_to_buffer(buffers[rest[0]], rest[1], buffers[rest[2]], *rest[3:])
        else:
            entry, group, groups = rest
            stage = {"module": code, "entry_point": entry}
            pipeline = device.create_compute_pipeline(layout="auto", compute=stage)
            entries = [
                {"binding": binding, "resource": {"buffer": buffers[one]}} for binding, one in group
            ]
            layout = pipeline.get_bind_group_layout(0)
            step = encoder.begin_compute_pass()
            step.set_pipeline(pipeline)
            step.set_bind_group(0, device.create_bind_group(layout=layout, entries=entries))
            step.dispatch_workgroups(*groups)
            step.end()
        device.queue.submit([encoder.finish()])
