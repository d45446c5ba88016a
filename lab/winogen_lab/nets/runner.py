"""One run of the benchmark over whole nets: everybody in turns, net by net."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from winogen.errors import InvalidValue
from winogen_lab.bench import contest
from winogen_lab.bench.contest import Entry
from winogen_lab.bench.own import Own
from winogen_lab.bench.runner import machine_facts
from winogen_lab.bench.team import Contestant, ContestantFailed
from winogen_lab.nets import Net, NotInstalled, files, report
from winogen_lab.peers import OUR_NETS, Peer, present

# Beside what contestants need: nets are built by torch and given away as ONNX.
NEEDED = ("torch", "onnx")
# A net is compiled, or converted, before it answers for the first time.
_PATIENCE = 900.0


@dataclass(frozen=True)
class NetSettings:
    """How to measure."""

    threads: int = 1
    rivals: tuple[Peer, ...] = ()
    ours: tuple[Peer, ...] = tuple(OUR_NETS.values())
    rounds: int = 9
    min_time: float = 0.02  # seconds of a turn
    beside: tuple[Own, ...] = ()  # where ours run once more, by another winogen perhaps
    seconds: float = math.inf  # after which no further net begins
    # Of `optimize`: tolerance, output_tolerance. Rivals then compute in the types that they take.
    within: Mapping[str, float] = field(default_factory=dict)

    @property
    def told(self) -> dict[str, Any]:
        """What the document says of it."""
        return {"rounds": self.rounds, "min_time_s": self.min_time, **self.within}


class Place(NamedTuple):
    """Who runs a net, and where: with the main winogen, ``beside`` "", or with another one."""

    peer: Peer
    beside: str = ""


def run_nets(
    nets: Sequence[Net],
    settings: NetSettings,
    say: Callable[[str], None] = lambda text: None,
    earlier: dict | None = None,
    keep: Callable[[dict], None] = lambda document: None,
) -> dict:
    """Measure and return the document described in `winogen_lab.nets.report`.

    ``say`` is told what is going on. What ``earlier`` holds, a document of another run, is not
    measured again; ``keep`` gets the document before the first net and after each. Raises
    InvalidValue for an earlier run that was not like this one, NotInstalled without torch and onnx,
    by which nets are built, InvalidValue for a place beside in which none of ours can run, and what
    building a net raises. Whatever goes wrong with a contestant is in the document.
    """
    missing = Peer("", "", NEEDED, "").missing()
    if missing:
        raise NotInstalled(
            f"nets: {missing} is not installed; allowed: pip install 'winogen[torch,onnx]'"
        )
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="winogen-nets-"))
        bench = _Bench(settings, Path(folder), say, stack)
        begin = time.monotonic()
        document: dict[str, Any] = {
            "machine": {**machine_facts(), "threads": settings.threads},
            "settings": settings.told,
            "contestants": bench.present,
            "beside": bench.about,
            "nets": [],
            "summary": report.summarize([]),
        }
        if earlier is not None:
            document = _continued(document, earlier)
        keep(document)
        there = {net["name"] for net in document["nets"]}
        for number, net in enumerate(nets, 1):
            if net.name in there:
                continue
            if time.monotonic() - begin > settings.seconds:
                break
            document["nets"].append(bench.measure(net, f"{number}/{len(nets)} {net.name}"))
            document["summary"] = report.summarize(document["nets"])
            keep(document)
    return document


def _continued(document: dict, earlier: dict) -> dict:
    """Return the document of an earlier run, to go on with. Raises InvalidValue."""
    for part in ("machine", "settings", "contestants", "beside"):
        got, wanted = earlier.get(part), document[part]
        if got != wanted:
            raise InvalidValue(
                f"resume: got a file whose {part} is {got}; allowed: one of {wanted}"
            )
    return {**document, "nets": list(earlier["nets"]), "summary": earlier["summary"]}


class _Bench:
    """The contestants, each in a process of its own, and the folder that they share."""

    def __init__(
        self, settings: NetSettings, folder: Path, say: Callable[[str], None], stack: ExitStack
    ):
        def contestant(name: str, own: Own | None = None) -> Contestant:
            where = own.process if own else {}
            return stack.enter_context(Contestant(name, settings.threads, _PATIENCE, **where))

        self._settings, self._folder, self._say = settings, folder, say
        self._reference = contestant("reference")
        self.present, there = present((*settings.rivals, *settings.ours))
        self._contestants = {Place(peer): contestant(peer.name) for peer in there}
        ours = [peer for peer in settings.ours if Place(peer) in self._contestants]
        self.about: dict[str, dict] = {}
        for own in settings.beside:
            absent = {}
            for peer in ours:
                another = contestant(f"{peer.name}, {own.name}", own)
                self.about[own.name] = own.about(another)
                lack = another.ask("lack", peer.needs)
                if lack is None:
                    self._contestants[Place(peer, own.name)] = another
                else:
                    absent[peer.name] = f"not installed: {lack}"
            if len(absent) == len(ours):
                raise InvalidValue(
                    f"beside: got {own.name!r}, where {' and '.join(absent) or 'nothing'} cannot "
                    f"run ({'; '.join(absent.values())}); allowed: an interpreter with torch, or "
                    "with onnx and onnxruntime"
                )
            self.about[own.name]["absent"] = absent

    def measure(self, net: Net, prefix: str) -> dict:
        """Everybody on one net; returns its part of the document."""
        self._say(f"{prefix}: float64 reference")
        files.clean(self._folder)
        facts = self._reference.ask("lay_out_net", net.name, str(self._folder))
        self._reference.close()  # so that its memory does not stay while others run
        y64 = np.load(self._folder / "y64.npy")
        entries = {}
        for place, contestant in self._contestants.items():
            self._say(f"{prefix}: preparing {contestant.name}")
            entries[place] = self._prepare(place.peer, contestant, net, y64)
        compare_outputs(entries, y64)
        self._say(f"{prefix}: running")
        signs = contest.hold(entries, self._settings.rounds, self._settings.min_time)
        rows: dict[str, dict[str, dict]] = {name: {} for name in ("", *self.about)}
        for place, entry in entries.items():
            rows[place.beside][place.peer.name] = entry.row
        measured = {
            "name": net.name,
            "title": net.title,
            "input": list(net.input),
            **facts,
            "contestants": rows.pop(""),
            **({"beside": rows} if rows else {}),
            **({"disturbed": list(signs)} if signs else {}),
        }
        return {**measured, "ratio": report.ratio(measured)}

    def _prepare(self, peer: Peer, contestant: Contestant, net: Net, y64: np.ndarray) -> Entry:
        """The fastest of the ways in which the contestant can run the net."""
        arguments = (
            peer.adapter, net.name, list(y64.shape), str(self._folder), self._settings.threads,
            dict(self._settings.within) if peer.narrows else {},
        )  # fmt: skip
        try:
            answers = contestant.ask("prepare_net", *arguments)
        except ContestantFailed as failure:
            answers = {"": {"error": str(failure)}}
        best = None
        for way, answer in answers.items():
            entry = Entry(contestant, way)
            if "error" in answer:
                entry.row = {"error": answer["error"]}
            else:
                entry.seconds, entry.output = answer["seconds"], answer["output"]
                entry.row = {"way": way, **errors(np.load(answer["output"]), y64)}
                if not np.isfinite(entry.row["rel_error"]):  # JSON has no NaN
                    entry.row = {"error": "the result is not finite"}
            if best is None or _better(entry, best):
                best = entry
        assert best is not None
        if "error" not in best.row:
            try:
                contestant.ask("keep", [best.way])
            except ContestantFailed as failure:
                best.row = {"error": str(failure)}
        return best


def compare_outputs(entries: Mapping[Place, Entry], y64: np.ndarray) -> None:
    """Note how far the outputs of another winogen are from those of this one."""
    for place, entry in entries.items():
        main = entries[Place(place.peer)]
        if place.beside and "error" not in {**entry.row, **main.row}:
            difference = np.abs(np.load(entry.output) - np.load(main.output)).max()
            entry.row["difference"] = float(difference / np.abs(y64).max())


def _better(entry: Entry, than: Entry) -> bool:
    if "error" in entry.row or "error" in than.row:
        return "error" not in entry.row
    return entry.seconds < than.seconds


def errors(y: np.ndarray, y64: np.ndarray) -> dict:
    """Return the error of an output: in the L2 norm, and its largest over the largest output."""
    difference = y - y64
    return {
        "rel_error": float(np.linalg.norm(difference) / np.linalg.norm(y64)),
        "max_error": float(np.abs(difference).max() / np.abs(y64).max()),
    }
