"""Layers without weights on an engine: pools, sums, activations, concatenations.

In a cycle T outputs of f_o filters in L lanes leave the multipliers, and are scaled, offset and
compared with 0: by T * f_o * L places, each of which multiplies, adds and takes a maximum. The same
places compute these layers. Each takes an operand of its output in a cycle, so an output of k
operands takes k cycles, zeros of the padding among them, for the places are in step:

- a pool has the taps of its window, a sum of n maps n, an activation 1, a concatenation none: each
  layer writes where its channels belong.
- A phase of its own ("apart") gets operands as the multipliers get inputs, so that min(f_i, f_o)
  channels are computed at a time. Whoever fetches inputs shifts them, and keeps the rows of a
  window: each is read from memory once.
- Behind the layer before ("fused") operands are its outputs, of f_o filters at a time, and nothing
  of them goes to memory: a sum takes one operand less, an activation none. It runs beside the
  multipliers, on outputs that are done, and a ring holds all rows until no window needs them. Both
  take the cycles of the longer one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from winogen.conv.arguments import choice, whole
from winogen.errors import InvalidValue, Unsupported
from winogen.hardware.mapping import blocks

if TYPE_CHECKING:
    from winogen.conv.problem import Problem
    from winogen.hardware.engine import Engine
    from winogen.hardware.mapping import Mapping
    from winogen.hardware.traffic import Traffic
    from winogen.records import Axis

POOLS = ("max", "average")
KINDS = (*POOLS, "sum", "activation", "concatenation")
_WINDOW = ("kernel", "stride", "padding", "dilation")


@dataclass(frozen=True)
class OtherLayer:
    """A layer without weights. ``problem``: its sizes, as of a filter for each channel."""

    kind: str
    problem: Problem
    maps: int  # that are added

    @classmethod
    def of(
        cls, kind: str, input: Any, kernel: Any = 1, *, maps: int = 0, **options: Any
    ) -> OtherLayer:
        """Return a layer of `KINDS`; ``input`` is (N, C, H, W).

        ``kernel``: of a pool, None for the whole map; ``maps``: that a sum adds (default: 2).
        ``options`` are stride, padding and dilation. Raises InvalidType and InvalidValue.
        """
        from winogen.conv.problem import Layer

        choice("kind", kind, KINDS)
        if not isinstance(input, (tuple, list)) or len(input) != 4:
            raise InvalidValue(f"input: got {input!r:.60}; allowed: (N, C, H, W)")
        shape = tuple(whole("input", size, 1, "a shape of positive ints") for size in input)
        for name, value in (options if kernel == 1 else {"kernel": kernel, **options}).items():
            if kind not in POOLS or name not in _WINDOW:
                pools = " and ".join(POOLS)
                raise InvalidValue(
                    f"{name}: got {value!r:.60}; allowed: {', '.join(_WINDOW)} of {pools} pools"
                )
        if kind == "sum":
            maps = whole("maps", maps or 2, 2, "an int of at least 2")
        elif maps:
            raise InvalidValue(f"maps: got {maps} for kind={kind!r}; allowed: for 'sum'")
        given = shape[2:] if kernel is None else kernel
        given = given if isinstance(given, (tuple, list)) else (given, given)
        taps = [whole("kernel", one, 1, "a positive int, two of them, or None") for one in given]
        layer = Layer.of((shape[1], 1, *taps), "float32", groups=shape[1], **options)
        return cls(kind, layer.problem(shape), maps or 1)

    def __str__(self) -> str:
        layer = self.problem.layer
        size, kernel = ("x".join(map(str, some)) for some in (self.problem.size, layer.kernel))
        stride = f"/{layer.stride[0]}" if max(layer.stride) > 1 else ""
        window = f" {kernel}{stride}" if self.kind in POOLS else ""
        return f"{size}, {layer.channels}, {self.kind}{window}"


@dataclass(frozen=True)
class OtherMapping:
    """A layer without weights on an engine, counted. ``before``: whose outputs it takes as they
    come, None where it is a phase of its own. A model.
    """

    engine: Engine
    layer: OtherLayer
    before: Mapping | None = None

    def __post_init__(self) -> None:
        before, shape = self.before, self.layer.problem.input_shape
        if before is None:
            return
        if before.engine != self.engine:
            raise Unsupported(f"before: got {before.engine}; allowed: {self.engine}")
        if before.problem.output_shape != shape:
            made = before.problem.output_shape
            raise InvalidValue(f"before: got outputs {made}; allowed: {shape}")
        if max(before.problem.layer.dilation) > 1:
            raise Unsupported(
                f"before: got dilation {before.problem.layer.dilation}; allowed: 1, whose tiles "
                "are in the order of the map"
            )

    @property
    def axes(self) -> tuple[Axis, Axis]:
        """The window along height and width."""
        height, width = self.layer.problem.layer.plane
        return height, width

    @property
    def operands(self) -> int:
        """Cycles of an output."""
        if self.layer.kind == "concatenation":
            return 0
        if self.before is not None and self.layer.kind not in POOLS:
            return self.layer.maps - 1
        return self.layer.maps * prod(self.layer.problem.layer.kernel)

    @cached_property
    def channel_blocks(self) -> int:
        """Blocks of channels that are computed one after another."""
        if self.before is not None:
            return self.before.turns * self.before.filter_blocks
        at_once = min(self.engine.f_i, self.engine.f_o)
        return blocks(self.layer.problem.layer.channels, at_once)

    @property
    def pixel_blocks(self) -> int:
        """Blocks of rows of T outputs, one in every lane."""
        problem = self.layer.problem
        rows = blocks(problem.batch * prod(problem.output_size), self.engine.T)
        return blocks(rows, self.engine.L)

    @property
    def cycles(self) -> int:
        """Cycles in which operands are taken, if nothing has to be waited for."""
        return self.operands * self.channel_blocks * self.pixel_blocks

    @property
    def inputs(self) -> int:
        """Words that are read from memory: all that windows see but for outputs of ``before``."""
        problem, maps = self.layer.problem, self.layer.maps
        if self.layer.kind == "concatenation":
            return 0
        if self.before is not None:
            maps = 0 if self.layer.kind in POOLS else maps - 1
        seen = (
            len(_seen(axis, size, outputs))
            for axis, size, outputs in zip(self.axes, problem.size, problem.output_size)
        )
        return maps * problem.batch * problem.layer.channels * prod(seen)

    @property
    def outputs(self) -> int:
        """Words that are written."""
        if self.layer.kind == "concatenation" and self.before is None:
            return 0
        return prod(self.layer.problem.output_shape)

    @cached_property
    def rows(self) -> int:
        """Rows of inputs that are kept: of a window; fused, in the ring, if the places keep up."""
        axis, size = self.axes[0], self.layer.problem.size[0]
        outputs = self.layer.problem.output_size[0]
        if max(one.kernel for one in self.axes) == 1:
            return 0
        if self.before is None:
            return min(axis.reach, size)
        # A row of tiles comes while the windows that end above it are computed.
        high = self.before.parts[0].outputs if self.before.transformed else 1
        most = 0
        for done in range(0, size, high):
            open_windows = (n * axis.stride - axis.before for n in range(outputs))
            first = next((at for at in open_windows if at + axis.reach > done), size)
            most = max(most, min(done + high, size) - max(first, 0))
        return most

    @property
    def buffer(self) -> int:
        """Words of these rows: of the channels at a time, or of all behind a layer ("OS")."""
        layer, engine = self.layer.problem.layer, self.engine
        channels = layer.channels
        if self.before is None:
            channels = min(channels, engine.f_i, engine.f_o)
        return channels * self.rows * self.layer.problem.size[1]

    def needed(self) -> list[int]:
        """Return how many blocks of tiles of ``before`` each block of outputs has to wait for."""
        before, problem = self.before, self.layer.problem
        assert before is not None
        ends = [
            np.clip(np.arange(outputs) * axis.stride - axis.before + axis.reach - 1, 0, size - 1)
            for axis, size, outputs in zip(self.axes, problem.size, problem.output_size)
        ]
        image = np.arange(problem.batch)[:, None, None]
        down, right = ends[0][:, None], ends[1]
        if before.transformed:
            tall, wide = before.parts
            tiles = (image * tall.tiles + down // tall.outputs) * wide.tiles + right // wide.outputs
        else:
            height, width = problem.size
            tiles = ((image * height + down) * width + right) // self.engine.T
        at_once = self.engine.L if before.lanes == "regions" else 1
        last = np.maximum.accumulate(tiles.ravel() // at_once + 1)
        size = self.engine.T * self.engine.L
        return [int(last[min(first + size, len(last)) - 1]) for first in range(0, len(last), size)]


def _seen(axis: Axis, size: int, outputs: int) -> set[int]:
    """The inputs that windows see along an axis."""
    return {
        at
        for output in range(outputs)
        for tap in range(axis.kernel)
        if 0 <= (at := output * axis.stride + tap * axis.dilation - axis.before) < size
    }


def cycles_together(before: Mapping, fused: Sequence[OtherMapping]) -> int:
    """Return the cycles of a layer and of what is fused behind it, if nothing has to be waited for.

    >>> from winogen.hardware import Engine
    >>> layer = Engine(16, 4, 16, 2).mapping((1, 3, 224, 224), (64, 3, 3, 3), padding=1)
    >>> pool = layer.engine.other("max", (1, 64, 224, 224), 2, stride=2, before=layer)
    >>> layer.cycles, pool.cycles, cycles_together(layer, [pool])
    (100352, 25088, 100352)
    """
    return max(before.cycles, sum(one.cycles for one in fused))


def bytes_together(moved: Traffic, fused: Sequence[OtherMapping]) -> int:
    """Return what a layer and what is fused behind it move: the outputs of the last one only."""
    outputs = fused[-1].outputs if fused else moved.outputs
    return moved.bytes - moved.outputs + outputs + sum(one.inputs for one in fused)
