"""Constants of C that several places of a network read: equal ones are there once."""

from __future__ import annotations

from collections.abc import Iterable

from winogen.codegen.templates import wrapped


class Once:
    """Names of constants, by their types and initialisers."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], str] = {}

    def __bool__(self) -> bool:
        return bool(self._names)

    def named(self, kind: str, items: Iterable[str], prefix: str) -> str:
        """Return the name of a constant of a type: ``prefix`` and a number, where it is new.

        >>> once = Once()
        >>> [once.named("int", [item], "k") for item in "121"]
        ['k_0', 'k_1', 'k_0']
        """
        key = kind, wrapped(items, 4, ", ", ",")
        return self._names.setdefault(key, f"{prefix}_{len(self._names)}")

    def listed(self) -> list[tuple[str, str, str]]:
        """Return (type, name, initialiser) of each."""
        return [(kind, name, text) for (kind, text), name in self._names.items()]
