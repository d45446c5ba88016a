"""What is to be computed, without a word about how: the layer and the input it is applied to.

`Layer` is all that stays the same between calls and is checked once; `Problem` adds the input's
sizes. Both are immutable, hashable and know no arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from winogen.conv import arguments
from winogen.errors import InvalidType, InvalidValue

# Beyond this many bytes a tensor fits no machine, and byte counts in C would near the int64 limit.
_MOST_BYTES = 2**56


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
    kernel: tuple[int, int]  # height, width
    stride: tuple[int, int]
    padding: tuple[int, int, int, int]  # top, bottom, left, right
    dilation: tuple[int, int]
    groups: int
    padding_mode: str
    layout: str
    relu: bool
    dtype: str  # "float32" or "float64"

    @classmethod
    def of(
        cls,
        weight_shape,
        dtype: str,
        *,
        stride=1,
        padding=0,
        dilation=1,
        groups=1,
        padding_mode="zeros",
        layout="NCHW",
        activation=None,
    ) -> Layer:
        """Return the checked layer; weight_shape is (M, C/groups, KH, KW).

        Raises InvalidType or InvalidValue that names the argument, its value and what is allowed.
        """
        weight_shape = tuple(weight_shape)
        if len(weight_shape) != 4:
            raise InvalidValue(
                f"weight: got shape {weight_shape}; allowed: 4 axes (M, C/groups, KH, KW)"
            )
        if 0 in weight_shape:
            raise InvalidValue(f"weight: got shape {weight_shape}; allowed: no axis of size 0")
        filters, channels, *kernel = weight_shape
        kernel = tuple(kernel)
        stride = arguments.pair("stride", stride, 1)
        dilation = arguments.pair("dilation", dilation, 1)
        groups = arguments.whole("groups", groups, 1, "a positive int")
        if filters % groups:
            raise InvalidValue(
                f"groups: got {groups}; allowed: a divisor of the {filters} filters of weight"
            )
        sides = arguments.padding(padding, kernel, stride, dilation)
        # A kernel of one has nothing to spread apart: every algorithm may ignore its dilation.
        dilation = tuple(d if k > 1 else 1 for k, d in zip(kernel, dilation))
        activation = arguments.choice("activation", activation, arguments.ACTIVATIONS)
        return cls(
            filters=filters,
            channels=channels * groups,
            kernel=kernel,
            stride=stride,
            padding=sides,
            dilation=dilation,
            groups=groups,
            padding_mode=arguments.choice("padding_mode", padding_mode, arguments.PADDING_MODES),
            layout=arguments.choice("layout", layout, arguments.LAYOUTS),
            relu=activation == "relu",
            dtype=dtype,
        )

    @property
    def weight_shape(self) -> tuple[int, int, int, int]:
        """(M, C/groups, KH, KW)."""
        return (self.filters, self.channels // self.groups, *self.kernel)

    @property
    def itemsize(self) -> int:
        """Bytes of one number."""
        return 4 if self.dtype == "float32" else 8

    @property
    def reach(self) -> tuple[int, int]:
        """Rows and columns of input that one output sees."""
        return tuple(d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilation))

    @property
    def pointwise(self) -> bool:
        """Whether every output sees just the pixel at its own place."""
        return (self.kernel, self.stride, self.padding) == ((1, 1), (1, 1), (0, 0, 0, 0))

    def problem(self, input_shape) -> Problem:
        """Return the problem of applying the layer to an input of this shape.

        ``input_shape`` is (N, C, H, W), or (C, H, W) for one image without a batch axis; with the
        layout "NHWC" the channels come last. N may be 0. Raises InvalidValue.
        """
        shape = _shape(input_shape)
        axes = "N, C, H, W" if self.layout == "NCHW" else "N, H, W, C"
        if len(shape) not in (3, 4):
            raise InvalidValue(
                f"input: got shape {shape}; allowed: 4 axes ({axes}), or 3 without N"
            )
        batch = shape[0] if len(shape) == 4 else 1
        if self.layout == "NCHW":
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
        problem = Problem(self, batch, height, width, *out, batched=len(shape) == 4)
        for name, count in (("input", problem.input_shape), ("output", problem.output_shape)):
            size = self.itemsize
            for extent in count:
                size *= extent
            if size > _MOST_BYTES:
                raise InvalidValue(
                    f"{name}: got shape {count} of {size} bytes; allowed: at most {_MOST_BYTES}"
                )
        return problem

    def _check_padding(self, height: int, width: int) -> None:
        """Reflection leaves out the edge itself, so it needs one more pixel than circular."""
        if self.padding_mode not in ("reflect", "circular"):
            return
        spare = 1 if self.padding_mode == "reflect" else 0
        for axis, size, ends in (
            ("height", height, self.padding[:2]),
            ("width", width, self.padding[2:]),
        ):
            if max(ends) > size - spare:
                raise InvalidValue(
                    f"padding: got {ends} along an input {axis} of {size}; allowed: at most "
                    f'{size - spare} with padding_mode "{self.padding_mode}"'
                )

    def _output_size(self, height: int, width: int) -> tuple[int, int]:
        top, bottom, left, right = self.padding
        padded = (height + top + bottom, width + left + right)
        if padded[0] < self.reach[0] or padded[1] < self.reach[1]:
            dilated = f" (dilated by {self.dilation})" if self.dilation != (1, 1) else ""
            raise InvalidValue(
                f"weight: got a kernel reaching over {self.reach[0]} x {self.reach[1]}{dilated}; "
                f"allowed: at most the padded input, {padded[0]} x {padded[1]}"
            )
        return tuple((p - r) // s + 1 for p, r, s in zip(padded, self.reach, self.stride))


@dataclass(frozen=True)
class Problem:
    """One convolution with all its sizes known."""

    layer: Layer
    batch: int
    height: int
    width: int
    out_height: int
    out_width: int
    batched: bool = True  # whether the arrays have the batch axis

    @cached_property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of the input array, in the layout asked for."""
        return self._shape(self.layer.channels, self.height, self.width)

    @cached_property
    def output_shape(self) -> tuple[int, ...]:
        """The shape of the output array, in the layout asked for."""
        return self._shape(self.layer.filters, self.out_height, self.out_width)

    def sizes(self, in_row: bool) -> tuple[int, int, int, int]:
        """Height and width of input and output as a kernel takes them, or all pixels as one row."""
        if in_row:
            area = self.height * self.width
            return 1, area, 1, area
        return self.height, self.width, self.out_height, self.out_width

    @property
    def direct_multiplications(self) -> int:
        """Multiplications of the definition, over the batch: N·OH·OW·M·(C/groups)·KH·KW."""
        return self.batch * self.out_height * self.out_width * _product(self.layer.weight_shape)

    def _shape(self, channels: int, height: int, width: int) -> tuple[int, ...]:
        image = (channels, height, width) if self.layer.layout == "NCHW" else None
        image = image or (height, width, channels)
        return (self.batch, *image) if self.batched else image


def _product(numbers) -> int:
    product = 1
    for number in numbers:
        product *= number
    return product


def _shape(shape) -> tuple[int, ...]:
    if not isinstance(shape, (tuple, list)):
        raise InvalidType(f"input_shape: got {shape!r}; allowed: a tuple of ints")
    allowed = "a tuple of non-negative ints"
    return tuple(arguments.whole("input_shape", size, 0, allowed) for size in shape)
