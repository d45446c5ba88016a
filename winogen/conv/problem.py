"""What is to be computed, without a word about how: the layer and the input it is applied to.

Layers have one to three axes; what they have along each is a tuple in the order of `AXES`.

`Layer` is all that stays the same between calls and is checked once; `Problem` adds the input's
sizes. Both are immutable, hashable and know no arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

from winogen.conv import arguments
from winogen.conv.options import Options
from winogen.errors import InvalidValue
from winogen.kernels.spec import PADDING_MODES
from winogen.records import AXES, Axis, Epilogue, Precision
from winogen.typing import Layout, PaddingMode

# Beyond this many bytes a tensor fits no machine, and byte counts in C would near the int64 limit.
_MOST_BYTES = 2**56

Sizes = tuple[int, ...]  # along each axis
Pair = tuple[int, int]  # height, width


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
    axes: tuple[Axis, ...]  # one to three, as the layout says: width; height, width; depth, ...
    groups: int
    padding_mode: PaddingMode
    layout: Layout
    epilogue: Epilogue
    dtype: str  # "float32" or "float64"

    @classmethod
    def of(cls, weight_shape: Any, dtype: str, **options: Any) -> Layer:
        """Return the checked layer; weight_shape is (M, C/groups, KH, KW).

        ``options``: stride, padding, dilation, groups, padding_mode, layout and activation, as
        `conv2d` takes them. The layout says how many axes there are. Raises InvalidType or
        InvalidValue that names the argument, its value and what is allowed.
        """
        return cls.from_options(weight_shape, dtype, Options(**options))

    @classmethod
    def from_options(cls, weight_shape: Any, dtype: str, options: Options) -> Layer:
        """The same, of options that also say how it is computed."""
        layouts = tuple(name for names in arguments.LAYOUTS.values() for name in names)
        layout: Layout = arguments.choice("layout", options.layout, layouts)
        rank = len(layout) - 2
        weight_shape = tuple(weight_shape)
        if len(weight_shape) != rank + 2:
            taps = ", ".join(f"K{name[0].upper()}" for name in AXES[-rank:])
            raise InvalidValue(
                f"weight: got shape {weight_shape}; allowed: {rank + 2} axes (M, C/groups, {taps})"
            )
        if min(weight_shape) <= 0:
            raise InvalidValue(f"weight: got shape {weight_shape}; allowed: axes of at least 1")
        filters, channels, *kernel = weight_shape
        stride = arguments.per_axis("stride", options.stride, 1, rank)
        dilation = arguments.per_axis("dilation", options.dilation, 1, rank)
        groups = arguments.whole("groups", options.groups, 1, "a positive int")
        if filters % groups:
            raise InvalidValue(
                f"groups: got {groups}; allowed: a divisor of the {filters} filters of weight"
            )
        ends = arguments.padding(options.padding, kernel, stride, dilation)
        # A kernel of one has nothing to spread apart: every algorithm may ignore its dilation.
        axes = tuple(
            Axis(k, s, d if k > 1 else 1, *sides)
            for k, s, d, sides in zip(kernel, stride, dilation, ends)
        )
        return cls(
            filters=filters,
            channels=channels * groups,
            axes=axes,
            groups=groups,
            padding_mode=arguments.choice("padding_mode", options.padding_mode, PADDING_MODES),
            layout=layout,
            epilogue=arguments.activation(options.activation),
            dtype=dtype,
        )

    @property
    def rank(self) -> int:
        """How many axes there are: 1 to 3."""
        return len(self.axes)

    @property
    def planar(self) -> bool:
        """Whether the channels come first in the layout, so that each has a plane of its own."""
        return self.layout[1] == "C"

    @property
    def plane(self) -> tuple[Axis, Axis]:
        """The last two axes, height and width; a height of one tap where there is none."""
        height, width = (Axis(1), *self.axes)[-2:]
        return height, width

    @property
    def in_tiles(self) -> bool:
        """Whether Winograd's tiles apply: a stride or a dilation per axis, none of the latter in
        the planes of volumes."""
        spread = [axis for axis in self.plane if axis.dilation > 1]
        return all(axis.stride == 1 and self.rank < 3 for axis in spread)

    @property
    def folded(self) -> Layer:
        """A layer of the same numbers at the same places in memory, with better kernels: on two
        axes, depth and pixels, of a volume in whose planes every output sees just the pixel at its
        own place; with the one channel first of filters of one channel. Else the layer itself.
        """
        if self.channels == self.filters == 1 and not self.planar:
            return replace(self, layout=arguments.LAYOUTS[self.rank][0])
        if self.rank < 3 or any(axis != Axis(1) for axis in self.plane):
            return self
        layout: Layout = "NCHW" if self.planar else "NHWC"
        return replace(self, axes=(self.axes[0], Axis(1)), layout=layout)

    @property
    def dense(self) -> bool:
        """Whether the outputs of a plane are neighbours that share their inputs."""
        return all(axis.stride == axis.dilation == 1 for axis in self.plane)

    @property
    def kernel(self) -> Sizes:
        """Taps along each axis."""
        return tuple(axis.kernel for axis in self.axes)

    @property
    def stride(self) -> Sizes:
        """Along each axis."""
        return tuple(axis.stride for axis in self.axes)

    @property
    def dilation(self) -> Sizes:
        """Along each axis; 1 where the kernel has one tap."""
        return tuple(axis.dilation for axis in self.axes)

    @property
    def padding(self) -> Sizes:
        """Before and after each axis: left, right; top, bottom, left, right; front, back, ..."""
        return tuple(end for axis in self.axes for end in (axis.before, axis.after))

    @property
    def weight_shape(self) -> Sizes:
        """(M, C/groups, KH, KW), with the taps of each axis."""
        return (self.filters, self.channels // self.groups, *self.kernel)

    @property
    def itemsize(self) -> int:
        """Bytes of one number."""
        return Precision.of(self.dtype).itemsize

    @property
    def reach(self) -> Sizes:
        """What one output sees of the input along each axis."""
        return tuple(axis.reach for axis in self.axes)

    @property
    def pointwise(self) -> bool:
        """Whether every output sees just the pixel at its own place."""
        return all(axis == Axis(1) for axis in self.axes)

    def problem(self, input_shape: Any) -> Problem:
        """Return the problem of applying the layer to an input of this shape.

        ``input_shape`` is (N, C, H, W); (C, H, W) for one image; or (H, W) for one image where the
        layer has one channel. With the layout "NHWC" the channels come last. N may be 0. Other
        numbers of axes alike. Raises InvalidValue.
        """
        shape, rank, planar = arguments.input_shape(input_shape), self.rank, self.planar
        if len(shape) == rank and self.channels == 1:
            shape = (1, *shape) if planar else (*shape, 1)
        if len(shape) not in (rank + 1, rank + 2):
            alone = ", ".join(self.layout.replace("N", "").replace("C", "")) + "," * (rank == 1)
            raise InvalidValue(
                f"input: got shape {shape}; allowed: {rank + 2} axes ({', '.join(self.layout)}), "
                f"{rank + 1} without N, or ({alone}) with one channel"
            )
        batched = len(shape) == rank + 2
        batch = shape[0] if batched else 1
        image = shape[batched:]
        channels, size = (image[0], image[1:]) if planar else (image[-1], image[:-1])
        if channels != self.channels:
            groups = f" x {self.groups} groups" if self.groups > 1 else ""
            raise InvalidValue(
                f"input: got {channels} channels in shape {shape}; allowed: {self.channels} "
                f"(weight has {self.channels // self.groups}{groups}, layout is {self.layout})"
            )
        if min(size) == 0:
            raise InvalidValue(
                f"input: got shape {shape}; allowed: {_and(AXES[-rank:])} of at least 1"
            )
        self._check_padding(size)
        out = self._output_size(size)
        seams = Seams(self.channels, self.filters)
        problem = Problem(self, batch, size, out, seams, batched)
        for name, count in (("input", problem.input_shape), ("output", problem.output_shape)):
            self._check_bytes(f"{name}: got shape {count}", count)
        padded = self._padded(size)
        self._check_bytes(
            f"padding: got {self.padding}, that is a padded input of {_times(padded)}",
            (self.channels, *padded),
        )
        return problem

    def _padded(self, size: Sizes) -> Sizes:
        return tuple(axis.padded(count) for axis, count in zip(self.axes, size))

    def _check_bytes(self, what: str, extents: tuple[int, ...]) -> None:
        size = prod(extents) * self.itemsize
        if size > _MOST_BYTES:
            raise InvalidValue(f"{what}, {size} bytes; allowed: at most {_MOST_BYTES} bytes")

    def _check_padding(self, sizes: Sizes) -> None:
        for name, size, axis in zip(AXES[-self.rank :], sizes, self.axes):
            ends, most = (axis.before, axis.after), most_padding(self.padding_mode, size)
            if most is not None and max(ends) > most:
                raise InvalidValue(
                    f"padding: got {ends} along an input {name} of {size}; allowed: at most "
                    f'{most} with padding_mode "{self.padding_mode}"'
                )

    def _output_size(self, size: Sizes) -> Sizes:
        padded = self._padded(size)
        if any(most < reach for most, reach in zip(padded, self.reach)):
            dilated = f" (dilated by {self.dilation})" if max(self.dilation) > 1 else ""
            raise InvalidValue(
                f"weight: got a kernel reaching over {_times(self.reach)}{dilated}; "
                f"allowed: at most the padded input, {_times(padded)}"
            )
        return tuple(axis.outputs(count) for axis, count in zip(self.axes, size))


def most_padding(mode: str, size: int) -> int | None:
    """Return how much padding a mode makes at either end of an axis; None: as much as one likes.

    Reflection leaves out the edge itself, so it needs one more pixel than circular.
    """
    return {"reflect": size - 1, "circular": size}.get(mode)


class Seams(NamedTuple):
    """How many channels the arrays have around a call's slices of them; 0: no such array."""

    input: int
    output: int
    add: int = 0
    add_after: int = 0


@dataclass(frozen=True)
class Spread:
    """Where the outputs of some phases of a transposed layer lie: see `winogen.conv.phases`."""

    step: Sizes  # along each axis, from one output to the next
    whole: Sizes  # the output of all phases
    # Where all phases of a plane are filters, how many of each there are, with those that make up
    # whole vectors, and the outputs that are left out before the first; else nothing.
    filters: int = 0
    lanes: int = 0
    crop: Pair = (0, 0)


@dataclass(frozen=True)
class Problem:
    """One convolution with all its sizes."""

    layer: Layer
    batch: int
    size: Sizes  # of the input, along each axis
    output_size: Sizes
    seams: Seams
    batched: bool = True  # whether the arrays have the batch axis
    spread: Spread | None = None  # None: outputs are neighbours

    @property
    def epilogue(self) -> Epilogue:
        """The layer's activation and what is added before and behind it."""
        seams = self.seams
        if not (seams.add or seams.add_after):
            return self.layer.epilogue
        return replace(self.layer.epilogue, add=seams.add > 0, add_after=seams.add_after > 0)

    @property
    def shapes(self) -> dict[str, Any]:
        """What a plan says of it."""
        layer, names = self.layer, ("weight_shape", "layout", "dtype", "stride")
        return {
            "input_shape": self.input_shape,
            "output_shape": self.output_shape,
            "direct_multiplications": self.direct_multiplications,
            **{name: getattr(layer, name) for name in names},
        }

    @property
    def folded(self) -> Problem:
        """The problem of the folded layer: see `Layer.folded`. The numbers lie in memory as they
        did. It is what is planned, measured and run; callers know the problem itself.
        """
        layer = self.layer.folded
        if layer is self.layer or self.spread is not None:
            return self
        if layer.rank == self.layer.rank:
            # Pixels that are slices of wider ones are no row of numbers.
            return replace(self, layer=layer) if max(self.seams) <= 1 else self
        return replace(self, layer=layer, size=_in_rows(self.size),
                       output_size=_in_rows(self.output_size))  # fmt: skip

    def sewn(self, seams: Seams) -> Problem:
        """The same problem with arrays that may be slices, and with additions."""
        return self if seams == self.seams else replace(self, seams=seams)

    @cached_property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of the input array, in the layout asked for."""
        return self._shape(self.layer.channels, self.size)

    @cached_property
    def output_shape(self) -> tuple[int, ...]:
        """The shape of the output array, in the layout asked for."""
        return self._shape(self.layer.filters, self.output_size)

    @property
    def stride(self) -> Sizes:
        """The layer's, but 1 along an axis with one output, where no step is taken."""
        return tuple(
            stride if count > 1 else 1 for stride, count in zip(self.layer.stride, self.output_size)
        )

    def sizes(self, in_row: bool) -> tuple[Pair, Pair]:
        """Sizes of planes of input and output as a kernel takes them, or all pixels as one row."""
        if in_row:
            row = 1, prod(self.size)
            return row, row
        return plane_of(self.size), plane_of(self.output_size)

    @property
    def direct_multiplications(self) -> int:
        """Multiplications of the definition, over the batch: N·OH·OW·M·(C/groups)·KH·KW, with the
        outputs and taps of each axis.
        """
        return self.batch * prod(self.output_size) * prod(self.layer.weight_shape)

    def _shape(self, channels: int, size: Sizes) -> Sizes:
        image = (channels, *size) if self.layer.planar else (*size, channels)
        return (self.batch, *image) if self.batched else image


def _in_rows(size: Sizes) -> Sizes:
    """Depth and pixels of a volume."""
    return size[0], prod(size[1:])


def plane_of(sizes: Sequence[Any], absent: Any = 1) -> tuple[Any, Any]:
    """Return what is given along each axis for the height and the width, as kernels take them.

    What has a width only has a height of ``absent``.

    >>> plane_of((4000,)), plane_of((16, 56, 56))
    ((1, 4000), (56, 56))
    """
    height, width = (absent, *sizes)[-2:]
    return height, width


def _times(sizes: Sizes) -> str:
    return " x ".join(map(str, sizes))


def _and(names: Sequence[str]) -> str:
    """Return names as a list in words."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
