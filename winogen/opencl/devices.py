"""What is known of a device before anything runs there: its limits, as its driver tells them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from winogen.errors import InvalidType, Unsupported
from winogen.extras import require

# What to do where no driver is installed. PoCL computes on the CPU.
CURE = "install the driver of your device, or PoCL: Debian's package pocl-opencl-icd"


class NoDevice(Unsupported):
    """There is no device of OpenCL; the message says what to install."""


@dataclass(frozen=True)
class DeviceInfo:
    """The limits of a device, and what its numbers and vectors are like.

    The defaults are what nearly every device has: kernels for a device that is not here keep to
    them.

    >>> DeviceInfo().group, DeviceInfo().local_bytes
    (256, 32768)
    """

    name: str = "any device"
    driver: str = ""  # its version
    kind: str = "gpu"  # or "cpu", "accelerator"
    compute_units: int = 8
    megahertz: int = 1000
    group: int = 256  # the most work-items of a work-group
    items: tuple[int, int, int] = (256, 256, 64)  # ... along each axis
    local_bytes: int = 32768  # of memory that a work-group shares
    local_is_near: bool = True  # whether that is nearer than what all share
    largest_buffer: int = 1 << 27  # bytes
    memory_bytes: int = 1 << 29
    cache_bytes: int = 1 << 18  # between memory and compute units
    vector: int = 4  # lanes of float that the driver prefers
    lanes: int = 16  # the most of a vector that its language has
    half: bool = False  # whether it computes in float16

    @classmethod
    def of(cls, device: Any) -> DeviceInfo:
        """Return what a `pyopencl.Device` tells of itself."""
        cl = platform()
        kinds = cl.device_type
        kind = "gpu" if device.type & kinds.GPU else "cpu" if device.type & kinds.CPU else ""
        sizes: list[int] = [*device.max_work_item_sizes, 1, 1]
        return cls(
            name=device.name.strip(),
            driver=f"{device.platform.version.strip()}; {device.driver_version.strip()}",
            kind=kind or "accelerator",
            compute_units=device.max_compute_units,
            megahertz=device.max_clock_frequency,
            group=device.max_work_group_size,
            items=(sizes[0], sizes[1], sizes[2]),
            local_bytes=device.local_mem_size,
            local_is_near=device.local_mem_type == cl.device_local_mem_type.LOCAL,
            largest_buffer=device.max_mem_alloc_size,
            memory_bytes=device.global_mem_size,
            cache_bytes=device.global_mem_cache_size,
            vector=max(1, device.preferred_vector_width_float),
            half="cl_khr_fp16" in device.extensions.split(),
        )

    @property
    def wave(self) -> int:
        """Work-items that a compute unit runs as one: of graphics processors what is usual."""
        return 32 if self.kind == "gpu" else 1

    @property
    def registers(self) -> int:
        """Vectors that a work-item has room for without waiting for memory: what is usual.

        CPUs have 16, and 32 where vectors are of 16 numbers. Graphics processors have more, but
        with 64 for each item enough items are there to hide what memory takes.
        """
        if self.kind == "cpu":
            return 32 if self.vector == 16 else 16
        return 64

    @property
    def item_operations(self) -> float:
        """Numbers that one work-item computes in a second; 0 where the driver tells no clock."""
        return 1e6 * self.megahertz * max(1, self.vector)

    @property
    def key(self) -> str:
        """What measurements on it are kept by: its name and its driver's version."""
        return f"{self.name}; {self.driver}"

    def __str__(self) -> str:
        return f"{self.name}, {self.compute_units} compute units"


def platform() -> Any:
    """Return the module pyopencl; raises MissingPackage, which says how to install it."""
    return require("pyopencl", "opencl")


def devices() -> list[Any]:
    """Return every `pyopencl.Device` here, those of graphics processors first.

    Raises MissingPackage without pyopencl; a system without drivers has none.
    """
    cl = platform()
    try:
        found = [one for platform in cl.get_platforms() for one in platform.get_devices()]
    except cl.Error:  # no driver at all is an error there
        return []
    return sorted(found, key=lambda one: not one.type & cl.device_type.GPU)


def context_of(context: Any = None) -> Any:
    """Return a `pyopencl.Context`: the given one, or one of the first of `devices`.

    ``context``: None, a context, or a device. Raises MissingPackage, NoDevice, and InvalidType for
    anything else.
    """
    cl = platform()
    if isinstance(context, cl.Context):
        return context
    if isinstance(context, cl.Device):
        return cl.Context([context])
    if context is not None:
        raise InvalidType(
            f"context: got {type(context).__name__}; allowed: None, a pyopencl.Context or a "
            "pyopencl.Device"
        )
    found = devices()
    if not found:
        raise NoDevice(f"context: got None, and no device of OpenCL is here; {CURE}")
    return cl.Context(found[:1])
