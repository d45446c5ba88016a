"""One layer as kernels of OpenCL, CUDA or WebGPU, with programs that run them; no device is needed.

The kernels are those of `Conv2d` for a device with the limits that nearly every one has, chosen by
prediction.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from winogen.codegen.devices.hosts import BACKENDS, host_files
from winogen.codegen.standalone import check_name
from winogen.conv import arguments
from winogen.conv.convolution import layout_of
from winogen.conv.options import Options
from winogen.conv.problem import Layer, Problem, Seams
from winogen.conv.request import Request
from winogen.conv.standalone import ENDS, name_of
from winogen.errors import InvalidValue
from winogen.opencl.choice import ALGORITHMS, DeviceCandidate, choose
from winogen.opencl.devices import DeviceInfo
from winogen.opencl.rates import told
from winogen.opencl.reference import numbers_of, reference

_DTYPES = ("float32", "float16")
# An output of the self-test may be so many times as far off as is expected.
_MARGIN = 8
# What is promised of any device, or is usual for all.
DEVICES = {
    "opencl": DeviceInfo("any device of OpenCL", compute_units=16),
    "cuda": DeviceInfo(
        "any device of CUDA", group=1024, items=(1024, 1024, 64), local_bytes=49152, vector=1,
        compute_units=2560, megahertz=1500, largest_buffer=1 << 31, memory_bytes=1 << 32,
    ),
    "wgsl": DeviceInfo(
        "any device of WebGPU", local_bytes=16384, lanes=4, compute_units=16,
    ),
}  # fmt: skip


def standalone(
    input_shape: Any,
    weight_shape: Any,
    *,
    backend: str,
    dtype: str = "float32",
    name: str | None = None,
    add: bool = False,
    add_after: bool = False,
    command: str = "winogen.opencl.standalone",
    **options: Any,
) -> dict[str, str | bytes]:
    """Return the files of one layer on inputs of one shape: name -> text or bytes.

    These are kernels, programs that run them, a self-test with weights and the outputs of float64,
    and a README. ``backend``: "opencl" (a .cl, its host in C), "cuda" (a .cu) or "wgsl" (its hosts
    in JavaScript and Python). Arrays are ``dtype``, float32 or float16, sums are float32.
    ``options`` are those of `winogen.opencl.Conv2d`. ``add``, ``add_after``: whether a call brings
    such arrays. The same arguments give the same bytes.

    Raises InvalidType, InvalidValue and Unsupported as `Conv2d` does.

    >>> sorted(standalone((1, 3, 8, 8), (4, 3, 3, 3), backend="opencl", name="net"))
    ['Makefile', 'README.md', 'net.c', 'net.cl', 'net.h', 'net_test.bin', 'net_test.c']
    """
    backend = arguments.choice("backend", backend, tuple(BACKENDS))
    dtype = arguments.choice("dtype", dtype, _DTYPES)
    asked = Options(**{"threads": 1, **options})
    layout_of(asked, 2)
    arguments.choice("algorithm", asked.algorithm, ALGORITHMS)
    layer = Layer.from_options(weight_shape, dtype, asked)
    problem = layer.problem(input_shape)
    filters = layer.filters
    problem = problem.sewn(Seams(layer.channels, filters, add * filters, add_after * filters))
    if not problem.batch or not math.prod(problem.output_shape):
        raise InvalidValue(f"input: got shape {tuple(input_shape)}; allowed: at least one output")
    device = DEVICES[backend]
    best, *_ = choose(problem, Request.from_options(layer, asked), device, told(device))
    work = best.work(problem, device, bias=True)
    shapes: dict[str, tuple[tuple[int, ...], str]] = {
        one.role: (one.shape, one.dtype)
        for one in work.arrays
        if one.role not in ("packed", "workspace", "output")
    }
    arrays = numbers_of(problem, {role: shape for role, (shape, _) in shapes.items()})
    output = reference(problem, arrays).astype(dtype)
    numbers: dict[str, bytes] = {
        role: arrays[role].astype(own).tobytes() for role, (_, own) in shapes.items()
    }
    assert best.error is not None
    return host_files(
        work,
        backend,
        check_name(name or name_of(problem)),
        about=_about(problem, best),
        command=command,
        numbers={**numbers, "output": output.tobytes()},
        limit=_MARGIN * max(best.error, float(np.finfo(dtype).eps)),
    )


def _about(problem: Problem, chosen: DeviceCandidate) -> list[str]:
    """Lines that say what a layer is, and how it is computed."""
    layer = problem.layer
    ends = (
        f"{before} {axis.before}, {after} {axis.after}"
        for (before, after), axis in zip(ENDS[-layer.rank :], layer.axes)
    )
    lines = [
        f"2D convolution, {layer.dtype}, {layer.layout}.",
        f"padding {', '.join(ends)}: {layer.padding_mode}",
    ]
    for what, value, usual in (
        ("stride", layer.stride, (1, 1)),
        ("dilation", layer.dilation, (1, 1)),
        ("groups", layer.groups, 1),
    ):
        if value != usual:
            lines.append(
                f"{what} {value if isinstance(value, int) else ' x '.join(map(str, value))}"
            )
    how = "direct convolution"
    if chosen.transforms is not None:
        along = " x ".join(f"F({one.m}, {one.r})" for one in chosen.transforms)
        how = f"Winograd's {along}"
    lines.append(f"computed by {how}")
    if problem.epilogue.means:
        lines.append(f"followed by {problem.epilogue.means}")
    lines.append(
        f"multiplications {chosen.multiplications:,} (direct: {problem.direct_multiplications:,})"
    )
    return lines
