"""From C source to loaded library: look in the cache and in archives, else compile and publish.

A library is known by what it is built from: source, flags, target. Which compiler built it is noted
beside it, and one is looked for only to compile. The exception is a compiler that the user names by
CC: that one's code is wanted, so its libraries are apart from others.
"""

from __future__ import annotations

import atexit
import errno
import hashlib
import os
import platform
import shlex
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from winogen.errors import (
    BuildError,
    CacheUnavailable,
    CompileFailed,
    CompilerNotFound,
    WinogenError,
)
from winogen.records import Target
from winogen.toolchain import prebuilt, pruning, texts
from winogen.toolchain.cache import (
    LIBRARY,
    MESSAGE,
    OBJECT,
    SOURCE,
    KernelStore,
    cache_dir,
    stores,
    warn_once,
)
from winogen.toolchain.compiler import Compiler, find_compiler, flags_for, lack, mode
from winogen.toolchain.fork import Lock, finished
from winogen.toolchain.progress import CompileEvent, emit
from winogen.toolchain.system import system_name
from winogen.toolchain.texts import Text
from winogen.toolchain.threads import bind

# Raised by hand whenever the way a library is built changes in a way that no flag shows.
_FORMAT = "2"
_MESSAGE_LINES = 30
_FULL = tuple(os.strerror(code) for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


@dataclass(frozen=True)
class Library:
    """A loaded kernel library: call ``lib.<function>`` with objects made by ``ffi``."""

    ffi: Any  # cffi.FFI, shared by all libraries with the same cdef
    lib: Any
    path: Path  # the shared library; its source is beside it, if it was compiled here


# Returns the C of each part of a library that is compiled apart, by name.
Parts = Callable[[], Mapping[str, str]]


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
                library = _obtain(self._job(), _ffi(self.cdef))
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
                path = store.find(entry) or _build(job, store, entry, most)
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

    def _job(self, machine: str = platform.machine(), system: str = system_name()) -> _LibraryJob:
        flags = (*flags_for(self.target), *self.flags)
        kind = self.target, flags, self.parts, LIBRARY, _words(), machine, system
        return _LibraryJob(self.source, self.name, *kind)


@dataclass(frozen=True)
class _LibraryJob:
    """A library, or a part of one, as it is known and made."""

    source: str | Text
    name: str
    target: Target
    flags: tuple[str, ...]
    parts: Parts
    product: str
    words: str  # of CC
    machine: str
    system: str

    @property
    def recipe(self) -> str | None:
        """What it is known by as long as there is no text."""
        if not isinstance(self.source, Text):
            return None
        facts = repr((_FORMAT, self.source.key, self.flags, self.target.name))
        return hashlib.sha256(facts.encode()).hexdigest()[:32]

    @property
    def is_named(self) -> bool:
        """Whether its key is known without making a text."""
        if not isinstance(self.source, Text) or self._prebuilt is not None:
            return True
        return texts.read(self.source.key) is not None

    @cached_property
    def _prebuilt(self) -> str | None:
        """Its key in an archive, if one has it."""
        is_for_here = (self.machine, self.system) == (platform.machine(), system_name())
        if not (self.recipe and is_for_here) or self.words:
            return None
        return prebuilt.key_of(self.recipe, self.target.name)

    @cached_property
    def key(self) -> str:
        if self._prebuilt is not None:
            return self._prebuilt
        parts = (
            _FORMAT,
            str(self.source),
            *self.flags,
            self.words,
            self.target.name,
            self.machine,
            self.system,
        )
        # Each part with its length, so that no two lists of parts read the same.
        text = "".join(f"{len(part)}:{part}" for part in parts)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


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


@cache
def _ffi(cdef: str) -> Any:
    import cffi

    ffi = cffi.FFI()
    ffi.cdef(cdef)
    return ffi


def _obtain(job: _LibraryJob, ffi: Any) -> Library:
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


def _open(job: _LibraryJob, store: KernelStore, ffi: Any, most: int) -> Library:
    """Return the library from ``store``, built if need be; raise OSError if it cannot be there."""
    entry = store.entry(job.name, job.key)
    for attempt in (1, 2):
        path = store.find(entry) or _unpack(job, store, entry) or _build(job, store, entry, most)
        try:
            return Library(ffi, ffi.dlopen(str(path)), path)
        except (OSError, UnicodeError) as refusal:  # mounted noexec, or built on another system
            if path.exists() or attempt == 2:
                raise CannotLoad(f"{path} cannot be loaded: {refusal}") from None
    raise AssertionError("the second attempt returns or raises")


def _unpack(job: _LibraryJob, store: KernelStore, entry: Path) -> Path | None:
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


def _build(job: _LibraryJob, store: KernelStore, entry: Path, most: int) -> Path:
    """Compile and publish, unless another process does so first; raise OSError if not writable."""
    compiler = _compiler_for(job)
    with store.lock(job.key, lambda: _emit(job, "wait")) as locked:
        path = store.find(entry, job.product)
        if path is not None:
            return path
        key = job.key if locked else None
        store.sweep(key)
        try:
            path = _make(job, compiler, store, entry, key)
        except _Swept:
            path = _make(job, compiler, store, entry, key)
    with suppress(OSError):
        pruning.prune(store.root, most, spare={entry, *_folders_in_use()})
    return path


def _folders_in_use() -> set[Path]:
    return {one.path.parent for one in _loaded.copy().values()}


class _Swept(FileNotFoundError):
    """What a build needs went away meanwhile: its folder, which looked old to others whose clock is
    ahead, or a part, when somebody emptied the cache.
    """


def _compiler_for(job: _LibraryJob) -> Compiler:
    what = f"{job.name} for {job.target.name} was neither compiled before nor is it prebuilt"
    if mode() == "off":
        raise CompilerNotFound(f"{what}, and WINOGEN_COMPILE=off; allowed: missing or background")
    try:
        return find_compiler()
    except CompilerNotFound as reason:
        raise CompilerNotFound(f"{what}: {reason}") from None


def _make(
    job: _LibraryJob, compiler: Compiler, store: KernelStore, entry: Path, key: str | None
) -> Path:
    with store.workbench(key) as folder, _told(job):
        needed = [folder / SOURCE]
        try:
            needed[0].write_text(str(job.source))
            needed += [_part(job, name, text, store) for name, text in job.parts().items()]
            parts = map(str, needed[1:])
            flags = compiler.spelled(job.flags)
            # Sources come first: what no source before a library needs, some linkers leave out.
            command = [*compiler.command, SOURCE, *parts, *flags, "-o", job.product]
            environment = compiler.environment(folder)
            _compile(job, command, environment, needed, store, entry)
            facts = {
                "command": shlex.join(command),
                "compiler": compiler.version,
                "target": job.target.name,
            }
            return store.publish(folder, entry, facts, job.product)
        except OSError as problem:
            if all(path.exists() for path in needed):
                raise
            raise _Swept(errno.ENOENT, "was removed during a build", str(folder)) from problem


def _part(job: _LibraryJob, name: str, text: str, store: KernelStore) -> Path:
    """Return the object of a part of a library, compiled unless it was for another one."""
    flags = (*job.flags, "-c")
    part = replace(job, source=text, name=name, flags=flags, parts=dict, product=OBJECT)
    entry = store.entry(name, part.key)
    return store.find(entry, OBJECT) or _build(part, store, entry, pruning.limit())


def _compile(
    job: _LibraryJob,
    command: list[str],
    environment: dict[str, str],
    needed: list[Path],
    store: KernelStore,
    entry: Path,
) -> None:
    """Run a command in the folder of its source, the first of the files that it needs."""
    folder = needed[0].parent
    run = finished(command, cwd=folder, env=environment)
    if run.returncode == 0:
        return
    for path in needed:
        if not path.exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    message = (run.stderr or run.stdout).strip()
    if any(text in message for text in _FULL) or not _has_room(folder):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(store.root))
    kept = store.keep_failure(entry, folder / SOURCE, f"{shlex.join(command)}\n\n{message}\n")
    lines = message.splitlines()
    if len(lines) > _MESSAGE_LINES:
        more = f"... {len(lines) - _MESSAGE_LINES} more lines in {kept.with_name(MESSAGE)}"
        lines = [*lines[:_MESSAGE_LINES], more]
    raise CompileFailed(
        f"{shlex.join(command[:1])} could not compile {kept} (exit status {run.returncode}):\n"
        + "\n".join(lines)
    )


def _has_room(folder: Path) -> bool:
    try:
        (folder / "room").write_bytes(bytes(1 << 20))
    except OSError:
        return False
    return True


@contextmanager
def _told(job: _LibraryJob) -> Iterator[None]:
    """Tell listeners of a build, its parts included."""
    begin = time.perf_counter()
    _emit(job, "start")
    try:
        yield
    except BaseException:
        _emit(job, "fail", time.perf_counter() - begin)
        raise
    _emit(job, "finish", time.perf_counter() - begin)


def _emit(job: _LibraryJob, stage: str, seconds: float = 0.0) -> None:
    if job.product == OBJECT:  # what people wait for is the library
        return
    emit(CompileEvent(stage, job.name, job.target.name, seconds))
