"""One transform along one axis as one module of Verilog: combinational, or in stages.

Every wire has the bits that its exact range needs, and no more. With ``stages`` a value is
registered at the end of each of them, and all outputs belong to the inputs of so many cycles ago.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from winogen.codegen.ctext import Factor, infix, routine
from winogen.codegen.templates import Context
from winogen.codegen.verilog import words
from winogen.codegen.verilog.circuit import Cases, Circuit, Sum, circuit
from winogen.errors import InvalidValue
from winogen.program.kinds import KINDS
from winogen.program.widths import Range

if TYPE_CHECKING:
    from winogen.program.ir import Program

_COLUMNS = 100


@dataclass(frozen=True)
class Port:
    """A port of two's complement: its name, and which values it takes."""

    name: str
    range: Range

    @property
    def bits(self) -> int:
        """The width, the least that holds the range."""
        return self.range.bits


@dataclass(frozen=True, kw_only=True)
class ModuleText(Context, templates=("verilog/module.v.j2",)):
    """What the template of a module knows."""

    head: Sequence[str]  # its comment, in lines
    name: str
    stages: int
    inputs: Sequence[str]
    outputs: Sequence[str]
    blocks: Sequence[Any]  # what is registered at the end of each stage
    assigns: Sequence[str]
    unused: Sequence[str]  # bits that nothing reads
    given: str  # the condition that inputs are what they may be; "": their widths say so
    bounds: Sequence[str]  # what is then true of outputs


@dataclass(frozen=True)
class Module:
    """A module: its text, its ports in order, and what it costs before synthesis.

    Ports ``clk`` and ``enable`` stand before these where ``stages`` is not 0.
    """

    name: str
    text: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    stages: int  # cycles from inputs to outputs
    adders: int
    depth: int  # adders on the longest way


def module(
    program: Program,
    name: str,
    kind: str,
    inputs: Range | Sequence[Range],
    *,
    stages: int = 0,
    dropped: int = 0,
    head: Sequence[str] = (),
) -> Module:
    """Return the module of a transform along one axis.

    ``program``: of integers, as `Integral.programs` has them. ``name``: of the module. ``kind``:
    "input" (ports d0, d1, ... and v0, v1, ...), "filter" (g and u) or "output" (p and y).
    ``inputs``: the range of all inputs, or of each. ``stages``: how many stages end in registers;
    0: it is combinational, and has no clock. ``dropped``: the last bits of every output, which are
    rounded. ``head``: lines of comment above it. The same arguments give the same bytes.
    Raises InvalidValue.

    >>> from winogen.algebra import cook_toom
    >>> from winogen.fixed import integral
    >>> from winogen.fixed.ranges import signed
    >>> made = integral(cook_toom(2, 3)).programs["input"]
    >>> made = module(made, "f2_3_int8_input", "input", signed(8))
    >>> [(port.name, port.bits) for port in made.outputs]
    [('v0', 9), ('v1', 9), ('v2', 9), ('v3', 9)]
    """
    if kind not in KINDS:
        raise InvalidValue(f"kind: got {kind!r}; allowed: {', '.join(KINDS)}")
    count = len(program.inputs)
    each = (inputs,) * count if isinstance(inputs, Range) else tuple(inputs)
    if len(each) != count:
        raise InvalidValue(f"inputs: got {len(each)} ranges; allowed: one, or {count}")
    return of_cases(program, name, kind, (each,), stages=stages, dropped=dropped, head=head)


def of_cases(
    program: Program,
    name: str,
    kind: str,
    cases: Cases,
    *,
    stages: int = 0,
    dropped: int = 0,
    head: Sequence[str] = (),
) -> Module:
    """Return the module of a transform that has several uses, with other ranges in each.

    ``cases``: the ranges of all inputs, for each use. Otherwise as `module`.
    """
    if stages < 0:
        raise InvalidValue(f"stages: got {stages}; allowed: 0 or more")
    _, symbol, source, target = KINDS[kind]
    made = circuit(program, target, dropped)
    found = made.ranges(cases)
    reads, writes = (
        tuple(Port(one, found[one]) for one in names) for names in (made.inputs, made.outputs)
    )
    rounded = f", the last {dropped} bits rounded" if dropped else ""
    adders = f"{made.adders} adder{'s' if made.adders != 1 else ''}"
    title = f"{target} = {symbol} {source}{rounded}: {adders}, {made.depth} deep"
    title += f", in {stages} stage{'s' if stages > 1 else ''}." if stages else "."
    equations = [f"    {line}" for line in routine(program, source, target).equations]
    writer = _Writer(made, found, stages)
    text = ModuleText(
        head=[*head, *([""] if head else []), title, "", *equations],
        name=name,
        stages=stages,
        inputs=ports_of("input ", reads),
        outputs=ports_of("output", writes, last=True),
        blocks=writer.blocks(),
        assigns=writer.assigns,
        unused=writer.unused(),
        given=_given(cases, reads),
        bounds=[line for port in writes for line in
                words.bounds(port.name, port.range, port.bits)],
    ).render()  # fmt: skip
    return Module(name, text, reads, writes, stages, made.adders, made.depth)


def ports_of(direction: str, ports: Sequence[Port], last: bool = False) -> list[str]:
    """Return a line for each port, with its range; ``last``: no comma after the last of them."""
    return [
        f"{words.declared(f'{direction} wire', port.bits, port.name)}"
        f"{'' if last and port is ports[-1] else ','} // {port.range}"
        for port in ports
    ]


def _given(cases: Cases, ports: Sequence[Port]) -> str:
    """The condition that inputs are what they may be; "" where their widths say so."""
    uses = []
    for inputs in dict.fromkeys(map(tuple, cases)):
        terms = [term for port, range_ in zip(ports, inputs)
                 for term in words.bounds(port.name, range_, port.bits)]  # fmt: skip
        if not terms:
            return ""
        uses.append(words.conjunction(terms, " " * 8))
    return uses[0] if len(uses) == 1 else "\n        || ".join(f"({use})" for use in uses)


@dataclass
class _Writer:
    """The statements of a circuit, stage by stage."""

    circuit: Circuit
    ranges: Mapping[str, Range]
    stages: int

    def __post_init__(self) -> None:
        levels, depth = self.circuit.levels, max(self.circuit.depth, 1)
        self.bits = {name: range_.bits for name, range_ in self.ranges.items()}
        # The stage in which a value is computed; inputs come before the first.
        self.stage = {
            name: max(1, -(-levels[name] * self.stages // depth)) if self.stages else 0
            for name in levels
        }
        self.stage.update(dict.fromkeys(self.circuit.inputs, 0))
        last = dict(self.stage)  # in which it is needed
        for one in self.circuit.sums:
            for term in one.terms:
                last[term.operand] = max(last[term.operand], self.stage[one.target])
        for name in self.circuit.outputs:
            last[name] = self.stages + 1
        self.last = last
        self.assigns = [
            f"assign {name} = {self._at(name, self.stages + 1)};"
            for name in self.circuit.outputs
            if self.stages
        ]

    def unused(self) -> list[str]:
        """The last bits of what is rounded, which nothing reads but the highest of them."""
        found = [
            f"{self._at(one.terms[0].operand, self.stage[one.target])}[{one.dropped - 2}:0]"
            for one in self.circuit.sums
            if one.dropped > 1
        ]
        return textwrap.wrap(", ".join(found), 80)

    def _at(self, name: str, stage: int) -> str:
        """What a value is called in a stage: itself, or the register at the end of an earlier."""
        made = self.stage[name]
        if name in self.circuit.inputs:
            return name if stage <= 1 else f"{name}_s{stage - 1}"
        if stage > made:
            return f"{name}_s{stage - 1}"
        return f"{name}_next" if self.stages and name in self.circuit.outputs else name

    def blocks(self) -> list[dict[str, Any]]:
        """Wires and registers of each stage; of one block where nothing is registered."""
        if not self.stages:
            wires = [line for one in self.circuit.sums for line in self._wire(one, 0)]
            return [{"title": "", "wires": wires, "registers": [], "moves": []}]
        found = []
        for stage in range(1, self.stages + 1):
            wires = [line for one in self.circuit.sums if self.stage[one.target] == stage
                     for line in self._wire(one, stage)]  # fmt: skip
            kept = [name for name in self.stage if self.stage[name] <= stage < self.last[name]]
            found.append(
                {
                    "title": f"stage {stage}",
                    "wires": wires,
                    "registers": [
                        f"{words.declared('reg', self.bits[name], f'{name}_s{stage}')};"
                        for name in kept
                    ],
                    "moves": [f"{name}_s{stage} <= {self._at(name, stage)};" for name in kept],
                }
            )
        return found

    def _wire(self, one: Sum, stage: int) -> list[str]:
        """The definition of a value, and above it what it is where the line has no room for it."""
        width = self.bits[one.target]
        names = {term.operand: self._at(term.operand, stage) for term in one.terms}
        if one.dropped:
            (term,) = one.terms
            value = words.rounded(names[term.operand], self.bits[term.operand], one.dropped, width)
            meaning = f"{names[term.operand]} / {1 << one.dropped}, rounded"
        else:
            value = words.total(one, names, self.bits, width)
            meaning = infix(
                [Factor(names[t.operand], f"{1 << t.shift}" if t.shift else "", t.negative)
                 for t in one.terms]
            ) or "0"  # fmt: skip
        name = self._at(one.target, stage)
        is_port = not self.stages and one.target in self.circuit.outputs
        start = f"assign {name}" if is_port else words.declared("wire", width, name)
        line = f"{start} = {value};"
        meaning = "" if meaning == value else f"{meaning}: "  # nothing that the line says itself
        comment = f"// {meaning}{self.ranges[one.target]}"
        if len(line) + len(comment) + 5 <= _COLUMNS:
            return [f"{line} {comment}"]
        if len(line) + 4 > _COLUMNS:
            line = line.replace(" = ", " =\n        ", 1)
        return [comment, line]
