"""The gradient of the weights: what is compiled in, how a call is cut, its memory and its cost.

For every position of the transformed tiles there is one product, filters x tiles times tiles x
channels. Its sums stay until all tiles of all images have been through; tiles come in chunks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from winogen.kernels.count import Demand, Move, Stages
from winogen.kernels.kind import MEMORY, SCHEDULE, Buffer, Fields, Spec
from winogen.kernels.work import blocks, even, round_up
from winogen.records import Machine, Precision, Strides, Target, Tuning

USES = ("rows", "vectors", "chains")
# Bytes of transformed tiles of a chunk: they stay in L2, beside the sums of a position.
_CHUNK_BYTES = 1 << 20
_LEAST_TILES = 96  # of a chunk: then sums outside L2 are seldom fetched and stored
_UNIT_PIXELS = 128  # columns of a unit, about
_SUM_BYTES = 256 << 20  # sums of all positions; more filters take turns
FINISHED = 8  # filters whose weights are finished together
_PARTS = 12  # of a phase, for each thread
_MOST_SLABS = 8
_SLAB_BYTES = 16 << 20  # of all slabs

_FIELDS: Fields = (
    ("Images, and groups of channels.", "int64_t", ("batch", "groups")),
    ("Channels and filters of a group: C, M.", "int64_t", ("channels", "filters")),
    ("Rows and columns of input and output.", "int64_t",
     ("height", "width", "out_height", "out_width")),
    ("Rows of padding above, columns before.", "int64_t", ("pad_top", "pad_left")),
    ("Where numbers of x and dy lie.", "winogen_strides", ("input", "grad")),
    ("Numbers of x and of dy, in all.", "int64_t", ("input_numbers", "grad_numbers")),
    ("Bands of filters, one for each pass, and filters of one.", "int64_t",
     ("bands", "band_filters")),
    ("Rows and columns of tiles of an image.", "int64_t", ("tile_rows", "tile_cols")),
    ("Segments of a row of tiles, and units of all images.", "int64_t", ("segments", "units")),
    ("Tiles of a unit, at most.", "int64_t", ("unit_cols",)),
    ("Chunks of units, and units of a chunk.", "int64_t", ("chunks", "chunk_units")),
    ("Slabs of chunks, and whether one thread makes each alone.", "int64_t", ("slabs", "alone")),
    ("Vectors of channels in the product.", "int64_t", ("panel_vectors",)),
    ("Shares of the filters of a product.", "int64_t", ("shares",)),
    *SCHEDULE,
    ("Tiles in a chain of additions.", "int64_t", ("depth",)),
    ("Whether denormals count as zeros.", "int", ("flush_denormals",)),
    *MEMORY,
    ("From one position of each to the next.", "int64_t", ("v_step", "e_step", "s_step")),
    ("Transformed tiles of x and dy.", "winogen_buffer", ("v", "e")),
    ("Sums of the products.", "winogen_buffer", ("s",)),
    ("Pixels, and their columns, transformed.", "winogen_buffer", ("strip", "columns")),
)  # fmt: skip


def tuning(target: Target) -> Tuning:
    """Return the sizes of the register block, rows of filters by vectors of channels.

    >>> from winogen.records import TARGETS
    >>> [(t.rows, t.vectors) for t in map(tuning, (TARGETS["avx512"], TARGETS["avx2"]))]
    [(8, 3), (4, 3)]
    """
    rows = 8 if target.registers >= 32 else 4
    return Tuning("measured on Intel Xeon (AVX-512), 2026-11", rows=rows, vectors=3, depth=128)


@dataclass(frozen=True)
class GradientSpec(Spec):
    """All that is fixed when the C of a kernel is written."""

    inputs = ("input", "grad_output")
    output = "grad_weight"
    fields = _FIELDS

    layout: str  # "NCHW" | "NHWC"
    precision: Precision
    target: Target
    tuning: Tuning
    transform_h: Any  # of the convolution along the height, F(m, r)
    transform_w: Any

    @property
    def name(self) -> str:
        """What files of its kernel are called."""
        tile = [t.name for t in dict.fromkeys(self.transforms)]
        return "_".join(["weight_gradient", *tile, self.precision.arrays, self.layout.lower()])

    @property
    def transforms(self) -> tuple[Any, Any]:
        """The transforms of the convolution along height and width."""
        return self.transform_h, self.transform_w

    def given(self, work: GradientWork) -> dict[str, Any]:
        """Return the fields for a call that are not attributes of ``work`` by the same name."""
        counts = work.groups * work.channels, work.groups * work.filters
        sizes = work.size, work.output_size
        strides = [
            Strides.of(self.layout, around, *size) for around, size in zip(work.around, sizes)
        ]
        numbers = [
            one.extent(work.batch, *size, count) for one, size, count in zip(strides, sizes, counts)
        ]
        return {
            **dict(zip(("input", "grad"), strides)),
            **dict(zip(("input_numbers", "grad_numbers"), numbers)),
            **work.steps,
        }


@dataclass(frozen=True)
class GradientWork:
    """One call with all its sizes, and how it is cut.

    Where it is cut into chunks depends on the shapes alone, so that results do, too.
    """

    spec: GradientSpec
    batch: int
    groups: int
    channels: int  # of a group
    filters: int  # of a group
    size: tuple[int, int]
    output_size: tuple[int, int]
    padding: tuple[int, int]  # top, left
    around: tuple[int, int]  # channels of the arrays whose slices x and dy are
    threads: int = 1
    packed_bytes: ClassVar[int] = 0

    @property
    def lanes(self) -> int:
        """Numbers of a vector."""
        return self.spec.precision.lanes(self.spec.target.vector_bytes)

    @property
    def itemsize(self) -> int:
        """Bytes of a number."""
        return self.spec.precision.itemsize

    @property
    def tile(self) -> tuple[int, int]:
        """Pixels of dy that a tile has."""
        return self.spec.transform_h.m, self.spec.transform_w.m

    @property
    def positions(self) -> int:
        """Products of a tile, a channel and a filter."""
        return int(self.spec.transform_h.products * self.spec.transform_w.products)

    @cached_property
    def tiles(self) -> tuple[int, int]:
        """Rows and columns of tiles of an image."""
        rows, cols = (blocks(size, m) for size, m in zip(self.output_size, self.tile))
        return rows, cols

    @property
    def filters_wide(self) -> int:
        """Filters in a row of transformed tiles, which lie side by side."""
        return max(self.spec.tuning.rows, self.lanes)

    @cached_property
    def vectors(self) -> int:
        """Vectors of channels."""
        return int(blocks(self.channels, self.lanes))

    @cached_property
    def panel_vectors(self) -> int:
        """Vectors of a panel of channels: panels are about equal."""
        return int(even(self.vectors, self.spec.tuning.vectors))

    @cached_property
    def band_filters(self) -> int:
        """Filters of a pass: all, if their sums are not too many."""
        room = _SUM_BYTES // (self.positions * self.vectors * self.lanes * self.itemsize)
        wide = self.filters_wide
        return min(self.filters, max(wide, room // wide * wide))

    @property
    def bands(self) -> int:
        """Passes of a group."""
        return int(blocks(self.filters, self.band_filters))

    @cached_property
    def unit_cols(self) -> int:
        """Tiles of a unit, a piece of a row of tiles; pieces are about equal."""
        cols = self.tiles[1]
        most = max(1, _UNIT_PIXELS // self.tile[1])
        return int(even(cols, most))

    @property
    def segments(self) -> int:
        """Units of a row of tiles."""
        return int(blocks(self.tiles[1], self.unit_cols))

    @property
    def units(self) -> int:
        """Units of all images."""
        return self.batch * self.tiles[0] * self.segments

    @cached_property
    def chunk_units(self) -> int:
        """Units of a chunk; chunks are about equal."""
        wide = self.vectors * self.lanes + round_up(self.band_filters, self.filters_wide)
        tiles = _CHUNK_BYTES // (self.positions * wide * self.itemsize)
        if self.positions * self.sums_step * self.itemsize > _CHUNK_BYTES:
            tiles = max(tiles, _LEAST_TILES)
        most = max(1, tiles // self.unit_cols)
        return int(even(self.units, most))

    @property
    def chunks(self) -> int:
        """Chunks of all images."""
        return int(blocks(self.units, self.chunk_units))

    @property
    def depth(self) -> int:
        """Tiles whose products are summed in registers: a chunk's, in chains about equal."""
        tiles = self.chunk_units * self.unit_cols
        return int(even(tiles, self.spec.tuning.depth))

    @property
    def slabs(self) -> int:
        """How many sums there are of each, of successive chunks, that are added in the end.

        Threads make them without waiting for each other.
        """
        room = _SLAB_BYTES // (self.positions * self.sums_step * self.itemsize)
        return max(1, min(_MOST_SLABS, self.chunks // 2, room))

    @property
    def alone(self) -> bool:
        """Whether threads do make slabs of their own: with enough of them, and for one thread."""
        return self.threads <= self.slabs

    @property
    def shares(self) -> int:
        """Pieces of the filters of one product, where positions and panels are few."""
        panels = blocks(self.vectors, self.panel_vectors)
        pieces = blocks(self.band_filters, self.filters_wide)
        wanted = blocks(_PARTS * self.threads, self.positions * panels)
        return 1 if self.alone else int(min(pieces, wanted))

    @property
    def schedule(self) -> tuple[int, int]:
        """(phases, parts of each)."""
        panels = blocks(self.vectors, self.panel_vectors)
        steps = (
            self.chunk_units * (self.vectors + blocks(self.band_filters, self.lanes)),
            self.positions * panels * self.shares,
        )
        phases, parts = (2, (self.slabs,)) if self.alone else (2 * self.chunks + 1, steps)
        parts = (*parts, panels * blocks(self.band_filters, FINISHED))
        return self.groups * self.bands * phases, int(max(parts))

    @property
    def sums_step(self) -> int:
        """From the sums of one position to the next, in numbers."""
        return self.band_filters * self.vectors * self.lanes + self.lanes

    @cached_property
    def steps(self) -> dict[str, int]:
        """From one position to the next, in numbers; a vector more keeps them off the same sets."""
        tiles, wide = self.chunk_units * self.unit_cols, self.vectors * self.lanes
        return {
            "v_step": tiles * wide + self.lanes,
            "e_step": tiles * int(round_up(self.band_filters, self.filters_wide)) + self.lanes,
            "s_step": self.sums_step,
        }

    @property
    def buffers(self) -> dict[str, Buffer]:
        """The buffers of a call by name."""
        height, width = self.spec.transforms
        cols = (self.unit_cols - 1) * width.m + width.n
        vector = self.lanes * self.itemsize
        numbers = self.positions * self.itemsize
        strip = height.n * cols * vector if self.spec.layout == "NCHW" else 0
        return {
            "s": Buffer(numbers * self.slabs * self.sums_step, shared=True),
            "strip": Buffer(strip),
            "columns": Buffer(height.products * cols * vector),
            **{
                name: Buffer(numbers * self.steps[f"{name}_step"], shared=not self.alone)
                for name in ("v", "e")
            },
        }

    @property
    def products(self) -> int:
        """Multiplications of the definition."""
        outputs = self.output_size[0] * self.output_size[1] * self.filters
        taps = self.spec.transform_h.r * self.spec.transform_w.r
        return int(self.batch * self.groups * outputs * self.channels * taps)

    def count(self) -> Stages:
        """Return what one call does: the transforms of x and dy, the products, the finished sums.

        The program of A is taken to be as long as that of A^T.
        """
        height, width = self.spec.transforms
        size, places = self.itemsize, self.positions
        tiles = self.groups * self.batch * self.tiles[0] * self.tiles[1]
        wide = self.vectors * self.lanes
        # Vectors of one position; of x once for every pass over the filters.
        of_x = tiles * self.bands * self.vectors
        of_dy = tiles * int(blocks(self.filters, self.lanes))
        per_x, per_dy = (
            width.m * height.ops[kind]["instructions"]
            + height.products * width.ops[kind]["instructions"]
            for kind in ("input", "output")
        )
        x, dy = (
            self.groups * self.batch * count * sizes[0] * sizes[1] * size
            for count, sizes in ((self.channels, self.size), (self.filters, self.output_size))
        )
        v, e = (places * count * self.lanes * size for count in (of_x, of_dy))
        near = {name: self.buffers[name].bytes for name in ("v", "e")}
        sums = places * self.filters * wide * size
        steps = tiles * places * self.vectors * self.filters
        weights = self.groups * self.filters * self.channels * height.r * width.r * size
        transforms = Demand(
            instructions=of_x * per_x + of_dy * per_dy,
            stored=(of_x + of_dy) * places,
            moves=(
                Move("input", x * self.bands, x + dy),
                Move("grad", dy, x + dy),
                Move("V", v, near["v"], writes=True),
                Move("E", e, near["e"], writes=True),
            ),
        )
        # Every chunk adds to the sums of its group.
        passes = self.groups * self.chunks * sums
        products = Demand(
            products=tiles * places * self.channels * self.filters,
            steps=steps,
            moves=(
                Move("V", v, near["v"]),
                Move("E", e, near["e"]),
                Move("sums", passes, sums),
                Move("sums", passes, sums, writes=True),
            ),
        )
        finish = Demand(
            moves=(
                Move("finished", self.groups * sums, sums),
                Move("output", weights, weights, writes=True),
            )
        )
        return transforms, products, finish

    def cycles(self, machine: Machine) -> float:
        """Predict the cycles of one call on one thread: the price of what `count` returns."""
        rate, costs = machine.vectors_per_cycle, machine.costs
        transforms, products, finish = self.count()
        total = transforms.instructions / rate + costs.gradient_store * transforms.stored
        total += costs.gradient_product * products.steps / rate
        sums = [move for move in products.moves if move.what == "sums"]
        if sums[0].size > machine.l2_bytes // 2:
            total += sum(move.bytes for move in sums) / float(machine.read_rate(sums[0].size))
        return float(total + costs.gradient_sum * finish.bytes("finished"))
