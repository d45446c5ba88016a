"""Our way through the points of a layer beside Kernel Tuner's, on one table of measured times.

python scripts/kernel_tuner_figures.py --measure TABLE    # all points of a space: some minutes
python scripts/kernel_tuner_figures.py TABLE [--budget 60] [--seeds 10]

The second needs `pip install kernel_tuner`, and no device: Kernel Tuner simulates its searches on
the table, and ours looks its times up there. Both may look at as many points, under the same
constraints, with the same seeds. A figure is the best time found over the best of the table, so 1
is the optimum. Whole spaces of layers have some thousand million points, which Kernel Tuner would
write down before it begins: the table is of a part of one.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from math import inf
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from winogen.conv.problem import Layer
from winogen.opencl.choice import direct_candidate
from winogen.opencl.devices import DeviceInfo, context_of
from winogen.opencl.scheme import PARAMETERS
from winogen.opencl.search import NARROWING, SHARED
from winogen.opencl.space import DirectSpace
from winogen.tasks.traversals import narrowing

PROBLEM = Layer.of((64, 64, 3, 3), "float32", padding=1, layout="NHWC").problem((1, 14, 14, 64))
# What each parameter may be; others as for any layer. 1,412 points are valid.
PART = {
    "tile_height": (3, 9, 16), "tile_width": (4, 16), "extra_height": (0,),
    "extra_width": (0,), "filters": (4, 8, 16), "windows": (1, 2, 7), "vector": (4, 16),
    "chunk": (36, 144), "local_chunks": (1, 4), "local_windows": (1, 2, 7), "pad": (0, 1),
    "crop": (0,), "coalesced": (0, 1), "dot": (0,), "unroll": (0,),
}  # fmt: skip
STRATEGIES = (
    "random_sample", "genetic_algorithm", "greedy_ils", "dual_annealing", "simulated_annealing",
    "diff_evo", "pso", "bayes_opt",
)  # fmt: skip
_REPEATS = 5


def space_on(device: DeviceInfo) -> DirectSpace:
    """Return the part of the layer's points that the table is of."""
    return DirectSpace(PROBLEM, device, **PART)


def measured() -> dict[str, Any]:
    """Measure every point on the first device; return the table, as Kernel Tuner keeps it."""
    from winogen.opencl import wisdom
    from winogen.opencl.measuring import DeviceMeasuring

    context = context_of()
    device = DeviceInfo.of(context.devices[0])
    measuring, rows = DeviceMeasuring(PROBLEM, context), {}
    points = [*space_on(device)]
    for number, point in enumerate(points):
        encoded = wisdom.encoded(direct_candidate(PROBLEM, point, device).measured_as(1.0))
        found = measuring({"candidate": encoded, "repeats": _REPEATS})
        time = 1e3 * found["seconds"] if "seconds" in found else "RuntimeFailedConfig"
        rows[_key(point.as_values())] = {**point.as_values(), "time": time}
        print(f"\r{number + 1} of {len(points)}", end="", flush=True)
    print()
    return {
        "device_name": str(device), "kernel_name": "convolve", "problem_size": 1,
        "tune_params_keys": [*PARAMETERS], "tune_params": {k: [*PART[k]] for k in PARAMETERS},
        "objective": "time", "cache": rows,
    }  # fmt: skip


def ours(table: dict[str, float], space: DirectSpace, budget: int, seed: int) -> float:
    """Return the best time of our way through the points, which looks at ``budget`` of them."""
    way, best, left = narrowing(space.first, *NARROWING, SHARED, seed=seed), inf, budget
    batch = next(way)
    while True:
        costs = [table[_key(path)] for path in batch.paths[:left]]
        best, left = min([best, *costs]), left - len(costs)
        if not left:
            return best
        try:
            batch = way.send(costs)
        except StopIteration:
            return best


def _key(values: Mapping[str, int]) -> str:
    """What Kernel Tuner calls a point."""
    return ",".join(str(values[name]) for name in PARAMETERS)


def theirs(file: Path, document: dict[str, Any], strategy: str, budget: int, seed: int) -> float:
    """Return the best time that a strategy of Kernel Tuner finds, by simulation."""
    import random

    import kernel_tuner  # type: ignore[import-not-found]
    import numpy as np

    random.seed(seed)
    np.random.seed(seed)
    rows = document["cache"]

    def valid(point: dict[str, int]) -> bool:
        return _key(point) in rows

    with TemporaryDirectory() as folder:
        copy = Path(folder) / "cache.json"  # it may write to the file
        copy.write_text(file.read_text("utf-8"), "utf-8")
        results, _ = kernel_tuner.tune_kernel(
            document["kernel_name"], "", 1, [], document["tune_params"], lang="OpenCL",
            restrictions=valid,
            strategy=strategy, strategy_options={"max_fevals": budget}, simulation_mode=True,
            cache=str(copy), quiet=True, verbose=False,
        )  # fmt: skip
    return min((one["time"] for one in results if isinstance(one["time"], float)), default=inf)


def figures(file: Path, budget: int, seeds: int) -> Iterator[tuple[str, list[float]]]:
    """Yield, for us and each strategy, the best times over the table's best, a number a seed."""
    document = json.loads(file.read_text("utf-8"))
    times = {
        key: row["time"] if isinstance(row["time"], float) else inf
        for key, row in document["cache"].items()
    }
    best = min(times.values())
    space = space_on(DeviceInfo())
    yield "winogen", [ours(times, space, budget, seed) / best for seed in range(seeds)]
    for strategy in STRATEGIES:
        found = [theirs(file, document, strategy, budget, seed) for seed in range(seeds)]
        yield strategy, [one / best for one in found]


def main() -> None:
    """Measure the table, or print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("table", type=Path)
    parser.add_argument("--measure", action="store_true", help="make the table on the first device")
    parser.add_argument("--budget", type=int, default=60, help="points that a search looks at")
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args()
    if options.measure:
        options.table.write_text(json.dumps(measured()) + "\n", "utf-8")
        return
    count = len(json.loads(options.table.read_text("utf-8"))["cache"])
    print(
        f"{options.budget} of {count} points; the best found over the best, {options.seeds} seeds"
    )
    print(f"{'':<22}{'median':>8}{'least':>8}{'most':>8}")
    for name, found in figures(options.table, options.budget, options.seeds):
        print(f"{name:<22}{median(found):>8.3f}{min(found):>8.3f}{max(found):>8.3f}", flush=True)


if __name__ == "__main__":
    main()
