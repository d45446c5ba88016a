"""Number formats and arithmetic in them, emulated where numpy has none.

An ``Arithmetic`` runs straight-line programs the way a machine of that format would: every
operation is rounded once. Narrow formats are carried in float32 and rounded after each operation;
since 24 >= 2 * 11 + 2 bits, rounding twice gives what rounding once does (Figueroa 1995).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from winogen.errors import InvalidValue
from winogen.program import Program
from winogen.program.evaluate import execute, round_scalar

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike

    from winogen.algebra.scalar import Scalar

Numbers: TypeAlias = Any  # an array of numbers of a format, or one of them


@dataclass(frozen=True)
class Format:
    """A binary floating-point format; ``carrier`` is the numpy dtype that holds its numbers."""

    name: str
    bits: int  # significand bits, the hidden one included
    carrier: type[np.floating]

    @property
    def unit(self) -> float:
        """The unit roundoff, the largest relative error of one rounding."""
        return 2.0**-self.bits

    @property
    def emulated(self) -> bool:
        """Whether the carrier is wider, so that results must be rounded."""
        return np.finfo(self.carrier).nmant + 1 != self.bits

    def round(self, values: ArrayLike) -> np.ndarray:
        """Round numbers to nearest even in this format, held in its carrier.

        >>> formats = format_named("bfloat16"), format_named("float16")
        >>> [float(f.round(np.float32(1 + 1 / 512 + 1 / 1024))) for f in formats]
        [1.0, 1.0029296875]
        """
        values = np.asarray(values, self.carrier)
        if self.name == "float16":
            with np.errstate(over="ignore"):
                return values.astype(np.float16).astype(np.float32)
        if self.name in _DROPPED:
            return _kept(values, _DROPPED[self.name])
        return values

    def ulp(self, values: ArrayLike) -> np.ndarray:
        """The distance between neighbouring numbers at ``values``, as float64; subnormals aside."""
        _, exponent = np.frexp(np.asarray(values, np.float64))
        return np.ldexp(1.0, exponent - self.bits)

    def __str__(self) -> str:
        return self.name


FORMATS = {
    name: Format(name, bits, carrier)
    for name, bits, carrier in (
        ("flyte8", 1, np.float32),
        ("flyte16", 8, np.float32),
        ("bfloat16", 8, np.float32),
        ("float16", 11, np.float32),
        ("flyte24", 16, np.float32),
        ("float32", 24, np.float32),
        ("float64", 53, np.float64),
    )
}


def format_named(name: str | DTypeLike | Format, argument: str = "dtype") -> Format:
    """Return the format called ``name``; ``argument`` is named in the error.

    >>> format_named("float32").unit == 2.0 ** -24
    True
    """
    if isinstance(name, Format):
        return name
    key = name if isinstance(name, str) else np.dtype(name).name
    if key not in FORMATS:
        raise InvalidValue(f"{argument}: got {name!r}; allowed: {', '.join(FORMATS)}")
    return FORMATS[key]


def _kept(values: np.ndarray, dropped: int) -> np.ndarray:
    bits = values.view(np.uint32)
    one = np.uint32(1)
    half = np.uint32((1 << dropped - 1) - 1) + ((bits >> np.uint32(dropped)) & one)
    mask = np.uint32(0xFFFFFFFF >> dropped << dropped)
    rounded = ((bits + half) & mask).view(np.float32)
    return np.where(np.isnan(values), values, rounded)


_DROPPED = {"flyte24": 8, "flyte16": 16, "bfloat16": 16, "flyte8": 24}


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
