"""From a matrix to its shortest straight-line program."""

import random
from collections import Counter
from fractions import Fraction

from winogen.errors import InvalidValue
from winogen.program.ir import ZERO, Program, Statement, Term, exact

OBJECTIVES = ("instructions", "additions", "depth", "registers", "error")


def simplify(matrix, objective="instructions", inputs="d", outputs="v", temporaries="t", tries=40):
    """A program that computes ``matrix`` (exact rows), proven equal to it.

    ``inputs``, ``outputs`` and ``temporaries`` are name prefixes. Deterministic.
    Raises :class:`InvalidValue` for an unknown objective or a ragged matrix.

    >>> simplify([[1, 0, -1], [0, 1, 1]]).counts().instructions
    2
    """
    if objective not in OBJECTIVES:
        raise InvalidValue(f"objective: got {objective!r}; allowed: {', '.join(OBJECTIVES)}")
    matrix = tuple(tuple(exact(c) for c in row) for row in matrix)
    if len({len(row) for row in matrix}) > 1:
        raise InvalidValue("matrix: got rows of different lengths; allowed: equal lengths")
    best = None
    for seed in range(tries):
        program = _greedy(matrix, inputs, outputs, temporaries, random.Random(seed))
        counts = program.counts()
        cost = (counts.instructions, counts.registers)
        if objective == "additions":
            cost = (counts.add, *cost)
        if best is None or cost < best[0]:
            best = (cost, program)
    best[1].verify(matrix)
    return best[1]


def _greedy(matrix, inputs, outputs, temporaries, rng):
    width = len(matrix[0]) if matrix else 0
    names = tuple(f"{inputs}{j}" for j in range(width))
    rows = [{names[j]: c for j, c in enumerate(row) if c != 0} for row in matrix]
    statements, fresh = [], 0
    while True:
        found = Counter()
        for row in rows:
            items = list(row.items())
            for k, (a, ca) in enumerate(items):
                for b, cb in items[k + 1 :]:
                    if not isinstance(a, str):
                        continue
                    key = (a, b, cb / ca) if a < b else (b, a, ca / cb)
                    found[key] += 1
        if not found or max(found.values()) < 2:
            break
        most = max(found.values())
        a, b, ratio = rng.choice([key for key, count in found.items() if count == most])
        name = f"{temporaries}{fresh}"
        fresh += 1
        scale = Fraction(1)
        if ratio not in (1, -1):
            votes = Counter()
            for row in rows:
                if a in row and b in row and row[b] / row[a] == ratio:
                    votes["a"] += row[a] in (1, -1)
                    votes["b"] += row[b] in (1, -1)
            if votes["b"] > votes["a"]:
                scale = 1 / ratio
        statements.append(Statement(name, (Term(scale, a), Term(ratio * scale, b))))
        for row in rows:
            if a in row and b in row and row[b] / row[a] == ratio:
                coefficient = row.pop(a) / scale
                del row[b]
                row[name] = coefficient
    targets, done = [], {}
    for i, row in enumerate(rows):
        key = tuple(sorted(row.items()))
        if not row:
            targets.append(ZERO)
        elif len(row) == 1 and next(iter(row.values())) == 1:
            targets.append(next(iter(row)))
        elif key in done:
            targets.append(done[key])
        else:
            fresh = _sum(row, f"{outputs}{i}", temporaries, fresh, statements)
            targets.append(f"{outputs}{i}")
            done[key] = targets[-1]
    return Program(names, tuple(statements), tuple(targets))


def _sum(row, target, temporaries, fresh, statements):
    terms = sorted(row.items(), key=lambda item: item[1] not in (1, -1))
    terms = [Term(c, name) for name, c in terms]
    if len(terms) > 1 and not terms[0].is_unit:
        name = f"{temporaries}{fresh}"
        fresh += 1
        statements.append(Statement(name, (terms[0],)))
        terms[0] = Term(1, name)
    total = terms[0]
    for k, term in enumerate(terms[1:]):
        name = target
        if k < len(terms) - 2:
            name = f"{temporaries}{fresh}"
            fresh += 1
        statements.append(Statement(name, (total, term)))
        total = Term(1, name)
    if len(terms) == 1:
        statements.append(Statement(target, (total,)))
    return fresh
