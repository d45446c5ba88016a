"""toolchain: from C source to a loaded library, by the system's C compiler and an on-disk cache."""

from winogen.toolchain.system import check_system

check_system()  # before what is imported below fails on another system

from winogen.toolchain.cache import cache_dir, write_whole
from winogen.toolchain.compiler import Compiler, find_compiler
from winogen.toolchain.host import host_target, host_targets
from winogen.toolchain.loader import Library, load
from winogen.toolchain.progress import CompileEvent, on_compile
from winogen.toolchain.texts import kept

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
