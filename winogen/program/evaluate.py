"""Running a program: exactly, in numpy with the rounding that compiled C has, or as one likes.

``execute`` walks the statements and places the signs; what an operation is, an arithmetic says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

from winogen.errors import InvalidType, InvalidValue
from winogen.program.ir import ZERO, Program, Statement, exact

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import DTypeLike

    from winogen.algebra.scalar import Scalar

Value: TypeAlias = Any  # what a program computes with: exact scalars or arrays, one kind at a time


class ProgramArithmetic(Protocol):
    """The operations that a program is made of, each rounded as the arithmetic wants."""

    @property
    def fused(self) -> bool:
        """Whether c*x ± y goes to ``multiply_add``."""

    def constant(self, scalar: Scalar) -> Value:
        """A positive exact constant as a number of the arithmetic."""

    def multiply(self, x: Value, y: Value) -> Value:
        """x * y."""

    def multiply_add(self, x: Value, y: Value, z: Value) -> Value:
        """x * y + z; asked for only where ``fused``."""

    def rounded(self, values: Value) -> Value:
        """A sum or a difference, rounded."""


def evaluate(program: Program, values: Value) -> Value:
    """See ``Program.run``.

    >>> from winogen.program.ir import Statement, Term
    >>> import numpy as np
    >>> p = Program(("d0", "d1"), (Statement("v0", (Term(1, "d0"), Term(-1, "d1"))),), ("v0",))
    >>> p.run(np.array([[3.0], [1.0]], dtype=np.float32))
    array([[2.]], dtype=float32)
    """
    if len(values) != len(program.inputs):
        raise InvalidValue(f"values: got {len(values)} inputs; allowed: {len(program.inputs)}")
    kind = getattr(getattr(values, "dtype", None), "kind", None)
    if kind == "f":
        return _floating(program, values)
    if kind not in (None, "i", "u", "O"):
        raise InvalidType(f"values: got dtype {values.dtype}; allowed: float, integer or object")
    if kind is not None:
        return _exact_array(program, values)
    return execute(program, [exact(v) for v in values], Fraction(0), _Plain(exact))


def execute(
    program: Program, inputs: Sequence[Value], zero: Value, arithmetic: ProgramArithmetic
) -> list[Value]:
    """The outputs of ``program`` for ``inputs``; ``zero`` is their neutral element."""
    values = dict(zip(program.inputs, inputs))
    values[ZERO] = zero
    for statement in program.statements:
        values[statement.target] = _statement(statement, values, arithmetic)
    return [values[name] for name in program.outputs]


def _statement(
    statement: Statement, values: dict[str, Value], arithmetic: ProgramArithmetic
) -> Value:
    """One statement: a multiplication at most, then an addition or subtraction at most.

    Positive terms come first, as in the C. Signs are carried by the addition, and a constant is
    multiplied by its absolute value: negation is exact in floating point, so any way to spell the
    same statement rounds alike.
    """
    terms = sorted(statement.terms, key=lambda term: term.coefficient < 0)
    if arithmetic.fused and len(terms) == 2 and statement.constant is not None:
        scaled, other = sorted(terms, key=lambda term: term.is_unit)
        constant, addend = arithmetic.constant(scaled.magnitude), values[other.operand]
        return arithmetic.multiply_add(
            -constant if scaled.coefficient < 0 else constant,
            values[scaled.operand],
            -addend if other.coefficient < 0 else addend,
        )
    result: Value = None
    for term in terms:
        value = values[term.operand]
        if not term.is_unit:
            value = arithmetic.multiply(arithmetic.constant(term.magnitude), value)
        if result is None:
            result = -value if term.coefficient < 0 else value
        else:
            result = arithmetic.rounded(result - value if term.coefficient < 0 else result + value)
    return result


@dataclass(frozen=True)
class _Plain:
    """Operations as Python or numpy define them: exact on exact numbers, else in their dtype."""

    constant: Callable[[Any], Value]
    fused: bool = False

    def multiply(self, x: Value, y: Value) -> Value:
        return x * y

    def multiply_add(self, x: Value, y: Value, z: Value) -> Value:
        return x * y + z

    def rounded(self, values: Value) -> Value:
        return values


def _floating(program: Program, values: np.ndarray) -> np.ndarray:
    import numpy as np

    dtype = values.dtype
    arithmetic = _Plain(lambda scalar: round_scalar(scalar, dtype))
    return _stacked(program, list(values), np.zeros(values.shape[1:], dtype), arithmetic)


def _exact_array(program: Program, values: np.ndarray) -> np.ndarray:
    import numpy as np

    zero = np.full(values.shape[1:], Fraction(0), dtype=object)
    return _stacked(program, [_fractions(row) for row in values], zero, _Plain(exact))


def _stacked(
    program: Program, rows: list[np.ndarray], zero: np.ndarray, arithmetic: ProgramArithmetic
) -> np.ndarray:
    import numpy as np

    result = np.empty((len(program.outputs), *zero.shape), zero.dtype)
    for i, row in enumerate(execute(program, rows, zero, arithmetic)):
        result[i] = row
    return result


def _fractions(row: np.ndarray) -> np.ndarray:
    import numpy as np

    row = np.asarray(row)
    flat = np.empty(row.size, dtype=object)
    flat[:] = [exact(v if isinstance(v, Fraction) else _plain(v)) for v in row.ravel()]
    return flat.reshape(row.shape)


def _plain(value: Any) -> Any:
    """A numpy integer as a Python one, so that nothing overflows; other scalars unchanged."""
    return value.item() if hasattr(value, "dtype") else value


def round_scalar(scalar: Scalar, dtype: DTypeLike) -> np.floating:
    """``scalar`` rounded once, to nearest even, from its exact value to a numpy float type.

    Going through float64 rounds twice when float64 lands exactly half-way between two float32
    numbers; that case is decided by the sign of the exact remainder.

    >>> import numpy as np
    >>> bool(round_scalar(Fraction(1, 3), np.float32) == np.float32(1 / 3))
    True
    """
    import numpy as np

    real = cast("type[np.floating]", np.dtype(dtype).type)
    wide = float(scalar)
    near = real(wide)
    if near.itemsize >= 8 or not np.isfinite(near) or float(near) == wide:
        return near
    neighbour = np.nextafter(near, real(np.inf if wide > float(near) else -np.inf))
    if Fraction(float(near)) + Fraction(float(neighbour)) != 2 * Fraction(wide):
        return near
    remainder = scalar - Fraction(wide)
    if remainder == 0:
        return near
    low, high = sorted((near, neighbour))
    return high if remainder > 0 else low
