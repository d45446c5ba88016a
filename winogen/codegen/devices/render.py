"""Kernels as text in a language of devices.

>>> from winogen.codegen.devices.expressions import Id, Load
>>> from winogen.codegen.devices.statements import DeviceArray, DeviceKernel, Let, Store, DeviceWork
>>> x, y = DeviceArray("x", (64,), "float32", "input"), DeviceArray("y", (64,), "float32", "output")
>>> i = Let("i", Id("global", 0))
>>> twice = Store("y", i.read, 2 * Load("x", i.read))
>>> kernel = DeviceKernel("twice", "y = 2 x.", (x,), (y,), (64, 1, 1), (8, 1, 1), (i, twice))
>>> text = render(DeviceWork((), (kernel,)), "opencl")
>>> print(text[text.index("kernel ") :])
kernel __attribute__((reqd_work_group_size(8, 1, 1)))
void twice(
    const global float *restrict x, // 64
    global float *restrict y)       // 64
{
    const int i = get_global_id(0);
    y[i] = 2.0f * x[i];
}
<BLANKLINE>
"""

from __future__ import annotations

from importlib import import_module

from winogen.codegen.devices.statements import DeviceWork
from winogen.errors import InvalidValue

# The class of each language, in the module of the same name.
LANGUAGES = {"opencl": "OpenCL", "cuda": "Cuda", "wgsl": "Wgsl", "c": "C"}


def render(work: DeviceWork, language: str) -> str:
    """Return the text of all kernels in a language: one of `LANGUAGES`.

    A kernel is a function of the same name; its parameters are those of `DeviceKernel.parameters`.
    The same work gives the same text. Raises InvalidValue for another language, or for arrays of
    one name that are not the same.
    """
    if language not in LANGUAGES:
        raise InvalidValue(f"language: got {language!r}; allowed: {', '.join(LANGUAGES)}")
    names = [one.name for one in work.arrays]
    if twice := {name for name in names if names.count(name) > 1}:
        raise InvalidValue(
            f"arrays: got several that are named {min(twice)}; allowed: one of a name"
        )
    module = import_module(f"winogen.codegen.devices.{language}")
    return getattr(module, LANGUAGES[language])(work).source()
