"""What every operator of a graph tells of itself, and what is usual.

Shapes are (N, C, H, W), or (N, C, D, H, W) of volumes. Sizes may be symbols of a framework: they
are only added, multiplied, divided and compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from winogen.graph.ops.convolutions import Conv, Joined, Scaled
    from winogen.graph.ops.moves import Pad
    from winogen.graph.ops.numbers import Affine
    from winogen.graph.ops.quantized import Codes, QConv

Sizes = tuple[int, ...]  # along each axis
Shape = tuple[int, ...]  # of a value
# What `conv2d` takes as `activation=`: None, a name, or (name, parameters...).
ActivationSpec = str | tuple | None
ANY_NUMBER = 1 << 20  # of inputs


class Misfit(ValueError):
    """What an operator got that it does not compute, and what is allowed."""

    def __init__(self, got: str, allowed: str):
        super().__init__(f"got {got}; allowed: {allowed}")

    @classmethod
    def shape(cls, shape: Shape, allowed: str) -> Misfit:
        """Return that of an input of this shape."""
        return cls(f"an input of shape {tuple(shape)}", allowed)


class Window(NamedTuple):
    """What a map looks at along height and width: a window, or factors, or what is cropped."""

    kernel: Sizes
    stride: Sizes
    padding: Sizes
    dilation: Sizes


PIXEL = Window((1, 1), (1, 1), (0, 0, 0, 0), (1, 1))


class Operator:
    """An operator with one output. Operators are immutable records.

    What differs from the usual is said by each: see `winogen.graph.ops` for all of them.
    """

    inputs: ClassVar[range] = range(1, 2)  # how many values it may read
    # Of maps: its names in csrc/runtime/maps.h; of codes in csrc/network/bytes.h.j2.
    kinds: ClassVar[tuple[str, ...]] = ()
    is_convolution: ClassVar[bool] = False  # of floats, ordinary or transposed
    is_opaque: ClassVar[bool] = False  # kept by a framework: any number of outputs, never dead
    is_concat: ClassVar[bool] = False  # of its inputs, along the channels
    is_table: ClassVar[bool] = False  # of what codes become
    is_global: ClassVar[bool] = False  # whether its output is a single pixel
    fuses_sums: ClassVar[bool] = False  # before its activation, and one behind it
    fuses_pixel: ClassVar[bool] = False  # adds a map of one pixel first, if it reads one
    in_segments: ClassVar[bool] = True  # whether it may be part of one
    goes_by_stages: ClassVar[bool] = False  # of volumes: planes first and then depth, or reversed
    is_of_samples: ClassVar[bool] = False  # whether it makes samples, or pixels, of one each
    enlarges: ClassVar[bool] = False  # whether a map has more pixels than it reads
    payload: Any = None  # of what a framework keeps, the framework's own
    origin: str = ""  # the layout that it changes to the other, if it computes nothing else
    samples_before: int = 0  # of pieces of a signal before, that it puts before those of this piece
    loops: Any = None  # over arrays of any number of axes, where these compute it

    # ---- sizes -----------------------------------------------------------------------------------

    def rank(self, given: int) -> int:
        """How many axes it goes with; ``given`` where with any number."""
        return given

    def shape(self, shape: Shape) -> Shape:
        """Return the shape of the output for that of the first input; raises Misfit."""
        return shape

    def added(self, shape: Shape, other: Shape) -> Shape:
        """Return the shape that a further input must have beside an output of ``shape``."""
        return shape

    def codes(self, *given: Codes | None) -> Codes | None:
        """Return what codes of its output mean, of those of its inputs; None: it is floats."""
        return None

    def computed(self, *arrays: np.ndarray) -> np.ndarray:
        """Return what it computes, in numpy."""
        raise NotImplementedError(type(self).__name__)

    def output(self, inputs: Sequence[Shape]) -> Shape:
        """Return the shape of the output for those of all inputs; raises Misfit."""
        first, *others = inputs
        rank = len(first) - 2
        if rank != self.rank(rank):
            raise Misfit.shape(first, f"{2 + self.rank(rank)} axes")
        shape = self.shape(first)
        for other in others:
            wanted = self.added(shape, other)
            if tuple(other) != tuple(wanted):
                raise Misfit.shape(other, f"{wanted}, since it is added to that")
        return shape

    # ---- signals in pieces -----------------------------------------------------------------------

    def in_pieces(self) -> tuple[int, Operator]:
        """Return how many samples of the pieces before it sees, and itself on these and a piece.

        Samples go along the last axis. Raises Misfit where it sees samples to come, or all there
        are.
        """
        if self.is_elementwise or self.is_of_samples:
            return 0, self
        raise Misfit(str(self), "what sees some samples before each, and none behind it")

    # ---- what passes ask -------------------------------------------------------------------------

    @property
    def is_worthy(self) -> bool:
        """Whether a segment with it saves anything: whether it is a convolution, and no factor."""
        return False

    @property
    def weight_bytes(self) -> int:
        """Bytes of its filters."""
        return 0

    @property
    def is_elementwise(self) -> bool:
        """Whether it does the same to every number, wherever axes are."""
        return False

    @property
    def is_of_signals(self) -> bool:
        """Whether it means the same of a signal (N, C, W) as of its map (N, C, 1, W)."""
        return False

    @property
    def view(self) -> tuple[int, int] | None:
        """The channels of its input, (start, stop), that it is a view of; None if it computes."""
        return None

    @property
    def depthwise(self) -> Operator:
        """Itself, or the depthwise convolution 1x1 that computes the same."""
        return self

    @property
    def of_pixel(self) -> Operator:
        """Itself, or the same with a map of a single pixel as its second input."""
        return self

    @property
    def quantized(self) -> QConv | None:
        """Itself, if it is a convolution of 8-bit integers."""
        return None

    @property
    def signed(self) -> Operator:
        """The same of codes of int8, of an operator of codes."""
        raise NotImplementedError(type(self).__name__)

    @property
    def conv(self) -> Conv:
        """The ordinary convolution of floats that it is, or that computes all its phases."""
        raise NotImplementedError(type(self).__name__)

    @property
    def parameters(self) -> list[np.ndarray | Scaled | Joined]:
        """All arrays of it."""
        return [array for array in self.weights or () if array is not None]

    def scaled(self, affine: Affine, alone: bool) -> Operator | None:
        """Return it with an affine behind it; None where it takes none, or numbers overflow.

        ``alone``: whether the node reads one value only.
        """
        return None

    def folded(self, before: Operator, alone: bool) -> Operator | None:
        """Return ``before`` with it behind, if it is an affine: see `scaled`."""
        return None

    def padded(self, pad: Pad) -> Operator | None:
        """Return it with a padding before it; None where it takes none."""
        return None

    def put_before(self, after: Operator) -> Operator | None:
        """Return ``after`` with it before, if it is a padding: see `padded`."""
        return None

    def activated(self, activation: ActivationSpec) -> Operator | None:
        """Return it with an activation behind it; None where it takes none."""
        return None

    def fused(self, before: Operator) -> Operator | None:
        """Return ``before`` with it behind, if it is an activation: see `activated`."""
        return None

    # ---- what it is as a step --------------------------------------------------------------------

    def step(self, shape: Shape, dtype: np.dtype, adds: bool, adds_after: bool) -> Operator:
        """Return the operator that computes it, for an input of this shape.

        ``adds``, ``adds_after``: whether the node adds maps before or behind its activation.
        """
        return self

    @property
    def kind(self) -> str:
        """The name of what a map does, one of `kinds`."""
        (name,) = self.kinds
        return name

    @property
    def rows(self) -> tuple[int, int, int, int] | None:
        """Of a map that may run in strips: the rows that one of the output sees, their stride, rows
        of padding above, and how many times as many rows the output has; else None.
        """
        return None

    @property
    def window(self) -> Window:
        """What a map looks at; its own pixel where it is no window."""
        return PIXEL

    @property
    def weights(self) -> tuple[Any, Any] | None:
        """Its filters, or the factor of each channel, and its bias; None if it reads none.

        Filters of transposed layers are those of frameworks, the input's channels first.
        """
        return None

    @property
    def fields(self) -> dict[str, Any]:
        """What the struct of a map, a ``winogen_map``, has besides."""
        return {}

    @classmethod
    def of_layer(cls, kind: str, window: Window, layer: Any, activation: Any) -> Operator:
        """Return the map of a kind that a ``winogen_layer`` describes, without arrays."""
        return cls()

    def along(self, axes: Sequence[int]) -> Operator:
        """Return an operator of volumes along some axes of its own, as one of maps."""
        raise NotImplementedError(type(self).__name__)

    def channels_after(self, *channels: int) -> int:
        """Return how many channels it makes of those of its inputs."""
        return channels[0]

    def sizes_after(self, sizes: Sequence[int]) -> list[int]:
        """Return the sizes that it makes of sizes along its first axes, which nobody checks.

        Those of a model in a file need not be known.
        """
        raise NotImplementedError(type(self).__name__)


def fill(op: Any, rank: int, **defaults: int) -> None:
    """Give an operator of ``rank`` axes what it has along each where it was given nothing."""
    for name, default in (*defaults.items(), ("padding", 0)):
        if not getattr(op, name):
            count = 2 * rank if name == "padding" else rank
            object.__setattr__(op, name, (default,) * count)


def by_axis(padding: Sequence[int]) -> list[tuple[int, int]]:
    """Return flat padding as pairs, before and after each axis.

    >>> by_axis((1, 2, 3, 4))
    [(1, 2), (3, 4)]
    """
    return list(zip(padding[::2], padding[1::2]))


def windows(shape: Shape, reach: Any, stride: Any, padding: Any) -> list[Any]:
    """Return the sizes of outputs along each axis, of windows that reach so far; raises Misfit."""
    out = []
    for extent, taps, step, ends in zip(shape[2:], reach, stride, by_axis(padding)):
        room = extent + sum(ends) - taps
        if room < 0:
            raise Misfit.shape(shape, "at least as large as the kernel reaches")
        out.append(room // step + 1)
    return out


def seen(x: np.ndarray, window: Window, beyond: Any) -> np.ndarray:
    """Return what each window sees of maps, (N, C, H, W, KH, KW); ``beyond``: what padding is."""
    padding = ((0, 0), (0, 0), *by_axis(window.padding))
    x = np.pad(x, padding, constant_values=beyond)
    reach = [d * (k - 1) + 1 for d, k in zip(window.dilation, window.kernel)]
    views = np.lib.stride_tricks.sliding_window_view(x, reach, (2, 3))
    (down, right), (apart, across) = window.stride, window.dilation
    return views[:, :, ::down, ::right, ::apart, ::across]


def pixel(shape: Shape) -> Shape:
    """Return the shape of a map of a single pixel beside one of ``shape``."""
    return (*shape[:2], *[1] * (len(shape) - 2))


def finite(kind: Any, one: Any, other: Any) -> tuple[Any, Any] | None:
    """Return two arrays in a type; None where a number of them is too large for it."""
    one, other = one.astype(kind), other.astype(kind)
    return (one, other) if np.isfinite(one).all() and np.isfinite(other).all() else None


def times(sizes: Sequence[int]) -> str:
    """Return sizes as words, "3x3"."""
    return "x".join(map(str, sizes))


def listed(sizes: Sequence[int]) -> str:
    """Return sizes as words, "3,3"."""
    return ",".join(map(str, sizes))


def name_of(activation: ActivationSpec) -> str:
    """Return an activation in words.

    >>> name_of(("leaky_relu", 0.1)), name_of(None)
    ('leaky_relu 0.1', 'identity')
    """
    if activation is None or isinstance(activation, str):
        return activation or "identity"
    values = (f" {v:g}" if np.ndim(v) == 0 and not isinstance(v, str) else f" {v}"
              if isinstance(v, str) else "" for v in activation[1:])  # fmt: skip
    return activation[0] + "".join(values)


def arrays_of(activation: ActivationSpec) -> list[np.ndarray]:
    """Return the arrays among the parameters of an activation."""
    values = activation[1:] if isinstance(activation, tuple) else ()
    return [value for value in values if isinstance(value, np.ndarray)]
