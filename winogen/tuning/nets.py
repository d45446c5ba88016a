"""Nets that are known by their names: other distributions offer them as ``winogen.nets``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from winogen.errors import InvalidValue
from winogen.plugins import LABORATORY, offered
from winogen.tuning.layers import BenchLayer


class Nets(Protocol):
    """Some nets, as an entry point names them."""

    NAMES: tuple[str, ...]
    TRAINED: tuple[str, ...]  # those that have a quality

    def layers(self, name: str) -> list[BenchLayer]:
        """Return the convolutions of a net, each as often as the net has it."""

    def quality(self, name: str, progress: Callable[[int, int, str], None]) -> dict[str, Any]:
        """Measure what number formats do to the output of a trained net."""


def known() -> dict[str, Nets]:
    """Return who offers a net, by the names of all."""
    some: list[Nets] = [one.load() for one in offered("winogen.nets").values()]
    return {name: nets for nets in some for name in nets.NAMES}


def allowed(names: Iterable[str]) -> str:
    """Return what a message says of the nets of these names, of which there may be none."""
    listed = ", ".join(names)
    return f"a net: {listed}" if listed else f"a net by name, after {LABORATORY}"


def trained(name: str) -> Nets:
    """Return who offers a trained net; raises InvalidValue for another name."""
    some = known()
    names = [one for one, nets in some.items() if one in nets.TRAINED]
    if name not in names:
        listed = f"a trained one, {', '.join(names)}" if names else allowed(())
        raise InvalidValue(f"net: got {name!r}; allowed: {listed}")
    return some[name]
