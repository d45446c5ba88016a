"""Packages that only some need: extras of winogen's, or of a distribution beside it, bring them."""

from __future__ import annotations

import re
import sys
from importlib import import_module, metadata
from typing import Any, NamedTuple

from winogen.errors import WinogenError

WINOGEN = "winogen"  # the distribution
# The packages of modules that have other names.
_PACKAGES = {
    "PIL": "matplotlib",  # which brings it
    "cv2": "opencv-python-headless",
    "google": "protobuf",
    "pysat": "python-sat",
    "sklearn": "scikit-learn",
}


class MissingPackage(WinogenError, ImportError):
    """A package that this needs is not installed; the message says how to install it."""


def require(name: str, extra: str, distribution: str = WINOGEN) -> Any:
    """Return a module that comes with an extra of a distribution; raises MissingPackage.

    >>> require("json", "plot").dumps(1)
    '1'
    """
    try:
        return import_module(name)
    except ImportError as problem:
        raise _of(name.partition(".")[0], problem, distribution, extra) from problem


def missing(problem: ImportError, *distributions: str) -> MissingPackage | None:
    """Return what to install for an import that failed; None if no extra brings the module.

    ``distributions``: whose extras count besides winogen's.

    >>> print(missing(ImportError("no such module", name="torch.nn")))
    torch: cannot be imported (no such module); install it by pip install 'winogen[torch]'
    """
    if isinstance(problem, MissingPackage):
        return problem
    name = (problem.name or "").partition(".")[0]
    package = _PACKAGES.get(name, name)
    for distribution in (WINOGEN, *distributions):
        try:
            known = requirements(distribution)
        except metadata.PackageNotFoundError:
            continue
        # The extra that is named after it, else the smallest.
        extras = [
            (extra != name, len(needed), extra)
            for extra, needed in known.items()
            if extra and any(one.package == package for one in needed)
        ]
        if extras:
            return _of(package, problem, distribution, min(extras)[2])
    return None


def _of(package: str, problem: ImportError, distribution: str, extra: str) -> MissingPackage:
    return MissingPackage(
        f"{package}: cannot be imported ({problem}); install it by pip install "
        f"'{distribution}[{extra}]'"
    )


class Requirement(NamedTuple):
    """A package that is needed, for an extra or at all, and the version that is installed."""

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


def requirements(distribution: str = WINOGEN) -> dict[str, list[Requirement]]:
    """Return what each extra needs on this Python by its name, and under "" what all need.

    Raises importlib.metadata.PackageNotFoundError where the distribution was not installed.

    >>> [one.package for one in requirements()[""] if one.package == "numpy" and one.is_met]
    ['numpy']
    """
    needed: dict[str, list[Requirement]] = {"": []}
    for line in metadata.requires(distribution) or ():
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
