"""What was measured to be faster than the planner's choice, layer by layer, in a file of lines.

`winogen tune` measures and adds a line for every layer where it wins; the planner reads it first.
The file is ``wisdom.jsonl`` in the cache folder, or what WINOGEN_WISDOM names; WINOGEN_WISDOM=0
does without. A line is a JSON object::

    {"place": {"winogen", "cpu", "isa"}, "layer": {...}, "choice": {...},
     "measured": {"seconds", "planner_seconds", "threads", "date"}}

An entry holds where all of ``place`` and of ``layer`` are equal. Which compiler made the kernels is
left out, as it is where kernels are found. ``layer`` has the sizes, layout
and type of a problem, and the tolerance of the request; of phases of a transposed layer also where
their outputs lie. Left out is what hardly changes the fastest
way: activation, additions, and slices of arrays. Threads are left out because every bit of a result
is the same for any number of them: one choice serves all, and only its blocks suit the number while
measuring.

A file cannot make a result wrong. What does not apply to the layer, or is not accurate enough, is
not believed; lines that are damaged, or of other versions, are skipped with a warning.
"""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import winogen
from winogen import environment
from winogen.conv.choice import Choice, Cut
from winogen.conv.cuts import MeasuredChoice
from winogen.conv.problem import Problem
from winogen.conv.request import EDGES, ORDERS, Request
from winogen.errors import InvalidValue
from winogen.kernels import algorithms_beside, general
from winogen.kernels.spec import BORDERS
from winogen.records import NUMBERS, Points, Precision, Target
from winogen.toolchain import cache_dir, lines
from winogen.toolchain.cache import path_of
from winogen.toolchain.machine_file import cpu_name

FILE = "wisdom.jsonl"
_PLACE = ("winogen", "cpu", "isa")
Record = dict[str, Any]  # a line
# Whether a choice of unknown origin can compute a problem on a target.
Applies = Callable[[Choice, Problem, Target], bool]


@dataclass(frozen=True)
class Entry:
    """A choice that won, and by how much."""

    choice: Choice
    measured: MeasuredChoice


class Wisdom:
    """The entries of one place, by layer; immutable."""

    def __init__(self, entries: Mapping[str, Entry] | None = None):
        self._entries = dict(entries or {})

    def __len__(self) -> int:
        return len(self._entries)

    @cached_property
    def digest(self) -> str:
        """A digest of all entries."""
        return hashlib.sha256(repr(sorted(self._entries.items())).encode()).hexdigest()

    def entry(
        self, problem: Problem, request: Request, target: Target, applies: Applies
    ) -> Entry | None:
        """Return the entry of a problem, if the request leaves everything but a tolerance open.

        Its choice ``applies`` to the problem, and has the threads of the request.
        """
        open_ = Request(threads=request.threads, tolerance=request.tolerance)
        if problem.spread is not None:  # it says itself by which algorithm phases are computed
            open_ = replace(open_, algorithm=request.algorithm)
        if not self._entries or request != open_:
            return None
        entry = self._entries.get(_text(layer_of(problem, request.tolerance)))
        if entry is None or not applies(entry.choice, problem, target):
            return None
        if request.algorithm not in ("auto", entry.choice.algorithm):
            return None
        cut = entry.choice.cut if entry.measured.threads == request.threads else None
        return replace(entry, choice=replace(entry.choice, threads=request.threads, cut=cut))


NOTHING = Wisdom()


# --- the file in use


def path() -> Path | None:
    """Return the file in use: WINOGEN_WISDOM, or one in the cache folder; None for none."""
    chosen = environment.value("WINOGEN_WISDOM")
    if chosen == "0":
        return None
    return path_of("WINOGEN_WISDOM", chosen) if chosen else cache_dir() / FILE


def current(target: Target) -> Wisdom:
    """Return what is known of this machine; the file is read once in a process.

    What is wrong with the file comes as a warning.
    """
    where = path()
    if where is None:
        return NOTHING
    if not _records(where) and where.parent != cache_dir() and not where.is_file():
        _miss(where)  # somebody asked for it
    return of_file(where, target)


def of_file(where: Path, target: Target) -> Wisdom:
    """Return the entries of a file that hold here."""
    if not _records(where):
        return NOTHING
    return _of_place(where, _text(place(target)))


def forget() -> None:
    """Read the file again when it is next wanted."""
    _miss.cache_clear()
    _records.cache_clear()
    _of_place.cache_clear()


def place(target: Target) -> dict[str, str]:
    """Return what times depend on besides the layer."""
    return {"winogen": winogen.__version__, "cpu": cpu_name(), "isa": target.name}


@lru_cache(maxsize=8)
def _miss(where: Path) -> None:
    _warn(where, "is no file: nothing measured is known")


@lru_cache(maxsize=8)
def _records(where: Path) -> tuple[Record, ...]:
    if not where.is_file():
        return ()
    try:
        records, damaged = read(where)
    except OSError as problem:
        _warn(where, f"is not used: {problem}")
        return ()
    if damaged:
        _warn(where, f"has {_numbers(damaged)} that cannot be read, which are skipped")
    return tuple(records)


@lru_cache(maxsize=8)
def _of_place(where: Path, here: str) -> Wisdom:
    entries, this_place, stale = {}, json.loads(here), 0
    for record in _records(where):
        if _here(record) == this_place:
            entries[_text(record["layer"])] = _entry(record)
        else:  # of other CPUs and instruction sets a shared file has entries, too
            stale += all(record["place"].get(key) == this_place[key] for key in ("cpu", "isa"))
    if stale:
        count = f"{stale} entry" if stale == 1 else f"{stale} entries"
        _warn(
            where,
            f"has {count} of another version of winogen, which are skipped; "
            "`winogen tune` measures again",
        )
    return Wisdom(entries)


def _warn(where: Path, problem: str) -> None:
    warnings.warn(f"wisdom: {where} {problem}", RuntimeWarning, stacklevel=2)


def _numbers(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:3])) + (", ..." if len(numbers) > 3 else "")
    return f"a line ({shown})" if len(numbers) == 1 else f"{len(numbers)} lines ({shown})"


# --- lines


def read(where: Path) -> tuple[list[Record], list[int]]:
    """Return the entries of a file as lines, and the numbers of lines that are none.

    Raises OSError.
    """
    return lines.read(where, _check)


def add(records: Iterable[Record], where: Path) -> int:
    """Add entries to a file, where they replace older ones; return how many are new there.

    Several processes may do so at once. Raises OSError if the file cannot be written.
    """
    added = lines.merge(where, records, _check, _key, _date)
    forget()
    return added


def remove(problem: Problem, tolerance: float | None, target: Target, where: Path) -> None:
    """Remove the entry of a problem at this place. Raises OSError if that cannot be done."""
    key = _key({"place": place(target), "layer": layer_of(problem, tolerance)})
    lines.merge(where, (), _check, _key, _date, without={key})
    forget()


def _date(one: Record) -> str:
    return str(one["measured"]["date"])


def merge(files: Iterable[Path], where: Path) -> tuple[int, int]:
    """Add all entries of ``files`` to a file; return how many are new, and how many lines are none.

    Raises InvalidValue for what is no file, OSError if the result cannot be written.
    """
    records, damaged = [], 0
    for file in files:
        try:
            read_, wrong = read(file)
        except OSError as problem:
            raise InvalidValue(
                f"merge: got {str(file)!r} ({problem}); allowed: files of `winogen tune`"
            ) from None
        records += read_
        damaged += len(wrong)
    return add(records, where), damaged


def check_writable(where: Path) -> None:
    """Raise CacheUnavailable unless entries can be added to the file."""
    lines.check_writable(
        where, "allowed: a WINOGEN_WISDOM that names a file, or a WINOGEN_CACHE, of your own"
    )


def record(
    problem: Problem,
    tolerance: float | None,
    target: Target,
    choice: Choice,
    measured: MeasuredChoice,
) -> Record:
    """Return the line of an entry."""
    return {
        "place": place(target),
        "layer": layer_of(problem, tolerance),
        "choice": encoded(choice),
        "measured": asdict(measured),
    }


def layer_of(problem: Problem, tolerance: float | None) -> Record:
    """Return what an entry says of the layer that it is for."""
    layer, spread = problem.layer, problem.spread
    phases = {} if spread is None else {
        "outputs": list(problem.output_size), "step": list(spread.step),
        "whole": list(spread.whole), "phases": "all" if spread.filters else "one",
    }  # fmt: skip
    return {
        **phases,
        "input": [problem.batch, *problem.input_shape[-1 - layer.rank :]],
        "weight": list(layer.weight_shape),
        "stride": list(layer.stride),
        "padding": list(layer.padding),
        "dilation": list(layer.dilation),
        "groups": layer.groups,
        "padding_mode": layer.padding_mode,
        "layout": layer.layout,
        "dtype": layer.dtype,
        "tolerance": tolerance,
    }


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _key(record: Record) -> str:
    return _text([_here(record), record["layer"]])


def _here(record: Record) -> dict[str, str]:
    """Where an entry holds; earlier versions wrote more."""
    return {name: record["place"][name] for name in _PLACE}


def _check(record: Record) -> None:
    """Raise one of the errors of `lines` for what is no entry."""
    _entry(record)
    if not all(isinstance(value, str) for value in _here(record).values()):
        raise ValueError("place")
    if not isinstance(record["layer"]["input"], list):
        raise ValueError("layer")


def _entry(record: Record) -> Entry:
    """The entry of a line. Raises ValueError, KeyError, TypeError and so on for what is none."""
    given = record["measured"]
    seconds, planner_seconds = float(given["seconds"]), float(given["planner_seconds"])
    if not (0 < seconds < math.inf and 0 < planner_seconds < math.inf):
        raise ValueError("measured")
    measured = MeasuredChoice(
        seconds, planner_seconds, _whole(given["threads"]), str(given["date"])
    )
    choice, rank = decoded(record["choice"], measured.threads), len(record["layer"]["weight"]) - 2
    if len(choice.tile or range(rank)) != rank or len(choice.points or range(rank)) != rank:
        raise ValueError("axes")
    return Entry(choice, measured)


def encoded(choice: Choice) -> Record:
    """Return the fields of a choice that are not as usual; whoever keeps them knows the threads."""
    usual = Choice(choice.algorithm, threads=choice.threads)
    fields = {
        name: value
        for name, value in asdict(replace(choice, parameters=None)).items()
        if value != getattr(usual, name)
    }
    if choice.sizes:
        fields["sizes"] = dict(choice.sizes)
    if choice.parameters is not None:
        fields["parameters"] = choice.parameters.to_dict()
    return json.loads(json.dumps({"algorithm": choice.algorithm, **fields}))


def decoded(record: Record, threads: int) -> Choice:
    """Return the choice that was `encoded`.

    Raises ValueError, KeyError, TypeError and so on for what is none.
    """
    algorithm = record["algorithm"]
    if algorithm not in algorithms_beside(algorithm):
        raise ValueError("algorithm")
    read: dict[str, Callable[[Any], Any]] = {
        "tile": lambda tile: tuple(map(_whole, tile)),
        "points": lambda sets: tuple(one and _points(**one) for one in sets),
        "edge": lambda name: EDGES[EDGES.index(name)],
        "border": lambda name: BORDERS[BORDERS.index(name)],
        "order": lambda name: ORDERS[ORDERS.index(name)],
        "sizes": lambda sizes: tuple(sorted((name, int(size)) for name, size in sizes.items())),
        "cut": lambda cut: Cut(_pair(cut["block"]), _whole(cut["images"]), bool(cut["split"])),
        "parameters": general(algorithm).parameters_from,
        "variant": str,
        "precision": _precision,
    }
    fields = {name: read[name](value) for name, value in record.items() if name != "algorithm"}
    return Choice(algorithm, threads=threads, **fields)


def _points(kind: str, items: list[Any]) -> Points:
    if kind not in ("points", "moduli", "catalog"):
        raise ValueError("points")
    return Points(kind, tuple(map(str, items)))


def _precision(fields: Record) -> Precision:
    if not set(fields.values()) <= set(NUMBERS):
        raise ValueError("precision")
    return Precision(**fields)


def _pair(values: Any) -> tuple[int, int]:
    high, wide = map(_whole, values)
    return high, wide


def _whole(value: Any) -> int:
    if type(value) is not int or not 0 < value < 1 << 40:
        raise ValueError("a positive integer")
    return value
