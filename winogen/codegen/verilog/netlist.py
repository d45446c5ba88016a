"""What a module computes, read from the netlist that Yosys makes of its text.

Every value of a transform is a linear form of the inputs, as long as no wire is too narrow for it.
So forms are carried through the netlist, cell by cell, in exact integers; a wire that is narrower
than the range of its form ends the proof. A number that is rounded, x[top:k] + x[k - 1], is a
variable of its own: what follows is a form of it. The proof is complete: a form says what a value
is for all inputs, and how many cycles later. Nothing of the program behind the text enters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from winogen.codegen.verilog.circuit import Cases, half_up, joined
from winogen.codegen.verilog.design import Design
from winogen.codegen.verilog.module import Module, Port
from winogen.codegen.verilog.moved import parameter
from winogen.errors import VerificationError
from winogen.program.widths import Range

SCRIPT = (
    "read_verilog -sv {files}; hierarchy -check -top {top}; proc; {flatten}opt_clean; opt_dff; "
    "opt_clean"
)

Bits = tuple[Any, ...]  # of Yosys: numbers of wires, and "0", "1"
Matrix = Sequence[Sequence[int]]


class _Rounded(NamedTuple):
    """A variable: a form without its last bits, rounded."""

    form: _Form
    dropped: int


_Variable = int | _Rounded  # an input by its place, or what was rounded
_Form = frozenset[tuple["_Variable", int]]  # variables and their coefficients, none of them 0


def _sum(*terms: tuple[_Form, int]) -> _Form:
    """The sum of forms, each times a factor."""
    total: dict[_Variable, int] = {}
    for form, factor in terms:
        for variable, c in form:
            total[variable] = total.get(variable, 0) + factor * c
    return frozenset((variable, c) for variable, c in total.items() if c)


def _without(form: _Form, dropped: int) -> _Form:
    """A form without its last bits, rounded. Those that are 0 in any case are no rounding."""
    while dropped and all(c % 2 == 0 for _, c in form):
        form = frozenset((variable, c // 2) for variable, c in form)
        dropped -= 1
    return frozenset({(_Rounded(form, dropped), 1)}) if dropped else form


class _Value(NamedTuple):
    """What a vector of wires holds: a form of the inputs of so many cycles ago."""

    form: _Form
    delay: int | None  # None: of a constant


class _Netlist:
    """The cells of a flat module, and what is known of the vectors between them."""

    def __init__(self, module: Mapping[str, Any], inputs: Sequence[Port], cases: Cases) -> None:
        self.module, self.cases = module, cases
        self.drivers: dict[Bits, Mapping[str, Any]] = {}
        self.owner: dict[Any, tuple[Bits, int]] = {}  # of a wire: the vector it is part of
        self.known: dict[Bits, _Value] = {}
        self.ranges: dict[_Form, tuple[Range, ...]] = {}  # in each case
        for place, port in enumerate(inputs):
            bits = self.port(port)
            self._own(bits)
            self.known[bits] = _Value(frozenset({(place, 1)}), 0)
        for cell in module["cells"].values():
            output = "Q" if cell["type"] in _REGISTERS else "Y"
            if output in cell["connections"]:
                bits = tuple(cell["connections"][output])
                self._own(bits)
                self.drivers[bits] = cell

    def _own(self, bits: Bits) -> None:
        for place, bit in enumerate(bits):
            self.owner[bit] = bits, place

    def port(self, port: Port) -> Bits:
        """The wires of a port, which has to be as wide as it should be."""
        bits = tuple(self.module["ports"].get(port.name, {"bits": ()})["bits"])
        if len(bits) != port.bits:
            raise VerificationError(f"{port.name} has {len(bits)} bits, not {port.bits}")
        return bits

    def range(self, form: _Form) -> Range:
        """The range of a form over all cases."""
        return joined(self._ranges(form))

    def _ranges(self, form: _Form) -> tuple[Range, ...]:
        if form not in self.ranges:
            ends = []
            for number, inputs in enumerate(self.cases):
                low = high = 0
                for variable, c in form:
                    if isinstance(variable, _Rounded):
                        exact = self._ranges(variable.form)[number]
                        one = [half_up(end, variable.dropped) for end in exact]
                    else:
                        one = list(inputs[variable])
                    low, high = low + min(c * end for end in one), high + max(c * e for e in one)
                ends.append(Range(low, high))
            self.ranges[form] = tuple(ends)
        return self.ranges[form]

    def read(self, bits: Bits, modulo: bool = False) -> _Value:
        """What a vector is: zeros, then a value, then its sign again.

        ``modulo``: the top of the value may be cut off, where only the lower bits matter.
        """
        shift = 0
        while shift < len(bits) and bits[shift] == "0":
            shift += 1
        rest = bits[shift:]
        if not rest:
            return _Value(frozenset(), None)
        vector, place = self.owner.get(rest[0], ((), 0))
        if not vector or place:
            raise VerificationError("a vector is no value: it begins within one, or is constant")
        value = self.value(vector)
        kept = min(len(rest), len(vector))
        if rest[:kept] != vector[:kept] or any(bit != vector[-1] for bit in rest[kept:]):
            raise VerificationError("a vector is neither a value nor its extension")
        if not modulo:
            self._check(value.form, kept)
        return _Value(_sum((value.form, 1 << shift)), value.delay)

    def _check(self, form: _Form, bits: int) -> None:
        range_ = self.range(form)
        if range_.bits > bits:
            raise VerificationError(f"{bits} bits for values that take {range_.bits} ({range_})")

    def value(self, bits: Bits) -> _Value:
        """What the cell computes that drives a vector."""
        if bits not in self.known:
            if bits not in self.drivers:
                raise VerificationError("a vector is driven in parts")
            value = self._computed(self.drivers[bits], len(bits))
            self._check(value.form, len(bits))
            self.known[bits] = value
        return self.known[bits]

    def _computed(self, cell: Mapping[str, Any], width: int) -> _Value:
        kind, pins = cell["type"], cell["connections"]
        if kind in _REGISTERS:
            for pin, port in (("CLK", "clk"), ("EN", "enable")):
                positive = parameter(cell, f"{pin}_POLARITY", "1")
                if pin in pins and not (
                    positive and pins[pin] == self.module["ports"].get(port, {}).get("bits")
                ):
                    raise VerificationError(f"a register without {port}")
            form, delay = self.read(tuple(pins["D"]))
            return _Value(form, None if delay is None else delay + 1)
        if kind not in _SIGNS:
            raise VerificationError(f"a cell {kind}, which no transform has")
        operands = [
            self._extended(cell, pin, width) for pin in ("A", "B") if pin in cell["connections"]
        ]
        if kind == "$add" and (rounded := self._rounded(*operands)) is not None:
            return rounded
        values = [self.read(one, modulo=True) for one in operands]
        delays = {one.delay for one in values} - {None}
        if len(delays) > 1:
            raise VerificationError("values of different cycles are added")
        form = _sum(*((one.form, sign) for one, sign in zip(values, _SIGNS[kind])))
        return _Value(form, next(iter(delays), None))

    def _extended(self, cell: Mapping[str, Any], pin: str, width: int) -> Bits:
        """An operand as a cell sees it: in the bits of the result, extended if it has a sign."""
        bits = tuple(cell["connections"][pin])
        has_sign = parameter(cell, f"{pin}_SIGNED")
        return (bits + (bits[-1] if has_sign else "0",) * (width - len(bits)))[:width]

    def _rounded(self, top: Bits, half: Bits) -> _Value | None:
        """What x[top:k] + x[k - 1] is, or None where a sum is no such one."""
        if half[0] not in self.owner or any(bit != "0" for bit in half[1:]):
            return None
        vector, place = self.owner[half[0]]
        kept = vector[place + 1 :] or vector[-1:]
        if (top[: len(kept)] != kept[: len(top)]) or any(b != vector[-1] for b in top[len(kept) :]):
            return None
        form, delay = self.value(vector)
        return _Value(_without(form, place + 1), delay)


_REGISTERS = "$dff", "$dffe"
_SIGNS = {"$add": (1, 1), "$sub": (1, -1), "$neg": (-1,), "$pos": (1,)}  # of operands


@dataclass(frozen=True)
class ModuleClaim:
    """What a module without a handshake should be: outputs as forms of inputs, and when."""

    module: Module
    cases: Cases
    forms: tuple[_Form, ...]


def claims(made: Design) -> list[ModuleClaim]:
    """Return what is to be proven of the modules of a design: of the whole, or of both passes."""
    transform = made.transform
    line = _lines(1, len(transform.inputs))[0]
    if made.protocol == "folded":
        cases = tuple(zip(*transform.inputs)), transform.half
        forms = tuple(_along(transform.matrix, transform.dropped, line))
        return [ModuleClaim(module, case, forms) for module, case in zip(made.modules, cases)]
    grid = _lines(len(transform.inputs), len(transform.inputs[0]))
    if transform.axes == 2:
        columns = [_along(transform.matrix, transform.dropped, column) for column in zip(*grid)]
        grid = [list(row) for row in zip(*columns)]
    rows = [_along(transform.matrix, transform.dropped, row) for row in grid]
    case = [one for row in transform.inputs for one in row]
    return [ModuleClaim(made.modules[-1], (case,), tuple(form for row in rows for form in row))]


def _lines(rows: int, columns: int) -> list[list[_Form]]:
    return [[frozenset({(i * columns + j, 1)}) for j in range(columns)] for i in range(rows)]


def _along(matrix: Matrix, dropped: int, line: Sequence[_Form]) -> list[_Form]:
    forms = [_sum(*zip(line, row)) for row in matrix]
    return [_without(one, dropped) for one in forms]


def prove(claim: ModuleClaim, document: Mapping[str, Any]) -> int:
    """Prove that a netlist is what is claimed of it: its matrix, its widths, its cycles.

    ``document``: the JSON of Yosys after `SCRIPT`. Returns how many adders it has. Raises
    VerificationError with what is wrong.
    """
    made = claim.module
    module = document["modules"][made.name]
    try:
        netlist = _Netlist(module, made.inputs, claim.cases)
        for port, form in zip(made.outputs, claim.forms):
            _check_output(netlist, port, form, made)
    except VerificationError as error:
        raise VerificationError(f"{made.name}: {error}") from None
    return sum(cell["type"] in _SIGNS for cell in module["cells"].values())


def _check_output(netlist: _Netlist, port: Port, form: _Form, made: Module) -> None:
    try:
        found, delay = netlist.read(netlist.port(port))
    except VerificationError as error:
        raise VerificationError(f"output {port.name}: {error}") from None
    if found != form:
        wrong = [
            f"{dict(found).get(place, 0)} times {one.name}, not {dict(form).get(place, 0)}"
            for place, one in enumerate(made.inputs)
            if dict(found).get(place, 0) != dict(form).get(place, 0)
        ]
        raise VerificationError(
            f"output {port.name} has {', '.join(wrong) or 'another sum that is rounded'}"
        )
    if delay not in (None, made.stages):
        raise VerificationError(f"output {port.name} is {delay} cycles late, not {made.stages}")
    if netlist.range(form) != port.range:
        raise VerificationError(f"output {port.name} is {netlist.range(form)}, not {port.range}")


__all__ = ["SCRIPT", "ModuleClaim", "claims", "prove"]
