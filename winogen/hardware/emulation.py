"""What the Verilog of an engine computes, bit for bit: a layer of bytes on integers of numpy.

Exact engines equal direct convolution, and are compared with it. Engines that rescale transformed
numbers to 8 bits round on the way, so their arithmetic is written down here, in the engine's order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from winogen.codegen.verilog.engine import BYTE, SCALE_BITS, SCALE_POINT, SUM_BITS
from winogen.errors import InvalidValue
from winogen.hardware.accelerator import LayerShape

if TYPE_CHECKING:
    from winogen.codegen.verilog.engine import EngineCircuit

Integers = Any  # an array of numpy's int64
_SHIFTS = 47  # the most that an engine shifts results by


@dataclass(frozen=True, eq=False)
class ByteLayer:
    """A layer of bytes: clip(round((conv(x - in_zero, weight) + bias) * multiplier) + out_zero).

    ``x``: (C, H, W) and ``weight``: (M, C, r, r), of -128 .. 127. ``bias`` (M,) integers,
    ``multiplier`` (M,) positive numbers. With ``relu`` results below ``out_zero`` become that.
    Raises InvalidValue.
    """

    x: Integers
    weight: Integers
    padding: int
    bias: Integers
    multiplier: Any
    in_zero: int = 0
    out_zero: int = 0
    relu: bool = False

    def __post_init__(self) -> None:
        filters = len(self.weight)
        for name, shape in (("x", 3), ("weight", 4)):
            array = np.asarray(getattr(self, name))
            if array.ndim != shape or not array.size:
                raise InvalidValue(f"{name}: got the shape {array.shape}; allowed: {shape} axes")
            if array.dtype.kind not in "iu":
                raise InvalidValue(f"{name}: got {array.dtype}; allowed: integers")
            if array.min() < BYTE.low or array.max() > BYTE.high:
                raise InvalidValue(f"{name}: got {array.min()} .. {array.max()}; allowed: {BYTE}")
        if self.weight.shape[1] != self.x.shape[0] or self.weight.shape[2] != self.weight.shape[3]:
            raise InvalidValue(
                f"weight: got the shape {self.weight.shape}; allowed: (M, {self.x.shape[0]}, r, r)"
            )
        for name in ("bias", "multiplier"):
            if np.shape(getattr(self, name)) != (filters,):
                raise InvalidValue(
                    f"{name}: got the shape {np.shape(getattr(self, name))}; allowed: ({filters},)"
                )
        for name in ("in_zero", "out_zero"):
            if not BYTE.low <= getattr(self, name) <= BYTE.high:
                raise InvalidValue(f"{name}: got {getattr(self, name)}; allowed: {BYTE}")

    @cached_property
    def padded(self) -> Integers:
        """The input with its padding, of zeros as the input has them."""
        p = self.padding
        return np.pad(
            self.x.astype(np.int64), ((0, 0), (p, p), (p, p)), constant_values=self.in_zero
        )

    @property
    def shape(self) -> LayerShape:
        """Its sizes."""
        filters, channels, taps, _ = self.weight.shape
        _, height, width = self.x.shape
        return LayerShape(channels, height, width, filters, taps, self.padding)

    @property
    def out_shape(self) -> tuple[int, int, int]:
        """(M, rows, columns) of the result."""
        return self.shape.filters, self.shape.out_height, self.shape.out_width


class Finish(NamedTuple):
    """The last scale and offset of every filter, (M,) each: (sum * scale + offset) >> shift."""

    scale: Integers
    offset: Integers
    shift: int


class Rescale(NamedTuple):
    """What stands behind the products of a quantised engine.

    ``filters``: (M, C, T, T), bytes. ``scale`` and ``offset``: (M, T, T) of every position, the
    former with `SCALE_POINT` bits behind the point. ``unit``: (M,), what 1 of a result stands for.
    """

    filters: Integers
    scale: Integers
    offset: Integers
    unit: Any


def convolved(layer: ByteLayer) -> Integers:
    """Return the sums of direct convolution, of the input as it is, padded by its zero."""
    filters, rows, columns = layer.out_shape
    r = layer.weight.shape[-1]
    sums = np.zeros((filters, rows, columns), np.int64)
    weight = layer.weight.astype(np.int64)
    for i in range(r):
        for j in range(r):
            part = layer.padded[:, i : i + rows, j : j + columns]
            sums += np.tensordot(weight[:, :, i, j], part, 1)
    return sums


def transformed_filters(circuit: EngineCircuit, weight: Integers) -> Integers:
    """Return G g G^T of all filters, exact: (M, C, T, T), or as they are where they are 1x1."""
    weight = weight.astype(np.int64)
    if weight.shape[-1] == 1:
        return weight
    g = np.array(circuit.made.g, np.int64)
    return g @ weight @ g.T


def rescale(circuit: EngineCircuit, layer: ByteLayer) -> Rescale:
    """Return the bytes of transformed filters, and the scales that make up for their rounding.

    A position of a filter is scaled by 127 / max|U| over its channels where that is below 1. With
    the bits that the input's position loses, this is what 1 of its products stands for; the largest
    of a filter's is its unit, and the scale says how much of it the others are.
    """
    exact = transformed_filters(circuit, layer.weight)
    t = exact.shape[-1]
    pointwise = layer.weight.shape[-1] == 1
    largest = np.maximum(np.abs(exact).max(1), 1)
    short = largest > BYTE.high if not pointwise else np.zeros(largest.shape, bool)
    size = np.where(short, largest, BYTE.high)[:, None]
    rounded = np.sign(exact) * ((2 * np.abs(exact) * BYTE.high + size) // (2 * size))
    drops = np.zeros((1, 1), np.int64) if pointwise else np.array(circuit.drops)
    steps = size[:, 0] / BYTE.high * (1 << drops)
    unit = steps.max((1, 2))
    scale = np.rint(steps / unit[:, None, None] * (1 << SCALE_POINT)).astype(np.int64)
    # The input's zero, on all pixels of a tile, is a constant of every position.
    rows = np.ones(t) if pointwise else np.array(circuit.made.bt).sum(1)
    zero = layer.in_zero * rows[:, None] * rows / (1 << drops)
    offset = -np.rint(zero * rounded.sum(1) * scale / (1 << SCALE_POINT)).astype(np.int64)
    divisor = 1 if pointwise else circuit.made.scale**2
    return Rescale(rounded, scale, offset, unit / divisor)


def quantised(circuit: EngineCircuit, layer: ByteLayer) -> tuple[Integers, Rescale]:
    """Return the sums of an engine that rescales to 8 bits, and the scales that it needs."""
    made = rescale(circuit, layer)
    filters, rows, columns = layer.out_shape
    if layer.weight.shape[-1] == 1:
        sums = _summed(circuit, made, layer.padded.reshape(layer.x.shape[0], -1, 1, 1))
        return sums.reshape(filters, rows, columns), made
    m, t = circuit.m, circuit.t
    down, right = -(-rows // m), -(-columns // m)
    _, height, width = layer.padded.shape
    more = (0, (down - 1) * m + t - height), (0, (right - 1) * m + t - width)
    # Pixels beyond the padding are zeros of the input, too.
    image = np.pad(layer.padded, ((0, 0), *more), constant_values=layer.in_zero)
    tiles = np.stack(
        [image[:, i * m : i * m + t, j * m : j * m + t] for i in range(down) for j in range(right)],
        1,
    )
    bt, at = (np.array(rows_, np.int64) for rows_ in (circuit.made.bt, circuit.made.at))
    drops = np.array(circuit.drops)
    values = (bt @ tiles @ bt.T + ((1 << drops) >> 1)) >> drops
    results = at @ _summed(circuit, made, np.minimum(values, BYTE.high)) @ at.T
    sums = results.reshape(filters, down, right, m, m).transpose(0, 1, 3, 2, 4)
    return sums.reshape(filters, down * m, right * m)[:, :rows, :columns], made


def _summed(circuit: EngineCircuit, made: Rescale, values: Integers) -> Integers:
    """Sums over channels: (M, tiles, T, T) of filters and ``values`` (C, tiles, T, T).

    Sums of f_i channels are scaled and rounded before they are added to the others.
    """
    half, scale = 1 << (SCALE_POINT - 1), made.scale[:, None]
    sums = np.repeat(made.offset[:, None], values.shape[1], 1)
    for first in range(0, len(values), circuit.f_i):
        some = slice(first, first + circuit.f_i)
        products = np.einsum("mcij,cpij->mpij", made.filters[:, some], values[some])
        sums += (products * scale + half) >> SCALE_POINT
    return sums


def finish(layer: ByteLayer, unit: Any, zeros: Integers) -> Finish:
    """Return the last scales and offsets.

    1 of a sum stands for ``unit``, and every sum has ``zeros`` too much. Raises InvalidValue where
    a multiplier or a bias is more than the engine's numbers hold.
    """
    factor = np.asarray(layer.multiplier, np.float64) * unit
    shift = 0
    while shift < _SHIFTS and np.rint(factor * 2.0 ** (shift + 1)).max() < 1 << SCALE_BITS:
        shift += 1
    scale = np.rint(factor * 2.0**shift).astype(np.int64)
    bias = np.asarray(layer.bias, np.float64) * layer.multiplier + layer.out_zero + 0.5
    if scale.min() < 0 or scale.max() >> SCALE_BITS:
        raise InvalidValue(
            f"multiplier: got {layer.multiplier!r:.60}; allowed: 0 or more, and less than "
            "2^16 times what 1 of a sum stands for"
        )
    offset = np.floor(bias * 2.0**shift) - scale * zeros  # of 48 bits, which a float64 holds
    if np.abs(offset).max() >= 1 << (SUM_BITS + SCALE_BITS - 1):
        raise InvalidValue(f"bias: got {layer.bias!r:.60}; allowed: integers of 32 bits")
    offset = offset.astype(np.int64)
    return Finish(scale, offset, shift)


def finished(layer: ByteLayer, sums: Integers, last: Finish) -> Integers:
    """Return the bytes of sums."""
    scale, offset = (one[:, None, None] for one in (last.scale, last.offset))
    least = layer.out_zero if layer.relu else BYTE.low
    return np.clip((sums * scale + offset) >> last.shift, least, BYTE.high)
