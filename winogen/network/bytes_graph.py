"""A network of bytes: maps of codes, and of numbers between them, and what makes one of others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from winogen.network.reading import Array, Network
from winogen.onnx.model import Model

LOWEST, HIGHEST = -128, 127


class Codes(NamedTuple):
    """What a code means: scale * (code - zero), as int8; those of uint8 have 128 less here."""

    scale: float
    zero: int
    flip: int  # 128 for uint8, else 0


@dataclass(frozen=True)
class Map:
    """A value of an image: height x width x channels codes, or numbers, which have channels first.

    ``outer``: where it lies if not in the arena, "input" or "output" and the number of the caller's
    array, whose codes have channels first, too.
    """

    number: int
    channels: int
    height: int
    width: int
    floats: bool = False
    outer: tuple[str, int] | None = None

    @property
    def pixels(self) -> int:
        """How many there are."""
        return self.height * self.width

    @property
    def bytes(self) -> int:
        """How many it takes."""
        return self.count * (4 if self.floats else 1)

    @property
    def count(self) -> int:
        """How many codes or numbers there are."""
        return self.pixels * self.channels


@dataclass(frozen=True)
class Window:
    """How a window goes over a map: of both axes each."""

    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    before: tuple[int, int] = (0, 0)  # padding


@dataclass(frozen=True)
class After:
    """What follows sums: zero points, and the limits of what is written."""

    x_zero: int
    y_zero: int
    lowest: int = LOWEST
    highest: int = HIGHEST


@dataclass(frozen=True, eq=False)
class Convolution:
    """Sums of products, each filter's times its multiplier."""

    window: Window
    after: After
    weight: np.ndarray  # (M, C/groups, KH, KW), int8
    bias: np.ndarray  # (M,), int32
    multiplier: np.ndarray  # (M,), float32
    groups: int

    @property
    def depthwise(self) -> bool:
        """Whether each channel has one filter."""
        return self.groups > 1 and self.groups == len(self.weight) and self.weight.shape[1] == 1


@dataclass(frozen=True)
class Largest:
    """The largest code of each window."""

    window: Window


@dataclass(frozen=True, eq=False)
class Nearest:
    """Pixels chosen: for each row and column of the output that of the input."""

    rows: np.ndarray  # int32
    columns: np.ndarray  # int32


@dataclass(frozen=True)
class Mean:
    """The mean of each window; ``padded``: the numbers that count, or 0: those in the map."""

    window: Window
    after: After
    multiplier: float
    padded: int


@dataclass(frozen=True)
class Add:
    """The sum of two maps, with what a step of either is in steps of the sum."""

    after: After
    factors: tuple[float, float]
    z_zero: int


@dataclass(frozen=True, eq=False)
class Table:
    """A function of a code, or one for each channel; its outputs begin at a channel of a map."""

    table: np.ndarray  # (1, 256) or (C, 256), int8
    begin: int = 0


@dataclass(frozen=True)
class Quantize:
    """Numbers as codes; codes of a caller as a map's, where there is no scale."""

    scale: float | None
    after: After
    flip: int


@dataclass(frozen=True)
class Dequantize:
    """Codes as numbers; a map's codes as a caller's, where there is no scale."""

    scale: float | None
    zero: int
    flip: int


@dataclass(frozen=True, eq=False)
class Floats:
    """A part of the model that computes with float32, of an image."""

    network: Network
    feed: tuple[str, ...]  # what it reads, by its names in the whole model


Operator = Convolution | Largest | Nearest | Mean | Add | Table | Quantize | Dequantize | Floats


@dataclass(frozen=True)
class Step:
    """An operator, the maps that it reads, and those that it writes: nearly always one."""

    label: str
    op: Operator
    reads: tuple[Map, ...]
    output: Map
    more: tuple[Map, ...] = ()

    @property
    def maps(self) -> tuple[Map, ...]:
        """All maps that it reads or writes."""
        return (*self.reads, self.output, *self.more)


@dataclass(frozen=True)
class Ends(Array):
    """An input or output of a model: float or codes."""

    dtype: str = "float32"
    step: float | None = 1.0  # the distance of two outputs; None: what floats compute


@dataclass(frozen=True)
class ByteNetwork:
    """A model of bytes: its steps in their order, for each image of the batch."""

    model: Model
    batch: int
    inputs: tuple[Ends, ...]
    outputs: tuple[Ends, ...]
    steps: tuple[Step, ...]
    maps: tuple[Map, ...] = field(default=())

    @property
    def has_floats(self) -> bool:
        """Whether parts of it compute with floats."""
        return any(isinstance(step.op, Floats) for step in self.steps)
