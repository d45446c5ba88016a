"""Kernels run on the first OpenCL device there is; tests skip without one."""

from __future__ import annotations

import functools
import os

import numpy as np
import pytest

# Thorough tests draw so many times their random cases: CI sets 4, and 60 draws 300 points a shape.
DRAWS = int(os.environ.get("WINOGEN_DRAWS", "1"))


@functools.cache
def context():
    """The context of a device."""
    cl = pytest.importorskip("pyopencl", reason="no pyopencl: pip install 'winogen[opencl]'")
    devices = [one for platform in cl.get_platforms() for one in platform.get_devices()]
    if not devices:
        pytest.skip("no OpenCL device: apt-get install pocl-opencl-icd")
    return cl.Context(devices[:1])


def run(text, work, arrays, options=()):
    """Run all kernels of a text; return every array by name, those not given full of NaN before."""
    device = context()
    import pyopencl as cl  # there, if a device is

    program = cl.Program(device, text).build(options=list(options))
    queue = cl.CommandQueue(device)
    every = {
        one.name: np.ascontiguousarray(arrays[one.name], one.dtype)
        if one.name in arrays
        else np.full(one.shape, np.nan, one.dtype)
        for one in work.arrays
    }
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    buffers = {name: cl.Buffer(device, flags, hostbuf=one) for name, one in every.items()}
    for kernel in (*work.pack, *work.kernels):
        call = cl.Kernel(program, kernel.name)
        call(queue, kernel.items, kernel.group, *(buffers[one.name] for one in kernel.parameters))
    for name, buffer in buffers.items():
        cl.enqueue_copy(queue, every[name], buffer)
    queue.finish()
    return every
