"""The transforms as a C++ header for high-level synthesis, with the widths of the Verilog.

Functions take the type of their numbers as a template of one argument, its bits, so one header
serves ap_int, ap_fixed and ac_int.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from winogen.codegen.ctext import Factor, infix, routine
from winogen.codegen.headers import TITLES_2D
from winogen.codegen.templates import Context
from winogen.codegen.verilog.circuit import Cases, circuit
from winogen.codegen.verilog.design import TransformDesign, filled
from winogen.program.kinds import KINDS
from winogen.program.widths import Range

_USAGE = (
    "`Int<W>` is an integer of W bits with a sign. With Vitis HLS and Intel's compiler:",
    "    template <int W> using Integer = ap_int<W>;         // or ap_fixed<W, W>",
    "with Catapult and others that have Algorithmic C types:",
    "    template <int W> using Integer = ac_int<W, true>;   // or ac_fixed<W, W>",
    "and then `{call}<Integer>(...)`.",
)


@dataclass(frozen=True, kw_only=True)
class FunctionsContext(Context, templates=("verilog/hls.h.j2",)):
    """What the template of the header knows."""

    head: Sequence[str]  # its comment, in lines
    guard: str
    functions: Sequence[Mapping[str, Any]]
    tiles: Sequence[Mapping[str, Any]]  # functions of both axes


def render(made: Mapping[str, TransformDesign], head: Sequence[str], name: str) -> str:
    """Return the header of the three transforms; the same arguments give the same bytes.

    ``name``: what its functions begin with. ``head``: lines of comment, before how to use it.
    """
    functions, tiles = [], []
    for transform in made.values():
        if transform.axes == 1:
            functions.append(_function(transform, transform.name, transform.inputs))
            continue
        columns, rows = tuple(zip(*transform.inputs)), transform.half
        functions.append(_function(transform, f"{transform.name}_column", columns))
        functions.append(_function(transform, f"{transform.name}_row", rows))
        tiles.append(_tile(transform))
    usage = [line.format(call=next(iter(made.values())).name) for line in _USAGE]
    return FunctionsContext(
        head=[*head, "", *usage], guard=name.upper(), functions=functions, tiles=tiles
    ).render()


def _found(transform: TransformDesign, cases: Cases) -> dict[str, Range]:
    made = circuit(transform.program, KINDS[transform.kind].target, transform.dropped)
    return made.ranges(cases)


def _function(transform: TransformDesign, name: str, cases: Cases) -> dict[str, Any]:
    _, symbol, source, target = KINDS[transform.kind]
    made = circuit(transform.program, target, transform.dropped)
    found = made.ranges(cases)
    bits = {value: one.bits for value, one in found.items()}
    lines = []
    for one in made.sums:
        width = bits[one.target]
        if one.dropped:
            (term,) = one.terms
            wide = max(bits[term.operand], one.dropped) + 1
            half = 1 << (one.dropped - 1)
            value = f"(Int<{wide}>({term.operand}) + Int<{wide}>({half})) >> {one.dropped}"
        else:
            value = infix([Factor(_wide(t, width), "", t.negative) for t in one.terms]) or "0"
        start = one.target if one.target in made.outputs else f"const Int<{width}> {one.target}"
        lines += [f"{start} = {value}; // {found[one.target]}"]
    parameters = [f"const Int<{bits[one]}> &{one}" for one in made.inputs]
    parameters += [f"Int<{bits[one]}> &{one}" for one in made.outputs]
    title = f"{target} = {symbol} {source}: {made.adders} adders."
    equations = [f"    {line}" for line in routine(transform.program, source, target).equations]
    return {
        "name": name,
        "comment": [title, "", *equations],
        "parameters": filled(parameters),
        "lines": lines,
    }


def _wide(term: Any, width: int) -> str:
    value = f"Int<{width}>({term.operand})"
    return f"({value} << {term.shift})" if term.shift else value


def _tile(transform: TransformDesign) -> dict[str, Any]:
    _, _, source, target = KINDS[transform.kind]
    columns, rows = tuple(zip(*transform.inputs)), transform.half
    first, second = _found(transform, columns), _found(transform, rows)
    n, count = len(transform.inputs), len(rows)
    half = [first[f"{target}{i}"].bits for i in range(count)]
    results = [second[f"{target}{j}"].bits for j in range(count)]
    reads = [f"{source}[{i}][j]" for i in range(n)]
    passed = [f"half[i][{j}]" for j in range(n)]
    return {
        "title": f"{TITLES_2D[transform.kind]}.",
        "name": transform.name,
        "source": source,
        "target": target,
        "n": n,
        "count": count,
        "in_bits": max(one.bits for row in transform.inputs for one in row),
        "out_bits": max(results),
        "half_bits": max(half),
        "half": half,
        "results": results,
        "column": filled([*reads, *(f"half{i}" for i in range(count))]),
        "row": filled([*passed, *(f"{target}{j}" for j in range(count))]),
    }
