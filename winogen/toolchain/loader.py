"""From C source to loaded library: look in the cache and in archives, else compile and publish.

A library is known by what it is built from: source, flags, target. Which compiler built it is noted
beside it, and one is looked for only to compile. The exception is a compiler that the user names by
CC: that one's code is wanted, so its libraries are apart from others.
"""

from __future__ import annotations

import atexit
import os
import platform
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from winogen.errors import (
    BuildError,
    CacheUnavailable,
    WinogenError,
)
from winogen.records import Target
from winogen.toolchain import prebuilt, pruning
from winogen.toolchain.cache import LIBRARY, KernelStore, cache_dir, stores, warn_once
from winogen.toolchain.compiler import flags_for, lack, mode
from winogen.toolchain.fork import Lock
from winogen.toolchain.jobs import LibraryJob, Parts, build
from winogen.toolchain.system import system_name
from winogen.toolchain.texts import Text
from winogen.toolchain.threads import bind, ffi_of


@dataclass(frozen=True)
class Library:
    """A loaded kernel library: call ``lib.<function>`` with objects made by ``ffi``."""

    ffi: Any  # cffi.FFI, shared by all libraries with the same cdef
    lib: Any
    path: Path  # the shared library; its source is beside it, if it was compiled here


@dataclass(frozen=True)
class Build:
    """What a library is built from.

    ``cdef`` declares what it exports, in the C subset that cffi reads; ``flags`` are added to the
    target's; ``name`` is what people see in the cache folder and while C compiles. ``parts`` is
    called for a compile alone, and follows from ``source``: what it returns is compiled once for
    all libraries that have it, and linked to each.
    """

    source: str | Text
    cdef: str
    target: Target
    flags: tuple[str, ...] = ()
    name: str = "kernel"
    parts: Parts = dict

    def load(self) -> Library:
        """Return the library, compiled only where neither the cache nor an archive has it.

        The same build in this process gives the same `Library`. Raises CompilerNotFound,
        CompileFailed (with the compiler's message and the path of the kept source),
        CacheUnavailable (nowhere to write), BuildError (compiled, but cannot be loaded), and
        InvalidValue for WINOGEN_CACHE, WINOGEN_CACHE_LIMIT or WINOGEN_COMPILE.
        """
        request = self._request()
        with _guard:
            lock = _locks.setdefault(request, Lock())
        with lock:  # threads that want different kernels build side by side
            if request not in _loaded:
                library = _obtain(self._job(), ffi_of(self.cdef))
                bind(library)
                _loaded[request] = library
                _used.append(self)
            return _loaded[request]

    def at_hand(self) -> bool:
        """Return whether `load` needs no compiler; raises as it does."""
        if self._request() in _loaded:
            return True
        job = self._job()
        if not job.is_named:
            return False  # whoever compiled it would have kept its text
        if prebuilt.has(job.key, job.target.name):
            return True
        store = next(stores(), None)
        try:
            return store is not None and store.find(store.entry(job.name, job.key)) is not None
        except OSError:  # as for a folder of somebody else
            return False

    def compiled(
        self, machine: str = platform.machine(), system: str = system_name()
    ) -> prebuilt.ArchiveItem:
        """Return the library for an archive, compiled but not loaded: it may be for elsewhere.

        Raises as `load` does.
        """
        job = self._job(machine, system)
        most, problem = pruning.limit(), None
        for store in stores():
            entry = store.entry(job.name, job.key)
            try:
                path = store.find(entry) or build(job, store, entry, most, _folders_in_use())
                data = path.read_bytes()
            except OSError as refusal:
                problem = refusal
                continue
            return prebuilt.ArchiveItem(replace(job, words="").key, job.name, data, job.recipe)
        raise CacheUnavailable(f"{cache_dir()} cannot be used: {problem}")

    def _request(self) -> Hashable:
        source = self.source.key if isinstance(self.source, Text) else self.source
        build = source, self.cdef, self.target, self.flags, self.name
        return *build, _words(), cache_dir()

    def _job(self, machine: str = platform.machine(), system: str = system_name()) -> LibraryJob:
        flags = (*flags_for(self.target), *self.flags)
        kind = self.target, flags, self.parts, LIBRARY, _words(), machine, system
        return LibraryJob(self.source, self.name, *kind)


_loaded: dict[Hashable, Library] = {}
_used: list[Build] = []  # what these were built from
_locks: dict[Hashable, Lock] = {}
_guard = Lock()


def load(
    source: str,
    cdef: str,
    target: Target,
    flags: tuple[str, ...] = (),
    *,
    name: str = "kernel",
    parts: Parts = dict,
) -> Library:
    """Return the library that a `Build` of these describes.

    >>> from winogen.toolchain import host_target, load
    >>> twice = load("int twice(int x) { return 2 * x; }", "int twice(int);", host_target())
    >>> twice.lib.twice(21)
    42
    """
    return Build(source, cdef, target, tuple(flags), name, parts).load()


def used() -> tuple[Build, ...]:
    """Return what the libraries were built from that this process has loaded."""
    return tuple(_used)


def _words() -> str:
    """CC, where its code is wanted and can be had."""
    chosen = os.environ.get("CC", "").strip()
    if not chosen or mode() == "off":
        return ""
    return "" if lack(chosen, os.environ.get("PATH")) else chosen


def _obtain(job: LibraryJob, ffi: Any) -> Library:
    most = pruning.limit()  # of the cache; wrong text is told before anything is compiled
    problem: Exception | None = None
    for store in stores():
        if problem is not None:
            warn_once(cache_dir(), str(problem))
        try:
            return _open(job, store, ffi, most)
        except OSError as refusal:
            problem = CacheUnavailable(f"the kernel cache {store.root} cannot be used: {refusal}")
        except CannotLoad as refusal:
            problem = refusal
    raise problem or CacheUnavailable(f"the kernel cache {cache_dir()} cannot be used")


class CannotLoad(BuildError):
    """A library was compiled, but the system does not load it."""


def _open(job: LibraryJob, store: KernelStore, ffi: Any, most: int) -> Library:
    """Return the library from ``store``, built if need be; raise OSError if it cannot be there."""
    entry = store.entry(job.name, job.key)
    for attempt in (1, 2):
        path = (
            store.find(entry)
            or _unpack(job, store, entry)
            or build(job, store, entry, most, _folders_in_use())
        )
        try:
            return Library(ffi, ffi.dlopen(str(path)), path)
        except (OSError, UnicodeError) as refusal:  # mounted noexec, or built on another system
            if path.exists() or attempt == 2:
                raise CannotLoad(f"{path} cannot be loaded: {refusal}") from None
    raise AssertionError("the second attempt returns or raises")


def _unpack(job: LibraryJob, store: KernelStore, entry: Path) -> Path | None:
    path = prebuilt.unpack(job.key, job.target.name, store, entry)
    if path is not None:
        _prune_at_exit(store.root, os.getpid())
    return path


@cache
def _prune_at_exit(root: Path, process: int) -> None:
    """See to it that what is unpacked fills no disk; a first result does not wait for that."""

    def prune() -> None:
        with suppress(OSError, WinogenError):
            if os.getpid() == process and pruning.is_due(root):
                pruning.prune(root, pruning.limit(), spare=_folders_in_use())

    atexit.register(prune)


def _folders_in_use() -> set[Path]:
    return {one.path.parent for one in _loaded.copy().values()}
