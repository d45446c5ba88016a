"""The threads that kernels run on: those of the process's OpenMP library, or else a pool of ours.

Kernels link no OpenMP library. As they are loaded they are given a function of ``csrc/threads.c``,
which shares their work among threads. Where another package has brought an OpenMP library (torch
does), its threads do the work: threads of two libraries would take the cores from each other.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from winogen import resources
from winogen.records import TARGETS

if TYPE_CHECKING:
    from winogen.toolchain.loader import Build, Library

_POOL = """
void winogen_on_threads(void (*one)(void *, int64_t), void *context, int64_t count, int threads);
void winogen_threads_begin(void *pthread_create);
void winogen_threads_follow(void *parallel, void *thread_number, void *threads);
int winogen_threads_followed(void);
"""
# What a library with work for several threads exports.
_KERNEL = "void winogen_use_team(void *team);"
_FUNCTIONS = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")
_OPENMP = "".join(f"void {name}(void);" for name in _FUNCTIONS)
_PTHREADS = "void pthread_create(void);"
# gcc's library first, with the name that a wheel may have given to its copy; then LLVM's, Intel's.
_NAMES = ("libgomp", "libomp", "libiomp5")
_MAPPED = re.compile(rf"/.*/({'|'.join(_NAMES)})(-[0-9a-f]+)?\.so[.\d]*$", re.MULTILINE)

# Python unloads libraries as it ends; threads that wait in this one go on until the process does.
_FLAGS = ("-pthread", *(("-Wl,-z,nodelete",) if sys.platform == "linux" else ()))

_modules = 0  # imported when somebody last looked for an OpenMP library
_followed: list[Any] = []  # the library that the pool calls; None if it must not call any
# In the flags of a process that Linux shows: it began by a fork, and no program by exec since.
_FORKED = 0x40


def with_team(source: str) -> str:
    """Return C that may call ``on_team``: ``source`` behind the part that declares it."""
    part = resources.folder("csrc") / "parts" / "team.h.j2"
    return "#include <stdint.h>\n\n" + part.read_text("utf-8") + source


def bind(library: Library) -> None:
    """Give a library that has just been loaded its threads, if it has work for several.

    Raises BuildError.
    """
    ffi = ffi_of(_KERNEL)
    try:
        use = ffi.dlopen(str(library.path)).winogen_use_team
    except AttributeError:
        return
    use(ffi.cast("void *", _pool().winogen_on_threads))
    follow()


def follow() -> None:
    """Run on the OpenMP library of this process from now on, if it has got one.

    To be called before compiled code runs. Libraries come with modules: unless some have been
    imported since, it takes no time.
    """
    global _modules
    if _modules == len(sys.modules):
        return
    is_first, _modules = not _modules, len(sys.modules)
    ffi = ffi_of(_OPENMP)
    paths = [] if _followed else runtimes()
    if is_first and paths and _is_forked():
        _followed.append(None)  # its threads may have been the parent's, and are not here
        return
    for path in paths:
        with suppress(OSError, AttributeError):
            library = ffi.dlopen(path, os.RTLD_NOW | os.RTLD_NOLOAD)
            functions = (getattr(library, name) for name in _FUNCTIONS)
            _pool().winogen_threads_follow(*(ffi.cast("void *", each) for each in functions))
            _followed.append(library)
            return


def runtimes() -> list[str]:
    """Return the paths of the OpenMP libraries in this process, the one to run on first."""
    try:
        maps = Path("/proc/self/maps").read_text(errors="surrogateescape")
    except OSError:  # no Linux
        return []
    found = {match[0]: _NAMES.index(match[1]) for match in _MAPPED.finditer(maps)}
    return sorted(found, key=lambda path: found[path])


def _is_forked() -> bool:
    stat = Path("/proc/self/stat").read_bytes()
    return bool(int(stat.rpartition(b")")[2].split()[6]) & _FORKED)


def build_of() -> Build:
    """Return what the library of the pool is built from."""
    from winogen.toolchain.loader import Build

    source = (resources.folder("csrc") / "threads.c").read_text("utf-8")
    # For any CPU of this kind: none of its own instructions would help.
    return Build(source, _POOL, TARGETS["generic"], _FLAGS, name="threads")


@cache
def _pool() -> Any:
    lib = build_of().load().lib
    ffi = ffi_of(_PTHREADS)
    lib.winogen_threads_begin(ffi.cast("void *", ffi.dlopen(None).pthread_create))
    return lib


@cache
def ffi_of(cdef: str) -> Any:
    """Return what reads these declarations."""
    import cffi

    ffi = cffi.FFI()
    ffi.cdef(cdef)
    return ffi
