"""Fourier transforms of tiles: what is compiled in, how a call is cut, its memory and its cost."""

from __future__ import annotations

from dataclasses import dataclass
from math import log2, prod
from typing import ClassVar

import numpy as np

from winogen.kernels import costs as cost
from winogen.kernels.kind import MEMORY, SCHEDULE, Buffer, Fields, Spec
from winogen.kernels.work import blocks
from winogen.records import Costs, Machine, Precision, Strides, Target, Tuning

_FIELDS: Fields = (
    ("Images, and channels of each.", "int64_t", ("batch", "channels")),
    ("Rows and columns of outputs.", "int64_t", ("out_height", "out_width")),
    ("Where numbers of the arrays lie.", "winogen_strides", ("input", "output")),
    ("Rows and columns of tiles of an image.", "int64_t", ("tile_rows", "tile_cols")),
    ("Outputs from one tile to the next.", "int64_t", ("step_h", "step_w")),
    *SCHEDULE,
    ("Whether denormals count as zeros.", "int", ("flush_denormals",)),
    *MEMORY,
    ("Spectra of the tiles in the lanes.", "winogen_buffer", ("spectra",)),
    ("Pixels that do not lie side by side.", "winogen_buffer", ("copied",)),
)  # fmt: skip


# Of transforms that are considered; all have the factors 2 and 3 alone.
LENGTHS = (16, 32, 48, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096)
# Instructions of a butterfly: additions, and products that are no part of a multiply-add.
_BUTTERFLIES = {2: 4, 3: 16, 4: 16, 8: 57}
_COPIED = 2  # cycles for a pixel that is copied, or stored, by itself


def radices(length: int) -> tuple[int, ...]:
    """Return the stages of a transform: eights, and before them what is left over.

    >>> [radices(length) for length in (1, 16, 64, 96, 128)]
    [(), (2, 8), (8, 8), (3, 4, 8), (2, 8, 8)]
    """
    found: list[int] = []
    for radix in (8, 4, 2, 3):
        while length % radix == 0:
            found.insert(0, radix)
            length //= radix
    return tuple(found)


def frequencies(length: int) -> np.ndarray:
    """Return the frequencies in the order in which a transform leaves them: of reversed digits.

    >>> frequencies(6).tolist()
    [0, 3, 1, 4, 2, 5]
    """
    return np.arange(length).reshape(radices(length)[::-1]).T.reshape(-1)


@dataclass(frozen=True)
class FourierSpec(Spec):
    """All that is fixed when the C of a kernel is written."""

    inputs = ("input", "packed", "rows", "columns")
    fields = _FIELDS

    precision: Precision
    target: Target
    lengths: tuple[int, int]  # of the transforms of columns and of rows
    layout: str = "NCHW"  # or "NHWC"
    channels: bool = False  # whether each lane has a channel of its own
    tuning: Tuning = Tuning("nothing to tune")

    @property
    def name(self) -> str:
        """What files of its kernel are called."""
        size = "x".join(map(str, self.lengths))
        lanes = "channels" if self.channels else "tiles"
        return f"fourier_{size}_{lanes}_{self.precision.arrays}_{self.layout.lower()}"

    @property
    def side_by_side(self) -> bool:
        """Whether the channels in the lanes lie side by side in the arrays."""
        return self.channels and self.layout == "NHWC"

    @property
    def lanes(self) -> int:
        """Numbers of a vector."""
        return self.precision.lanes(self.target.vector_bytes)


@dataclass(frozen=True)
class FourierWork:
    """One call with all its sizes, and how it is cut."""

    spec: FourierSpec
    batch: int
    channels: int
    output_size: tuple[int, int]
    step: tuple[int, int]  # outputs of a tile, rows and columns
    input: Strides
    output: Strides
    around: bool = False  # whether what lies around the maps is other than zeros
    inside: tuple[float, float] = (1.0, 1.0)  # parts of the rows and columns of tiles: not zeros
    threads: int = 1
    packed_bytes: ClassVar[int] = 0  # they are made outside of the kernel

    @property
    def tiles(self) -> tuple[int, int]:
        """Rows and columns of tiles of an image."""
        rows, cols = (-(-size // step) for size, step in zip(self.output_size, self.step))
        return rows, cols

    @property
    def products(self) -> int:
        """Multiplications of real numbers, one for each term of a complex product."""
        return 4 * self.channels * self.batch * prod(self.tiles) * prod(self.spec.lengths)

    @property
    def filters(self) -> tuple[int, ...]:
        """The shape of the packed filters; of channels in the lanes some may not exist."""
        lanes, columns = self.spec.lanes, self.spec.lengths[::-1]
        if self.spec.channels:
            return (int(blocks(self.channels, lanes)), *columns, 2, lanes)
        return (self.channels, *columns, 2)

    @property
    def schedule(self) -> tuple[int, int]:
        """(phases, parts of each): tiles of a channel, two for each lane."""
        tiles, lanes = self.batch * prod(self.tiles), self.spec.lanes
        each = blocks(tiles, 2 if self.spec.channels else 2 * lanes)
        return 1, int(self.filters[0] * each)

    @property
    def buffers(self) -> dict[str, Buffer]:
        """The buffers of a call by name."""
        (height, width), lanes = self.spec.lengths, self.spec.lanes
        number, pixel = self.spec.precision.real.itemsize, self.spec.precision.itemsize
        return {
            "spectra": Buffer(height * (width + 1) * 2 * lanes * number),
            "copied": Buffer(0 if self.spec.side_by_side else 2 * lanes * width * pixel),
        }

    def cycles(self, machine: Machine) -> float:
        """Predict the cycles of one call on one thread."""
        (height, width), lanes, costs = self.spec.lengths, self.spec.lanes, machine.costs
        rows_in, cols_in = self.inside if self.spec.channels else (1.0, 1.0)
        rows_in, rows = height * rows_in, self.output_size[0] / self.tiles[0]
        lines = (rows_in + rows) * sum(_stage(width, radix, costs) for radix in radices(width))
        columns = width * _column(height, costs)
        # A vector of pixels of each tile on the way in, and of outputs on the way out.
        vectors = 2 * width * (rows_in * cols_in + rows)
        halvings = 0.0 if self.spec.side_by_side else log2(lanes)
        turned = vectors * (halvings * costs.arrange + 0.5 + costs.store)
        spectra, filters = self.buffers["spectra"].bytes, 0.0
        if self.spec.channels:
            filters = spectra / float(machine.read_rate(spectra * self.filters[0]))
        # Three times read and written.
        traffic = 6 * spectra / float(machine.read_rate(spectra)) + filters
        part = cost.roof(lines + columns + turned, traffic, costs.shows)
        moved = (self._pixels + self._outputs) * self.spec.precision.itemsize
        memory = moved / float(machine.read_rate(moved))
        one = _COPIED / cost.clocks(machine, self.spec.target)  # that is no vector
        return self.schedule[1] * float(part) + one * self._copied + memory

    @property
    def _pixels(self) -> int:
        return self.batch * self.channels * prod(self.tiles) * prod(self.spec.lengths)

    @property
    def _outputs(self) -> int:
        return self.batch * self.channels * prod(self.output_size)

    @property
    def _copied(self) -> float:
        """Pixels and outputs that go one by one: of tiles at the border, or of all."""
        if self.spec.side_by_side:
            return 0.0
        if self.spec.layout == "NHWC":
            return self._pixels + self._outputs
        return self._pixels * min(1.0, 2 / self.tiles[1]) if self.around else 0.0


def _column(length: int, costs: Costs) -> float:
    """Cycles of a transform of vectors, of the products, and of the way back.

    The last stage forwards and the first one back keep what they exchange in registers.
    """
    stages = [_stage(length, radix, costs) for radix in radices(length)]
    saved = costs.store * 2 * length if stages else -costs.store * 2 * length
    return 2 * sum(stages) - saved + 4 * costs.instruction * length


def _stage(length: int, radix: int, costs: Costs) -> float:
    instructions = _BUTTERFLIES[radix] + 4 * (radix - 1)
    return float(cost.transform(costs, length / radix * instructions, 2 * length))
