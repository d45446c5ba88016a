"""F(m, r) in lanes of 8 or 16 bits as a C header, as Q7 and Q15: shifts where a lane overflows.

In place of wider operands the transforms are scaled down by rounding shifts, and the header says by
how much a result may be off. Where operands of 16 bits hold everything, `fixed` is exact.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any

from winogen.codegen.ctext import NamedConstant, Spelling, commented, names_of, routine
from winogen.codegen.headers import matrix_lines, of_integers, title
from winogen.codegen.templates import Context
from winogen.errors import InvalidValue
from winogen.fixed.lanes import Lanes, Passes, passes
from winogen.fixed.ranges import of_products, signed
from winogen.program.kinds import KINDS

if TYPE_CHECKING:
    from winogen.fixed.integral import Integral

_WIDTH = 97  # of a line of comment
_SUMS = 64


def bound(made: Integral, found: dict[str, Passes], bits: int) -> Fraction:
    """Return by how much a result may be off for each channel, in steps of input times filter.

    With stored v and u off by at most e and f, a product is off by at most |v| f + |u| e + e f.
    """
    inputs = signed(bits)

    def sizes(kind: str, i: int, j: int) -> tuple[Fraction, Fraction]:
        rows = made.matrices[kind]
        range_ = of_products([rows[i]], [rows[j]], inputs)
        step = 1 << found[kind].exponents[i][j]
        return Fraction(max(-range_.low, range_.high), step), found[kind].errors[i][j]

    count = made.algorithm.products
    off = {}
    for i, j in product(range(count), repeat=2):
        (v, e), (u, f) = sizes("input", i, j), sizes("filter", i, j)
        step = 1 << (found["input"].exponents[i][j] + found["filter"].exponents[i][j])
        off[i, j] = step * (v * f + u * e + e * f)
    return max(
        sum((abs(a[i] * b[j]) * off[i, j] for i, j in off), Fraction(0)) / made.scale**2
        for a in made.at
        for b in made.at
    )


@dataclass(frozen=True, kw_only=True)
class LaneIntegersContext(Context, templates=("lanes.h.j2",)):
    """What the template of a header in lanes knows."""

    head: Sequence[str]  # its comment, in lines
    guard: str
    name: str
    bits: int  # of a lane
    m: int
    r: int
    n: int
    products: int
    channels: int  # the most that sums hold
    scale: int  # of results
    transforms: Sequence[Mapping[str, Any]]  # of inputs and filters
    output: Mapping[str, Any]  # that of sums


def render(made: Integral, bits: int, name: str, command: str) -> str:
    """Return the header for lanes of so many bits, 8 or 16; the same arguments give the same bytes.

    Raises InvalidValue where 32 bits do not hold a sum before it is rounded, or 64 a result.
    """
    if bits not in (8, 16):
        raise InvalidValue(f"lanes: got {bits}; allowed: 8, 16")
    made.verify()
    algorithm, full = made.algorithm, f"winogen_{name}"
    found = {k: passes(made.programs[k], signed(bits), bits) for k in ("input", "filter")}
    off = bound(made, found, bits)
    result = (algorithm.r**2 << (2 * bits - 2)) + off
    channels = int(((1 << (_SUMS - 1)) - 1) / (result * made.scale**2 + made.scale**2)) - 1
    if channels < 1:
        raise InvalidValue(
            f"lanes: got a scale of {made.spelled()}; allowed: scales whose product with results "
            f"fits {_SUMS} bits, by points that are small integers"
        )
    head = of_integers(made, f"in lanes of {bits} bits", command)
    head += textwrap.wrap(
        f"Inputs and filters are any integers of {bits} bits. Values that a lane does not hold are "
        "scaled down by the fewest bits that their exact ranges ask for, and rounded to nearest, "
        f"halves down; no lane overflows. Each channel adds at most {off} (about {float(off):.4g}) "
        "steps of an input times a filter to the error of a result, and its rounding to an integer "
        f"1/2. The largest result of a channel is {algorithm.r**2 << (2 * bits - 2)} steps.",
        _WIDTH,
    )
    program = made.programs["output"]
    _, _, source, target = KINDS["output"]
    output = routine(program, source, target, _wide())
    return LaneIntegersContext(
        head=list(map(commented, head)),
        guard=full.upper(),
        name=full,
        bits=bits,
        m=algorithm.m,
        r=algorithm.r,
        n=algorithm.n,
        products=algorithm.products,
        channels=channels,
        scale=made.scale**2,
        transforms=[_transform(made, kind, found[kind], full) for kind in found],
        output={"title": title(KINDS["output"], program), "lines": output.lines},
    ).render()


def _wide() -> Spelling:
    return Spelling(
        local="const uint64_t {name} = {value};",
        store="{array}[{index}] = {value};",
        zero="0",
        constant=lambda name, value: NamedConstant(f"{value}u", "", ""),
    )


def _transform(made: Integral, kind: str, found: Passes, full: str) -> dict[str, Any]:
    program, (_, _, source, target) = made.programs[kind], KINDS[kind]
    both = [("columns", found.columns), ("rows", found.rows)]
    names = names_of(program, target)
    rows = [("value", "shifts of columns", "of rows")]
    for one, other in zip(found.columns.statements, found.rows.statements):
        rows.append((names[one.target], str(one.shift), str(other.shift)))
    return {
        "kind": kind,
        "title": title(KINDS[kind], program),
        "comment": [
            *matrix_lines(rows),
            "",
            "A number is what is stored times 2 to the power of its shifts, which are summed here:",
        ],
        "exponents": found.exponents,
        "passes": [(name, _lines(made, kind, lanes, full)) for name, lanes in both],
        "source": source,
        "target": target,
        "inputs": len(program.inputs),
    }


def _lines(made: Integral, kind: str, lanes: Lanes, full: str) -> list[str]:
    """The statements of a pass in C."""
    program, (_, _, source, target) = made.programs[kind], KINDS[kind]
    names = names_of(program, target)
    place = {name: f"{source}[{i}]" for i, name in enumerate(program.inputs)}
    lines = []
    for one in lanes.statements:
        text = " + ".join(f"{factor} * {place[name]}" for factor, name in one.terms)
        for long, short in (("+ -", "- "), (" 1 * ", " "), ("-1 * ", "-")):
            text = f" {text}".replace(long, short)[1:]
        place[one.target] = names[one.target]
        value = f"{full}_rounded({text}, {one.shift})" if one.shift else f"({full}_lane_t)({text})"
        lines.append(f"const {full}_lane_t {names[one.target]} = {value};")
    return [
        *lines,
        *(f"{target}[{i}] = {place.get(name, '0')};" for i, name in enumerate(program.outputs)),
    ]
