"""How accurate a whole net has to be, and how its layers get there: the rule of all frameworks.

The planner knows the error of a layer, not what a deep net makes of it. So the net itself is
measured: where it is too far from float64, its layers are computed more carefully.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")

# Without a tolerance, the L2 error at the output should be at most so many times the framework's,
# or the error of every element so small beside the largest value: more nobody asks of float32.
# Else layers with a larger predicted error than a ceiling are computed more carefully.
USUAL, ENOUGH = 1.5, 2e-6
CEILINGS = (None, 2e-6, 6e-7, 3e-7)
# What is computed more carefully must lower the error by this factor: layers are not all.
_WORTH_IT = 1.1


@dataclass(frozen=True)
class Errors:
    """At the output on one input, against float64: max |y - y64| / max |y64|, and L2."""

    ours: float
    theirs: float  # of the framework
    ours_l2: float
    theirs_l2: float
    case: str = ""  # the input, where it is not the example

    @property
    def is_small(self) -> bool:
        """Whether nobody asks for more."""
        return self.ours_l2 <= USUAL * self.theirs_l2 or self.ours <= ENOUGH

    def text(self, framework: str) -> str:
        """Return a line of a report."""
        on = f", on {self.case}" if self.case else ""
        return (
            f"error at the output against float64{on}: {self.ours:.1e} of the largest value "
            f"({framework} {self.theirs:.1e}); L2 {self.ours_l2:.1e} "
            f"({framework} {self.theirs_l2:.1e})"
        )


def errors_of(ours: Any, theirs: Any, exact: Any) -> Errors | None:
    """Return the errors of all numbers of an output, arrays of float64 with one axis.

    None where there are none, or not as many, or some are not finite.
    """
    if not ours.shape == theirs.shape == exact.shape or not exact.size:
        return None
    if not np.isfinite(exact).all():
        return None
    tiny = np.finfo(np.float64).tiny
    largest, length = max(np.abs(exact).max(), tiny), max(np.linalg.norm(exact), tiny)

    def of(y: Any) -> tuple[float, float]:
        difference = y - exact
        return float(np.abs(difference).max() / largest), float(np.linalg.norm(difference) / length)

    (ours_max, ours_l2), (theirs_max, theirs_l2) = of(ours), of(theirs)
    return Errors(ours_max, theirs_max, ours_l2, theirs_l2)


def accurate(
    made: Callable[[int], T | None], errors: Callable[[T], Errors | None], careful: bool = True
) -> T:
    """Return the first draft that is accurate enough, else the best.

    ``made`` makes one under a number of `CEILINGS`, None where it would be one of those before;
    ``errors`` are None where nobody knows, and the first draft is taken. Not ``careful``: it is in
    any case.
    """
    best: tuple[T, Errors | None] | None = None
    for ceiling in range(len(CEILINGS) if careful else 1):
        draft = made(ceiling)
        if draft is None:
            continue
        found = errors(draft)
        if best is None or _is_worth_it(found, best[1]):
            best = draft, found
        if found is None:
            break
        if found.is_small:
            return draft
    assert best is not None
    return best[0]


def _is_worth_it(careful: Errors | None, faster: Errors | None) -> bool:
    """Whether one draft is accurate enough to be taken instead of a faster one."""
    if not careful or not faster:
        return True
    return _WORTH_IT * careful.ours_l2 < faster.ours_l2
