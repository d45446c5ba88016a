"""Convolution on devices of OpenCL: graphics processors, and all else that has a driver for it.

`Conv1d`, `Conv2d` and their transposed twins are for many calls with the same weights. They take
the options of the classes of `winogen` with these names as far as they mean something there. The
extra `opencl` brings the package pyopencl.
"""

from typing import TYPE_CHECKING

from winogen.lazy import attribute_of

if TYPE_CHECKING:  # for editors and type checkers; at run time see _PUBLIC
    from winogen.opencl.devices import DeviceInfo as DeviceInfo
    from winogen.opencl.layer import Conv1d as Conv1d
    from winogen.opencl.layer import Conv2d as Conv2d
    from winogen.opencl.plan import DevicePlan as DevicePlan
    from winogen.opencl.transposed import ConvTranspose1d as ConvTranspose1d
    from winogen.opencl.transposed import ConvTranspose2d as ConvTranspose2d

_PUBLIC = {
    "Conv1d": "winogen.opencl.layer",
    "Conv2d": "winogen.opencl.layer",
    "ConvTranspose1d": "winogen.opencl.transposed",
    "ConvTranspose2d": "winogen.opencl.transposed",
    "DeviceInfo": "winogen.opencl.devices",
    "DevicePlan": "winogen.opencl.plan",
}
__all__ = [
    "Conv1d",
    "Conv2d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "DeviceInfo",
    "DevicePlan",
]

if not TYPE_CHECKING:  # who checks types would let any name pass
    __getattr__ = attribute_of(__name__, _PUBLIC)


def __dir__() -> list[str]:
    return __all__
