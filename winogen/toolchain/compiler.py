"""Finding a C compiler and knowing what it can do, without asking it twice."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

from winogen.errors import CompilerNotFound, InvalidValue
from winogen.records import Target
from winogen.toolchain import trust
from winogen.toolchain.cache import cache_root, write_whole
from winogen.toolchain.fork import finished

# Contraction (fused multiply-add) is wanted; -ffast-math is not: it would let the compiler
# reassociate sums, and results would depend on compiler and optimisation level.
BASE_FLAGS = ("-std=gnu11", "-O3", "-ffp-contract=fast", "-fPIC", "-shared")
OLDEST = {"gcc": 9, "clang": 10}

_INSTALL = (
    "install gcc >= 9 or clang >= 10 (Debian, Ubuntu: apt install gcc; Fedora: dnf install gcc; "
    "macOS: xcode-select --install; anywhere: pip install 'winogen[compiler]'), or set CC to one"
)
# What WINOGEN_COMPILE may be: never compile; compile what is missing; compute with what is at hand,
# and compile what would be better meanwhile.
MODES = ("off", "missing", "background")


@dataclass(frozen=True)
class Compiler:
    """A C compiler that can build kernels."""

    command: tuple[str, ...]  # the words of CC, the program as an absolute path
    family: str  # "gcc" or "clang"
    major: int  # version
    version: str  # first line of `--version`


def flags_for(target: Target) -> tuple[str, ...]:
    """Return the flags that every library for ``target`` is compiled with."""
    return (*BASE_FLAGS, *target.flags)


def mode(usual: str = "missing") -> str:
    """Return WINOGEN_COMPILE, ``usual`` where it is not set; raises InvalidValue.

    >>> mode("background") in MODES
    True
    """
    chosen = os.environ.get("WINOGEN_COMPILE", "").strip() or usual
    if chosen not in MODES:
        raise InvalidValue(f"WINOGEN_COMPILE: got {chosen!r}; allowed: {', '.join(MODES)}")
    return chosen


_compilers: dict[tuple[object, ...], Compiler] = {}


def find_compiler() -> Compiler:
    """Return the C compiler: CC if set, else the first of cc, gcc, clang that is new enough.

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
    if refusals:
        raise CompilerNotFound(refusals[0])
    raise CompilerNotFound(f"no C compiler: cc, gcc and clang are not on the path; {_INSTALL}")


@lru_cache(maxsize=32)
def is_program(words: str, path: str | None) -> bool:
    """Whether the first of these words is a program on this path."""
    try:
        return shutil.which((shlex.split(words) or [""])[0], path=path) is not None
    except ValueError:
        return False


def _program(name: str) -> str | None:
    # Absolute, since it is run in other folders. Links are left: ccache goes by its name.
    path = shutil.which(name)
    return None if path is None else os.path.abspath(path)


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
            _remember(memo, compiler)
        _compilers[identity] = compiler
    return _compilers[identity]


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
    macros = _ask(command, "-dM", "-E", "-x", "c", os.devnull)
    version = (_ask(command, "--version").splitlines() or [""])[0]
    gnu = re.search(r"#define __GNUC__ (\d+)", macros)
    clang = re.search(r"#define __clang_major__ (\d+)", macros)
    if not gnu:
        raise CompilerNotFound(f"{shlex.join(command)} is neither gcc nor clang; {_INSTALL}")
    family, major = ("clang", int(clang[1])) if clang else ("gcc", int(gnu[1]))
    if major < OLDEST[family]:
        raise CompilerNotFound(f"{shlex.join(command)} is {family} {major}, too old; {_INSTALL}")
    return Compiler(command, family, major, version)


def _ask(command: tuple[str, ...], *words: str) -> str:
    try:
        answer = finished([*command, *words])
        answer.check_returncode()
    except (OSError, subprocess.CalledProcessError) as problem:
        raise CompilerNotFound(
            f"{shlex.join(command)} does not run ({problem}); {_INSTALL}"
        ) from problem
    return answer.stdout
