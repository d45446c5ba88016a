"""Real numbers as digits: the fewest that mean the same number of a type."""

from __future__ import annotations

import math


def digits(value: float, dtype: str) -> str:
    """Return a number as the fewest digits that mean it in a type, float32 or float16.

    >>> digits(0.1, "float32"), digits(1, "float32"), digits(1 / 3, "float16")
    ('0.1', '1.0', '0.3333')
    """
    import numpy as np

    rounded = np.dtype(dtype).type(value)
    if math.isnan(rounded):
        return "NAN"
    if math.isinf(rounded):
        return "INFINITY" if rounded > 0 else "-INFINITY"
    return str(rounded)
