"""Where compiled kernels are kept, and how they get there without ever being half there.

A `Store` is one folder with one sub-folder per kernel::

    <root>/<name>-<key>/kernel.c        the source, for people
                        kernel.so       the library
                        manifest.json   size and SHA-256 of kernel.so, and how it was made
    <root>/building-<key>-<random>/     a build in progress, or what a killed one left
    <root>/failed/<name>-<key>/         kernel.c and message.txt of a compile that failed
    <root>/locks/<key>.lock             held while <key> is built

A kernel is built in its ``building-`` folder, and one rename of that folder publishes all three
files at once. What a reader finds is nevertheless trusted only as far as its SHA-256 agrees with
the manifest, since disks lose data and people edit files.

The lock saves work and is not needed for correctness: where it cannot be had (some network file
systems), two builders both build, and the first rename wins.
"""

from __future__ import annotations

import atexit
import errno
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

LIBRARY, SOURCE, MANIFEST = "kernel.so", "kernel.c", "manifest.json"

# A kernel compiles in seconds, so a building folder this old belongs to nobody.
STALE_SECONDS = 3600
# How long to wait for another process that builds the same kernel before building it here too.
LOCK_SECONDS = 300


def cache_dir() -> Path:
    """Return the folder of the kernel cache: WINOGEN_CACHE, or the user's cache folder.

    The folder need not exist yet. Deleting it, at any time, costs only the next compile.
    """
    chosen = os.environ.get("WINOGEN_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    from platformdirs import user_cache_path

    return user_cache_path("winogen", appauthor=False)


def write_whole(path: Path, data: bytes) -> None:
    """Write a file that nobody ever sees in part, whoever else writes it; makes its folder.

    Raises OSError if it cannot be written, and leaves what was there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{uuid.uuid4().hex[:12]}")
    try:
        draft.write_bytes(data)
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


@lru_cache(maxsize=1)
def _private_root() -> Path:
    root = Path(tempfile.mkdtemp(prefix="winogen-"))
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # not in a forked child
            shutil.rmtree(root, ignore_errors=True)

    atexit.register(remove)
    return root


def stores() -> Iterator[Store]:
    """Yield the places to try in order: the cache, then a folder that dies with this process."""
    yield Store(cache_dir())
    try:
        private = _private_root()
    except OSError:
        return  # there is nowhere to write; the caller reports the trouble with the cache
    yield Store(private)


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file as hexadecimal text."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Store:
    """One folder of kernels. Methods that write raise OSError when the folder does not let them."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def entry(self, name: str, key: str) -> Path:
        """Return the folder where the kernel is, or would be, published."""
        return self.root / f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', name)}-{key}"

    def find(self, entry: Path) -> Path | None:
        """Return the library in ``entry``, or None if it is missing, truncated or altered."""
        library = entry / LIBRARY
        try:
            manifest = json.loads((entry / MANIFEST).read_bytes())
            intact = (
                library.stat().st_size == manifest["size"]
                and file_digest(library) == manifest["sha256"]
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return library if intact else None

    @contextmanager
    def lock(self, key: str, on_wait: Callable[[], None]) -> Iterator[bool]:
        """Hold the lock of ``key``; yield whether it could be had. Calls ``on_wait`` if busy."""
        # Imported here because a warm start, which only reads, has no use for its 30 ms.
        from filelock import FileLock, Timeout

        folder = self.root / "locks"
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / f"{key}.lock")
        held = True
        try:
            lock.acquire(timeout=0)
        except Timeout:
            on_wait()
            try:
                lock.acquire(timeout=LOCK_SECONDS)
            except Timeout:
                held = False
        except NotImplementedError:  # a file system without locks
            held = False
        except OSError as problem:
            if problem.errno not in (errno.ENOSYS, errno.ENOLCK, errno.ENOTSUP):
                raise
            held = False
        try:
            yield held
        finally:
            if held:
                lock.release()

    def sweep(self, key: str | None) -> None:
        """Remove what killed builds left: of ``key`` (if the caller holds its lock), or any old."""
        for folder in self.root.glob("building-*"):
            try:
                old = time.time() - folder.stat().st_mtime > STALE_SECONDS
            except OSError:
                continue  # somebody else swept it
            if old or folder.name.startswith(f"building-{key}-"):
                shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def workbench(self, key: str | None) -> Iterator[Path]:
        """Yield a new folder to build in; remove it afterwards unless it has been published.

        ``key`` is None without its lock: `sweep` takes every "building-<key>-" folder away because
        only the holder of the lock makes one, all others just age.
        """
        folder = self.root / f"building-{key or 'unlocked'}-{uuid.uuid4().hex[:12]}"
        folder.mkdir(parents=True)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def publish(self, folder: Path, entry: Path, facts: dict) -> Path:
        """Seal the finished ``folder`` and rename it to ``entry``; return the library there."""
        library = folder / LIBRARY
        manifest = {"size": library.stat().st_size, "sha256": file_digest(library), **facts}
        (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
        try:
            os.rename(folder, entry)
        except OSError as problem:
            if problem.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
            winner = self.find(entry)
            if winner:  # built twice, without the lock; both are right
                return winner
            self._discard(entry)
            os.rename(folder, entry)
        return entry / LIBRARY

    def _discard(self, entry: Path) -> None:
        # Renamed first, so that nobody sees an entry that is partly deleted. A process that has
        # the broken library open keeps its file.
        rubbish = self.root / f"building-rubbish-{uuid.uuid4().hex[:12]}"
        os.rename(entry, rubbish)
        shutil.rmtree(rubbish, ignore_errors=True)

    def keep_failure(self, entry: Path, source: Path, message: str) -> Path:
        """Keep the source and message of a failed compile for people; return the source's path."""
        folder = self.root / "failed" / entry.name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "message.txt").write_text(message)
        os.replace(source, folder / SOURCE)
        return folder / SOURCE
