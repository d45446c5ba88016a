"""Arrays of flytes, the first bytes of wider numbers, which numpy has no types for.

Keane's thesis, chapter 8. An array has one of them in each element of a structured type, whose only
field is called as the flyte is. Numpy copies, slices and saves it, and computes nothing with it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from winogen.errors import InvalidType
from winogen.records import FLYTES
from winogen.records.precision import NumberType
from winogen.typing import Array

DTYPES = {one.name: np.dtype([(one.name, f"V{one.itemsize}")]) for one in FLYTES}
_NUMBERS: dict[Any, NumberType] = {DTYPES[one.name]: one for one in FLYTES}


def narrow(values: Array, dtype: str) -> np.ndarray:
    """Return an array of flytes, for `conv2d`: numbers that are rounded once, or cut off.

    ``values``: of float32 or float64, of any shape. ``dtype``: "flyte24", "flyte16" and "flyte8"
    are the first bytes of a float32, rounded to nearest, "flyte24_cut" and so on without rounding;
    "flyte56d" down to "flyte8d" those of a float64. Raises InvalidValue for another.

    >>> import winogen
    >>> x = winogen.narrow(np.float32([1.0, 1.00001, -3.14159]), "flyte24")
    >>> x.nbytes, winogen.widen(x).tolist()
    (9, [1.0, 1.0, -3.1416015625])
    """
    from winogen.conv import arguments
    from winogen.rounding.formats import FORMATS

    arguments.choice("dtype", dtype, tuple(DTYPES))
    numbers = arguments.float_array("values", values)
    packed = FORMATS[dtype].pack(numbers)
    return packed.view(DTYPES[dtype])[..., 0]


def widen(array: np.ndarray) -> np.ndarray:
    """Return flytes as the numbers that they are, in the type that they are the first bytes of.

    What they leave out is zero. Raises InvalidType for arrays of something else.

    >>> widen(narrow(np.array([0.1]), "flyte24d")).tolist()
    [0.100006103515625]
    """
    got = getattr(array, "dtype", type(array).__name__)
    number = _NUMBERS.get(got)
    if number is None:
        raise InvalidType(f"array: got {got}; allowed: an array that winogen.narrow or conv2d made")
    wide = np.dtype(number.wide)
    made = np.zeros((*array.shape, wide.itemsize), np.uint8)
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    made[..., wide.itemsize - number.itemsize :] = flat.reshape(*array.shape, number.itemsize)
    return made.view(wide)[..., 0]


def computed_with(array: np.ndarray) -> np.ndarray:
    """Return weights in the type of the arithmetic: narrower numbers widened."""
    if array.dtype in _NUMBERS:
        return widen(array)
    return array.astype(np.float32) if array.dtype.itemsize == 2 else array
