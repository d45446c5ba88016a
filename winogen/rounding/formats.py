"""Number formats, and arithmetic in the formats without any in numpy.

A ``Format`` rounds numbers, and packs them into the bytes that memory holds of them. Formats of
numpy are float16, float32, float64 and integers of 8 and 16 bits; others are bfloat16 and flytes
(Keane's thesis, chapter 8), the top bytes of a wider number: of binary32 three (flyte24), two
(flyte16, by rounding the same as bfloat16) or one (flyte8, whose exponent has lost its last bit),
of binary64 seven (flyte56d) to one. Those of flyte24_cut are not rounded.

An ``Arithmetic`` runs straight-line programs the way a machine of that format would: every
operation is rounded once. Narrow formats are carried in a wider one and rounded after each
operation; if that has 2 * bits + 2 bits, rounding twice gives what rounding once does (Figueroa
1995).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from winogen.errors import InvalidType, InvalidValue
from winogen.program import Program
from winogen.program.evaluate import execute, round_scalar
from winogen.records import FLYTES, NUMBERS

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike

    from winogen.algebra.scalar import Scalar

Numbers: TypeAlias = Any  # an array of numbers of a format, or one of them

ROUNDINGS = ("even", "cut")  # to the nearest, ties to even; towards zero


@dataclass(frozen=True)
class Format:
    """A binary format of numbers; ``carrier`` is the numpy dtype that holds them when computing.

    ``stored`` is the numpy dtype whose bytes are kept, the upper ``size`` of them.
    """

    name: str
    bits: int  # significand bits, the hidden one included; of integers the bits of the magnitude
    exponent: int  # bits of the exponent; 0: integers
    size: int  # bytes in memory
    carrier: type[np.floating]
    stored: type[np.number]
    rounding: str = "even"

    @property
    def unit(self) -> float:
        """The unit roundoff, the largest relative error of one rounding."""
        return 2.0 ** (1 - self.bits if self.rounding == "cut" else -self.bits)

    @property
    def smallest_normal(self) -> float:
        """The smallest number with all bits of the significand.

        >>> FORMATS["float16"].smallest_normal == 2.0**-14, FORMATS["float16"].largest
        (True, 65504.0)
        """
        return 2.0 ** (2 - (1 << (self.exponent - 1)))

    @property
    def step(self) -> float:
        """The distance of neighbours below that number."""
        return self.smallest_normal * 2.0 ** (1 - self.bits)

    @property
    def largest(self) -> float:
        """The largest finite number."""
        return (2 - 2.0 ** (1 - self.bits)) * 2.0 ** ((1 << (self.exponent - 1)) - 1)

    @property
    def emulated(self) -> bool:
        """Whether the carrier is wider, so that results must be rounded."""
        return self.floating and np.finfo(self.carrier).nmant + 1 != self.bits

    @property
    def floating(self) -> bool:
        """Whether its numbers have an exponent."""
        return self.exponent > 0

    def rounds(self, rounding: str) -> Format:
        """Return the same format with another rounding of `ROUNDINGS`."""
        if rounding not in ROUNDINGS:
            raise InvalidValue(f"rounding: got {rounding!r}; allowed: {', '.join(ROUNDINGS)}")
        return replace(self, rounding=rounding)

    def round(self, values: ArrayLike) -> np.ndarray:
        """Round numbers once to this format; they come back in its carrier.

        >>> formats = format_named("bfloat16"), format_named("float16")
        >>> [float(f.round(np.float32(1 + 1 / 512 + 1 / 1024))) for f in formats]
        [1.0, 1.0029296875]
        """
        values = np.asarray(values)
        if values.dtype == self.stored == self.carrier and not self._is_cut_short:
            return values
        return self._narrowed(values).astype(self.carrier)

    def pack(self, values: ArrayLike) -> np.ndarray:
        """Round numbers and return their bytes, (…, size) of uint8, the lowest first.

        What is too large becomes infinite, NaN stays NaN, zeros keep their sign. Flytes without a
        fraction (flyte8) have neither infinity nor NaN: those become the largest number. Integers
        are saturated, NaN becomes 0.

        >>> [bytes(FORMATS[name].pack(-1.5)).hex() for name in ("flyte24", "bfloat16", "float16")]
        ['00c0bf', 'c0bf', '00be']
        """
        numbers = self._narrowed(np.asarray(values))
        # In little-endian order the upper bytes are the last.
        little = numbers.astype(numbers.dtype.newbyteorder("<"), order="C")
        whole = little[..., None].view(np.uint8)
        return np.ascontiguousarray(whole[..., whole.shape[-1] - self.size :])

    def unpack(self, packed: np.ndarray) -> np.ndarray:
        """Return the numbers, in the carrier, of bytes (…, size) as `pack` returns them."""
        packed = np.asarray(packed, np.uint8)
        if not packed.shape or packed.shape[-1] != self.size:
            raise InvalidValue(
                f"packed: got shape {packed.shape}; allowed: (…, {self.size}), the bytes of "
                f"{self.name} numbers"
            )
        whole = np.zeros((*packed.shape[:-1], np.dtype(self.stored).itemsize), np.uint8)
        whole[..., whole.shape[-1] - self.size :] = packed
        numbers = whole.view(np.dtype(self.stored).newbyteorder("<"))[..., 0]
        with np.errstate(invalid="ignore"):  # signalling NaN become quiet
            return numbers.astype(self.carrier)

    def ulp(self, values: ArrayLike) -> np.ndarray:
        """The distance between neighbouring numbers at ``values``, as float64; subnormals aside."""
        _, exponent = np.frexp(np.asarray(values, np.float64))
        return np.ldexp(1.0, exponent - self.bits)

    def __str__(self) -> str:
        return self.name

    @property
    def _is_cut_short(self) -> bool:
        """Whether memory holds the upper bytes of ``stored`` only."""
        return self.size < np.dtype(self.stored).itemsize

    def _narrowed(self, values: np.ndarray) -> np.ndarray:
        """Numbers of ``stored`` that have been rounded, whose lower bytes are 0."""
        if not self.floating:
            return _integers(values, self.stored, self.rounding)
        if not self._is_cut_short:
            return _converted(_quiet(values), self.stored, self.rounding)
        # First to the wide type, so that the second rounding does what one would have done.
        wide = values if values.dtype == self.stored else _to_odd(values, self.stored)
        return _cut(wide, 8 * (wide.itemsize - self.size), self.rounding)


def _converted(values: np.ndarray, to: type[np.number], rounding: str) -> np.ndarray:
    """Numbers as numpy rounds them, or towards zero."""
    with np.errstate(over="ignore"):
        rounded = values.astype(to)
    if rounding == "even":
        return rounded
    further = (np.abs(rounded) > np.abs(values)) & np.isfinite(values)
    return np.where(further, np.nextafter(rounded, to(0)), rounded)


def _quiet(values: np.ndarray) -> np.ndarray:
    """The same numbers, their NaN made quiet: their fraction's first bit set."""
    if values.dtype.kind != "f":
        return values
    kind = _bits_of(values.dtype.type)
    first = kind(1 << (np.finfo(values.dtype).nmant - 1))
    return (values.view(kind) | np.where(np.isnan(values), first, kind(0))).view(values.dtype)


def _to_odd(values: np.ndarray, to: type[np.number]) -> np.ndarray:
    """Numbers rounded towards zero, with their last bit set where that loses something.

    If ``to`` has two bits more than a third format, rounding to that gives what rounding
    ``values`` to it at once gives (Boldo and Melquiond 2008).
    """
    cut = _converted(values, to, "cut")
    inexact = (cut != values) & ~np.isnan(values)
    return (cut.view(_bits_of(to)) | inexact).view(to)


def _cut(values: np.ndarray, dropped: int, rounding: str) -> np.ndarray:
    """Numbers without their lowest ``dropped`` bits, rounded.

    The integer that the bits are is rounded: the fraction carries into the exponent, and the
    largest numbers into infinity.
    """
    kind = _bits_of(values.dtype.type)
    width = 8 * values.itemsize
    bits = _quiet(values).view(kind)
    sign, size = bits & kind(1 << (width - 1)), bits & kind((1 << (width - 1)) - 1)
    kept = size >> kind(dropped)
    if rounding == "even":
        half = kind((1 << (dropped - 1)) - 1) + (kept & kind(1))
        kept = np.where(np.isnan(values), kept, (size + half) >> kind(dropped))
    # Without a fraction the largest number would carry into the sign.
    kept = np.minimum(kept, kind((1 << (width - 1 - dropped)) - 1))
    return (sign | (kept << kind(dropped)).astype(kind)).view(values.dtype)


def _integers(values: np.ndarray, to: type[np.number], rounding: str) -> np.ndarray:
    limits = np.iinfo(cast(Any, to))
    whole = np.rint(values) if rounding == "even" else np.trunc(values)
    return np.nan_to_num(np.clip(whole, limits.min, limits.max), nan=0).astype(to)


def _bits_of(kind: type) -> Any:
    """The unsigned integer of the same size."""
    return {2: np.uint16, 4: np.uint32, 8: np.uint64}[np.dtype(kind).itemsize]


def _known(name: str) -> Format:
    """The format of an entry of `NUMBERS`: numpy's own type, or the first bytes of a wider one."""
    number = NUMBERS[name]
    types: dict[str, type[np.number]] = {
        "float16": np.float16,
        "float64": np.float64,
        "int16": np.int16,
        "int8": np.int8,
        "uint8": np.uint8,
        "uint16": np.uint16,
    }
    wide = "float64" in (name, number.wide)
    stored = np.float64 if wide else types.get(name, np.float32)
    # Twice as many bits and two more carry arithmetic; of float64 nothing wider is there.
    short = name == "float32" or 2 * number.bits + 2 <= 24
    carrier = np.float64 if wide or (number.exponent and not short) else np.float32
    rounding = "cut" if number.cut else "even"
    return Format(name, number.bits, number.exponent, number.itemsize, carrier, stored, rounding)


_NAMES = (
    *("bfloat16", "float16", "float32", "float64"),
    *(one.name for one in FLYTES),
    *("int16", "int8", "uint8", "uint16"),
)
FORMATS: dict[str, Format] = {name: _known(name) for name in _NAMES}


def format_named(name: str | DTypeLike | Format, argument: str = "dtype") -> Format:
    """Return the floating-point format called ``name``; ``argument`` is named in the error.

    >>> format_named("float32").unit == 2.0 ** -24
    True
    """
    if isinstance(name, Format):
        return name
    floating = ", ".join(entry.name for entry in FORMATS.values() if entry.floating)
    try:
        key = name if isinstance(name, str) else np.dtype(name).name
    except TypeError:
        raise InvalidType(f"{argument}: got {name!r}; allowed: {floating}") from None
    if key in FORMATS and FORMATS[key].floating:
        return FORMATS[key]
    if key.lstrip("u").startswith("int"):
        floating += "; integers round nowhere: winogen.fixed.integral"
    raise InvalidValue(f"{argument}: got {name!r}; allowed: {floating}")


@dataclass(frozen=True)
class Arithmetic:
    """Addition, multiplication and multiply-add in one format.

    ``fused`` rounds c*x + y once, as compiled C does where the machine has FMA instructions.
    """

    format: Format
    fused: bool = False

    def __post_init__(self) -> None:
        if self.fused and self.format.name == "float64":
            # The product of two float64 numbers fits no wider type of numpy.
            raise InvalidValue(
                "fused: got True with float64; allowed: False, or float32 and narrower formats"
            )

    def add(self, x: Numbers, y: Numbers) -> Numbers:
        """x + y, rounded once."""
        return self.rounded(x + y)

    def multiply(self, x: Numbers, y: Numbers) -> Numbers:
        """x * y, rounded once."""
        return self.rounded(x * y)

    def multiply_add(self, x: Numbers, y: Numbers, z: Numbers) -> Numbers:
        """x * y + z, rounded once if fused, else twice."""
        if not self.fused:
            return self.add(self.multiply(x, y), z)
        # The product is exact in float64, so only the sum and the way back round.
        return self.format.round(np.multiply(x, y, dtype=np.float64) + z)

    def run(self, program: Program, values: np.ndarray) -> np.ndarray:
        """The outputs of ``program`` for ``values``, whose first axis are the inputs.

        Values are taken to be numbers of the format; constants are rounded to it once.
        """
        zero = np.zeros(values.shape[1:], self.format.carrier)
        result = np.empty((len(program.outputs), *zero.shape), zero.dtype)
        for i, row in enumerate(execute(program, list(values), zero, self)):
            result[i] = row
        return result

    def constant(self, scalar: Scalar) -> np.floating:
        """An exact scalar rounded to the format."""
        return cast(np.floating, self.format.round(round_scalar(scalar, self.format.carrier))[()])

    def rounded(self, values: Numbers) -> Numbers:
        """What came out of one operation of the carrier, rounded to the format."""
        return self.format.round(values) if self.format.emulated else values
