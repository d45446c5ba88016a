"""How large the cache may grow: what was not used for longest goes first.

Whatever is removed is made again when it is next wanted. A process with a kernel loaded keeps it,
for the system keeps the file as long as it is loaded. A process about to load a kernel finds it
gone and builds it anew (`winogen.toolchain.loader`). Nothing is taken for ours that does not have
the name and the form of what is written here, for WINOGEN_CACHE may be a folder with other things.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from winogen import environment
from winogen.errors import InvalidValue
from winogen.toolchain import trust
from winogen.toolchain.cache import (
    HEADER,
    LIBRARY,
    MANIFEST,
    MESSAGE,
    OBJECT,
    SOURCE,
    STALE_SECONDS,
    KernelStore,
)

DEFAULT_LIMIT = 1 << 30
# What was used so recently is in use: another process may be between finding and loading it.
RECENT_SECONDS = 600

_KEY = "[0-9a-f]{32}"
_DRAFT = r"\.[0-9a-f]{12}"  # of `write_whole`
# Kind -> the paths in the cache, by name. The kind "draft" is what only killed writers leave.
_FORMS = {
    "kernels": re.compile(rf"[A-Za-z0-9_.-]*-{_KEY}"),
    "failed": re.compile(rf"failed/[A-Za-z0-9_.-]*-{_KEY}"),
    "texts": re.compile(r"texts/[A-Za-z0-9_-]+"),
    "plans": re.compile(r"plans/[0-9a-f]{64}"),
    "arrays": re.compile(r"arrays/[0-9a-f]{64}"),
    "derived": re.compile(r"derived/[0-9a-f]{64}\.json"),
    "compilers": re.compile(rf"compilers/{_KEY}\.json"),
    "locks": re.compile(r"locks/[0-9a-z]+\.lock"),
    "drafts": re.compile(
        rf"building-(unlocked|rubbish|{_KEY})-[0-9a-f]{{12}}"
        rf"|(machine-[0-9a-z.-]+\.json|wisdom\.jsonl|texts/[A-Za-z0-9_-]+|(plans|arrays)/[0-9a-f]{{64}}"
        rf"|derived/[0-9a-f]{{64}}\.json|compilers/{_KEY}\.json){_DRAFT}"
    ),
}

KINDS = tuple(_FORMS)
_LOCK = "locks/prune.lock"


@dataclass(frozen=True)
class Item:
    """One thing in the cache that can be removed on its own."""

    kind: str
    path: Path
    size: int  # bytes
    used: float  # when last, as time.time()


def limit() -> int:
    """Return the most bytes that the cache may take: WINOGEN_CACHE_LIMIT, or 1 GiB.

    Raises InvalidValue for a text that is not a size.

    >>> limit() == 1 << 30 or "WINOGEN_CACHE_LIMIT" in os.environ
    True
    """
    text = environment.value("WINOGEN_CACHE_LIMIT")
    if not text:
        return DEFAULT_LIMIT
    size = re.fullmatch(r"([0-9]{1,15})([KMGT]?)(i?B)?", text, re.IGNORECASE)
    if not size:
        raise InvalidValue(
            f"WINOGEN_CACHE_LIMIT: got {text[:60]!r}; allowed: bytes, or a number and K, M, G or "
            "T, such as 500M"
        )
    return int(size[1]) << 10 * " KMGT".index(size[2].upper() or " ")


def census(root: Path) -> list[Item]:
    """Return all that can be removed from the cache ``root``, what was used last at the end."""
    items = []
    for path in _paths(root):
        name = path.relative_to(root).as_posix()
        kind = next((kind for kind, form in _FORMS.items() if form.fullmatch(name)), None)
        with suppress(OSError):  # it may go meanwhile
            if kind and _CHECKS.get(kind, bool)(path):
                items.append(Item(kind, path, _size(path), path.lstat().st_mtime))
    return sorted(items, key=lambda item: item.used)


def _paths(root: Path) -> Iterator[Path]:
    for folder in (root, *(root / part for part in trust.PARTS)):
        with suppress(OSError):
            if folder == root or not folder.is_symlink():
                yield from sorted(folder.iterdir())


def _is_kernel(path: Path) -> bool:
    return {inner.name for inner in path.iterdir()} <= {
        LIBRARY,
        OBJECT,
        HEADER,
        SOURCE,
        MANIFEST,
        MESSAGE,
    }


def _is_text(path: Path) -> bool:
    with open(path, "rb") as file:
        return re.fullmatch(rb"[0-9a-f]{64}\n", file.read(65)) is not None


# What else tells that something was written here.
_CHECKS = {
    "kernels": _is_kernel,
    "failed": _is_kernel,
    "texts": _is_text,
    "plans": _is_text,
    "arrays": _is_text,
}


def _size(path: Path) -> int:
    if path.is_symlink() or not path.is_dir():
        return path.lstat().st_size
    return sum(_size(inner) for inner in path.iterdir())


def prune(
    root: Path, most: int, *, spare: Collection[Path] = (), recent: float = RECENT_SECONDS
) -> int:
    """Remove what was not used for longest until ``most`` bytes are left; return the bytes removed.

    Never removed are ``spare``, what was used in the last ``recent`` seconds and what is being made
    now. What killed builders left goes in any case, old locks too. Does nothing while another
    process prunes. Raises OSError if there is nothing to be done in this folder.
    """
    from filelock import FileLock, Timeout

    trust.make_folder(root / "locks")
    try:
        with FileLock(root / _LOCK, timeout=0):
            os.utime(root / _LOCK)
            removed, left = _prune(root, most, spare, recent)
            _room[root, most] = (most - left) // 8
            return removed
    except (Timeout, NotImplementedError):
        return 0


# What may be written to a cache of so many bytes at most before this process looks at it again.
_room: dict[tuple[Path, int], int] = {}


def prune_after(entry: Path, root: Path, most: int, *, spare: Collection[Path] = ()) -> None:
    """As `prune`, where a new ``entry`` may not fit, and once an hour.

    To look at a cache of ten thousand files takes seconds. An eighth of the room that it had is
    filled before that, since other processes write to it, too.
    """
    key = root, most
    _room[key] = _room.get(key, 0) - _size(entry)
    if _room[key] < 0 or is_due(root):
        prune(root, most, spare=spare)


def is_due(root: Path) -> bool:
    """Return whether the cache ``root`` was not pruned for an hour."""
    try:
        return time.time() - (root / _LOCK).stat().st_mtime > STALE_SECONDS
    except OSError:
        return True


def _prune(root: Path, most: int, spare: Collection[Path], recent: float) -> tuple[int, int]:
    """Return the bytes that were removed, and those that are left."""
    items, now = census(root), time.time()
    left = total = sum(item.size for item in items)
    for item in items:
        age = now - item.used
        if item.kind in ("drafts", "locks"):
            still = STALE_SECONDS if item.kind == "drafts" else recent
            if age >= still and _remove(item, root):
                left -= item.size
        elif left > most and age >= recent and item.path not in spare and _remove(item, root):
            left -= item.size
    return total - left, left


def _remove(item: Item, root: Path) -> bool:
    try:
        if item.kind == "locks":
            return _remove_lock(item.path)
        if item.kind == "kernels":
            KernelStore(root).discard(item.path)
        elif item.path.is_dir() and not item.path.is_symlink():
            from shutil import rmtree

            rmtree(item.path)
        else:
            item.path.unlink()
    except OSError:
        return False
    return True


def _remove_lock(path: Path) -> bool:
    from filelock import FileLock, Timeout

    if path.name == Path(_LOCK).name:  # held by us
        return False
    try:
        # Whoever waits for it all the same will build beside another, which does no harm.
        with FileLock(path, timeout=0):
            path.unlink()
    except (Timeout, NotImplementedError):
        return False
    return True
