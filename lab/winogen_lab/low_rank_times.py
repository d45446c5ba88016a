"""Layers of low rank beside the layer as it was, measured in turns: direct, exact, two stages.

Everybody has filters of float32 and one thread. So has what pruning leaves of the layer at as many
products: a layer of fewer filters. Beside each ratio of times stands the one that the
machine promises: products over the measured peak of multiply-adds, or packed filters over the
measured bandwidth of the cache that holds them, whichever takes longer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import numpy as np

from winogen.conv import Conv2d, Plan, memory
from winogen.errors import InvalidValue
from winogen.lowrank import LowRank
from winogen.tasks.turns import clock_of, in_turns
from winogen.toolchain.limits import Limits, fma_peak, measure_limits
from winogen.tuning.layers import BenchLayer
from winogen.typing import Algorithm
from winogen_lab.low_rank_rivals import largest

# The layer by loops and by what is fastest for it; both stages by loops, tiled along their axis,
# and by what is fastest for each; the filters that pruning leaves, by what is fastest for them.
WAYS = ("direct", "exact", "ADaPT", "FALCON", "chosen", "pruned")
_ALGORITHMS: dict[str, Algorithm] = {"ADaPT": "direct", "FALCON": "winograd1d", "chosen": "auto"}
_SECONDS, _ROUNDS = 1.5, (5, 200)  # of a layer at one factor
_PEAK_SAMPLE = 0.02


@dataclass(frozen=True)
class Row:
    """A layer at one rank. Ratios are of the time of "exact" over that of "chosen"."""

    layer: str
    factor: float  # fewer products of direct convolution, as asked for
    rank: int
    residual: float  # of the filters, relative to their norm
    error: float  # of outputs of normal inputs, relative to their norm
    exact: str  # how the layer as it was is computed
    seconds: dict[str, float]  # by `WAYS`; medians of rounds
    products: dict[str, int]  # of the element-wise stages, by `WAYS`
    weights: dict[str, int]  # of the layer, both stages, and what pruning leaves
    pruned_error: float  # of outputs of normal inputs, those of filters left out being zero
    promised: float  # the ratio

    @property
    def ratio(self) -> float:
        """How many times faster both stages are than the layer as it was."""
        return self.seconds["exact"] / self.seconds["chosen"]

    def to_dict(self) -> dict[str, Any]:
        """Return its JSON form."""
        return {**asdict(self), "ratio": self.ratio}


def compare(
    layers: Sequence[BenchLayer],
    factors: Sequence[float],
    step: Callable[[int, int, str], None] | None = None,
    limits: Limits | None = None,
) -> list[Row]:
    """Return a row for each layer and factor; ``limits`` are measured unless given.

    Raises InvalidValue for layers without two axes of taps.
    """
    for layer in layers:
        if layer.transposed or layer.rank != 2 or min(layer.weight[2:]) == 1:
            raise InvalidValue(
                f"layers: got {layer.name}; allowed: layers of two axes, several taps along each"
            )
    limits = limits or measure_limits(1)
    rows: list[Row] = []
    for layer in layers:
        for factor in factors:
            if step:
                step(len(rows), len(layers) * len(factors), f"{layer.name} {factor:g}x")
            rows.append(_row(layer, factor, limits))
    return rows


def _row(layer: BenchLayer, factor: float, limits: Limits) -> Row:
    x, weight = layer.data()
    options = {**layer.options, "threads": 1}
    low = {
        name: LowRank.from_conv(weight, compression=factor, algorithm=algorithm, **options)
        for name, algorithm in _ALGORITHMS.items()
    }
    kept = largest_filters(weight, layer.groups, low["chosen"].compression)
    calls: dict[str, Any] = {
        "direct": Conv2d(weight, algorithm="direct", **options),
        "exact": Conv2d(weight, **options),
        **low,
        "pruned": Conv2d(weight[kept], **options),
    }
    plans: dict[str, tuple[Plan, ...]] = {}
    for name, call in calls.items():
        plan = call.plan(x.shape)
        plans[name] = (plan,) if isinstance(plan, Plan) else plan.stages
    y = {name: call(x) for name, call in calls.items()}
    outs = {name: memory.empty(one.shape, one.dtype, "output") for name, one in y.items()}
    peaks = [fma_peak(seconds=_PEAK_SAMPLE)]
    runs = [lambda name=name, call=call: call(x, outs[name]) for name, call in calls.items()]
    taken = in_turns(runs, clock_of(1), _ROUNDS, _SECONDS)
    peaks.append(fma_peak(seconds=_PEAK_SAMPLE))
    peak = sum(peaks) / 2
    (exact,) = plans["exact"]
    before, after = (_least(plans[name], peak, limits) for name in ("exact", "chosen"))
    tile = "" if exact.tile is None else f" {'x'.join(map(str, exact.tile))}"
    pruned = np.zeros_like(y["exact"])
    pruned[:, kept] = y["pruned"]
    errors = [np.linalg.norm(one - y["exact"]) / np.linalg.norm(y["exact"])
              for one in (y["chosen"], pruned)]  # fmt: skip
    return Row(
        layer.name,
        factor,
        low["chosen"].rank,
        low["chosen"].residual,
        float(errors[0]),
        f"{exact.algorithm}{tile}",
        {name: median(times) for name, times in zip(calls, taken)},
        {name: sum(plan.multiplications for plan in plans[name]) for name in calls},
        {
            "exact": weight.size,
            "chosen": low["chosen"].parameters,
            "pruned": weight[kept].size,
        },
        float(errors[1]),
        before / after,
    )


def largest_filters(weight: np.ndarray, groups: int, compression: float) -> np.ndarray:
    """Return the filters that pruning keeps so that products are so many times fewer, at least.

    Those with the largest sums of magnitudes, as many in each group, and one at least.
    """
    sizes = np.abs(weight).sum((1, 2, 3)).reshape(groups, -1)
    count = max(1, int(sizes.shape[1] / compression))
    return np.concatenate([
        largest(row, count) + group * len(row) for group, row in enumerate(sizes)
    ])  # fmt: skip


def _least(plans: Sequence[Plan], peak: float, limits: Limits) -> float:
    """Return the seconds of products at the peak, or of reading packed filters, if that is more.

    The filters of all plans lie in the level that holds them together.
    """
    _, rate = limits.reading(sum(plan.packed_weight_bytes for plan in plans))
    return sum(
        max(2 * plan.multiplications / peak, plan.packed_weight_bytes / rate) / 1e9
        for plan in plans
    )


def table(rows: Sequence[Row]) -> str:
    """Return what was measured for people to read."""
    wide = max((len(row.layer) for row in rows), default=5)
    head = "".join(f"{way:>9}" for way in WAYS)
    lines = [
        "ms, medians of turns, one thread, float32 filters; products in millions below",
        "",
        f"{'layer':{wide}}    c  rank {head}   faster  promised  of it  residual  error",
    ]
    for row in rows:
        times = "".join(f"{1e3 * row.seconds[way]:9.3f}" for way in WAYS)
        counts = "".join(f"{1e-6 * row.products[way]:9.0f}" for way in WAYS)
        lines += [
            f"{row.layer:{wide}} {row.factor:4g} {row.rank:5d} {times} {row.ratio:7.2f}x "
            f"{row.promised:8.2f}x {row.ratio / row.promised:6.0%} {row.residual:9.2f} "
            f"{row.error:6.2f}",
            f"{'exact: ' + row.exact:>{wide + 11}} {counts} {row.pruned_error:42.2f}",
        ]
    return "\n".join(
        [
            *lines,
            "",
            "exact: the layer as it was, by the algorithm that is predicted to be fastest",
            "ADaPT: both stages direct; FALCON: both by Winograd; chosen: each as is fastest",
            "pruned: the filters of the largest magnitudes, of as many products, as is fastest",
            "faster: exact's time over that of chosen; promised: by products over the peak, or "
            "packed filters over the bandwidth",
            "residual, error: of normal filters and of outputs of normal inputs, below of those "
            "pruned; trained ones have less",
        ]
    )
