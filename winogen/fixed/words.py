"""Words of chosen widths: what a layer by a fast algorithm holds in how many bits.

A value whose range fits its word is held as it is. Of any other the lowest bits are dropped, as few
as make the range fit: it is divided by a power of two, rounded to the nearest integer, halves up,
and saturated. Ranges follow from the algorithm alone, or are seen of data: then they are shorter,
and what lies beyond is saturated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from winogen.errors import InvalidValue
from winogen.program.widths import Form, Range, forms, of_products, signed

if TYPE_CHECKING:
    from winogen.fixed.integral import Integral
    from winogen.program.ir import Program

SHORTEST, LONGEST = 2, 128  # bits of a word
TILES, SUMS, SUMMED = ("tiles", ""), ("sums", ""), ("summed", "")

ROOM = 1.5
_FEWER = 6  # bits by how many words may be shorter than the largest value, and one

Key: TypeAlias = tuple[str, str]  # a pass, and a value of its program


@dataclass(frozen=True)
class Span:
    """How wide the lines of a value are, and what is lost if words hold less."""

    bits: tuple[int, ...]
    # (lines, fewer): the mean square of what saturation to ``bits - fewer`` takes off; None: lines
    # may have any values, and nothing is saturated.
    lost: np.ndarray | None = None

    def dropped(self, width: int) -> np.ndarray:
        """Return how many of the lowest bits each line drops to fit words of ``width`` bits.

        The mean square of what rounding and saturation lose is the least.
        """
        bits = np.array(self.bits)
        if self.lost is None:
            return np.maximum(bits - width, 0)
        fewer = np.arange(self.lost.shape[1])
        dropped = np.maximum(bits[:, None] - fewer - width, 0)
        error = self.lost + np.where(dropped > 0, np.ldexp(1.0, 2 * dropped) / 12, 0.0)
        return np.take_along_axis(dropped, error.argmin(1)[:, None], 1)[:, 0]


# A value has a line for each row or column of the other axis; tiles and sums have one for each
# product, filters one for each product and filter.
Spans: TypeAlias = Mapping[Key, Span]


@dataclass(frozen=True)
class Widths:
    """Bits of the words of a layer; None: as many as a value needs.

    >>> Widths(filters=8, tiles=8).limited(sums=20)
    Widths(filters=8, tiles=8, transforms=None, sums=20)
    """

    filters: int | None = None  # transformed filters, one operand of products
    tiles: int | None = None  # transformed tiles, the other
    transforms: int | None = None  # every value inside the transforms of tiles and of sums
    sums: int | None = None  # sums of products over channels

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
            if value is not None and not (whole and SHORTEST <= value <= LONGEST):
                raise InvalidValue(
                    f"{field.name}: got {value!r}; allowed: None, {SHORTEST} to {LONGEST} bits"
                )

    def limited(self, **widths: int | None) -> Widths:
        """Return the same widths but for those that are given."""
        return Widths(**{**vars(self), **widths})

    def of(self, key: Key) -> int | None:
        """Return the bits of a value."""
        return {TILES: self.tiles, SUMS: self.sums}.get(key, self.transforms)

    def hold(self, others: Widths) -> bool:
        """Return whether no word is shorter than that of ``others``.

        >>> Widths(8, 8).hold(Widths(8, 9)), Widths(None, 10).hold(Widths(8, 9))
        (False, True)
        """
        pairs = zip(vars(self).values(), vars(others).values())
        return all(a is None or (b is not None and a >= b) for a, b in pairs)


def spans(made: Integral, channels: int, bits: int = 8) -> Spans:
    """Return the ranges of all values for inputs and filters of so many bits, whatever they are.

    Those of tiles are exact. What follows a product is a sum of inputs times filters, each with an
    integer: the range has all of them at the ends at once.
    """
    byte = signed(bits)
    size = len(made.bt[0])
    inputs = [tuple(int(i == j) for j in range(size)) for i in range(size)]
    found = dict(_passes("input", made.quick_programs["input"], inputs, byte))
    found[TILES] = _of_pairs(made.bt, made.bt, byte)
    # One axis of a product: a linear form of the inputs times one of the taps.
    pairs = [tuple(b * g for b in row for g in taps) for row, taps in zip(made.bt, made.g)]
    ends = [d * g for d in byte for g in byte]
    products = Range(channels * min(ends), channels * max(ends))
    found[SUMS] = found[SUMMED] = _of_pairs(pairs, pairs, products)
    found.update(_passes("output", made.quick_programs["output"], pairs, products))
    return found


def full_widths(made: Integral, channels: int, bits: int = 8) -> Widths:
    """Return the shortest words in which nothing is lost, whatever inputs and filters are.

    >>> from winogen.algebra import cook_toom
    >>> from winogen.fixed import integral
    >>> full_widths(integral(cook_toom(2, 3)), channels=64)
    Widths(filters=12, tiles=10, transforms=27, sums=27)
    """
    found = spans(made, channels, bits)
    widest = {key: max(one.bits) for key, one in found.items()}
    return Widths(
        made.operands("filter", signed(bits)).bits,
        widest.pop(TILES),
        max(bits for key, bits in widest.items() if key != SUMS),
        widest[SUMS],
    )


def _of_pairs(columns: Sequence[Form], rows: Sequence[Form], inputs: Range) -> Span:
    return Span(tuple(of_products([a], [b], inputs).bits for a in columns for b in rows))


def _passes(
    stage: str, program: Program, rows: Sequence[Form], inputs: Range
) -> Iterator[tuple[Key, Span]]:
    """Yield the spans of every statement of both passes, whose inputs are ``rows``."""
    along = {
        name: tuple(sum(c * row[k] for c, row in zip(form, rows)) for k in range(len(rows[0])))
        for name, form in forms(program).items()
    }
    outputs = [along[name] for name in program.outputs]
    for statement in program.statements:
        form = along[statement.target]
        for name, others in ((f"{stage} columns", rows), (f"{stage} rows", outputs)):
            yield (name, statement.target), _of_pairs(others, [form], inputs)


class Seen:
    """Keeps the spans of all values that pass, none wider than those of any data, ``most``.

    Values are taken to be ``room`` times as large as they are; sums, and what is made of them, at
    least `ROOM` times.
    """

    def __init__(self, most: Spans, room: float = 1.0) -> None:
        self.spans: dict[Key, Span] = {}
        self._most, self._room = most, room

    def __call__(self, key: Key, values: np.ndarray) -> np.ndarray:
        """Return ``values``, whose first axis is that of their spans, as they are."""
        axes = tuple(range(1, values.ndim))
        behind = key in (SUMS, SUMMED) or key[0].startswith("output")
        room = max(self._room, ROOM) if behind else self._room
        ends = zip(room * values.min(axes), room * values.max(axes))
        bits = [Range(min(int(low), 0), max(int(high), 0)).bits for low, high in ends]
        if key in self._most:
            bits = [min(pair) for pair in zip(bits, self._most[key].bits)]
        sizes, lost = room * np.abs(values), []
        sizes = np.minimum(sizes, _beside(np.ldexp(1.0, [b - 1 for b in bits]), values))
        for fewer in range(_FEWER):
            most = _beside(np.ldexp(1.0, [b - 1 - fewer for b in bits]), values)
            lost.append((np.maximum(sizes - most, 0) ** 2).mean(axes))
        self.spans[key] = Span(tuple(bits), np.stack(lost, 1))
        return values


class Words:
    """Puts values into words: rounds and saturates them as their spans ask for."""

    def __init__(self, known: Spans, widths: Widths):
        self._spans, self._widths = known, widths
        self._steps: dict[Key, np.ndarray] = {}

    def __call__(self, key: Key, values: np.ndarray) -> np.ndarray:
        """Return ``values``, whose first axis is that of their spans, as their words hold them."""
        return self.saturated(key, self.rounded(key, values))

    def rounded(self, key: Key, values: np.ndarray) -> np.ndarray:
        """Return multiples of the steps of their words, however large."""
        steps = self._of(key)
        if steps is None or (steps == 1).all():
            return values
        steps = _beside(steps, values)
        held = values * (1 / steps)  # exact, as steps are powers of two
        held += 0.5
        np.floor(held, out=held)
        held *= steps
        return held

    def saturated(self, key: Key, values: np.ndarray) -> np.ndarray:
        """Return what words hold of multiples of their steps."""
        steps, bits = self._of(key), self._widths.of(key)
        if steps is None or bits is None:
            return values
        steps, ends = _beside(steps, values), signed(bits)
        return np.clip(values, ends.low * steps, ends.high * steps)

    def _of(self, key: Key) -> np.ndarray | None:
        """The step of each line; None where words are as long as they need be."""
        bits = self._widths.of(key)
        if bits is None:
            return None
        if key not in self._steps:
            self._steps[key] = np.ldexp(1.0, self._spans[key].dropped(bits))
        return self._steps[key]


def _beside(steps: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The step of each line."""
    return steps.reshape(-1, *(1,) * (values.ndim - 1))
