"""One run of the benchmark: limits of the machine, then layer by layer everybody in turns."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from winogen.errors import WinogenError
from winogen.toolchain import find_compiler, host_target
from winogen.toolchain.limits import Limits
from winogen.toolchain.machine_file import cpu_name
from winogen.tuning.layers import BenchLayer
from winogen_lab import peers
from winogen_lab.bench import contest, reference, report, roofline
from winogen_lab.bench.contest import Entry
from winogen_lab.bench.kinds import KINDS
from winogen_lab.bench.own import MAIN, Own
from winogen_lab.bench.team import Contestant, ContestantFailed

# Where `direct` must be near the peak and `mcmr` well ahead of it.
YARDSTICK = BenchLayer.from_dict(
    {"name": "56x56 256->256", "input": [1, 256, 56, 56], "weight": [256, 256, 3, 3], "padding": 1}
)
_PEAK_SAMPLE = 0.003  # seconds


@dataclass(frozen=True)
class Settings:
    """How to measure. ``peers`` are of the table that goes with the type of arrays, `KINDS`."""

    main: Own = Own()
    beside: tuple[Own, ...] = ()  # more of our own; each has a name of its own
    threads: int = 1
    peers: tuple[peers.Peer, ...] = ()
    rounds: int = 9
    min_time: float = 0.02  # seconds of a turn
    profile: bool = False


def run(
    layers: Sequence[BenchLayer],
    settings: Settings,
    say: Callable[[str], None] = lambda text: None,
) -> dict:
    """Measure and return the document described in `winogen_lab.bench.report`.

    ``say`` is told what is going on. Raises what the float64 reference raises; whatever goes wrong
    with a rival, or with winogen on one layer, is in the document.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="winogen-bench-"))
        bench = _Bench(settings, Path(folder), say, stack)
        say("measuring the machine")
        limits = bench.main.ask("limits", settings.threads)
        yardstick = bench.yardstick()
        measured = []
        for number, layer in enumerate(layers, 1):
            bench.prefix = f"{number}/{len(layers)} {layer.name}"
            measured.append(bench.measure(layer, limits))
    peaks = bench.peaks
    return {
        "machine": {
            **machine_facts(),
            "threads": settings.threads,
            **limits.to_dict(),
            # The clock moves: what the contestants met says more than one good moment before.
            "fma_peak_gflops": median(peaks),
            "fma_peak_gflops_range": [min(peaks), max(peaks)],
        },
        "settings": {
            **{"layout": "NCHW", "algorithm": "auto", "tile": None, "tolerance": None},
            **settings.main.to_dict(),
            "rounds": settings.rounds,
            "min_time_s": settings.min_time,
        },
        "peers": bench.present,
        "beside": bench.about,
        "yardstick": yardstick,
        "layers": measured,
        "summary": report.summarize(measured),
    }


class _Bench:
    """The contestants, and what they have in common."""

    def __init__(
        self, settings: Settings, folder: Path, say: Callable[[str], None], stack: ExitStack
    ):
        self.settings = settings
        self.folder = folder
        self.prefix = ""
        self.peaks: list[float] = []
        self.signs: tuple[str, ...] = ()  # of a disturbance during the last contest
        self._stack = stack
        self.main = self._contestant(MAIN)
        # In a process of its own, so that its memory is not counted as ours.
        self._aside = self._contestant("winogen's yardstick")
        self.beside = {own: self._contestant(own.name, **own.process) for own in settings.beside}
        self.about = {own.name: own.about(one) for own, one in self.beside.items()}
        self._say = say
        self.present, there = peers.present(settings.peers)
        self.rivals = {peer: self._contestant(peer.name) for peer in there}

    def _contestant(self, name: str, **where: Any) -> Contestant:
        contestant = Contestant(name, self.settings.threads, **where)
        return self._stack.enter_context(contestant)

    def yardstick(self) -> dict:
        """`direct` against the peak, and `mcmr` against `direct`, where both should be good."""
        self.prefix = YARDSTICK.name
        layout, names = self.settings.main.layout, ("direct", "mcmr")
        ways = {name: Own(name, options={"algorithm": name, "layout": layout}) for name in names}
        exact = self._lay_out(YARDSTICK, ["float32"])
        entries = self._own(self._aside, YARDSTICK, exact, tuple(ways.values()))
        peak = self._contest(entries)
        self._finish()
        direct, mcmr = (entries[name].row for name in names)
        found: dict[str, Any] = {"layer": YARDSTICK.to_dict(), "direct": direct, "mcmr": mcmr}
        if "median_s" in direct and "median_s" in mcmr:
            found["direct_gflops"] = YARDSTICK.flops / direct["median_s"] / 1e9
            found["fma_peak_gflops"] = peak
            found["direct_share_of_peak"] = found["direct_gflops"] / peak
            found["mcmr_over_direct"] = direct["median_s"] / mcmr["median_s"]
        return found

    def measure(self, layer: BenchLayer, limits: Limits) -> dict:
        """Everybody on one layer; returns its part of the document."""
        main = self.settings.main
        exact = self._lay_out(layer, [main.dtype, *(own.dtype for own in self.beside)])
        entries = self._own(self.main, layer, exact, (main,))
        for own, contestant in self.beside.items():
            entries |= self._own(contestant, layer, exact, (own,))
        rivals = {
            peer.name: self._rival(peer, layer, main.dtype, exact[main.dtype])
            for peer in self.rivals
            if peer.serves(layer)
        }
        peak = self._contest({**entries, **{f"peer {k}": v for k, v in rivals.items()}})
        measured = {**layer.to_dict(), "gflop": layer.flops / 1e9}
        measured |= entries[main.name].row
        measured["fma_peak_gflops"] = peak
        if self.signs:
            measured["disturbed"] = list(self.signs)
        if "median_s" in measured:
            measured["gflops"] = layer.flops / measured["median_s"] / 1e9
            roof = roofline.of_layer(
                layer.posed(main.layout, main.dtype), measured["multiplications"],
                measured["packed_weight_bytes"], peak, limits, measured["product_dtype"],
                measured["variant"],
            )  # fmt: skip
            measured |= {"roofline_s": roof.seconds, "roofline": roof.to_dict()}
        measured["peers"] = {name: entry.row for name, entry in rivals.items()}
        if self.beside:
            measured["beside"] = {own.name: entries[own.name].row for own in self.beside}
        if self.settings.profile and "median_s" in measured:
            measured["profile"] = self._profile(layer, limits)
        self._finish()
        return measured

    def _lay_out(self, layer: BenchLayer, dtypes: Iterable[str]) -> dict[str, np.ndarray]:
        """Write the data where every process finds it; return the exact results, float64."""
        self._tell("float64 reference")
        shutil.rmtree(self.folder, ignore_errors=True)
        exact = {}
        for dtype in dict.fromkeys(dtypes):
            kind, folder = KINDS[dtype], self.folder / dtype
            folder.mkdir(parents=True)
            x, weight = kind.data(layer)
            np.save(folder / "x.npy", x)
            np.save(folder / "w.npy", weight)
            exact[dtype] = kind.exact(layer, x, weight)
        return exact

    def _own(
        self,
        contestant: Contestant,
        layer: BenchLayer,
        exact: Mapping[str, np.ndarray],
        variants: tuple[Own, ...],
    ) -> dict[str, Entry]:
        """Ways of ours that one process has, all with the same type of arrays."""
        adapter, dtype = peers.OURS[KINDS[variants[0].dtype].task], variants[0].dtype
        asked = {own.name: {"dtype": own.dtype, **own.options} for own in variants}
        entries = self._prepare(
            contestant, adapter, layer, dtype, exact[dtype], {"variants": asked}, tuple(asked)
        )
        self._keep(contestant, [e for e in entries.values() if "error" not in e.row])
        return entries

    def _rival(self, peer: peers.Peer, layer: BenchLayer, dtype: str, exact: np.ndarray) -> Entry:
        """The fastest of the ways in which the rival can be used."""
        entries = self._prepare(self.rivals[peer], peer.adapter, layer, dtype, exact, {}, ("",))
        able = [entry for entry in entries.values() if "error" not in entry.row]
        if not able:
            return next(iter(entries.values()))
        best = min(able, key=lambda entry: entry.seconds)
        best.row["way"] = best.way
        self._keep(best.contestant, [best])
        return best

    def _prepare(
        self,
        contestant: Contestant,
        adapter: str,
        layer: BenchLayer,
        dtype: str,
        exact: np.ndarray,
        options: dict,
        names: Sequence[str],
    ) -> dict[str, Entry]:
        """Let a contestant build all its ways; entries with the error, ``names``, if it cannot."""
        self._tell(f"preparing {contestant.name}")
        where = layer.to_dict(), str(self.folder / dtype), self.settings.threads
        try:
            answers = contestant.ask("prepare", adapter, *where, options)
        except ContestantFailed as failure:
            answers = {name: {"error": str(failure)} for name in names}
        entries = {}
        for way, answer in answers.items():
            entry = entries[way] = Entry(contestant, way)
            if "error" in answer:
                entry.row = {"error": answer["error"]}
                continue
            y = np.load(answer["output"], mmap_mode="r")
            error = reference.relative_error(y, exact)
            entry.row = {"rel_error": error, **answer["facts"]}
            if dtype == "int8":
                entry.row["inexact"] = float((y != exact).mean())
            if not np.isfinite(error):  # JSON has no NaN, and a time would mean nothing
                entry.row = {"error": "the result is not finite"}
            entry.seconds = answer["seconds"]
        return entries

    def _keep(self, contestant: Contestant, entries: list[Entry]) -> None:
        try:
            contestant.ask("keep", [entry.way for entry in entries])
        except ContestantFailed as failure:
            for entry in entries:
                entry.row = {"error": str(failure)}

    def _contest(self, entries: dict[str, Entry]) -> float:
        """Fill in the times; return the FMA peak, the best of a sample per round.

        That of another instruction set goes into the row of who has it.
        """
        self._tell("running")
        settings = self.settings
        others = {own.name: one for own, one in self.beside.items() if own.isa}
        able = {name: one for name, one in others.items() if name in entries}
        samples: dict[str, list[float]] = {name: [] for name in (MAIN, *able)}

        def sample_peaks() -> None:
            for name, contestant in {MAIN: self.main, **able}.items():
                samples[name].append(contestant.ask("fma", settings.threads, _PEAK_SAMPLE))

        self.signs = contest.hold(entries, settings.rounds, settings.min_time, sample_peaks)
        for name in able:
            if "median_s" in entries[name].row:
                entries[name].row["fma_peak_gflops"] = max(samples[name])
        self.peaks.append(max(samples[MAIN]))
        return max(samples[MAIN])

    def _profile(self, layer: BenchLayer, limits: Limits) -> dict:
        """Where our time goes, stage by stage."""
        self._tell("profile")
        main = self.settings.main
        options = {**main.options, "threads": self.settings.threads}
        try:
            where = layer.to_dict(), str(self.folder / main.dtype)
            return self._aside.ask("profile", *where, options, limits)
        except ContestantFailed as failure:
            return {"error": str(failure)}

    def _finish(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _tell(self, what: str) -> None:
        self._say(f"{self.prefix}: {what}")


def machine_facts() -> dict:
    """Return what to say of the machine: CPU, cores, instruction set, compiler, system."""
    try:
        compiler = find_compiler().version
    except WinogenError:
        compiler = None
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:
        cores = os.cpu_count() or 1
    target = host_target()
    return {
        "cpu": cpu_name(),
        "cores": cores,
        "isa": target.name,
        "extensions": sorted(target.extensions),
        "compiler": compiler,
        "system": platform.platform(terse=True),
    }
