"""Files that a user names: read with care, since anything may lie there."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

from winogen.errors import InvalidValue


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
