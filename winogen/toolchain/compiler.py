"""Finding a C compiler and knowing what it can do, without asking it twice."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from winogen import environment
from winogen.errors import CacheUnavailable, CompilerNotFound, InvalidValue
from winogen.records import Target
from winogen.records.target import OLDEST
from winogen.toolchain import trust
from winogen.toolchain.cache import cache_root, write_whole
from winogen.toolchain.fork import finished

# Contraction (fused multiply-add) is wanted; -ffast-math is not: it would let the compiler
# reassociate sums, and results would depend on compiler and optimisation level.
BASE_FLAGS = ("-std=gnu11", "-O3", "-ffp-contract=fast", "-fPIC", "-shared")

_INSTALL = (
    "install gcc >= 9 or clang >= 10 (Debian, Ubuntu: apt install gcc; Fedora: dnf install gcc; "
    "macOS: xcode-select --install; anywhere: pip install 'winogen[compiler]'), or set CC to one"
)
# zig compiles for this very CPU unless told otherwise.
_ZIG_CPU = "-mcpu=baseline"
_ZIG_FEATURES = {"fp16": "fullfp16"}  # LLVM's names, where gcc has others
# It builds a C runtime for each instruction set, in ten seconds and more. Kernels call nothing that
# a process of Python does not have; on Linux they find it there.
_NO_RUNTIME = ("-nostdlib",)
_ZIG_FOLDERS = ("ZIG_LOCAL_CACHE_DIR", "ZIG_GLOBAL_CACHE_DIR")
# What WINOGEN_COMPILE may be: never compile; compile what is missing; compute with what is at hand,
# and compile what would be better meanwhile.
MODES = ("off", "missing", "background")


@dataclass(frozen=True)
class Compiler:
    """A C compiler that can build kernels."""

    command: tuple[str, ...]  # the words of CC, the program as an absolute path
    family: str  # "gcc" or "clang"; "" for what is neither
    major: int  # version
    version: str  # first line of `--version`
    zig: bool  # clang as zig and the package ziglang have it

    def spelled(self, flags: tuple[str, ...]) -> tuple[str, ...]:
        """Return flags of `flags_for` as this compiler takes them."""
        if not self.zig:
            return flags
        return (_ZIG_CPU, *(() if self._has_runtime else _NO_RUNTIME), *map(_in_zig, flags))

    def environment(self, folder: Path) -> dict[str, str]:
        """Return the environment to compile in; the compiler's own files go into ``folder``.

        What a killed build leaves is swept with it. Messages are in English, since winogen searches
        them for the names of errors.
        """
        names = ("TMPDIR", *(_ZIG_FOLDERS if self.zig and not self._has_runtime else ()))
        return {**os.environ, "LC_ALL": "C", **dict.fromkeys(names, str(folder))}

    @property
    def _has_runtime(self) -> bool:
        """Whether zig builds a C runtime and keeps it: for other systems than Linux."""
        crosses = any(word.lstrip("-").startswith("target") for word in self.command[1:])
        return crosses or sys.platform != "linux"


def _in_zig(flag: str) -> str:
    """A flag of gcc and clang for zig, which has other names for CPUs: dotprod of armv8.2-a.

    >>> _in_zig("-march=armv8.2-a+dotprod+fp16")
    '-mcpu=baseline+dotprod+fullfp16'
    """
    name, *features = flag.split("+")
    if not name.startswith("-march="):
        return flag
    return "+".join((_ZIG_CPU, *(_ZIG_FEATURES.get(one, one) for one in features)))


def flags_for(target: Target) -> tuple[str, ...]:
    """Return the flags that every library for ``target`` is compiled with."""
    return (*BASE_FLAGS, *target.flags)


def mode(usual: str = "missing") -> str:
    """Return WINOGEN_COMPILE, ``usual`` where it is not set; raises InvalidValue.

    >>> mode("background") in MODES
    True
    """
    chosen = environment.value("WINOGEN_COMPILE") or usual
    if chosen not in MODES:
        raise InvalidValue(f"WINOGEN_COMPILE: got {chosen!r}; allowed: {', '.join(MODES)}")
    return chosen


_compilers: dict[tuple[object, ...], Compiler] = {}


def find_compiler() -> Compiler:
    """Return the C compiler: CC if set, else the first of cc, gcc, clang that is new enough.

    Without any of them it is the one that the extra ``compiler`` installs, the package ziglang.

    Raises CompilerNotFound when CC does not name a usable compiler, or none is on the path.

    >>> from winogen.toolchain import find_compiler
    >>> find_compiler().family in ("gcc", "clang")
    True
    """
    chosen = os.environ.get("CC", "").strip()
    if chosen:
        try:
            words = tuple(shlex.split(chosen))
        except ValueError as problem:  # a quote without its other half
            raise CompilerNotFound(f"CC: got {chosen!r} ({problem}); {_INSTALL}") from None
        program = _program(words[0]) if words else None
        if program is None:
            raise CompilerNotFound(f"CC: got {chosen!r}, which is not a program; {_INSTALL}")
        return _examine((program, *words[1:]))
    refusals = []
    for name in ("cc", "gcc", "clang"):
        program = _program(name)
        if program is None:
            continue
        try:
            return _examine((program,))
        except CompilerNotFound as refusal:
            refusals.append(str(refusal))
    zig = _packaged()
    if zig is not None:
        return _examine(zig)
    if refusals:
        raise CompilerNotFound(refusals[0])
    raise CompilerNotFound(f"no C compiler: cc, gcc and clang are not on the path; {_INSTALL}")


def compiler_name() -> str:
    """Return the version of the compiler; what there is instead, where there is none."""
    try:
        return find_compiler().version
    except CompilerNotFound:
        return "no compiler: kernels at hand"


@lru_cache(maxsize=32)
def lack(words: str | None, path: str | None) -> str:
    """Why these words, those of CC, name no compiler on this path that can build kernels, or "".

    Once it is known, no program is run to find it out.
    """
    try:
        find_compiler()
    except CompilerNotFound as problem:
        return str(problem)
    return ""


def _program(name: str) -> str | None:
    # Absolute, since it is run in other folders. Links are left: ccache goes by its name.
    path = _which(name)
    return None if path is None else os.path.abspath(path)


def _which(name: str, path: str | None = None) -> str | None:
    from shutil import which  # with all kinds of archives, which an import need not wait for

    return which(name, path=path)


def _packaged() -> tuple[str, ...] | None:
    """The program of the package ziglang, which `python -m ziglang cc` would start."""
    found = find_spec("ziglang")
    for folder in (found and found.submodule_search_locations) or ():
        program = _which("zig", folder)
        if program is not None:
            return os.path.abspath(program), "cc"
    return None


def _examine(command: tuple[str, ...]) -> Compiler:
    # Memoised on disk by path, size and time of change of the program itself, because asking
    # takes three runs of the compiler.
    status = os.stat(command[0])
    identity = (*command, os.path.realpath(command[0]), status.st_mtime_ns, status.st_size)
    if identity not in _compilers:
        digest = hashlib.sha256(repr(identity).encode()).hexdigest()[:32]
        memo = cache_root() / "compilers" / f"{digest}.json"
        compiler = _recall(memo, command)
        if compiler is None:
            compiler = _interrogate(command)
            if not _refusal(compiler):  # what a wrapper runs may be replaced
                _remember(memo, compiler)
        _compilers[identity] = compiler
    compiler = _compilers[identity]
    if _refusal(compiler):
        raise CompilerNotFound(f"{shlex.join(command)} is {_refusal(compiler)}; {_INSTALL}")
    return compiler


def _refusal(compiler: Compiler) -> str:
    family, major = compiler.family, compiler.major
    if family not in OLDEST:
        return "neither gcc nor clang"
    return "" if major >= OLDEST[family] else f"{family} {major}, too old"


def _recall(memo: Path, command: tuple[str, ...]) -> Compiler | None:
    try:
        facts = json.loads(trust.read(memo))
        compiler = Compiler(**{**facts, "command": tuple(facts["command"])})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return compiler if compiler.command == command else None


def _remember(memo: Path, compiler: Compiler) -> None:
    with suppress(OSError):  # a cache that cannot be written only costs asking again
        write_whole(memo, json.dumps(asdict(compiler)).encode())


def _interrogate(command: tuple[str, ...]) -> Compiler:
    from tempfile import TemporaryDirectory

    try:
        folder = TemporaryDirectory(prefix="winogen-")
    except OSError as problem:
        raise CacheUnavailable(f"a temporary folder cannot be used: {problem}") from problem
    with folder as aside:  # zig leaves a.o where it runs
        macros = _ask(command, aside, "-dM", "-E", "-x", "c", os.devnull)
        version = (_ask(command, aside, "--version").splitlines() or [""])[0]
    gnu = re.search(r"#define __GNUC__ (\d+)", macros)
    clang = re.search(r"#define __clang_major__ (\d+)", macros)
    if not gnu:
        return Compiler(command, "", 0, version, zig=False)
    family, major = ("clang", int(clang[1])) if clang else ("gcc", int(gnu[1]))
    zig = bool(clang) and _takes(command, _ZIG_CPU)
    return Compiler(command, family, major, version, zig)


def _takes(command: tuple[str, ...], flag: str) -> bool:
    words = [*command, flag, "-E", "-x", "c", os.devnull]
    return finished(words).returncode == 0


def _ask(command: tuple[str, ...], folder: str, *words: str) -> str:
    from subprocess import CalledProcessError

    try:
        answer = finished([*command, *words], cwd=Path(folder))
        answer.check_returncode()
    except (OSError, CalledProcessError) as problem:
        raise CompilerNotFound(
            f"{shlex.join(command)} does not run ({problem}); {_INSTALL}"
        ) from problem
    return answer.stdout
