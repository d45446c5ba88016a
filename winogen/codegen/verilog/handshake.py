"""What a module with a handshake does, for all time, whatever both sides do: its netlist is run.

Registers of such a module hold two kinds of bits. Those that decide are 0 or 1. Of a bit of a
number only that is known: which number of which tile it belongs to, and which of its bits it is.
Numbers are moved and nothing else, until they reach a module that is proven on its own (see
`netlist`); a decision that depends on one is unknown, and so is what a reset leaves as it was.

So a module has few states, as tiles are numbered from the one that comes out next. All of them are
visited, from a reset on, with each choice of both sides in each: whether a beat is there, and
whether one is taken. What comes out has to be, bit by bit, the tile whose turn it is. No number of
cycles bounds this proof.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from winogen.codegen.verilog.design import Design, streamed
from winogen.codegen.verilog.module import Module, Port
from winogen.codegen.verilog.moved import (
    Bit,
    Bits,
    Cycle,
    Registers,
    TileNumber,
    Wires,
    check_clock,
    spread,
)
from winogen.errors import VerificationError

MOST = 10_000  # states: twice the stages of a pass are twice as many bits that say what is there


@dataclass(frozen=True)
class _Pass:
    """A module that is proven on its own, as a cell of the netlist.

    It reads a line of a tile. ``turns``: along the other axis, one number of each line.
    ``least``: the bits that each of the numbers it reads takes, by line and place.
    """

    module: Module
    reads: str  # the kind of numbers, and below of those that it writes
    writes: str
    turns: bool
    least: Mapping[tuple[int, int], int]

    def computed(self, operands: Sequence[Bits]) -> _Line | None:
        """Return which line comes out, if what comes in is one."""
        numbers = [self._number(bits) for bits in operands]
        first = numbers[0]
        if first is None:
            return None
        common = first.place if self.turns else first.line
        for place, one in enumerate(numbers):
            line = (place, common) if self.turns else (common, place)
            if one != TileNumber(first.tile, self.reads, *line):
                return None
        return _Line(first.tile, self.writes, common)

    def _number(self, bits: Bits) -> TileNumber | None:
        """Which number a port reads: all bits that it takes, and its sign in the others."""
        if not isinstance(bits[0], tuple):
            return None
        number = bits[0][0]
        width = 0
        while width < len(bits) and bits[width] == (number, width):
            width += 1
        enough = number.kind == self.reads and width >= self.least.get(number[2:], 1 << 30)
        return number if enough and set(bits[width:]) <= {(number, width - 1)} else None


class _Line(NamedTuple):
    """The results of a pass: a line of numbers."""

    tile: int
    kind: str
    line: int

    def bits(self, ports: Sequence[Port]) -> Iterator[tuple[str, Bits]]:
        """The bits at each port."""
        for place, port in enumerate(ports):
            yield port.name, spread(TileNumber(self.tile, self.kind, self.line, place), port.bits)


@dataclass(frozen=True)
class HandshakeClaim:
    """A module with a handshake, what is inside it, and the beats of a tile and of its result."""

    module: Module
    passes: tuple[_Pass, ...]
    in_beats: int
    out_beats: int
    parts: tuple[Module, ...]  # whose text it takes


@dataclass(frozen=True)
class Handshake:
    """What is found of one.

    ``states``: that were visited. ``cycles``: of a tile, once both sides never hesitate.
    ``within``: None, or the cycles after a reset that were seen, where states exceed `MOST`.
    """

    states: int
    cycles: int | None
    within: int | None


def handshake_claim(made: Design) -> HandshakeClaim:
    """Return what is to be proven of a folded module, or of the handshake around another one."""
    transform = made.transform
    if made.protocol != "folded":
        core, module = made.modules[-1], streamed(made)
        least = {(0, place): port.bits for place, port in enumerate(core.inputs)}
        whole = _Pass(core, "input", "result", False, least)
        return HandshakeClaim(module, (whole,), 1, 1, (*made.modules, module))
    column, row, module = made.modules
    half = transform.half
    n = len(transform.inputs)
    least = {(j, i): port.bits for j in range(n) for i, port in enumerate(column.inputs)}
    between = {(j, i): half[i][j].bits for i in range(len(half)) for j in range(n)}
    passes = (
        _Pass(column, "input", "half", False, least),
        _Pass(row, "half", "result", True, between),
    )
    return HandshakeClaim(module, passes, n, len(half), made.modules)


class _State(NamedTuple):
    """All that a module remembers, and what its two sides know."""

    registers: Registers
    inside: tuple[tuple[_Line | None, ...], ...]  # the stages of each pass, the last one last
    in_beat: int = 0  # of the tile that is taken
    out_beat: int = 0  # of the tile that is given, which is number 0
    taken: int = 0  # whole tiles
    waits: bool = False  # a beat that was there has not been taken


class _Step(NamedTuple):
    """What happens in a cycle."""

    after: _State
    gave: bool  # the last beat of a tile
    valid: bool


class _Machine:
    """A netlist whose passes are cells, and its steps."""

    def __init__(self, claim: HandshakeClaim, document: Mapping[str, Any]) -> None:
        self.claim = claim
        module = document["modules"][claim.module.name]
        self.ports = {name: tuple(one["bits"]) for name, one in module["ports"].items()}
        passes = {one.module.name: one for one in claim.passes}
        cells = module["cells"].values()
        self.passes = [(passes[one["type"]], one) for one in cells if one["type"] in passes]
        (clock,) = self.ports["clk"]
        self.wires = Wires((one for one in cells if one["type"] not in passes), clock)
        for place, (one, cell) in enumerate(self.passes):
            if one.module.stages:
                check_clock(cell["connections"]["clk"], clock)
            for port in one.module.outputs:
                self.wires.own(cell["connections"][port.name], (place,))
        self.most = sum(one.module.stages for one, _ in self.passes) + 4  # tiles under way

    def start(self) -> _State:
        """After a reset, when nothing was known."""
        inside = tuple((None,) * one.module.stages for one, _ in self.passes)
        nothing = _State(self.wires.unknown(), inside)
        return self._next(nothing, self._values(nothing, None, None, reset=1))

    def is_reset(self, state: _State, start: _State) -> bool:
        """Whether a reset leads from here to the start, or to a case of it."""
        found = self._next(state, self._values(state, None, None, reset=1))
        pairs = zip(
            (bit for one in start.registers for bit in one),
            (bit for one in found.registers for bit in one),
        )
        return all(there is None or there == here for there, here in pairs)

    def step(self, state: _State, in_valid: int, out_ready: int) -> _Step:
        """What happens in a cycle. Raises VerificationError where that is wrong."""
        claim = self.claim
        values = self._values(state, in_valid, out_ready, reset=0)
        ready, valid = (self._known(values, port) for port in ("in_ready", "out_valid"))
        if state.waits and not valid:
            raise VerificationError("a beat that nobody took is gone")
        if valid:
            turn = _Line(0, "result", state.out_beat)
            for name, bits in turn.bits(claim.module.outputs):
                if values.read(self.ports[name]) != bits:
                    raise VerificationError(
                        f"{name} of beat {state.out_beat} does not belong to the tile whose turn "
                        "it is"
                    )
        after = self._next(state, values)
        in_beat, took = _counted(state.in_beat, claim.in_beats, in_valid and ready)
        out_beat, gave = _counted(state.out_beat, claim.out_beats, valid and out_ready)
        taken = state.taken + took - gave
        if taken > self.most:
            raise VerificationError("more tiles are taken than there are registers for")
        if gave:
            after = _State(
                tuple(tuple(map(_older, one)) for one in after.registers),
                tuple(tuple(map(_older_line, one)) for one in after.inside),
            )
        after = after._replace(
            in_beat=in_beat,
            out_beat=out_beat,
            taken=taken,
            waits=bool(valid and not out_ready),
        )
        return _Step(after, bool(gave), bool(valid))

    def _known(self, values: Cycle, port: str) -> int:
        (bit,) = values.read(self.ports[port])
        if bit not in (0, 1):
            raise VerificationError(f"{port} depends on numbers, or on what a reset leaves")
        return int(bit == 1)

    def _values(
        self, state: _State, in_valid: int | None, out_ready: int | None, reset: int
    ) -> Cycle:
        """The value of every wire, as far as anybody asks for it."""
        given: dict[Any, Bit] = {}
        controls = {"reset": reset, "in_valid": in_valid, "out_ready": out_ready}
        for name, value in controls.items():
            given[self.ports[name][0]] = value
        if in_valid:
            line = _Line(state.taken, "input", state.in_beat)
            for name, bits in line.bits(self.claim.module.inputs):
                given.update(zip(self.ports[name], bits))
        return self.wires.values(
            state.registers, given, lambda place, values: self._result(place, state, values)
        )

    def _result(self, place: int, state: _State, values: Cycle) -> Iterator[tuple[Any, Bits]]:
        """What a pass shows at its outputs."""
        one, cell = self.passes[place]
        line = state.inside[place][-1] if one.module.stages else self._entering(place, values)
        for name, bits in line.bits(one.module.outputs) if line else self._nothing(one.module):
            yield cell["connections"][name], bits

    @staticmethod
    def _nothing(module: Module) -> Iterator[tuple[str, Bits]]:
        return ((port.name, (None,) * port.bits) for port in module.outputs)

    def _entering(self, place: int, values: Cycle) -> _Line | None:
        one, cell = self.passes[place]
        return one.computed([values.read(cell["connections"][p.name]) for p in one.module.inputs])

    def _next(self, state: _State, values: Cycle) -> _State:
        inside = []
        for place, (_, cell) in enumerate(self.passes):
            stages = state.inside[place]
            if stages:
                (enable,) = values.read(cell["connections"]["enable"])
                if enable == 1:
                    stages = (self._entering(place, values), *stages[:-1])
                elif enable != 0:
                    stages = (None,) * len(stages)
            inside.append(stages)
        return _State(self.wires.clocked(values), tuple(inside))


def _counted(beat: int, beats: int, moves: int) -> tuple[int, int]:
    """(the beat after this cycle, whether a tile ends with it)."""
    if not moves:
        return beat, 0
    return (0, 1) if beat + 1 == beats else (beat + 1, 0)


def _older(bit: Bit) -> Bit:
    """A bit after a tile was given: those of that tile are nobody's any more."""
    if not isinstance(bit, tuple):
        return bit
    number, place = bit
    return (number._replace(tile=number.tile - 1), place) if number.tile > 0 else None


def _older_line(line: _Line | None) -> _Line | None:
    return line._replace(tile=line.tile - 1) if line is not None and line.tile > 0 else None


def prove(claim: HandshakeClaim, document: Mapping[str, Any]) -> Handshake:
    """Prove that a netlist keeps its handshake, whatever both sides do, for all time.

    Results are those of the tiles that came in, whole, in their order, each once. One that is shown
    waits for whoever takes it, and does not depend on whether anybody does. Every tile comes out,
    if only its result is taken. A reset leads to the start from each state.

    ``document``: the JSON of Yosys after `netlist.SCRIPT`, passes as cells. Raises
    VerificationError with what is wrong.
    """
    try:
        machine = _Machine(claim, document)
        start = machine.start()
        steps: _Steps = {}
        level, cycles = {start: None}, 0  # all states after so many cycles that are not known yet
        while level and len(steps) + len(level) <= MOST:
            for state in level:
                steps[state] = _steps(machine, state)
                if not machine.is_reset(state, start):
                    raise VerificationError("a reset does not lead to where it does at first")
            found = (step.after for state in level for step in steps[state].values())
            level = {state: None for state in found if state not in steps}
            cycles += 1
        if level:
            return Handshake(len(steps), None, cycles)
        _check_that_tiles_come_out(steps)
        return Handshake(len(steps), _cycles(steps, start), None)
    except VerificationError as error:
        raise VerificationError(f"{claim.module.name}: {error}") from None


_Steps = dict[_State, Mapping[tuple[int, int], _Step]]  # by the choice of both sides


def _steps(machine: _Machine, state: _State) -> Mapping[tuple[int, int], _Step]:
    choices = ((in_valid, out_ready) for in_valid in (0, 1) for out_ready in (0, 1))
    found = {choice: machine.step(state, *choice) for choice in choices}
    if any(found[in_valid, 0].valid != found[in_valid, 1].valid for in_valid in (0, 1)):
        raise VerificationError("out_valid depends on out_ready")
    return found


def _check_that_tiles_come_out(steps: _Steps) -> None:
    for state in steps:
        seen = {state}
        while state.taken:
            state = steps[state][0, 1].after
            if state in seen:
                raise VerificationError("a tile stays inside, though its result would be taken")
            seen.add(state)


def _cycles(steps: _Steps, state: _State) -> int:
    """Cycles from tile to tile, once both sides never hesitate."""
    seen: dict[_State, int] = {}
    gave: list[int] = []
    while state not in seen:
        seen[state] = len(seen)
        step = steps[state][1, 1]
        if step.gave:
            gave.append(seen[state])
        state = step.after
    cycles, tiles = len(seen) - seen[state], sum(one >= seen[state] for one in gave)
    if not tiles or cycles % tiles:
        raise VerificationError(f"{tiles} tiles come out in {cycles} cycles without hesitation")
    return cycles // tiles


__all__ = ["Handshake", "HandshakeClaim", "handshake_claim", "prove"]
