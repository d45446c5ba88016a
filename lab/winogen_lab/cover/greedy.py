"""A greedy cover: one kernel after the other, that which avoids most loss for its bytes.

The loss of a problem is the predicted time of the best kernel that was chosen over that of the best
of all. What is maximised is the mean logarithm over all problems, which is submodular: the greedy
choice is near the best one (Nemhauser, Wolsey and Fisher, 1978).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np

from winogen.kernels.kind import Spec
from winogen.kernels.spec import KernelSpec
from winogen_lab.cover.problems import Instance, Way

# Bytes that a kernel adds to an archive, in the mean: of 8-bit integers or gradients, else. Kernels
# of a target have so much in common that their transforms hardly count.
_PACKED = 11_000, 17_000
WORST = 4.0  # the loss of any problem, where kernels can be had
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
    columns = _columns(instances)
    ideal = np.full(len(instances), np.inf)  # the least cost of each problem
    for column in columns.values():
        ideal[column.rows] = np.minimum(ideal[column.rows], column.costs)
    # What is compared: the logarithm of each cost over the best. Where nothing is chosen yet a
    # problem cannot be computed at all, which is worse than any loss.
    logs = {kernel: np.log(one.costs / ideal[one.rows]) for kernel, one in columns.items()}
    best = np.full(len(instances), np.inf)  # seconds of the way of least cost
    for kernel, one in columns.items():
        fastest = one.rows[logs[kernel] == 0]
        best[fastest] = np.minimum(best[fastest], one.seconds[logs[kernel] == 0])
    now, time = np.full(len(instances), 50.0), np.full(len(instances), np.inf)
    sizes = {kernel: packed_bytes(kernel) for kernel in columns}

    def gain(kernel: Spec) -> float:
        saved = np.maximum(now[columns[kernel].rows] - logs[kernel], 0).sum()
        return float(saved / sizes[kernel])

    # No gain ever grows, so that what was best before is looked at again, and hardly anything else.
    waiting = [(-gain(kernel), place, kernel) for place, kernel in enumerate(columns)]
    heapify(waiting)
    blocks: dict[str, set[tuple[int, ...]]] = defaultdict(set)
    steps: list[Step] = []
    while waiting and len(steps) < most:
        _, place, kernel = heappop(waiting)
        saved = gain(kernel)
        if waiting and (-saved, place) > waiting[0][:2]:
            heappush(waiting, (-saved, place, kernel))
            continue
        if saved <= 0:
            break
        block = _block(kernel)
        if block is not None:
            name, shape = block
            if len(blocks[name] | {shape}) > MOST_BLOCKS:
                continue
            blocks[name].add(shape)
        nearer = logs[kernel] < now[columns[kernel].rows]
        rows = columns[kernel].rows[nearer]
        now[rows], time[rows] = logs[kernel][nearer], columns[kernel].seconds[nearer]
        losses = np.clip(time / best, 1, NOT_AT_ALL)
        total = sizes[kernel] + (steps[-1].bytes if steps else 0)
        mean = float(np.exp(np.log(losses).mean()))
        steps.append(
            Step(group, kernel, total, mean, float(np.quantile(losses, 0.9)), float(losses.max()))
        )
        if mean <= 1 + loss and steps[-1].worst <= WORST:
            break
    return steps


class _Column(NamedTuple):
    """The problems that a kernel computes, by their places, and what each costs."""

    rows: np.ndarray
    costs: np.ndarray  # of the way that it is
    seconds: np.ndarray


def _columns(instances: Iterable[Instance]) -> dict[Spec, _Column]:
    ways: dict[Spec, dict[int, Way]] = {}
    known: dict[int, dict[int, Way]] = {}  # by the identity of a kernel, as hashes take long
    for row, one in enumerate(instances):
        for way in one.ways:
            column = known.get(id(way.kernel))
            if column is None:
                column = known[id(way.kernel)] = ways.setdefault(way.kernel, {})
            if row not in column or way.cost < column[row].cost:
                column[row] = way
    return {
        kernel: _Column(
            np.array([*column]),
            np.array([way.cost for way in column.values()]),
            np.array([way.seconds for way in column.values()]),
        )
        for kernel, column in ways.items()
    }


def _block(kernel: Spec) -> tuple[str, tuple[int, ...]] | None:
    """The register block of a kernel with filters in the lanes, and whose blocks it counts to."""
    if not isinstance(kernel, KernelSpec) or kernel.entry.in_lanes != "filters":
        return None
    tuning = kernel.tuning
    return kernel.variant, (tuning.rows, tuning.vectors, tuning.chains)
