"""Packages that only some need: extras of winogen's bring them."""

from __future__ import annotations

import re
import sys
from importlib import import_module, metadata
from typing import Any, NamedTuple

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


class Requirement(NamedTuple):
    """A package that winogen needs, for an extra or at all, and the version that is installed."""

    package: str
    least: str  # version
    found: str | None  # version, None if it is not installed

    @property
    def is_met(self) -> bool:
        """Whether the version that is installed will do."""
        return self.found is not None and _numbers(self.found) >= _numbers(self.least)

    def __str__(self) -> str:
        if self.found is None:
            return f"{self.package} is missing"
        return f"{self.package} {self.found}" + ("" if self.is_met else f" (needs {self.least})")


def requirements() -> dict[str, list[Requirement]]:
    """Return what each extra needs on this Python by its name, and under "" what all need.

    Raises importlib.metadata.PackageNotFoundError where winogen was not installed.

    >>> [one.package for one in requirements()[""] if one.package == "numpy" and one.is_met]
    ['numpy']
    """
    needed: dict[str, list[Requirement]] = {"": []}
    for line in metadata.requires("winogen") or ():
        text, _, marker = line.partition(";")
        pair = re.fullmatch(r"([\w.-]+) *[>=]=([\w.]+)", text.strip())
        newest = re.search(r"""python_version < ['"]([\d.]+)""", marker)
        if pair and not (newest and sys.version_info[:2] >= _numbers(newest[1])):
            extra = re.search(r"""extra == ['"]([\w-]+)""", marker)
            one = Requirement(pair[1], pair[2], _version(pair[1]))
            needed.setdefault(extra[1] if extra else "", []).append(one)
    return needed


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers at the beginning of a version: (2, 15, 0) of "2.15.0+cpu"."""
    found = re.match(r"[\d.]*", version)
    return tuple(int(part) for part in found[0].split(".") if part) if found else ()
