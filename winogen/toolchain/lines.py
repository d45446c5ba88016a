"""A file of JSON objects, one a line, that several processes read and add to.

A damaged line costs that line only. Whoever adds holds a lock, reads what is there, and replaces
the whole file by one rename: a reader never sees half of it, whoever is killed when.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from winogen.errors import CacheUnavailable
from winogen.toolchain import trust
from winogen.toolchain.cache import LOCK_SECONDS, cache_dir, write_whole

Line = dict[str, Any]

_MOST_BYTES = 64 << 20
# What a `check` may raise for a line that is not what it should be.
_WRONG = (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError)


def read(path: Path, check: Callable[[Line], Any]) -> tuple[list[Line], list[int]]:
    """Return the lines that ``check`` does not raise for, and the numbers of all others.

    Raises OSError; Untrusted among them if it lies in the cache folder, and others can write to it.
    """
    if path.parent == cache_dir():
        data = trust.read(path)
    else:
        state = path.stat()
        if not stat.S_ISREG(state.st_mode):  # a FIFO would be waited for
            raise OSError(f"{path} is not a regular file")
        size = state.st_size
        if size > _MOST_BYTES:
            raise OSError(f"{path} has {size} bytes; allowed: at most {_MOST_BYTES}")
        data = path.read_bytes()
    lines, damaged = [], []
    for number, text in enumerate(data.splitlines(), 1):
        if not text.strip():
            continue
        try:
            line = json.loads(text)
            check(line)
        except _WRONG:
            damaged.append(number)
        else:
            lines.append(line)
    return lines, damaged


def merge(
    path: Path,
    lines: Iterable[Line],
    check: Callable[[Line], Any],
    key: Callable[[Line], str],
    age: Callable[[Line], Any],
    without: Collection[str] = (),
) -> int:
    """Add lines to a file; return how many are new there.

    A line replaces the one of the same ``key``, unless its ``age`` is less (a date, say). Damaged
    lines are left out, and those whose keys are ``without``. Raises OSError if the file cannot be
    written.
    """
    with _locked(path):
        merged = {}
        if path.is_file():
            merged = {key(line): line for line in read(path, check)[0]}
        added = 0
        for line in lines:
            old = merged.get(key(line))
            if old is None or (age(old) <= age(line) and old != line):
                merged[key(line)] = line
                added += 1
        merged = {name: line for name, line in merged.items() if name not in without}
        mode = path.stat().st_mode & 0o777 if path.is_file() else None
        texts = [json.dumps(line, sort_keys=True) + "\n" for line in merged.values()]
        write_whole(path, "".join(texts).encode())
        if mode is not None:
            os.chmod(path, mode)
    return added


def check_writable(path: Path, advice: str) -> None:
    """Raise CacheUnavailable, with ``advice``, unless the file could be written."""
    try:
        with _locked(path):
            trial = path.with_name(f"{path.name}.trial")
            write_whole(trial, b"")
            trial.unlink()
    except OSError as problem:
        raise CacheUnavailable(f"{path} cannot be written ({problem}); {advice}") from None


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file; where the file system has no locks, nothing is held."""
    from filelock import FileLock

    # In the cache folder where all locks are, else beside the file.
    folder = path.parent / "locks" if path.parent == cache_dir() else path.parent
    trust.make_folder(folder)
    lock = FileLock(folder / f"{path.stem}.lock", timeout=LOCK_SECONDS)
    with suppress(NotImplementedError):
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
