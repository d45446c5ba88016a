"""Where compiled kernels are kept, and how they get there without ever being half there.

A `KernelStore` is one folder with one sub-folder per kernel::

    <root>/<name>-<key>/kernel.c        the source, for people
                        kernel.so       the library; kernel.o for a part that kernels share
                        manifest.json   its size and SHA-256, and how it was made
    <root>/building-<key>-<random>/     a build in progress, or what a killed one left
    <root>/failed/<name>-<key>/         kernel.c and message.txt of a compile that failed
    <root>/locks/<key>.lock             held while <key> is built

A kernel is built in its ``building-`` folder, and one rename of that folder publishes all three
files at once. What a reader finds is nevertheless trusted only as far as its SHA-256 agrees with
the manifest, since disks lose data and people edit files; and as far as nobody else can have put it
there (`winogen.toolchain.trust`).

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
import stat
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from winogen import environment
from winogen.errors import CacheUnavailable, InvalidValue
from winogen.toolchain import trust

LIBRARY, OBJECT = "kernel.so", "kernel.o"
SOURCE, MANIFEST = "kernel.c", "manifest.json"
HEADER = f"{SOURCE}.gch"  # where gcc looks for what it has read of the source
MESSAGE = "message.txt"

# A kernel compiles in seconds, so a building folder this old belongs to nobody.
STALE_SECONDS = 3600
# How long to wait for another process that builds the same kernel before building it here too.
LOCK_SECONDS = 300


def cache_dir() -> Path:
    """Return the folder of the kernel cache: WINOGEN_CACHE, or the user's cache folder.

    The folder need not exist yet. Deleting it, at any time, costs only the next compile. Raises
    InvalidValue for a WINOGEN_CACHE that cannot be a folder.
    """
    chosen = environment.value("WINOGEN_CACHE")
    if chosen:
        return path_of("WINOGEN_CACHE", chosen)
    from platformdirs import user_cache_path

    with suppress(RuntimeError):  # some versions return "~/.cache" instead
        path = user_cache_path("winogen", appauthor=False)
        if path.is_absolute():
            return path
    # A user whom the system does not know has no home; as in a container with a user by number.
    from tempfile import gettempdir

    return Path(gettempdir()) / f"winogen-{os.geteuid()}"


def path_of(variable: str, text: str) -> Path:
    """Return the path that a variable of the environment names; raises InvalidValue if it cannot.

    >>> path_of("WINOGEN_CACHE", "/var/cache").as_posix()
    '/var/cache'
    """
    allowed = "allowed: a path, as UTF-8 text"
    try:
        text.encode()
        return Path(text).expanduser().absolute()
    except UnicodeError:  # the loader of shared libraries would not take it
        raise InvalidValue(f"{variable}: got {text!a}; {allowed}") from None
    except RuntimeError as problem:  # ~ of somebody who is not a user here
        raise InvalidValue(f"{variable}: got {text!r} ({problem}); {allowed}") from None


def write_whole(path: Path, data: bytes) -> None:
    """Write a file that nobody ever sees in part, whoever else writes it; makes its folder.

    Raises OSError if it cannot be written, and leaves what was there.
    """
    trust.make_folder(path.parent)
    draft = path.with_name(f"{path.name}.{_unique()}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(data)
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def remove_tree(folder: Path) -> None:
    """Remove a folder, as much of it as can be."""
    from shutil import rmtree  # with all kinds of archives, which an import need not wait for

    rmtree(folder, ignore_errors=True)


def _unique() -> str:
    return os.urandom(6).hex()


@lru_cache(maxsize=1)
def _private_root() -> Path:
    from tempfile import mkdtemp

    root = Path(mkdtemp(prefix="winogen-"))
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # not in a forked child
            remove_tree(root)

    atexit.register(remove)
    return root


def stores() -> Iterator[KernelStore]:
    """Yield the places to try in order: the cache, then a folder that dies with this process.

    A cache that others can write to is left out, with a warning.
    """
    root = cache_dir()
    try:
        trust.check_folder(root)
    except trust.Untrusted as reason:
        warn_once(root, f"the kernel cache is not used: {reason}")
    else:
        yield KernelStore(root)
    try:
        private = _private_root()
    except OSError:
        return  # there is nowhere to write; the caller reports the trouble with the cache
    yield KernelStore(private)


def cache_root() -> Path:
    """Return the first of the places to try. Raises CacheUnavailable if there is none."""
    for store in stores():
        return store.root
    raise CacheUnavailable(f"neither {cache_dir()} nor a temporary folder can be used")


_warned: set[Path] = set()


def warn_once(root: Path, problem: str) -> None:
    """Warn that another folder stands in for the cache ``root``; the first time in this process."""
    if root not in _warned:
        _warned.add(root)
        warnings.warn(
            f"{problem}; a private folder takes its place, which is removed when this process ends "
            "(set WINOGEN_CACHE to a folder that you alone can write)",
            RuntimeWarning,
            stacklevel=6,
        )


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file as hexadecimal text."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


class KernelStore:
    """One folder of kernels. Methods that write raise OSError when the folder does not let them."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def entry(self, name: str, key: str) -> Path:
        """Return the folder where the kernel is, or would be, published."""
        return self.root / f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', name)}-{key}"

    def kernels(self) -> list[str]:
        """Return the keys of all kernels that were published here."""
        with suppress(OSError):
            keys = (name.rpartition("-")[2] for name in os.listdir(self.root))
            return [key for key in keys if re.fullmatch("[0-9a-f]{32}", key)]
        return []

    def find(self, entry: Path, product: str = LIBRARY) -> Path | None:
        """Return the product in ``entry``, or None if it is missing, truncated or altered.

        Raises Untrusted if it is somebody else's.
        """
        library = entry / product
        try:
            folder, status, _ = map(trust.owned, (entry, library, entry / MANIFEST))
            manifest = json.loads((entry / MANIFEST).read_bytes())
            intact = (
                not trust.is_open(folder)  # anybody may have written it, so it is made anew
                and stat.S_ISREG(status.st_mode)
                and status.st_size == manifest["size"]
                and file_digest(library) == manifest["sha256"]
            )
        except trust.Untrusted:
            raise
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None
        if not intact:
            return None
        with suppress(OSError):  # the time of last use, by which old entries are told
            os.utime(entry)
        return library

    @contextmanager
    def lock(self, key: str, on_wait: Callable[[], None]) -> Iterator[bool]:
        """Hold the lock of ``key``; yield whether it could be had. Calls ``on_wait`` if busy."""
        # Imported here because a warm start, which only reads, has no use for its 30 ms.
        from filelock import FileLock, Timeout

        folder = self.root / "locks"
        trust.make_folder(folder)
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
                remove_tree(folder)

    @contextmanager
    def workbench(self, key: str | None) -> Iterator[Path]:
        """Yield a new folder to build in; remove it afterwards unless it has been published.

        ``key`` is None without its lock: `sweep` takes every "building-<key>-" folder away because
        only the holder of the lock makes one, all others just age.
        """
        folder = self.root / f"building-{key or 'unlocked'}-{_unique()}"
        trust.make_folder(folder)
        try:
            yield folder
        finally:
            remove_tree(folder)

    def publish(
        self, folder: Path, entry: Path, facts: dict[str, Any], product: str = LIBRARY
    ) -> Path:
        """Seal the finished ``folder`` and rename it to ``entry``; return the product there."""
        library = folder / product
        manifest = {"size": library.stat().st_size, "sha256": file_digest(library), **facts}
        (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
        try:
            os.rename(folder, entry)
        except OSError as problem:
            if problem.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
            winner = self.find(entry, product)
            if winner:  # built twice, without the lock; both are right
                return winner
            self.discard(entry)
            os.rename(folder, entry)
        return entry / product

    def discard(self, entry: Path) -> None:
        """Remove an entry; a process that has its library open keeps the file."""
        # Renamed first, so that nobody sees a partly deleted entry.
        rubbish = self.root / f"building-rubbish-{_unique()}"
        os.rename(entry, rubbish)
        remove_tree(rubbish)

    def keep_failure(self, entry: Path, source: Path, message: str) -> Path:
        """Keep the source and message of a failed compile for people; return the source's path."""
        folder = self.root / "failed" / entry.name
        trust.make_folder(folder)
        (folder / MESSAGE).write_text(message)
        os.replace(source, folder / SOURCE)
        return folder / SOURCE
