"""What an engine computes: a layer of integers, step by step in the order of a schedule.

Everything is as wide as on the engine: sums are added modulo 2^32, in blocks as the multipliers
take them, and divided by the scale of the algorithm at the end. So the result shows that pieces,
groups, lanes and the order of the steps lose nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from winogen.conv.arguments import whole
from winogen.errors import InvalidType, InvalidValue, Unsupported
from winogen.hardware.arithmetic import check_bits, check_channels, integers, transform
from winogen.hardware.mapping import Mapping, Part, polyphase
from winogen.hardware.schedules import Step, steps

if TYPE_CHECKING:
    from winogen.algebra.bilinear import BilinearAlgorithm
    from winogen.fixed.integral import Integral
    from winogen.hardware.engine import Engine
    from winogen.records import Axis


def convolve(
    engine: Engine,
    input: Any,
    weight: Any,
    *,
    schedule: str = "OS",
    algorithm: BilinearAlgorithm | None = None,
    bits: int = 8,
    sums: int = 32,
    layout: str = "pieces",
    lanes: str = "regions",
    **options: Any,
) -> np.ndarray:
    """Return what an engine makes of a layer of integers: int64, (N, M, OH, OW), exact.

    ``input`` (N, C, H, W) and ``weight`` (M, C/groups, KH, KW) are integers of ``bits`` bits. The
    ``schedule`` is "OS", "IS" or "WS"; ``algorithm`` is F(m, r) of T products (default: that of
    `transform`); ``sums`` are the bits of accumulators, 32 at most here. Other arguments are those
    of `Engine.mapping`.

    Raises InvalidType and InvalidValue, and Unsupported where the channels exceed what sums hold.

    >>> from winogen.hardware import Engine
    >>> x = np.arange(36).reshape(1, 1, 6, 6)
    >>> convolve(Engine(1, 4, 1, 1), x, np.ones((1, 1, 3, 3), int))[0, 0, 0]
    array([63, 72, 81, 90])
    """
    whole("sums", sums, 2, "an int from 2 to 32", 32)
    check_bits("bits", bits)
    arrays = [_whole(name, one, bits) for name, one in (("input", input), ("weight", weight))]
    x, w = arrays
    mapping = engine.mapping(x.shape, w.shape, layout=layout, lanes=lanes, **options)
    if mapping.problem.layer.rank != 2:
        raise Unsupported(f"input: got {x.ndim} axes; allowed: four, (N, C, H, W)")
    algorithm = transform(engine) if algorithm is None else algorithm
    if (algorithm.m, algorithm.r, algorithm.products) != (engine.m, engine.r, engine.T):
        raise InvalidValue(
            f"algorithm: got {algorithm!r} of {algorithm.products} products; allowed: "
            f"F({engine.m}, {engine.r}) of T = {engine.T}"
        )
    check_channels(mapping, algorithm, bits, sums)
    return _LayerData(mapping, integers(algorithm), sums).run(x, w, schedule)


def _whole(name: str, value: Any, bits: int) -> np.ndarray:
    """An array of integers within their bits, as int64."""
    array = np.asarray(value)
    if array.dtype.kind not in "iu":
        raise InvalidType(f"{name}: got dtype {array.dtype}; allowed: integers")
    if array.ndim not in (3, 4):
        raise InvalidValue(f"{name}: got {array.ndim} axes; allowed: four")
    half = 1 << (bits - 1)
    if array.size and (array.min() < -half or array.max() >= half):
        raise InvalidValue(
            f"{name}: got {array.min()} .. {array.max()}; allowed: integers of {bits} bits"
        )
    return array.astype(np.int64)


class _LayerData:
    """The data of a layer on an engine: transformed inputs and filters, and the sums."""

    def __init__(self, mapping: Mapping, exact: Integral, bits: int):
        self.mapping, self.bits = mapping, bits
        self.layer, self.engine = mapping.problem.layer, mapping.engine
        one = np.eye(self.engine.T, dtype=np.int64)
        # Of an axis that is not transformed T outputs are T inputs, times the only tap.
        self.bt, self.g, self.at = zip(*(
            (np.array(exact.bt), np.array(exact.g), np.array(exact.at)) if part.taps > 1
            else (one, np.ones((self.engine.T, 1), np.int64), one)
            for part in mapping.parts
        ))  # fmt: skip
        scale = exact.scale ** sum(part.taps > 1 for part in mapping.parts)
        power = (scale & -scale).bit_length() - 1
        self.odd, self.power = scale >> power, power

    def run(self, x: np.ndarray, w: np.ndarray, schedule: str) -> np.ndarray:
        tiles, filters = self._inputs(x), self._filters(w)
        layer, at_once = self.layer, self.mapping.groups_at_once
        outputs = layer.filters // layer.groups
        sums = np.zeros((layer.filters, *tiles.shape[3:]), np.int64)
        for step in steps(self.mapping, schedule):
            first = step.turn * at_once
            groups = range(first, min(first + at_once, layer.groups))
            rows = slice(groups.start * outputs, groups.stop * outputs)
            v = tiles[groups.start : groups.stop, step.piece]
            u = _side_by_side(filters[groups.start : groups.stop, step.piece])
            self._add(sums[rows], v.reshape(-1, *v.shape[2:]), u, step)
        return self._outputs(sums)

    def _add(self, sums: np.ndarray, v: np.ndarray, u: np.ndarray, step: Step) -> None:
        """Add the products of a step, modulo 2^bits."""
        engine, wide = self.engine, self.mapping.lanes == "channels"
        f_i, side = engine.f_i * (engine.L if wide else 1), 1 if wide else engine.L
        channels = slice(step.channels * f_i, (step.channels + 1) * f_i)
        filters = slice(step.filters * engine.f_o, (step.filters + 1) * engine.f_o)
        tiles = slice(step.tiles * side, (step.tiles + 1) * side)
        products = np.einsum("ctij,cfij->ftij", v[channels, tiles], u[channels, filters])
        sums[filters, tiles] = self._wrapped(sums[filters, tiles] + products)

    def _wrapped(self, values: np.ndarray) -> np.ndarray:
        half = 1 << (self.bits - 1)
        return (values + half) % (2 * half) - half

    def _inputs(self, x: np.ndarray) -> np.ndarray:
        """(groups, passes, channels, tiles, rows, T)."""
        height, width = (
            _seen(axis, part, outputs)
            for axis, part, outputs in zip(self.layer.plane, self.mapping.parts, self.mapping.map)
        )
        top, left = (max(0, -int(seen.min())) for seen in (height, width))
        bottom, right = (
            max(0, int(seen.max()) + 1 - size)
            for seen, size in zip((height, width), self.mapping.problem.size)
        )
        padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
        # N, C, piece, tile, T of the height, the same of the width
        seen = padded[:, :, (height + top)[..., None, None, None], width + left]
        seen = np.einsum("ai,bj,ncptiqsj->cpqntsab", self.bt[0], self.bt[1], seen)
        channels, ph, pw, batch, th, tw, T, _ = seen.shape
        if self.mapping.transformed:
            tiles = seen.reshape(channels, ph * pw, batch * th * tw, T, T)
        else:  # pixels in rows of T
            pixels = seen.transpose(0, 1, 2, 3, 4, 6, 5, 7)
            pixels = pixels.reshape(channels, ph * pw, batch, th * T, tw * T)
            rows, columns = self.mapping.map
            pixels = pixels[..., :rows, :columns].reshape(channels, ph * pw, -1)
            spare = -pixels.shape[-1] % T
            tiles = np.pad(pixels, ((0, 0), (0, 0), (0, spare))).reshape(
                channels, ph * pw, -1, 1, T
            )
        return self._stacked(tiles.reshape(self.layer.groups, -1, *tiles.shape[1:]))

    def _filters(self, w: np.ndarray) -> np.ndarray:
        """(groups, passes, channels, filters, rows, T)."""
        channels = w.shape[1]
        height, width = (
            _taps(axis, part) for axis, part in zip(self.layer.plane, self.mapping.parts)
        )
        spare = np.pad(w, ((0, 0), (0, 0), (0, 1), (0, 1)))  # the last of each axis is no tap
        taps = spare[:, :, height[..., None, None], width]
        u = np.einsum("ai,bj,mcpiqj->mcpqab", self.g[0], self.g[1], taps)
        u = u.reshape(self.layer.groups, -1, channels, u.shape[2] * u.shape[3], *u.shape[4:])
        if not self.mapping.transformed:
            u = u[..., :1, :]
        return self._stacked(u.transpose(0, 2, 3, 1, 4, 5))

    def _stacked(self, array: np.ndarray) -> np.ndarray:
        """(groups, channels, pieces, ...) -> (groups, passes, channels of a pass, ...)."""
        array = array.swapaxes(1, 2)
        if self.mapping.stacked:
            array = array.reshape(array.shape[0], 1, -1, *array.shape[3:])
        return array

    def _outputs(self, sums: np.ndarray) -> np.ndarray:
        """Transform and divide sums (filters, tiles, rows, T) into (N, M, OH, OW)."""
        problem = self.mapping.problem
        rows, columns = self.mapping.map
        filters, shape = len(sums), (problem.batch, self.layer.filters, rows, columns)
        if not self.mapping.transformed:
            pixels = sums.reshape(filters, -1)[:, : problem.batch * rows * columns]
            return np.ascontiguousarray(
                pixels.reshape(filters, problem.batch, rows, columns).swapaxes(0, 1)
            )
        y = self._wrapped(np.einsum("ia,jb,ftab->ftij", self.at[0], self.at[1], sums))
        y = self._wrapped(y * pow(self.odd, -1, 1 << self.bits)) >> self.power
        height, width = (
            _written(axis, part, outputs)
            for axis, part, outputs in zip(self.layer.plane, self.mapping.parts, self.mapping.map)
        )
        tiles = y.reshape(
            filters, problem.batch, *(p.tiles for p in self.mapping.parts), *y.shape[2:]
        )
        tiles = tiles.transpose(1, 0, 2, 4, 3, 5)
        tiles = tiles.reshape(*tiles.shape[:2], height.size, width.size)
        result = np.zeros((*shape[:2], rows + 1, columns + 1), np.int64)
        result[:, :, height.reshape(-1, 1), width.reshape(-1)] = tiles
        return result[:, :, :rows, :columns]


def _side_by_side(filters: np.ndarray) -> np.ndarray:
    """Filters of some groups (groups, channels, filters, ...) as one set, with zeros between."""
    groups, channels, outputs, *rest = filters.shape
    wide = np.zeros((groups, channels, groups, outputs, *rest), np.int64)
    for group in range(groups):
        wide[group, :, group] = filters[group]
    return wide.reshape(groups * channels, groups * outputs, *rest)


def _firsts(axis: Axis, part: Part) -> list[tuple[int, int]]:
    """The polyphase part and the first tap in it of each piece."""
    if part.taps == 1:
        return [(tap, 0) for tap in range(axis.kernel)]
    return [
        (phase, first)
        for phase, taps in enumerate(polyphase(axis))
        for first in range(0, len(taps), part.taps)
    ]


def _tap(axis: Axis, part: Part, phase: int, at: int) -> int:
    """Which tap of the filter one of a polyphase part is."""
    return phase + at * (axis.stride if part.taps > 1 else 1)


def _taps(axis: Axis, part: Part) -> np.ndarray:
    """(pieces, taps): which tap of the filter each is; the number of taps for none."""
    indices = [
        [_tap(axis, part, phase, first + k) for k in range(part.taps)]
        for phase, first in _firsts(axis, part)
    ]
    return np.minimum(indices, axis.kernel)


def _seen(axis: Axis, part: Part, outputs: int) -> np.ndarray:
    """(pieces, tiles, inputs of a tile): which input each is; those of the padding are none."""
    spread = axis.dilation if part.taps > 1 else 1
    starts = [
        first + part.outputs * tile * spread
        for first, tiles in _maps(axis, part, outputs)
        for tile in range(tiles)
    ]
    step = axis.stride * spread
    return np.array([
        [
            [
                start * axis.stride + n * step
                + _tap(axis, part, phase, first) * axis.dilation - axis.before
                for n in range(part.outputs + part.taps - 1)
            ]
            for start in starts
        ]
        for phase, first in _firsts(axis, part)
    ])  # fmt: skip


def _written(axis: Axis, part: Part, outputs: int) -> np.ndarray:
    """(tiles, outputs of a tile): which output each is; the number of outputs for none."""
    step = axis.dilation if part.taps > 1 else 1
    indices = [
        [first + (part.outputs * tile + n) * step for n in range(part.outputs)]
        for first, tiles in _maps(axis, part, outputs)
        for tile in range(tiles)
    ]
    return np.minimum(indices, outputs)


def _maps(axis: Axis, part: Part, outputs: int) -> list[tuple[int, int]]:
    """The first output of each map that a dilated axis becomes, and its tiles."""
    if part.taps == 1:
        return [(0, part.tiles)]
    maps = [
        (first, -(-len(range(first, outputs, axis.dilation)) // part.outputs))
        for first in range(min(axis.dilation, outputs))
    ]
    assert sum(tiles for _, tiles in maps) == part.tiles
    return maps
