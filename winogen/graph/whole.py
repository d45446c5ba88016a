"""How far a whole may be off whose parts were replaced: what their errors become at its outputs.

A net may amplify errors, so no fixed limit fits all outputs. The original itself shows how much it
amplifies: it runs once more, a little off, and its outputs move. The net with new parts may be off
by some times as much.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# Errors of parts have signs of their own, and rounding meets other numbers: outputs may be off by
# so many times what was seen once.
GROWTH = 10.0


def limit(moved: float, rounding: float) -> float:
    """Return how far an output may be off.

    ``moved``: how far the output of the original moves when every part is off by as much as it may
    be. ``rounding``: what two ways of rounding alone explain.
    """
    return GROWTH * max(moved, rounding)


def distance(y: Any, wanted: Any) -> float:
    """Return max |y - wanted| / max |wanted| of arrays; infinite for other shapes.

    Numbers that are infinite or no numbers must be the same in both.
    """
    if y.shape != wanted.shape:
        return float("inf")
    y, wanted = (np.asarray(x, np.float64) for x in (y, wanted))
    finite = np.isfinite(wanted)
    if not np.array_equal(np.isfinite(y), finite):
        return float("inf")
    if not np.array_equal(y[~finite], wanted[~finite], equal_nan=True):
        return float("inf")
    error = np.abs(y[finite] - wanted[finite]).max(initial=0)
    largest = np.abs(wanted[finite]).max(initial=0)
    if not error:
        return 0.0
    return float(error / largest) if largest else float("inf")
