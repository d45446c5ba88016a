"""Kernels of devices in C11 with GNU vectors: work-groups and their items are loops.

What stands between two barriers is a loop over the items of a group of its own. A variable of the
item's own that is used on both sides of a barrier has an element for each item.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from winogen.codegen.devices.c_like import Printer, letters
from winogen.codegen.devices.expressions import (
    Element,
    Expr,
    FunctionCall,
    Id,
    Load,
    Name,
    Select,
)
from winogen.codegen.devices.lines import broken, indented
from winogen.codegen.devices.phases import Items, Lives, split
from winogen.codegen.devices.statements import (
    Barrier,
    Declare,
    DeviceArray,
    DeviceKernel,
    DeviceRoutine,
    ForLoop,
    If,
    Let,
    Statement,
    Store,
)
from winogen.codegen.devices.walk import defined
from winogen.codegen.templates import Context

_NUMBER = {"float32": "float", "float16": "half"}


@dataclass(frozen=True, kw_only=True)
class CHelpersContext(Context, templates=("devices/c.c.j2",)):
    """What the template of helper functions knows: which of them the kernels need."""

    needed: dict[str, list[Any]]  # by kind
    bytes_of: dict[str, int]  # of a number of each type


class C(Printer):
    """Spells kernels in C.

    Raises InvalidValue for a barrier that not all items of a group may reach.
    """

    joins_by_bit: ClassVar[bool] = True
    reserved: ClassVar[frozenset[str]] = frozenset(
        "auto break case char const continue default do double else enum extern float for goto half"
        " if inline int long register restrict return short signed sizeof static struct switch"
        " typedef union unsigned void volatile while exp expm1 log1p tanh erfc fma min max".split()
    )

    def __init__(self, work: object) -> None:
        super().__init__(work)  # type: ignore[arg-type]
        self.needed: set[tuple[object, ...]] = set()  # helpers: load, store, splat, select, call
        self.items = Items((1, 1, 1), (1, 1, 1), set())

    # ---- types and numbers -------------------------------------------------------------------

    def type_of(self, real: bool, lanes: int = 1, dtype: str = "") -> str:
        kind = _NUMBER[dtype or self.arithmetic] if real else "int"
        if kind == "half":
            self.needed.add(("half",))
        if lanes > 1:
            self.needed.add(("type", kind, lanes))
        return f"{kind}{lanes}" if lanes > 1 else kind

    def suffixed(self, digits: str) -> str:
        return digits + {"float32": "f", "float16": "f16"}[self.arithmetic]

    def splat(self, text: str, lanes: int) -> str:
        self.needed.add(("splat", self.type_of(True), lanes))
        return f"splat{lanes}({text})"

    def vector(self, parts: list[str]) -> str:
        return f"({self.type_of(True, len(parts))}){{{', '.join(parts)}}}"

    def let(self, one: Let) -> str:
        if isinstance(one.value, Id):
            one = Let(one.name, self.items.identity(one.value.of, one.value.axis))
        return super().let(one)

    def barrier(self) -> str:
        return ""  # of a group of one item

    def unrolled(self) -> list[str]:
        return []

    def function(self, value: FunctionCall) -> str:
        name, lanes = value.function, value.lanes
        if not value.real:
            self.needed.add(("integers", name))
            return name
        name = {"min": "fmin", "max": "fmax"}.get(name, name)
        if lanes > 1:
            self.type_of(True, lanes)
            self.needed.add(("call", self.type_of(True), name, len(value.arguments), lanes))
        return f"{name}{lanes}" if lanes > 1 else f"{name}f"

    def select(self, value: Select) -> tuple[str, int]:
        if value.condition.lanes == 1:
            return super().select(value)
        lanes = value.lanes
        self.type_of(True, lanes)
        self.needed.add(("type", self._mask, lanes))
        self.needed.add(("select", self.type_of(True), self._mask, lanes))
        yes, no = (self.real(one, lanes) for one in (value.yes, value.no))
        return f"select{lanes}({self.expression(value.condition)}, {yes}, {no})", 9

    @property
    def _mask(self) -> str:
        """What comparisons of vectors are made of."""
        return {"float32": "int", "float16": "short"}[self.arithmetic]

    # ---- arrays ------------------------------------------------------------------------------

    def _converted(self, text: str, lanes: int, dtype: str) -> str:
        """A vector of numbers of another type as one of this."""
        return f"__builtin_convertvector({text}, {self.type_of(True, lanes, dtype)})"

    def load(self, load: Load) -> str:
        lanes, dtype = load.lanes, self.dtypes[load.array]
        place = self.at(load.array, load.index)
        if lanes == 1:
            return place
        kind = self.type_of(True, lanes, dtype)
        if load.aligned:
            text = f"*(const {kind} *)&{place}"
        else:
            self.needed.add(("load", _NUMBER[dtype], lanes))
            text = f"load_{kind}(&{place})"
        return text if dtype == self.arithmetic else self._converted(text, lanes, self.arithmetic)

    def store(self, store: Store) -> str:
        lanes, dtype = store.value.lanes, self.dtypes[store.array]
        place, text = self.at(store.array, store.index), self.real(store.value, store.value.lanes)
        if lanes == 1:
            return f"{place} = {text};"
        kind = self.type_of(True, lanes, dtype)
        text = text if dtype == self.arithmetic else self._converted(text, lanes, dtype)
        if store.aligned:
            return f"*({kind} *)&{place} = {text};"
        self.needed.add(("store", _NUMBER[dtype], lanes))
        return f"store_{kind}(&{place}, {text});"

    # ---- variables with an element for each item ---------------------------------------------

    def _spelled(self, value: Expr) -> tuple[str, int]:
        match value:
            case Name(name) if name in self.lives.spread:
                return self.element(Element(name, ())), 8
            case Id(of, axis):
                return super()._spelled(self.items.identity(of, axis))
        return super()._spelled(value)

    def element(self, value: Element) -> str:
        item = (self.items.item,) if value.array in self.lives.spread else ()
        return self.name(value.array) + self.indices((*item, *value.indices))

    def phases(self, body: Sequence[Statement], columns: int) -> list[str]:
        """The lines of statements of a group: loops over its items between barriers."""
        lines = []
        for one in body:
            if isinstance(one, Declare) and one.name in self.lives.spread:
                lines.append(self._for_each_item(one))
            if isinstance(one, Let) and one.name in self.lives.spread:
                lines.append(
                    self._for_each_item(Declare(one.name, (), one.value.lanes, one.value.real))
                )
        for phase in split(body) if self.items.count > 1 else [tuple(body)]:
            if isinstance(phase, tuple):
                lines += self.phase(phase, columns)
            elif isinstance(phase, ForLoop):
                head = self.loop_head(phase)
                lines += [f"{head} {{", *indented(self.phases(phase.body, columns - 4)), "}"]
            elif isinstance(phase, If):
                lines.append(f"if ({self.expression(phase.condition)}) {{")
                lines += indented(self.phases(phase.body, columns - 4))
                if phase.otherwise:
                    lines.append("} else {")
                    lines += indented(self.phases(phase.otherwise, columns - 4))
                lines.append("}")
        return lines

    def _for_each_item(self, one: Declare) -> str:
        """The definition of a variable with an element for each item of a group."""
        sizes = "".join(f"[{size}]" for size in (self.items.count, *one.shape))
        return f"{self.type_of(one.real, one.lanes)} {self.name(one.name)}{sizes};"

    def phase(self, body: Sequence[Statement], columns: int) -> list[str]:
        """What all items do between two barriers."""
        above = [
            self.let(one) for one in body if isinstance(one, Let) and self.lives.is_uniform(one)
        ]
        rest = [one for one in body if not self.lives.is_uniform(one)]
        loops = self.items.loops("local")
        lines = self.statements(self.lives.computed(rest), columns - 4 * len(loops))
        for loop in loops if lines else ():
            lines = [f"{loop} {{", *indented(lines), "}"]
        return [*above, *lines]

    def statement(self, one: Statement, columns: int = 100) -> list[str]:
        if isinstance(one, Barrier):
            return []
        if isinstance(one, Let) and one.name in self.lives.spread:
            return broken(self.assign(one.read, one.value), columns)
        if isinstance(one, Declare) and one.name in self.lives.spread:
            return [] if one.value is None else self.filled(one, columns)
        return super().statement(one, columns)

    # ---- functions and files -----------------------------------------------------------------

    def routine_head(self, one: DeviceRoutine) -> str:
        kind, (source, target) = self.type_of(True, one.lanes), letters(one)
        return f"static inline void {self.name(one.name)}(const {kind} *{source}, {kind} *{target})"

    def parameter(self, array: DeviceArray, const: bool) -> str:
        kind = self.type_of(True, 1, array.dtype)
        return f"{'const ' * const}{kind} *restrict {self.name(array.name)}"

    def kernel(self, kernel: DeviceKernel) -> str:
        self.enter(kernel)
        self.items = Items(kernel.items, kernel.group, defined(kernel.body) | set(self.dtypes))
        self.lives = Lives(kernel) if self.items.count > 1 else Lives(replace(kernel, body=()))
        shared = [
            f"{self.type_of(True)} {self.name(one.name)}[{one.size}]"
            + f" __attribute__((aligned({self.bytes_of(one.lanes)})))" * (one.lanes > 1)
            + ";"
            for one in kernel.shared
        ]
        depth = 4 * len(self.items.loops("group"))
        lines = [*shared, *self.phases(kernel.body, 96 - depth)]
        for loop in self.items.loops("group"):
            lines = [f"{loop} {{", *indented(lines), "}"]
        return "\n".join(
            [
                *self.comment(kernel.comment),
                f"void {self.name(kernel.name)}(",
                *indented(self.parameters(kernel)),
                "{",
                *indented(lines),
                "}",
            ]
        )

    def helpers(self) -> list[str]:
        kinds = ("half", "type", "load", "store", "splat", "select", "call", "integers")
        every = sorted(self.needed, key=repr)
        needed = {kind: [one[1:] for one in every if one[0] == kind] for kind in kinds}
        return [CHelpersContext(needed=needed, bytes_of=_BYTES).render()]


_BYTES = {"float": 4, "half": 2, "int": 4, "short": 2}
