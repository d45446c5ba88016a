"""The pieces of work that a search is made of: plain data in, plain data out.

They can run in any process on any machine, and what comes out depends on nothing but the task, so
that a result on disk stands for the work.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from typing import Any

from winogen.numerics.protocol import measure
from winogen.numerics.search.candidate import Candidate
from winogen.numerics.search.propose import propose
from winogen.numerics.search.scalings import scale_for_error
from winogen.numerics.search.spaces import Structure
from winogen.numerics.search.whole import whole_candidates


def propose_task(
    of: Structure | str,
    m: int,
    r: int,
    height: int,
    dims: int,
    settings: dict,
    start: int,
    keep: int,
) -> dict:
    """The task of finding promising candidates of a structure by the estimate.

    ``of``: or of a family, whose candidates are known as a whole.
    """
    kind: dict[str, Any] = {"family": of}
    if isinstance(of, Structure):
        kind = {"structure": [of.zero, of.infinity, list(of.slots)]}
    return {
        "task": "propose",
        **kind,
        "m": m,
        "r": r,
        "height": height,
        "dims": dims,
        "settings": settings,
        "start": start,
        "keep": keep,
    }


def measure_task(candidate: Candidate, dims: int, settings: dict, trials: int, seed: int) -> dict:
    """The task of measuring the error of one candidate."""
    return {
        "task": "measure",
        "candidate": candidate.to_dict(),
        "dims": dims,
        "settings": settings,
        "trials": trials,
        "seed": seed,
    }


def scale_task(candidate: Candidate, dims: int, settings: dict) -> dict:
    """The task of finding row scalings for a candidate."""
    data = {"candidate": candidate.to_dict(), "dims": dims, "settings": settings}
    return {"task": "scale", **data}


def count_task(candidate: Candidate) -> dict:
    """The task of shortening the transforms of a candidate and counting their instructions.

    Its result is the candidate's with the row scalings of the shortest programs.
    """
    return {"task": "count", "candidate": candidate.to_dict()}


def run(task: dict) -> Any:
    """Do the work of a task; the result is plain data for JSON."""
    return _KINDS[task["task"]](task)


def _propose(task: dict) -> list:
    if "family" in task:
        asked = {name: value for name, value in task.items() if name != "task"}
        return [[error, found.to_dict()] for error, found in whole_candidates(**asked)]
    zero, infinity, slots = task["structure"]
    structure = Structure(zero, infinity, tuple(slots))
    m, r = task["m"], task["r"]
    proposals = propose(
        *(structure, m, r, task["height"], task["dims"], task["settings"]),
        *(task["start"], task["keep"]),
    )
    return [[error, structure.candidate(m, r, values).to_dict()] for error, values in proposals]


def _measure(task: dict) -> dict:
    errors = measure(
        Candidate.from_dict(task["candidate"]).algorithm,
        dims=task["dims"],
        trials=task["trials"],
        seed=task["seed"],
        **task["settings"],
    )
    return {"mean": errors.mean, "half_width": errors.half_width}


def _scale(task: dict) -> dict:
    candidate = Candidate.from_dict(task["candidate"])
    return scale_for_error(candidate, task["dims"], task["settings"]).to_dict()


def _count(task: dict) -> dict:
    """Shorten the programs; rows without scalings get the most helpful ones."""
    from winogen.program import simplify
    from winogen.program.search.scaling import shortest_transforms

    candidate = Candidate.from_dict(task["candidate"])
    algorithm = candidate.algorithm
    if candidate.output is not None:
        programs = {kind: simplify(rows) for kind, rows in algorithm.matrices.items()}
        counts = {kind: program.counts().instructions for kind, program in programs.items()}
        return {"instructions": counts, "candidate": candidate.to_dict()}
    short: Any = shortest_transforms(algorithm, filter_objective="error")
    scaled = replace(
        candidate,
        input=_ratios(short.algorithm.bt, algorithm.bt),
        output=_ratios(zip(*short.algorithm.at), zip(*algorithm.at)),
    )
    counts = {kind: program.counts().instructions for kind, program in short.programs.items()}
    return {"instructions": counts, "candidate": scaled.to_dict()}


def _ratios(scaled: Iterable, plain: Iterable) -> tuple[str, ...]:
    """The factors between the rows of one matrix and the rows of the other."""
    return tuple(
        str(next(c / d for c, d in zip(new, old) if d != 0)) for new, old in zip(scaled, plain)
    )


def simplicity(candidate: Candidate) -> int:
    """How many different constants the run-time transforms have: fewer tend to share more."""
    algorithm = candidate.algorithm
    constants = {abs(c) for rows in (algorithm.bt, algorithm.at) for row in rows for c in row}
    return len(constants - {Fraction(0), Fraction(1)})


_KINDS = {"propose": _propose, "measure": _measure, "scale": _scale, "count": _count}
