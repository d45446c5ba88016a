"""One run of the benchmark: limits of the machine, then layer by layer everybody in turns."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from winogen.bench import contest, peers, quantized, reference, report, roofline
from winogen.bench.contest import Entry
from winogen.bench.layers import BenchLayer
from winogen.bench.team import Contestant, ContestantFailed
from winogen.errors import WinogenError
from winogen.toolchain import find_compiler, host_target
from winogen.toolchain.limits import Limits
from winogen.toolchain.machine import cpu_name

ALGORITHMS = ("direct", "im2col", "winograd2d", "winograd1d", "mcmr")
QUANTIZED_ALGORITHMS = ("direct", "im2col", "mcmr")
# Where `direct` must be near the peak and `mcmr` well ahead of it.
YARDSTICK = BenchLayer.from_dict(
    {"name": "56x56 256->256", "input": [1, 256, 56, 56], "weight": [256, 256, 3, 3], "padding": 1}
)
_PEAK_SAMPLE = 0.003  # seconds
# What makes and checks data, and how winogen computes it.
_KINDS: dict[str, tuple[Any, str]] = {
    "float32": (reference, peers.OURS),
    "int8": (quantized, peers.OURS_QUANTIZED),
}
_OURS = tuple(adapter for _, adapter in _KINDS.values())


@dataclass(frozen=True)
class Settings:
    """How to measure. With dtype "int8", ``peers`` are of `peers.QUANTIZED`."""

    threads: int = 1
    dtype: str = "float32"
    layout: str = "NCHW"  # of our input and output; rivals use what suits them
    algorithm: str = "auto"  # ours
    tile: tuple[int, int] | int | None = None
    tolerance: float | None = (
        None  # None: as accurate as direct convolution where that costs little
    )
    algorithms: tuple[str, ...] = ()  # of ours, to compare with one another
    peers: tuple[peers.Peer, ...] = ()
    rounds: int = 9
    min_time: float = 0.02  # seconds of a turn
    profile: bool = False


def run(
    layers: Sequence[BenchLayer],
    settings: Settings,
    say: Callable[[str], None] = lambda text: None,
) -> dict:
    """Measure and return the document described in `winogen.bench.report`.

    ``say`` is told what is going on. Raises what the float64 reference raises; whatever goes wrong
    with a rival, or with winogen on one layer, is in the document.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="winogen-bench-"))
        bench = _Bench(settings, Path(folder), say, stack)
        say("measuring the machine")
        limits = bench.ours.ask("limits", settings.threads)
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
            "dtype": settings.dtype,
            "layout": settings.layout,
            "algorithm": settings.algorithm,
            "tile": settings.tile,
            "tolerance": settings.tolerance,
            "rounds": settings.rounds,
            "min_time_s": settings.min_time,
        },
        "peers": bench.present,
        "yardstick": yardstick,
        "layers": measured,
        "summary": report.summarize(measured),
    }


class _Bench:
    """The contestants, and what they have in common."""

    def __init__(
        self, settings: Settings, folder: Path, say: Callable[[str], None], stack: ExitStack
    ):
        def contestant(name: str) -> Contestant:
            return stack.enter_context(Contestant(name, settings.threads))

        self.settings = settings
        self.folder = folder
        self.prefix = ""
        self.peaks: list[float] = []
        self.ours = contestant("winogen")
        # In a process of its own, so that the memory of the comparison is not counted as ours.
        self.variants = contestant("winogen's algorithms")
        self.present: dict[str, dict] = {}
        self.rivals: dict[peers.Peer, Contestant] = {}
        self._say = say
        for peer in settings.peers:
            missing = peer.missing()
            if missing:
                self.present[peer.name] = {"absent": f"not installed: {missing}"}
            else:
                self.present[peer.name] = {"version": peer.version()}
                self.rivals[peer] = contestant(peer.name)

    def yardstick(self) -> dict:
        """`direct` against the peak, and `mcmr` against `direct`, where both should be good."""
        self.prefix = YARDSTICK.name
        y64 = self._lay_out(YARDSTICK, "float32")
        options = {"layout": self.settings.layout, "algorithms": ("direct", "mcmr")}
        entries = self._prepare(self.variants, peers.OURS, YARDSTICK, y64, options)
        peak = self._contest(entries)
        self._finish()
        direct, mcmr = (entries[name].row for name in ("direct", "mcmr"))
        found: dict[str, Any] = {"layer": YARDSTICK.to_dict(), "direct": direct, "mcmr": mcmr}
        if "median_s" in direct and "median_s" in mcmr:
            found["direct_gflops"] = YARDSTICK.flops / direct["median_s"] / 1e9
            found["fma_peak_gflops"] = peak
            found["direct_share_of_peak"] = found["direct_gflops"] / peak
            found["mcmr_over_direct"] = direct["median_s"] / mcmr["median_s"]
        return found

    def measure(self, layer: BenchLayer, limits: Limits) -> dict:
        """Everybody on one layer; returns its part of the document."""
        y64 = self._lay_out(layer, self.settings.dtype)
        settings = self.settings
        mine = self._ours(layer, y64)
        rivals = {peer.name: self._rival(peer, layer, y64) for peer in self.rivals}
        variants = self._algorithms(layer, y64, settings.algorithms)
        everybody = {"winogen": mine, **{f"peer {k}": v for k, v in rivals.items()}}
        everybody |= {f"algorithm {k}": v for k, v in variants.items()}
        peak = self._contest(everybody)
        measured = {**layer.to_dict(), "gflop": layer.flops / 1e9}
        measured |= mine.row
        measured["fma_peak_gflops"] = peak
        if "median_s" in measured:
            measured["gflops"] = layer.flops / measured["median_s"] / 1e9
            if settings.dtype == "float32":  # of which the limits are
                roof = roofline.of_layer(
                    layer.problem(settings.layout), measured["multiplications"],
                    measured["packed_weight_bytes"], peak, limits,
                )  # fmt: skip
                measured |= {"roofline_s": roof.seconds, "roofline": roof.to_dict()}
        measured["peers"] = {name: entry.row for name, entry in rivals.items()}
        if variants:
            measured["algorithms"] = {name: entry.row for name, entry in variants.items()}
        if settings.profile and "median_s" in measured:
            measured["profile"] = self._profile(layer, limits)
        self._finish()
        return measured

    def _lay_out(self, layer: BenchLayer, dtype: str) -> np.ndarray:
        """Write the data where every process finds it; return the exact result, float64."""
        self._tell("float64 reference")
        kind = _KINDS[dtype][0]
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        x, weight = kind.data(layer)
        np.save(self.folder / "x.npy", x)
        np.save(self.folder / "w.npy", weight)
        return kind.exact(layer, x, weight)

    def _ours(self, layer: BenchLayer, y64: np.ndarray) -> Entry:
        settings = self.settings
        options = {**self._options(), "algorithms": (settings.algorithm,)}
        if settings.dtype == "float32":
            options["tile"] = settings.tile
        entries = self._prepare(self.ours, _KINDS[settings.dtype][1], layer, y64, options)
        return entries[settings.algorithm] if entries else Entry(self.ours, "")

    def _algorithms(
        self, layer: BenchLayer, y64: np.ndarray, names: Sequence[str]
    ) -> dict[str, Entry]:
        if not names:
            return {}
        options = {**self._options(), "algorithms": tuple(names)}
        adapter = _KINDS[self.settings.dtype][1]
        return self._prepare(self.variants, adapter, layer, y64, options)

    def _options(self) -> dict[str, Any]:
        """What all of our own ways are given."""
        options: dict[str, Any] = {"layout": self.settings.layout}
        if self.settings.dtype == "float32":
            options["tolerance"] = self.settings.tolerance
        return options

    def _rival(self, peer: peers.Peer, layer: BenchLayer, y64: np.ndarray) -> Entry:
        """The fastest of the ways in which the rival can be used."""
        entries = self._prepare(self.rivals[peer], peer.adapter, layer, y64, {})
        able = [entry for entry in entries.values() if "error" not in entry.row]
        if not able:
            return next(iter(entries.values()))
        best = min(able, key=lambda entry: entry.seconds)
        self._keep(best.contestant, [best])
        return best

    def _prepare(
        self,
        contestant: Contestant,
        adapter: str,
        layer: BenchLayer,
        y64: np.ndarray,
        options: dict,
    ) -> dict[str, Entry]:
        """Let a contestant build all its ways; one entry with the error if it cannot."""
        self._tell(f"preparing {contestant.name}")
        names = options.get("algorithms", ("",))
        arguments = (adapter, layer.to_dict(), str(self.folder), self.settings.threads, options)
        try:
            answers = contestant.ask("prepare", *arguments)
        except ContestantFailed as failure:
            answers = {name: {"error": str(failure)} for name in names}
        entries = {}
        for way, answer in answers.items():
            entry = entries[way] = Entry(contestant, way)
            if "error" in answer:
                entry.row = {"error": answer["error"]}
                continue
            y = np.load(answer["output"], mmap_mode="r")
            error = reference.relative_error(y, y64)
            entry.row = {"rel_error": error, **answer["facts"]}
            if adapter not in _OURS:
                entry.row["way"] = way
            if not np.isfinite(error):  # JSON has no NaN, and a time would mean nothing
                entry.row = {"error": "the result is not finite"}
            entry.seconds = answer["seconds"]
        if adapter in _OURS:
            self._keep(contestant, [e for e in entries.values() if "error" not in e.row])
        return entries

    def _keep(self, contestant: Contestant, entries: list[Entry]) -> None:
        try:
            contestant.ask("keep", [entry.way for entry in entries])
        except ContestantFailed as failure:
            for entry in entries:
                entry.row = {"error": str(failure)}

    def _contest(self, entries: dict[str, Entry]) -> float:
        """Fill in the times; return the FMA peak, the best of a sample per round."""
        self._tell("running")
        settings, samples = self.settings, []

        def sample_peak() -> None:
            samples.append(self.ours.ask("fma", settings.threads, _PEAK_SAMPLE))

        contest.hold(entries, settings.rounds, settings.min_time, sample_peak)
        self.peaks.append(max(samples))
        return max(samples)

    def _profile(self, layer: BenchLayer, limits: Limits) -> dict:
        """Where our time goes, stage by stage."""
        self._tell("profile")
        settings = self.settings
        options = {
            "layout": settings.layout, "algorithm": settings.algorithm, "tile": settings.tile,
            "tolerance": settings.tolerance, "threads": settings.threads,
        }  # fmt: skip
        try:
            where = layer.to_dict(), str(self.folder)
            return self.variants.ask("profile", *where, options, limits)
        except ContestantFailed as failure:
            return {"error": str(failure)}

    def _finish(self) -> None:
        for path in self.folder.glob("*.npy"):
            path.unlink()

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
    return {
        "cpu": cpu_name(),
        "cores": cores,
        "isa": host_target().name,
        "compiler": compiler,
        "system": platform.platform(terse=True),
    }
