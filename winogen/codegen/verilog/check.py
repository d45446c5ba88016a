"""The question that a model checker answers about a handshake: a module around the one to check."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from winogen.codegen.templates import Context
from winogen.codegen.verilog.bench import slices
from winogen.codegen.verilog.design import Design, design, filled, streamed
from winogen.codegen.verilog.module import Module, Port, ports_of
from winogen.codegen.verilog.words import declared, operand


@dataclass(frozen=True)
class ProofQuestion:
    """Files, the module whose assertions have to hold, and for how many cycles."""

    name: str
    files: dict[str, str]
    cycles: int


@dataclass(frozen=True, kw_only=True)
class CheckContext(Context, templates=("verilog/check.v.j2",)):
    """What the template of the question knows."""

    name: str  # of the module that is checked
    inputs: Sequence[Port]
    out_bits: int  # of all outputs together
    in_beats: int  # of a tile, and below of its result
    out_beats: int
    bits: int  # of the place of a number of a tile: of its beat, and of its port
    beat_bits: int
    port_bits: int
    connections: Sequence[str]
    wires: Sequence[str]  # of the reference
    parts: Sequence[Mapping[str, Any]]  # its modules, and what they are connected with


@dataclass(frozen=True, kw_only=True)
class StubContext(Context, templates=("verilog/stub.v.j2",)):
    """What the template knows of a module whose outputs are inputs."""

    name: str
    stages: int
    ports: Sequence[str]
    outputs: Sequence[Mapping[str, Any]]


def question(made: Design) -> ProofQuestion:
    """Return what is asked of the module with a handshake: of a folded design, or around another.

    The passes are proven on their own. Here wires stand in their place, as what matters is only
    which numbers meet, and when.
    """
    folded = made.protocol == "folded"
    reference = design(
        replace(made.transform, name=f"{made.transform.name}_reference"), folded=folded
    )
    dut = made.modules[-1] if folded else streamed(made)
    in_beats, out_beats = (
        (len(made.transform.inputs), len(made.transform.half)) if folded else (1, 1)
    )
    wires, parts = _passes(made, reference) if folded else _whole(reference)
    beat_bits = max(1, (in_beats - 1).bit_length())
    port_bits = max(1, (len(made.inputs) - 1).bit_length())
    text = CheckContext(
        name=dut.name,
        inputs=made.inputs,
        out_bits=sum(port.bits for port in made.outputs),
        in_beats=in_beats,
        beat_bits=beat_bits,
        port_bits=port_bits,
        bits=beat_bits + port_bits,
        out_beats=out_beats,
        connections=filled([*_sent(made.inputs, "sent"), *slices(made.outputs, "out")]),
        wires=wires,
        parts=parts,
    ).render()
    passes = [one for both in (made, reference)
              for one in (both.modules[:-1] if folded else both.modules[-1:])]  # fmt: skip
    files = {f"{dut.name}.v": dut.text} | {f"{one.name}.v": _stub(one) for one in passes}
    name = f"{dut.name}_check"
    cycles = 2 * made.stages + 4 + 3 * max(in_beats, out_beats) * (1 + folded)
    return ProofQuestion(name, files | {f"{name}.v": text}, cycles)


def _stub(module: Module) -> str:
    """A module of the same ports and stages whose outputs are inputs, each its own."""
    inputs = module.inputs
    outputs = []
    for place, port in enumerate(module.outputs):
        one = inputs[place % len(inputs)]
        value = operand(one.name, one.bits, 0, port.bits)
        outputs.append(
            {
                "name": port.name,
                "bits": port.bits,
                "value": f"{value} ^ {port.bits}'d{place % (1 << port.bits)}",
            }
        )
    return StubContext(
        name=module.name,
        stages=module.stages,
        ports=[*ports_of("input ", inputs), *ports_of("output", module.outputs, last=True)],
        outputs=outputs,
    ).render()


def _whole(reference: Design) -> tuple[list[str], list[Any]]:
    """A tile is one beat, and so is its result."""
    bits = sum(port.bits for port in reference.outputs)
    ports = [*_sent(reference.inputs, "kept0_"), *slices(reference.outputs, "expected0")]
    return [f"wire [{bits - 1}:0] expected0;"], [
        {"module": reference.name, "name": "whole", "ports": filled(ports)}
    ]


def _passes(made: Design, reference: Design) -> tuple[list[str], list[Any]]:
    """Every column by the module of columns, then every row by that of rows."""
    column, row, _ = reference.modules
    wires, parts = [], []
    count, n = len(column.outputs), len(column.inputs)
    for j in range(n):
        halves = [f"half{i}_{j}" for i in range(count)]
        wires += [
            f"{declared('wire', port.bits, name)};" for port, name in zip(column.outputs, halves)
        ]
        ports = [*_sent(column.inputs, f"kept{j}_"), *_connected(column.outputs, halves)]
        parts.append({"module": column.name, "name": f"column{j}", "ports": filled(ports)})
    for i in range(count):
        bits = column.outputs[i].bits
        reads = [operand(f"half{i}_{j}", bits, 0, port.bits) for j, port in enumerate(row.inputs)]
        wires.append(f"wire [{sum(port.bits for port in row.outputs) - 1}:0] expected{i};")
        ports = [*_connected(row.inputs, reads), *slices(row.outputs, f"expected{i}")]
        parts.append({"module": row.name, "name": f"row{i}", "ports": filled(ports)})
    return wires, parts


def _sent(ports: Sequence[Port], name: str) -> Iterator[str]:
    """A beat of numbers of 16 bits, each as wide as its port."""
    nets = [operand(f"{name}{place}", 16, 0, port.bits) for place, port in enumerate(ports)]
    return _connected(ports, nets)


def _connected(ports: Sequence[Port], nets: Sequence[str]) -> Iterator[str]:
    return (f".{port.name}({net})" for port, net in zip(ports, nets))
