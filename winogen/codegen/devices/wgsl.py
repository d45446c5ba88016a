"""Kernels of devices in WGSL, the language of WebGPU.

All kernels of a work are entry points of one module, which holds its arrays: the binding of each is
its place among `DeviceWork.arrays`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar

from winogen.codegen.ctext import NamedConstant, Spelling
from winogen.codegen.devices.c_like import Printer, letters
from winogen.codegen.devices.expressions import (
    Binary,
    Expr,
    FunctionCall,
    Id,
    Load,
    Number,
    Select,
    is_condition,
)
from winogen.codegen.devices.lines import indented
from winogen.codegen.devices.real import digits
from winogen.codegen.devices.statements import (
    Declare,
    DeviceArray,
    DeviceKernel,
    DeviceRoutine,
    DeviceWork,
    Let,
    Store,
    TransformCall,
)
from winogen.codegen.devices.walk import all_expressions
from winogen.codegen.functions import FUNCTIONS
from winogen.codegen.templates import Context
from winogen.errors import Unsupported

_NUMBER = {"float32": "f32", "float16": "f16"}
_LARGEST = {"float32": "3.4028235e38", "float16": "65504.0"}
_IDENTITIES = {
    "group": "workgroup_id",
    "local": "local_invocation_id",
    "global": "global_invocation_id",
}
_GROUPS = 65535  # along an axis, as WebGPU promises


@dataclass(frozen=True, kw_only=True)
class WgslHelpersContext(Context, templates=("devices/wgsl.wgsl.j2",)):
    """What the template of helper functions knows: which of them the kernels need."""

    moved: list[Any]  # vectors that are loaded or stored
    called: list[Any]  # functions that the language lacks, with their lanes
    functions: set[str]  # of these functions
    real: str  # the type of numbers that are computed with
    number: dict[str, str]  # the name of each type
    constants: Any  # of these functions


class Wgsl(Printer):
    """Spells kernels in WGSL.

    There are no infinite numbers in its text: the largest finite one stands for infinity. Raises
    Unsupported for vectors of more than 4 lanes, and for more than 65,535 groups along an axis.
    """

    braces: ClassVar[bool] = True
    joins_by_bit: ClassVar[bool] = True
    counter: ClassVar[str] = "var"
    reserved: ClassVar[frozenset[str]] = frozenset(
        "alias array break case const const_assert continue continuing default diagnostic discard"
        " else enable f16 f32 false fn for i32 if let loop override ptr requires return struct"
        " switch true u32 var vec2 vec4 while active as asm async attribute auto become cast catch"
        " class common compile concept crate delete demote do dynamic enum explicit export extends"
        " extern external filter final friend from get goto highp impl implements import inline"
        " interface layout lowp macro match mediump meta mod module move mut namespace new nil null"
        " of operator package packoffset partition pass patch point precise precision premerge priv"
        " protected pub public readonly ref register resource restrict self set shared sizeof"
        " smooth snorm static std subroutine super target template this throw trait try type"
        " typedef typename union unless unorm unsafe unsized use using varying virtual volatile"
        " where with writeonly yield min max exp fma select".split()
    )

    def __init__(self, work: DeviceWork) -> None:
        super().__init__(work)
        self.moved: set[tuple[str, str, str, int]] = set()  # vectors loaded and stored
        self.called: set[tuple[str, int]] = set()  # functions, and of how many lanes
        self.renamed: dict[str, str] = {}  # arrays of work-groups, which stand beside all others

    # ---- types and numbers -------------------------------------------------------------------

    def type_of(self, real: bool, lanes: int = 1, dtype: str = "") -> str:
        kind = _NUMBER[dtype or self.arithmetic] if real else "i32"
        if lanes > 4:
            raise Unsupported(f"vectors of WGSL: got {lanes} lanes; allowed: at most 4")
        return f"vec{lanes}<{kind}>" if lanes > 1 else kind

    def literal(self, value: float) -> str:
        return digits(value, self.arithmetic).replace("INFINITY", _LARGEST[self.arithmetic])

    def suffixed(self, digits: str) -> str:
        return digits

    def converted(self, value: Expr, level: int = 0) -> str:
        return f"{self.type_of(True)}({self.expression(value)})"

    def lane(self, vector: str, lane: int) -> str:
        return f"{vector}.{'xyzw'[lane]}"

    def identity(self, of: str, axis: int) -> str:
        return f"i32({_IDENTITIES[of]}.{'xyz'[axis]})"

    def _spelled(self, value: Expr) -> tuple[str, int]:
        if isinstance(value, Id):
            return self.identity(value.of, value.axis), 8
        return super()._spelled(value)

    def barrier(self) -> str:
        return "workgroupBarrier();"

    def unrolled(self) -> list[str]:
        return []

    def binary(self, value: Binary) -> tuple[str, int]:
        """As in other languages, but what vectors compare has the lanes of both."""
        if value.op not in ("&&", "||") and is_condition(value) and value.lanes > 1:
            sides = (self.real(side, value.lanes, 5) for side in (value.left, value.right))
            return f" {value.op} ".join(sides), 4
        return super().binary(value)

    def function(self, value: FunctionCall) -> str:
        name, lanes = value.function, value.lanes
        if not value.real or name in ("min", "max", "fma", "exp"):
            return name
        self.called.add((name, lanes))
        return f"{name}_of{lanes if lanes > 1 or self.arithmetic == 'float16' else ''}"

    def select(self, value: Select) -> tuple[str, int]:
        no, yes = (
            self.real(one, value.lanes) if value.real else self.expression(one)
            for one in (value.no, value.yes)
        )
        return f"select({no}, {yes}, {self.expression(value.condition)})", 8

    # ---- arrays ------------------------------------------------------------------------------

    def name(self, name: str) -> str:
        return super().name(self.renamed.get(name, name))

    def load(self, load: Load) -> str:
        lanes, index = load.lanes, self.expression(load.index)
        if lanes > 1:
            self.type_of(True, lanes)
            dtype = self.dtypes[load.array]
            self.moved.add(("load", self.name(load.array), dtype, lanes))
            return f"load{lanes}_{self.name(load.array)}({index})"
        text = f"{self.name(load.array)}[{index}]"
        same = self.dtypes[load.array] == self.arithmetic
        return text if same else f"{self.type_of(True)}({text})"

    def store(self, store: Store) -> str:
        lanes, array = store.value.lanes, self.name(store.array)
        dtype = self.dtypes[store.array]
        index, text = self.expression(store.index), self.real(store.value, lanes)
        if lanes > 1:
            self.type_of(True, lanes)
            self.moved.add(("store", array, dtype, lanes))
            return f"store{lanes}_{array}({index}, {text});"
        text = text if dtype == self.arithmetic else f"{self.type_of(True, 1, dtype)}({text})"
        return f"{array}[{index}] = {text};"

    # ---- statements --------------------------------------------------------------------------

    def let(self, one: Let) -> str:
        kind = f": {self.type_of(one.value.real)}" if isinstance(one.value, Number) else ""
        text = self.value(one.value, one.value.real, one.value.lanes)
        return f"let {self.name(one.name)}{kind} = {text};"

    def declared(self, one: Declare) -> str:
        return f"var {self.name(one.name)}: {self._kind(one)}"

    def zeros(self, one: Declare, zero: str) -> str:
        return f"{self._kind(one)}()"

    def _kind(self, one: Declare) -> str:
        kind = self.type_of(one.real, one.lanes)
        for size in reversed(one.shape):
            kind = f"array<{kind}, {size}>"
        return kind

    def transform(self, one: TransformCall) -> str:
        source, target = (
            self.name(array) if isinstance(array, str) else self.element(array)
            for array in (one.source, one.target)
        )
        return f"{target} = {self.name(one.function)}({source});"

    # ---- functions and files -----------------------------------------------------------------

    def spelling(self, lanes: int) -> Spelling:
        return Spelling(
            local="let {name} = {value};",
            store="{array}[{index}] = {value};",
            zero=self.real(Number(0), lanes),
            constant=self.constant,
        )

    def constant_line(self, constant: NamedConstant) -> str:
        exact = f" // {constant.exact}" if constant.exact else ""
        return f"const {constant.name}: {self.type_of(True)} = {constant.initialiser};{exact}"

    def _array(self, one: DeviceRoutine, count: int) -> str:
        return f"array<{self.type_of(True, one.lanes)}, {count}>"

    def routine_head(self, one: DeviceRoutine) -> str:
        source = f"{letters(one)[0]}: {self._array(one, len(one.program.inputs))}"
        target = self._array(one, len(one.program.outputs))
        return f"fn {self.name(one.name)}({source}) -> {target}"

    def routine_body(self, one: DeviceRoutine, lines: list[str]) -> list[str]:
        target = letters(one)[1]
        kind = self._array(one, len(one.program.outputs))
        return [f"var {target}: {kind};", *lines, f"return {target};"]

    def parameter(self, array: DeviceArray, const: bool) -> str:
        access = "read" if const else "read_write"
        kind = self.type_of(True, 1, array.dtype)
        return f"var<storage, {access}> {self.name(array.name)}: array<{kind}>;"

    def kernel(self, kernel: DeviceKernel) -> str:
        self.enter(kernel)
        for axis, (items, size) in enumerate(zip(kernel.items, kernel.group, strict=True)):
            if items // size > _GROUPS:
                raise Unsupported(
                    f"groups of {kernel.name} along {'xyz'[axis]}: got {items // size} in WGSL;"
                    f" allowed: at most {_GROUPS}"
                )
        self.renamed = {one.name: f"{kernel.name}_{one.name}" for one in kernel.shared}
        body = self.statements(kernel.body, 96)
        # A layout that is made of the text has what is named in it, and a host binds everything.
        words = set(re.findall(r"\w+", "\n".join(body)))
        names = [self.name(one.name) for one in kernel.parameters]
        body = [*(f"_ = &{name};" for name in names if name not in words), *body]
        used = {one.of for one in all_expressions(kernel.body) if isinstance(one, Id)}
        ids = [
            f"@builtin({name}) {name}: vec3<u32>" for of, name in _IDENTITIES.items() if of in used
        ]
        head = [f"fn {self.name(kernel.name)}({', '.join(ids)})"]
        if len(head[0]) > 100:
            commas = [f"{one}," for one in ids[:-1]]
            head = [f"fn {self.name(kernel.name)}(", *indented([*commas, f"{ids[-1]})"])]
        lines = [
            *self.comment(kernel.comment),
            f"@compute @workgroup_size({', '.join(map(str, kernel.group))})",
            *head,
            "{",
            *indented(body),
            "}",
        ]
        shared = [
            f"var<workgroup> {self.name(one.name)}: array<{self.type_of(True)}, {one.size}>;"
            for one in kernel.shared
        ]
        self.renamed = {}
        return "\n".join([*shared, "", *lines] if shared else lines)

    def head(self) -> list[str]:
        dtypes = {self.arithmetic, *(one.dtype for one in self.work.arrays)}
        return ["", "enable f16;"] if "float16" in dtypes else []

    def helpers(self) -> list[str]:
        kernels = (*self.work.pack, *self.work.kernels)
        written = {one.name for kernel in kernels for one in kernel.writes}
        texts = [self.parameter(one, one.name not in written) for one in self.work.arrays]
        width = max(map(len, texts))
        arrays = [
            f"@group(0) @binding({i}) {text:<{width}} // {' x '.join(map(str, one.shape))}"
            for i, (text, one) in enumerate(zip(texts, self.work.arrays, strict=True))
        ]
        text = WgslHelpersContext(
            moved=sorted(self.moved),
            called=sorted(self.called),
            functions={name for name, _ in self.called},
            real=_NUMBER[self.arithmetic],
            number=_NUMBER,
            constants=FUNCTIONS["float"],
        ).render()
        return ["\n".join(arrays), text] if text.strip() else ["\n".join(arrays)]
