"""Packages that only some need: extras of winogen's bring them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from winogen.errors import WinogenError


class MissingPackage(WinogenError, ImportError):
    """A package that this needs is not installed; the message says how to install it."""


def require(name: str, extra: str) -> Any:
    """Return a module that comes with an extra of winogen's; raises MissingPackage.

    >>> require("json", "lab").dumps(1)
    '1'
    """
    try:
        return import_module(name)
    except ImportError as problem:
        package = name.partition(".")[0]
        raise MissingPackage(
            f"{package}: cannot be imported ({problem}); install it by "
            f"pip install 'winogen[{extra}]'"
        ) from problem
