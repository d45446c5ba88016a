"""The modules of one transform: along an axis, along both at once, or along both in turns.

Along both axes the columns of a tile are transformed first, then the rows of the result. Rows, and
columns of products, differ in their ranges, so they have modules of their own; equal ones share it.
Folded, one module transforms a column a cycle and another one a row, with two buffers in between:
one is filled while the other is read.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from winogen.codegen.headers import TITLES_2D
from winogen.codegen.templates import Context
from winogen.codegen.verilog import words
from winogen.codegen.verilog.circuit import circuit, joined
from winogen.codegen.verilog.module import Module, Port, of_cases, ports_of
from winogen.errors import InvalidValue
from winogen.program.kinds import KINDS
from winogen.program.widths import Range

if TYPE_CHECKING:
    from winogen.program.ir import Program

Grid = tuple[tuple[Range, ...], ...]  # the range of every number of a tile


@dataclass(frozen=True, kw_only=True)
class NestedContext(Context, templates=("verilog/nested.v.j2",)):
    """What the template knows of columns and rows that are transformed at once."""

    head: Sequence[str]  # the comment of the module, in lines
    name: str
    stages: int  # of a pass
    inputs: Sequence[str]
    outputs: Sequence[str]
    half: Sequence[Mapping[str, Any]]  # wires between the passes, row by row
    columns: Sequence[Any]  # modules, and what they are connected with
    rows: Sequence[Any]


@dataclass(frozen=True, kw_only=True)
class FoldedContext(Context, templates=("verilog/folded.v.j2",)):
    """What the template knows of a column and a row that are transformed in each cycle."""

    head: Sequence[str]  # the comment of the module, in lines
    name: str
    stages: int  # of a pass
    inputs: Sequence[str]
    outputs: Sequence[str]
    column: Module
    row: Module
    n: int  # columns of a tile
    count: int  # rows of the result
    columns_bits: int  # of the number of a column, and below of a row
    rows_bits: int
    kept: Sequence[int]  # bits of each number of a row of a buffer
    reads: Sequence[Sequence[str]]  # what the module of rows reads of each row
    unused: Sequence[str]  # bits that nothing reads
    declared: Callable[..., str]  # writes the declaration of wires


@dataclass(frozen=True, kw_only=True)
class StreamContext(Context, templates=("verilog/stream.v.j2",)):
    """What the template of a handshake knows of the design inside."""

    name: str
    core: str  # the module inside
    stages: int
    inputs: Sequence[str]
    outputs: Sequence[str]
    ports: Sequence[Port]  # the outputs
    results: Sequence[str]  # wires of them, where the core has no registers
    connections: Sequence[str]


@dataclass(frozen=True)
class TransformDesign:
    """What is to be built: a matrix, its program of integers, and the ranges of what it reads.

    ``inputs``: one row of ranges for a transform along one axis, else as many as there are inputs.
    ``axes``: 1, or 2.
    ``dropped``: the last bits of every result, which are rounded, along each axis.
    """

    name: str  # of the module
    kind: str
    matrix: tuple[tuple[int, ...], ...]
    program: Program
    inputs: Grid
    axes: int = 1
    dropped: int = 0

    def after(self, inputs: Sequence[Range]) -> tuple[Range, ...]:
        """Return the exact ranges of the results along one axis."""
        made = circuit(self.program, KINDS[self.kind].target, self.dropped)
        found = made.ranges([inputs])
        return tuple(found[name] for name in made.outputs)

    @property
    def half(self) -> Grid:
        """The ranges behind the first pass, along columns."""
        columns = [self.after(column) for column in zip(*self.inputs)]
        return tuple(zip(*columns))


@dataclass(frozen=True)
class Design:
    """A transform as modules, the last of which is the one to use.

    ``protocol``: "combinational"; "staged", with clock and enable, so many ``stages`` from inputs
    to outputs; or "folded", with a handshake, a column of the tile in and a row of the result out.
    ``inputs`` and ``outputs`` are the ports, of a column and of a row where it is folded.
    """

    transform: TransformDesign
    protocol: str
    stages: int
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    modules: tuple[Module, ...]

    @property
    def name(self) -> str:
        """The name of the module to use."""
        return self.modules[-1].name


def design(
    transform: TransformDesign, *, stages: int = 0, folded: bool = False, head: Sequence[str] = ()
) -> Design:
    """Return the modules of a transform.

    ``stages``: of each pass, 0 for none; see `module`. ``folded``: along both axes in turns.
    ``head``: lines of comment above the module to use. Raises InvalidValue, and VerificationError
    where the program does not compute the matrix.
    """
    transform.program.verify(transform.matrix)
    if folded and transform.axes == 1:
        raise InvalidValue("folded: got it for one axis; allowed: for two, as one has one column")
    if folded:
        return _folded(transform, stages, head)
    if transform.axes == 2:
        return _nested(transform, stages, head)
    made = of_cases(
        transform.program,
        transform.name,
        transform.kind,
        transform.inputs,
        stages=stages,
        dropped=transform.dropped,
        head=head,
    )
    protocol = "staged" if stages else "combinational"
    return Design(transform, protocol, stages, made.inputs, made.outputs, (made,))


def _passes(
    transform: TransformDesign, lines: Sequence[Sequence[Range]], word: str, stages: int
) -> tuple[list[Module], list[Module]]:
    """(the modules of all lines of a tile, one for each; those of them that differ)."""
    different = list(dict.fromkeys(map(tuple, lines)))
    made = [
        of_cases(
            transform.program,
            f"{transform.name}_{word}" + (str(number) if len(different) > 1 else ""),
            transform.kind,
            (line,),
            stages=stages,
            dropped=transform.dropped,
        )
        for number, line in enumerate(different)
    ]
    return [made[different.index(tuple(line))] for line in lines], made


def _nested(transform: TransformDesign, stages: int, head: Sequence[str]) -> Design:
    _, _, source, target = KINDS[transform.kind]
    half = transform.half
    columns, column_modules = _passes(transform, list(zip(*transform.inputs)), "column", stages)
    rows, row_modules = _passes(transform, half, "row", stages)
    inputs = _grid(source, transform.inputs)
    outputs = _grid(target, tuple(tuple(p.range for p in row.outputs) for row in rows))
    count = range(len(half))

    def instance(made: Module, name: str, reads: Sequence[str], writes: Sequence[str]) -> Any:
        nets = [*zip(made.inputs, reads), *zip(made.outputs, writes)]
        clock = ["clk", "enable"] if stages else []
        ports = [f".{one}({one})" for one in clock] + [f".{p.name}({net})" for p, net in nets]
        return {"module": made.name, "name": name, "ports": filled(ports)}

    adders = sum(one.adders for one in (*columns, *rows))
    depth = columns[0].depth + rows[0].depth
    text = NestedContext(
        head=[
            *head,
            *([""] if head else []),
            f"{TITLES_2D[transform.kind]}: {adders} adders, {depth} deep"
            + (f", in {2 * stages} stages." if stages else "."),
        ],
        name=transform.name,
        stages=stages,
        inputs=ports_of("input ", inputs),
        outputs=ports_of("output", outputs, last=True),
        half=[
            {
                "range": str(joined(row)),
                "wires": filled(
                    [
                        words.declared("wire", range_.bits, f"half{i}_{j}") + ";"
                        for j, range_ in enumerate(row)
                    ],
                    "",
                ),
            }
            for i, row in enumerate(half)
        ],
        columns=[
            instance(
                made,
                f"column{j}",
                [f"{source}{i}_{j}" for i in range(len(transform.inputs))],
                [f"half{i}_{j}" for i in count],
            )
            for j, made in enumerate(columns)
        ],
        rows=[
            instance(
                made,
                f"row{i}",
                [f"half{i}_{j}" for j in range(len(half[0]))],
                [f"{target}{i}_{j}" for j in range(len(made.outputs))],
            )
            for i, made in enumerate(rows)
        ],
    ).render()
    top = Module(transform.name, text, inputs, outputs, 2 * stages, adders, depth)
    protocol = "staged" if stages else "combinational"
    return Design(
        transform, protocol, 2 * stages, inputs, outputs, (*column_modules, *row_modules, top)
    )


def _folded(transform: TransformDesign, stages: int, head: Sequence[str]) -> Design:
    half = transform.half

    def one_pass(word: str, cases: Sequence[Sequence[Range]]) -> Module:
        return of_cases(
            transform.program,
            f"{transform.name}_{word}",
            transform.kind,
            cases,
            stages=stages,
            dropped=transform.dropped,
        )

    column = one_pass("column", list(zip(*transform.inputs)))
    row = one_pass("row", half)
    n, count = len(transform.inputs), len(half)
    kept = [port.bits for port in column.outputs]  # of each number of a row of a buffer
    reads = [
        [words.operand(f"row{i}_{j}", kept[i], 0, port.bits) for j, port in enumerate(row.inputs)]
        for i in range(count)
    ]
    unused = [  # columns that are narrower than the widest
        f"row{i}_{j}[{kept[i] - 1}" + (f":{port.bits}]" if kept[i] - 1 > port.bits else "]")
        for i in range(count)
        for j, port in enumerate(row.inputs)
        if port.bits < kept[i]
    ]
    text = FoldedContext(
        head=[
            *head,
            *([""] if head else []),
            f"{TITLES_2D[transform.kind]}:",
            f"a column in and a row out per cycle, {column.adders + row.adders} adders.",
        ],
        name=transform.name,
        stages=stages,
        inputs=ports_of("input ", column.inputs),
        outputs=ports_of("output", row.outputs, last=True),
        column=column,
        row=row,
        n=n,
        count=count,
        columns_bits=max(1, (n - 1).bit_length()),
        rows_bits=max(1, (count - 1).bit_length()),
        kept=kept,
        reads=reads,
        unused=filled(unused),
        declared=words.declared,
    ).render()
    top = Module(
        transform.name,
        text,
        column.inputs,
        row.outputs,
        2 * stages,
        column.adders + row.adders,
        column.depth + row.depth,
    )
    return Design(transform, "folded", 2 * stages, column.inputs, row.outputs, (column, row, top))


def _grid(letter: str, ranges: Grid) -> tuple[Port, ...]:
    return tuple(
        Port(f"{letter}{i}_{j}", range_)
        for i, row in enumerate(ranges)
        for j, range_ in enumerate(row)
    )


def filled(parts: Sequence[str], comma: str = ",", width: int = 88) -> list[str]:
    """Return lines of so many columns that hold all parts, none of which is broken."""
    joint = f"{comma} ".join(part.replace(" ", "~") for part in parts)
    return [line.replace("~", " ") for line in textwrap.wrap(joint, width)]


def streamed(made: Design) -> Module:
    """Return the module that has a handshake around a design without one.

    A combinational transform is followed by registers, so that it takes a cycle.
    """
    name = f"{made.name}_stream"
    prefix = "" if made.stages else "core_"
    connections = [".clk(clk)", ".enable(in_ready)"] if made.stages else []
    connections += [f".{port.name}({port.name})" for port in made.inputs]
    connections += [f".{port.name}({prefix}{port.name})" for port in made.outputs]
    outputs = ports_of("output", made.outputs, last=True)
    if not made.stages:
        outputs = [line.replace("output wire", "output reg ", 1) for line in outputs]
    text = StreamContext(
        name=name,
        core=made.name,
        stages=made.stages,
        inputs=ports_of("input ", made.inputs),
        outputs=outputs,
        ports=made.outputs,
        results=[f"{words.declared('wire', p.bits, f'core_{p.name}')};" for p in made.outputs],
        connections=filled(connections),
    ).render()
    core = made.modules[-1]
    return Module(name, text, made.inputs, made.outputs, made.stages or 1, core.adders, core.depth)
