"""Kernel calls cut into blocks: all ways to cut are evaluated together, and the fastest is taken.

Blocks are even rectangles of tiles, or of output pixels. Several threads may share the work in two
ways: each computes whole blocks, or all share the channels and filters of every block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from winogen.conv.choice import Choice, Cut, Rectangle, axes, calls, rectangles
from winogen.conv.problem import Problem, plane_of
from winogen.kernels import Stack, Work, assign, blocks, named
from winogen.kernels.spec import KernelSpec
from winogen.kernels.work import Deep
from winogen.kernels.work import Spread as Apart
from winogen.records import Machine, Precision, Strides, Target

if TYPE_CHECKING:
    from winogen.conv.stock import Stock

# The most workspace of one thread, without a `workspace_limit`.
WORKSPACE = 4 << 20
# Tiles (or pixels) of a block, at most: the sizes that the cost model chooses from.
BLOCK_SIZES = np.array([4, 9, 14, 16, 28, 42, 56, 84, 112, 224])
PLANES = np.array([1, 2, 3, 4, 6, 8, 16])  # of outputs, that share a block of volumes
PIXEL_BLOCK_SIZES = np.array([*BLOCK_SIZES, 448, 1792])
_WHOLE_ROW = 3840  # pixels, of a block of many rows that lies as wide as a large picture


@dataclass(frozen=True)
class MeasuredChoice:
    """What was measured of a choice, in turns with the one that the planner had predicted."""

    seconds: float  # of a call
    planner_seconds: float
    threads: int
    date: str  # as 2026-11-22

    @property
    def gain(self) -> float:
        """How many times as fast as the planner's choice."""
        return self.planner_seconds / self.seconds


@dataclass(frozen=True)
class Missed:
    """What a compiler would allow: another way, with its predicted time."""

    seconds: float
    algorithm: str
    tile: tuple[int, ...] | None
    gain: float  # how many times as fast as what runs instead
    kernels: tuple[str, ...]  # that are not at hand, by name
    reason: str  # why these are not compiled now; "": in the background they are

    @classmethod
    def told(cls, problem: Problem, ways: Sequence[Any], found: list[Any], stock: Stock) -> list:
        """Return what was ``found`` in a stock, telling what else would be first of ``ways``."""
        if not ways or found[0] is ways[0] or not ways[0].seconds:
            return found
        best, taken = ways[0], found[0]
        gain, kernels = taken.seconds / best.seconds, stock.lacking(best.specs(problem))
        choice = best.choice
        missed = cls(best.seconds, choice.algorithm, choice.tile, gain, kernels, stock.reason)
        return [replace(taken, missed=missed), *found[1:]]


@dataclass(frozen=True)
class Candidate:
    """A choice with its predicted time and workspace, and how each of its kernel calls is cut."""

    choice: Choice
    seconds: float  # predicted, of a call on all its threads
    workspace_bytes: int
    cut: tuple[tuple[Work, int, int], ...]  # many works, and which of them: (row, column)
    measured: MeasuredChoice | None = None  # where it is known from a measurement
    missed: Missed | None = None  # what would be faster and is not at hand

    @property
    def target(self) -> Target | None:
        """Whose code it runs; None where nothing is to be computed."""
        return self.cut[0][0].target if self.cut else None

    def specs(self, problem: Problem) -> list[KernelSpec]:
        """Return the kernels of its calls."""
        return list(map(KernelSpec.of, self.works(problem)))

    def works(self, problem: Problem) -> list[Work]:
        """Return its kernel calls, ready to run."""
        works = []
        for (_, way), (many, row, column) in zip(calls(problem, self.choice), self.cut):
            transforms = axes(problem.layer, way)
            works.append(_pick(many, row, column, transforms))
        return works


def work_of(
    problem: Problem,
    choice: Choice,
    target: Target,
    part: Rectangle | None = None,
    transforms: tuple[Any, Any] | None = None,
) -> Work:
    """Return the kernel call that computes ``part``, not cut yet; by default the first part."""
    layer = problem.layer
    part = part or rectangles(problem, choice)[0]
    size, output_size = problem.sizes(part.in_row)
    layout = "NCHW" if layer.planar else "NHWC"  # of planes, as kernels see them

    deep, inputs, outputs = None, 1, 1
    if layer.rank == 3 and not part.in_row:
        axis, (inputs, *_), (outputs, *_) = layer.axes[0], problem.size, problem.output_size
        steps = axis.kernel, problem.stride[0], axis.dilation, axis.before
        deep = Deep(inputs, outputs, *steps)

    spread, placed = problem.spread, None
    if spread is not None:
        placed = Apart(plane_of(spread.step), spread.filters, spread.lanes, spread.crop,
                       plane_of(spread.whole))  # fmt: skip

    def strides(channels: int, size: tuple[int, int], planes: int) -> Strides:
        return Strides.of(layout, channels, *size, planes)

    def of_outputs(channels: int) -> Strides:
        if spread is None:
            return strides(channels, output_size, outputs)
        whole = strides(channels, plane_of(spread.whole), prod(spread.whole[:-2]))
        deep, high, wide = (1, 1, *spread.step)[-3:]
        return replace(
            whole,
            row=whole.row * high,
            pixel=whole.pixel * wide,
            plane=whole.plane * deep,
            planes=outputs,
        )

    return Work(
        algorithm=choice.algorithm,
        layout=layout,
        precision=choice.precision or Precision.of(layer.dtype),
        target=target,
        batch=problem.batch * outputs,
        groups=layer.groups,
        channels=layer.channels // layer.groups,
        filters=layer.filters // layer.groups,
        size=size,
        output_size=output_size,
        part=part.bounds,
        kernel=plane_of(layer.kernel),
        stride=plane_of(problem.stride),
        dilation=plane_of(layer.dilation),
        padding=(layer.plane[0].before, layer.plane[1].before),
        padding_mode=layer.padding_mode,
        input=strides(problem.seams.input, size, inputs),
        output=of_outputs(problem.seams.output),
        add=of_outputs(problem.seams.add),
        add_after=of_outputs(problem.seams.add_after),
        transforms=transforms or (None, None),
        epilogue=problem.epilogue,
        border=choice.border if choice.tile else "unswitch",
        threads=choice.threads,
        sizes=choice.sizes,
        parameters=choice.parameters,
        variant=choice.variant,
        deep=deep,
        spread=placed,
    )


def evaluate(
    problem: Problem, choices: Sequence[Choice], target: Target, machine: Machine, limit: int | None
) -> list[Candidate]:
    """Return every choice with its fastest cut; choices of one algorithm are evaluated at once."""
    seconds, workspace = np.zeros(len(choices)), np.zeros(len(choices), np.int64)
    cut: list[list[tuple[Work, int, int]]] = [[] for _ in choices]
    alike: dict[tuple, list[tuple[int, Choice]]] = {}  # what differs in tiles only
    for index, choice in enumerate(choices):
        for place, (part, way) in enumerate(calls(problem, choice)):
            kind = (
                *(way.algorithm, way.variant, way.border, way.precision),
                *(way.sizes, way.cut, way.parameters),
            )
            alike.setdefault((place, part, kind), []).append((index, way))
    for (_, part, _), members in sorted(alike.items(), key=lambda item: item[0][0]):
        indices = [index for index, _ in members]
        ways = [way for _, way in members]
        work, size, cycles = cuts(problem, ways, part, target, machine, limit)
        best = cycles.argmin(axis=1)
        seconds[indices] += cycles.min(axis=1) / (machine.clock_ghz * 1e9)
        needed = np.take_along_axis(size, best[:, None], axis=1)[:, 0]
        workspace[indices] = np.maximum(workspace[indices], needed)
        for row, (index, column) in enumerate(zip(indices, best.tolist())):
            cut[index].append((work, row, column))
    return [
        Candidate(choice, float(time), int(size), tuple(pieces))
        for choice, time, size, pieces in zip(choices, seconds, workspace, cut)
    ]


def cuts(
    problem: Problem,
    ways: Sequence[Choice],
    part: Rectangle,
    target: Target,
    machine: Machine,
    limit: int | None,
) -> tuple[Work, np.ndarray, np.ndarray]:
    """Return all ways to cut ``part`` into blocks, for choices that differ in their tiles only.

    The kernel calls come with their workspaces and predicted cycles, as arrays (choices, cuts). A
    cut whose workspace exceeds the limit has infinitely many cycles. A cut that the choices name is
    the only one.
    """
    layer, (choice, *_) = problem.layer, ways
    height, width = zip(*(axes(layer, way) for way in ways))
    stacks = Stack.of(height), Stack.of(width)
    work = assign(work_of(problem, choice, target, part, stacks))
    variant = named(work.variant)
    rows, cols = (
        np.maximum(1, blocks(size, stack.m if stack else 1))
        for size, stack in zip(work.out, stacks)
    )
    together = work.deep.outputs if work.deep else problem.batch  # images that may share a block
    spans = variant.spans_images and together > 1
    if choice.cut:
        cut = replace(choice.cut, images=min(choice.cut.images, together if spans else 1))
        work = replace(work, **_named(cut, rows, cols, choice.threads, work.deep is not None))
    else:
        sizes = BLOCK_SIZES if choice.tile else PIXEL_BLOCK_SIZES
        if variant.rows_at_once > 1:
            sizes = np.append(sizes, _WHOLE_ROW)
        high, wide = _shapes(rows, cols, sizes, variant.rows_at_once)
        images = np.ones_like(high)
        if spans and work.deep:
            counts = PLANES[together >= PLANES]
            images = np.repeat(blocks(together, blocks(together, counts)), high.shape[1])[None]
            high, wide = np.tile(high, len(counts)), np.tile(wide, len(counts))
        elif spans:
            shared = _images(rows, cols, high, wide, sizes, problem.batch)
            images = np.concatenate([images, shared], axis=1)
            high, wide = np.tile(high, 2), np.tile(wide, 2)
        ways_to_share = (0, 1) if choice.threads > 1 else (0,)
        count = len(ways_to_share)
        work = replace(
            work,
            block=(np.tile(high, count), np.tile(wide, count)),
            images=np.tile(images, count),
            split=np.repeat(ways_to_share, high.shape[1])[None],
        )
    cycles = variant.cycles(work, machine).total
    shape = np.broadcast_shapes(np.shape(cycles), work.block[0].shape, (len(ways), 1))
    size = np.broadcast_to(variant.workspace_bytes(work), shape)
    if limit is None:
        limit = WORKSPACE * choice.threads
    allowed = np.maximum(limit, size.min(axis=1, keepdims=True))
    return work, size, np.where(size <= allowed, np.broadcast_to(cycles, shape), np.inf)


def _pick(many: Work, row: int, column: int, transforms: tuple[Any, Any]) -> Work:
    """One of many works."""

    def one(sizes: Any) -> int:
        array = np.atleast_2d(sizes)
        return int(array[min(row, array.shape[0] - 1), min(column, array.shape[1] - 1)])

    high, wide = many.block
    return replace(
        many,
        transforms=transforms,
        block=(one(high), one(wide)),
        split=one(many.split),
        images=one(many.images),
    )


def _named(cut: Cut, rows: Any, cols: Any, threads: int, deep: bool) -> dict[str, Any]:
    """The one way to cut that is asked for, as far as the map and the threads allow it."""
    high, wide = (
        np.atleast_2d(np.minimum(size, most)) for size, most in zip(cut.block, (rows, cols))
    )
    whole = (high == rows) & (wide == cols) | deep
    return {
        "block": (high, wide),
        "images": np.where(whole, cut.images, 1),
        "split": np.full_like(high, cut.split and threads > 1),
    }


def _shapes(rows: Any, cols: Any, sizes: np.ndarray, least: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of even blocks of about ``sizes``; whole rows of tiles where those fit.

    Blocks have at least ``least`` rows, or all that there are.
    """
    wide = blocks(cols, blocks(cols, np.minimum(cols, sizes)))
    high = np.clip(sizes // wide, np.minimum(least, rows), rows)
    return np.atleast_2d(blocks(rows, blocks(rows, high))), np.atleast_2d(wide)


def _images(
    rows: Any, cols: Any, high: np.ndarray, wide: np.ndarray, sizes: np.ndarray, batch: int
) -> np.ndarray:
    """How many images share a block: several where one has few tiles, to read filters less."""
    whole = (high == rows) & (wide == cols)
    most = np.where(whole, np.clip(sizes // (high * wide), 1, batch), 1)
    return blocks(batch, blocks(batch, most))
