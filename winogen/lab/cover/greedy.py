"""A greedy cover: one kernel after the other, that which avoids most loss for its bytes.

The loss of a problem is the predicted time of the best kernel that was chosen over that of the best
of all. What is maximised is the mean logarithm over all problems, which is submodular: the greedy
choice is near the best one (Nemhauser, Wolsey and Fisher, 1978).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from winogen.kernels.kind import Spec
from winogen.kernels.spec import KernelSpec
from winogen.lab.cover.problems import Instance

# Bytes that a kernel adds to an archive, in the mean: of 8-bit integers or gradients, else. Kernels
# of a target have so much in common that their transforms hardly count.
_PACKED = 8_000, 12_000
WORST = 3.0  # the loss of any problem, where kernels can be had
NOT_AT_ALL = 1e9  # the loss of a problem that no chosen kernel computes
MOST_BLOCKS = 2  # register blocks of a variant on a target, besides those that one layer alone has


@dataclass(frozen=True)
class Step:
    """One kernel more, and what all that were chosen so far cost and lose."""

    group: str
    kernel: Spec
    bytes: int  # of all kernels of the group so far
    mean: float  # loss of its problems, as a factor: the geometric mean
    tenth: float  # what one problem of ten loses at least
    worst: float


def cover(instances: Iterable[Instance], loss: float, most: int = 1000) -> list[Step]:
    """Return what is chosen, group by group, until the mean loss is at most ``1 + loss``.

    No problem may then take more than `WORST` times its best. ``most``: kernels of a group.
    """
    groups: dict[str, list[Instance]] = defaultdict(list)
    for one in instances:
        groups[one.group].append(one)
    return [step for group in groups for step in _cover(group, groups[group], loss, most)]


def packed_bytes(kernel: Spec) -> int:
    """Return about how many bytes a kernel adds to an archive: half as many or twice at most."""
    return _PACKED[isinstance(kernel, KernelSpec)]


def _cover(group: str, instances: list[Instance], loss: float, most: int) -> list[Step]:
    kernels = list(dict.fromkeys(way.kernel for one in instances for way in one.ways))
    index = {kernel: place for place, kernel in enumerate(kernels)}
    sizes = np.array([packed_bytes(kernel) for kernel in kernels], float)
    cost = np.full((len(instances), len(kernels)), np.inf)
    seconds = cost.copy()
    for row, one in enumerate(instances):
        for way in one.ways:
            column = index[way.kernel]
            if way.seconds / way.patience < cost[row, column]:
                cost[row, column] = way.seconds / way.patience
                seconds[row, column] = way.seconds
    rows = np.arange(len(instances))
    ideal = seconds[rows, cost.argmin(axis=1)]
    # What is compared: the logarithm of each cost over the best. Where nothing is chosen yet a
    # problem cannot be computed at all, which is worse than any loss.
    log = np.log(cost / cost.min(axis=1, keepdims=True))
    now, time = np.full(len(instances), 50.0), np.full(len(instances), np.inf)
    open_ = np.ones(len(kernels), bool)
    blocks: dict[str, set[tuple[int, ...]]] = defaultdict(set)
    steps: list[Step] = []
    while open_.any() and len(steps) < most:
        gain = np.where(open_, np.maximum(now[:, None] - log, 0).sum(axis=0) / sizes, 0)
        best = int(gain.argmax())
        if gain[best] <= 0:
            break
        open_[best] = False
        kernel = kernels[best]
        block = _block(kernel)
        if block is not None:
            name, shape = block
            if len(blocks[name] | {shape}) > MOST_BLOCKS:
                continue
            blocks[name].add(shape)
        nearer = log[:, best] < now
        now = np.where(nearer, log[:, best], now)
        time = np.where(nearer, seconds[:, best], time)
        losses = np.clip(time / ideal, 1, NOT_AT_ALL)
        total = int(sizes[best]) + (steps[-1].bytes if steps else 0)
        mean = float(np.exp(np.log(losses).mean()))
        steps.append(
            Step(group, kernel, total, mean, float(np.quantile(losses, 0.9)), float(losses.max()))
        )
        if mean <= 1 + loss and steps[-1].worst <= WORST:
            break
    return steps


def _block(kernel: Spec) -> tuple[str, tuple[int, ...]] | None:
    """The register block of a kernel with filters in the lanes, and whose blocks it counts to."""
    if not isinstance(kernel, KernelSpec) or kernel.entry.in_lanes != "filters":
        return None
    tuning = kernel.tuning
    return kernel.variant, (tuning.rows, tuning.vectors, tuning.chains)
