"""Operators of codes of 8 bits: what is computed of them is exact, and rounded once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple

import numpy as np

from winogen.conv.quantization import RANGES, QuantizedFilters
from winogen.graph.ops.base import Misfit, Operator, Shape, Sizes, Window, pixel, seen
from winogen.graph.ops.convolutions import ConvTranspose, check_channels, convolved
from winogen.graph.ops.moves import Spread
from winogen.graph.ops.pools import GaplessPool
from winogen.typing import ProductType

LOWEST, HIGHEST = RANGES["int8"]
# Activations that cut numbers off, and at which.
CUTS = {"relu": (0.0, np.inf), "relu6": (0.0, 6.0)}


class Codes(NamedTuple):
    """What a code means: scale * (code - zero), as int8; those of uint8 have 128 less here."""

    scale: float
    zero: int


@dataclass(frozen=True)
class After:
    """What numbers become: codes, none of them beyond two of these."""

    codes: Codes
    lowest: int = LOWEST
    highest: int = HIGHEST

    def cut(self, low: float, high: float) -> After:
        """Return the same for numbers that are cut off at these."""
        codes = (np.rint(np.clip(end / self.codes.scale, -1e6, 1e6)) for end in (low, high))
        ends = (int(np.clip(one + self.codes.zero, self.lowest, self.highest)) for one in codes)
        return After(self.codes, *ends)

    def of(self, steps: np.ndarray) -> np.ndarray:
        """Return numbers in steps of the codes, float32, as codes.

        They are rounded before the zero point is added: with it, what is nearly a half could
        become one.
        """
        zero = self.codes.zero
        whole = np.rint(np.clip(steps, self.lowest - zero, self.highest - zero))
        return (whole + zero).astype(np.int8)


def requantized(
    sums: np.ndarray, multiplier: Any, lowest: int, highest: int, zero: int
) -> np.ndarray:
    """Return sums times a multiplier, with a zero point, as integers: as compiled C rounds them."""
    steps = sums.astype(np.float32) * np.asarray(multiplier, np.float32)
    limited = np.clip(steps, np.float32(lowest - zero), np.float32(highest - zero))
    return np.rint(limited + np.float32(zero)).astype(np.int32)


class OfCodes(Operator):
    """What is usual of operators that read or make codes; no segment has them."""

    in_segments = False
    after: After

    def __str__(self) -> str:
        return f"codes {self.kind}"

    def codes(self, *given: Any) -> Codes | None:
        return self.after.codes


@dataclass(frozen=True, eq=False)
class QConv(OfCodes):
    """A convolution of 8-bit integers as `winogen.QConv2d` computes it, exact and rounded once.

    The fields mean what they mean there; padding is top, bottom, left, right, or "SAME_UPPER" or
    "SAME_LOWER": as much as makes an output of every ``stride``th number. ``y_scale`` None: the
    output are the sums, in int32. ``ends``: its least and largest code; None: all of its type.
    ``z``: what codes of a second input mean, which joins the sums before the activation.
    ``tiles``: those of Winograd's algorithm that it runs in where a machine has them, and what is
    multiplied, as (4, "int16"): then it is near, and not exact.
    """

    inputs = range(1, 3)
    kinds = ("convolve", "depthwise")

    @property
    def quantized(self) -> QConv | None:
        return self

    weight: np.ndarray  # (M, C/groups, KH, KW), int8 or uint8
    bias: np.ndarray | None  # (M,), int32
    x_dtype: str  # "uint8" or "int8"
    x_zero: int
    w_zero: np.ndarray | int  # (M,), or one for all
    x_scale: np.ndarray | None = None
    w_scale: np.ndarray | None = None  # (M,), or one for all
    y_scale: np.ndarray | None = None
    y_zero: int = 0
    y_dtype: str | None = None
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] | str = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    activation: str | None = None
    ends: tuple[int, int] | None = None
    z: Codes | None = None
    tiles: tuple[int, ProductType] | None = None

    def __str__(self) -> str:
        filters, per_group, high, wide = self.weight.shape
        return f"quantized conv {high}x{wide} {per_group * self.groups}->{filters}"

    def rank(self, given: int) -> int:
        return len(self.stride)

    def shape(self, shape: Shape) -> Shape:
        if not isinstance(self.padding, str):
            return convolved(self, shape)
        check_channels(self, shape)
        sizes = (-(-size // step) for size, step in zip(shape[2:], self.stride))
        return (shape[0], len(self.weight), *sizes)

    def added(self, shape: Shape, other: Shape) -> Shape:
        return shape

    @property
    def options(self) -> dict[str, Any]:
        """The options of `winogen.QConv2d`, but for the layout; padding must be numbers."""
        names = ["x_zero", "w_zero", "stride", "dilation", "groups", "activation"]
        if self.y_scale is not None:
            names += ["x_scale", "w_scale", "y_scale", "y_zero", "y_dtype"]
        assert not isinstance(self.padding, str)
        top, bottom, left, right = self.padding
        options = {name: getattr(self, name) for name in names}
        return options | {"padding": ((top, bottom), (left, right))}

    @property
    def kind(self) -> str:
        alone = self.groups > 1 and self.groups == len(self.weight) and self.weight.shape[1] == 1
        return self.kinds[alone]

    @property
    def window(self) -> Window:
        assert not isinstance(self.padding, str)
        return Window(self.weight.shape[2:], self.stride, self.padding, self.dilation)

    @property
    def limits(self) -> tuple[int, int]:
        """Its least and largest code."""
        lowest, highest = self.ends or RANGES[str(self.y_dtype)]
        if self.activation not in CUTS:
            return lowest, highest
        assert self.y_scale is not None
        codes = Codes(float(self.y_scale), self.y_zero)
        after = After(codes, lowest, highest).cut(*CUTS[self.activation])
        return after.lowest, after.highest

    @property
    def multiplier(self) -> np.ndarray:
        """What the sums of each filter are multiplied by, (M,), float32."""
        steps = np.float32(self.x_scale) * np.asarray(self.w_scale, np.float32) / self.y_scale
        return np.array(np.broadcast_to(np.float32(steps).reshape(-1), len(self.weight)))

    @property
    def z_step(self) -> np.float32:
        """What a step of the second input is in steps of the output; of none 0."""
        scale = 0.0 if self.z is None else self.z.scale
        return np.float32(scale) / np.float32(self.y_scale)

    @property
    def signed(self) -> QConv:
        """The same of codes of int8."""
        filters = QuantizedFilters.of(self.weight, self.w_zero, self.bias)
        flips = [128 if kind == "uint8" else 0 for kind in (self.x_dtype, str(self.y_dtype))]
        lowest, highest = (end - flips[1] for end in self.limits)
        return replace(
            self, weight=filters.weight, bias=filters.bias, x_dtype="int8", y_dtype="int8",
            x_zero=self.x_zero - flips[0], y_zero=self.y_zero - flips[1], activation=None,
            w_zero=0 if filters.zero is None else filters.zero, ends=(lowest, highest),
        )  # fmt: skip

    def transposed(
        self, stride: Sizes, padding: Sizes, output_padding: Sizes
    ) -> tuple[QConv, Spread | None]:
        """Return a transposed convolution as one of all its phases, and what spreads these, if any.

        This has what both have in common, weights as `ConvTranspose` has them, and zero points of
        them that are 0.
        """
        whole = ConvTranspose(
            self.weight, self.bias, stride, padding, output_padding, self.groups, self.dilation
        )
        conv, scale = whole.conv, np.asarray(self.w_scale)
        top, bottom, left, right = conv.padding
        made = replace(
            self, weight=np.asarray(conv.weight), bias=conv.bias, stride=(1, 1),
            w_scale=whole.of_phases(scale.reshape(-1)) if scale.size > 1 else scale,
            padding=(top, bottom, left, right), dilation=(conv.dilation[0], conv.dilation[1]),
        )  # fmt: skip
        if set(stride) == {1} and not any(whole.crop):
            return made, None
        order = "pixels" if self.groups == 1 else "channels"
        return made, Spread(stride, order, whole.crop)

    def codes(self, *given: Any) -> Codes | None:
        return None if self.y_scale is None else Codes(float(self.y_scale), self.y_zero)

    def computed(self, *arrays: np.ndarray) -> np.ndarray:
        """Return what it computes, rounded in float32 as by networks in C and onnxruntime.

        `winogen.QConv2d` rounds as float64 does.
        """
        filters, groups = len(self.weight), self.groups
        # Sums of integers that float64 holds are exact, and products of matrices fast.
        taps = self.weight.astype(np.float64) - np.reshape(self.w_zero, (-1, 1, 1, 1))
        taps = taps.reshape(groups, filters // groups, -1).swapaxes(1, 2)
        x = seen(arrays[0].astype(np.float64) - self.x_zero, self.window, 0)
        images, _, *size = x.shape[:4]
        x = np.moveaxis(x.reshape(images, groups, -1, *x.shape[2:]), 2, 4)
        sums = (x.reshape(images, groups, prod(size), -1) @ taps).swapaxes(2, 3)
        sums = sums.reshape(images, filters, *size)
        if self.bias is not None:
            sums = sums + self.bias.reshape(-1, 1, 1)
        if self.y_scale is None:
            return sums.astype(np.int32)
        multiplier = self.multiplier.reshape(-1, 1, 1)
        if self.z is None:
            return requantized(sums, multiplier, *self.limits, self.y_zero).astype(self.y_dtype)
        steps = sums * multiplier + self.z_step * (arrays[1].astype(np.int64) - self.z.zero)
        lowest, highest = self.limits
        whole = np.rint(np.clip(steps, lowest - self.y_zero, highest - self.y_zero))
        return (whole + self.y_zero).astype(self.y_dtype)


@dataclass(frozen=True)
class QMean(OfCodes, GaplessPool):
    """The mean of every window, of the numbers that are there; ``counted``: of padding, too."""

    kinds = ("mean",)

    x: Codes
    after: After
    kernel: Sizes
    stride: Sizes
    padding: Sizes = ()  # top, bottom, left, right; (): none
    counted: bool = False

    @property
    def multiplier(self) -> float:
        """What the mean is multiplied by."""
        return float(np.float32(self.x.scale) / np.float32(self.after.codes.scale))

    def computed(self, *arrays: np.ndarray) -> np.ndarray:
        x = arrays[0].astype(np.int64) - self.x.zero
        ones = np.ones_like(x)
        count = seen(ones, self.window, int(self.counted)).sum((-2, -1)).astype(np.float32)
        sums = seen(x, self.window, 0).sum((-2, -1)).astype(np.float32)
        return self.after.of(sums * (np.float32(self.multiplier) / count))


@dataclass(frozen=True)
class QGlobalMean(OfCodes):
    """The mean of every channel, whatever the size of the map."""

    kinds = ("mean",)
    is_global = True

    x: Codes
    after: After

    def shape(self, shape: Shape) -> Shape:
        return pixel(shape)

    def step(self, shape: Shape, dtype: Any, adds: bool, adds_after: bool) -> QMean:
        return QMean(self.x, self.after, shape[2:], shape[2:])

    def computed(self, *arrays: np.ndarray) -> np.ndarray:
        return self.step(arrays[0].shape, arrays[0].dtype, False, False).computed(*arrays)


@dataclass(frozen=True)
class QAdd(OfCodes):
    """The sum of two maps."""

    inputs = range(2, 3)
    kinds = ("add",)

    x: Codes
    z: Codes
    after: After

    def added(self, shape: Shape, other: Shape) -> Shape:
        return shape

    @property
    def factors(self) -> tuple[float, float]:
        """What a step of either map is in steps of the sum."""
        step = np.float32(self.after.codes.scale)
        return float(np.float32(self.x.scale) / step), float(np.float32(self.z.scale) / step)

    def computed(self, *arrays: np.ndarray) -> np.ndarray:
        x, z = (
            np.float32(factor) * (array.astype(np.int32) - one.zero).astype(np.float32)
            for factor, array, one in zip(self.factors, arrays, (self.x, self.z))
        )
        return self.after.of(x + z)


class Rescaling(NamedTuple):
    """Codes less a zero, times a factor, as others: vectors compute that faster than a table."""

    zero: int
    factor: float
    after: After

    @property
    def computed(self) -> np.ndarray:
        """What becomes of all codes, from the least on."""
        codes = np.arange(LOWEST, HIGHEST + 1, dtype=np.float32) - np.float32(self.zero)
        return self.after.of(np.float32(self.factor) * codes)


@dataclass(frozen=True, eq=False)
class Lookup(OfCodes):
    """A function of a code, or one for each channel, by its table."""

    kinds = ("look_up",)
    is_table = True

    table: np.ndarray  # (1, 256) or (C, 256), of the type of the outputs
    y: Codes
    x_dtype: str = "int8"
    line: Rescaling | None = None  # what gives the same codes, if there is any

    def shape(self, shape: Shape) -> Shape:
        if len(self.table) not in (1, shape[1]):
            raise Misfit.shape(shape, f"{len(self.table)} channels, as it has tables")
        return shape

    @classmethod
    def recoding(cls, x: Codes, after: After) -> Lookup:
        """Return what makes the codes of the same numbers, cut off at limits."""
        numbers = np.float32(x.scale) * (np.arange(LOWEST, HIGHEST + 1) - x.zero)
        y = after.codes
        steps = np.rint(numbers.astype(np.float32) / np.float32(y.scale)) + y.zero
        table = np.clip(steps, after.lowest, after.highest).astype(np.int8)
        line = Rescaling(x.zero, float(np.float32(x.scale) / np.float32(y.scale)), after)
        same = (line.computed == table).all()
        return cls(np.roll(table, 128).reshape(1, -1), y, line=line if same else None)

    @property
    def signed(self) -> Lookup:
        """The same of codes of int8."""
        flip = 128 if self.table.dtype == np.uint8 else 0
        table = self.table.view(np.uint8) ^ flip
        if self.x_dtype == "uint8":
            table = np.roll(table, 128, axis=1)
        return Lookup(table.view(np.int8), Codes(self.y.scale, self.y.zero - flip))

    @property
    def in_order(self) -> np.ndarray:
        """The table from the least code on; as it is, it has the codes in the order of bytes."""
        return np.roll(self.table, 128 if self.x_dtype == "int8" else 0, axis=1)

    def codes(self, *given: Any) -> Codes | None:
        return self.y

    def computed(self, *arrays: np.ndarray) -> np.ndarray:
        (x,) = arrays
        channels = np.arange(x.shape[1]).reshape(-1, 1, 1) % len(self.table)
        return self.table[channels, x.view(np.uint8)]
