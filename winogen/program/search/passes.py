"""Passes from program to program; each docstring shows before and after.

Every pass keeps the matrix of the program; the caller can check that with ``verify``.
"""

from __future__ import annotations

from collections.abc import Collection
from operator import is_

from winogen.program.ir import ZERO, Program, Statement, Term


def prefer_sums(program: Program, fixed: Collection[str] = ()) -> tuple[Program, set[str]]:
    """Flip the signs of values until as few statements as possible are all minus.

    before: ``t0 = -d0 - d1``, ``v0 = d2 - t0``    after: ``t0 = d0 + d1``, ``v0 = d2 + t0``

    Values named in ``fixed`` and inputs keep their signs. Returns the program and the set of
    flipped names; outputs among them are now negated.
    """
    signs = {
        s.target: [1 if t.coefficient > 0 else -1 for t in s.terms] for s in program.statements
    }
    places: dict[str, list[tuple[list[int], int]]] = {
        s.target: [] for s in program.statements
    }  # value -> where it is read
    for s in program.statements:
        for k, operand in enumerate(s.operands):
            if operand in places:
                places[operand].append((signs[s.target], k))
    flipped: set[str] = set()
    improved = True
    while improved:
        improved = False
        for name, read in places.items():
            if name in fixed:
                continue
            mine = signs[name]
            change = _awkward([-c for c in mine]) - _awkward(mine)
            for terms, k in read:
                change -= _awkward(terms)
                terms[k] = -terms[k]
                change += _awkward(terms)
            if change < 0:
                mine[:] = [-c for c in mine]
                flipped ^= {name}
                improved = True
            else:
                for terms, k in read:
                    terms[k] = -terms[k]
    changed = []
    for s in program.statements:
        signed = tuple(
            t if (c > 0) == (t.coefficient > 0) else Term(-t.coefficient, t.operand)
            for c, t in zip(signs[s.target], s.terms)
        )
        changed.append(s if all(map(is_, signed, s.terms)) else Statement(s.target, signed))
    return Program(program.inputs, tuple(changed), program.outputs), flipped


def _awkward(signs: list[int]) -> int:
    """All minus is worst; otherwise a plus is nicer to read than a minus."""
    negative = signs.count(-1)
    return negative + (4 if negative == len(signs) else 0)


def tidy(program: Program) -> Program:
    """Order the terms of sums for the reader: as in the difference of the same two, or units first.

    before: ``v1 = t0 - 2 t1``, ``v2 = 2 t1 + t0``    after: ``v1 = t0 - 2 t1``, ``v2 = t0 + 2 t1``

    Sums of two inputs stay in the order of the inputs.
    """
    place = {name: k for k, name in enumerate(program.inputs)}
    minuend: dict[frozenset[str], str] = {}  # operands of a difference -> the one with the plus
    for s in program.statements:
        plus = [term.operand for term in s.terms if term.coefficient > 0]
        if len(s.terms) == 2 and len(plus) == 1:
            minuend.setdefault(frozenset(s.operands), plus[0])
    statements = []
    for s in program.statements:
        first = minuend.get(frozenset(s.operands))
        if all(term.is_unit and term.operand in place for term in s.terms):
            terms = sorted(s.terms, key=lambda term: place[term.operand])
        else:
            terms = sorted(s.terms, key=lambda term: (term.operand != first, not term.is_unit))
        statements.append(Statement(s.target, tuple(terms)))
    return Program(program.inputs, tuple(statements), program.outputs)


def rename(program: Program, outputs: str, temporaries: str) -> Program:
    """Name outputs by their place and number the temporaries in order of execution.

    before: ``t7 = d0 - d2``, ``t3 = t7 + d1``    after: ``t0 = d0 - d2``, ``v0 = t0 + d1``

    An output that is an input, zero or a second copy keeps referring to the value it has.
    """
    names = {name: name for name in (*program.inputs, ZERO)}
    for i, name in enumerate(program.outputs):
        names.setdefault(name, f"{outputs}{i}")
    fresh = 0
    statements = []
    for s in program.statements:
        if s.target not in names:
            names[s.target] = f"{temporaries}{fresh}"
            fresh += 1
        renamed = tuple(Term(t.coefficient, names[t.operand]) for t in s.terms)
        statements.append(Statement(names[s.target], renamed))
    results = tuple(names[name] for name in program.outputs)
    return Program(program.inputs, tuple(statements), results)
