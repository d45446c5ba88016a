"""Kernels of devices in OpenCL C, of version 1.2 or later."""

from __future__ import annotations

from typing import ClassVar

from winogen.codegen.devices.c_like import SHARED, Printer, letters
from winogen.codegen.devices.expressions import Expr, Load
from winogen.codegen.devices.lines import indented
from winogen.codegen.devices.statements import DeviceArray, DeviceKernel, DeviceRoutine, Store

_NUMBER = {"float32": "float", "float16": "half"}


class OpenCL(Printer):
    """Spells kernels in OpenCL C.

    Numbers of float16 are read and written by functions that every device has, unless they are
    computed with, too: that takes the extension cl_khr_fp16.
    """

    functions: ClassVar[dict[str, str]] = {"min": "fmin", "max": "fmax"}
    reserved: ClassVar[frozenset[str]] = frozenset(
        "kernel global local constant private half pipe uniform double float"
        " int uint long short char bool void size_t vec_step dot cross length distance normalize"
        " step sign mix clamp select shuffle any all barrier prefetch".split()
    )

    def type_of(self, real: bool, lanes: int = 1, dtype: str = "") -> str:
        kind = _NUMBER[dtype or self.arithmetic] if real else "int"
        return f"{kind}{lanes}" if lanes > 1 else kind

    def splat(self, text: str, lanes: int) -> str:
        return f"({self.type_of(True, lanes)})({text})"

    def identity(self, of: str, axis: int) -> str:
        return f"get_{of}_id({axis})"

    def vector(self, parts: list[str]) -> str:
        return f"({self.type_of(True, len(parts))})({', '.join(parts)})"

    def lane(self, vector: str, lane: int) -> str:
        return f"{vector}.s{lane:x}"

    def barrier(self) -> str:
        return "barrier(CLK_LOCAL_MEM_FENCE);"

    # ---- arrays ------------------------------------------------------------------------------

    def _is_half(self, array: str) -> bool:
        """Whether an array's numbers are float16 that are computed with in float32."""
        return self.dtypes[array] == "float16" and self.arithmetic == "float32"

    def _vector(self, array: str, index: Expr, lanes: int, const: str) -> str:
        """A vector within an array, aligned."""
        space = "local" if self.places[array] == SHARED else "global"
        kind = self.type_of(True, lanes, self.dtypes[array])
        return f"*({const}{space} {kind} *)&{self.at(array, index)}"

    def load(self, load: Load) -> str:
        array, lanes = load.array, load.lanes
        place = self.at(array, load.index)
        if self._is_half(array):
            if lanes == 1:
                return f"vload_half({self.expression(load.index)}, {self.name(array)})"
            return f"vload{'a' * load.aligned}_half{lanes}(0, &{place})"
        if lanes == 1:
            text = place
        elif load.aligned:
            text = self._vector(array, load.index, lanes, "const ")
        else:
            text = f"vload{lanes}(0, &{place})"
        same = self.dtypes[array] == self.arithmetic
        return text if same else f"convert_{self.type_of(True, lanes)}({text})"

    def store(self, store: Store) -> str:
        array, lanes = store.array, store.value.lanes
        place = self.at(array, store.index)
        text = self.real(store.value, lanes)
        if self._is_half(array):
            if lanes == 1:
                return f"vstore_half({text}, {self.expression(store.index)}, {self.name(array)});"
            return f"vstore{'a' * store.aligned}_half{lanes}({text}, 0, &{place});"
        if self.dtypes[array] != self.arithmetic:
            text = f"convert_{self.type_of(True, lanes, self.dtypes[array])}({text})"
        if lanes == 1:
            return f"{place} = {text};"
        if store.aligned:
            return f"{self._vector(array, store.index, lanes, '')} = {text};"
        return f"vstore{lanes}({text}, 0, &{place});"

    # ---- functions and files -----------------------------------------------------------------

    def routine_head(self, one: DeviceRoutine) -> str:
        kind, (source, target) = self.type_of(True, one.lanes), letters(one)
        return f"static inline void {self.name(one.name)}(const {kind} *{source}, {kind} *{target})"

    def kernel(self, kernel: DeviceKernel) -> str:
        self.enter(kernel)
        group = ", ".join(map(str, kernel.group))
        shared = []
        for one in kernel.shared:
            aligned = (
                f" __attribute__((aligned({self.bytes_of(one.lanes)})))" if one.lanes > 1 else ""
            )
            shared.append(f"local {self.type_of(True)} {self.name(one.name)}[{one.size}]{aligned};")
        # Packing computes in pairs of floats, which products that are not rounded would spoil.
        exactly = ["#pragma OPENCL FP_CONTRACT OFF"] if kernel in self.work.pack else []
        return "\n".join(
            [
                *self.comment(kernel.comment),
                f"kernel __attribute__((reqd_work_group_size({group})))",
                f"void {self.name(kernel.name)}(",
                *indented(self.parameters(kernel)),
                "{",
                *indented([*exactly, *shared, *self.statements(kernel.body, 96)]),
                "}",
            ]
        )

    def parameter(self, array: DeviceArray, const: bool) -> str:
        kind = self.type_of(True, 1, array.dtype)
        return f"{'const ' * const}global {kind} *restrict {self.name(array.name)}"

    def head(self) -> list[str]:
        if self.arithmetic == "float16":
            return ["#pragma OPENCL EXTENSION cl_khr_fp16 : enable"]
        return []
