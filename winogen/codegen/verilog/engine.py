"""An engine of Cook-Toom convolution as Verilog: a module for each of its parts, and their widths.

Nothing here is guessed: operands have the bits of their exact ranges, products and their sums those
that follow, and sums of channels are modulo 2^32.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING

from winogen.codegen.templates import wrapped
from winogen.codegen.verilog import words
from winogen.codegen.verilog.engine_record import PARTS, SETTINGS, Case, EngineContext, Rescaled
from winogen.codegen.verilog.module import Module, module, of_cases
from winogen.fixed.integral import Integral
from winogen.program import adder_program
from winogen.program.kinds import KINDS
from winogen.program.widths import Range, of_products, signed

if TYPE_CHECKING:
    from winogen.program.ir import Program

BYTE = signed(8)
SUM_BITS = 32  # of the sums of all channels
SCALE_BITS = 16  # of scales, which have no sign
SCALE_POINT = 15  # bits of the first scale behind the point: it is at most 1
_COLUMNS = 97  # of a line of comment
_LINE = 60  # columns that a concatenation may take beside what it is assigned to


@dataclass(frozen=True)
class Memories:
    """Words of the memories of an engine.

    ``rows``: of each of two banks of the line buffer. ``sums``: slices of sums. ``buffers``: groups
    of filters. ``filter_groups``: whose scales and offsets there are.
    """

    rows: int
    sums: int
    buffers: int
    filter_groups: int


@dataclass(frozen=True)
class EngineCircuit:
    """An engine <f_i, T, f_o, L> that computes F(m x m, r x r) by ``made``, and its widths in bits.

    ``quantised``: transformed inputs and filters are rescaled to 8 bits; else nothing is rounded.
    """

    made: Integral
    f_i: int
    f_o: int
    lanes: int
    quantised: bool
    memories: Memories

    @property
    def m(self) -> int:
        """Outputs of a tile along an axis."""
        return self.made.algorithm.m

    @property
    def r(self) -> int:
        """Taps of the filter along an axis."""
        return self.made.algorithm.r

    @property
    def t(self) -> int:
        """The side of a transformed tile."""
        return self.made.algorithm.n

    @cached_property
    def positions(self) -> tuple[tuple[Range, ...], ...]:
        """The exact range of every position of a transformed tile: rows, then columns."""
        bt = self.made.bt
        return tuple(tuple(of_products([row], [column], BYTE) for column in bt) for row in bt)

    @cached_property
    def drops(self) -> tuple[tuple[int, ...], ...]:
        """By how many bits a position of a tile is rescaled: those that its range has above 8."""
        kept = BYTE.bits if self.quantised else 64
        return tuple(tuple(max(0, one.bits - kept) for one in row) for row in self.positions)

    @cached_property
    def programs(self) -> dict[str, Program]:
        """The adders of both transforms that the engine has: {kind: Program}, proven."""
        return {kind: _program(kind, self.made.matrices[kind]) for kind in ("input", "output")}

    @property
    def values(self) -> Range:
        """Transformed inputs as they are multiplied."""
        return BYTE if self.quantised else self.made.operands("input", BYTE)

    @property
    def filters(self) -> Range:
        """Transformed filters as they are multiplied."""
        return BYTE if self.quantised else self.made.operands("filter", BYTE)

    @cached_property
    def products(self) -> Range:
        """A transformed input times a transformed filter."""
        ends = [v * u for v in self.values for u in self.filters]
        return Range(min(ends), max(ends))

    @property
    def dots(self) -> Range:
        """Sums of the products of f_i channels."""
        return Range(*(self.f_i * end for end in self.products))

    @property
    def channels(self) -> int:
        """The most channels of a layer that sums of 32 bits hold, whatever the numbers are."""
        limit = (1 << (SUM_BITS - 1)) - 1
        largest = max(abs(a * b) for a in BYTE for b in BYTE)
        if not self.quantised:
            return min(self.made.channels(BYTE, BYTE, SUM_BITS), limit // largest)
        # With the offset for the input's zero, which may be as large as the sum.
        growth = max(sum(map(abs, row)) for row in self.made.at) ** 2
        return limit // (2 * growth * largest)


@cache
def _program(kind: str, matrix: tuple[tuple[int, ...], ...]) -> Program:
    _, _, source, target = KINDS[kind]
    program = adder_program(matrix, inputs=source, outputs=target)
    program.verify(matrix)
    return program


def verilog(circuit: EngineCircuit, name: str, command: str) -> dict[str, str]:
    """Return the modules of an engine: {file name: text}, the one to use first.

    ``name``: of that module, and the beginning of all other names. ``command``: what writes them.
    """
    known = context(circuit, name, command)
    files = {
        f"{name}{f'_{part}' if part != 'engine' else ''}.v": replace(
            known, title=title.format(name=name)
        ).render(f"verilog/engine/{part}.v.j2")
        for part, title in PARTS.items()
        if part != "table" or circuit.quantised
    }
    for one in _transforms(circuit, name):
        head = f"// Generated by `{command}`; do not edit.\n//\n"
        files[f"{one.name}.v"] = head + one.text
    return {file: text.rstrip("\n") + "\n" for file, text in files.items()}


def _transforms(circuit: EngineCircuit, name: str) -> list[Module]:
    """The transforms along an axis: of rows of pixels, of columns behind these, of sums."""
    forward, backward = (circuit.programs[kind] for kind in ("input", "output"))
    along_x = module(forward, f"{name}_input_x", "input", BYTE)
    each = [[port.range] * circuit.t for port in along_x.outputs]
    return [
        along_x,
        of_cases(forward, f"{name}_input_y", "input", each),
        module(backward, f"{name}_output", "output", signed(SUM_BITS)),
    ]


def context(circuit: EngineCircuit, name: str, command: str) -> EngineContext:
    """Return what the templates of an engine know; ``command``: what writes them."""
    m, r, t, lanes, f_i, f_o = (
        circuit.m, circuit.r, circuit.t, circuit.lanes, circuit.f_i, circuit.f_o,
    )  # fmt: skip
    along_x, along_y, output = _transforms(circuit, name)
    x_bits = max(port.bits for port in along_x.outputs)
    v_bits, u_bits = circuit.values.bits, circuit.filters.bits
    word_pixels, pixel = lanes * m, f_i * 8
    word_bits, slice_bits = word_pixels * pixel, lanes * t * pixel
    others = f"in_data[{slice_bits - 1}:{word_bits}]"
    if slice_bits < 2 * word_bits:
        others = f"{{{2 * word_bits - slice_bits}'d0, {others}}}"
    odd, power = circuit.made.divisor()
    dots, memories = circuit.dots, circuit.memories
    point = 1 << SCALE_POINT
    scaled = Range(*(end * point + point // 2 for end in dots))
    sizes = {
        "row": memories.rows,
        "sum": memories.sums,
        "filter": memories.buffers * t,
        "table": memories.filter_groups * t,
        "finish": memories.filter_groups,
    }
    index = {what: max(1, (size - 1).bit_length()) for what, size in sizes.items()}
    return EngineContext(
        name=name,
        command=f"Generated by `{command}`; do not edit.",
        m=m, r=r, t=t, lanes=lanes, f_i=f_i, f_o=f_o,
        quantised=circuit.quantised,
        settings=SETTINGS,
        about=_about(circuit),
        # pixels, words and slices
        word_pixels=word_pixels, word_bits=word_bits, slice_pixels=lanes * t,
        others=others,
        pixel_count=lanes * t * f_o, sums_count=lanes * t * f_o,
        # bits
        x_bits=x_bits, v_bits=v_bits, u_bits=u_bits,
        product_bits=circuit.products.bits, sum_bits=dots.bits, dot_bits=dots.bits,
        scale_bits=SCALE_BITS, scale_point=SCALE_POINT, scaled_bits=scaled.bits,
        acc_bits=SUM_BITS, offset_bits=SUM_BITS + SCALE_BITS,
        finish_bits=SUM_BITS + 2 * SCALE_BITS, filter_bits=t * f_i * u_bits,
        # memories
        row_depth=max(2, sizes["row"]), row_bits=index["row"],
        sum_depth=max(2, sizes["sum"]), sum_address=index["sum"],
        filter_depth=max(2, sizes["filter"]), filter_address=index["filter"],
        table_depth=max(2, sizes["table"]), table_address=index["table"],
        finish_depth=max(2, sizes["finish"]), finish_index=index["finish"],
        # cycles
        dot_cycles=4 if circuit.quantised else 2,
        # transforms
        x_outputs=along_x.outputs, y_outputs=along_y.outputs, outputs=output.outputs,
        along_x=_joined("x", [port.bits for port in along_x.outputs], x_bits),
        along_y=_joined("y", [port.bits for port in along_y.outputs], v_bits),
        pixels_extended=_pixels(t, v_bits),
        rescaled=_rescaled(circuit, along_y),
        rescaled_values=_concatenation([f"value{i}" for i in range(t)]),
        along_columns=_concatenation([f"y{i}[{SUM_BITS - 1}:0]" for i in range(m)]),
        odd=odd, power=power, inverse=pow(odd, -1, 1 << SUM_BITS),
        spelled_scale=circuit.made.spelled(),
        unused=_unused(circuit, output, power),
    )  # fmt: skip


def _joined(letter: str, bits: Sequence[int], width: int) -> str:
    """Numbers side by side, each with its sign extended."""
    return _concatenation(
        [words.operand(f"{letter}{i}", one, 0, width) for i, one in enumerate(bits)]
    )


def _pixels(count: int, width: int) -> str:
    """Bytes side by side, as numbers of more bits."""
    more = width - BYTE.bits
    parts = []
    for i in range(count):
        byte = f"pixels[{8 * i + 7}:{8 * i}]"
        parts.append(f"{{{more}{{pixels[{8 * i + 7}]}}}}, {byte}" if more else byte)
    return _concatenation(parts)


def _concatenation(parts: Sequence[str]) -> str:
    """Values side by side, the first one lowest, in lines of at most 100 columns."""
    line = f"{{{', '.join(reversed(parts))}}}"
    if len(line) <= _LINE:
        return line
    return f"{{\n{wrapped(list(reversed(parts)), 16, ', ')}\n            }}"


def _rescaled(circuit: EngineCircuit, along_y: Module) -> list[Rescaled]:
    made = []
    for i, port in enumerate(along_y.outputs):
        drops, ranges = circuit.drops[i], circuit.positions[i]
        wide = max(
            Range(*((end + ((1 << drop) >> 1)) >> drop for end in one)).bits
            for drop, one in zip(drops, ranges)
        )
        wide = max(wide, 8)
        cases = []
        for drop in sorted(set(drops)):
            columns = ", ".join(f"4'd{j}" for j, one in enumerate(drops) if one == drop)
            value = (
                words.rounded(port.name.replace("v", "y"), port.bits, drop, wide)
                if drop
                else words.operand(port.name.replace("v", "y"), port.bits, 0, wide)
            )
            cases.append(Case(columns, value))
        name = f"rounded{i}"
        saturated = name if wide == 8 else f"{name} > {wide}'sd127 ? 8'd127 : {name}[7:0]"
        made.append(Rescaled(i, wide, tuple(cases), saturated))
    return made


def _unused(circuit: EngineCircuit, output: Module, power: int) -> list[str]:
    found = []
    for i, port in enumerate(output.outputs):
        if port.bits > SUM_BITS:
            found += [f"{one}{i}[{port.bits - 1}:{SUM_BITS}]" for one in "yz"]
        if power and not circuit.quantised:
            found.append(f"w{i}[{power - 1}:0]")
    return found


def _about(circuit: EngineCircuit) -> list[str]:
    algorithm, lanes = circuit.made.algorithm, circuit.lanes
    v, u = circuit.values, circuit.filters
    products = circuit.f_i * circuit.t * circuit.f_o * lanes
    kind = f"{circuit.m}x{circuit.m}, {circuit.r}x{circuit.r}"
    text = [
        f"<{circuit.f_i}, {circuit.t}, {circuit.f_o}, {lanes}>: in each cycle a slice of "
        f"{circuit.t} positions and {circuit.f_i} channels, in {lanes} "
        f"lane{'s' if lanes > 1 else ''}, meets {circuit.f_o} filters: {products} products of "
        f"{v.bits} x {u.bits} bits. F({kind}) on the points "
        f"{', '.join(map(str, algorithm.points or ()))}.",
    ]
    if circuit.quantised:
        text.append(
            "Transformed inputs and filters are rescaled to 8 bits, so results are not exactly "
            "those of direct convolution."
        )
    else:
        text.append(
            f"Exact: transformed inputs are {v}, filters {u}; the scale {circuit.made.spelled()} "
            "is divided out, and results are those of direct convolution, bit for bit."
        )
    text.append(
        f"Sums of {SUM_BITS} bits hold {circuit.channels} channels of any bytes. The line buffer "
        f"has {circuit.memories.rows} words in each of two banks, there are "
        f"{circuit.memories.sums} slices of sums, and filters of {circuit.memories.buffers} "
        "groups."
    )
    return [line for one in text for line in textwrap.wrap(one, _COLUMNS)]
