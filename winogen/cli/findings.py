"""What `winogen doctor` looks at, line by line: each finds something or says why it cannot."""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from winogen import environment
from winogen.errors import CompilerNotFound, InvalidValue

# What it means for winogen, and the mark before the line.
STATES = {"ok": " ", "absent": "-", "lacks": "!", "wrong": "X"}
# Extras that only people who change winogen need.
_DEVELOPERS = ("test", "torch-test", "hardware-test", "devices-test", "ggml", "dev")
_VARIABLES = re.compile(r"WINOGEN_|CC$|OMP_|GOMP_|KMP_|MKL_NUM|OPENBLAS_NUM|ZIG_|XDG_CACHE_HOME$")
_CORRECT = "correct the variable, or unset it"
_ROOM = 200 << 20  # bytes on the disk: kernels of a net and what a build takes


@dataclass(frozen=True)
class Finding:
    """One line: what it is about, what was found, and what to do about it."""

    topic: str
    text: str
    state: str = "ok"  # one of STATES; "wrong" is what stops winogen
    cure: str = ""


def findings() -> Iterator[Finding]:
    """Yield what is found, line by line; raises nothing."""
    for topic, look in _LOOKS.items():
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                found = [*look()]
            except InvalidValue as refusal:
                found = [Finding(topic, str(refusal), "wrong", _CORRECT)]
            except Exception as problem:
                found = [Finding(topic, _told(problem), "lacks")]
        warned = dict.fromkeys(str(warning.message) for warning in said)
        for one in (*found, *(Finding(topic, text, "lacks") for text in warned)):
            yield replace(one, text=masked(one.text), cure=masked(one.cure))


def masked(text: str) -> str:
    """Return a text without the name of its user: what is pasted where everybody reads it.

    >>> masked(f"{Path.home()}/x, /home/ann/y belongs to Ann Lee (user 1001)")
    '~/x, /home/.../y belongs to user 1001'
    """
    own = os.path.expanduser("~")  # "~" for a user whom the system does not know
    homes = {own, os.path.realpath(own)} - {"/"}
    for home in sorted(homes, key=len, reverse=True):
        text = re.sub(rf"{re.escape(home)}(?![\w.-])", "~", text)
    text = re.sub(r"/(home|Users)/[^/\s'\":;,]+", r"/\1/...", text)
    text = re.sub(r"belongs to .*? \(user (\d+)\)", r"belongs to user \1", text)
    name = Path(own).name
    return re.sub(rf"(?<=[/-]){re.escape(name)}(?![\w.])", "...", text) if len(name) > 2 else text


def _told(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}"


# --- this process, and the machine


def _versions() -> Iterator[Finding]:
    import winogen

    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    library = " ".join(filter(None, platform.libc_ver()))
    python = f"{platform.python_implementation()} {platform.python_version()}"
    words = (winogen.__version__, python, system, library)
    yield Finding("winogen", ", ".join(filter(None, words)))


def _environment() -> Iterator[Finding]:
    found = [f"{name}={value}" for name, value in os.environ.items() if _VARIABLES.match(name)]
    yield Finding("environment", " ".join(map(shlex.quote, sorted(found))) or "as usual")
    for name, meant in environment.misspelt().items():
        text = f"{name} is set, which winogen does not read"
        cure = f"perhaps {meant} is meant: {environment.VARIABLES[meant]}"
        yield Finding("environment", text, "lacks", cure)


def _cpu() -> Iterator[Finding]:
    from winogen.conv import arguments
    from winogen.toolchain.host import micro_architecture
    from winogen.toolchain.machine_file import cpu_name
    from winogen.toolchain.room import memory_left

    left = memory_left()
    memory = "" if left is None else f", {left / (1 << 30):.1f} GiB of memory left"
    threads = f"{arguments.threads(None)} threads of {os.cpu_count()} CPUs"
    name = f"{cpu_name()} ({micro_architecture()})"
    yield Finding("CPU", f"{name}, {threads}{memory}")


def _instructions() -> Iterator[Finding]:
    from winogen.toolchain import host_target, host_targets

    target, others = host_target(), host_targets()
    names = [one.name for one in others if one.name != target.name]
    used = "+".join((target.name, *sorted(target.extensions)))
    core = f", blocks for {target.core}" if target.core else ""
    yield Finding("instructions", f"{used}{core}; also {', '.join(names) or 'none'}")


# --- kernels


def _compiler() -> Iterator[Finding]:
    from winogen.toolchain import find_compiler, host, host_target
    from winogen.toolchain.compiler import mode

    if mode() == "off":
        yield Finding("compiler", "not asked: WINOGEN_COMPILE=off")
        return
    try:
        found = find_compiler()
    except CompilerNotFound as refusal:
        reason, _, cure = str(refusal).partition("; ")
        yield Finding("compiler", reason, "lacks", cure)
        return
    text = f"{found.family} {found.major}: {shlex.join(found.command)} ({found.version})"
    yield Finding("compiler", text)
    unknown = host.not_emitted(host_target())
    if unknown:
        names = [f"{one.name} (needs gcc {one.gcc} or clang {one.clang})" for one in unknown]
        reason = f"it does not know all instructions of this CPU: {', '.join(names)}"
        yield Finding("compiler", reason, "lacks", "install a newer one, or set CC to one")


def _prebuilt() -> Iterator[Finding]:
    from winogen.toolchain import host_targets, prebuilt

    found = [archive for one in host_targets() for archive in prebuilt.archives(one.name)]
    for archive in found:
        count, size = len(archive.entries), archive.path.stat().st_size >> 10
        makers = f"winogen {archive.maker.version}, {archive.compiler}"
        yield Finding("prebuilt", f"{count:,} in {archive.path}, {size:,} kB, {makers}")
    if not found:
        cure = "`make wheel` in a clone, then pip install --force-reinstall dist/winogen-*.whl"
        yield Finding("prebuilt", "no kernels: all that is used is compiled here", "absent", cure)


def _cache() -> Iterator[Finding]:
    from winogen.toolchain import cache_dir, pruning, trust

    root, limit = cache_dir(), pruning.limit()
    size = sum(item.size for item in pruning.census(root))
    yield Finding("cache", f"{root}: {size >> 20:,} MiB of at most {limit >> 20:,} MiB")
    trust.check_folder(root)
    there = next(folder for folder in (root, *root.parents) if folder.exists())
    if not os.access(there, os.W_OK | os.X_OK):
        cure = "set WINOGEN_CACHE to a folder that can be written"
        reason = f"{there} cannot be written: nothing that is compiled is kept"
        yield Finding("cache", reason, "lacks", cure)
    elif shutil.disk_usage(there).free < _ROOM:
        left = shutil.disk_usage(there).free >> 20
        cure = "make room, or set WINOGEN_CACHE to a folder on another disk"
        yield Finding("cache", f"the disk has {left} MiB left", "lacks", cure)


def _machine() -> Iterator[Finding]:
    from winogen.toolchain import cache_dir, machine, machine_file

    folder = cache_dir()
    text = machine.described(folder)
    record = machine_file.read(folder)
    if record is None and machine_file.file_in(folder).exists():
        text = "its record is damaged, and is measured anew by the next plan"
    provisional = record is not None and record.is_provisional
    yield Finding("machine", text, "lacks" if provisional else "ok")


def _wisdom() -> Iterator[Finding]:
    from winogen.conv import wisdom
    from winogen.toolchain import host_target

    where = wisdom.path()
    if where is None or not where.is_file():
        yield Finding("wisdom", "none" if where else "not used: WINOGEN_WISDOM=0")
        return
    count, here = len(wisdom.read(where)[0]), len(wisdom.current(host_target()))
    yield Finding("wisdom", f"{here:,} layers measured here of {count:,} in {where}")


# --- packages, and what happens in a process with them


def _packages() -> Iterator[Finding]:
    from importlib.metadata import PackageNotFoundError

    from winogen.extras import requirements

    try:
        extras = requirements()
    except PackageNotFoundError:
        reason = "winogen was not installed: nothing says which versions it needs"
        yield Finding("packages", reason, "lacks", "pip install . in a clone of the repository")
        return
    own = extras.pop("")
    unmet = [f"'{one.package}>={one.least}'" for one in own if not one.is_met]
    cure = f"pip install --upgrade {' '.join(unmet)}" if unmet else ""
    yield Finding("packages", ", ".join(map(str, own)), "lacks" if unmet else "ok", cure)
    absent = []
    for extra in sorted(set(extras) - set(_DEVELOPERS)):
        needed = extras[extra]
        if any(one.found is None for one in needed):
            absent.append(extra)
            continue
        good = all(one.is_met for one in needed)
        cure = "" if good else f"pip install --upgrade 'winogen[{extra}]'"
        text = ", ".join(map(str, needed))
        yield Finding(f"extra {extra}", text, "ok" if good else "lacks", cure)
    if absent:
        cure = f"pip install 'winogen[{absent[0]}]', say, when a command or a page asks for it"
        yield Finding("extras", f"not installed: {', '.join(absent)}", "absent", cure)


def _devices() -> Iterator[Finding]:
    from winogen.extras import MissingPackage
    from winogen.opencl.devices import CURE, DeviceInfo, devices

    try:
        found = devices()
    except MissingPackage:
        cure = "pip install 'winogen[opencl]', for convolution on devices"
        yield Finding("OpenCL", "not asked: pyopencl is not installed", "absent", cure)
        return
    if not found:
        yield Finding("OpenCL", "no device", "absent", CURE)
    for one in map(DeviceInfo.of, found):
        yield Finding("OpenCL", f"{one}; {one.driver}")


_CURES = {
    "a layer": "tell it to the makers of winogen, with all that stands here",
    "machine": "winogen calibrate, in a quiet moment",
    "OpenMP": "several runtimes in a process may take each other's CPUs: give each fewer threads, "
    "or let waiting threads sleep (OMP_WAIT_POLICY=passive)",
}


def _trial() -> Iterable[Finding]:
    from winogen.cli.probe import outcomes

    told, failed = outcomes()
    for one in told:
        topic, state = one["topic"], one["state"]
        cure = _CURES.get(topic, f"pip install --upgrade --force-reinstall {topic}")
        cure = _CORRECT if one["text"].startswith("InvalidValue: ") else cure
        yield Finding(topic, one["text"], state, "" if state == "ok" else cure)
    if failed:
        computed = any(one["topic"] == "a layer" for one in told)
        state, text = ("lacks", "what came next") if computed else ("wrong", "the process")
        cure = "WINOGEN_ISA=avx2, sse2 or generic tells whether it is an instruction"
        yield Finding("trial", f"{text} {failed}", state, cure)


_LOOKS: dict[str, Callable[[], Iterable[Finding]]] = {
    "winogen": _versions,
    "environment": _environment,
    "CPU": _cpu,
    "instructions": _instructions,
    "compiler": _compiler,
    "prebuilt": _prebuilt,
    "cache": _cache,
    "machine": _machine,
    "wisdom": _wisdom,
    "packages": _packages,
    "OpenCL": _devices,
    "trial": _trial,
}
