"""What several commands read alike: lists of integers, numbers of seconds."""

from __future__ import annotations

import math
import re


def integers(
    name: str, text: str, *counts: int, signs: str = "", also: str = ""
) -> tuple[int, ...]:
    """Return integers with commas between them as a tuple.

    ``name``: of the option, for the error. ``counts``: how many integers there may be. ``signs``:
    what may stand for a comma. ``also``: what else the option takes, for the error.

    Raises InvalidValue for anything else.

    >>> integers("tile", "4", 1, 2), integers("tile", "4x6", 1, 2, signs="x")
    ((4,), (4, 6))
    """
    from winogen.errors import InvalidValue

    try:
        numbers = tuple(int(part) for part in re.split(f"[,{signs}]", text))
    except ValueError:  # also an integer of more than 4300 digits
        numbers = ()
    if len(numbers) in counts:
        return numbers
    shown = text if len(text) <= 60 else text[:57] + "..."
    count = " or ".join({1: "one", 2: "two"}.get(n, str(n)) for n in counts)
    allowed = f"{count} integers with commas between them{also and f', {also}'}"
    raise InvalidValue(f"{name}: got {shown!r}; allowed: {allowed}")


def single(numbers: tuple[int, ...]) -> int | tuple[int, ...]:
    """Return the number of a tuple of one, a longer tuple as it is."""
    return numbers[0] if len(numbers) == 1 else numbers


def finite(name: str, seconds: float) -> float:
    """Return a time that ends; raises InvalidValue."""
    from winogen.errors import InvalidValue

    if not math.isfinite(seconds):
        raise InvalidValue(f"{name}: got {seconds}; allowed: a finite number of seconds")
    return seconds
