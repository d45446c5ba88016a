"""A library as it is known and as it is made: its text, flags and parts, compiled and published.

What several libraries begin with alike is compiled, or read by the compiler, once for all of them:
parts, and with gcc the header of intrinsics, which is a fifth of the time of a kernel.
"""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import re
import shlex
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from winogen.errors import CompileFailed, CompilerNotFound
from winogen.records import Target
from winogen.toolchain import prebuilt, pruning, texts
from winogen.toolchain.cache import HEADER, MESSAGE, OBJECT, SOURCE, KernelStore
from winogen.toolchain.compiler import Compiler, find_compiler, mode
from winogen.toolchain.fork import finished
from winogen.toolchain.progress import CompileEvent, emit
from winogen.toolchain.system import system_name
from winogen.toolchain.texts import Text

# Raised by hand whenever the way a library is built changes in a way that no flag shows.
_FORMAT = "2"
_MESSAGE_LINES = 30
_FULL = tuple(os.strerror(code) for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
# What kernels include of intrinsics: thousands of functions.
_INTRINSICS = re.compile(r"^#include <(?:immintrin|nmmintrin|arm_neon)\.h>$", re.MULTILINE)
_HEADER = """/* for {} */
#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif
"""
# Libraries that a process compiles before it has the header read for those to come: to read it
# takes as long as it saves in three.
_FEW = 2

# Returns the C of each part of a library that is compiled apart, by name.
Parts = Callable[[], Mapping[str, str]]


@dataclass(frozen=True)
class LibraryJob:
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


def build(
    job: LibraryJob, store: KernelStore, entry: Path, most: int, spare: Collection[Path] = ()
) -> Path:
    """Compile and publish, unless another process does so first; raise OSError if not writable.

    ``spare``: what must stay in the cache, whose limit is ``most`` bytes.
    """
    compiler = _compiler_for(job)
    with store.lock(job.key, lambda: _emit(job, "wait")) as locked:
        path = store.find(entry, job.product)
        if path is not None:
            return path
        key = job.key if locked else None
        store.sweep(key)
        try:
            path = _make(job, compiler, store, entry, key, spare)
        except _Swept:
            path = _make(job, compiler, store, entry, key, spare)
    with suppress(OSError):
        pruning.prune_after(entry, store.root, most, spare={entry, *spare})
    return path


class _Swept(FileNotFoundError):
    """What a build needs went away meanwhile: its folder, which looked old to others whose clock is
    ahead, or a part, when somebody emptied the cache.
    """


def _compiler_for(job: LibraryJob) -> Compiler:
    what = f"{job.name} for {job.target.name} was neither compiled before nor is it prebuilt"
    if mode() == "off":
        raise CompilerNotFound(f"{what}, and WINOGEN_COMPILE=off; allowed: missing or background")
    try:
        return find_compiler()
    except CompilerNotFound as reason:
        raise CompilerNotFound(f"{what}: {reason}") from None


def _make(
    job: LibraryJob,
    compiler: Compiler,
    store: KernelStore,
    entry: Path,
    key: str | None,
    spare: Collection[Path],
) -> Path:
    with store.workbench(key) as folder, _told(job):
        needed = [folder / SOURCE]
        try:
            source = str(job.source)
            needed[0].write_text(source)
            needed += [_part(job, name, text, store, spare) for name, text in job.parts().items()]
            parts = [str(path) for path in needed[1:]]
            flags = compiler.spelled(job.flags)
            # Sources come first: what no source before a library needs, some linkers leave out.
            known = ["-x", "c-header"] if job.product == HEADER else []
            if job.product != HEADER and _INTRINSICS.search(source):
                _compiled.append(job.name)
                if header := intrinsics(job, compiler, store, len(_compiled) > _FEW, spare):
                    needed.append(header)
                    known = ["-include", str(header)]
            command = [*compiler.command, *known, SOURCE, *parts, *flags, "-o", job.product]
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


def _part(
    job: LibraryJob, name: str, text: str, store: KernelStore, spare: Collection[Path]
) -> Path:
    """Return the object of a part of a library, compiled unless it was for another one."""
    flags = (*job.flags, "-c")
    part = replace(job, source=text, name=name, flags=flags, parts=dict, product=OBJECT)
    entry = store.entry(name, part.key)
    return store.find(entry, OBJECT) or build(part, store, entry, pruning.limit(), spare)


_compiled: list[str] = []  # the names of libraries with intrinsics


def intrinsics(
    job: LibraryJob,
    compiler: Compiler,
    store: KernelStore,
    reads: bool = True,
    spare: Collection[Path] = (),
) -> Path | None:
    """Return a header of intrinsics that gcc has read before with the flags of a library.

    gcc takes what it made of it (its `.gch`) where that fits; else it reads the header. ``reads``:
    whether it does so now if nobody has before. None for other compilers, too.
    """
    if compiler.family != "gcc":
        return None
    text = _HEADER.format(compiler.version)
    flags = tuple(flag for flag in job.flags if flag not in ("-c", "-shared"))
    header = replace(job, source=text, flags=flags, parts=dict, product=HEADER, name="intrinsics")
    entry = store.entry(header.name, header.key)
    if not store.find(entry, HEADER):
        if not reads:
            return None
        try:
            build(header, store, entry, pruning.limit(), spare)
        except CompileFailed:
            return None
    return entry / SOURCE


def _compile(
    job: LibraryJob,
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
def _told(job: LibraryJob) -> Iterator[None]:
    """Tell listeners of a build, its parts included."""
    begin = time.perf_counter()
    _emit(job, "start")
    try:
        yield
    except BaseException:
        _emit(job, "fail", time.perf_counter() - begin)
        raise
    _emit(job, "finish", time.perf_counter() - begin)


def _emit(job: LibraryJob, stage: str, seconds: float = 0.0) -> None:
    if job.product in (OBJECT, HEADER):  # what people wait for is the library
        return
    emit(CompileEvent(stage, job.name, job.target.name, seconds))
