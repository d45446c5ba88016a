"""What is seen of the numbers in every stage of a measurement."""

from __future__ import annotations

import numpy as np

from winogen.rounding.exponents import too_large, too_small
from winogen.rounding.formats import FORMATS, Format
from winogen.rounding.stages import Stages

# Of the numbers of a stage; of those of usual size 0.02 % are so small.
_MANY = 0.05
# Formats of so many bits of exponent reach down to 1e-38.
_USUAL = FORMATS["float32"].exponent
# Stages that may lose bits, and what they are made of. (Some products are small in any range.)
_FROM = {"transformed filter": "filter", "transformed input": "input", "output": ""}


class Watched:
    """Called with a stage and its numbers, as `winogen.rounding.tiles.Watch`.

    ``ranges`` has the largest |value| of every stage.
    """

    def __init__(self, stages: Stages) -> None:
        self.ranges: dict[str, float] = {}
        self._formats: dict[str, Format] = {
            "transformed filter": stages.packed,
            "transformed input": stages.tiles,
            "product": stages.product,
            "sum over channels": stages.sums,
            "output": stages.arrays,
        }
        self._small: dict[str, tuple[int, int]] = {}  # numbers below the normal ones, and all
        self._infinite: set[str] = set()

    def __call__(self, stage: str, array: np.ndarray) -> None:
        """Take in numbers of a stage."""
        sizes = np.abs(array)
        most = float(np.max(sizes, initial=0.0))
        if not np.isfinite(most):
            self._infinite.add(stage)
            most = np.inf
        self.ranges[stage] = max(self.ranges.get(stage, 0.0), most)
        number_format = self._formats.get(stage)
        if stage in _FROM and number_format and number_format.exponent < _USUAL:
            small, count = self._small.get(stage, (0, 0))
            there = sizes > 0
            few = np.count_nonzero(there & (sizes < number_format.smallest_normal))
            self._small[stage] = small + few, count + np.count_nonzero(there)

    def notes(self) -> tuple[str, ...]:
        """What a reader should know, stage by stage."""
        large = [stage for stage in self._formats if stage in self._infinite]
        # What follows the first of them is infinite for that reason.
        found = [too_large(stage, self._formats[stage]) for stage in large[:1]]
        for stage, (small, count) in self._small.items():
            # Nothing but zeros of numbers that were not: all of them were too small.
            lost = count == 0 and self.ranges.get(_FROM[stage], 0.0) > 0
            share = 1.0 if lost else small / max(count, 1)
            if share > _MANY:
                numbers = f"{100 * share:.0f} % of the numbers"
                found.append(too_small(stage, self._formats[stage], numbers))
        return tuple(found)
