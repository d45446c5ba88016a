"""Weights as kernels read them, made on this CPU for any other, for files that carry them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from winogen.codegen.calls import used_only
from winogen.codegen.render import cdef, render
from winogen.conv import memory
from winogen.conv.execute import Environment, kernel
from winogen.kernels.kind import Spec
from winogen.records import TARGETS, Target
from winogen.toolchain import host_targets
from winogen.toolchain.loader import Build


def packed(spec: Spec, fields: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the bytes that a kernel packs: its own C makes them, or portable C for another CPU.

    ``fields``: of a call. ``arrays``: contiguous, by what the spec packs, in the types that its C
    reads; what is not there is NULL. Raises BuildError, and OutOfMemory.
    """
    assert sys.byteorder == "little"
    library = kernel(spec, Environment.now()) if _runs_here(spec.target) else _foreign(spec).load()
    ffi = library.ffi
    struct = ffi.new("winogen_conv *", fields)
    result = memory.aligned(struct.packed_bytes, f"packed {spec.packs[0]}")
    result[:] = 0  # between arrays are gaps, and files are reproducible
    given = [arrays.get(name) for name in spec.packs]
    pointers = [ffi.NULL if one is None else ffi.from_buffer(one) for one in (*given, result)]
    library.lib.winogen_pack(struct, *pointers, 1)
    return result


def _runs_here(target: Target) -> bool:
    return any(
        target.name == one.name and target.extensions <= one.extensions for one in host_targets()
    )


# Of a text that ends early, some is for what would follow.
_UNUSED = "".join(
    f'#pragma GCC diagnostic ignored "-Wunused-{what}"\n'
    for what in ("function", "variable", "const-variable", "macros")
)


def _foreign(spec: Any) -> Build:
    """Portable C that packs filters as the kernel of another target reads them, and ends there.

    What comes behind, for which C may lack the types of the target, is nothing that packing calls.
    """
    same = replace(spec, target=spec.target.portable)
    text = render(same)
    end = text.index("\n}\n", text.index("void winogen_pack(")) + len("\n}\n")
    part = _UNUSED + used_only(text[:end])
    return Build(part, cdef(same), TARGETS["generic"], (), f"{spec.name}_pack")
