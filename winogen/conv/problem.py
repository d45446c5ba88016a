"""What is to be computed, without a word about how: the layer and the input it is applied to.

`Layer` is all that stays the same between calls and is checked once; `Problem` adds the input's
sizes. Both are immutable, hashable and know no arrays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

from winogen.conv import arguments
from winogen.conv.options import Options
from winogen.errors import InvalidType, InvalidValue
from winogen.kernels.spec import PADDING_MODES
from winogen.records import Axis, Epilogue, Precision
from winogen.typing import Layout, PaddingMode

# Beyond this many bytes a tensor fits no machine, and byte counts in C would near the int64 limit.
_MOST_BYTES = 2**56

Pair = tuple[int, int]  # height, width

_ONE_PIXEL = (Axis(1), Axis(1))


@dataclass(frozen=True)
class Layer:
    """A convolution with its weights' shape and constant options, before any input is known.

    >>> layer = Layer.of((8, 4, 3, 3), "float32", padding="same", groups=2)
    >>> layer.channels, layer.filters, layer.padding
    (8, 8, (1, 1, 1, 1))
    >>> layer.problem((1, 8, 10, 10)).output_shape
    (1, 8, 10, 10)
    """

    filters: int  # M, over all groups
    channels: int  # C, over all groups
    axes: tuple[Axis, Axis]  # height, width
    groups: int
    padding_mode: PaddingMode
    layout: Layout
    epilogue: Epilogue
    dtype: str  # "float32" or "float64"

    @classmethod
    def of(cls, weight_shape: Any, dtype: str, **options: Any) -> Layer:
        """Return the checked layer; weight_shape is (M, C/groups, KH, KW).

        ``options``: stride, padding, dilation, groups, padding_mode, layout and activation, as
        `conv2d` takes them. Raises InvalidType or InvalidValue that names the argument, its value
        and what is allowed.
        """
        return cls.from_options(weight_shape, dtype, Options(**options))

    @classmethod
    def from_options(cls, weight_shape: Any, dtype: str, options: Options) -> Layer:
        """The same, of options that also say how it is computed."""
        weight_shape = tuple(weight_shape)
        if len(weight_shape) != 4:
            raise InvalidValue(
                f"weight: got shape {weight_shape}; allowed: 4 axes (M, C/groups, KH, KW)"
            )
        if min(weight_shape) <= 0:
            raise InvalidValue(f"weight: got shape {weight_shape}; allowed: axes of at least 1")
        filters, channels, *kernel = weight_shape
        stride = arguments.pair("stride", options.stride, 1)
        dilation = arguments.pair("dilation", options.dilation, 1)
        groups = arguments.whole("groups", options.groups, 1, "a positive int")
        if filters % groups:
            raise InvalidValue(
                f"groups: got {groups}; allowed: a divisor of the {filters} filters of weight"
            )
        top, bottom, left, right = arguments.padding(options.padding, kernel, stride, dilation)
        ends = ((top, bottom), (left, right))
        # A kernel of one has nothing to spread apart: every algorithm may ignore its dilation.
        height, width = (
            Axis(k, s, d if k > 1 else 1, *sides)
            for k, s, d, sides in zip(kernel, stride, dilation, ends)
        )
        return cls(
            filters=filters,
            channels=channels * groups,
            axes=(height, width),
            groups=groups,
            padding_mode=arguments.choice("padding_mode", options.padding_mode, PADDING_MODES),
            layout=arguments.choice("layout", options.layout, arguments.LAYOUTS),
            epilogue=arguments.activation(options.activation),
            dtype=dtype,
        )

    @property
    def kernel(self) -> Pair:
        """Taps along the height and the width."""
        return self.axes[0].kernel, self.axes[1].kernel

    @property
    def stride(self) -> Pair:
        """Height, width."""
        return self.axes[0].stride, self.axes[1].stride

    @property
    def dilation(self) -> Pair:
        """Height, width; 1 where the kernel has one tap."""
        return self.axes[0].dilation, self.axes[1].dilation

    @property
    def padding(self) -> tuple[int, int, int, int]:
        """Top, bottom, left, right."""
        height, width = self.axes
        return height.before, height.after, width.before, width.after

    @property
    def weight_shape(self) -> tuple[int, int, int, int]:
        """(M, C/groups, KH, KW)."""
        return (self.filters, self.channels // self.groups, *self.kernel)

    @property
    def itemsize(self) -> int:
        """Bytes of one number."""
        return Precision.of(self.dtype).itemsize

    @property
    def reach(self) -> Pair:
        """Rows and columns of input that one output sees."""
        return self.axes[0].reach, self.axes[1].reach

    @property
    def pointwise(self) -> bool:
        """Whether every output sees just the pixel at its own place."""
        return self.axes == _ONE_PIXEL

    def problem(self, input_shape: Any) -> Problem:
        """Return the problem of applying the layer to an input of this shape.

        ``input_shape`` is (N, C, H, W); (C, H, W) for one image; or (H, W) for one image where the
        layer has one channel. With the layout "NHWC" the channels come last. N may be 0. Raises
        InvalidValue.
        """
        shape = _shape(input_shape)
        planar = self.layout == "NCHW"
        if len(shape) == 2 and self.channels == 1:
            shape = (1, *shape) if planar else (*shape, 1)
        if len(shape) not in (3, 4):
            axes = "N, C, H, W" if planar else "N, H, W, C"
            raise InvalidValue(
                f"input: got shape {shape}; allowed: 4 axes ({axes}), 3 without N, or (H, W) with "
                "one channel"
            )
        batch = shape[0] if len(shape) == 4 else 1
        if planar:
            channels, height, width = shape[-3:]
        else:
            height, width, channels = shape[-3:]
        if channels != self.channels:
            groups = f" x {self.groups} groups" if self.groups > 1 else ""
            raise InvalidValue(
                f"input: got {channels} channels in shape {shape}; allowed: {self.channels} "
                f"(weight has {self.channels // self.groups}{groups}, layout is {self.layout})"
            )
        if height == 0 or width == 0:
            raise InvalidValue(f"input: got shape {shape}; allowed: height and width of at least 1")
        self._check_padding(height, width)
        out = self._output_size(height, width)
        seams = Seams(self.channels, self.filters)
        problem = Problem(self, batch, (height, width), out, seams, batched=len(shape) == 4)
        for name, count in (("input", problem.input_shape), ("output", problem.output_shape)):
            self._check_bytes(f"{name}: got shape {count}", count)
        padded = tuple(axis.padded(size) for axis, size in zip(self.axes, (height, width)))
        self._check_bytes(
            f"padding: got {self.padding}, that is a padded input of "
            f"{' x '.join(map(str, padded))}",
            (self.channels, *padded),
        )
        return problem

    def _check_bytes(self, what: str, extents: tuple[int, ...]) -> None:
        size = prod(extents) * self.itemsize
        if size > _MOST_BYTES:
            raise InvalidValue(f"{what}, {size} bytes; allowed: at most {_MOST_BYTES} bytes")

    def _check_padding(self, height: int, width: int) -> None:
        """Reflection leaves out the edge itself, so it needs one more pixel than circular."""
        if self.padding_mode not in ("reflect", "circular"):
            return
        spare = 1 if self.padding_mode == "reflect" else 0
        for name, size, axis in zip(("height", "width"), (height, width), self.axes):
            ends = axis.before, axis.after
            if max(ends) > size - spare:
                raise InvalidValue(
                    f"padding: got {ends} along an input {name} of {size}; allowed: at most "
                    f'{size - spare} with padding_mode "{self.padding_mode}"'
                )

    def _output_size(self, height: int, width: int) -> Pair:
        padded = self.axes[0].padded(height), self.axes[1].padded(width)
        if padded[0] < self.reach[0] or padded[1] < self.reach[1]:
            dilated = f" (dilated by {self.dilation})" if self.dilation != (1, 1) else ""
            raise InvalidValue(
                f"weight: got a kernel reaching over {self.reach[0]} x {self.reach[1]}{dilated}; "
                f"allowed: at most the padded input, {padded[0]} x {padded[1]}"
            )
        return self.axes[0].outputs(height), self.axes[1].outputs(width)


class Seams(NamedTuple):
    """How many channels the arrays have around a call's slices of them; 0: no such array."""

    input: int
    output: int
    add: int = 0
    add_after: int = 0


@dataclass(frozen=True)
class Problem:
    """One convolution with all its sizes."""

    layer: Layer
    batch: int
    size: Pair  # of the input: height, width
    output_size: Pair
    seams: Seams
    batched: bool = True  # whether the arrays have the batch axis

    @property
    def epilogue(self) -> Epilogue:
        """The layer's activation and what is added before and behind it."""
        seams = self.seams
        if not (seams.add or seams.add_after):
            return self.layer.epilogue
        return replace(self.layer.epilogue, add=seams.add > 0, add_after=seams.add_after > 0)

    def sewn(self, seams: Seams) -> Problem:
        """The same problem with arrays that may be slices, and with additions."""
        return self if seams == self.seams else replace(self, seams=seams)

    @cached_property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of the input array, in the layout asked for."""
        return self._shape(self.layer.channels, *self.size)

    @cached_property
    def output_shape(self) -> tuple[int, ...]:
        """The shape of the output array, in the layout asked for."""
        return self._shape(self.layer.filters, *self.output_size)

    @property
    def stride(self) -> Pair:
        """The layer's, but 1 along an axis with one output, where no step is taken."""
        height, width = (
            stride if count > 1 else 1 for stride, count in zip(self.layer.stride, self.output_size)
        )
        return height, width

    def sizes(self, in_row: bool) -> tuple[Pair, Pair]:
        """Sizes of input and output as a kernel takes them, or all pixels as one row."""
        if in_row:
            row = 1, prod(self.size)
            return row, row
        return self.size, self.output_size

    @property
    def direct_multiplications(self) -> int:
        """Multiplications of the definition, over the batch: N·OH·OW·M·(C/groups)·KH·KW."""
        return self.batch * prod(self.output_size) * prod(self.layer.weight_shape)

    def _shape(self, channels: int, height: int, width: int) -> tuple[int, ...]:
        planar = self.layer.layout == "NCHW"
        image = (channels, height, width) if planar else (height, width, channels)
        return (self.batch, *image) if self.batched else image


def _shape(shape: Any) -> tuple[int, ...]:
    if not isinstance(shape, (tuple, list)):
        raise InvalidType(f"input_shape: got {shape!r}; allowed: a tuple of ints")
    allowed = "a tuple of non-negative ints"
    return tuple(arguments.whole("input_shape", size, 0, allowed) for size in shape)
