"""The catalog of transforms as it ships, read from ``transforms/`` without sympy or Jinja2."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from winogen import resources
from winogen.codegen.transform import Transform, transform_of
from winogen.errors import InvalidValue


@cache
def catalog() -> dict[str, dict[str, Any]]:
    """Return the generated index of the catalog: name -> the fields of ``derive --format json``,
    plus "source", "header" (a file name) and "products". Empty where nothing was generated yet."""
    path = _folder() / "index.json"
    return json.loads(path.read_text("utf-8"))["transforms"] if path.is_file() else {}


def entry_name(m: int, r: int, tag: str = "", stride: int = 1) -> str:
    """Return what the catalog calls F(m, r) at a stride, or one of its tagged variants.

    >>> entry_name(4, 3), entry_name(4, 3, "gaussian"), entry_name(4, 3, stride=2)
    ('f4_3', 'f4_3_gaussian', 'f4_3_s2')
    """
    return f"f{m}_{r}" + (f"_s{stride}" if stride > 1 else "") + (f"_{tag}" if tag else "")


def is_shipped(m: int, r: int, tag: str = "", stride: int = 1) -> bool:
    """Whether the catalog has F(m, r) at a stride, so that nothing need be derived."""
    return entry_name(m, r, tag, stride) in catalog()


def shipped_tiles(r: int, tag: str = "", stride: int = 1) -> list[int]:
    """Return every m for which the catalog has F(m, r) at a stride, with this tag."""
    sizes = sorted({entry["m"] for entry in catalog().values() if entry["r"] == r})
    return [m for m in sizes if is_shipped(m, r, tag, stride)]


def _folder() -> Path:
    return resources.folder("transforms")


@cache
def from_catalog(name: str) -> Transform:
    """Return the transform of an entry."""
    entry = catalog()[name]
    return transform_of({**entry, "name": name}, (_folder() / entry["header"]).read_text("utf-8"))


def entry_of(m: int, r: int, name: str) -> dict[str, Any]:
    """Return the fields of an entry. Raises InvalidValue where F(m, r) has none of this name."""
    entry = catalog().get(name)
    if entry is None or (entry["m"], entry["r"]) != (m, r):
        names = [key for key, e in catalog().items() if (e["m"], e["r"]) == (m, r)]
        raise InvalidValue(
            f"name: got {name!r}; allowed for F({m}, {r}): {', '.join(names) or 'none'}"
        )
    return entry


def entry_made_of(m: int, r: int, option: str, values: list[str]) -> str | None:
    """Return which entry of F(m, r) has these "points" or "moduli", in any order, if one has."""
    for name, entry in catalog().items():
        if (entry["m"], entry["r"]) == (m, r) and sorted(entry[option]) == sorted(values):
            return name
    return None
