"""Passes from program to program; each docstring shows before and after.

Every pass keeps the matrix of the program; the caller can check that with ``verify``.
"""

from winogen.program.ir import ZERO, Program, Statement, Term


def prefer_sums(program, fixed=()):
    """Flip the signs of values until as few statements as possible are all minus.

    before: ``t0 = -d0 - d1``, ``v0 = d2 - t0``    after: ``t0 = d0 + d1``, ``v0 = d2 + t0``

    Values named in ``fixed`` and inputs keep their signs. Returns the program and the set of
    flipped names; outputs among them are now negated.
    """
    statements = {s.target: dict((t.operand, t.coefficient) for t in s.terms) for s in program.statements}
    readers = {}
    for s in program.statements:
        for operand in s.operands:
            readers.setdefault(operand, []).append(s.target)
    flipped = set()
    improved = True
    while improved:
        improved = False
        for name in statements:
            if name in fixed:
                continue
            near = [name, *readers.get(name, ())]
            before = sum(_minus(statements[n]) for n in near)
            _flip(statements, readers, name)
            if sum(_minus(statements[n]) for n in near) < before:
                flipped ^= {name}
                improved = True
            else:
                _flip(statements, readers, name)
    changed = tuple(
        Statement(s.target, tuple(Term(statements[s.target][t.operand], t.operand) for t in s.terms))
        for s in program.statements
    )
    return Program(program.inputs, changed, program.outputs), flipped


def _minus(terms):
    """How awkward the signs of a statement are: all minus is worst, constants like a plus."""
    negative = sum(c < 0 for c in terms.values())
    return (4 if negative == len(terms) else 0) + negative


def _flip(statements, readers, name):
    own = statements[name]
    for operand in own:
        own[operand] = -own[operand]
    for reader in readers.get(name, ()):
        statements[reader][name] = -statements[reader][name]


def rename(program, outputs, temporaries) -> Program:
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
        terms = tuple(Term(t.coefficient, names[t.operand]) for t in s.terms)
        statements.append(Statement(names[s.target], terms))
    return Program(program.inputs, statements, [names[name] for name in program.outputs])
