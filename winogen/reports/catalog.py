"""What the report says of the catalog: errors of single tiles, by the protocol of the literature.

`measure_catalog` returns plain data for JSON; nothing here draws or writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from winogen.codegen.transform import Transform
    from winogen.numerics.protocol import Measurement

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from winogen.errors import InvalidValue
from winogen.reports.published import DIRECT, PUBLISHED, Published
from winogen.tasks.pareto import front

CHANNELS = (1, 4, 16, 64, 256)
PUBLISHED_BY = "Barabasz, Anderson, Soodhalter, Gregg, TOMS 46 (2020), arXiv 1803.10986"
_TAPS = 3  # of all that is published
_DIRECT_TRIALS = 20  # times as many as for a tile, which has more outputs and costs more
USUAL_POINTS = 10  # larger tiles are out of use, and their programs take long to find
_PRODUCTS = 1 << 14  # channels x trials of one measurement in the channel series
_FEWEST_TRIALS = 128
_HISTOGRAM_CHANNELS = 64
_BINS_PER_DECADE = 6

Step = Callable[[str], None]  # told what has been done


@dataclass(frozen=True)
class Effort:
    """How much is measured."""

    trials: int = 5000
    seed: int = 0
    channels: Sequence[int] = CHANNELS

    def __post_init__(self) -> None:
        for name in ("trials", "seed"):
            value, least = getattr(self, name), 1 if name == "trials" else 0
            if not isinstance(value, int) or value < least:
                raise InvalidValue(f"{name}: got {value!r}; allowed: an integer >= {least}")


def chosen(names: Iterable[str] | None = None) -> list[Transform]:
    """Return the transforms of the catalog that have something to transform, by r, n and name.

    Raises InvalidValue for a name that is not in the catalog.
    """
    from winogen.codegen import shipped, transforms

    known = shipped.catalog()
    for name in names or ():
        if name not in known:
            raise InvalidValue(f"names: got {name!r}; allowed: {', '.join(known)}")
    wanted = [name for name in known if names is None or name in names]
    loaded = [transforms.load(known[name]["m"], known[name]["r"], name=name) for name in wanted]
    return sorted((t for t in loaded if t.n > 1), key=lambda t: (t.r, t.n, t.name))


def steps(transforms: Sequence[Transform], effort: Effort) -> int:
    """Return how often `measure_catalog` reports."""
    return len(transforms) + 2 + len(PUBLISHED) + len(_series(transforms))


def measure_catalog(transforms: Sequence[Transform], effort: Effort, step: Step) -> dict:
    """Return the parts "direct", "entries", "published", "channels" and "histogram" of a report."""
    from winogen.numerics import Direct, measure

    def literature(algorithm: Any, **options: Any) -> Measurement:
        return measure(algorithm, **{"trials": effort.trials, "seed": effort.seed, **options})

    direct = {}
    for dims, error in DIRECT.items():
        found = literature(Direct(1, _TAPS), dims=dims, trials=_DIRECT_TRIALS * effort.trials)
        direct[f"{dims}d"] = {**errors(found), "published": error}
    step("direct convolution")
    entries = []
    for transform in transforms:
        entries.append(_entry(transform, literature))
        step(transform.name)
    _mark_fronts(entries)
    theirs = []
    for known in PUBLISHED.values():
        theirs.append(_published(known, literature))
        step(f"published F({known.m},{_TAPS})")
    series, histogram = _channels(transforms, effort, step)
    return {
        "direct": direct,
        "entries": entries,
        "published": {"source": PUBLISHED_BY, "sets": theirs},
        "channels": series,
        "histogram": histogram,
    }


def errors(found: Measurement) -> dict:
    """The figures of a measurement that the report keeps."""
    return {
        "mean": short(found.mean),
        "half_width": short(found.half_width),
        "maximum": short(found.maximum),
        "relative_l2": short(found.relative_l2),
        "ulp_median": short(found.ulp_median),
    }


def short(number: float) -> float:
    """The number in six digits: more is noise, and makes files of equal runs hard to read."""
    return float(f"{number:.6g}") if math.isfinite(number) else 0.0


def run_time_instructions(transform: Transform) -> int:
    """Instructions of the 1D transforms that run per call: input and output; filters are packed."""
    return transform.instructions[0] + transform.instructions[2]


def _entry(transform: Transform, literature: Callable[..., Measurement]) -> dict:
    from winogen.numerics import estimate

    found = literature(transform)
    # Published are algorithms with as few multiplications as possible.
    comparable = transform.r == _TAPS and transform.products == transform.n
    known = PUBLISHED[transform.m].error if comparable and transform.m in PUBLISHED else None
    return {
        "name": transform.name,
        "m": transform.m,
        "r": transform.r,
        "n": transform.n,
        "products": transform.products,
        "points": list(transform.points),
        "moduli": list(transform.moduli),
        "source": transform.source,
        "instructions": dict(zip(("input", "filter", "output"), transform.instructions)),
        "run_time_instructions": run_time_instructions(transform),
        # Of the 2D algorithm, which nests the 1D one.
        "multiplications_per_output": short((transform.products / transform.m) ** 2),
        "huffman": errors(found),
        "naive": errors(literature(transform, order="naive")),
        "mixed": errors(literature(transform, transforms="float64")),
        "estimate": short(estimate(transform).mean),
        "published": known,
        "ratio_to_published": None if known is None else short(found.mean / known),
    }


def _mark_fronts(entries: list[dict]) -> None:
    """Instructions compare where the multiplications are as many; those, within the same taps."""
    for front_name, cost, alike in (
        ("instructions", "run_time_instructions", ("m", "r", "products")),
        ("multiplications", "multiplications_per_output", ("r",)),
    ):
        groups: dict[tuple, list[dict]] = {}
        for entry in entries:
            groups.setdefault(tuple(entry[key] for key in alike), []).append(entry)
        for rows in groups.values():
            best = front(
                [(row[cost], row["huffman"]["mean"]) for row in rows],
                [row["huffman"]["half_width"] for row in rows],
            )
            for row, optimal in zip(rows, best):
                row.setdefault("pareto", {})[front_name] = optimal


def _published(known: Published, literature: Callable[..., Measurement]) -> dict:
    from winogen.algebra import cook_toom

    found = literature(cook_toom(known.m, _TAPS, known.points))
    return {
        "m": known.m,
        "r": _TAPS,
        "n": known.m + _TAPS - 1,
        "points": known.points.split(", "),
        "error": known.error,
        "measured": errors(found),
        "ratio": short(found.mean / known.error),
    }


# ---- many channels -------------------------------------------------------------------------------


def _series(transforms: Sequence[Transform]) -> list[Transform]:
    """What is followed over the channels: default points, and moduli, for the commonest taps."""
    counts = [t.r for t in transforms]
    taps = 3 if 3 in counts or not counts else max(set(counts), key=counts.count)
    return [
        t
        for t in transforms
        if t.r == taps and t.n <= USUAL_POINTS and (t.name == f"f{t.m}_{t.r}" or t.moduli)
    ]


def _channels(transforms: Sequence[Transform], effort: Effort, step: Step) -> tuple[dict, dict]:
    """Errors over the number of channels, and their distribution at one number."""
    from winogen.kernels import summation
    from winogen.numerics import PRACTICAL, Direct, measure
    from winogen.toolchain import host_target

    followed = _series(transforms)
    taps = followed[0].r if followed else 3
    protocol = {**PRACTICAL, "seed": effort.seed}
    nearest = min(effort.channels, key=lambda count: abs(count - _HISTOGRAM_CHANNELS))
    rows, spread = [], []
    compared: tuple[Direct | Transform, ...] = Direct(2, taps), *followed
    for algorithm in compared:
        is_direct = isinstance(algorithm, Direct)
        kernel = "direct" if is_direct else "mcmr"
        name = "direct" if isinstance(algorithm, Direct) else algorithm.name
        found = {}
        for channels in effort.channels:
            trials = min(effort.trials, max(_FEWEST_TRIALS, _PRODUCTS // channels))
            options = {**protocol, "channels": channels, "trials": trials}
            options |= summation(kernel, host_target(), channels)
            if is_direct:
                options["order"] = "naive"
            found[channels] = measure(algorithm, **options)
        rows.append({"name": name, "relative_l2": [short(f.relative_l2) for f in found.values()]})
        if is_direct or algorithm.m % 2 == 0:  # more curves would hide each other
            errors_there, relative = found[nearest].errors, found[nearest].relative_l2
            rms_output = np.linalg.norm(errors_there) / relative / math.sqrt(errors_there.size)
            spread.append((name, np.abs(errors_there).ravel() / rms_output))
        step(f"{name} over channels")
    histogram = shares(spread, f"{nearest} channels, {protocol['distribution']}")
    return {"taps": taps, "channels": list(effort.channels), "series": rows}, histogram


def shares(sizes: list[tuple[str, np.ndarray]], title: str) -> dict:
    """Return the share of errors per logarithmic bin; ``sizes``: (name, |error| / rms output)."""
    present = [values[values > 0] for _, values in sizes]
    lowest = min((v.min() for v in present if v.size), default=1e-9)
    highest = max((v.max() for v in present if v.size), default=1e-6)
    # The smallest errors are few and far down; they would take half of the picture.
    lowest = max(lowest, highest * 1e-5)
    first = math.floor(math.log10(lowest) * _BINS_PER_DECADE)
    last = max(first + 1, math.ceil(math.log10(highest) * _BINS_PER_DECADE))
    edges = [short(10 ** (k / _BINS_PER_DECADE)) for k in range(first, last + 1)]
    edges[-1] = max(edges[-1], highest)
    rows = []
    for name, values in sizes:
        counts, _ = np.histogram(values, edges)
        rows.append(
            {
                "name": name,
                "shares": [short(count / values.size) for count in counts],
                "below": short(float((values < edges[0]).mean())),  # zeros among them
            }
        )
    return {"title": title, "edges": edges, "series": rows}
