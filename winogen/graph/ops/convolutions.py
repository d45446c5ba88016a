"""Convolutions as operators of a graph, and their filters.

Of maps they have two axes, height and width; of volumes three, depth, height and width. What an
operator has along each is a tuple in that order. Padding is flat: before and after the first axis,
before and after the next; of maps top, bottom, left, right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from winogen.conv.phases import joined, joined_weight, ordinary, outputs
from winogen.graph.ops.base import (
    ActivationSpec,
    Misfit,
    Operator,
    Shape,
    Sizes,
    arrays_of,
    by_axis,
    fill,
    finite,
    listed,
    name_of,
    times,
    windows,
)
from winogen.graph.ops.point import Point

_MOST_ZEROS = 8  # products for each of the definition's, of a transposed layer


@dataclass(frozen=True, eq=False)
class Scaled:
    """Filters times a factor each, multiplied in float64 and rounded once, whenever they are read.

    Nobody reads them often, as kernels have packed filters, so they take no memory beside the
    filters that they are made of, perhaps a framework's own.

    >>> twice = Scaled(np.ones((2, 1, 3, 3), np.float32), np.float64([2, 3]))
    >>> twice.shape, twice.dtype, np.asarray(twice)[:, 0, 0, 0].tolist()
    ((2, 1, 3, 3), dtype('float32'), [2.0, 3.0])
    """

    filters: np.ndarray  # (M, C/groups, KH, KW), with the taps of each axis
    factors: np.ndarray  # (M,), float64

    @property
    def shape(self) -> Any:
        return self.filters.shape

    @property
    def dtype(self) -> np.dtype:
        return self.filters.dtype

    @property
    def nbytes(self) -> int:
        return self.filters.nbytes

    def __len__(self) -> int:
        return len(self.filters)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        factors = self.factors.reshape(-1, *[1] * (self.filters.ndim - 1))
        numbers = (self.filters * factors).astype(self.dtype)
        return numbers if dtype is None else numbers.astype(dtype, copy=False)

    @property
    def largest(self) -> np.ndarray:
        """The largest number of each filter, without its sign: float64."""
        axes = tuple(range(1, self.filters.ndim))
        ends = (self.filters.min(axes, initial=0), self.filters.max(axes, initial=0))
        return np.maximum(*map(np.abs, ends)) * np.abs(self.factors)

    def times(self, factors: np.ndarray) -> Scaled:
        """Return the filters times more factors."""
        return Scaled(self.filters, self.factors * factors)


class Filters(Operator):
    """What a convolution of floats and a transposed one have in common."""

    weight: np.ndarray | Scaled | Joined
    bias: np.ndarray | None
    groups: int
    activation: ActivationSpec

    is_convolution = True

    @property
    def weight_bytes(self) -> int:
        return int(self.weight.nbytes)

    @property
    def weights(self) -> tuple[Any, Any] | None:
        return (self.weight, self.bias)

    def channels_after(self, *channels: int) -> int:
        return len(self.weight)

    @property
    def filters(self) -> Any:
        """The filters without factors."""
        return self.weight.filters if isinstance(self.weight, Scaled) else self.weight

    def with_filters(self, filters: Any) -> Operator:
        """Return it with others in their place, which have the same factors."""
        changed: Any = self
        old = self.weight
        weight = replace(old, filters=filters) if isinstance(old, Scaled) else filters
        return replace(changed, weight=weight)

    @property
    def parameters(self) -> list[Any]:
        arrays = [self.weight] if self.bias is None else [self.weight, self.bias]
        return arrays + arrays_of(self.activation)

    def scaled(self, affine: Any, alone: bool) -> Operator | None:
        if self.activation is not None or not alone:
            return None
        scale, shift = affine.exact
        old: Any = self.weight  # no `Joined`, which only steps have
        with np.errstate(all="ignore"):
            weight = old.times(scale) if isinstance(old, Scaled) else Scaled(old, scale)
            bias = shift if self.bias is None else self.bias * scale + shift
            both = finite(old.dtype, weight.largest, bias)
        changed: Any = self
        return None if both is None else replace(changed, weight=weight, bias=both[1])

    def activated(self, activation: ActivationSpec) -> Operator | None:
        changed: Any = self
        return None if self.activation is not None else replace(changed, activation=activation)


def check_channels(op: Any, shape: Shape) -> None:
    """Raise Misfit unless there are as many channels as the filters see."""
    channels = op.weight.shape[1] * op.groups
    if shape[1] != channels:
        raise Misfit.shape(shape, f"{channels} channels")


def convolved(op: Any, shape: Shape) -> Shape:
    """Return the shape that a convolution makes of one; raises Misfit."""
    filters, _, *kernel = op.weight.shape
    check_channels(op, shape)
    reach = [d * (k - 1) + 1 for d, k in zip(op.dilation, kernel)]
    return (shape[0], filters, *windows(shape, reach, op.stride, op.padding))


@dataclass(frozen=True, eq=False)
class Conv(Filters):
    """A convolution with its seams: activation(conv(x) + bias + add) + add_after.

    Its inputs are x, add and add_after, "" for one that is missing. The fields mean what they mean
    in `winogen.conv2d`, or `winogen.conv3d` where weights have three axes of taps.
    """

    inputs = range(1, 4)
    fuses_sums = True

    @property
    def conv(self) -> Conv:
        return self

    @property
    def is_worthy(self) -> bool:
        return not self.is_factor

    weight: np.ndarray | Scaled | Joined  # (M, C/groups, KH, KW), with the taps of each axis
    bias: np.ndarray | None = None  # (M,)
    stride: Sizes = ()  # along each axis; (): 1
    padding: Sizes = ()  # (): none
    dilation: Sizes = ()  # (): 1
    groups: int = 1
    padding_mode: str = "zeros"
    activation: ActivationSpec = None

    def __post_init__(self) -> None:
        fill(self, len(self.weight.shape) - 2, stride=1, dilation=1)

    def __str__(self) -> str:
        filters, per_group, *taps = self.weight.shape
        text = f"conv {times(taps)} {per_group * self.groups}->{filters}"
        if set(self.stride) != {1}:
            text += f" stride {listed(self.stride)}"
        if any(self.padding):
            text += f" pad {','.join(map(str, self.padding))}"
            text += "" if self.padding_mode == "zeros" else f" {self.padding_mode}"
        if set(self.dilation) != {1}:
            text += f" dilation {listed(self.dilation)}"
        if self.groups > 1:
            text += f" groups {self.groups}"
        return text + (f" + {name_of(self.activation)}" if self.activation else "")

    @property
    def is_factor(self) -> bool:
        """Whether it multiplies channels by numbers, and does no more but for its epilogue.

        Such a convolution goes with maps and volumes alike, whatever axes of taps its weights have.
        """
        alone = set(self.weight.shape[1:]) == {1} and self.groups == len(self.weight)
        return alone and set(self.stride) == {1} and not any(self.padding)

    @classmethod
    def identity(cls, shape: Shape, dtype: np.dtype, **fields: Any) -> Conv:
        """Return what multiplies by one, a depthwise convolution 1x1, for inputs of a shape."""
        weight = np.ones((shape[1], 1, *[1] * (len(shape) - 2)), dtype)
        return cls(weight, groups=shape[1], **fields)

    def rank(self, given: int) -> int:
        return given if self.is_factor else len(self.stride)

    def shape(self, shape: Shape) -> Shape:
        if not self.is_factor:
            return convolved(self, shape)
        check_channels(self, shape)
        return shape

    def padded(self, pad: Any) -> Conv | None:
        same = self.padding_mode == pad.mode == "zeros"
        if not same and any(self.padding):
            return None
        padding = tuple(a + b for a, b in zip(self.padding, pad.padding, strict=True))
        return replace(self, padding=padding, padding_mode=pad.mode)

    def step(self, shape: Shape, dtype: np.dtype, adds: bool, adds_after: bool) -> Operator:
        op = self.of_rank(len(shape) - 2)
        spec = op.activation
        if not op.is_factor or adds or adds_after or not (spec is None or spec == "relu"):
            return op
        return Point(np.asarray(op.weight).reshape(-1), op.bias, "relu" if spec else None)

    def of_rank(self, rank: int) -> Conv:
        """Return a factor with so many axes of taps; any other convolution as it is."""
        if not self.is_factor or len(self.stride) == rank:
            return self
        weight = np.asarray(self.weight).reshape(-1, 1, *[1] * rank)
        return replace(self, weight=weight, stride=(), padding=(), dilation=())

    def in_pieces(self) -> tuple[int, Conv]:
        (before, after), step = by_axis(self.padding)[-1], self.stride[-1]
        reach = _reach(self.weight.shape[2:], self.dilation)[-1]
        least, most = max(0, reach - step), reach - 1
        if after or not least <= before <= most or self.padding_mode != "zeros":
            some = f"{most}" if least == most else f"{least} to {most}"
            mode = "" if self.padding_mode == "zeros" else f" of {self.padding_mode}"
            raise Misfit(f"padding {before},{after}{mode}", f"{some} zeros before the signal alone")
        return before, replace(self, padding=(*self.padding[:-2], 0, 0))

    @property
    def options(self) -> dict[str, Any]:
        """The options of `winogen.Conv2d` or `winogen.Conv3d`, but for the layout."""
        return {
            "stride": self.stride,
            "padding": tuple(by_axis(self.padding)),
            "dilation": self.dilation,
            "groups": self.groups,
            "padding_mode": self.padding_mode,
            "activation": self.activation,
        }


@dataclass(frozen=True, eq=False)
class Joined:
    """The filters of all phases of a transposed layer, made whenever they are read.

    Those of a phase lie side by side; with ``groups`` those of a filter, as a group has all phases
    of its filters. Where taps lie ``apart`` along an axis, zeros lie between them.
    """

    filters: np.ndarray | Scaled  # (M, C/groups, KH, KW), with the taps of each axis
    stride: Sizes
    groups: int = 1
    apart: Sizes = ()  # along each axis; (): 1

    @property
    def dtype(self) -> np.dtype:
        return self.filters.dtype

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.dtype.itemsize

    @property
    def shape(self) -> tuple[int, ...]:
        """(phases M, C/groups, taps of a phase along each axis)."""
        filters, channels, *kernel = self.filters.shape
        few = (-(-reach // step) for reach, step in zip(_reach(kernel, self.apart), self.stride))
        return (filters * prod(self.stride), channels, *few)

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        filters = np.asarray(self.filters)
        if set(self.apart) - {1}:
            whole = (*filters.shape[:2], *_reach(filters.shape[2:], self.apart))
            spread = np.zeros(whole, filters.dtype)
            places: tuple[Any, ...] = tuple(slice(None, None, step) for step in self.apart)
            spread[(..., *places)] = filters
            filters = spread
        made = joined_weight(filters, self.stride, self.groups)
        if self.groups > 1:
            apart = made.reshape(self.groups, prod(self.stride), -1, *self.shape[1:])
            made = np.ascontiguousarray(apart.swapaxes(1, 2)).reshape(self.shape)
        return made if dtype is None else made.astype(dtype, copy=False)


@dataclass(frozen=True, eq=False)
class ConvTranspose(Filters):
    """A transposed convolution: activation(conv_transpose(x) + bias).

    The fields mean what they mean in `winogen.conv_transpose2d`, or in `winogen.conv_transpose3d`
    where weights have three axes of taps. Filters are those of `winogen.conv.phases.ordinary`. With
    a dilation beside a stride there are zeros between taps: phases then see other taps each, and
    other inputs.
    """

    weight: np.ndarray | Scaled  # (M, C/groups, KH, KW), with the taps of each axis
    bias: np.ndarray | None = None  # (M,)
    stride: Sizes = ()  # along each axis; (): 1
    padding: Sizes = ()  # (): none
    output_padding: Sizes = ()  # (): none
    groups: int = 1
    dilation: Sizes = ()  # (): 1
    activation: ActivationSpec = None

    def __post_init__(self) -> None:
        fill(self, len(self.weight.shape) - 2, stride=1, output_padding=0, dilation=1)

    def __str__(self) -> str:
        filters, per_group, *taps = self.weight.shape
        text = f"transposed conv {times(taps)} {per_group * self.groups}->{filters}"
        text += f" stride {listed(self.stride)}"
        if any(self.padding):
            text += f" pad {','.join(map(str, self.padding))}"
        if set(self.dilation) != {1}:
            text += f" dilation {listed(self.dilation)}"
        if self.groups > 1:
            text += f" groups {self.groups}"
        return text + (f" + {name_of(self.activation)}" if self.activation else "")

    def rank(self, given: int) -> int:
        return len(self.stride)

    def shape(self, shape: Shape) -> Shape:
        check_channels(self, shape)
        size = self.sizes(shape[2:])
        if any(one < 1 for one in size):
            raise Misfit.shape(shape, "a size whose output has pixels")
        return (shape[0], len(self.weight), *size)

    @property
    def is_worthy(self) -> bool:
        return True

    @property
    def weights(self) -> tuple[np.ndarray, np.ndarray | None]:
        return ordinary(np.asarray(self.weight), self.groups), self.bias  # its own inverse

    @property
    def is_sparse(self) -> bool:
        """Whether a dilation beside a stride leaves the phases so few taps that this is no way."""
        return prod(self._joined.shape[2:]) * prod(self.stride) > _MOST_ZEROS * prod(
            self.weight.shape[2:]
        )

    @property
    def ends(self) -> list[tuple[int, int]]:
        """The padding before and after each axis."""
        return by_axis(self.padding)

    def sizes(self, size: Any) -> list[Any]:
        """Return the sizes of the output along each axis, of an input of ``size``."""
        reach = _reach(self.weight.shape[2:], self.dilation)
        axes = zip(size, reach, self.stride, self.ends, self.output_padding)
        return [outputs(n, taps, step, 1, ends, more) for n, taps, step, ends, more in axes]

    def in_pieces(self) -> tuple[int, ConvTranspose]:
        (before, after), step = self.ends[-1], self.stride[-1]
        reach = _reach(self.weight.shape[2:], self.dilation)[-1]
        behind = reach + self.output_padding[-1] - step  # so that each sample becomes `step`
        if (before, after) != (0, behind):
            raise Misfit(f"padding {before},{after}", f"0,{behind}, which leaves out what is left")
        kept = -(-reach // step) - 1
        return kept, replace(self, padding=(*self.padding[:-2], kept * step, behind))

    @property
    def _joined(self) -> Joined:
        """The filters of all phases; along axes without a stride, taps stay together."""
        apart = (d if step > 1 else 1 for d, step in zip(self.dilation, self.stride))
        return Joined(self.weight, self.stride, self.groups, tuple(apart))

    @property
    def conv(self) -> Conv:
        """The ordinary convolution of all phases, whose channels are spread over pixels."""
        dilation = tuple(1 if step > 1 else d for d, step in zip(self.dilation, self.stride))
        padding = tuple(end for *ends, _ in self._along for end in ends)
        spec = self.activation
        if isinstance(spec, tuple):
            name, *values = spec
            spec = (name, *(self.of_phases(v) if np.ndim(v) else v for v in values))
        bias = None if self.bias is None else self.of_phases(self.bias)
        ones = (1,) * len(dilation)
        return Conv(self._joined, bias, ones, padding, dilation, self.groups, activation=spec)

    @property
    def crop(self) -> Sizes:
        """The spread pixels that are left out, before and after each axis."""
        return tuple(end for *_, crop in self._along for end in crop)

    def of_phases(self, array: Any) -> np.ndarray:
        """Return numbers per filter for all phases."""
        phases = prod(self.stride)
        return np.repeat(array, phases) if self.groups > 1 else np.tile(array, phases)

    @property
    def _along(self) -> list[tuple[int, int, tuple[int, int]]]:
        """Padding before and after each axis, and what is cropped at both ends, for any size."""
        found = []
        kernel = _reach(self.weight.shape[2:], self.dilation)
        for taps, step, ends, more in zip(kernel, self.stride, self.ends, self.output_padding):
            size = taps + sum(ends) + 1  # some size that leaves an output
            count = outputs(size, taps, step, 1, ends, more)
            one = joined(taps, step, ends[0], count)
            after = one.pixels + one.taps - 1 - one.before - size
            crop = one.crop, step * one.pixels - one.crop - count
            # Inputs that no output sees make pixels that are left out, too.
            crop = crop[0] + step * max(0, -one.before), crop[1] + step * max(0, -after)
            found.append((max(0, one.before), max(0, after), crop))
        return found


def _reach(taps: Sequence[int], apart: Sequence[int]) -> list[int]:
    """From the first tap to the last along each axis, of taps so far apart; (): 1."""
    return [d * (k - 1) + 1 for k, d in zip(taps, apart or (1,) * len(taps))]
