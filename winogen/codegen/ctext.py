"""Straight-line programs as text: statements of C or a sister, and the factored equations above.

Nothing here changes a program; names are chosen, signs are placed, constants are spelled. Every
operation of the program is one operation of the text, so the compiled code (without contraction)
and ``Program.run`` round alike, bit for bit. `Spelling` is what differs from language to language.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from winogen.program.ir import ZERO, Program

if TYPE_CHECKING:
    from winogen.algebra.scalar import Scalar


@dataclass(frozen=True)
class NamedConstant:
    """A positive constant: its name, its initialiser and, if that is not exact, its value."""

    name: str
    initialiser: str
    exact: str  # "" where the initialiser itself is the exact value


@dataclass(frozen=True)
class Routine:
    """One transform ready for the template: constants, lines and equations in the same order."""

    constants: tuple[NamedConstant, ...]
    lines: tuple[str, ...]
    equations: tuple[str, ...]


class Factor(NamedTuple):
    """A term of a sum: an operand, the name of the constant before it ("" for 1) and its sign."""

    operand: str
    constant: str
    negative: bool


def infix(terms: Sequence[Factor]) -> str:
    """Spell a sum as most languages do, the positive terms first: "y - k * x".

    >>> infix([Factor("x", "k", True), Factor("y", "", False)])
    'y - k * x'
    """
    return _signed_sum(
        (term.negative, term.operand, term.constant and f"{term.constant} * ") for term in terms
    )


@dataclass(frozen=True)
class Spelling:
    """How a language spells the parts of a routine."""

    local: str  # a definition, with {name} and {value}
    store: str  # into an array, with {array}, {index} and {value}
    zero: str
    constant: Callable[[str, Scalar], NamedConstant]  # of a name and a positive value
    total: Callable[[Sequence[Factor]], str] = infix  # of one or two terms
    first: int = 0  # the index of an array's first element


def spelling_of_c(vec: str = "WINOGEN_VEC", real: str = "WINOGEN_REAL") -> Spelling:
    """Return how C spells routines that compute on ``vec``, with constants of the type ``real``."""
    return Spelling(
        local=f"const {vec} {{name}} = {{value}};",
        store="{array}[{index}] = {value};",
        zero=f"({vec}){{0}}",
        constant=lambda name, value: constant_of_c(name, value, real),
    )


def routine(
    program: Program, source: str, target: str, spelling: Spelling | None = None
) -> Routine:
    """Spell ``program``, reading ``source[i]`` and writing ``target[i]``; in C by default.

    >>> from winogen.program import Program, Statement, Term
    >>> half = Statement("t3", (Term("1/2", "g1"), Term(1, "g0")))
    >>> half = Program(("g0", "g1"), (half,), ("t3",))
    >>> text = routine(half, "g", "u")
    >>> text.lines, text.equations
    (('u[0] = k1_2 * g[1] + g[0];',), ('u0 = 1/2 g1 + g0',))
    """
    spelling = spelling or spelling_of_c()
    first = spelling.first
    names = names_of(program, target)
    place = {name: f"{source}[{first + i}]" for i, name in enumerate(program.inputs)}
    constants = _constants(program, spelling)
    reads = Counter(name for s in program.statements for name in s.operands)
    lines = []

    def store(index: int, value: str) -> None:
        lines.append(spelling.store.format(array=target, index=first + index, value=value))

    for statement in program.statements:
        local = names[statement.target]
        value = spelling.total(
            [
                Factor(
                    place[term.operand],
                    "" if term.is_unit else constants[term.magnitude].name,
                    term.coefficient < 0,
                )
                for term in statement.terms
            ]
        )
        is_output = local.startswith(target)
        if is_output and not reads[statement.target]:
            store(int(local[len(target) :]), value)
        else:
            lines.append(spelling.local.format(name=local, value=value))
            place[statement.target] = local
            if is_output:
                store(int(local[len(target) :]), local)
    # Outputs that no statement writes: an input, a second copy of an output, or zero.
    for i, name in enumerate(program.outputs):
        if name == ZERO:
            store(i, spelling.zero)
        elif names[name] != f"{target}{i}":
            # A value that is an output and read by nobody else has no local of its own.
            written = names[name][len(target) :]
            store(i, place[name] if name in place else f"{target}[{first + int(written)}]")
    return Routine(
        tuple(constants.values()),
        tuple(lines),
        tuple(_equations(program, names, reads, target)),
    )


def commented(text: str) -> str:
    """Return ``text`` as it may stand within a C comment, which it neither ends nor leaves.

    >>> commented("--points '0 */ evil() /* 1'\\n")
    "--points '0 *\\\\/ evil() /\\\\* 1' "
    """
    text = "".join(c if c.isprintable() else " " for c in text)
    return text.replace("*/", "*\\/").replace("/*", "/\\*")


def names_of(program: Program, target: str) -> dict[str, str]:
    """Name each value: inputs keep theirs, outputs are v0, v1, ..., others t0, t1, ... in order.

    A value that is several outputs is named after the first of them.
    """
    names = {name: name for name in program.inputs}
    for i, name in reversed(tuple(enumerate(program.outputs))):
        if name not in program.inputs:
            names[name] = f"{target}{i}"
    spare = 0
    for statement in program.statements:
        if statement.target not in names:
            names[statement.target] = f"t{spare}"
            spare += 1
    return names


def _signed_sum(terms: Iterable[tuple[bool, str, str]]) -> str:
    """Join (is negative, operand, factor text) with the positive terms first: "y - k * x"."""
    text = ""
    for negative, operand, factor in sorted(terms, key=lambda term: term[0]):
        if negative:
            text += f" - {factor}{operand}" if text else f"-{factor}{operand}"
        else:
            text += f" + {factor}{operand}" if text else f"{factor}{operand}"
    return text


def _equations(
    program: Program, names: Mapping[str, str], reads: Mapping[str, int], target: str
) -> list[str]:
    """One line per output or shared value; what is used once is written where it is used."""
    outputs = set(program.outputs)
    inlined: dict[str, str] = {}
    lines = []
    for statement in program.statements:
        terms = sorted(statement.terms, key=lambda term: term.coefficient < 0)
        parts = []
        for index, term in enumerate(terms):
            operand = inlined.get(term.operand)
            # Sums are evaluated from left to right, so a leading sum needs no parentheses.
            leads = index == 0 and term.coefficient == 1
            if operand is None:
                operand = names[term.operand]
            elif not leads and re.search(r" [+-] ", operand):
                operand = f"({operand})"
            factor = "" if term.is_unit else _factor(term.magnitude) + " "
            parts.append((term.coefficient < 0, operand, factor))
        value = _signed_sum(parts)
        # A negated sum cannot be opened by a minus sign alone; it keeps a line of its own.
        if statement.target not in outputs and reads[statement.target] == 1 and value[0] != "-":
            inlined[statement.target] = value
        else:
            lines.append(f"{names[statement.target]} = {value}")
    for i, name in enumerate(program.outputs):
        if name == ZERO:
            lines.append(f"{target}{i} = 0")
        elif names[name] != f"{target}{i}":
            lines.append(f"{target}{i} = {names[name]}")
    return lines


def _factor(scalar: Scalar) -> str:
    text = str(scalar)
    return f"({text})" if re.search(r"[+-]", text) else text


def _constants(program: Program, spelling: Spelling) -> dict[Scalar, NamedConstant]:
    """Absolute values of the constants, smallest first, each with its name."""
    values = {t.magnitude for s in program.statements for t in s.terms if not t.is_unit}
    table: dict[Scalar, NamedConstant] = {}
    taken: set[str] = set()
    for value in sorted(values, key=lambda value: (float(value), str(value))):
        name = _constant_name(value)
        while name in taken:
            name += "_"
        taken.add(name)
        table[value] = spelling.constant(name, value)
    return table


def _constant_name(value: Scalar) -> str:
    """5/4 is k5_4, sqrt(2)/2 is ksqrt2_2.

    >>> _constant_name(Fraction(5, 4)), _constant_name(Fraction(3))
    ('k5_4', 'k3')
    """
    text = re.sub(r"\s|[()]", "", str(value))
    for sign, word in (("/", "_"), ("**", "e"), ("*", "x"), ("+", "p"), ("-", "m")):
        text = text.replace(sign, word)
    text = "k" + re.sub(r"\W", "_", text)
    return text if len(text) <= 32 else f"k{len(text)}_{text[-24:]}"


def constant_of_c(name: str, value: Scalar, real: str) -> NamedConstant:
    """Return ``value`` as a constant of C: a quotient such as ``5.0 / 4`` where C rounds it once.

    The quotient is computed in double and, where ``real`` is float, rounded again. Both steps
    together equal one rounding as long as numerator and denominator are small; where they are not,
    the initialiser spells both roundings and picks by the size of ``real``.
    """
    double, single = float(value), rounded_to_single(value)
    if isinstance(value, Fraction):
        top, bottom = value.numerator, value.denominator
        text = f"{top}.0 / {bottom}" if bottom != 1 else str(top)
        if max(top, bottom) >= 2**31:  # beyond int, where C would warn or overflow
            text = f"{top}.0 / {bottom}.0" if bottom != 1 else f"{top}.0"
        if float(top) / float(bottom) == double and _to_single(double) == single:
            return NamedConstant(name, text, "")
        exact = str(value)
    else:
        text, exact = f"{double:.17g}", str(value)
        if _to_single(double) == single:
            return NamedConstant(name, text, exact)
    text = f"sizeof({real}) == sizeof(float) ? {single.hex()} : {double.hex()}"
    return NamedConstant(name, text, exact)


def _to_single(double: float) -> float:
    return struct.unpack("<f", struct.pack("<f", double))[0]


def rounded_to_single(value: Scalar) -> float:
    """Return the float32 number nearest to an exact value."""
    import numpy as np

    from winogen.program.evaluate import round_scalar

    return float(round_scalar(value, np.float32))
