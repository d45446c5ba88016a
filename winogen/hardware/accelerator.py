"""An engine for layers of bytes: its circuit, which layers it takes, and its settings for each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd
from typing import TYPE_CHECKING

from winogen.codegen.verilog.engine import EngineCircuit, Memories
from winogen.errors import InvalidValue, Unsupported
from winogen.hardware.arithmetic import integers, transform
from winogen.hardware.engine import Engine

if TYPE_CHECKING:
    from winogen.algebra.bilinear import BilinearAlgorithm
    from winogen.fixed.integral import Integral

WINDOW = 16  # slices of a window in 1x1 mode: 16 accumulators
_RESIDENT = 64  # groups of filters that hold buffers are made for
_DEEPEST = 1 << 15  # words of a memory
_COUNTS = (1 << 16) - 1
_MULTIPLIERS = 1 << 14
_LARGEST_TILE = 16


@dataclass(frozen=True)
class LayerShape:
    """The sizes of a layer: C channels of H x W to M filters of r x r taps, with padding."""

    channels: int
    height: int
    width: int
    filters: int
    taps: int
    padding: int

    @property
    def pointwise(self) -> bool:
        """Whether it is 1x1."""
        return self.taps == 1

    @property
    def out_height(self) -> int:
        """Rows of the result."""
        return self.height + 2 * self.padding - self.taps + 1

    @property
    def out_width(self) -> int:
        """Columns of the result."""
        return self.width + 2 * self.padding - self.taps + 1

    def __str__(self) -> str:
        return (
            f"{self.channels} channels of {self.height} x {self.width}, {self.filters} filters of "
            f"{self.taps} x {self.taps}, padding {self.padding}"
        )


@dataclass(frozen=True)
class Accelerator:
    """An engine as a circuit, in one of two arithmetics.

    ``engine``: its size. ``circuit``: its parts, their widths and memories.
    """

    engine: Engine
    circuit: EngineCircuit

    def settings(self, shape: LayerShape) -> dict[str, int]:
        """Return what the engine's ports say of a layer, but for its numbers.

        Raises Unsupported for layers that it does not compute, in one sentence.
        """
        check(self.circuit, shape)
        circuit, memories = self.circuit, self.circuit.memories
        groups, filter_groups = _groups(circuit, shape)
        if filter_groups > memories.filter_groups:
            raise _too_large("filters", shape.filters, memories.filter_groups * circuit.f_o)
        resident = groups * filter_groups <= memories.buffers
        shared = {
            "pointwise": int(shape.pointwise),
            "channel_groups": groups,
            "filter_groups": filter_groups,
            "padding": shape.padding,
            "resident": int(resident),
            "buffers": groups * filter_groups if resident else memories.buffers,
        }
        if shape.pointwise:
            return shared | self._of_slices(shape, groups)
        return shared | self._of_tiles(shape, groups)

    def _of_tiles(self, shape: LayerShape, groups: int) -> dict[str, int]:
        circuit, memories = self.circuit, self.circuit.memories
        tiles, group_words = _row_of_tiles(circuit, shape)
        windows = -(-shape.out_height // circuit.m)
        ring = min(memories.rows // (groups * group_words), circuit.t + circuit.m)
        if ring < circuit.t or tiles * circuit.t > memories.sums:
            words = memories.rows // (circuit.t * groups)
            most = min(2 * words - 1, memories.sums // circuit.t) * circuit.lanes * circuit.m
            raise _too_large("width", shape.width, most - (shape.out_width - shape.width))
        row_words = groups * group_words
        return {
            "height": shape.height,
            "stream_words": -(-shape.width // (circuit.lanes * circuit.m)),
            "windows": windows,
            "tiles": tiles,
            "last_tiles": tiles,
            "rows": (windows - 1) * circuit.m + circuit.t,
            "ring_rows": ring,
            "ring_words": ring * row_words,
            "row_words": row_words,
            "group_words": group_words,
            "window_words": circuit.m * row_words,
            "out_height": shape.out_height,
            "out_width": shape.out_width,
        }

    def _of_slices(self, shape: LayerShape, groups: int) -> dict[str, int]:
        circuit, memories = self.circuit, self.circuit.memories
        pixels = shape.height * shape.width
        slices = -(-pixels // (circuit.lanes * circuit.t))
        # A window is read while the next one comes, and one more hides the change.
        size = min(slices, memories.rows // (3 * groups), memories.sums, WINDOW)
        if size < 1:
            raise _too_large("channels", shape.channels, memories.rows // 3 * circuit.f_i)
        windows = -(-slices // size)
        row_words = groups * size
        ring = min(memories.rows // row_words, windows)
        return {
            "height": windows,
            "stream_words": size,
            "windows": windows,
            "tiles": size,
            "last_tiles": slices - (windows - 1) * size,
            "rows": windows,
            "ring_rows": ring,
            "ring_words": ring * row_words,
            "row_words": row_words,
            "group_words": size,
            "window_words": row_words,
            "out_height": 1,
            "out_width": pixels,
        }

    def cycles(self, shape: LayerShape) -> int:
        """Return the cycles from a layer's first products to its last, where nothing has to wait.

        Rows of the input come in time if `in_time` says so, filters that are not resident if a row
        has f_o tiles or more in each lane. Lanes are neighbours in a row of tiles, so the engine
        model's cycles hold for rows whose tiles fill the lanes; others leave some idle at their
        end.
        """
        settings = self.settings(shape)
        rows = 1 if shape.pointwise else self.circuit.t
        tiles = (settings["windows"] - 1) * settings["tiles"] + settings["last_tiles"]
        return tiles * rows * settings["channel_groups"] * settings["filter_groups"]

    def in_time(self, shape: LayerShape) -> bool:
        """Return whether the rows of a window, a word in a cycle, take no longer than its sums."""
        settings = self.settings(shape)
        if shape.pointwise or settings["windows"] == 1:
            return True
        tiles, filter_groups = settings["tiles"], settings["filter_groups"]
        return self.circuit.m * (tiles + 1) <= filter_groups * tiles * self.circuit.t


def accelerator(
    engine: Engine,
    largest: LayerShape,
    *,
    quantised: bool = False,
    algorithm: BilinearAlgorithm | None = None,
    buffers: int | None = None,
) -> Accelerator:
    """Return an engine with memories for a layer; it takes all layers that fit into these.

    ``quantised``: transformed numbers are rescaled to 8 bits; else it is exact. ``algorithm``:
    F(m, r) of T products with m + r - 1 = T (default: that of the engine's model). ``buffers``:
    hold buffers for groups of filters (default: all of the layer, if these are up to 64, or 2).
    Raises Unsupported for layers that the engine does not compute.
    """
    algorithm = algorithm or transform(engine)
    if algorithm.products != algorithm.n or algorithm.n != engine.T:
        raise Unsupported(
            f"points: got {algorithm.products} products of tiles of {algorithm.n}; allowed: "
            f"{engine.T} of both, which the engine has"
        )
    if algorithm.r < 2 or algorithm.r - 1 > algorithm.m:
        raise Unsupported(
            f"engine: got T = {engine.T} for filters of {algorithm.r} x {algorithm.r}; allowed: at "
            f"least {2 * algorithm.r - 2}"
        )
    if engine.T > _LARGEST_TILE:
        raise Unsupported(f"engine: got T = {engine.T}; allowed: at most {_LARGEST_TILE}")
    if engine.multipliers > _MULTIPLIERS:
        raise Unsupported(
            f"engine: got {engine.multipliers} multipliers; allowed: at most {_MULTIPLIERS}"
        )
    made = _light(integers(algorithm)) if quantised else integers(algorithm)
    circuit = EngineCircuit(made, engine.f_i, engine.f_o, engine.L, quantised, Memories(0, 0, 0, 0))
    check(circuit, largest)
    groups, filter_groups = _groups(circuit, largest)
    if largest.pointwise:
        rows, sums = 3 * groups * WINDOW, WINDOW
    else:
        tiles, words = _row_of_tiles(circuit, largest)
        rows, sums = (circuit.t + circuit.m) * groups * words, max(tiles * circuit.t, WINDOW)
    all_groups = groups * filter_groups
    if buffers is None:
        buffers = all_groups if all_groups <= _RESIDENT else 2
    memories = Memories(rows, sums, buffers, filter_groups)
    for what, size in (
        ("the line buffer", rows), ("partial sums", sums),
        ("hold buffers", buffers * circuit.t), ("scales", filter_groups * circuit.t),
    ):  # fmt: skip
        if size > _DEEPEST:
            raise Unsupported(
                f"input, weight: got {largest}; allowed: what takes at most {_DEEPEST} words of "
                f"{what}, not {size}"
            )
    sized = EngineCircuit(made, engine.f_i, engine.f_o, engine.L, quantised, memories)
    return Accelerator(engine, sized)


def _light(made: Integral) -> Integral:
    """The same algorithm with the smallest integers in A^T.

    What its columns have in common goes to the rows of G, whose results are rescaled anyway. So the
    output transform lets sums grow less.
    """
    common = [gcd(*column) for column in zip(*made.at)]
    at = tuple(tuple(c // by for c, by in zip(row, common)) for row in made.at)
    g = tuple(tuple(c * by for c in row) for row, by in zip(made.g, common))
    light = replace(made, at=at, g=g)
    light.verify()
    return light


def check(circuit: EngineCircuit, shape: LayerShape) -> None:
    """Raise Unsupported where an engine does not compute a layer, whatever its memories are."""
    if shape.taps not in (1, circuit.r):
        raise Unsupported(
            f"weight: got filters of {shape.taps} x {shape.taps}; allowed: 1 x 1 and "
            f"{circuit.r} x {circuit.r}"
        )
    if not 0 <= shape.padding < shape.taps:
        raise Unsupported(
            f"padding: got {shape.padding}; allowed: 0 .. {shape.taps - 1} for filters of "
            f"{shape.taps} x {shape.taps}"
        )
    if min(shape.out_height, shape.out_width) < 1:
        raise InvalidValue(f"input: got {shape}; allowed: what leaves at least one pixel")
    if not circuit.channels:
        raise Unsupported(
            f"engine: got T = {circuit.t}, of which sums of 32 bits hold not one channel of bytes; "
            "allowed: smaller tiles, or points that are small integers"
        )
    if shape.channels > circuit.channels:
        raise Unsupported(
            f"weight: got {shape.channels} channels; allowed: at most {circuit.channels}, which "
            "the engine's sums of 32 bits hold"
        )
    if shape.pointwise and shape.height * shape.width > _COUNTS:
        raise Unsupported(
            f"input: got {shape.height * shape.width} pixels; allowed: at most {_COUNTS} for 1 x 1"
        )


def _groups(circuit: EngineCircuit, shape: LayerShape) -> tuple[int, int]:
    """(groups of channels, groups of filters) of a layer."""
    return -(-shape.channels // circuit.f_i), -(-shape.filters // circuit.f_o)


def _row_of_tiles(circuit: EngineCircuit, shape: LayerShape) -> tuple[int, int]:
    """(tiles of a row, words of a bank of a row in a group of channels)."""
    tiles = -(-shape.out_width // (circuit.lanes * circuit.m))
    return tiles, (tiles + 2) // 2


def _too_large(what: str, got: int, most: int) -> Unsupported:
    return Unsupported(
        f"{what}: got {got}; allowed: at most {max(most, 0)}, which the engine has memories for"
    )
