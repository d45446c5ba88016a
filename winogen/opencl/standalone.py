"""One layer as kernels of OpenCL, CUDA or WebGPU, with programs that run them; no device is needed.

The kernels are those of `Conv2d` for a device with the limits that nearly every one has, chosen by
prediction.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from winogen.codegen.devices.hosts import BACKENDS, host_files
from winogen.codegen.devices.statements import DeviceArray
from winogen.codegen.standalone import check_name
from winogen.conv import arguments
from winogen.conv.convolution import layout_of
from winogen.conv.options import Options
from winogen.conv.problem import Layer, Problem, Seams
from winogen.conv.standalone import ENDS, name_of
from winogen.conv.standalone_transposed import name_of as transposed_name
from winogen.conv.transposed_problem import TransposedLayer, TransposedProblem
from winogen.errors import InvalidValue
from winogen.opencl.base import check_rank
from winogen.opencl.choice import ALGORITHMS, DeviceCandidate, choose
from winogen.opencl.devices import DeviceInfo
from winogen.opencl.phases import computed, request_in_plane
from winogen.opencl.rates import told
from winogen.opencl.reference import numbers_of, reference
from winogen.typing import IntOrInts

_DTYPES = ("float32", "float16")
# An output of the self-test may be so many times as far off as is expected.
_MARGIN = 8
# What is promised of any device, or is usual for all.
DEVICES = {
    "opencl": DeviceInfo("any device of OpenCL", compute_units=16),
    "cuda": DeviceInfo(
        "any device of CUDA", group=1024, items=(1024, 1024, 64), local_bytes=49152, vector=1,
        compute_units=80, megahertz=1500, largest_buffer=1 << 31, memory_bytes=1 << 32,
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
    transposed: bool = False,
    output_padding: IntOrInts = 0,
    add: bool = False,
    add_after: bool = False,
    command: str = "winogen.opencl.standalone",
    **options: Any,
) -> dict[str, str | bytes]:
    """Return the files of one layer on inputs of one shape: name -> text or bytes.

    These are kernels, programs that run them, a self-test with weights and the outputs of float64,
    and a README. ``backend``: "opencl" (a .cl, its host in C), "cuda" (a .cu) or "wgsl" (its hosts
    in JavaScript and Python). Arrays are ``dtype``, float32 or float16, sums are float32.
    ``options`` are those of `winogen.opencl.Conv2d`, or with ``transposed`` of `ConvTranspose2d`,
    and of `Conv1d` and `ConvTranspose1d` for signals. ``add``, ``add_after``: whether a call brings
    such arrays. The same arguments give the same bytes.

    Raises InvalidType, InvalidValue and Unsupported as `Conv2d` does.

    >>> sorted(standalone((1, 3, 8, 8), (4, 3, 3, 3), backend="opencl", name="net"))
    ['Makefile', 'README.md', 'net.c', 'net.cl', 'net.h', 'net_test.bin', 'net_test.c']
    """
    backend = arguments.choice("backend", backend, tuple(BACKENDS))
    dtype = arguments.choice("dtype", dtype, _DTYPES)
    rank = len(weight_shape) - 2
    taken = Options(**{"threads": 1, "layout": "NCW" if rank == 1 else "NCHW", **options})
    check_rank(taken, rank)
    layout_of(taken, rank)
    arguments.choice("algorithm", taken.algorithm, ALGORITHMS)
    layer: Layer | TransposedLayer
    if transposed:
        layer = TransposedLayer.of(tuple(weight_shape), dtype, taken, output_padding)
    else:
        layer = Layer.from_options(weight_shape, dtype, taken)
    asked = layer.problem(input_shape)
    if not asked.batch or not math.prod(asked.output_shape):
        raise InvalidValue(f"input: got shape {tuple(input_shape)}; allowed: at least one output")
    problem = computed(asked)
    many = problem.layer.filters
    problem = problem.sewn(Seams(problem.layer.channels, many, add * many, add_after * many))
    device = DEVICES[backend]
    best, *_ = choose(problem, request_in_plane(layer, taken), device, told(device))
    work = best.work(problem, device, bias=True)
    # Arrays as the layer has them: signals have no rows.
    own: dict[str, tuple[int, ...]] = {
        "input": asked.input_shape,
        "weights": layer.weight_shape,
        **dict.fromkeys(("add", "add_after", "output"), asked.output_shape),
    }
    given: dict[str, DeviceArray] = {
        one.role: one for one in work.arrays if one.role not in ("packed", "workspace")
    }
    shapes = {role: own.get(role, one.shape) for role, one in given.items()}
    arrays = numbers_of(problem, {role: shapes[role] for role in shapes if role != "output"})
    arrays["output"] = reference(asked, problem.epilogue, arrays)
    assert best.error is not None
    usual = name_of(asked) if isinstance(asked, Problem) else transposed_name(asked)
    return host_files(
        work,
        backend,
        check_name(name or usual),
        about=_about(asked, problem, best),
        command=command,
        shapes=shapes,
        numbers={role: arrays[role].astype(one.dtype).tobytes() for role, one in given.items()},
        limit=_MARGIN * max(best.error, float(np.finfo(dtype).eps)),
    )


def _about(
    asked: Problem | TransposedProblem, problem: Problem, chosen: DeviceCandidate
) -> list[str]:
    """Lines that say what a layer is, and how it is computed."""
    layer, transposed = asked.layer, isinstance(asked, TransposedProblem)
    if isinstance(layer, TransposedLayer):
        plain, ends, mode = layer.sample, layer.ends, "left out of the output"
        more = layer.output_padding
    else:
        plain, mode = layer, layer.padding_mode
        ends, more = tuple((axis.before, axis.after) for axis in layer.axes), ()
    sides = zip(ENDS[-plain.rank :], ends)
    padding = (f"{one[0]} {before}, {one[1]} {after}" for one, (before, after) in sides)
    lines = [
        f"{plain.rank}D {'transposed ' * transposed}convolution, {plain.dtype}, {plain.layout}.",
        f"padding {', '.join(padding)}: {mode}",
    ]
    for what, values, usual in (
        ("stride", layer.stride, 1),
        ("dilation", layer.dilation, 1),
        ("output padding", more, 0),
        ("groups", (plain.groups,), 1),
    ):
        if {*values} - {usual}:
            lines.append(f"{what} {' x '.join(map(str, values))}")
    how = "direct convolution"
    if chosen.transforms is not None:
        used = chosen.transforms[-plain.rank :]
        how = f"Winograd's {' x '.join(f'F({one.m}, {one.r})' for one in used)}"
    lines.append(f"computed by {how}{', all phases at once' if transposed else ''}")
    if problem.epilogue.means:
        lines.append(f"followed by {problem.epilogue.means}")
    lines.append(
        f"multiplications {chosen.multiplications:,} (direct: {asked.direct_multiplications:,})"
    )
    return lines
