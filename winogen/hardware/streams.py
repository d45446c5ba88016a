"""The words of an engine's streams and tables for a layer, as lines of hexadecimal digits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from winogen.codegen.verilog.engine import SCALE_BITS, SUM_BITS
from winogen.hardware.emulation import (
    convolved,
    finish,
    finished,
    quantised,
    transformed_filters,
)

if TYPE_CHECKING:
    from winogen.hardware.accelerator import Accelerator
    from winogen.hardware.emulation import ByteLayer, Integers, Rescale


def streams(made: Accelerator, layer: ByteLayer, settings: dict[str, int]) -> dict[str, list[str]]:
    """Return what goes in and what must come out: {name: words}.

    "input", "filters", "finish", in a quantised engine "rescale"; and "bytes" and "sums", words of
    results. ``settings``: those of the layer, but for what its numbers say.
    """
    circuit = made.circuit
    groups = settings["channel_groups"], settings["filter_groups"]
    rescaled: Rescale | None = None
    if circuit.quantised:
        sums, rescaled = quantised(circuit, layer)
        filters, unit = rescaled.filters, rescaled.unit
        zeros: Any = 0
    else:
        sums, filters = convolved(layer), transformed_filters(circuit, layer.weight)
        unit = 1
        zeros = layer.in_zero * layer.weight.astype(np.int64).sum((1, 2, 3))
    last = finish(layer, unit, zeros)
    settings |= {
        "shift": last.shift,
        "relu": int(layer.relu),
        "in_zero": layer.in_zero & 255,
        "out_zero": layer.out_zero & 255,
    }
    found = {
        "input": list(_input(made, layer, settings)),
        "filters": list(_filters(made, filters, groups, settings)),
        "finish": list(_finish(made, last.scale, last.offset, groups[1])),
    }
    if rescaled is not None:
        found["rescale"] = list(_rescale(made, rescaled, groups[1]))
    bytes_ = finished(layer, sums, last)
    found["bytes"] = list(_results(made, bytes_, settings, layer.out_zero, 8))
    found["sums"] = list(_results(made, sums, settings, 0, SUM_BITS))
    return found


def word(numbers: Integers, bits: int) -> str:
    """Return integers of so many bits as one word, the first one lowest.

    >>> word(np.array([1, -1, 2]), 4)
    '2f1'
    """
    mask = (1 << bits) - 1
    total = "".join(f"{int(one) & mask:0{bits}b}" for one in numbers.ravel()[::-1])
    return f"{int(total, 2):0{-(-len(total) // 4)}x}"


def _padded(array: Integers, size: int, axis: int, value: int = 0) -> Integers:
    """An array made longer along an axis."""
    widths = [(0, 0)] * array.ndim
    widths[axis] = (0, size - array.shape[axis])
    return np.pad(array.astype(np.int64), widths, constant_values=value)


def _input(made: Accelerator, layer: ByteLayer, settings: dict[str, int]) -> Iterator[str]:
    """Row by row, in each row group by group of channels, in each group word by word."""
    circuit = made.circuit
    lanes, t, f_i = circuit.lanes, circuit.t, circuit.f_i
    pointwise, groups = settings["pointwise"], settings["channel_groups"]
    x = _padded(layer.x, groups * f_i, 0)
    if pointwise:
        x, width = x.reshape(len(x), 1, -1), lanes * t
        slices = -(-x.shape[2] // width)
        size = settings["stream_words"]
        x = _padded(x, slices * width, 2, layer.in_zero)
        rows = [x[:, 0, i * size * width :][:, : size * width] for i in range(settings["windows"])]
    else:
        width = lanes * circuit.m
        x = _padded(x, settings["stream_words"] * width, 2, layer.in_zero)
        rows = [x[:, i] for i in range(x.shape[1])]
    for row in rows:
        for group in range(groups):
            channels = row[group * f_i : (group + 1) * f_i]
            for first in range(0, row.shape[1], width):
                pixels = channels[:, first : first + width].T
                yield word(_padded(pixels, lanes * t, 0), 8)


def _filters(
    made: Accelerator, filters: Integers, groups: tuple[int, int], settings: dict[str, int]
) -> Iterator[str]:
    """Group by group of filters, in each by group of channels, slice by slice, filter by filter."""
    circuit = made.circuit
    f_i, f_o, bits = circuit.f_i, circuit.f_o, circuit.filters.bits
    whole = _padded(_padded(filters, groups[0] * f_i, 1), groups[1] * f_o, 0)
    once = []
    for first_filter in range(0, len(whole), f_o):
        for first_channel in range(0, whole.shape[1], f_i):
            some = whole[first_filter : first_filter + f_o, first_channel : first_channel + f_i]
            for column in range(whole.shape[3]):
                for one in some[..., column]:  # channels x rows
                    rows = one.T
                    if settings["pointwise"]:  # all positions of a slice meet the same weights
                        rows = np.repeat(rows, circuit.t, 0)
                    once.append(word(rows, bits))
    yield from once * (1 if settings["resident"] else settings["windows"])


def _finish(made: Accelerator, scale: Integers, offset: Integers, groups: int) -> Iterator[str]:
    """For each group of filters the scales, and above each its offset."""
    f_o = made.circuit.f_o
    scale, offset = (_padded(one, groups * f_o, 0) for one in (scale, offset))
    both = scale + (offset.astype(object) << SCALE_BITS)
    for first in range(0, groups * f_o, f_o):
        yield word(both[first : first + f_o], SUM_BITS + 2 * SCALE_BITS)


def _rescale(made: Accelerator, rescaled: Rescale, groups: int) -> Iterator[str]:
    """For each group of filters, slice by slice: all scales of it, and above these all offsets."""
    f_o, t = made.circuit.f_o, made.circuit.t
    scale, offset = (_padded(one, groups * f_o, 0) for one in (rescaled.scale, rescaled.offset))
    for first in range(0, groups * f_o, f_o):
        for column in range(scale.shape[2]):
            parts = []
            for one, bits in ((scale, SCALE_BITS), (offset, SUM_BITS)):
                some = one[first : first + f_o, :, column]
                parts.append((np.broadcast_to(some, (f_o, t)), bits))
            low, high = (word(numbers, bits) for numbers, bits in parts)
            yield high + low


def _results(
    made: Accelerator, results: Integers, settings: dict[str, int], outside: int, bits: int
) -> Iterator[str]:
    """Window by window, by groups of filters, tile by tile, row by row of the image."""
    circuit = made.circuit
    lanes, t, m, f_o = circuit.lanes, circuit.t, circuit.m, circuit.f_o
    whole = _padded(results, settings["filter_groups"] * f_o, 0)
    if settings["pointwise"]:
        whole, width, step = whole.reshape(len(whole), 1, -1), lanes * t, 1
    else:
        width, step = lanes * m, m
    first_tile = 0
    for window in range(settings["windows"]):
        tiles = settings["tiles" if window + 1 < settings["windows"] else "last_tiles"]
        for first in range(0, len(whole), f_o):
            for tile in range(tiles):
                rows = [0] if settings["pointwise"] else range(window * m, window * m + step)
                for row in rows:
                    if row >= whole.shape[1]:
                        continue
                    start = (first_tile + tile) * width
                    pixels = whole[first : first + f_o, row, start : start + width].T
                    pixels = _padded(pixels, lanes * t, 0, outside)
                    # Filters that the last group lacks have neither scale nor offset.
                    yield word(pixels, bits)
        first_tile += tiles if settings["pointwise"] else 0
