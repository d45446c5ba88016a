"""Numbers of two's complement as Verilog: operands as wide as their sum, bounds, declarations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from winogen.codegen.ctext import Factor, infix
from winogen.codegen.verilog.circuit import Shifted, Sum
from winogen.program.widths import Range, signed


def declared(kind: str, bits: int, name: str) -> str:
    """Return a declaration of a number.

    >>> declared("wire", 9, "t0")
    'wire signed [8:0] t0'
    """
    return f"{kind} signed [{bits - 1}:0] {name}"


def operand(name: str, bits: int, shift: int, width: int) -> str:
    """Return ``name << shift`` in exactly ``width`` bits, its sign extended or its top cut off.

    >>> operand("d0", 8, 0, 8), operand("d0", 8, 2, 11), operand("d0", 8, 2, 9)
    ('d0', "{d0[7], d0, 2'b0}", "{d0[6:0], 2'b0}")
    """
    kept = min(bits, width - shift)
    if kept <= 0:
        return f"{width}'d0"
    extended = width - shift - kept
    parts = [name if kept == bits else f"{name}[{kept - 1}:0]"]
    sign = f"{name}[{bits - 1}]"
    if extended:
        parts.insert(0, sign if extended == 1 else f"{{{extended}{{{sign}}}}}")
    if shift:
        parts.append(f"{shift}'b0")
    return f"{{{', '.join(parts)}}}" if len(parts) > 1 else parts[0]


def total(one: Sum, names: Mapping[str, str], bits: Mapping[str, int], width: int) -> str:
    """Return the sum of the terms of a statement, before any rounding, in ``width`` bits.

    ``names``: what its operands are called here. ``bits``: how wide they are.
    """
    if not one.terms:
        return f"{width}'d0"
    # Signed operands are extended by the language; a lint wants to see it from two bits on.
    plain = all(
        term.shift == 0 and width - bits[term.operand] in ((0, 1) if one.adders else (0,))
        for term in one.terms
    )

    def spelled(term: Shifted) -> str:
        name = names[term.operand]
        return name if plain else operand(name, bits[term.operand], term.shift, width)

    return infix([Factor(spelled(term), "", term.negative) for term in one.terms])


def literal(value: int, bits: int) -> str:
    """Return a number of so many bits with a sign.

    >>> literal(-3, 4), literal(5, 8)
    ("-4'sd3", "8'sd5")
    """
    return f"{'-' if value < 0 else ''}{bits}'sd{abs(value)}"


def bounds(name: str, range_: Range, bits: int) -> list[str]:
    """Return what holds of a number beyond what its width says: none, one or two comparisons.

    >>> bounds("v0", Range(-255, 255), 9), bounds("v0", Range(-256, 255), 9)
    (["v0 >= -9'sd255"], [])
    """
    whole = signed(bits)
    found = []
    if range_.low > whole.low:
        found.append(f"{name} >= {literal(range_.low, bits)}")
    if range_.high < whole.high:
        found.append(f"{name} <= {literal(range_.high, bits)}")
    return found


def conjunction(terms: Sequence[str], indent: str) -> str:
    """Return that all conditions hold, in lines of about 60 columns."""
    lines, line = [], ""
    for term in terms:
        more = f"{line} && {term}" if line else term
        if line and len(more) > 60:
            lines.append(line)
            more = f"&& {term}"
        line = more
    return f"\n{indent}".join([*lines, line])


def rounded(name: str, bits: int, dropped: int, width: int) -> str:
    """Return a number without its last bits, rounded, in ``width`` bits.

    >>> rounded("t0", 12, 4, 9)
    "{t0[11], t0[11:4]} + {8'b0, t0[3]}"
    """
    kept = bits - dropped
    if kept < 1:  # all but the sign is rounded off
        top = f"{{{width}{{{name}[{bits - 1}]}}}}"
        half = f"{name}[{min(dropped, bits) - 1}]"
    else:
        high = min(bits - 1, dropped + width - 1)
        top = f"{name}[{high}:{dropped}]"
        extended = width - (high - dropped + 1)
        if extended:
            sign = f"{name}[{bits - 1}]"
            sign = sign if extended == 1 else f"{{{extended}{{{sign}}}}}"
            top = f"{{{sign}, {top}}}"
        half = f"{name}[{dropped - 1}]"
    low = f"{{{width - 1}'b0, {half}}}" if width > 1 else half
    return f"{top} + {low}"
