"""What tiles of a convolution move between the caches, and the tile that moves the least.

The nest, from the outside in, with the tile sizes of Kelefouras and Keramidas (IEEE TPDS 2023,
section 3.4, algorithms 4 and 5, table 1)::

    for b in images
        for yy in rows, in tiles of `rows`                      Ty
            for mm in filters, in tiles of `filters`            Tm
                for y in the tile's rows
                    for x in pixels, in register blocks         R_x
                        for m in the tile's filters, in register blocks
                            all channels and taps of one register block

Their four ways to tile are all there: *none* (tiles of one register block, all rows), *(Tm, b)*
(all rows), *(M, b)* (all filters), *(Tm, Ty, y)* (neither). A cache holds what was used last. So
what a loop uses again is still there if all that is read in between fits, and each of the loops
either keeps its data or reads them again:

- where a tile's filters fit beside the pixels of a block, they are read once per image and tile of
  rows, and the inputs once per tile of filters: IN·M/Tm + F·B, where a tile has all rows;
- where they do not, they pass by once per register block of pixels: IN + F·B·Y·X/R_x, if a tile
  has all filters.

These are the formulas of the source; `read_bytes` adds what they leave out: the rows and columns
that neighbouring tiles and blocks share. Outputs leave once, whatever the tiles.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from winogen.records import Machine
from winogen.records.machine import L1_BYTES
from winogen_lab.loops.registers import columns_below

AXES = ("Fw", "Fh", "X", "Y", "C", "K", "N")


class Bytes(NamedTuple):
    """Bytes of the inputs and of the filters."""

    inputs: int
    filters: int

    @property
    def total(self) -> int:
        """Both."""
        return self.inputs + self.filters


@dataclass(frozen=True)
class Sizes:
    """A convolution without groups."""

    images: int
    channels: int
    filters: int
    kernel: tuple[int, int]
    output: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    itemsize: int = 4

    @property
    def input(self) -> tuple[int, int]:
        """Rows and columns of an image, its padding included."""
        high, wide = map(columns_below, self.output, self.kernel, self.stride)
        return high, wide

    @property
    def extents(self) -> dict[str, int]:
        """How long each axis is."""
        sizes = *self.kernel[::-1], *self.output[::-1], self.channels, self.filters, self.images
        return dict(zip(AXES, sizes))

    @property
    def products(self) -> int:
        """All multiplications."""
        return prod(self.extents.values())


@dataclass(frozen=True, kw_only=True)
class Convolution(Sizes):
    """A convolution without groups, and the register block that computes it."""

    block_pixels: int  # R_x
    block_filters: int  # R_m·m0

    @property
    def filter_bytes(self) -> int:
        """All filters: F."""
        return self.filters * self.channels * prod(self.kernel) * self.itemsize

    @property
    def input_bytes(self) -> int:
        """All images with their padding: IN."""
        return self.images * self.input[0] * self.row_bytes

    @property
    def row_bytes(self) -> int:
        """One row of input."""
        return self.input[1] * self.channels * self.itemsize

    def rows_below(self, rows: int) -> int:
        """Return the rows of input below so many rows of outputs."""
        return columns_below(rows, self.kernel[0], self.stride[0])

    def footprint(self, columns: int | None = None) -> Bytes:
        """Return what one register block reads.

        ``columns``: those of the input below it; the source counts R_x, as if it had one tap.

        >>> layer = Convolution(1, 256, 256, (3, 3), (56, 56), block_pixels=6, block_filters=64)
        >>> layer.footprint(), layer.footprint(columns=6).total
        (Bytes(inputs=24576, filters=589824), 608256)
        """
        columns = self._columns(self.block_pixels) if columns is None else columns
        return Bytes(
            self.channels * self.kernel[0] * columns * self.itemsize,
            self.block_filters * self.channels * prod(self.kernel) * self.itemsize,
        )

    def _columns(self, pixels: int) -> int:
        return columns_below(pixels, self.kernel[1], self.stride[1])


@dataclass(frozen=True, order=True)
class Tile:
    """Filters (Tm) and rows of outputs (Ty) between two changes of the outer loops."""

    filters: int
    rows: int

    def name(self, layer: Convolution) -> str:
        """Return what the source calls it.

        >>> layer = Convolution(1, 64, 128, (3, 3), (56, 56), block_pixels=14, block_filters=32)
        >>> [Tile(*sizes).name(layer) for sizes in ((32, 56), (64, 56), (128, 8), (32, 8))]
        ['none', '(64, b)', '(M, b)', '(32, 8, y)']
        """
        if self.filters >= layer.filters:
            return "(M, b)"
        if self.rows < layer.output[0]:
            return f"({self.filters}, {self.rows}, y)"
        return "none" if self.filters <= layer.block_filters else f"({self.filters}, b)"


def read_bytes(layer: Convolution, tile: Tile, cache: int) -> Bytes:
    """Return the bytes that the nest reads from behind a cache of ``cache`` bytes.

    >>> layer = Convolution(2, 64, 128, (1, 1), (28, 28), block_pixels=14, block_filters=32)
    >>> kept, gone = (read_bytes(layer, Tile(128, 28), size) for size in (1 << 16, 1 << 12))
    >>> kept == (layer.input_bytes, layer.filter_bytes)
    True
    >>> gone == (layer.input_bytes, layer.filter_bytes * 2 * 28 * 28 // 14)
    False
    """
    return Bytes(_inputs(layer, tile, cache), _filters(layer, tile, cache))


def tiles(layer: Convolution, filters: Iterable[int] | None = None) -> list[Tile]:
    """Return the tiles to choose from: whole register blocks of filters, even tiles of rows.

    ``filters``: the tiles of filters that are possible; all by default.
    """
    if filters is None:
        count = -(-layer.filters // layer.block_filters)
        filters = (size * layer.block_filters for size in _even(count))
    rows = _even(layer.output[0])
    return [Tile(min(size, layer.filters), high) for size in filters for high in rows]


def smallest_reads(layer: Convolution, machine: Machine, choice: Iterable[Tile]) -> Tile:
    """Return the tile of the fewest bytes from memory, then from L3, then from L2.

    That is the rule of the source. Of equals it is the one with the most rows and filters.
    """
    return min(choice, key=lambda tile: (*levels(layer, tile, machine)[::-1], *_size(tile)))


def shortest_reads(layer: Convolution, machine: Machine, choice: Iterable[Tile]) -> Tile:
    """Return the tile whose slowest level takes the least time; of equals, its next slowest level.

    What hides behind a slower level costs nothing, while the rule of the source gives any number of
    bytes from L2 for one less from memory.
    """
    return min(choice, key=lambda tile: (*slowest_levels(layer, tile, machine), *_size(tile)))


def slowest_levels(layer: Convolution, tile: Tile, machine: Machine) -> tuple[float, ...]:
    """Return the cycles of every level, the bytes read from it over its rate, the longest first."""
    rates = machine.l2_rate, machine.l3_rate, machine.memory_rate
    cycles = (size / rate for size, rate in zip(levels(layer, tile, machine), rates))
    return tuple(sorted(cycles, reverse=True))


def levels(layer: Convolution, tile: Tile, machine: Machine) -> tuple[int, int, int]:
    """Return the bytes read from L2, L3 and memory."""
    caches = L1_BYTES, machine.l2_bytes, machine.l3_bytes
    l2, l3, memory = (read_bytes(layer, tile, cache).total for cache in caches)
    return l2, l3, memory


def _size(tile: Tile) -> tuple[int, int]:
    return -tile.rows, -tile.filters


def _even(count: int) -> list[int]:
    """Sizes of even pieces: one for every number of pieces."""
    return sorted({-(-count // pieces) for pieces in range(1, count + 1)})


def _filters(layer: Convolution, tile: Tile, cache: int) -> int:
    whole, (height, width) = layer.filter_bytes, layer.output
    one = tile.filters <= layer.block_filters
    # Until a filter meets the next pixels all filters of the tile pass, and the pixels of one
    # block, or of two if they were used by other filters since.
    pixels = layer.block_pixels * (1 if one else 2)
    if _tile_filters(layer, tile) + _below(layer, layer.kernel[0], pixels) > cache:
        return whole * layer.images * height * -(-width // layer.block_pixels)
    if tile.filters >= layer.filters:
        return whole
    # Until it meets the next tile of rows all filters pass, and the inputs of this tile of rows,
    # before other filters those of the next one as well.
    high = tile.rows if 2 * tile.filters >= layer.filters else 2 * tile.rows
    rows = layer.rows_below(min(high, height * layer.images))
    if whole + rows * layer.row_bytes <= cache:
        return whole
    return whole * layer.images * -(-height // tile.rows)


def _inputs(layer: Convolution, tile: Tile, cache: int) -> int:
    (height, width), tile_bytes = layer.output, _tile_filters(layer, tile)
    window, block = layer.footprint()
    if window + block > cache:  # every register block reads all of its pixels
        passes = -(-layer.filters // layer.block_filters)
        return layer.images * height * -(-width // layer.block_pixels) * passes * window
    sweeps = -(-layer.filters // tile.filters)
    if layer.kernel[0] * layer.row_bytes + tile_bytes > cache:
        # What the next block shares was used by the last filters just now; what the next row
        # shares is gone.
        return layer.images * sweeps * height * layer.kernel[0] * layer.row_bytes
    # Until the tile's inputs meet the next filters, those and the present ones pass.
    first = layer.images * layer.rows_below(height) * layer.row_bytes
    waiting = layer.rows_below(min(tile.rows, height)) * layer.row_bytes
    if waiting + 2 * tile_bytes <= cache or sweeps == 1:
        return first
    highs = [tile.rows] * (height // tile.rows) + [height % tile.rows] * (height % tile.rows > 0)
    again = sum(map(layer.rows_below, highs)) * layer.row_bytes
    return first + layer.images * (sweeps - 1) * again


def _tile_filters(layer: Convolution, tile: Tile) -> int:
    return layer.filter_bytes * min(tile.filters, layer.filters) // layer.filters


def _below(layer: Convolution, rows: int, pixels: int) -> int:
    """Bytes of ``rows`` rows of input below neighbouring outputs."""
    columns = columns_below(pixels, layer.kernel[1], layer.stride[1])
    return rows * columns * layer.channels * layer.itemsize
