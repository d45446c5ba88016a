"""Packages whose public names load the modules behind them on first use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def attribute_of(package: str, public: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package. ``public``: its names, and the modules that have them.

    The name of a module in the package is the module itself.

    >>> attribute_of("winogen", {"WinogenError": "winogen.errors"})("WinogenError").__name__
    'WinogenError'
    """

    def attribute(name: str) -> Any:
        if name not in public:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(public[name])
        value = module if public[name] == f"{package}.{name}" else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    return attribute
