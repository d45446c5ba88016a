#!/usr/bin/env python3
"""Print the oldest release of each dependency that pyproject.toml allows, as pip requirements.

    python scripts/minimum.py [EXTRA ...]

`numpy>=1.24` becomes `numpy==1.24`, which is 1.24.0 to pip. A dependency without a lower bound is
an error. Needs nothing but Python; scripts/test_minimum.sh installs what this prints.
"""

import re
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
_REQUIREMENT = re.compile(
    r"([A-Za-z0-9_.-]+)(\[[^]]*\])?>=([0-9][0-9A-Za-z.]*)(?:,<[0-9.]+)?\s*(;.*)?"
)


def minimum(requirement: str) -> str:
    """Return ``requirement`` pinned to its lower bound.

    >>> minimum("tomli>=2; python_version < '3.11'")
    "tomli==2; python_version < '3.11'"
    >>> minimum("pytest>=8,<9.2")
    'pytest==8'
    """
    parts = _REQUIREMENT.fullmatch(requirement)
    if not parts:
        raise SystemExit(f"{requirement}: got no plain lower bound; allowed: name>=version")
    name, extras, version, marker = parts.groups("")
    return f"{name}{extras}=={version}{marker}"


def lists(text: str) -> dict[str, list[str]]:
    """Return the lists of quoted texts in pyproject.toml, by name: no tomllib before 3.11."""
    return {
        name: re.findall(r'"([^"]+)"', body)
        for name, body in re.findall(r"^([a-z-]+) = \[(.*?)\]$", text, re.MULTILINE | re.DOTALL)
    }


def main(extras: list[str]) -> None:
    """Print one requirement a line, those of ``extras`` after the package's own."""
    known = lists(PROJECT.read_text("utf-8"))
    for extra in extras:
        if extra not in known:
            raise SystemExit(f"extra: got {extra}; allowed: {', '.join(known)}")
    for name in ["dependencies", *extras]:
        for requirement in known[name]:
            print(minimum(requirement))


if __name__ == "__main__":
    main(sys.argv[1:])
