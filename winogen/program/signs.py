"""Signs of a program for instruction sets whose vectors have ``y - c*x``, but no ``c*x - y``.

There the latter is a negation and a multiply-add. A value that nobody outside reads may as well be
computed with the opposite sign, for what reads it adds it or subtracts it at the same price.
"""

from __future__ import annotations

from dataclasses import replace

from winogen.program.ir import Program, Statement


def without_negations(program: Program) -> Program:
    """Return the same program with as few negated terms as changes of single signs achieve.

    Results keep their bits, since rounding knows no sign.

    >>> from winogen.program.ir import Term
    >>> inner = Statement("t0", (Term("1/4", "d0"), Term(-1, "d1")))
    >>> outer = Statement("v0", (Term("3/2", "t0"), Term(1, "d1")))
    >>> print(without_negations(Program(("d0", "d1"), (inner, outer), ("v0",))))
    t0 = d1 - 1/4*d0
    v0 = d1 - 3/2*t0
    outputs: v0
    """
    inside = [one.target for one in program.statements if one.target not in program.outputs]
    for name in inside:
        changed = replace(
            program, statements=tuple(_flipped(one, name) for one in program.statements)
        )
        if negations(changed) < negations(program):
            program = changed
    return program


def negations(program: Program) -> int:
    """Return how many statements subtract a value from a product, or from the negative of one."""
    return sum(map(_negates, program.statements))


def _negates(statement: Statement) -> bool:
    added = [term.coefficient for term in statement.terms if term.is_unit]
    return len(statement.terms) == 2 and max(added) < 0


def _flipped(statement: Statement, name: str) -> Statement:
    """The statement with the opposite sign wherever a value stands."""
    own = statement.target == name
    terms = (
        replace(term, coefficient=-term.coefficient) if own != (term.operand == name) else term
        for term in statement.terms
    )
    return Statement(statement.target, tuple(terms))
