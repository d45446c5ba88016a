"""Short programs of an algorithm's matrices as they stand, before scales move between them.

`winogen derive` shows these, and how much every stage of the search saved. They take seconds to
find, so the catalog's programs are shipped in ``transforms/programs.json``, under a digest of the
three matrices.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

from winogen import resources
from winogen.program.iterated import programs_of
from winogen.program.kinds import KINDS

if TYPE_CHECKING:
    from winogen.algebra.bilinear import BilinearAlgorithm
    from winogen.program import Program
    from winogen.program.search.candidate import PricedProgram
    from winogen.progress import Step

FILE = "programs.json"


def digest(algorithm: BilinearAlgorithm) -> str:
    """Return what tells one set of exact matrices from all others."""
    data = algorithm.to_dict()
    return hashlib.sha256(json.dumps([data[k] for k in ("AT", "G", "BT")]).encode()).hexdigest()


def programs(algorithm: BilinearAlgorithm) -> dict[str, Program]:
    """Return short programs of the matrices: {"input": of B^T, "filter": of G, "output": of A^T}.

    Each is proven equal to its matrix. The catalog's programs ship; others take seconds to find.

    >>> import winogen
    >>> print(winogen.programs(winogen.cook_toom(2, 3))["output"])
    t0 = p0 + p1
    y0 = p2 + t0
    t1 = p1 - p2
    y1 = p3 + t1
    outputs: y0, y1
    """
    known = shipped().get(digest(algorithm))
    return programs_of(algorithm) if known is None else checked(algorithm, known)


def search(
    algorithm: BilinearAlgorithm, jobs: int = 1, step: Step = lambda done, total, name: None
) -> dict[str, Any]:
    """Return {kind: {"program": as JSON, "naive", "hierarchy", "best", "rescaled": instructions}}.

    "naive" sums row by row, "hierarchy" shares sub-expressions, "best" is the program,
    "rescaled" what the header of the same algorithm takes, whose rows and columns are scaled.
    ``jobs``: processes that share the work; the result is the same for any number. ``step`` is told
    how far the search is.
    """
    from winogen.program.search.scaling import RANKED, shortest_transforms

    kinds = list(algorithm.matrices)
    total = len(kinds) + 1
    found: dict[str, dict[str, Any]] = {}
    ranked = {}

    def done(kind: str, one: dict[str, Any]) -> None:
        found[kind] = one
        step(len(found), total, f"the {kind} transform")

    # Others take inputs and outputs. The filters' search stays here, with all that it keeps: the
    # scales of inputs and outputs decide what of it comes last.
    with _pool(min(jobs - 1, len(RANKED))) as submit:
        others = {kind: submit(_ranked, algorithm, kind) for kind in RANKED}
        done("filter", _as_they_stand(algorithm, "filter"))
        for kind, wait in others.items():
            one, ranked[kind] = wait()
            done(kind, one)
    programs = shortest_transforms(algorithm, ranked=ranked).programs
    step(total, total, "all together")
    rescaled = {kind: program.counts().instructions for kind, program in programs.items()}
    return {kind: {**found[kind], "rescaled": rescaled[kind]} for kind in kinds}


@contextmanager
def _pool(jobs: int) -> Iterator[Callable[..., Callable[[], Any]]]:
    """Yield submit(function, *arguments) -> wait(), by so many processes; by this one if 0."""
    if jobs < 1:
        yield partial
        return
    # Spawned, since a progress display is a thread, which a forked child would not have.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield lambda function, *arguments: pool.submit(function, *arguments).result


def _ranked(algorithm: BilinearAlgorithm, kind: str) -> tuple[dict[str, Any], list[PricedProgram]]:
    from winogen.program.search.scaling import ranking

    return _as_they_stand(algorithm, kind), ranking(algorithm, kind)


def _as_they_stand(algorithm: BilinearAlgorithm, kind: str) -> dict[str, Any]:
    from winogen.program import simplify
    from winogen.program.summation import summation

    matrix = algorithm.matrices[kind]
    best = simplify(matrix, inputs=KINDS[kind].source, outputs=KINDS[kind].target)
    ways = {
        "naive": summation(matrix, "naive"),
        "hierarchy": simplify(matrix, strategies=("hierarchy",)),
        "best": best,
    }
    counts = {name: program.counts().instructions for name, program in ways.items()}
    return {"program": best.to_json(), **counts}


def checked(algorithm: BilinearAlgorithm, data: dict[str, Any]) -> dict[str, Program]:
    """Return {kind: Program} of what ``search`` returned once, each proven equal to its matrix.

    Raises whatever damaged data leads to: KeyError, TypeError, ValueError, VerificationError.
    """
    from winogen.program import Program

    programs = {}
    for kind, matrix in algorithm.matrices.items():
        programs[kind] = Program.from_json(data[kind]["program"])
        programs[kind].verify(matrix)
    return programs


@cache
def shipped() -> dict[str, dict[str, Any]]:
    """Return digest -> what ``search`` found, for all of the catalog; empty where none was made."""
    path = resources.folder("transforms") / FILE
    if not path.is_file():
        return {}
    programs: dict[str, dict[str, Any]] = json.loads(path.read_text("utf-8"))["programs"]
    return programs


def listing(programs: dict[str, dict[str, Any]], mark: str) -> str:
    """Return the text of the file that ships: one transform per line."""
    blocks = []
    for key, kinds in programs.items():
        rows = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in kinds.items())
        blocks.append(f'"{key}": {{\n{rows}\n}}')
    note = json.dumps(mark)
    return f'{{"generated": {note},\n"programs": {{\n' + ",\n".join(blocks) + "\n}}\n"
