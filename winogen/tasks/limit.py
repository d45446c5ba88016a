"""A limit of seconds for work that makes a result better, and that may be left out."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import SupportsFloat

from winogen.errors import InvalidType, InvalidValue
from winogen.testing import is_every_layer

clock = time.monotonic


class Limit:
    """What is left of some ``seconds``, None for any number, that began now."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self._end = math.inf if seconds is None else clock() + seconds

    def reserve(self, seconds: float) -> None:
        """Keep some for work that is never left out; a quarter of all stays for what may be."""
        if self.seconds is not None:
            stays = max(self._end - seconds, clock() + self.seconds / 4)
            self._end = min(self._end, stays)

    @contextmanager
    def granted(self) -> Iterator[None]:
        """Within it a quarter of all seconds is left at least."""
        before = self._end
        if self.seconds is not None:
            self._end = max(before, clock() + self.seconds / 4)
        try:
            yield
        finally:
            self._end = before

    def extend(self, seconds: float) -> None:
        """Leave out of count some seconds in which others worked."""
        self._end += seconds

    def left(self) -> float:
        """Return the seconds for what may be left out, at least 0; infinite without a limit."""
        return max(0.0, self._end - clock())

    def allows(self, seconds: float = 0.0) -> bool:
        """Whether there is time for work of so many ``seconds``."""
        return seconds < self.left()


_limit: ContextVar[Limit | None] = ContextVar("limit", default=None)


@contextmanager
def limited(seconds: float | None) -> Iterator[Limit]:
    """Within it `limit` is this one. Within `every_layer` there is none: nothing has a clock."""
    made = Limit(None if is_every_layer() else seconds)
    before = _limit.set(made)
    try:
        yield made
    finally:
        _limit.reset(before)


@contextmanager
def exhausted() -> Iterator[None]:
    """Within it nothing is left of the limit in force."""
    made = Limit(limit().seconds or 0.0)
    made._end = -math.inf
    before = _limit.set(made)
    try:
        yield
    finally:
        _limit.reset(before)


def limit() -> Limit:
    """Return the limit that is in force."""
    return _limit.get() or Limit(None)


def checked(seconds: SupportsFloat | None) -> float | None:
    """Return ``seconds``, an argument of users, as a number. Raises InvalidType, InvalidValue."""
    allowed = "None, or a number of seconds of at least 0, as 30"
    if seconds is None:
        return None
    if isinstance(seconds, (str, bytes, bool)):
        raise InvalidType(f"seconds: got {seconds!r}; allowed: {allowed}")
    try:
        number = float(seconds)
    except (TypeError, ValueError):
        raise InvalidType(f"seconds: got {seconds!r}; allowed: {allowed}") from None
    if not number >= 0:
        raise InvalidValue(f"seconds: got {seconds}; allowed: {allowed}")
    return None if math.isinf(number) else number
