"""Files that a user names: read with care, since anything may lie there."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from winogen.errors import InvalidType, InvalidValue


def check_regular(argument: str, path: str | Path, allowed: str) -> None:
    """Raise InvalidValue if ``path`` exists and is not a regular file.

    A FIFO would wait for ever, /dev/zero never ends, and /dev/full swallows what is written.
    """
    try:
        mode = Path(path).stat().st_mode
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:  # ValueError: a path with a null byte
        why = getattr(error, "strerror", None) or error
        raise InvalidValue(f"{argument}: got {str(path)!r} ({why}); allowed: {allowed}") from None
    if not stat.S_ISREG(mode):
        raise InvalidValue(
            f"{argument}: got {str(path)!r}, which is not a regular file; allowed: {allowed}"
        )


def output_path(output: Any) -> Path:
    """Return the path of a file to write, where links lead.

    Raises InvalidType for what is no path, InvalidValue for what is there and no regular file, and
    FileNotFoundError where there is no folder for it.
    """
    if not isinstance(output, (str, os.PathLike)):
        raise InvalidType(f"output: got {type(output).__name__}; allowed: a path")
    check_regular("output", Path(output), "a file that is not there yet, or a regular one")
    return Path(output).resolve().parent.resolve(strict=True) / Path(output).resolve().name


def replace_file(path: Path, data: bytes) -> Path:
    """Write a file as a whole or not at all, with the permissions of new ones; return its path."""
    with TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        draft = Path(folder, path.name)
        draft.write_bytes(data)
        os.replace(draft, path)
    return path


def parse_json(argument: str, text: str | bytes, path: str | Path) -> Any:
    """Return what the JSON ``text`` of ``path`` says; raises InvalidValue if it is none."""
    try:
        return json.loads(text)
    except ValueError as error:  # also what is not UTF-8
        raise InvalidValue(f"{argument}: got {path}, which is not JSON ({error})") from None
    except RecursionError:
        raise InvalidValue(
            f"{argument}: got {path}, which is nested too deeply; allowed: JSON of a few levels"
        ) from None


def read_json(argument: str, path: str | Path, allowed: str) -> Any:
    """Return what a JSON file says; raises InvalidValue if it cannot be read or is none."""
    check_regular(argument, path, allowed)
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InvalidValue(
            f"{argument}: got {str(path)!r} ({error.strerror}); allowed: {allowed}"
        ) from None
    return parse_json(argument, data, path)
