"""Convolution of 8-bit integers: what is compiled in, how a call is cut, and its memory.

Numbers are multiplied in words of 32 bits: four bytes, or two integers of 16 bits, whose products
one instruction adds to a 32-bit sum. A word holds neighbouring channels of a pixel, so that data
moves as float32 numbers do in direct convolution, and only the multiply-add is another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from winogen.kernels import quantized_count, tuning
from winogen.kernels.count import Stages, of_call
from winogen.kernels.dots import DOTS, SINGLE_DOTS, Dot, dots_of
from winogen.kernels.kind import MEMORY, SCHEDULE, Buffer, Fields, Spec, finish
from winogen.kernels.quantized_count import VECTORS
from winogen.kernels.work import blocks, even, round_up
from winogen.records import Epilogue, Machine, Strides, Target

ALGORITHMS = ("direct", "im2col")
DEPTHWISE_ROWS = 8  # vectors of sums of depthwise layers: enough to hide a dot product's latency
TILE_ROWS = 32  # pixels of a register block of AMX: two tiles
_PARTS = 4  # for each thread
_LEAST_PIXELS = 56  # of a block, so that packed filters are seldom read


_FIELDS: Fields = (
    ("Images, and groups of channels.", "int64_t", ("batch", "groups")),
    ("Channels and filters of a group: C, M.", "int64_t", ("channels", "filters")),
    ("Rows and columns of input and output.", "int64_t",
     ("height", "width", "out_height", "out_width")),
    ("Rows and columns of taps of a filter.", "int64_t", ("kernel_height", "kernel_width")),
    ("Steps from one window to the next.", "int64_t", ("stride_h", "stride_w")),
    ("Steps from one tap to the next.", "int64_t", ("dilation_h", "dilation_w")),
    ("Rows of padding above, columns before.", "int64_t", ("pad_top", "pad_left")),
    ("Where numbers of the arrays lie.", "winogen_strides", ("input", "output")),
    ("Numbers of the input, in all.", "int64_t", ("input_numbers",)),
    ("Numbers that a tap takes, and its words.", "int64_t", ("run", "words")),
    ("Words of a chunk, of vectors or tiles.", "int64_t", ("chunk",)),
    ("Taps of a sum, one after the other.", "int64_t", ("taps",)),
    ("The xor of inputs, and their zero point.", "int64_t", ("flip", "x_zero")),
    ("A word of padding.", "int64_t", ("padding",)),
    ("Limits of outputs, and their zero point.", "int64_t", ("lowest", "highest", "y_zero")),
    ("Whether filters have zero points.", "int64_t", ("w_zeros",)),
    ("Rows and columns of a block of outputs.", "int64_t", ("block_rows", "block_cols")),
    ("Blocks of a group and image.", "int64_t", ("grid_rows", "grid_cols")),
    ("Whether rows of a block are one line.", "int64_t", ("flat",)),
    ("Whether filters are fetched before use.", "int64_t", ("fetches",)),
    ("Shares of a block, if threads share it.", "int64_t", ("shares",)),
    *SCHEDULE,
    *MEMORY,
    ("From one row of the strip to the next.", "int64_t", ("strip_row",)),
    ("From one phase of its columns to the next, and of its rows.", "int64_t",
     ("strip_phase", "strip_rows")),
    ("From one chunk of the strip to the next.", "int64_t", ("strip_plane",)),
    ("From one phase of a row of input to the next, and from one channel.", "int64_t",
     ("row_phase", "row_plane")),
    ("Padded input below a block.", "winogen_buffer", ("strip",)),
    ("A row of padded input as bytes.", "winogen_buffer", ("row",)),
    ("Sums of a row of a block.", "winogen_buffer", ("sum",)),
    ("Where taps and numbers of a run begin.", "winogen_buffer", ("tap", "source")),
    ("Sums of inputs under a window.", "winogen_buffer", ("window",)),
)  # fmt: skip
_REALS: Fields = (
    (
        "Whether more follows the sums, and its activation: 0 for none.",
        "int64_t",
        ("after_store", "activation"),
    ),
    ("Parameters of the activation.", "double", ("activation_a", "activation_b")),
    ("Scales of outputs and of what is added.", "double", ("y_scale", "add_scale")),
    (
        "Whether an array is added, its xor and its zero point.",
        "int64_t",
        ("add", "add_flip", "add_zero"),
    ),
)


@dataclass(frozen=True)
class Reals:
    """What sums go through as real numbers: activation(sums + add), over the scale of outputs."""

    epilogue: Epilogue = Epilogue()
    y_scale: float = 1.0
    add_scale: float = 0.0
    add_zero: int = 0
    add_signed: bool = False

    @property
    def fields(self) -> dict[str, Any]:
        """Those of the struct of a call; ``add_zero`` is that of unsigned bytes there."""
        flip = 128 if self.add_signed else 0
        return {
            **finish(self.epilogue, early=False),
            "y_scale": self.y_scale,
            "add_scale": self.add_scale,
            "add": self.epilogue.add,
            "add_flip": flip,
            "add_zero": self.add_zero + flip,
        }


@dataclass(frozen=True)
class QuantizedSpec(Spec):
    """All that is fixed when the C of a kernel is written."""

    inputs: ClassVar[tuple[str, ...]] = ("input", "packed")
    packs: ClassVar[tuple[str, ...]] = ("weight", "zero", "bias", "multiplier")
    fields = _FIELDS
    in_reals: ClassVar[bool] = False  # whether sums go through what `Reals` says

    algorithm: str  # "direct" | "im2col" | "depthwise": direct, of one channel and filter a group
    layout: str  # "NCHW" | "NHWC"
    sums: bool  # whether outputs are sums in int32, else bytes
    target: Target
    dot: Dot
    rows: int  # pixels of a register block; of depthwise layers: vectors
    profile: bool = False

    @classmethod
    def of(
        cls, algorithm: str, layout: str, sums: bool, target: Target, dot: Dot | None = None
    ) -> QuantizedSpec:
        """Return the kernel for a target; ``dot``: None for the best instruction that it has."""
        depthwise = algorithm == "depthwise"
        dot = dot or dots_of(target, SINGLE_DOTS if depthwise else DOTS)[0]
        flagged = target.using(*dot.extensions)
        rows = DEPTHWISE_ROWS if depthwise else tuning.rows(target)
        if dot.name == "tdpbusd":
            rows = TILE_ROWS
        return cls(algorithm, layout, sums, flagged, dot, rows)

    @property
    def name(self) -> str:
        """What files of its kernel are called."""
        outputs = "reals" if self.in_reals else "sums" if self.sums else "bytes"
        twin = ["profile"] * self.profile
        return "_".join(["quantized", self.algorithm, outputs, self.layout.lower(), *twin])

    def given(self, work: QuantizedWork) -> dict[str, Any]:
        """Return the fields for a call that are not attributes of ``work`` by the same name."""
        input_, output = (
            Strides.of(self.layout, channels, *size)
            for channels, size in zip(work.around, (work.size, work.output_size))
        )
        return {
            "input": input_,
            "output": output,
            "input_numbers": input_.extent(work.batch, *work.size, work.inputs),
            "x_zero": work.zero,
            "padding": work.padding_word,
            **work.pitches,
            **(work.reals.fields if self.in_reals else {}),
        }

    @property
    def lanes(self) -> int:
        """Words of a vector."""
        return self.target.vector_bytes // 4

    @property
    def most_rows(self) -> int:
        """Rows of a register block for which there are registers: operands take others."""
        if self.algorithm == "depthwise":
            return self.target.registers - 2
        if self.dot.deep > 1:  # pixels are in registers two by two, filters one after the other
            return 2 * (self.target.registers - 3) // (2 * VECTORS + 1) // 2 * 2
        return (self.target.registers - VECTORS - 1) // VECTORS

    @property
    def tiles(self) -> bool:
        """Whether register blocks are made of AMX's tiles."""
        return self.dot.name == "tdpbusd"


class RealsSpec(QuantizedSpec):
    """The same for outputs that are more than sums, scaled: a sum of two, an activation."""

    inputs = ("input", "packed", "add")
    packs = (*QuantizedSpec.packs, "slopes")
    fields = (*_FIELDS, *_REALS)
    in_reals = True


@dataclass(frozen=True)
class QuantizedWork:
    """One call with all its sizes, and how it is cut; channels and filters are of one group."""

    spec: QuantizedSpec
    batch: int
    groups: int
    channels: int
    filters: int
    size: tuple[int, int]
    output_size: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int]  # above and to the left
    around: tuple[int, int]  # channels of the arrays of which input and output are slices
    signed_input: bool
    x_zero: int
    y_zero: int
    limits: tuple[int, int]  # of outputs
    w_zeros: bool  # whether filters have zero points
    threads: int
    machine: Machine
    block: tuple[int, int] = (0, 0)  # rows and columns of outputs; those of `usual_block` for 0
    images: int = 1  # that share a block
    reals: Reals = Reals()

    # What the count reads of every kind of work.
    transforms: ClassVar[tuple[Any, Any]] = (None, None)
    padding_mode = "zeros"
    array_itemsize = 1
    depthwise = False

    def __post_init__(self) -> None:
        if not all(self.block):
            object.__setattr__(self, "block", self.usual_block())

    @property
    def variant(self) -> str:
        """The algorithm, and the instruction that multiplies."""
        return f"{self.spec.algorithm}_{self.spec.dot.name}"

    @property
    def split(self) -> bool:
        """Whether the threads share every block."""
        return self.shares > 1

    @property
    def inputs(self) -> int:
        """Channels of the input, of all groups."""
        return self.groups * self.channels

    # --- words

    @property
    def patches(self) -> bool:
        """Whether a row of the kernel is one tap: im2col."""
        return self.spec.algorithm == "im2col"

    @property
    def run(self) -> int:
        """Numbers that one tap takes of a position: channels, or those of a row of the kernel."""
        return self.channels * (self.kernel[1] if self.patches else 1)

    @property
    def words(self) -> int:
        """The words that they make: of tiles whole chunks, else as many as are multiplied."""
        words = int(blocks(self.run, self.spec.dot.together))
        return int(round_up(words, self.chunk if self.spec.tiles else self.spec.dot.deep))

    @property
    def chunk(self) -> int:
        """Words of a chunk: as many as a vector has, or, of tiles, the same in each."""
        lanes = self.spec.lanes
        if not self.spec.tiles:
            return lanes
        words = int(blocks(self.run, self.spec.dot.together))
        return int(even(words, lanes))

    @property
    def taps(self) -> int:
        """Positions that are summed."""
        return self.kernel[0] * (1 if self.patches else self.kernel[1])

    @property
    def flip(self) -> int:
        """What makes inputs signed where words hold signed bytes, and else unsigned."""
        signed = self.spec.dot.signed and self.spec.dot.together == 4
        return 128 if self.signed_input != signed else 0

    @property
    def zero(self) -> int:
        """The zero point of inputs as words hold them; what is 0 there has none."""
        unsigned = self.x_zero + (128 if self.signed_input else 0)
        return unsigned - 128 if self.spec.dot.signed and self.spec.dot.together == 4 else unsigned

    @property
    def padding_word(self) -> int:
        """A word of zeros."""
        if self.spec.dot.together < 4:
            return 0
        return int.from_bytes(bytes([self.zero & 255] * 4), "little", signed=True)

    # --- blocks

    @property
    def strip_size(self) -> tuple[int, int]:
        """Rows and columns of padded input that a block reads."""
        return self._strip_size(*self.block)

    def _strip_size(self, rows: int, cols: int) -> tuple[int, int]:
        high, wide = (
            (count - 1) * s + (k - 1) * d + 1
            for count, s, k, d in zip((rows, cols), self.stride, self.kernel, self.dilation)
        )
        return high, wide

    def _pitches(self, rows: int, cols: int) -> dict[str, int]:
        """Numbers from one row, phase and chunk of the strip to the next."""
        high, wide = self._strip_size(rows, cols)
        lanes, (down, across) = self.spec.lanes, self.stride
        if self.patches:
            wide, across = cols, 1
        row = int(blocks(wide, across)) * lanes
        phase = int(blocks(high, down)) * row
        # An odd number of vectors from one to the next spreads them over all cache sets.
        plane = down * across * phase | lanes
        return {
            "strip_row": row,
            "strip_phase": phase,
            "strip_rows": across * phase,
            "strip_plane": plane,
        }

    def _strip_bytes(self, rows: int, cols: int) -> int:
        chunks = int(blocks(self.words, self.chunk))
        # Whole vectors are read, up to one beyond what is needed; of tiles, whole blocks.
        spare = (self.spec.rows if self.spec.tiles else 1) * self.spec.lanes
        return (chunks * self._pitches(rows, cols)["strip_plane"] + spare) * 4

    def usual_block(self) -> tuple[int, int]:
        """Return as many rows and columns as leave half of L2 to the filters, if that also makes
        parts enough for all threads.
        """
        high, wide = self.output_size
        room = self.machine.l2_bytes // 2
        cols = wide
        while cols > self.spec.rows and self._strip_bytes(1, cols) > room:
            cols = int(even(wide, blocks(cols, 2)))
        rows = high
        while rows > 1 and self._strip_bytes(rows, cols) > room:
            rows = int(even(high, blocks(rows, 2)))
        wanted = _PARTS * self.threads if self.threads > 1 else 1
        while rows * cols > 2 * _LEAST_PIXELS:
            if self.batch * self.groups * blocks(high, rows) * blocks(wide, cols) >= wanted:
                break
            if rows > 1:
                rows = int(even(high, blocks(rows, 2)))
            else:
                cols = int(even(wide, blocks(cols, 2)))
        return rows, cols

    @property
    def flat(self) -> bool:
        """Whether the rows of a block are computed as one, so that tiles are full: with the
        positions between rows, if these are fewer than rows of tiles leave empty.
        """
        if not self.spec.tiles:
            return False
        rows, cols = self.block
        tiles = blocks(self.flat_length, self.spec.lanes)
        return bool(tiles <= rows * blocks(cols, self.spec.lanes))

    @property
    def flat_length(self) -> int:
        """Positions of a block, those between its rows included."""
        rows, cols = self.block
        return (rows - 1) * self._pitches(rows, cols)["strip_row"] // self.spec.lanes + cols

    @property
    def fetches(self) -> bool:
        """Whether filters are fetched ahead: if L2 does not hold them beside a block's input."""
        room = self.machine.l2_bytes - self._strip_bytes(*self.block)
        return self.spec.tiles and self.packed_bytes > room

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of blocks of a group and image."""
        high, wide = (int(blocks(n, size)) for n, size in zip(self.output_size, self.block))
        return high, wide

    @property
    def items(self) -> int:
        """Blocks of all groups and images."""
        return self.batch * self.groups * self.grid[0] * self.grid[1]

    @property
    def counted(self) -> int:
        """How often the work of `count` is done."""
        return self.items

    @property
    def shares(self) -> int:
        """Pieces of the filters of a block, where blocks are too few for the threads."""
        if not self.items or self.items >= self.threads:
            return 1
        filter_blocks = blocks(self.filters, VECTORS * self.spec.lanes)
        return int(min(filter_blocks, blocks(self.threads, self.items)))

    @property
    def schedule(self) -> tuple[int, int]:
        """(phases, parts of each)."""
        return 1, self.items * self.shares

    @property
    def products(self) -> int:
        """Multiplications of the definition."""
        outputs = self.output_size[0] * self.output_size[1] * self.filters
        taps = self.kernel[0] * self.kernel[1]
        return self.batch * self.groups * outputs * self.channels * taps

    # --- what it does

    @property
    def lanes(self) -> int:
        """Words of a vector."""
        return self.spec.lanes

    @property
    def out(self) -> tuple[int, int]:
        """Rows and columns of outputs."""
        return self.output_size

    @property
    def part(self) -> tuple[int, int, int, int]:
        """Rows and columns of outputs that are computed: all, from and to."""
        return 0, self.output_size[0], 0, self.output_size[1]

    @property
    def output_itemsize(self) -> int:
        """Bytes of one number of the output."""
        return 4 if self.spec.sums else 1

    @property
    def output_bytes(self) -> int:
        """The outputs of one image."""
        high, wide = self.output_size
        return self.groups * self.filters * high * wide * self.output_itemsize

    @property
    def sums_windows(self) -> bool:
        """Whether the inputs below every output are added up, for zero points of the filters."""
        return self.w_zeros and self.spec.dot.together == 4

    def count(self) -> Stages:
        """Return what the three stages of a block do: see `winogen.kernels.quantized_count`."""
        return quantized_count.count(self)

    def demands(self) -> Stages:
        """Return what the three stages of the whole call do."""
        return of_call(self, type(self).count, lambda block: block.strip_size)

    def cycles(self, machine: Machine) -> float:
        """Predict the cycles of the call on a machine."""
        return quantized_count.cycles(self, machine)

    # --- memory

    @property
    def padded_filters(self) -> int:
        """Filters of a group, in whole vectors."""
        return int(round_up(self.filters, self.spec.lanes))

    @property
    def packed_bytes(self) -> int:
        """Bytes of the packed filters, and of what else is known of each filter."""
        each = self.groups * self.padded_filters
        ones = int(blocks(self.words, self.chunk)) * self.spec.lanes
        return 4 * (4 * each + ones + each * self.taps * self.words)

    @property
    def _row(self) -> tuple[int, int, int]:
        """Of a row of input as bytes: from one phase and one channel to the next, and its size."""
        cols, lanes = self.block[1], self.spec.lanes
        wide = self._strip_size(1, cols)[1]
        if self.spec.layout == "NHWC":
            extra = lanes * self.spec.dot.together
            return 0, 0, wide * self.channels + extra if self.patches else 0
        # It is split into phases, as the strip is: loads go lanes beyond one.
        phase = int(blocks(wide, self.stride[1])) + lanes
        plane = phase * self.stride[1]
        return phase, plane, plane * self.channels + lanes

    @property
    def pitches(self) -> dict[str, int]:
        """Numbers from one row, phase and chunk to the next, of the strip and of a row of input."""
        phase, plane, _ = self._row
        return {**self._pitches(*self.block), "row_phase": phase, "row_plane": plane}

    @property
    def buffers(self) -> dict[str, Buffer]:
        """The buffers of a call by name."""
        rows, cols = self.block
        lanes = self.spec.lanes
        width = VECTORS * lanes
        # Of positions whose sums wait; more are read with the last.
        vectors = 1 if self.spec.layout == "NHWC" or self.spec.tiles else lanes
        waiting = min(self.spec.rows * vectors, round_up(cols, self.spec.rows))
        pitch = self._pitches(rows, cols)["strip_row"] // lanes
        return {
            "strip": Buffer(self._strip_bytes(rows, cols)),
            "row": Buffer(self._row[2]),
            "sum": Buffer(4 * width * (waiting + lanes)),
            "tap": Buffer(8 * self.taps),
            "source": Buffer(8 * (self.run + 4 * lanes) if self.spec.layout == "NCHW" else 0),
            "window": Buffer(4 * (rows * pitch + lanes) if self.sums_windows else 0),
        }
