"""`winogen tune --backend opencl`: kernels searched on a device; what is worth having is kept."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from winogen.conv.problem import Problem
    from winogen.opencl.choice import DeviceCandidate
    from winogen.opencl.search import Findings

SECONDS = 60.0  # for a layer


@dataclass(frozen=True)
class Tuned:
    """A layer in a layout, and what a search on the device found."""

    name: str
    layout: str
    problem: Problem
    found: Findings


def tune(
    layers: str, only: str | None, seconds: float | None, layouts: tuple[str, ...]
) -> tuple[list[Tuned], Path, str]:
    """Search for kernels of layers; return what was found, where it is kept, and the device.

    Raises InvalidValue for layers that are none, MissingPackage and NoDevice.
    """
    from winogen.errors import InvalidValue
    from winogen.opencl import wisdom
    from winogen.opencl.devices import DeviceInfo, context_of
    from winogen.opencl.phases import computed
    from winogen.progress import counting
    from winogen.tuning.chosen import chosen_layers

    where = wisdom.path()
    if where is None:
        raise InvalidValue("WINOGEN_WISDOM: got '0'; allowed: a file, or nothing, to tune")
    wisdom.check_writable(where)
    context = context_of()
    device = DeviceInfo.of(context.devices[0])
    chosen = [one for one in chosen_layers(layers, only) if one.rank < 3]
    if not chosen:
        raise InvalidValue(
            f"layers: got {layers!r}, without any for devices; allowed: layers of 1 or 2 axes"
        )
    jobs = [(one, layout) for one in chosen for layout in layouts]
    limit = SECONDS * len(jobs) if seconds is None else seconds
    begin, tuned = monotonic(), list[Tuned]()
    with counting("tuning") as step:
        for number, (one, layout) in enumerate(jobs):
            left = max(0.0, begin + limit - monotonic()) / (len(jobs) - number)
            problem = computed(one.posed(layout))
            found = _search(problem, context, left, lambda stage, name=one.name, at=number: step(
                at, len(jobs), f"{name}: {stage}"
            ))  # fmt: skip
            if found.front:
                wisdom.add(problem, device, found.front, date.today().isoformat())
            tuned.append(Tuned(one.name, layout, problem, found))
    return tuned, where, str(device)


def _search(problem: Problem, context: Any, seconds: float, say: Any) -> Findings:
    from winogen.opencl.search import DeviceSearch, results_at
    from winogen.toolchain.cache import cache_dir

    results = results_at(cache_dir() / "opencl_measured.jsonl")
    try:
        search = DeviceSearch(
            problem, context, results, progress=lambda stage, done, of: say(stage)
        )
        return search(seconds)
    finally:
        results.close()


def document(tuned: list[Tuned], where: Path, device: str) -> dict[str, Any]:
    """Return the results as JSON can hold them."""
    return {
        "wisdom": str(where),
        "device": device,
        "layers": [
            {
                "name": one.name,
                "layout": one.layout,
                "tried": one.found.tried,
                "front": [_row(candidate) for candidate in one.found.front],
                "wrong": one.found.wrong,
            }
            for one in tuned
        ],
    }


def show(tuned: list[Tuned], where: Path, device: str) -> None:
    """Print the results as a table: what is worth having of every layer, the fastest first."""
    row = "{:<28} {:<5} {:>10} {:>16} {:>9}  {}"
    typer.echo(f"on {device}")
    typer.echo(row.format("layer", "", "ms", "workspace bytes", "error", "choice"))
    for one in tuned:
        for number, candidate in enumerate(one.found.front):
            cells = _row(candidate)
            names = ("", "") if number else (one.name, one.layout)
            typer.echo(row.format(
                *names, f"{1e3 * candidate.seconds:.4g}", f"{candidate.workspace_bytes:,}",
                f"{cells['error']:.1e}", cells["choice"],
            ))  # fmt: skip
        for wrong in one.found.wrong:
            typer.echo(f"{one.name}: wrong results, please report: {wrong}", err=True)
    count = sum(one.found.tried for one in tuned)
    typer.echo(f"{count} candidates measured; kept in {where}")


def _row(candidate: DeviceCandidate) -> dict[str, Any]:
    return {
        "seconds": candidate.seconds,
        "workspace_bytes": candidate.workspace_bytes,
        "error": candidate.error or 0.0,
        "choice": describe(candidate),
    }


def describe(candidate: DeviceCandidate) -> str:
    """Return a candidate in one line.

    >>> from winogen.conv.problem import Layer
    >>> from winogen.opencl.choice import direct_candidate
    >>> from winogen.opencl.devices import DeviceInfo
    >>> from winogen.opencl.scheme import DirectPoint
    >>> layer = Layer.of((4, 4, 3, 3), "float32", layout="NHWC")
    >>> point = DirectPoint(3, 3, filters=4, vector=4, chunk=9)
    >>> describe(direct_candidate(layer.problem((1, 6, 6, 4)), point, DeviceInfo()))
    'direct, θ 3x3, ρ 0x0, κ 4, σ 1, ω 36, v 4, local 1x1'
    """
    from winogen.opencl.scheme import DirectPoint

    if isinstance(candidate.parameters, DirectPoint):
        return f"{candidate.algorithm}, {candidate.parameters}"
    cut, tile = candidate.parameters, candidate.tile or ()
    parts = [f"{candidate.algorithm} {'x'.join(map(str, tile))} {candidate.tag}".rstrip()]
    parts += [f"κ {cut.filters}", f"σ {cut.tiles}", f"v {cut.vector}"]
    parts += ["fused"] if cut.fused else [f"groups {cut.group[0]}x{cut.group[1]}"]
    return ", ".join(parts)
