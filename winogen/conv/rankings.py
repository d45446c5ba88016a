"""What the planner found of a problem, kept in the cache folder for later processes.

Ranking all ways to compute a problem takes tens of milliseconds, most of them for predicted errors,
and gives the same in every process with the same code, machine, wisdom and kernels. So the ways
that were found are kept, by the names of their choices, under a digest of all that. They are
evaluated anew when they are recalled, and what then differs from the record in any way is ranked
anew: a file can make a plan late, not wrong. WINOGEN_WISDOM=0 keeps and recalls nothing.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import cache
from math import isclose
from typing import Any

import numpy as np

from winogen import resources
from winogen.codegen.render import renderer_digest
from winogen.conv import accuracy, wisdom
from winogen.conv.cuts import Candidate, MeasuredChoice, Missed, evaluate
from winogen.conv.query import Query
from winogen.records import Target
from winogen.toolchain import blobs, host_targets

FOLDER = "plans"
_FORMAT = 1
# Beside what `renderer_digest` covers, code that rankings follow from.
_CODE = ("algebra", "conv", "program", "rounding", "graph")

Make = Callable[[], Sequence[Candidate]]


def kept(kind: str, query: Query, make: Make) -> list[Candidate]:
    """Return what ``make`` returns, or returned in an earlier process: candidates, the best first.

    ``kind``: what else it depends on. Raises what ``make`` raises; of that nothing is kept.
    """
    problem, request, target, machine, known, stock = query
    # With a compiler in the background, plans are to change as soon as it has ended.
    if wisdom.path() is None or (stock is not None and not stock.reason):
        return list(make())
    facts = (_FORMAT, kind, repr((problem, request, machine)), _target(target), known.digest)
    code = _code(), np.__version__, "" if stock is None else stock.digest(target)
    key = hashlib.sha256(repr((facts, code)).encode()).hexdigest()
    found = _recalled(key, query)
    if found is None:
        found = list(make())
        record = [_record(query, one) for one in found]
        blobs.write(FOLDER, key, zlib.compress(json.dumps(record).encode(), 1))
    return found


def _target(target: Target) -> str:
    """All of a target, of which its text shows only what kernels depend on."""
    return repr((target, target.family, target.core, sorted(target.extensions)))


@cache
def _code() -> str:
    """A digest of the code, and of which transforms ship."""
    index = (resources.folder("transforms") / "index.json").read_bytes()
    return renderer_digest() + resources.code_digest(*_CODE) + hashlib.sha256(index).hexdigest()


def _record(query: Query, candidate: Candidate) -> dict[str, Any]:
    problem, request, target, *_ = query
    own, error = candidate.target or target, None
    if not request.asks_for_tiles:  # else nobody has predicted it yet
        error = accuracy.predicted_error(problem.layer, candidate.choice, own)
    return {
        "choice": wisdom.encoded(candidate.choice),
        "target": own.name,
        "seconds": candidate.seconds,
        "workspace": candidate.workspace_bytes,
        "error": error,
        "measured": candidate.measured and asdict(candidate.measured),
        "missed": candidate.missed and asdict(candidate.missed),
    }


def _recalled(key: str, query: Query) -> list[Candidate] | None:
    """What was kept; None where that is nothing, damaged, or does not hold any more."""
    problem, stock = query.problem, query.stock
    packed = blobs.read(FOLDER, key)
    if packed is None:
        return None
    try:
        records = json.loads(zlib.decompress(packed))
        targets = {one.name: one for one in (*host_targets(), query.target)}
        found = _evaluated(records, targets, query)
        errors = [None if one["error"] is None else _error(one["error"]) for one in records]
    except Exception:  # damaged, or of a state of the code that nobody published
        return None
    if not found or not (stock is None or all(stock.has(one.specs(problem)) for one in found)):
        return None
    for record, one, error in zip(records, found, errors):
        if error is not None:
            accuracy.recall_error(problem.layer, one.choice, targets[record["target"]], error)
    return found


def _error(given: Any) -> float:
    if not (isinstance(given, float) and given >= 0):
        raise ValueError("error")
    return given


def _evaluated(
    records: list[dict[str, Any]], targets: dict[str, Target], query: Query
) -> list[Candidate]:
    """The candidates of records, evaluated; raises one of many errors where any is another."""
    problem, request, _, machine, *_ = query
    choices = [wisdom.decoded(one["choice"], request.threads) for one in records]
    # What was measured comes with the seconds that follow from its gain, and without a limit.
    kinds = [(one["target"], one["measured"] is not None) for one in records]
    found: list[Candidate | None] = [None] * len(records)
    for kind in dict.fromkeys(kinds):
        name, is_measured = kind
        places = [place for place, other in enumerate(kinds) if other == kind]
        limit = None if is_measured else request.workspace_limit
        some = [choices[place] for place in places]
        for place, one in zip(places, evaluate(problem, some, targets[name], machine, limit)):
            record = records[place]
            seconds = float(record["seconds"])
            if one.workspace_bytes != record["workspace"]:
                raise ValueError("workspace")
            if not (is_measured or isclose(one.seconds, seconds, rel_tol=1e-9)):
                raise ValueError("seconds")
            measured, missed = record["measured"], record["missed"]
            if missed:
                tile = missed["tile"]
                missed |= {
                    "tile": None if tile is None else tuple(tile),
                    "kernels": tuple(missed["kernels"]),
                }
            found[place] = replace(
                one,
                seconds=seconds,
                measured=MeasuredChoice(**measured) if measured else None,
                missed=Missed(**missed) if missed else None,
            )
    return [one for one in found if one is not None]
