"""Why a layer takes as long as it does: each stage beside its own limits, and what binds it.

``{"date", "machine", "settings", "layers", "summary"}``. A layer has the fields of its set and what
was chosen, its time, its roofline and its stages, each with ``seconds``, the limits of
`winogen_lab.bench.roofline`, ``reached`` (limit / time), ``lost_s`` (time - limit) and a
``verdict`` in words. docs/why.md lists all fields.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from winogen.errors import WinogenError
from winogen.kernels.count import Demand
from winogen.kernels.quantized import QuantizedWork
from winogen.toolchain.limits import Limits, fma_peak, measure_limits
from winogen.tuning.layers import BenchLayer
from winogen.typing import Layout
from winogen_lab.bench import roofline
from winogen_lab.bench.kinds import KINDS
from winogen_lab.bench.profile import STAGES, Profile, profile
from winogen_lab.bench.report import geometric_mean
from winogen_lab.bench.roofline import Passage, Roof

_PEAK_SAMPLE = 0.02  # seconds, before and after each layer: the clock moves
_FILLED = 0.97  # of the lanes; where less is, the verdict says so
# A stage below this share of its limits is slow for a reason unknown to them.
_EXPLAINED = 0.6


@dataclass(frozen=True)
class Settings:
    """What to explain."""

    threads: int = 1
    layout: Layout = "NCHW"
    dtype: str = "float32"  # or "int8"
    algorithm: str = "auto"
    tile: tuple[int, int] | int | None = None
    tolerance: float | None = None


def explain(
    layers: Sequence[BenchLayer],
    settings: Settings,
    say: Callable[[str], None] = lambda text: None,
    limits: Limits | None = None,
) -> dict:
    """Measure layers stage by stage and return the document.

    ``say`` is told what is going on; ``limits`` are measured unless given. A layer that the options
    do not apply to has an "error".
    """
    from winogen_lab.bench.runner import machine_facts

    say("measuring the machine")
    limits = limits or measure_limits(settings.threads, writes=True)
    rows, peaks = [], [limits.peak]
    for number, layer in enumerate(layers, 1):
        say(f"{number}/{len(layers)} {layer.name}")
        try:
            row, peak = _layer(layer, settings, limits)
            peaks.append(peak)
        except WinogenError as error:
            row = {"error": str(error)}
        rows.append({**layer.to_dict(), **row})
    return {
        "date": time.strftime("%Y-%m-%d"),
        "machine": {**machine_facts(), "threads": settings.threads, **limits.to_dict(),
                    "fma_peak_gflops_range": [min(peaks), max(peaks)]},
        "settings": asdict(settings),
        "layers": rows,
        "summary": summarize(rows),
    }  # fmt: skip


def _layer(layer: BenchLayer, settings: Settings, limits: Limits) -> tuple[dict, float]:
    """The row of one layer, and the FMA peak while it ran."""
    x, weight = KINDS[settings.dtype].data(layer)
    threads = settings.threads
    options: dict[str, Any] = {"algorithm": settings.algorithm, "tile": settings.tile}
    if settings.dtype != "int8":
        options["tolerance"] = settings.tolerance
    before = fma_peak(threads, seconds=_PEAK_SAMPLE)
    measured = profile(layer, x, weight, settings.layout, threads, **options)
    peak = max(before, fma_peak(threads, seconds=_PEAK_SAMPLE))
    return described(measured, peak, limits), peak


def described(measured: Profile, peak_gflops: float, limits: Limits) -> dict:
    """Return the row of a measured layer: what was chosen, the roofline, all stages."""
    plan, seconds = measured.plan, measured.seconds
    roof = roofline.of_layer(
        measured.problem, plan.multiplications, plan.packed_weight_bytes, peak_gflops, limits,
        plan.precision.products, plan.variant,
    )  # fmt: skip
    stages = []
    for name, spent in measured.stages.items():
        stage: dict[str, Any] = {"name": name, "seconds": spent, "share": spent / seconds}
        demand = measured.demands.get(name)
        if demand is not None and spent:
            stage |= _stage(name, spent, demand, measured, peak_gflops, limits)
        stages.append(stage)
    blocks = [
        {"variant": work.variant, "block": list(work.block), "images": work.images,
         "items": int(work.items), "shared": bool(work.split)}
        for work in measured.works
    ]  # fmt: skip
    return {
        "algorithm": plan.algorithm,
        "variant": plan.variant,
        "tile": None if plan.tile is None else list(plan.tile),
        "blocks": blocks,
        "multiplications": plan.multiplications,
        "packed_weight_bytes": plan.packed_weight_bytes,
        "workspace_bytes": plan.workspace_bytes,
        "fma_peak_gflops": peak_gflops,
        "seconds": seconds,
        "gflops": (gflops := 2 * plan.multiplications / seconds / 1e9),
        "peak_share": gflops / peak_gflops,
        "predicted_s": plan.predictions[0].seconds,
        "roofline": {**roof.to_dict(), "reached": roof.seconds / seconds},
        "stages": stages,
    }


def _stage(
    name: str, seconds: float, demand: Demand, measured: Profile, peak_gflops: float,
    limits: Limits,
) -> dict:  # fmt: skip
    lanes, work = measured.lanes, measured.works[0]
    times = int(work.items) // work.groups
    peak = "the FMA peak"
    if isinstance(work, QuantizedWork):
        peak = f"the peak of {work.spec.dot.name}"
    roof = roofline.of_stage(demand, lanes, peak_gflops, limits, measured.at_once)
    row: dict[str, Any] = {"limit": roof.to_dict(), "reached": roof.seconds / seconds}
    row["lost_s"] = seconds - roof.seconds
    if demand.products:
        row["gflops"] = 2 * demand.products / seconds / 1e9
        row["peak_share"] = row["gflops"] / peak_gflops
        row["filled"] = demand.products / (demand.steps * measured.together)
    return {**row, "verdict": verdict(name, seconds, demand, roof, measured.together, times, peak)}


def verdict(
    name: str, seconds: float, demand: Demand, roof: Roof, lanes: int, times: int = 1,
    peak: str = "the FMA peak",
) -> str:  # fmt: skip
    """Return in one line what binds a stage, and how near it is to that.

    ``lanes``: numbers that are multiplied at once. ``times``: how often all filters are read, once
    for each block. ``peak``: of the instruction that multiplies.

    >>> roof = Roof(arithmetic=0.93, loads=0.5, passages=())
    >>> verdict("multiply", 1.0, Demand(products=16, steps=1.0), roof, 16)
    'arithmetic binds, 93% of the FMA peak'
    """
    if not roof.seconds:
        return "nothing that takes time is counted"
    reached = f"{roof.seconds / seconds:.0%}"
    if roof.binds == "arithmetic":
        rate = peak if name == "multiply" else "the rate of vector instructions"
        text = f"arithmetic binds, {reached} of {rate}"
    elif roof.binds == "loads":
        each = demand.loads / demand.steps
        text = f"loads bind, {each:.2f} for each multiply-add: {reached} of their rate"
    else:
        text = f"traffic binds, {reached} of its speed: {_moved(_slowest(roof), times)}"
    if roof.seconds < _EXPLAINED * seconds:
        text += "; neither explains the time"
    if demand.products < _FILLED * demand.steps * lanes:
        text += f"; {1 - demand.products / (demand.steps * lanes):.0%} of the lanes are idle"
    return text


def _slowest(roof: Roof) -> Passage:
    return max(roof.passages, key=lambda passage: passage.seconds)


def _moved(passage: Passage, times: int) -> str:
    """Say what is moved how often, as in "U is read 4 times from L3"."""
    verb, way = ("written", "to") if passage.writes else ("read", "from")
    name, again, _ = passage.what.partition(" again")
    often = ""
    if again:
        often = " again"
    elif name == "U":  # all else is moved block by block
        often = " once" if times == 1 else f" {times} times"
    be = "are" if name == "columns" else "is"
    return f"{name} {be} {verb}{often} {way} {passage.level}"


def summarize(rows: Sequence[dict]) -> dict:
    """Return the figures over all layers: means, and where the time is lost.

    "lost" is the share of all layers' time that each stage is slower than its limits; "other", for
    which there is no limit, is lost altogether.
    """
    timed = [row for row in rows if "seconds" in row]
    whole = sum(row["seconds"] for row in timed)
    lost = dict.fromkeys(STAGES, 0.0)
    spent = dict.fromkeys(STAGES, 0.0)
    for row in timed:
        for stage in row["stages"]:
            # A stage may beat its limits, as those of caches are measured on data of another size.
            lost[stage["name"]] += max(0.0, stage.get("lost_s", stage["seconds"]))
            spent[stage["name"]] += stage["seconds"]
    return {
        "layers": len(rows),
        "failed": [row["name"] for row in rows if "seconds" not in row],
        "seconds": whole,
        "roofline_share": geometric_mean(row["roofline"]["reached"] for row in timed),
        "roofline_mean": (
            sum(row["roofline"]["reached"] for row in timed) / len(timed) if timed else None
        ),
        "spent": {name: seconds / whole for name, seconds in spent.items()} if timed else {},
        "lost": {name: seconds / whole for name, seconds in lost.items()} if timed else {},
        "worst_stage": max(lost, key=lambda name: lost[name]) if timed else None,
    }
