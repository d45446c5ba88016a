"""The cells of a netlist on bits that are known, unknown, or a bit of some number.

Gates and adders compute of known bits. Of numbers there is only which one a bit belongs to, so that
multiplexers and registers move them, and to every other cell they are unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from winogen.errors import VerificationError


class TileNumber(NamedTuple):
    """A number: of a tile, by the line it came in or goes out with, and its place there."""

    tile: int
    kind: str  # "input", "half" or "result"
    line: int
    place: int


Bit = int | None | tuple[TileNumber, int]  # 0 or 1; unknown; which number's, and its place there
Bits = tuple[Bit, ...]
Registers = tuple[Bits, ...]
Cell = Mapping[str, Any]  # of Yosys


def check_clock(wires: Sequence[Any], clock: Any, rising: int = 1) -> None:
    """Raise VerificationError unless these are the clock's wire, for its rising edge."""
    if tuple(wires) != (clock,) or not rising:
        raise VerificationError("a register that another edge than the clock's rising one sets")


def spread(number: TileNumber, bits: int) -> Bits:
    """Return the bits of a number."""
    return tuple((number, place) for place in range(bits))


class Wires:
    """Which cell drives a wire, and the registers, which all have one clock."""

    def __init__(self, cells: Iterable[Cell], clock: Any) -> None:
        self.registers: list[Cell] = []
        self.drivers: dict[Any, Any] = {}  # of a wire: a cell, a register or a module of its own
        for cell in cells:
            if cell["type"] in _REGISTERS:
                check_clock(cell["connections"]["CLK"], clock, parameter(cell, "CLK_POLARITY"))
                self.own(cell["connections"]["Q"], len(self.registers))
                self.registers.append(cell)
            elif cell["type"] in _CELLS:
                self.own(cell["connections"]["Y"], cell)
            else:
                raise VerificationError(f"a cell {cell['type']}, which no handshake has")

    def own(self, wires: Iterable[Any], driver: Any) -> None:
        """Note what drives wires."""
        self.drivers.update((wire, driver) for wire in wires)

    def unknown(self) -> Registers:
        """Registers of which nothing is known."""
        return tuple((None,) * len(one["connections"]["Q"]) for one in self.registers)

    def values(
        self,
        registers: Registers,
        given: Mapping[Any, Bit],
        shown: Callable[[Any, Cycle], Iterator[tuple[Any, Bits]]],
    ) -> Cycle:
        """Return the values of all wires. ``given``: those of ports that are read.

        ``shown``: what modules inside show at their outputs, by the driver that `own` was told.
        """
        return Cycle(self, registers, given, shown)

    def clocked(self, values: Cycle) -> Registers:
        """Return the registers after this cycle."""
        return tuple(
            _clocked(cell, values, bits) for cell, bits in zip(self.registers, values.registers)
        )


class Cycle:
    """The values of wires in one cycle, each computed when it is asked for."""

    def __init__(self, wires: Wires, registers: Registers, given: Any, shown: Any) -> None:
        self.wires, self.registers, self.shown = wires, registers, shown
        self.found: dict[Any, Bit] = {"0": 0, "1": 1, "x": None, **given}

    def read(self, wires: Sequence[Any]) -> Bits:
        """The values of some wires."""
        found = self.found
        for wire in wires:
            if wire not in found:
                self._drive(wire)
        return tuple(map(found.__getitem__, wires))

    def _drive(self, wire: Any) -> None:
        driver = self.wires.drivers.get(wire)
        if driver is None:
            self.found[wire] = None
            return
        if isinstance(driver, int):
            cell = self.wires.registers[driver]
            self.found.update(zip(cell["connections"]["Q"], self.registers[driver]))
        elif isinstance(driver, tuple):
            self.found[wire] = None
            for outputs, bits in self.shown(driver[0], self):
                self.found.update(zip(outputs, bits))
        else:
            outputs = driver["connections"]["Y"]
            self.found.update((one, None) for one in outputs)  # a loop of gates stays unknown
            self.found.update(zip(outputs, _CELLS[driver["type"]](driver, self.read)))


Read = Callable[[Sequence[Any]], Bits]


def parameter(cell: Mapping[str, Any], name: str, default: str = "0") -> int:
    """Return a cell's parameter, which the netlist has as binary digits."""
    return int(str(cell["parameters"].get(name, default)), 2)


def _integer(cell: Cell, pin: str, read: Read) -> int | None:
    """An operand as an integer, if all of its bits are known."""
    bits = read(cell["connections"][pin])
    if not all(bit in (0, 1) for bit in bits):
        return None
    value = sum(1 << place for place, bit in enumerate(bits) if bit == 1)
    has_sign = parameter(cell, f"{pin}_SIGNED") and bits[-1]
    return value - (1 << len(bits)) if has_sign else value


def _of_integers(compute: Callable[..., int]) -> Callable[[Cell, Read], Bits]:
    """A cell that computes of integers, and knows nothing unless it knows all of them."""

    def cell_of(cell: Cell, read: Read) -> Bits:
        width = len(cell["connections"]["Y"])
        operands = [_integer(cell, pin, read) for pin in ("A", "B") if pin in cell["connections"]]
        if any(one is None for one in operands):
            return (None,) * width
        value = compute(*operands)
        return tuple(value >> place & 1 for place in range(width))

    return cell_of


def _truth(bits: Bits) -> Bit:
    """Whether any bit is 1."""
    if 1 in bits:
        return 1
    return 0 if all(bit == 0 for bit in bits) else None


def _gate(decides: int) -> Callable[[Cell, Read], Bits]:
    """An AND, which one 0 decides, or an OR, which one 1 does, of two truths."""

    def cell_of(cell: Cell, read: Read) -> Bits:
        truths = [_truth(read(cell["connections"][pin])) for pin in ("A", "B")]
        value = decides if decides in truths else None if None in truths else 1 - decides
        return (value, *(0,) * (len(cell["connections"]["Y"]) - 1))

    return cell_of


def _not(cell: Cell, read: Read) -> Bits:
    truth = _truth(read(cell["connections"]["A"]))
    value = None if truth is None else 1 - int(truth == 1)
    return (value, *(0,) * (len(cell["connections"]["Y"]) - 1))


def _chosen(select: Bit, no: Bits, yes: Bits) -> Bits:
    if select in (0, 1):
        return yes if select else no
    return tuple(one if one == other else None for one, other in zip(no, yes))


def _multiplexer(cell: Cell, read: Read) -> Bits:
    pins = cell["connections"]
    result = read(pins["A"])
    width = len(result)
    for place, select in enumerate(read(pins["S"])):
        if select != 0:
            result = _chosen(select, result, read(pins["B"][place * width : (place + 1) * width]))
    return result


def _shifted(value: int, places: int) -> int:
    return value >> places if places >= 0 else value << -places


_CELLS: dict[str, Callable[[Cell, Read], Bits]] = {
    "$add": _of_integers(lambda a, b: a + b),
    "$sub": _of_integers(lambda a, b: a - b),
    "$neg": _of_integers(lambda a: -a),
    "$pos": _of_integers(lambda a: a),
    "$not": _of_integers(lambda a: ~a),
    "$and": _of_integers(lambda a, b: a & b),
    "$or": _of_integers(lambda a, b: a | b),
    "$eq": _of_integers(lambda a, b: int(a == b)),
    "$shift": _of_integers(_shifted),
    "$shiftx": _of_integers(_shifted),
    "$logic_and": _gate(0),
    "$logic_or": _gate(1),
    "$logic_not": _not,
    "$mux": _multiplexer,
    "$pmux": _multiplexer,
}
_REGISTERS = "$dff", "$dffe", "$sdff", "$sdffe", "$sdffce"


def _clocked(cell: Cell, values: Cycle, before: Bits) -> Bits:
    """What a register holds after this cycle."""
    kind, pins = cell["type"], cell["connections"]

    def active(pin: str) -> Bit:
        (bit,) = values.read(pins[pin])
        if bit not in (0, 1):
            return None
        return bit if parameter(cell, f"{pin}_POLARITY") else 1 - int(bit == 1)

    result = values.read(pins["D"])
    if kind.startswith("$sdff"):
        number = cell["parameters"]["SRST_VALUE"]
        reset: Bits = tuple(int(bit) if bit in "01" else None for bit in reversed(str(number)))
        if kind == "$sdffe":
            result = _chosen(active("EN"), before, result)
        result = _chosen(active("SRST"), result, reset)
        return _chosen(active("EN"), before, result) if kind == "$sdffce" else result
    return _chosen(active("EN"), before, result) if kind == "$dffe" else result


__all__ = ["Bit", "Bits", "Cycle", "Registers", "TileNumber", "Wires", "check_clock", "spread"]
