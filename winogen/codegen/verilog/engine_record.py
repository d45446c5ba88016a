"""What the templates of an engine know: its sizes, widths and settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from winogen.codegen.templates import Context
from winogen.codegen.verilog.module import Port


class Setting(NamedTuple):
    """A port that says something of a layer: its bits, and what it means."""

    name: str
    bits: int
    meaning: str


SETTINGS = (
    Setting("pointwise", 1, "1x1 mode: nothing is transformed"),
    Setting("height", 16, "rows of the input (1x1: windows)"),
    Setting("padding", 4, "on each side"),
    Setting("in_zero", 8, "the input's zero, which padding consists of"),
    Setting("stream_words", 16, "of a row of the input and a group of channels"),
    Setting("windows", 16, "rows of tiles (1x1: windows of up to 16 slices)"),
    Setting("tiles", 16, "of a window, in all lanes together one"),
    Setting("last_tiles", 16, "of the last window"),
    Setting("channel_groups", 16, "channels / f_i, rounded up"),
    Setting("filter_groups", 16, "filters / f_o, rounded up"),
    Setting("rows", 16, "of the line buffer that are written, padding and all"),
    Setting("ring_rows", 16, "rows that it holds at a time"),
    Setting("ring_words", 16, "words of each bank that these take"),
    Setting("row_words", 16, "of each bank, a row takes"),
    Setting("group_words", 16, "of each bank, a group of channels takes in a row"),
    Setting("window_words", 16, "of each bank, from a window to the next"),
    Setting("resident", 1, "all filters fit into the hold buffers: they come once"),
    Setting("buffers", 16, "hold buffers that are used"),
    Setting("out_height", 16, "rows of the result (1x1: 1)"),
    Setting("out_width", 16, "pixels of such a row (1x1: all pixels)"),
    Setting("shift", 6, "of the last scale"),
    Setting("relu", 1, "results are out_zero at least"),
    Setting("out_zero", 8, "the result's zero"),
)


class Case(NamedTuple):
    """How a row of a column is rescaled, for these columns."""

    columns: str
    value: str


class Rescaled(NamedTuple):
    """How the values of a row of a tile are rescaled to 8 bits."""

    row: int
    wide: int
    cases: tuple[Case, ...]
    saturated: str


# The modules, and what each is.
PARTS = {
    "engine": "{name}: an engine for convolution by Cook-Toom algorithms, in bytes.",
    "schedule": "{name}_schedule: which slice is read in each cycle.",
    "rows": "{name}_rows: the line buffer.",
    "tile": "{name}_tile: the input transform of a channel.",
    "filters": "{name}_filters: the hold buffers of filters.",
    "dot": "{name}_dot: products of a slice at one position, for one filter.",
    "table": "{name}_table: scales or offsets of sums of products.",
    "sums": "{name}_sums: partial sums of a window.",
    "result": "{name}_result: the output transform of a filter.",
    "finish": "{name}_finish: results as bytes.",
    "scale": "{name}_scale: scale, offset and ReLU of one pixel.",
    "delay": "{name}_delay: a shift register.",
}


@dataclass(frozen=True, kw_only=True)
class EngineContext(Context, templates=tuple(f"verilog/engine/{part}.v.j2" for part in PARTS)):
    """What the templates of an engine know."""

    name: str
    command: str  # the first line
    title: str = ""  # what a module is
    about: Sequence[str]
    settings: Sequence[Setting]
    # The tiles F(m, r) of t x t numbers, and the sizes of the engine.
    m: int
    r: int
    t: int
    lanes: int
    f_i: int
    f_o: int
    quantised: bool
    # Pixels, words and slices.
    word_pixels: int
    word_bits: int
    slice_pixels: int
    others: str  # a slice behind its first word
    pixel_count: int  # of results of all filters
    sums_count: int
    # Bits of what is transformed along x, transformed, of filters, products and their sums.
    x_bits: int
    v_bits: int
    u_bits: int
    product_bits: int
    sum_bits: int
    dot_bits: int  # as sums leave
    scale_bits: int
    scale_point: int
    scaled_bits: int
    acc_bits: int
    offset_bits: int
    finish_bits: int
    filter_bits: int
    # Words of memories, and bits of their addresses.
    row_depth: int
    row_bits: int
    sum_depth: int
    sum_address: int
    filter_depth: int
    filter_address: int
    table_depth: int
    table_address: int
    finish_depth: int
    finish_index: int
    dot_cycles: int  # from a product to its sum
    # Transforms: their ports, and what they are connected with.
    x_outputs: Sequence[Port]
    y_outputs: Sequence[Port]
    outputs: Sequence[Port]
    along_x: str
    along_y: str
    pixels_extended: str
    rescaled: Sequence[Rescaled]
    rescaled_values: str
    along_columns: str
    # The scale of results, 2^power * odd, and the inverse of odd modulo the range of sums.
    odd: int
    power: int
    inverse: int
    spelled_scale: str
    unused: Sequence[str]  # bits that nothing reads
