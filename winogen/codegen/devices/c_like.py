"""Kernels of devices in languages like C: expressions and statements as text.

`Printer` has what these languages share. Each derives from it and says what differs: types,
literals, loads and stores, which item this is, and the head of a kernel. Nothing is computed here.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from winogen.codegen.ctext import NamedConstant, Spelling, routine
from winogen.codegen.devices.expressions import (
    Binary,
    Element,
    Expr,
    FunctionCall,
    Id,
    Lane,
    Load,
    Name,
    Number,
    Select,
    Splat,
    Vector,
)
from winogen.codegen.devices.lines import COLUMNS, block, broken, indented
from winogen.codegen.devices.real import digits
from winogen.codegen.devices.statements import (
    Assign,
    Barrier,
    Declare,
    DeviceArray,
    DeviceKernel,
    DeviceRoutine,
    DeviceWork,
    ForLoop,
    If,
    Let,
    Remark,
    Statement,
    Store,
    TransformCall,
)
from winogen.codegen.devices.walk import variable, variables_of
from winogen.codegen.dialects import single
from winogen.codegen.headers import title
from winogen.program.kinds import KINDS

if TYPE_CHECKING:
    from winogen.algebra.scalar import Scalar

# Operators that bind alike, from those that bind least.
_LEVELS = (("||",), ("&&",), ("==",), ("<", "<=", ">", ">="), ("+", "-"), ("*", "/", "//", "%"))
_LEVEL = {op: level for level, ops in enumerate(_LEVELS, 1) for op in ops}
_UNARY = len(_LEVELS) + 1
_ATOM = _UNARY + 1

SHARED = "shared"  # where an array lies that the items of a work-group share


class Printer:
    """Spells the kernels of a `DeviceWork` in a language.

    ``used`` collects the names of helper functions that the text calls.
    """

    reserved: ClassVar[frozenset[str]] = frozenset()  # words of the language that name nothing
    functions: ClassVar[dict[str, str]] = {}  # of reals, where they are not called as here
    braces: ClassVar[bool] = False  # whether bodies of one line are in braces, too
    joins_by_bit: ClassVar[bool] = False  # whether & and | join vectors of conditions

    def __init__(self, work: DeviceWork) -> None:
        self.work = work
        self.arithmetic = work.arithmetic
        self.used: set[str] = set()
        self.dtypes: dict[str, str] = {}  # of the arrays that the kernel in hand knows
        self.places: dict[str, str] = {}

    # ---- what languages say for themselves ---------------------------------------------------

    def type_of(self, real: bool, lanes: int = 1, dtype: str = "") -> str:
        """The type of a value."""
        raise NotImplementedError

    def literal(self, value: float) -> str:
        """A real number of the arithmetic."""
        text = digits(value, self.arithmetic)
        return text if text.lstrip("-") in ("INFINITY", "NAN") else self.suffixed(text)

    def splat(self, text: str, lanes: int) -> str:
        """A vector whose lanes are all the same."""
        return f"{self.type_of(True, lanes)}({text})"

    def vector(self, parts: list[str]) -> str:
        """A vector of single numbers."""
        return f"{self.type_of(True, len(parts))}({', '.join(parts)})"

    def identity(self, of: str, axis: int) -> str:
        """Which group or item this is, an integer of whichever type the language has for it."""
        raise NotImplementedError

    def load(self, load: Load) -> str:
        """What stands in an array."""
        raise NotImplementedError

    def store(self, store: Store) -> str:
        """The statement that writes to an array."""
        raise NotImplementedError

    def lane(self, vector: str, lane: int) -> str:
        """One lane of a vector."""
        return f"{vector}[{lane}]"

    def barrier(self) -> str:
        """The statement that waits for the items of a work-group."""
        raise NotImplementedError

    def routine_head(self, one: DeviceRoutine) -> str:
        """The head of the function of a transform, whose arrays are named by `letters`."""
        raise NotImplementedError

    def kernel(self, kernel: DeviceKernel) -> str:
        """A whole kernel."""
        raise NotImplementedError

    # ---- names and comments ------------------------------------------------------------------

    def name(self, name: str) -> str:
        """A name as it stands in the text: words of the language get an underscore."""
        return f"{name}_" if name in self.reserved else name

    def comment(self, text: str, columns: int = COLUMNS - 3) -> list[str]:
        """A comment in lines that fit."""
        paragraphs = [
            textwrap.wrap(one, columns, subsequent_indent=" " * (len(one) - len(one.lstrip())))
            or [""]
            for one in text.strip().split("\n")
        ]
        return [f"// {line}".rstrip() for lines in paragraphs for line in lines]

    def enter(self, kernel: DeviceKernel) -> None:
        """Learn the arrays of a kernel."""
        self.dtypes = {one.name: one.dtype for one in kernel.parameters}
        self.places = {one.name: "global" for one in kernel.parameters}
        for one in kernel.shared:
            self.dtypes[one.name] = self.arithmetic
            self.places[one.name] = SHARED

    def bytes_of(self, lanes: int) -> int:
        """The bytes of a vector of the arithmetic."""
        return lanes * {"float32": 4, "float16": 2}[self.arithmetic]

    # ---- expressions -------------------------------------------------------------------------

    def expression(self, value: Expr, level: int = 0) -> str:
        """Return an expression, in parentheses if it binds less than ``level``."""
        text, own = self._spelled(value)
        return f"({text})" if own < level else text

    def real(self, value: Expr, lanes: int = 1, level: int = 0) -> str:
        """Return a value as a real of so many lanes."""
        if lanes > 1 and value.lanes == 1:
            return self.splat(self.real(value), lanes)
        if isinstance(value, Number):
            text = self.literal(float(value.value))
            return f"({text})" if text[0] == "-" and level > _UNARY else text
        if not value.real:
            return self.converted(value, level)
        return self.expression(value, level)

    def converted(self, value: Expr, level: int = 0) -> str:
        """An integer as a real."""
        text = f"({self.type_of(True)}){self.expression(value, _ATOM)}"
        return f"({text})" if level > _UNARY else text

    def _spelled(self, value: Expr) -> tuple[str, int]:
        """An expression, and how much it binds."""
        match value:
            case Number(number):
                text = self.literal(number) if value.real else str(number)
                return text, _UNARY if text[0] == "-" else _ATOM
            case Name(name):
                return self.name(name), _ATOM
            case Id(of, axis):
                text = self.identity(of, axis)
                return f"(int)({text})" if " " in text else f"(int){text}", _UNARY
            case Element():
                return self.element(value), _ATOM
            case Load():
                return self.load(value), _UNARY
            case Lane(vector) if vector.lanes == 1:
                return self._spelled(vector)
            case Lane(vector, lane):
                return self.lane(self.expression(vector, _ATOM), lane), _ATOM
            case Splat(one, 1):
                return self.real(one, 1, _ATOM), _ATOM
            case Splat(one, lanes):
                return self.splat(self.real(one), lanes), _UNARY
            case Vector(parts):
                return self.vector([self.real(one) for one in parts]), _ATOM
            case Select(Number(known), yes, no):
                one = yes if known else no
                if value.real:
                    return self.real(one, value.lanes, _ATOM), _ATOM
                return self._spelled(one)
            case Select():
                return self.select(value)
            case FunctionCall():
                return self.call(value), _ATOM
            case Binary():
                return self.binary(value)
        raise TypeError(f"expression: got {value!r}; allowed: the records of `expressions`")

    def binary(self, value: Binary) -> tuple[str, int]:
        """An operation on two, and how much it binds."""
        op, left, right = value.op, value.left, value.right
        if self.joins_by_bit and op in ("&&", "||") and value.lanes > 1:
            return f"({self.expression(left)}) {op[0]} ({self.expression(right)})", 2
        level = _LEVEL[op]
        real = left.real or right.real
        if op == "-" and left == Number(0) and not left.real:
            text = self.real(right, level=_UNARY) if real else self.expression(right, _UNARY)
            return f"-{text}", _UNARY
        if not real and op == "+" and isinstance(right, Number) and right.value < 0:
            return f"{self.expression(left, level)} - {-right.value}", level
        if not real and op == "+" and isinstance(left, Number) and left.value < 0:
            return f"{self.expression(right, level)} - {-left.value}", level
        # Sums and products of integers have no order; those of reals do, and quotients.
        joined = not real and op in ("+", "*") and not _divides(right)
        inner = level if joined or op in ("&&", "||") else level + 1
        first, second = (
            (self.real(left, 1, self.inner_level(op, left, level)), self.real(right, 1, inner))
            if real
            else (
                self.expression(left, self.inner_level(op, left, level)),
                self.expression(right, self.inner_level(op, right, inner)),
            )
        )
        return f"{first} {'/' if op == '//' else op} {second}", level

    def inner_level(self, op: str, operand: Expr, level: int) -> int:
        """How much an operand has to bind: && within || is in parentheses, as compilers wish."""
        mixed = op == "||" and isinstance(operand, Binary) and operand.op == "&&"
        return level + 2 if mixed else level

    def call(self, value: FunctionCall) -> str:
        """A call of a function."""
        lanes = value.lanes
        if value.real:
            arguments = [self.real(one, lanes) for one in value.arguments]
        else:
            arguments = [self.expression(one) for one in value.arguments]
        return f"{self.function(value)}({', '.join(arguments)})"

    def function(self, value: FunctionCall) -> str:
        """What a function is called."""
        return self.functions.get(value.function, value.function) if value.real else value.function

    def select(self, value: Select) -> tuple[str, int]:
        """One of two, and how much that binds."""
        yes, no = (
            self.real(one, value.lanes, 1) if value.real else self.expression(one, 1)
            for one in (value.yes, value.no)
        )
        return f"{self.expression(value.condition, 1)} ? {yes} : {no}", 0

    def element(self, value: Element) -> str:
        """An element of an array of the work-item's own."""
        return self.name(value.array) + self.indices(value.indices)

    def indices(self, indices: Iterable[Expr]) -> str:
        """Indices in brackets."""
        return "".join(f"[{self.expression(one)}]" for one in indices)

    def at(self, array: str, index: Expr) -> str:
        """A number in an array."""
        return f"{self.name(array)}[{self.expression(index)}]"

    # ---- statements --------------------------------------------------------------------------

    def statements(self, body: Sequence[Statement], columns: int = COLUMNS) -> list[str]:
        """Return the lines of statements that may be so wide."""
        return [line for one in _joined(body) for line in self.statement(one, columns)]

    def statement(self, one: Statement, columns: int = COLUMNS) -> list[str]:
        """Return the lines of a statement."""
        match one:
            case Remark(text):
                return self.comment(text, columns - 3)
            case Let():
                return broken(self.let(one), columns)
            case Declare():
                return self.declare(one, columns)
            case Assign(target, value):
                return broken(self.assign(target, value), columns)
            case Store():
                return broken(self.store(one), columns)
            case Barrier():
                return [self.barrier()]
            case TransformCall():
                return [self.transform(one)]
            case ForLoop():
                return self.loop(one, columns)
            case If():
                return self.condition(one, columns)
        raise TypeError(f"statement: got {one!r}; allowed: the records of `statements`")

    def value(self, value: Expr, real: bool, lanes: int) -> str:
        """A value for a variable of a type."""
        return self.real(value, lanes) if real else self.expression(value)

    def let(self, one: Let) -> str:
        """A name for a value."""
        value = one.value
        kind = self.type_of(value.real, value.lanes)
        if isinstance(value, Id):
            text = self.identity(value.of, value.axis)
        else:
            text = self.value(value, value.real, value.lanes)
        return f"const {kind} {self.name(one.name)} = {text};"

    def declare(self, one: Declare, columns: int) -> list[str]:
        """A variable or an array, with what it begins with."""
        head = self.declared(one)
        if one.value is None:
            return [f"{head};"]
        text = self.value(one.value, one.real, one.lanes)
        if not one.shape:
            return broken(f"{head} = {text};", columns)
        if is_zero(one.value):
            return [f"{head} = {self.zeros(one, text)};"]
        return [f"{head};", *self.filled(one, columns)]

    def declared(self, one: Declare) -> str:
        """A variable or an array with its type."""
        sizes = "".join(f"[{size}]" for size in one.shape)
        return f"{self.type_of(one.real, one.lanes)} {self.name(one.name)}{sizes}"

    def zeros(self, one: Declare, zero: str) -> str:
        """What an array begins with all of whose elements are zero."""
        axes = len(one.shape)
        return "{" * axes + zero + "}" * axes

    def filled(self, one: Declare, columns: int) -> list[str]:
        """Loops that give every element of an array the value that it begins with."""
        sizes = {f"{one.name}_{axis}": size for axis, size in enumerate(one.shape)}
        indices = (Name(name) if size > 1 else Number(0) for name, size in sizes.items())
        assert one.value is not None
        body: Statement = Assign(Element(one.name, (*indices,), one.real, one.lanes), one.value)
        for name, size in reversed(sizes.items()):
            if size > 1:
                body = ForLoop(name, Number(0), Number(size), Number(1), (body,), unroll=True)
        return self.statement(body, columns)

    def assign(self, target: Name | Element, value: Expr) -> str:
        """A new value; where that is the old one and something else, by ``+=`` and its like."""
        text = self.expression(target)
        if isinstance(value, Binary) and value.op in ("+", "-", "*"):
            other = None
            if value.left == target:
                other = value.right
            elif value.op != "-" and value.right == target:
                other = value.left
            if other is not None and other.lanes <= target.lanes:
                spelled = self.real(other) if target.real else self.expression(other)
                return f"{text} {value.op}= {spelled};"
        return f"{text} = {self.value(value, target.real, target.lanes)};"

    def transform(self, one: TransformCall) -> str:
        """A call of a transform."""
        source, target = (
            self.name(array) if isinstance(array, str) else self.element(array)
            for array in (one.source, one.target)
        )
        return f"{self.name(one.function)}({source}, {target});"

    def loop(self, one: ForLoop, columns: int) -> list[str]:
        """A loop."""
        head = self.loop_head(one)
        lines = block(head, self.statements(one.body, columns - 4), self.braces)
        return [*self.unrolled(), *lines] if one.unroll else lines

    def loop_head(self, one: ForLoop) -> str:
        """What begins a loop."""
        name = self.name(one.name)
        step = "++" if one.step == Number(1) else f" += {self.expression(one.step)}"
        return (
            f"for ({self.counter} {name} = {self.expression(one.start)};"
            f" {name} < {self.expression(one.stop, 5)}; {name}{step})"
        )

    counter: ClassVar[str] = "int"  # what begins the definition of a loop's variable

    def unrolled(self) -> list[str]:
        """What asks for a loop to be unrolled."""
        return ["#pragma unroll"]

    def condition(self, one: If, columns: int) -> list[str]:
        """What is done by a condition; one that is known is none, see `_taken`."""
        if isinstance(one.condition, Number):
            taken = one.body if one.condition.value else one.otherwise
            return ["{", *indented(self.statements(taken, columns - 4)), "}"]
        *above, head = broken(f"if ({self.expression(one.condition)})", columns - 2)
        yes = self.statements(one.body, columns - 4)
        no = self.statements(one.otherwise, columns - 4)
        braces = self.braces or bool(above) or max(len(yes), len(no)) > 1
        lines = [*above, *block(head, yes, braces)]
        if not no:
            return lines
        if len(one.otherwise) == 1 and isinstance(one.otherwise[0], If):
            rest = [f"else {no[0]}", *no[1:]]
        else:
            rest = block("else", no, braces)
        return [*lines[:-1], f"}} {rest[0]}", *rest[1:]] if braces else [*lines, *rest]

    # ---- functions and files -----------------------------------------------------------------

    def source(self) -> str:
        """The whole text: a comment, helper functions, transforms and kernels in their order."""
        kernels = [self.kernel(one) for one in (*self.work.pack, *self.work.kernels)]
        routines = [self.routine(one) for one in self.work.routines]
        head = [*self.comment(summary(self.work)), *self.head()]
        parts = ["\n".join(head), *self.helpers(), *routines, *kernels]
        return "\n\n".join(part.strip("\n") for part in parts) + "\n"

    def head(self) -> list[str]:
        """What stands at the top of the text, below its comment."""
        return []

    def helpers(self) -> list[str]:
        """The helper functions that were used."""
        return []

    def parameter(self, array: DeviceArray, const: bool) -> str:
        """A parameter of a kernel, without a comma."""
        raise NotImplementedError

    def parameters(self, kernel: DeviceKernel) -> list[str]:
        """The lines of a kernel's parameters, each with a comment that says its sizes."""
        written = {one.name for one in kernel.writes}
        *texts, last = (self.parameter(one, one.name not in written) for one in kernel.parameters)
        texts = [*(f"{text}," for text in texts), f"{last})"]
        width = max(map(len, texts))
        return [
            f"{text:<{width}} // {' x '.join(map(str, one.shape))}"
            for text, one in zip(texts, kernel.parameters, strict=True)
        ]

    def routine(self, one: DeviceRoutine) -> str:
        """The function of a transform, with its equations above."""
        source, target = letters(one)
        text = routine(one.program, source, target, self.spelling(one.lanes))
        constants = [self.constant_line(constant) for constant in text.constants]
        lines = self.routine_body(one, [*constants, *text.lines])
        kind = next((kind for kind in KINDS.values() if kind.source == source), None)
        says = title(kind, one.program) if kind else f"{one.name}:"
        return "\n".join(
            [
                *self.comment(says),
                "//",
                *(f"//     {equation}" for equation in text.equations),
                self.routine_head(one),
                "{",
                *(f"    {line}" for line in lines),
                "}",
            ]
        )

    def constant_line(self, constant: NamedConstant) -> str:
        """The definition of a constant, with its exact value if that is another."""
        exact = f" // {constant.exact}" if constant.exact else ""
        return f"const {self.type_of(True)} {constant.name} = {constant.initialiser};{exact}"

    def routine_body(self, one: DeviceRoutine, lines: list[str]) -> list[str]:
        """The statements of the function of a transform."""
        return lines

    def spelling(self, lanes: int) -> Spelling:
        """How the parts of transforms are spelled."""
        kind = self.type_of(True, lanes)
        return Spelling(
            local=f"const {kind} {{name}} = {{value}};",
            store="{array}[{index}] = {value};",
            zero=self.real(Number(0), lanes),
            constant=self.constant,
        )

    def constant(self, name: str, value: Scalar) -> NamedConstant:
        """A constant of a transform."""
        told = single(name, value)
        return NamedConstant(name, self.suffixed(told.initialiser), told.exact)

    def suffixed(self, digits: str) -> str:
        """The digits of a real as a number of the arithmetic."""
        return digits + {"float32": "f", "float16": "h"}[self.arithmetic]


def _joined(body: Sequence[Statement]) -> list[Statement]:
    """Statements without what known conditions leave out, and without values that nobody reads.

    A variable that gets its first value at once is defined with it.
    """
    found: list[Statement] = []
    for one in _taken(body):
        last = found[-1] if found else None
        if isinstance(one, Assign) and variable(one.target) not in variables_of(one.value):
            if isinstance(last, Declare) and not last.shape and one.target == last.read:
                found[-1] = replace(last, value=one.value)
                continue
            if isinstance(last, Assign) and last.target == one.target:
                found.pop()
        found.append(one)
    return found


def _taken(body: Iterable[Statement]) -> Iterator[Statement]:
    """Statements, and those of known conditions that define no names."""
    for one in body:
        if isinstance(one, If) and isinstance(one.condition, Number):
            inner = one.body if one.condition.value else one.otherwise
            if not any(isinstance(other, Let | Declare) for other in inner):
                yield from _taken(inner)
                continue
        yield one


def is_zero(value: Expr) -> bool:
    """Whether a value is known to be zero, in all lanes."""
    while isinstance(value, Splat):
        value = value.value
    return isinstance(value, Number) and value.value == 0


def letters(one: DeviceRoutine) -> tuple[str, str]:
    """Return what a transform reads and what it writes, by the letters of equations: d, v."""
    source = one.program.inputs[0].rstrip("0123456789")
    targets = {kind.source: kind.target for kind in KINDS.values()}
    return source, targets.get(source, "out")


def summary(work: DeviceWork) -> str:
    """Return what the comment at the top of the text says: the kernels, and how they are launched.

    Each is named with its items along the axes and those of a work-group.
    """

    def line(kernel: DeviceKernel) -> str:
        axes = max((axis for axis, size in enumerate(kernel.items, 1) if size > 1), default=1)
        items, group = (
            " x ".join(map(str, sizes[:axes])) for sizes in (kernel.items, kernel.group)
        )
        return f"    {kernel.name}: {items} items in groups of {group}"

    lines = ["Generated by winogen; do not edit.", ""]
    if work.pack:
        lines += ["Once for the weights:", *map(line, work.pack)]
        lines += ["For each call, in this order:", *map(line, work.kernels)]
    else:
        lines += ["In this order:", *map(line, work.kernels)]
    return "\n".join(lines)


def _divides(value: Expr) -> bool:
    return isinstance(value, Binary) and value.op in ("//", "%")
