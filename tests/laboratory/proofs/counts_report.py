"""The page of operation counts: what winogen's transforms cost, beside the best known.

``python tests/laboratory/proofs/counts_report.py > docs/operation-counts.md`` writes it. Everything
in it is computed on the spot except the figures of others, listed with their source below. It takes
some minutes, most of them for the proofs, and needs python-sat.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple, TypeAlias

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parents[2]))

from laboratory.proofs import adders_report
from laboratory.proofs.exact import Question, proven_question, question
from laboratory.proofs.nested import in_reach_2d, nested_instructions, simplify_2d

from winogen.algebra import cook_toom
from winogen.program.analysis import naive_counts
from winogen.program.kinds import KINDS
from winogen.program.search.scaling import shortest_transforms
from winogen.program.search.simplify import simplify

Task: TypeAlias = tuple[int, int, str | None]  # m, r, points (default ones)

COMMAND = "python tests/laboratory/proofs/counts_report.py > docs/operation-counts.md"
GRID = (
    *((m, 3) for m in range(2, 9)),
    *((m, 5) for m in range(2, 7)),
    *((m, 7) for m in range(2, 5)),
)
ADDERS: tuple[str, ...] | None = None  # entries of the catalog; all that are small enough
SQUARE = adders_report.SQUARE
_SHAPES = 4000  # that a proof may look at
_LARGEST = 10  # gates of a network that a proof is tried for

# Instructions of input, filter and output transform in the best code found: hand-written in NNPACK,
# neon, oneDNN up to 3.1, libxsmm up to 1.10 and Paddle-Lite for the first three, else by even/odd
# pairing with FMA or by eliminating common pairs, whichever is less.
BEST_KNOWN: dict[Task, tuple[int, int, int]] = {
    (2, 3, "0, 1, -1, inf"): (4, 4, 4),
    (4, 3, "0, 1, -1, 2, -2, inf"): (12, 8, 10),
    (6, 3, "0, 1, -1, 2, -2, 1/2, -1/2, inf"): (24, 12, 20),
    (2, 5, "0, 1, -1, 2, -2, inf"): (12, 13, 8),
    (4, 5, "0, 1, -1, 2, -2, 1/2, -1/2, inf"): (24, 18, 16),
    (2, 7, "0, 1, -1, 2, -2, 1/2, -1/2, inf"): (24, 24, 12),
    (4, 3, "0, 5/8, -5/8, 3/2, -3/2, inf"): (12, 8, 12),
    (8, 3, "0, 3/8, -3/8, 3/4, -3/4, 5/4, -5/4, 9/4, -9/4, inf"): (40, 17, 40),
}
# Additions, constants free: Numaro, Winograd transform additions (2026), by straight-line search.
PUBLISHED_ADDITIONS: dict[Task, tuple[int, int, int]] = {
    (2, 3, "0, 1, -1, inf"): (4, 3, 4),
    (4, 3, "0, 1, -1, 2, -2, inf"): (12, 5, 10),
    (6, 3, "0, 1, -1, 2, -2, 1/2, -1/2, inf"): (24, 8, 20),
}


class Row(NamedTuple):
    """What one transform costs; instructions unless it says otherwise."""

    naive: int
    hierarchy: int
    best: int  # of the matrix as it is
    rescaled: int  # with the scalings between the three transforms free
    additions: int
    question: Question  # whether that is the least, see laboratory.proofs.exact.question
    depth: int  # of the rescaled program
    registers: int  # of the rescaled program


def measure(m: int, r: int, points: str | None = None) -> dict[str, Row]:
    """{"input" | "filter" | "output": Row} of F(m, r).

    >>> rows = measure(2, 3)
    >>> rows["filter"].naive, rows["filter"].best, minimal(rows["filter"].question)
    (6, 4, True)
    """
    algorithm = cook_toom(m, r, points)
    short = shortest_transforms(algorithm)
    rows = {}
    for kind, matrix in algorithm.matrices.items():
        program = short.programs[kind]
        flat = simplify(matrix, strategies=("hierarchy",), error_limit=None)
        additions = simplify(matrix, "additions", error_limit=None).counts().add
        rows[kind] = Row(
            naive_counts(matrix).instructions,
            flat.counts().instructions,
            simplify(matrix).counts().instructions,
            program.counts().instructions,
            additions,
            question(matrix, additions),
            program.depth(),
            program.counts().registers,
        )
    return rows


def minimal(asked: Question) -> bool:
    """Whether a question is small enough to try and the answer proven."""
    points, gates = asked
    return gates <= _LARGEST and proven_question(points, gates, _SHAPES)


# ---- the page ------------------------------------------------------------------------------------


def operation_counts_table(
    jobs: int | None = None, progress: Callable[[int, int, str], None] | None = None
) -> str:
    """The whole page as Markdown.

    ``jobs``: processes; ``progress(done, total, name)``: called with what is waited for.
    """
    tasks: list[Task] = [*((m, r, None) for m, r in GRID), *BEST_KNOWN]
    say = progress or (lambda done, total, name: None)
    # Spawned: callers may run threads. The largest first, so that none is left over at the end.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        of_adders = pool.submit(adders_report.part, SQUARE, ADDERS)
        two = [pool.submit(_two_dimensional, *task) for task in reversed(_TWO_DIMENSIONAL)]
        order = sorted(tasks, key=lambda task: -(task[0] + task[1]))
        pending = {task: pool.submit(measure, *task) for task in order}
        counts = {}
        for done, (task, future) in enumerate(pending.items()):
            say(done, len(pending), f"F({task[0]}, {task[1]})")
            counts[task] = future.result()
        questions = {row.question: None for rows in counts.values() for row in rows.values()}
        hardest_first = sorted(questions, key=lambda question: -question[1])
        proofs = {}
        answers = pool.map(minimal, hardest_first)
        for done, one in enumerate(hardest_first):
            say(done, len(hardest_first), f"proof for {one[1]} gates")
            proofs[one] = next(answers)
        say(len(proofs), len(proofs), "programs in two dimensions")
        say(len(proofs), len(proofs), "programs of adders")
        summed = of_adders.result()
        square = [line for part in reversed(two) for line in part.result()]
    parts = [_HEAD, *_against_best_known(counts, proofs), _GRID_HEAD, *_grid(counts, proofs)]
    return "\n".join([*parts, _SQUARE_HEAD, *square, *summed, ""])


_HEAD = f"""<!-- Generated by `{COMMAND}`; do not edit. -->

# Operation counts

*For analysts: how short the transforms are, beside the best published ones; which are minimal.*

How many operations the transforms of F(m, r) take, as winogen finds them, and as others do. An
*instruction* is an addition, a multiplication by a constant or both in one (FMA); sign flips inside
them are free. *Additions* are counted with multiplications by constants free. All of this is for
one dimension; two dimensions cost the 1D count times (rows + columns), see the end.

Every program is proven equal to its matrix, entry by entry in exact numbers. Constants may be any.
*Minimal* says that no program with fewer additions exists, whatever its constants: a SAT solver
went through all shapes of such programs and exact algebra refuted each
(`tests/laboratory/proofs/exact.py`). Where it is missing there is no proof, which does not mean
that there is a shorter program.

## Beside the best known

Input / filter / output. *As given*: the matrices with their textbook rows. *Rescaled*: rows of
B^T, G and columns of A^T multiplied by constants that cancel, which changes nothing in the result;
the input and output transforms, which run for every tile, come first. Best known: hand-written code
(NNPACK, neon, oneDNN up to 3.1, libxsmm up to 1.10, Paddle-Lite) for the points of the first three
lines, otherwise pairing of even and odd parts with FMA. Additions known: Numaro, *Winograd
transform additions* (2026).
"""

_GRID_HEAD = """
## Default points

Instructions of the matrix row by row → with its sub-expression hierarchy
(`winogen.program.search.hierarchy`) → the best program of the matrix as given → rescaled; then
additions, and of the rescaled program the critical path and the values alive at once.
"""

_SQUARE_HEAD = """
## Two dimensions

Instructions for the points of the table on top, matrices as given. Nested, the 1D program runs on
every column and every row. A program of the whole tile that is not nested can be shorter, because
two gates on each of two rows and two columns, eight nested, can be done in seven:
(1, a; 1, b) ⊗ (1, c; 1, d). winogen searches such blocks of even and odd parts, by chance where
they are large: *none found* is no proof. *Not searched*: the blocks are too large. The gain is
small, and all values of the tile are alive at once, so the headers use nested programs.
"""


def _against_best_known(
    counts: Mapping[Task, Mapping[str, Row]], proofs: Mapping[Question, bool]
) -> Iterator[str]:
    yield "| F(m, r) | points | best known | as given | rescaled | additions known | additions |"
    yield "|---|---|---|---|---|---|---|"
    for task, best in BEST_KNOWN.items():
        rows = [counts[task][kind] for kind in KINDS]
        published = PUBLISHED_ADDITIONS.get(task)
        yield _line(
            f"F({task[0]}, {task[1]})",
            task[2],
            _triple(best),
            _triple(row.best for row in rows),
            _triple(row.rescaled for row in rows),
            _triple(published) if published else "–",
            _triple(f"{row.additions}{'*' * proofs[row.question]}" for row in rows),
        )
    yield ""
    yield "\\* minimal"


def _grid(
    counts: Mapping[Task, Mapping[str, Row]], proofs: Mapping[Question, bool]
) -> Iterator[str]:
    yield "| F(m, r) | transform | instructions | additions | critical path | registers |"
    yield "|---|---|---|---|---|---|"
    for m, r in GRID:
        for kind in KINDS:
            row = counts[m, r, None][kind]
            yield _line(
                f"F({m}, {r})" if kind == "input" else "",
                kind,
                f"{row.naive} → {row.hierarchy} → {row.best} → {row.rescaled}",
                f"{row.additions}{', minimal' if proofs[row.question] else ''}",
                row.depth,
                row.registers,
            )


_TWO_DIMENSIONAL = (
    (2, "0, 1, -1, inf"),
    (4, "0, 1, -1, 2, -2, inf"),
    (6, "0, 1, -1, 2, -2, 1/2, -1/2, inf"),
)


def _two_dimensional(m: int, points: str) -> list[str]:
    algorithm = cook_toom(m, 3, points)
    lines = []
    if m == 2:
        lines += ["| F(m × m, 3 × 3) | transform | nested | not nested |", "|---|---|---|---|"]
    for kind, matrix in algorithm.matrices.items():
        program = simplify(matrix)
        nested = nested_instructions(program, program)
        square = simplify_2d(matrix).counts().instructions
        shown = "none found" if in_reach_2d(matrix) else "not searched"
        if square < nested:
            shown = str(square)
        lines.append(_line(f"F({m} × {m}, 3 × 3)" if kind == "input" else "", kind, nested, shown))
    return lines


def _triple(values: Iterable[object]) -> str:
    return " / ".join(map(str, values))


def _line(*cells: object) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


if __name__ == "__main__":
    from winogen.progress import counting

    with counting("counting") as step:
        page = operation_counts_table(progress=step)
    sys.stdout.write(page)
