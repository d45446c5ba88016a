"""Testbenches that check themselves: vectors, what Python says of them, and a module around both.

The vectors are the inputs that reach each end of the range of each output, a 1 in each place, and
random ones. What is expected is computed from the matrix by Python's integers, not by the program.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from winogen.codegen.templates import Context
from winogen.codegen.verilog.circuit import half_up
from winogen.codegen.verilog.design import Design, TransformDesign, filled
from winogen.codegen.verilog.module import Port

VECTORS = 1000  # tiles of a testbench, unless there are more ends to reach


@dataclass(frozen=True, kw_only=True)
class BenchContext(Context, templates=("verilog/bench.v.j2",)):
    """What the template of a testbench in Verilog knows."""

    name: str  # of the module
    protocol: str
    stages: int
    sent: int  # beats, and below beats of results
    expected: int
    in_bits: int  # of all inputs together, and below of all outputs
    out_bits: int
    connections: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class CocotbContext(Context, templates=("verilog/cocotb.py.j2",)):
    """What the template of a testbench for cocotb knows."""

    name: str  # of the module
    protocol: str
    stages: int
    sources: Sequence[str]  # files
    inputs: Sequence[Port]
    outputs: Sequence[Port]


Tile = Sequence[Sequence[int]]  # rows; one for a transform along one axis


def expected(transform: TransformDesign, tile: Tile) -> list[list[int]]:
    """Return what a transform makes of a tile, exactly, by its matrix."""

    def along(line: Sequence[int]) -> list[int]:
        sums = (sum(c * x for c, x in zip(row, line)) for row in transform.matrix)
        return [half_up(value, transform.dropped) for value in sums]

    if transform.axes == 1:
        return [along(tile[0])]
    half = zip(*(along(column) for column in zip(*tile)))
    return [along(row) for row in half]


def tiles(transform: TransformDesign, count: int = VECTORS) -> list[Tile]:
    """Return so many tiles, or more if it takes more: ends, a 1 in each place, random ones."""
    ranges, matrix = transform.inputs, transform.matrix
    columns = range(len(ranges[0]))
    found: list[Tile] = []
    # A result grows with an input, or falls, by the sign of a product of two entries.
    firsts = matrix if transform.axes == 2 else ((1,),)
    for first in firsts:
        for second in matrix:
            for up in (True, False):
                found.append(
                    [
                        [
                            ranges[i][j].high if (first[i] * second[j] > 0) == up else
                            ranges[i][j].low
                            for j in columns
                        ]
                        for i in range(len(ranges))
                    ]
                )  # fmt: skip
    for end in ("low", "high"):
        found.append([[getattr(one, end) for one in row] for row in ranges])
    for i in range(len(ranges)):
        for j in columns:
            found.append([[int((i, j) == (k, m)) for m in columns] for k in range(len(ranges))])
    random = Random(0)
    while len(found) < count:
        found.append([[random.randint(*one) for one in row] for row in ranges])
    return list({str(tile): tile for tile in found}.values()) if len(found) > count else found


def beats(made: Design, tile: Tile, result: Tile) -> tuple[list[list[int]], list[list[int]]]:
    """Return what a design reads and writes, beat by beat: a tile, or its columns and rows."""
    if made.protocol == "folded":
        return [list(column) for column in zip(*tile)], [list(row) for row in result]
    return [[x for row in tile for x in row]], [[x for row in result for x in row]]


def packed(values: Sequence[int], ports: Sequence[Port]) -> str:
    """Return a beat in hexadecimal digits, the first port in the lowest bits."""
    word = place = 0
    for value, port in zip(values, ports):
        word |= (value & ((1 << port.bits) - 1)) << place
        place += port.bits
    return f"{word:0{-(-place // 4)}x}"


def bench(made: Design, *, stream: bool = False, count: int = VECTORS) -> dict[str, str]:
    """Return the files of a testbench, by their names: in Verilog, for cocotb, and its vectors.

    ``stream``: of the module with a handshake around the design. ``count``: how many tiles.
    """
    name = made.name + ("_stream" if stream else "")
    protocol = "stream" if stream or made.protocol == "folded" else made.protocol
    sent, results = list[str](), list[str]()
    for tile in tiles(made.transform, count):
        reads, writes = beats(made, tile, expected(made.transform, tile))
        sent += [packed(values, made.inputs) for values in reads]
        results += [packed(values, made.outputs) for values in writes]
    text = BenchContext(
        name=name,
        protocol=protocol,
        stages=made.stages,
        sent=len(sent),
        expected=len(results),
        in_bits=sum(port.bits for port in made.inputs),
        out_bits=sum(port.bits for port in made.outputs),
        connections=filled([*slices(made.inputs, "in"), *slices(made.outputs, "out")]),
    ).render()
    sources = [f"{one.name}.v" for one in made.modules] + [f"{name}.v"] * stream
    python = CocotbContext(
        name=name,
        protocol=protocol,
        stages=made.stages,
        sources=sources,
        inputs=made.inputs,
        outputs=made.outputs,
    ).render()
    return {
        f"{name}_tb.v": text,
        f"{name}_cocotb.py": python,
        f"{name}_in.hex": "\n".join(sent) + "\n",
        f"{name}_out.hex": "\n".join(results) + "\n",
    }


def slices(ports: Sequence[Port], vector: str) -> Iterator[str]:
    """Yield the connection of each port to its part of a vector that is a beat."""
    place = 0
    for port in ports:
        yield f".{port.name}({vector}[{place + port.bits - 1}:{place}])"
        place += port.bits
