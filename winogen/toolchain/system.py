"""What a system must have so that kernels can be compiled, loaded and run in it.

Linux has all of it, and so has macOS. Elsewhere it is said at once, in place of whatever would fail
first. Algorithms, programs and C need none of it.
"""

from __future__ import annotations

import os
import platform
import sys
from contextlib import suppress
from functools import cache
from importlib.util import find_spec

from winogen.errors import UnsupportedSystem

# In `resource` are limits of memory; a cache is trusted by owners and modes; the pool of threads is
# new in forked children; RTLD_NOLOAD finds the OpenMP library of the process.
_MODULES = ("pwd", "resource")
_FUNCTIONS = ("register_at_fork", "geteuid", "RTLD_NOLOAD", "O_NOFOLLOW")


def check_system() -> None:
    """Raise UnsupportedSystem if this one lacks anything."""
    lacks = [name for name in _MODULES if not _has(name)]
    lacks += [f"os.{name}" for name in _FUNCTIONS if not hasattr(os, name)]
    if lacks:
        raise UnsupportedSystem(
            f"system: got {sys.platform}, which has no {', '.join(lacks)}; allowed: Linux, macOS, "
            "or a system with these (on Windows: Python in WSL). Algorithms and their C are there "
            "on any: winogen.cook_toom, winogen derive"
        )


@cache
def system_name() -> str:
    """Return for which kind of system libraries are compiled here, which load on no other.

    >>> system_name() in ("Linux", "Linux musl", "Darwin")
    True
    """
    name, version = platform.system(), None
    with suppress(AttributeError, ValueError, OSError):  # of names that no other C library has
        version = os.confstr("CS_GNU_LIBC_VERSION")
    return "Linux musl" if name == "Linux" and not version else name


def _has(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ValueError:  # somebody took it away
        return False
