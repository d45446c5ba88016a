"""Running a program: exactly, or in numpy with the rounding that compiled C has."""

from fractions import Fraction

from winogen.errors import InvalidType, InvalidValue
from winogen.program.ir import ZERO, exact


def evaluate(program, values):
    """See :meth:`winogen.program.ir.Program.run`.

    >>> from winogen.program.ir import Program, Statement, Term
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
    return _execute(program, [exact(v) for v in values], exact, Fraction(0))


def _floating(program, values):
    import numpy as np

    dtype = values.dtype
    zero = np.zeros(values.shape[1:], dtype)
    rows = [values[i] for i in range(len(program.inputs))]
    outputs = _execute(program, rows, lambda c: round_scalar(c, dtype), zero)
    result = np.empty((len(outputs), *values.shape[1:]), dtype)
    for i, row in enumerate(outputs):
        result[i] = row
    return result


def _exact_array(program, values):
    import numpy as np

    rows = [_fractions(values[i]) for i in range(len(program.inputs))]
    zero = np.full(values.shape[1:], Fraction(0), dtype=object)
    outputs = _execute(program, rows, exact, zero)
    result = np.empty((len(outputs), *values.shape[1:]), dtype=object)
    for i, row in enumerate(outputs):
        result[i] = row
    return result


def _fractions(row):
    import numpy as np

    row = np.asarray(row)
    flat = np.empty(row.size, dtype=object)
    flat[:] = [exact(v if isinstance(v, Fraction) else _plain(v)) for v in row.ravel()]
    return flat.reshape(row.shape)


def _plain(value):
    """A numpy integer as a Python one, so that nothing overflows; other scalars unchanged."""
    return value.item() if hasattr(value, "dtype") else value


def _execute(program, rows, constant, zero):
    value = dict(zip(program.inputs, rows))
    value[ZERO] = zero
    for statement in program.statements:
        value[statement.target] = _statement(statement, value, constant)
    return [value[name] for name in program.outputs]


def _statement(statement, value, constant):
    """One statement: a multiplication at most, then an addition or subtraction at most.

    Signs are carried by the addition, and a constant is multiplied by its absolute value: negation
    is exact in floating point, so any way to spell the same statement rounds alike.
    """
    result = None
    for term in sorted(statement.terms, key=lambda term: term.coefficient < 0):
        product = value[term.operand]
        if not term.is_unit:
            product = constant(abs(term.coefficient)) * product
        if result is None:
            result = -product if term.coefficient < 0 else product
        else:
            result = result - product if term.coefficient < 0 else result + product
    return result


def round_scalar(scalar, dtype):
    """``scalar`` rounded once, to nearest even, from its exact value to a numpy float type.

    Going through float64 rounds twice when float64 lands exactly half-way between two float32
    numbers; that case is decided by the sign of the exact remainder.

    >>> import numpy as np
    >>> bool(round_scalar(Fraction(1, 3), np.float32) == np.float32(1 / 3))
    True
    """
    import numpy as np

    dtype = np.dtype(dtype)
    wide = float(scalar)
    near = dtype.type(wide)
    if dtype.itemsize >= 8 or not np.isfinite(near) or float(near) == wide:
        return near
    neighbour = np.nextafter(near, dtype.type(np.inf if wide > float(near) else -np.inf))
    if Fraction(float(near)) + Fraction(float(neighbour)) != 2 * Fraction(wide):
        return near
    remainder = scalar - Fraction(wide)
    if remainder == 0:
        return near
    low, high = sorted((near, neighbour))
    return high if remainder > 0 else low
