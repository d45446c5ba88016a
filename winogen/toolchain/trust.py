"""What of the cache may be believed: a kernel there is code, and runs as whoever loads it.

A digest beside a file tells damage, not origin: whoever can write the one can write the other. So
the folder must belong to this user (or to root), and nobody else may be able to write to it. The
same goes for each entry and file in it, since the folder may have been open to all at one time.
"""

from __future__ import annotations

import errno
import os
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

# Folders in a cache.
PARTS = ("texts", "plans", "arrays", "derived", "locks", "compilers", "failed")
_ADVICE = "set WINOGEN_CACHE to a folder of your own"


class Untrusted(PermissionError):
    """Others may have written what is there, and it would run as this user."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(errno.EPERM, reason, str(path))

    def __str__(self) -> str:
        return f"{self.filename} {self.strerror}"


def make_folder(path: Path) -> None:
    """Make a folder, and missing ones above it, for this user alone."""
    if not path.is_dir():
        if path.parent != path:
            make_folder(path.parent)
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            if not path.is_dir():
                raise


def check_folder(path: Path) -> None:
    """Raise Untrusted if others may have a say in what is in this folder, which need not exist.

    A cache of ours that is open to others was made so by mistake, and is closed to them. What they
    may have left there is told by its own owner and mode. Where everybody could write, and not only
    a group (as with a umask of 002, whose groups have one member), a warning says so.
    """
    real = Path(os.path.realpath(path))
    try:
        status = owned(real)
    except (FileNotFoundError, NotADirectoryError):
        return
    if is_open(status):
        mode = stat.S_IMODE(status.st_mode)
        try:
            if not _is_our_cache(real, status):
                raise PermissionError
            os.chmod(real, mode & ~0o022)
        except OSError:
            raise Untrusted(
                path,
                f"can be written by others (mode {mode:o}), whose code would run as you; take that "
                f"right away (chmod go-w), or {_ADVICE}",
            ) from None
        if mode & stat.S_IWOTH:
            warnings.warn(
                f"{path} could be written by everybody (mode {mode:o}), whose code would have run "
                "as you: it is closed to others now, and what they left there is not used",
                RuntimeWarning,
                stacklevel=2,
            )


def _is_our_cache(folder: Path, status: os.stat_result) -> bool:
    """Whether a folder was made by this user for the cache, and is not /tmp or full of letters."""
    if status.st_uid != os.geteuid() or status.st_mode & stat.S_ISVTX:
        return False
    for part in PARTS:
        with suppress(OSError):
            if folder.name == part or os.lstat(folder / part).st_uid == os.geteuid():
                return True
    return not os.listdir(folder)


def owned(path: Path) -> os.stat_result:
    """Return the status of what lies there; raises Untrusted unless this user or root made it."""
    status = os.lstat(path)
    _check_owner(path, status)
    return status


def _check_owner(path: Path, status: os.stat_result) -> None:
    if status.st_uid not in (os.geteuid(), 0):
        raise Untrusted(
            path, f"belongs to {_name(status.st_uid)}, whose code would run as you; {_ADVICE}"
        )


def is_open(status: os.stat_result) -> bool:
    """Return whether others than the owner may write to this file or into this folder."""
    return bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def read(path: Path) -> bytes:
    """Return the content of a file of ours; raises OSError, Untrusted among others.

    Of all folders above, only the one that it lies in is looked at.
    """
    with opened(path) as file:
        return file.read()


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file of ours for reading, as `read` does."""
    check_folder(path.parent)
    # Not blocking: what lies there might be a pipe.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        _check_owner(path, status)
        if is_open(status) or not stat.S_ISREG(status.st_mode):
            raise Untrusted(path, "is not a file that only you can write")
        yield file


def _name(user: int) -> str:
    import pwd

    try:
        return f"{pwd.getpwuid(user).pw_name} (user {user})"
    except KeyError:
        return f"user {user}"
