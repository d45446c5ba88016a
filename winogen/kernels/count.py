"""What a kernel does, counted once: its multiply-adds, other instructions, and the bytes it moves.

A variant counts one block, stage by stage: `Variant.count`. The prediction of the planner prices
that count (`Variant.cycles`, with `winogen.records.Costs`), and the roofline adds it up over all
blocks of a call (`Variant.demands`, by `of_call`). Counts leave out what no program needs:
addresses, ends of loops, lines that a cache lost. The numbers are arrays where a work is many cuts
at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from winogen.kernels.work import Pair, Work, blocks

if TYPE_CHECKING:
    from winogen.kernels.quantized import QuantizedWork
    from winogen.kernels.variant import Buffer

# A kernel call of arrays of any type.
AnyWork = TypeVar("AnyWork", bound="Work | QuantizedWork")


@dataclass(frozen=True)
class Move:
    """Numbers read from an array or a buffer, or written to it."""

    # "input", "output", "U", "V", "Y"; "strip", "columns" and others between the steps of a stage.
    # With " again" behind it: not for the first time, so that it is nearer by.
    what: str
    bytes: Any
    size: Any  # of what must stay in a cache to be moved at the speed of that cache
    writes: bool = False
    private: Any = False  # every thread has one of its own


@dataclass(frozen=True)
class Panel:
    """Register blocks of one size: each step meets ``rows`` numbers with ``vectors`` vectors."""

    rows: Any
    vectors: Any  # 0.5: half a vector
    times: Any  # how many there are
    together: int = 1  # steps for which one load brings the numbers of a row

    @property
    def sums(self) -> Any:
        """Vectors of sums of one of them."""
        return self.rows * self.vectors

    @property
    def loads(self) -> Any:
        """Loads of a step of one of them; loads of half a vector count half."""
        return (self.rows / self.together + self.vectors) * np.minimum(self.vectors, 1)


@dataclass(frozen=True)
class PanelProduct:
    """How a micro-kernel computes the sums of a block, panel by panel."""

    panels: tuple[Panel, ...]
    depth: Any = 0  # multiply-adds of vectors that make a sum
    rounds: Any = 1  # how often a sum is loaded, added to and stored
    times: Any = 1  # how often all panels occur
    more: Any = 0  # instructions besides: of each multiply-add
    ends: Any = 0  # ... and of each sum

    @property
    def rows(self) -> Any:
        """Rows of all panels: each of them meets its vectors depth times."""
        return self.times * sum(panel.rows * panel.times for panel in self.panels)

    def demand(self, products: Any, moves: Iterable[Move]) -> Demand:
        """Return what the stage does, with the multiply-adds of numbers that the result needs."""
        sums = self.times * sum(panel.sums * panel.times for panel in self.panels)
        loads = self.times * sum(panel.loads * panel.times for panel in self.panels)
        return Demand(
            products,
            sums * self.depth,
            sums * (self.depth * self.more + self.ends),
            loads * self.depth,
            moves=tuple(moves),
            product=self,
        )


@dataclass(frozen=True)
class Demand:
    """What one stage does, on all threads together."""

    products: Any = 0  # multiply-adds that the result needs, waste of tiles included
    steps: Any = 0.0  # multiply-adds of vectors by which they are made, idle lanes included
    instructions: Any = 0.0  # of vectors besides: of transforms and conversions
    loads: Any = 0.0  # of vectors, or of numbers for all lanes, by the micro-kernel
    stored: Any = 0.0  # vectors that transforms store
    turned: Any = 0.0  # vectors of pixels that are exchanged with channels
    moves: tuple[Move, ...] = ()
    product: PanelProduct = PanelProduct(())  # how a micro-kernel makes the steps, of one block

    def __add__(self, other: Demand) -> Demand:
        return Demand(
            self.products + other.products,
            self.steps + other.steps,
            self.instructions + other.instructions,
            self.loads + other.loads,
            self.stored + other.stored,
            self.turned + other.turned,
            self.moves + other.moves,
            self.product if self.product.panels else other.product,
        )

    def __rmul__(self, times: int) -> Demand:
        moves = (replace(move, bytes=move.bytes * times) for move in self.moves)
        return Demand(
            self.products * times,
            self.steps * times,
            self.instructions * times,
            self.loads * times,
            self.stored * times,
            self.turned * times,
            tuple(moves),
        )

    def bytes(self, what: str, writes: bool = False) -> Any:
        """Return the bytes that are read of an array or a buffer, or written to it."""
        moves = (move for move in self.moves if move.what == what and move.writes == writes)
        return sum(move.bytes for move in moves)


Stages = tuple[Demand, Demand, Demand]  # input, multiply, output


def panels(rows: Any, high: Any, vectors: Any, width: Any, together: int = 1) -> tuple[Panel, ...]:
    """Return the register blocks of at most ``high`` rows that cut ``rows`` x ``vectors``.

    ``together``: steps for which one load brings the numbers of a row.

    >>> [(one.rows, one.vectors, int(one.times)) for one in panels(5, 2, 4, 3)]
    [(2, 3, 2), (1, 3, 1), (2, 1, 2), (1, 1, 1)]
    """
    corners = (
        Panel(size, wide, times * count, together)
        for wide, count in ((width, vectors // width), (vectors % width, np.sign(vectors % width)))
        for size, times in ((high, rows // high), (rows % high, np.sign(rows % high)))
    )
    return tuple(panel for panel in corners if np.any(panel.times))


def of_buffer(what: str, size: Any, buffer: Buffer, writes: bool = False) -> Move:
    """Return the reading or writing of ``size`` bytes in a buffer of the workspace."""
    return Move(what, size, buffer.bytes, writes, private=np.logical_not(buffer.shared))


def call_bytes(work: AnyWork, packed: Any) -> Any:
    """Return the bytes of all that one call reads and writes, ``packed`` of them filters.

    Each pass by between two uses of the others.
    """
    height, width = work.size
    inputs = work.channels * height * width * work.array_itemsize
    height, width = work.output_size
    outputs = work.filters * height * width * work.output_itemsize
    return work.batch * work.groups * (inputs + outputs) + packed


def input_read(work: AnyWork, packed: Any, extent: tuple[Any, Any]) -> Move:
    """Return the reading of the padded input below a block: ``extent`` rows and columns."""
    size = work.images * extent[0] * extent[1] * work.channels * work.array_itemsize
    return Move("input", size, call_bytes(work, packed))


def output_written(work: AnyWork, packed: Any) -> Move:
    """Return the writing of the outputs of a block, with whole tiles."""
    numbers = work.images * work.block[0] * work.block[1] * work.filters
    for transform in work.transforms:
        numbers = numbers * (transform.m if transform else 1)
    return Move("output", numbers * work.output_itemsize, call_bytes(work, packed), writes=True)


def filters_read(work: AnyWork, packed: Any, buffers: Iterable[Buffer] = ()) -> Move:
    """Return the reading of the filters of a group: ``packed`` are the bytes of all groups.

    What a block keeps in ``buffers`` passes by from one block to the next.
    """
    held = packed + sum(buffer.bytes for buffer in buffers)
    size = np.where(work.items > work.groups, held, call_bytes(work, packed))
    return Move("U", packed // work.groups, size, private=True)


def turned(work: Work, pixels: Any, channels: int) -> Any:
    """Return the vectors in which pixels and channels are exchanged: none in NHWC."""
    return pixels * blocks(channels, work.lanes) if work.layout == "NCHW" else 0


def of_call(
    work: AnyWork, count: Callable[[AnyWork], Stages], extent: Callable[[AnyWork], Pair]
) -> Stages:
    """Return what the stages of a whole call do, the last and smaller blocks counted as such.

    ``count``: of one block; ``extent``: rows and columns of padded input below it. Nothing beyond
    the image is read, and of tiles that reach beyond the outputs nothing there is written.
    """
    stages = [Demand()] * 3
    for block, times in _kinds(work):
        for index, stage in enumerate(count(block)):
            stages[index] += times * stage
    exact = {
        "input": _seen(work, extent),
        "output": work.batch * work.output_bytes,
    }
    lanes_turned = work.lanes.bit_length() - 1  # steps of halves: log2(lanes)
    into, multiply, output = (
        replace(
            stage,
            instructions=stage.instructions + lanes_turned * stage.turned,
            moves=tuple(_merged(stage.moves, exact)),
        )
        for stage in stages
    )
    return into, multiply, output


def _kinds(work: AnyWork) -> Iterator[tuple[AnyWork, int]]:
    """The blocks of a call that differ in size, and how many there are of each."""
    tiles = (blocks(out, t.m if t else 1) for out, t in zip(work.out, work.transforms))
    high, wide = (_pieces(count, size) for count, size in zip(tiles, work.block))
    for rows, of_rows in high:
        for cols, of_cols in wide:
            for images, of_images in _pieces(work.batch, work.images):
                block = replace(work, block=(rows, cols), images=images)
                yield block, of_rows * of_cols * of_images * work.groups


def _pieces(count: int, size: int) -> list[tuple[int, int]]:
    """(size, how many) of the pieces that a count is cut into."""
    whole, rest = divmod(count, size)
    return [piece for piece in ((size, whole), (rest, 1)) if min(piece)]


def _seen(work: AnyWork, extent: Callable[[AnyWork], Pair]) -> int:
    """Bytes of the input below all blocks: zeros beside it are not read, repeated pixels are."""
    area = 1
    for axis in (0, 1):
        m = work.transforms[axis].m if work.transforms[axis] else 1
        tiles, most = blocks(work.out[axis], m), work.block[axis]
        read = 0
        for begin in range(0, tiles, most):
            block = replace(work, block=(min(most, tiles - begin),) * 2)
            first = (work.part[2 * axis] + begin * m) * work.stride[axis] - work.padding[axis]
            last = first + int(extent(block)[axis])
            if work.padding_mode == "zeros":
                first, last = (min(max(0, end), work.size[axis]) for end in (first, last))
            read += last - first
        area *= read
    return work.batch * work.groups * work.channels * area * work.array_itemsize


def _merged(moves: Iterable[Move], exact: dict[str, int]) -> Iterator[Move]:
    """Each passage once; ``exact``: bytes of arrays whose edges cut blocks off."""
    merged: dict[tuple[str, bool, bool], Move] = {}
    for move in moves:
        private = bool(move.private)
        key = move.what, move.writes, private
        total = merged.get(key, replace(move, bytes=0, size=0, private=private))
        size = max(int(total.size), int(move.size))
        merged[key] = replace(total, bytes=int(total.bytes + move.bytes), size=size)
    for move in merged.values():
        if move.bytes:
            yield replace(move, bytes=exact.get(move.what, move.bytes))
