"""Answers for another instruction set: calls of kernels that are not loaded here."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import cffi
import numpy as np

from winogen.codegen.render import cdef
from winogen.conv.execute import Call
from winogen.kernels.kind import Spec


class Code:
    """What is known of a kernel without compiling it: the struct of its calls."""

    lib = None

    def __init__(self, spec: Spec):
        self.spec = spec
        self.ffi = cffi.FFI()
        self.ffi.cdef(cdef(spec))

    def pack(self, struct: Any, threads: int, *arrays: np.ndarray | None) -> np.ndarray:
        """Return nothing: whoever loads the kernel packs the arrays."""
        return np.empty(0, np.uint8)


@lru_cache(maxsize=1024)
def _code(spec: Spec) -> Code:
    return Code(spec)


class DraftCall(Call):
    """A call that nobody can make here."""

    def __init__(self, spec: Spec, work: Any, seconds: float | None = None):
        self.kernel: Any = _code(spec)
        self.work, self.threads = work, work.threads
        self.workspace_bytes = spec.workspace_bytes(work)
        self.struct = self.kernel.ffi.new("winogen_conv *", spec.values(work))
