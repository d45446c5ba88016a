"""Kernels with a program that runs them: a folder of files that need no part of winogen.

Templates of the programs are below ``csrc/devices``; here is what they call arrays and launches.
"""

from __future__ import annotations

import keyword
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from winogen.codegen.ctext import commented
from winogen.codegen.devices.render import render
from winogen.codegen.devices.statements import DeviceArray, DeviceKernel, DeviceWork
from winogen.codegen.devices.walk import arrays_used
from winogen.codegen.templates import Context
from winogen.errors import InvalidValue

_CTYPES = {
    "opencl": {"float32": "float", "float16": "uint16_t"},
    "cuda": {"float32": "float", "float16": "__half"},
    "wgsl": {"float32": "Float32Array", "float16": "Uint16Array"},
}
# The files of each backend: what follows the name, and the template. The kernels come first.
_FILES = {
    "opencl": {
        ".h": "host.h",
        ".c": "host.c",
        "_test.c": "test.c",
        "Makefile": "Makefile",
        "README.md": "README.md",
    },
    "cuda": {
        ".h": "host.h",
        "_test.cpp": "test.cpp",
        "Makefile": "Makefile",
        "README.md": "README.md",
    },
    "wgsl": {
        ".js": "host.js",
        "_test.js": "test.js",
        "_test.html": "test.html",
        ".py": "host.py",
        "_test.py": "test.py",
        "README.md": "README.md",
    },
}
BACKENDS = {"opencl": "OpenCL", "cuda": "CUDA", "wgsl": "WebGPU"}
_SUFFIX = {"opencl": ".cl", "cuda": ".cu", "wgsl": ".wgsl"}
# What the programs call their own.
_TAKEN = frozenset(
    "add add_after arrays bias block buffers bytes check code compile context count data device"
    " enqueue entries error event events fill file first_device found fwrite group half here input"
    " items kernel kernels launch launches layer main name needs next number numbers numpy output"
    " own pack packed packing path queue read read_file right slopes stream test text upload vec2"
    " vec4 vec8 vec16 weights wgpu zeros".split()
)
_GIVEN = ("weights", "bias", "slopes")
_CALLED = ("input", "add", "add_after", "output")


@dataclass(frozen=True)
class HostBuffer:
    """An array as programs see it."""

    name: str
    role: str
    dtype: str
    ctype: str  # what a number is in the language of the host
    sizes: str
    count: int
    nbytes: int
    binding: int  # its place among all arrays

    @property
    def padded_bytes(self) -> int:
        """Its bytes, a multiple of 4, as WebGPU has them."""
        return -(-self.nbytes // 4) * 4


@dataclass(frozen=True)
class HostLaunch:
    """A launch of a kernel."""

    name: str
    arrays: tuple[HostBuffer, ...]  # its parameters
    used: tuple[HostBuffer, ...]  # ... that it reads or writes anything of
    items: tuple[int, int, int]
    group: tuple[int, int, int]

    @property
    def groups(self) -> tuple[int, ...]:
        """How many work-groups there are along each axis."""
        return tuple(n // size for n, size in zip(self.items, self.group, strict=True))


@dataclass(frozen=True, kw_only=True)
class HostContext(Context, templates=tuple(f"devices/{one}/*.j2" for one in BACKENDS)):
    """What templates of programs know of a layer and of the kernels that they run."""

    name: str  # of the layer, and as macros have it
    NAME: str
    command: str
    about: list[str]
    buffers: list[HostBuffer]  # of all arrays
    given: list[HostBuffer]  # of what is given once
    called: list[HostBuffer]  # of what comes with each call
    kept: list[HostBuffer]  # of what is given once and read by each call
    own: list[HostBuffer]  # that stay on the device
    tested: list[HostBuffer]  # whose numbers the self-test has
    public: list[HostBuffer]
    weights: HostBuffer
    output: HostBuffer
    has_bias: bool
    packing: list[HostLaunch]
    kernels: list[HostLaunch]
    half: bool  # whether an array is float16
    workspace_bytes: int
    packed_bytes: int
    limit: str  # of the error of the self-test
    text: str  # of the kernels


def host_files(
    work: DeviceWork,
    backend: str,
    name: str,
    *,
    about: Sequence[str],
    command: str,
    shapes: Mapping[str, tuple[int, ...]],
    numbers: Mapping[str, bytes],
    limit: float,
) -> dict[str, str | bytes]:
    """Return the files of a layer on a device by name.

    ``about``: lines that say what it computes. ``shapes``: of arrays by their roles, as callers
    know them; kernels of signals have planes of one row. ``numbers``: those of the self-test, as
    they lie in memory: of what is given once (weights, bias, slopes), of what a call reads, and of
    its output. ``limit``: how far from that, measured by its largest number, an output may be.
    Raises InvalidValue for a name that the programs have already.
    """
    if name in {*_TAKEN, *keyword.kwlist, *(one.name for one in work.arrays)}:
        raise InvalidValue(
            f"name: got {name!r}, which the generated programs use; allowed: another identifier"
        )
    if backend == "cuda":
        # Kernels are functions of the program that they are linked with.
        work = replace(
            work,
            pack=tuple(_renamed(one, name) for one in work.pack),
            kernels=tuple(_renamed(one, name) for one in work.kernels),
        )
    arrays = (replace(one, shape=shapes.get(one.role, one.shape)) for one in work.arrays)
    buffers = {one.name: _buffer(one, backend, binding) for binding, one in enumerate(arrays)}
    by_role = {one.role: one for one in buffers.values() if one.role in (*_GIVEN, *_CALLED)}
    given = [by_role[role] for role in _GIVEN if role in by_role]
    called = [by_role[role] for role in _CALLED if role in by_role]
    read = {one.name for kernel in work.kernels for one in kernel.parameters}
    kept = [one for one in given if one.name in read]
    own = [one for one in buffers.values() if one.role in ("packed", "workspace")] + kept
    tested = [*given, *called]
    text = render(work, backend)
    context = HostContext(
        name=name,
        NAME=name.upper(),
        command=commented(command),
        about=[commented(line) for line in about],
        buffers=list(buffers.values()),
        given=given,
        called=called,
        kept=kept,
        own=own,
        tested=tested,
        public=[*given, *called],
        weights=by_role["weights"],
        output=by_role["output"],
        has_bias="bias" in by_role,
        packing=[_launch(one, buffers) for one in work.pack],
        kernels=[_launch(one, buffers) for one in work.kernels],
        half=any(one.dtype == "float16" for one in buffers.values()),
        workspace_bytes=work.workspace_bytes,
        packed_bytes=sum(one.nbytes for one in own if one.role == "packed"),
        limit=f"{limit:.1e}",
        text=text,
    )
    files: dict[str, str | bytes] = {}
    if backend == "cuda":
        files[f"{name}.cu"] = context.render("devices/cuda/host.cu.j2")
    else:
        files[name + _SUFFIX[backend]] = text
    for suffix, page in _FILES[backend].items():
        file = suffix if suffix in ("Makefile", "README.md") else name + suffix
        files[file] = context.render(f"devices/{backend}/{page}.j2")
    files[f"{name}_test.bin"] = b"".join(numbers[one.name] for one in tested)
    return files


def _renamed(kernel: DeviceKernel, name: str) -> DeviceKernel:
    return replace(kernel, name=f"{name}_{kernel.name}")


def _buffer(one: DeviceArray, backend: str, binding: int) -> HostBuffer:
    sizes = " x ".join(map(str, one.shape))
    ctype = _CTYPES[backend][one.dtype]
    return HostBuffer(
        one.name, one.role, one.dtype, ctype, sizes, prod(one.shape), one.nbytes, binding
    )


def _launch(kernel: DeviceKernel, buffers: Mapping[str, HostBuffer]) -> HostLaunch:
    arrays = tuple(buffers[one.name] for one in kernel.parameters)
    names = arrays_used(kernel.body)
    used = tuple(one for one in arrays if one.name in names)
    return HostLaunch(kernel.name, arrays, used, kernel.items, kernel.group)
