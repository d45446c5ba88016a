"""A convolution of integers by a fast algorithm in words of chosen widths, in numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from winogen.errors import InvalidType, InvalidValue
from winogen.fixed.ranges import signed
from winogen.fixed.words import (
    SUMMED,
    SUMS,
    TILES,
    Key,
    Seen,
    Spans,
    Widths,
    Words,
    full_widths,
    spans,
)  # fmt: skip

if TYPE_CHECKING:
    from winogen.fixed.integral import Integral
    from winogen.program.ir import Program

Hold: TypeAlias = Callable[[Key, np.ndarray], np.ndarray]
_FILTERS = ("filters", "")


class WordConv2d:
    """A convolution of stride 1 by F(m x m, r x r), as a device of short words computes it.

    ``weight``: integers of ``bits`` (M, C, r, r). ``padding``: zeros above and below, left and
    right. ``seen``: ranges that `see` returned of data; without them words have the ranges of any
    data, and nothing is saturated. ``chunk``: channels whose products are summed exactly before
    their sum joins the others, rounded and saturated; None: all.

    With `full_widths` results are those of direct convolution: everything is computed modulo 2^64,
    as the result fits. Shorter words are computed in float64, which holds integers times powers of
    two; sums of more than 53 bits lose what is below.

    Raises InvalidValue for what does not fit together, InvalidType for what is no integers.

    >>> from winogen.algebra import cook_toom
    >>> from winogen.fixed import integral
    >>> x, w = np.full((1, 3, 6, 6), 100), np.full((2, 3, 3, 3), 100)
    >>> exact, short = (WordConv2d(w, integral(cook_toom(4, 3, "0,1,-1,2,-2,inf")), widths)
    ...                 for widths in (Widths(), Widths(8, 8)))
    >>> int(exact(x).max()), int(short(x).max())
    (270000, 269995)
    """

    def __init__(
        self,
        weight: np.ndarray,
        made: Integral,
        widths: Widths | None = None,
        *,
        padding: tuple[int, int] = (0, 0),
        bits: int = 8,
        seen: Spans | None = None,
        chunk: int | None = None,
    ):
        taps = made.algorithm.r
        self._bits = bits
        _check("weight", weight, bits)
        if weight.ndim != 4 or weight.shape[2:] != (taps, taps):
            raise InvalidValue(
                f"weight: got the shape {weight.shape}; allowed: (M, C, {taps}, {taps})"
            )
        if chunk is not None and chunk < 1:
            raise InvalidValue(f"chunk: got {chunk}; allowed: None, a positive number of channels")
        self._made, self._padding, self._seen = made, padding, seen
        channels = weight.shape[1]
        self._chunk = min(chunk or channels, channels)
        widths = widths or Widths()
        g = np.array(made.g, np.int64)
        self._exact_filters = np.einsum("pi,mcij,qj->pqmc", g, weight.astype(np.int64), g)
        lossless = seen is None and widths.hold(full_widths(made, channels, bits))
        self._whole = lossless or widths == Widths()
        if self._whole:
            return
        self._words = Words(spans(made, channels, bits) if seen is None else seen, widths)
        # Filters are known before: each has words of its own in each product.
        own, flat = Seen({}), self._exact_filters.reshape(-1, channels).astype(np.float64)
        own(_FILTERS, flat)
        short = Words(own.spans, Widths(transforms=widths.filters))(_FILTERS, flat)
        self._filters = short.reshape(self._exact_filters.shape)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return the sums (N, M, OH, OW), int64, of integers (N, C, H, W) of the same bits.

        Results are rounded to integers, halves up. Raises InvalidType, InvalidValue.
        """
        made = self._made
        if self._whole:
            y = self._run(x, np.int64, self._exact_filters, lambda key, values: values)
            odd, power = made.divisor()
            inverse = pow(odd, -1, 1 << 64)
            with np.errstate(over="ignore"):
                return (y * np.uint64(inverse).astype(np.int64)) >> power
        y = self._run(x, np.float64, self._filters, self._words)
        return np.floor(y / made.scale**2 + 0.5).astype(np.int64)

    def see(self, x: np.ndarray, room: float = 1.0) -> Spans:
        """Return the ranges of all values for inputs (N, C, H, W), with nothing rounded.

        ``room``: by what values may be larger than those.
        """
        seen = Seen(spans(self._made, self._exact_filters.shape[3], self._bits), room)
        self._run(x, np.float64, self._exact_filters.astype(np.float64), seen)
        return seen.spans

    def _run(self, x: np.ndarray, dtype: type, filters: np.ndarray, hold: Hold) -> np.ndarray:
        """The scale squared times the sums."""
        _check("x", x, self._bits)
        made, m = self._made, self._made.algorithm.m
        if x.ndim != 4 or x.shape[1] != filters.shape[3]:
            raise InvalidValue(
                f"x: got the shape {x.shape}; allowed: (N, {filters.shape[3]}, H, W)"
            )
        size, taps = len(made.bt[0]), made.algorithm.r
        outputs = [s + 2 * p - taps + 1 for s, p in zip(x.shape[2:], self._padding)]
        if min(outputs) < 1:
            raise InvalidValue(f"x: got the shape {x.shape}; allowed: no smaller than the filters")
        counts = [-(-count // m) for count in outputs]
        room = [count * m + size - m - s - p for count, s, p in
                zip(counts, x.shape[2:], self._padding)]  # fmt: skip
        ends = [(p, more) for p, more in zip(self._padding, room)]
        padded: np.ndarray = np.pad(x.astype(dtype), ((0, 0), (0, 0), *ends))
        tiles = np.lib.stride_tricks.sliding_window_view(padded, (size, size), (2, 3))
        tiles = tiles[:, :, ::m, ::m].transpose(4, 5, 1, 0, 2, 3)
        tiles = tiles.reshape(size, size, x.shape[1], -1)
        v = _transformed("input", made.quick_programs["input"], tiles, hold)
        v = _held(TILES, v, hold)
        sums = self._sums(filters, v, hold)
        y = _transformed("output", made.quick_programs["output"], _held(SUMMED, sums, hold), hold)
        y = y.reshape(m, m, len(filters[0, 0]), len(x), *counts).transpose(3, 2, 4, 0, 5, 1)
        y = y.reshape(len(x), len(filters[0, 0]), m * counts[0], m * counts[1])
        return y[:, :, : outputs[0], : outputs[1]]

    def _sums(self, filters: np.ndarray, tiles: np.ndarray, hold: Hold) -> np.ndarray:
        channels = tiles.shape[2]
        if not isinstance(hold, Words) or self._chunk >= channels:
            return _held(SUMS, filters @ tiles, hold)
        total = np.zeros((*tiles.shape[:2], filters.shape[2], tiles.shape[3]))
        for first in range(0, channels, self._chunk):
            some = slice(first, first + self._chunk)
            part = _held(SUMS, filters[..., some] @ tiles[:, :, some], hold.rounded)
            total = _held(SUMS, total + part, hold.saturated)
        return total


def _check(name: str, values: np.ndarray, bits: int) -> None:
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "iu":
        kind = getattr(values, "dtype", type(values).__name__)
        raise InvalidType(f"{name}: got {kind}; allowed: an array of integers")
    ends = signed(bits)
    if values.size and not (ends.low <= values.min() and values.max() <= ends.high):
        raise InvalidValue(
            f"{name}: got {values.min()} to {values.max()}; allowed: {ends.low} to {ends.high}"
        )


def _held(key: Key, values: np.ndarray, hold: Hold) -> np.ndarray:
    """Hold values (rows, columns, …), of which each product is a line."""
    return hold(key, values.reshape(-1, *values.shape[2:])).reshape(values.shape)


def _transformed(stage: str, program: Program, values: np.ndarray, hold: Hold) -> np.ndarray:
    """Columns, then rows, of (n, n, channels, tiles)."""
    columns = _run(f"{stage} columns", program, values, hold)
    rows = _run(f"{stage} rows", program, columns.swapaxes(0, 1), hold)
    return rows.swapaxes(0, 1)


def _run(part: str, program: Program, values: np.ndarray, hold: Hold) -> np.ndarray:
    """A program whose inputs are along the first axis; every statement's value is held."""
    known = dict(zip(program.inputs, values))
    for statement in program.statements:
        total = None
        for term in statement.terms:
            some = known[term.operand] * int(term.coefficient)  # type: ignore[arg-type]
            total = some if total is None else total + some
        assert total is not None
        known[statement.target] = hold((part, statement.target), total)
    return np.stack([known[name] for name in program.outputs])
