"""What several commands read alike: lists of integers, numbers of seconds, files."""

from __future__ import annotations

import math
import re
from pathlib import Path


def integers(name: str, text: str | None, *counts: int, words: tuple[str, ...] = (), signs=""):
    """Return integers with commas between them as a tuple; None and ``words`` as they are.

    Args:
        name: of the option, for the error.
        counts: how many integers there may be.
        words: that stand for themselves, such as "same".
        signs: that may stand for a comma.

    Raises:
        InvalidValue: anything else.

    >>> integers("tile", "4", 1, 2), integers("tile", "4x6", 1, 2, signs="x")
    ((4,), (4, 6))
    """
    from winogen.errors import InvalidValue

    if text is None or text in words:
        return text
    try:
        numbers = tuple(int(part) for part in re.split(f"[,{signs}]", text))
    except ValueError:  # also an integer of more than 4300 digits
        numbers = ()
    if len(numbers) in counts:
        return numbers
    shown = text if len(text) <= 60 else text[:57] + "..."
    count = " or ".join({1: "one", 2: "two"}.get(n, str(n)) for n in counts)
    allowed = ", ".join([f"{count} integers with commas between them", *words])
    raise InvalidValue(f"{name}: got {shown!r}; allowed: {allowed}")


def single(numbers):
    """Return the number of a tuple of one, anything else as it is."""
    return numbers[0] if isinstance(numbers, tuple) and len(numbers) == 1 else numbers


def finite(name: str, seconds: float) -> float:
    """Return a time that ends; raises InvalidValue."""
    from winogen.errors import InvalidValue

    if not math.isfinite(seconds):
        raise InvalidValue(f"{name}: got {seconds}; allowed: a finite number of seconds")
    return seconds


def regular(name: str, path: Path) -> Path:
    """Return a path unless it is a device or a pipe, which might never end; raises InvalidValue."""
    from winogen.errors import InvalidValue

    if path.exists() and not path.is_file():
        what = "a folder" if path.is_dir() else "a device or a pipe"
        raise InvalidValue(f"{name}: got {str(path)!r}, {what}; allowed: a regular file")
    return path
