"""The order of statements: few values alive at once, so that they fit into registers."""

from __future__ import annotations

from typing import TypeAlias

from winogen.program.ir import Program, max_live

# Peak and number of values alive, order, what is done (bits of statements), what is alive (values).
State: TypeAlias = tuple[int, int, tuple[int, ...], int, int]

_BEAM = 48  # partial orders kept, for programs of up to _LONG statements
_LONG = 80


def schedule(program: Program, registers: int | None = None) -> Program:
    """The same statements in an order that keeps few values alive.

    before: all of ``t0 .. t5``, then all of ``v0 .. v7``    after: each ``t`` just before its use

    ``registers``: an order within so many registers is good enough, and the given order is kept if
    it is one; by default the fewest that a beam search finds. Deterministic: ties go to the earlier
    statement.

    >>> from winogen.program.ir import Statement, Term
    >>> add = lambda t, x, y: Statement(t, (Term(1, x), Term(1, y)))
    >>> p = Program(("a", "b", "c", "d"), (add("s", "a", "b"), add("t", "c", "d"),
    ...             add("x", "s", "a"), add("y", "t", "c")), ("x", "y"))
    >>> max_live(p), max_live(schedule(p))
    (4, 2)
    """
    current = max_live(program)
    if not program.statements or (registers is not None and current <= registers):
        return program
    order = _search(program, registers)
    better = Program(program.inputs, tuple(program.statements[k] for k in order), program.outputs)
    return better if max_live(better) < current else program


def _search(program: Program, registers: int | None) -> tuple[int, ...]:
    statements = program.statements
    count = len(statements)
    made_by = {s.target: k for k, s in enumerate(statements)}
    values = [*program.inputs, *made_by]
    number = {name: i for i, name in enumerate(values)}
    readers = [0] * len(values)  # bit masks of statements
    needs = [0] * count
    operands = []
    for k, s in enumerate(statements):
        operands.append([number[name] for name in s.operands])
        for name in s.operands:
            readers[number[name]] |= 1 << k
            if name in made_by:
                needs[k] |= 1 << made_by[name]
    masks = [sum(1 << value for value in read) for read in operands]
    ends = [[(readers[value], ~(1 << value)) for value in read] for read in operands]
    targets = [number[s.target] for s in statements]
    beam: list[State] = [(0, 0, (), 0, 0)]
    width = _BEAM if count <= _LONG else 2
    for _ in range(count):
        best: dict[int, State] = {}
        for peak, _, order, done, live in beam:
            for k in range(count):
                if done >> k & 1 or needs[k] & ~done:
                    continue
                after = during = live | masks[k]
                now = done | 1 << k
                for reading, without in ends[k]:
                    if not reading & ~now:
                        after &= without
                high = max(peak, during.bit_count(), after.bit_count() + 1)
                if readers[targets[k]]:
                    after |= 1 << targets[k]
                state = (high, after.bit_count(), (*order, k), now, after)
                # What is alive depends only on what is done, so one state per set is enough.
                if now not in best or state[:3] < best[now][:3]:
                    best[now] = state
        beam = sorted(best.values())[:width]
        if registers is not None and len(beam) > 1:
            fitting = [state for state in beam if state[0] <= registers]
            beam = sorted(fitting, key=lambda state: state[2]) or beam
    return beam[0][2]
