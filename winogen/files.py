"""Files that a user names: read with care, since anything may lie there."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from winogen.errors import InvalidType, InvalidValue

MOST_BYTES = 64 << 20  # of a file that is read as a whole
_DEEPEST = 100  # lists and tables of TOML within each other


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


def check_input(argument: str, path: str | Path, allowed: str, most: int | None = None) -> None:
    """Raise InvalidValue for what cannot be read to its end: no regular file, or a larger one.

    ``most``: bytes, None for any number. Raises OSError in its own words where a file cannot be
    opened.
    """
    check_regular(argument, path, allowed)
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
    if most is not None and size > most:
        raise InvalidValue(
            f"{argument}: got {str(path)!r} of {size:,} bytes; allowed: {allowed}, of at most "
            f"{most:,} bytes"
        )


def read_bytes(argument: str, path: str | Path, allowed: str, most: int = MOST_BYTES) -> bytes:
    """Return what a file holds; raises InvalidValue where it cannot be read, or has more bytes."""
    try:
        check_input(argument, path, allowed, most)
        return Path(path).read_bytes()
    except OSError as error:
        raise InvalidValue(
            f"{argument}: got {str(path)!r} ({error.strerror}); allowed: {allowed}"
        ) from None


def check_folder(folder: Path) -> None:
    """Raise OSError that names ``folder`` if none can be there: before work that takes long."""
    if folder.exists() and not folder.is_dir():
        raise _named(FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)), folder)
    above = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not above.is_dir():
        raise _named(NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)), folder)
    if not os.access(above, os.W_OK | os.X_OK):
        raise _named(PermissionError(errno.EACCES, os.strerror(errno.EACCES)), folder)


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty folder to be filled, which then is ``folder``: as a whole or not at all.

    Where ``folder`` has files already, they are replaced one by one, and those of other names stay.
    Raises OSError, which names ``folder``.
    """
    check_folder(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        aside = TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent)
    except OSError as problem:
        raise _named(problem, folder) from None
    with aside as name:
        draft = Path(name, folder.name)
        draft.mkdir(mode=0o755)
        yield draft
        if folder.is_dir() and any(folder.iterdir()):
            for path in draft.iterdir():
                os.replace(path, folder / path.name)
            return
        if folder.is_dir():
            folder.rmdir()
        os.rename(draft, folder)


def _named(problem: OSError, path: Path) -> OSError:
    """The same error of a path that the user knows."""
    return type(problem)(problem.errno, problem.strerror, str(path))


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


def parse_toml(argument: str, data: bytes, path: str | Path) -> dict[str, Any]:
    """Return what the TOML of ``path`` says; raises InvalidValue if it is none."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        text = data.decode("utf-8")
        # The reader of TOML needs seconds to find out that it is too deep.
        if _depth(text) > _DEEPEST:
            raise RecursionError
        return tomllib.loads(text)
    except ValueError as error:  # also what is not UTF-8
        raise InvalidValue(f"{argument}: got {path}, which is not TOML ({error})") from None
    except RecursionError:
        raise InvalidValue(
            f"{argument}: got {path}, which is nested too deeply; allowed: TOML of a few levels"
        ) from None


def _depth(text: str) -> int:
    """How many brackets are open at once, at most, those of texts included."""
    deepest = depth = 0
    for bracket in re.findall(r"[\[\]{}]", text):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def read_json(argument: str, path: str | Path, allowed: str) -> Any:
    """Return what a JSON file says; raises InvalidValue if it cannot be read or is none."""
    return parse_json(argument, read_bytes(argument, path, allowed), path)


def write_document(document: dict[str, Any], path: str | Path, rows_of: str) -> None:
    """Write figures as JSON whose rows have a line each, so that two runs can be compared.

    ``rows_of``: the key of the list of rows.
    """
    parts = []
    for key, value in document.items():
        text = json.dumps(value, allow_nan=False)
        if key == rows_of:
            rows = ",\n".join(f"  {json.dumps(row, allow_nan=False)}" for row in value)
            text = f"[\n{rows}\n ]"
        parts.append(f" {json.dumps(key)}: {text}")
    Path(path).write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def read_array(argument: str, path: str | Path, *, mapped: bool = False) -> Any:
    """Return what `numpy.save` or `savez` wrote: an array, or a mapping from names to arrays.

    ``mapped``: read the array as it is used. Raises InvalidValue.
    """
    import numpy as np

    allowed = "what numpy.save wrote"
    try:
        check_input(argument, path, allowed)
        return np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
    except InvalidValue:
        raise
    except OSError as error:
        why = error.strerror or "not an array"
    except MemoryError:  # also a header that lies about the size
        why, allowed = "more memory than there is", "an array that fits into memory"
    except Exception:  # of many kinds: numpy's reader takes what it finds for Python
        why = "not .npy"
    raise InvalidValue(f"{argument}: got {str(path)!r} ({why}); allowed: {allowed}")
