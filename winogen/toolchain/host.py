"""Which instruction set to build for: what the CPU has, or what WINOGEN_ISA asks for.

WINOGEN_CPU takes the CPU for one of another micro-architecture. What the CPU itself lacks stays
unused.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import sys
from dataclasses import replace
from functools import lru_cache
from typing import Any

from winogen import environment
from winogen.errors import CompilerNotFound, InvalidValue
from winogen.kernels.tuning import CORES
from winogen.records import EXTENSIONS, TARGETS, Target, spelled
from winogen.records.target import Extension
from winogen.toolchain.compiler import find_compiler, mode

# What every CPU of a family has, archspec's plain "x86_64" and "aarch64" do not list.
_IMPLIED = {"x86_64": {"sse2"}, "aarch64": {"asimd"}}

# The vector instructions among the features of x86.
_OF_VECTORS = re.compile("avx|sse|fma|f16c|amx|aes|clmul|gfni")


def _cpu() -> Any:  # archspec.cpu.Microarchitecture
    return _named(environment.value("WINOGEN_CPU"))


@lru_cache(maxsize=8)
def _named(name: str) -> Any:
    """Return the micro-architecture of this name; of the CPU itself where none is given."""
    import archspec.cpu

    host = archspec.cpu.host()
    if not name:
        return host
    cpu = archspec.cpu.TARGETS.get(name)
    if cpu is None or cpu.family != host.family:
        raise InvalidValue(
            f"WINOGEN_CPU: got {name!r}; allowed: what archspec calls a micro-architecture of "
            f"{host.family}, such as {host}"
        )
    return cpu


@lru_cache(maxsize=1)
def _detected() -> Any:  # archspec.cpu.Microarchitecture
    import archspec.cpu.detect

    return archspec.cpu.detect.detected_info()


def _reported() -> frozenset[str]:
    """What the CPU itself reports: more than every CPU of its micro-architecture has."""
    return frozenset(_detected().features)


def lineage() -> tuple[str, ...]:
    """Return archspec's names of the CPU's micro-architecture and its ancestors, nearest first.

    Hypervisors hide features that no arithmetic needs, such as rdseed, and archspec then falls back
    on an older or a generic name. So the newest of the same maker counts whose vector instructions
    are all there.
    """
    cpu = _cpu()
    if not environment.value("WINOGEN_CPU"):
        alike = _able(_reported(), _detected().vendor)
        cpu = max((cpu, *alike), key=lambda one: (len(one.ancestors), len(one.features)))
    return tuple(str(one.name) for one in (cpu, *cpu.ancestors))


@lru_cache(maxsize=8)  # every plan asks
def _able(reported: frozenset[str], maker: str) -> tuple[Any, ...]:
    """The micro-architectures of a maker whose vector instructions are all reported."""
    import archspec.cpu

    return tuple(
        one
        for one in archspec.cpu.TARGETS.values()
        if one.vendor == maker
        and (needed := {name for name in one.features if _OF_VECTORS.search(name)})
        and needed <= reported
    )


def _core() -> str:
    """Return the micro-architecture that blocks were measured on, "" for none."""
    return next((name for name in lineage() if name in CORES), "")


@lru_cache(maxsize=1)
def _permitted() -> bool:
    """Whether this process may use AMX's tiles: Linux saves them only for processes that ask."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    arch_prctl, request, tile_data = 158, 0x1023, 18  # ARCH_REQ_XCOMP_PERM, of Linux 5.16
    syscall = ctypes.CDLL(None).syscall
    syscall.restype = ctypes.c_long
    return bool(syscall(*map(ctypes.c_long, (arch_prctl, request, tile_data))) == 0)


@lru_cache(maxsize=8)
def _emitted(cc: str | None, mode: str) -> frozenset[Extension]:
    """The extensions that the compiler knows; all where only finished kernels can be used.

    ``cc``: the variable that chooses the compiler. ``mode``: whether there is need of one.
    """
    try:
        if mode == "off":
            return frozenset(EXTENSIONS)
        compiler = find_compiler()
    except CompilerNotFound:
        return frozenset(EXTENSIONS)
    return frozenset(
        extension
        for extension in EXTENSIONS
        if compiler.major >= getattr(extension, compiler.family)
    )


def micro_architecture() -> str:
    """Return archspec's name of this CPU, or of the one that WINOGEN_CPU takes it for."""
    return str(_cpu())


def not_emitted(target: Target) -> tuple[Extension, ...]:
    """Return the extensions of a target that the CPU has, and the compiler does not know."""
    known = _emitted(os.environ.get("CC"), mode())
    return tuple(
        one for one in target.known.values() if one.reported in _reported() and one not in known
    )


def host_targets() -> tuple[Target, ...]:
    """Return every target whose code this CPU can run, widest first.

    They take the sizes of blocks as measured on its micro-architecture, or on the nearest of its
    ancestors, as archspec names them, and the extensions of CPU and compiler; without a compiler
    those of the CPU, since kernels that use them may be at hand.

    >>> from winogen.toolchain import host_targets
    >>> host_targets()[-1].name
    'generic'
    """
    cpu = _cpu()
    implied = _IMPLIED.get(str(cpu.family), set())
    features = set(cpu.features) | implied
    core = _core()
    also = features | _reported()
    if environment.value("WINOGEN_CPU"):
        features &= _reported() | implied
        also = set(features)
    if "amx_int8" in also and not _permitted():
        also -= {"amx_int8"}
    emitted = _emitted(os.environ.get("CC"), mode())
    usable = frozenset(one for one in emitted if one.reported in also)
    return _targets(frozenset(features), core, usable)


@lru_cache(maxsize=32)
def _targets(
    features: frozenset[str], core: str, usable: frozenset[Extension]
) -> tuple[Target, ...]:
    """Return the targets of a CPU with these features, with the extensions that are usable."""
    return tuple(
        replace(
            target,
            core=core,
            extensions=frozenset(one.name for one in usable if target.name in one.targets),
        )
        for target in TARGETS.values()
        if target.reported <= features
    )


def buildable(isa: str) -> Target:
    """Return an instruction set of this kind of CPU, whether this one has it or not.

    ``isa``: a name with extensions, as "avx2" or "avx512+vnni". Raises InvalidValue.

    >>> from winogen.toolchain.host import buildable
    >>> buildable("generic").name
    'generic'
    """
    name, changes = spelled(isa)
    arm = platform.machine() in ("aarch64", "arm64")
    families = ("", "arm" if arm else "x86")
    allowed = [one.name for one in TARGETS.values() if one.family in families]
    if name not in allowed:
        raise InvalidValue(
            f"isa: got {isa!r}; allowed: {', '.join(allowed)} on {platform.machine()}"
        )
    return TARGETS[name].adjusted(changes)


def host_target() -> Target:
    """Return the target to build for: the widest that the CPU has, or WINOGEN_ISA.

    WINOGEN_ISA may leave extensions out: "avx512-vnni". Raises InvalidValue when it names no
    target, or one that this CPU cannot run.

    >>> from winogen.toolchain import host_target, host_targets
    >>> host_target() in host_targets()
    True
    """
    available = host_targets()
    name = environment.value("WINOGEN_ISA")
    if not name:
        return available[0]
    name, changes = spelled(name)
    for target in available:
        if target.name == name:
            chosen = target.adjusted(changes)
            if lacking := chosen.extensions - target.extensions:
                raise InvalidValue(
                    f"WINOGEN_ISA: got {name + changes!r}, but this CPU or the compiler lacks "
                    f"{', '.join(sorted(lacking))}; allowed here: {name} with "
                    f"{', '.join(sorted(target.extensions)) or 'no extension'}"
                )
            return chosen
    names = ", ".join(target.name for target in available)
    reason = f", which this CPU ({_cpu()}) does not have" if name in TARGETS else ""
    raise InvalidValue(f"WINOGEN_ISA: got {name!r}{reason}; allowed here: {names}")


def named_target(name: str) -> Target:
    """Return the target of this name, as this CPU takes it where it can run its code.

    >>> named_target("generic").name
    'generic'
    """
    return next((target for target in host_targets() if target.name == name), TARGETS[name])
