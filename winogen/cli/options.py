"""What several commands read alike: lists of integers, numbers of seconds, files."""

from __future__ import annotations

import math
from pathlib import Path

import click


class Integers(click.ParamType):
    """Integers with commas between them, as a tuple; ``click`` reports anything else.

    >>> Integers(2).convert("3,4", None, None), Integers(1, 2, signs="x").convert("4x6", None, None)
    ((3, 4), (4, 6))
    """

    name = "integers"

    def __init__(self, *counts: int, words: tuple[str, ...] = (), signs: str = ""):
        self.counts = counts  # how many there may be
        self.words = words  # that stand for themselves, such as "same"
        self.signs = signs  # that may stand for a comma

    def convert(self, value, param, ctx):
        """Return a tuple of integers, or one of the words."""
        from winogen.errors import InvalidValue

        if not isinstance(value, str) or value in self.words:
            return value
        text = value
        for sign in self.signs:
            text = text.replace(sign, ",")
        try:
            numbers = tuple(int(part) for part in text.split(","))
        except ValueError:
            numbers = ()
        if len(numbers) in self.counts:
            return numbers
        many = {1: "one", 2: "two", 4: "4"}
        count = " or ".join(many.get(n, str(n)) for n in self.counts)
        noun = "integer" if self.counts == (1,) else "integers with commas between them"
        allowed = ", ".join([f"{count} {noun}", *self.words])
        name = (param.name if param is not None else None) or "value"
        raise InvalidValue(f"{name}: got {value!r}; allowed: {allowed}")


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
