"""What was measured on devices, layer by layer, in a file of lines.

`winogen tune --backend opencl` adds a line for every layer, and `Conv2d` reads it before it
predicts anything. The file lies beside the wisdom of CPUs, with ``.opencl`` in its name;
WINOGEN_WISDOM=0 does without. A line is a JSON object::

    {"place": {"winogen", "device"}, "layer": {...}, "date",
     "front": [{"algorithm", "parameters", "tile", "points", "seconds"}, ...]}

``device`` has the name of the device and the version of its driver. ``front`` is what was worth
having: of all that was measured nothing is as fast, as small and as accurate. So whoever has a
limit of memory finds the fastest within it.

A damaged line is skipped. No line can make a result wrong: a candidate is built anew from its
parameters, and what the layer or the device does not allow is left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

import winogen
from winogen.conv import wisdom
from winogen.conv.problem import Problem
from winogen.errors import InvalidValue
from winogen.opencl.choice import DeviceCandidate, direct_candidate, tiled_candidate
from winogen.opencl.cuts import Parameters
from winogen.opencl.devices import DeviceInfo
from winogen.opencl.scheme import PARAMETERS, DirectPoint
from winogen.opencl.space import DirectSpace as Space
from winogen.opencl.stores import Interleaving
from winogen.records import Points
from winogen.toolchain import lines

Record = dict[str, Any]
_OF_POINTS = ("kind", "items")


def path() -> Path | None:
    """Return the file in use; None for none."""
    beside = wisdom.path()
    return None if beside is None else beside.with_suffix(f".opencl{beside.suffix}")


def place(device: DeviceInfo) -> Record:
    """Return what times depend on besides the layer."""
    return {"winogen": winogen.__version__, "device": device.key}


def layer_of(problem: Problem) -> Record:
    """Return what a line says of the layer that it is for."""
    record = wisdom.layer_of(problem, None)
    del record["tolerance"]
    if isinstance(problem.spread, Interleaving):
        record["apart"] = list(problem.spread.apart)
    return record


def candidates(problem: Problem, device: DeviceInfo) -> list[DeviceCandidate]:
    """Return what was measured of a problem on a device and applies to it, the fastest first."""
    where = path()
    key = _key({"place": place(device), "layer": layer_of(problem)})
    record = _records(where).get(key) if where is not None else None
    found = [decoded(one, problem, device) for one in record["front"]] if record else []
    return sorted((one for one in found if one is not None), key=lambda one: one.seconds)


def add(problem: Problem, device: DeviceInfo, front: Iterable[DeviceCandidate], date: str) -> None:
    """Keep what was measured of a problem, instead of what an earlier search found.

    Raises OSError if the file cannot be written.
    """
    where = path()
    if where is None:
        return
    record = {
        "place": place(device),
        "layer": layer_of(problem),
        "date": date,
        "front": [encoded(one) for one in front],
    }
    lines.merge(where, [record], _check, _key, lambda line: str(line["date"]))
    forget()


def check_writable(where: Path) -> None:
    """Raise CacheUnavailable unless lines can be added to the file."""
    wisdom.check_writable(where)


def forget() -> None:
    """Read the file again when it is next wanted."""
    _records.cache_clear()


@lru_cache(maxsize=8)
def _records(where: Path) -> dict[str, Record]:
    if not where.is_file():
        return {}
    try:
        records, _ = lines.read(where, _check)
    except OSError:
        return {}
    return {_key(one): one for one in records}


def _key(record: Record) -> str:
    return json.dumps([record["place"], record["layer"]], sort_keys=True)


def _check(record: Record) -> None:
    """Raise one of the errors of `lines` for what is no line."""
    if not isinstance(record["place"]["device"], str) or not isinstance(record["date"], str):
        raise ValueError("place")
    if not record["front"]:
        raise ValueError("front")
    for one in record["front"]:
        _parts(one)
        if not 0 < float(one["seconds"]) < math.inf:
            raise ValueError("seconds")


def encoded(candidate: DeviceCandidate) -> Record:
    """Return a candidate as JSON can hold it."""
    record: Record = {
        "algorithm": candidate.algorithm,
        "parameters": asdict(candidate.parameters),
        "seconds": candidate.seconds,
    }
    if candidate.tile is not None:
        record["tile"] = list(candidate.tile)
        record["points"] = [
            one and {"kind": one.kind, "items": list(one.items)} for one in candidate.points
        ]
    return json.loads(json.dumps(record))


def _parts(record: Record) -> tuple[DirectPoint | Parameters, Any, tuple[Points | None, ...]]:
    """Parameters, tile and points of a record. Raises ValueError and so on for what is none."""
    given = record["parameters"]
    if record["algorithm"] == "direct":
        if set(given) != set(PARAMETERS) or any(type(one) is not int for one in given.values()):
            raise ValueError("parameters")
        return DirectPoint(**given), None, ()
    if record["algorithm"] != "mcmr":
        raise ValueError("algorithm")
    high, wide = map(int, given["group"])
    cut = Parameters(**{**given, "group": (high, wide)})
    rows, columns = map(int, record["tile"])
    points = tuple(one and Points(one["kind"], tuple(one["items"])) for one in record["points"])
    return cut, (rows, columns), points


def decoded(record: Record, problem: Problem, device: DeviceInfo) -> DeviceCandidate | None:
    """Return the candidate of a record, measured; None if it does not apply to the problem."""
    parameters, tile, points = _parts(record)
    try:
        if isinstance(parameters, DirectPoint):
            if not Space(problem, device).valid(parameters):
                return None
            found = direct_candidate(problem, parameters, device)
        else:
            found = tiled_candidate(problem, parameters, tile, points, device)
    except (InvalidValue, TypeError):
        return None
    return found.measured_as(float(record["seconds"]))
