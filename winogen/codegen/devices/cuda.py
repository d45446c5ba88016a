"""Kernels of devices in CUDA C++."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from winogen.codegen.devices.c_like import Printer, letters
from winogen.codegen.devices.expressions import (
    Binary,
    Element,
    Expr,
    FunctionCall,
    Load,
    Name,
    Select,
)
from winogen.codegen.devices.lines import indented
from winogen.codegen.devices.real import digits
from winogen.codegen.devices.statements import (
    Declare,
    DeviceArray,
    DeviceKernel,
    DeviceRoutine,
    DeviceWork,
    Store,
)
from winogen.codegen.templates import Context

_NUMBER = {"float32": "float", "float16": "half"}
_INFINITY = {"float32": "__int_as_float(0x7f800000)", "float16": "__ushort_as_half(0x7c00)"}


@dataclass(frozen=True, kw_only=True)
class CudaHelpersContext(Context, templates=("devices/cuda.cu.j2",)):
    """What the template of helper functions knows: which of them the kernels need."""

    needed: dict[str, list[Any]]  # by kind
    real: str  # the type of numbers that are computed with


class Cuda(Printer):
    """Spells kernels in CUDA C++, with vectors that are structures."""

    reserved: ClassVar[frozenset[str]] = frozenset(
        "auto bool break case catch char class const constexpr continue default delete do double"
        " else enum explicit export extern false float for friend goto half if inline int long"
        " mutable namespace new operator private protected public register return short signed"
        " sizeof static struct switch template this throw true try typedef typename union unsigned"
        " using virtual void volatile while load store select min max Vector".split()
    )

    def __init__(self, work: DeviceWork) -> None:
        super().__init__(work)
        self.needed: set[tuple[object, ...]] = set()  # vectors and functions of theirs
        self.group = (1, 1, 1)
        self.exactly = False

    # ---- types and numbers -------------------------------------------------------------------

    def type_of(self, real: bool, lanes: int = 1, dtype: str = "") -> str:
        kind = _NUMBER[dtype or self.arithmetic] if real else "int"
        if kind == "half":
            self.needed.add(("half",))
        if lanes > 1:
            self.needed.add(("vector", lanes))
        return f"vec{lanes}" if lanes > 1 else kind

    def literal(self, value: float) -> str:
        text = digits(value, self.arithmetic)
        if "INFINITY" in text:
            return text.replace("INFINITY", _INFINITY[self.arithmetic])
        return self.suffixed(text)

    def suffixed(self, digits: str) -> str:
        return f"{digits}f" if self.arithmetic == "float32" else f"half({digits}f)"

    def zeros(self, one: Declare, zero: str) -> str:
        return "{}"

    def identity(self, of: str, axis: int) -> str:
        which = "xyz"[axis]
        group, item = f"blockIdx.{which}", f"threadIdx.{which}"
        if of == "global":
            size = self.group[axis]
            return f"{group} * {size} + {item}" if size > 1 else group
        return group if of == "group" else item

    def barrier(self) -> str:
        return "__syncthreads();"

    def binary(self, value: Binary) -> tuple[str, int]:
        """As in other languages, but while weights are packed products are rounded."""
        if self.exactly and value.op == "*" and value.real and value.lanes == 1:
            return f"__fmul_rn({self.real(value.left)}, {self.real(value.right)})", 8
        return super().binary(value)

    def assign(self, target: Name | Element, value: Expr) -> str:
        if self.exactly and isinstance(value, Binary) and value.op == "*":
            return f"{self.expression(target)} = {self.real(value, target.lanes)};"
        return super().assign(target, value)

    def function(self, value: FunctionCall) -> str:
        if not value.real:
            return value.function
        name = {"min": "fmin", "max": "fmax"}.get(value.function, value.function)
        if value.lanes > 1:
            self.type_of(True, value.lanes)
            self.needed.add(("call", name, len(value.arguments)))
        return f"{name}f" if value.lanes == 1 and self.arithmetic == "float32" else f"{name}_of"

    def select(self, value: Select) -> tuple[str, int]:
        if value.condition.lanes == 1:
            return super().select(value)
        self.needed.add(("select",))
        yes, no = (self.real(one, value.lanes) for one in (value.yes, value.no))
        return f"select({self.expression(value.condition)}, {yes}, {no})", 9

    # ---- arrays ------------------------------------------------------------------------------

    def load(self, load: Load) -> str:
        place = self.at(load.array, load.index)
        if load.lanes == 1:
            same = self.dtypes[load.array] == self.arithmetic
            return place if same else f"{self.type_of(True)}({place})"
        call = f"load{'_aligned' * load.aligned}"
        self.type_of(True, load.lanes)
        self.needed.add((call,))
        return f"{call}<{load.lanes}>(&{place})"

    def store(self, store: Store) -> str:
        lanes, place = store.value.lanes, self.at(store.array, store.index)
        text = self.real(store.value, lanes)
        if lanes == 1:
            dtype = self.dtypes[store.array]
            text = text if dtype == self.arithmetic else f"{self.type_of(True, 1, dtype)}({text})"
            return f"{place} = {text};"
        call = f"store{'_aligned' * store.aligned}"
        self.needed.add((call,))
        return f"{call}(&{place}, {text});"

    # ---- functions and files -----------------------------------------------------------------

    def routine_head(self, one: DeviceRoutine) -> str:
        kind, (source, target) = self.type_of(True, one.lanes), letters(one)
        head = f"static __device__ __forceinline__ void {self.name(one.name)}"
        return f"{head}(const {kind} *{source}, {kind} *{target})"

    def parameter(self, array: DeviceArray, const: bool) -> str:
        kind = self.type_of(True, 1, array.dtype)
        return f"{'const ' * const}{kind} *__restrict__ {self.name(array.name)}"

    def kernel(self, kernel: DeviceKernel) -> str:
        self.enter(kernel)
        self.group = kernel.group
        # Packing computes in pairs of floats, which products that are not rounded would spoil.
        self.exactly = kernel in self.work.pack and self.arithmetic == "float32"
        x, y, z = kernel.group
        shared = [
            f"__shared__ {f'__align__({self.bytes_of(one.lanes)}) ' if one.lanes > 1 else ''}"
            f"{self.type_of(True)} {self.name(one.name)}[{one.size}];"
            for one in kernel.shared
        ]
        return "\n".join(
            [
                *self.comment(kernel.comment),
                f'extern "C" __global__ __launch_bounds__({x * y * z})',
                f"void {self.name(kernel.name)}(",
                *indented(self.parameters(kernel)),
                "{",
                *indented([*shared, *self.statements(kernel.body, 96)]),
                "}",
            ]
        )

    def helpers(self) -> list[str]:
        kinds = "half vector select load load_aligned store store_aligned call".split()
        every = sorted(self.needed, key=repr)
        needed = {kind: [one[1:] for one in every if one[0] == kind] for kind in kinds}
        real = _NUMBER[self.arithmetic]
        text = CudaHelpersContext(needed=needed, real=real).render()
        return [text] if text.strip() else []
