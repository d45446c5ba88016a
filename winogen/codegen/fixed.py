"""F(m, r) in integers as one C header, for processors without floating point.

Its arithmetic is exact: a tile by these functions equals direct convolution bit for bit. The types
are as narrow as the widths allow, which are proven (`winogen.fixed`).
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from winogen.codegen.ctext import NamedConstant, Spelling, commented, names_of, routine
from winogen.codegen.fixed_planner import of_catalog
from winogen.codegen.headers import TITLES_2D, matrix_lines, of_integers, title
from winogen.codegen.templates import Context
from winogen.errors import InvalidValue
from winogen.fixed.integral import SUMS, WORDS
from winogen.fixed.ranges import Range, intervals, ranges, ranges_2d, signed
from winogen.program.kinds import KINDS

if TYPE_CHECKING:
    from winogen.algebra.scalar import Scalar
    from winogen.fixed.integral import Integral

_WIDTH = 97  # of a line of comment
_TYPES = (8, 16, 32, 64)  # bits
# What ARM calls the instructions that add two products, by the bits of operands and sums.
_DUAL = {(16, 32): "__smlad", (16, 64): "__smlald"}


@dataclass(frozen=True)
class TypeWidths:
    """The narrowest types that hold everything, in bits, for both axes of a tile."""

    inputs: Range
    filters: Range
    word: int  # of operands of products
    wide: int  # of transforms that lead to them
    sums: int
    channels: int  # at most, that the sums hold


def widths(made: Integral, bits: int, filter_bits: int, channels: int = 1) -> TypeWidths:
    """Return the types that an algorithm needs for integers of so many bits and these channels.

    Raises InvalidValue where even the widest do not hold them.
    """
    inputs, filters = signed(bits), signed(filter_bits)
    operands = made.operands("input", inputs), made.operands("filter", filters)
    needed = max(one.bits for one in operands)
    word = _first(WORDS, needed, f"operands of {needed} bits")
    passed = [
        one.bits
        for kind, given in (("input", inputs), ("filter", filters))
        for one in ranges_2d(made.programs[kind], given).values()
    ]
    wide = _first(WORDS[1:] + SUMS[1:], max(passed), f"values of {max(passed)} bits")
    fitting = (one for one in SUMS if made.channels(inputs, filters, one) >= channels)
    sums = 2 * word if word > WORDS[0] else next(fitting, 0)
    most = made.channels(inputs, filters, sums) if sums else 0
    if most < channels:
        raise InvalidValue(
            f"channels: got {channels}; allowed: at most "
            f"{made.channels(inputs, filters, SUMS[-1])}, which sums of {SUMS[-1]} bits hold"
        )
    return TypeWidths(inputs, filters, word, wide, sums, most)


def _first(sizes: tuple[int, ...], needed: int, what: str) -> int:
    for size in sizes:
        if needed <= size:
            return size
    raise InvalidValue(
        f"bits: got numbers that lead to {what}; allowed: {sizes[-1]} bits, by fewer bits, a "
        "smaller tile, or points that are small integers"
    )


def with_fewer_bits(made: Integral, inputs: Range, filters: Range) -> tuple[str, Integral] | None:
    """Return the catalog's algorithm of the same size whose operands need fewest bits, by its name.

    None where none needs fewer than this one.
    """
    this = made.algorithm

    def bits(one: Integral) -> int:
        given = (("input", inputs), ("filter", filters))
        return max(one.operands(kind, range_).bits for kind, range_ in given)

    best: tuple[str, Integral] | None = None
    least = bits(made)
    for name, other in of_catalog(this.m, this.r, this.stride):
        if bits(other) < least:
            best, least = (name, other), bits(other)
    return best


@dataclass(frozen=True, kw_only=True)
class IntegersContext(Context, templates=("fixed.h.j2",)):
    """What the template of a header in integers knows."""

    head: Sequence[str]  # its comment, in lines
    guard: str
    name: str
    types: Mapping[str, str | None]  # of inputs, words, sums and the like, in C
    inputs: Range
    filters: Range
    sum_bits: int
    channels: int  # the most that sums hold
    m: int
    r: int
    n: int
    stride: int
    products: int
    scale: int  # of results, 2^power * odd
    odd: int
    inverse: str  # of odd, modulo the range of sums
    power: int
    unscaling: str  # when results are exact, in words
    transforms: Sequence[Mapping[str, Any]]


def render(made: Integral, found: TypeWidths, name: str, command: str) -> str:
    """Return the header; the same arguments give the same bytes.

    ``name``: what its functions begin with, after ``winogen_``. ``command``: what regenerates it.
    """
    made.verify()
    algorithm, full = made.algorithm, f"winogen_{name}"
    odd, power = made.divisor()
    suffix = "u" if found.sums == SUMS[0] else "ull"
    result = f"int{found.sums}_t"
    types = {
        "input": f"int{_first(_TYPES, found.inputs.bits, 'inputs')}_t",
        "filter": f"int{_first(_TYPES, found.filters.bits, 'filters')}_t",
        "word": f"int{found.word}_t",
        "sum": f"u{result}",
        "result": result,
        "most": f"INT{found.sums}_MAX",
        "dual": _DUAL.get((found.word, found.sums)),
    }
    return IntegersContext(
        head=list(map(commented, _head(made, found, command))),
        guard=full.upper(),
        name=full,
        types=types,
        inputs=found.inputs,
        filters=found.filters,
        sum_bits=found.sums,
        channels=found.channels,
        m=algorithm.m,
        r=algorithm.r,
        n=algorithm.n,
        stride=algorithm.stride,
        products=algorithm.products,
        scale=made.scale**2,
        odd=odd,
        inverse=f"{pow(odd, -1, 1 << found.sums)}{suffix}",
        power=1 << power,
        unscaling=f", if that is less than 2^{found.sums - 1 - power} in magnitude",
        transforms=[_function(made, kind, found, full) for kind in KINDS],
    ).render()


def _function(made: Integral, kind: str, found: TypeWidths, full: str) -> dict[str, Any]:
    program, (_, _, source, target) = made.programs[kind], KINDS[kind]
    vec = f"{full}_sum_t" if kind == "output" else f"int{found.wide}_t"
    text = routine(program, source, target, _spelling(vec, "u" if kind == "output" else ""))
    comment = [f"    {one}" for one in text.equations]
    if kind != "output":
        given = found.inputs if kind == "input" else found.filters
        comment += ["", *matrix_lines(table_of_ranges(made, kind, given))]
    return {
        "kind": kind,
        "title": title(KINDS[kind], program),
        "title_2d": f"{TITLES_2D[kind]}.",
        "comment": comment,
        "vec": vec,
        "source": source,
        "target": target,
        "inputs": len(program.inputs),
        "outputs": len(program.outputs),
        "lines": text.lines,
    }


def _spelling(vec: str, suffix: str) -> Spelling:
    """C with constants as they stand: their names are their values."""

    def constant(name: str, value: Scalar) -> NamedConstant:
        return NamedConstant(f"{value}{suffix}", "", "")

    return Spelling(
        local=f"const {vec} {{name}} = {{value}};",
        store="{array}[{index}] = {value};",
        zero="0",
        constant=constant,
    )


def table_of_ranges(made: Integral, kind: str, inputs: Range) -> list[tuple[str, ...]]:
    """Return a row for each value of a transform: its name, its ranges, and their bits.

    Ranges are of one axis, exact and by interval arithmetic, and of the second pass of two axes.
    """
    program = made.programs[kind]
    names = names_of(program, KINDS[kind].target)
    one, loose = ranges(program, inputs), intervals(program, inputs)
    two = ranges_2d(program, inputs)
    rows: list[tuple[str, ...]] = [
        ("value", "one axis", "bits", "intervals", "bits", "both axes", "bits")
    ]
    for statement in program.statements:
        cells = [names[statement.target]]
        for of in (one, loose, two):
            range_ = of[statement.target]
            cells += [str(range_), str(range_.bits)]
        rows.append(tuple(cells))
    return rows


def _head(made: Integral, found: TypeWidths, command: str) -> list[str]:
    _, power = made.divisor()
    lines = of_integers(made, "in integers, exact", command)
    v, u = (made.operands(k, g) for k, g in (("input", found.inputs), ("filter", found.filters)))
    lines += textwrap.wrap(
        f"Transformed tiles are {v} ({v.bits} bits), transformed filters {u} ({u.bits} bits). "
        f"Sums of products, and the transform behind them, are modulo 2^{found.sums}: they may "
        f"wrap, for {found.sums} bits hold the result times 2^{power} for up to {found.channels} "
        f"channels. The scale {made.spelled()} is divided out exactly.",
        _WIDTH,
    )
    fewer = with_fewer_bits(made, found.inputs, found.filters)
    if fewer:
        lines += ["", *textwrap.wrap(told(fewer, found.inputs, found.filters), _WIDTH)]
    return [*lines, "", *textwrap.wrap(_PROOF, _WIDTH)]


def told(fewer: tuple[str, Integral], inputs: Range, filters: Range) -> str:
    """Return a sentence about an algorithm that needs fewer bits."""
    name, other = fewer
    v, u = other.operands("input", inputs), other.operands("filter", filters)
    origin = other.algorithm.moduli or other.algorithm.points or ()
    kind = "moduli" if other.algorithm.moduli else "points"
    return (
        f"Fewer bits: {v.bits} and {u.bits} by the {kind} {', '.join(map(str, origin))} ({name}), "
        f"whose scale is {other.scale**2}."
    )


_PROOF = (
    "Proven: the three matrices are a bilinear algorithm of the convolution, and each function "
    "computes its matrix entry by entry. Some input reaches each end of the ranges below, but for "
    "those by interval arithmetic."
)
