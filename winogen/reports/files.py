"""The files of a report: written beside their place and moved there when all are complete."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from winogen.errors import InvalidValue
from winogen.extras import require

PAGE, DATA = "index.html", "report.json"


@contextmanager
def folder(output: str | Path) -> Iterator[Path]:
    """Yield an empty folder whose files are moved to ``output`` if the block succeeds.

    Made first, so that a place where nothing can be written is noticed before any work. If the
    block fails, everything made is removed; files that were in ``output`` are then as before.
    Raises InvalidValue for such a place, and MissingPackage where nothing can be drawn.
    """
    require("matplotlib", "plot")
    output = Path(output)
    made = []
    try:
        if output.exists() and not output.is_dir():
            raise NotADirectoryError(20, "a file is in the way")
        for parent in (output, *output.parents):
            if parent.exists():
                break
            made.append(parent)
        output.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=".report-", dir=output))
    except OSError as error:
        _remove_empty(made)
        raise InvalidValue(
            f"output: got {str(output)!r} ({error.strerror}); allowed: a folder to write to"
        ) from None
    try:
        yield partial
        for path in sorted(partial.iterdir()):
            os.replace(path, output / path.name)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        _remove_empty(made)


def _remove_empty(folders: list[Path]) -> None:
    for path in folders:  # the innermost first
        with suppress(OSError):
            path.rmdir()


def json_text(document: dict) -> str:
    """The document as JSON, one line per row of its tables; equal documents give equal text.

    >>> print(json_text({"a": 1, "rows": [{"b": 2}, {"b": [3, 4]}]}), end="")
    {
    "a": 1,
    "rows": [
    {"b": 2},
    {"b": [3, 4]}
    ]
    }
    """
    return _json(document) + "\n"


def _json(value: Any) -> str:
    if _is_table(value):
        return "[\n" + ",\n".join(map(_flat, value)) + "\n]"
    if isinstance(value, dict) and any(_has_table(item) for item in value.values()):
        parts = (f"{_flat(key)}: {_json(item)}" for key, item in value.items())
        return "{\n" + ",\n".join(parts) + "\n}"
    return _flat(value)


def _flat(value: Any) -> str:
    return json.dumps(value, allow_nan=False, ensure_ascii=False)


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(item, dict) for item in value)


def _has_table(value: Any) -> bool:
    return _is_table(value) or (isinstance(value, dict) and any(map(_has_table, value.values())))


def csv_text(rows: list[dict]) -> str:
    """Rows as CSV with a head; nested objects become ``outer.inner``, lists are joined by spaces.

    >>> print(csv_text([{"name": "f2_3", "points": ["0", "1"], "error": {"mean": 0.5}}]), end="")
    name,points,error.mean
    f2_3,0 1,0.5
    """
    flat = [dict(_flatten(row)) for row in rows]
    names = list(dict.fromkeys(name for row in flat for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return text.getvalue()


def _flatten(row: dict, prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in row.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{key}.")
        elif isinstance(value, (list, tuple)):
            yield prefix + key, " ".join(map(_cell, value))
        else:
            yield prefix + key, "" if value is None else value


def _cell(value: Any) -> str:
    """One element of a list: none is a dash, a list within the list has commas."""
    if isinstance(value, (list, tuple)):
        return ",".join(map(_cell, value))
    return "-" if value is None else str(value)
