"""Where results of searches are kept, for whoever knows a place; without one nothing is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

# (key, make, check) -> check of what make returns, or returned in an earlier process; see
# `winogen.toolchain.derived`.
Keeper: TypeAlias = "Callable[[list[Any], Callable[[], Any], Callable[[Any], Any]], Any]"
_keeper: list[Keeper] = []


def keep_by(keeper: Keeper) -> None:
    """Have programs that are searched for kept by this from now on."""
    _keeper[:] = [keeper]


def kept(key: list[Any], make: Callable[[], Any], check: Callable[[Any], Any]) -> Any:
    """Return check(make()), or the check of what an earlier process made for this key."""
    return _keeper[0](key, make, check) if _keeper else check(make())
