"""Answers for another instruction set: plans and structs of kernels that are not loaded here."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from functools import lru_cache
from typing import Any

import cffi

from winogen.codegen.render import cdef
from winogen.conv.cuts import Candidate
from winogen.conv.problem import Problem
from winogen.conv.quantized import QConv2d
from winogen.kernels.kind import Spec
from winogen.kernels.spec import KernelSpec
from winogen.onnx.answers import Answer, Bound, QuantizedAnswer
from winogen.onnx.operators import ADDRESS
from winogen.records import Machine, Target


class Code:
    """What is known of a kernel without compiling it: the struct of its calls."""

    def __init__(self, spec: Spec):
        self.spec = spec
        self.ffi = cffi.FFI()
        self.ffi.cdef(cdef(spec))

    def struct(self, fields: dict[str, Any]) -> Any:
        """Return the struct of one call."""
        return self.ffi.new("winogen_conv *", fields)


@lru_cache(maxsize=1024)
def _code(spec: Spec) -> Code:
    return Code(spec)


class Draft(Answer):
    """An answer that nobody can run here, as the default machine of a target would be planned."""

    def __init__(self, ffi: Any, question: Any, shared: MutableMapping[tuple, Any], target: Target):
        self._target = target
        super().__init__(ffi, question, shared)

    def planned_for(self) -> tuple[Target, Machine]:
        """Return what the kernels are planned for."""
        return self._target, Machine()

    def get_ready(self, specs: Iterable[KernelSpec]) -> None:
        """Compile nothing."""

    def calls_of(self, problem: Problem, ranked: list[Candidate]) -> Iterable[Bound]:
        """Return the kernel calls of a layer by the first of these ways."""
        calls = []
        for work in ranked[0].works(problem):
            spec = KernelSpec.of(work)
            code = _code(spec)
            calls.append((code, code.struct(spec.values(work)), work))
            self.workspace = max(self.workspace, spec.workspace_bytes(work))
        return calls

    def packed(self, code: Any, struct: Any, asked: Any) -> dict[str, int]:
        """Return where the packed weights will be, in every call."""
        if self.question.array[asked.weight].constant:
            return self.at(ADDRESS, 0)
        return super().packed(code, struct, asked)

    def function(self, code: Any, name: str, struct: str, field: str) -> Any:
        """Return none: there is no library."""
        return self.ffi.NULL


class QuantizedDraft(Draft, QuantizedAnswer):
    """The same of a quantized node."""

    def call_of(
        self, conv: QConv2d, shape: tuple[int, ...], dtype: str
    ) -> tuple[Bound, dict[str, int]]:
        """Return the kernel call, and where the packed weights will be."""
        work = conv.ranked(shape, dtype, *self.planned_for())[0].work
        code = _code(work.spec)
        return (code, code.struct(work.spec.values(work)), work), self.at(ADDRESS, 0)
