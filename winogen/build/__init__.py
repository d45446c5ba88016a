"""build: from C source to a loaded library, by the system's C compiler and an on-disk cache."""

from .cache import cache_dir, write_whole
from .compiler import Compiler, find_compiler
from .host import host_target, host_targets
from .loader import Library, load
from .progress import CompileEvent, on_compile
from .texts import kept

__all__ = [
    "CompileEvent",
    "Compiler",
    "Library",
    "cache_dir",
    "find_compiler",
    "host_target",
    "host_targets",
    "kept",
    "load",
    "on_compile",
    "write_whole",
]
