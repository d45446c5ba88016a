"""Compiles the C of any kind of kernel, without a word of warning, and runs it under sanitizers.

`sanitized.c` drives a kernel; what its results are compared with is in a file for each kind.
"""

import os
import platform
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from kept.folders import kept
from kept.outcomes import Right, stamps

from winogen import resources
from winogen.codegen.render import cdef, render
from winogen.records import TARGETS
from winogen.toolchain import find_compiler, host_targets, jobs
from winogen.toolchain.cache import OBJECT, KernelStore
from winogen.toolchain.system import system_name

FOLDER = Path(__file__).parent
# What a compiler for this machine can be asked to emit.
EMITTABLE = [
    target
    for target in TARGETS.values()
    if target.family in {host.family for host in host_targets()}
]
WARNINGS = ("-Wall", "-Wextra", "-Werror")
OPENMP = ("-fopenmp",)  # as users of single files may compile; kernels are given our own threads
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
RACES = ("-fsanitize=thread",)
# Vectors that this machine has, by how many numbers they hold: types of numbers and targets.
VECTORS = {}
for _target in host_targets():
    for _dtype in ("float32", "float64"):
        VECTORS.setdefault(_target.lanes(_dtype), []).append((_dtype, _target))


def compile_c(folder, *words):
    """Run the compiler without a word from it."""
    run = subprocess.run(
        [*find_compiler().command, "-std=gnu11", *words], cwd=folder, capture_output=True, text=True
    )
    assert run.returncode == 0 and not run.stderr, run.stderr[:4000]


def no_warning(folder, texts, target):
    """Have the compiler read C, by names of files, but what it has read before without a word."""
    words = (*WARNINGS, *OPENMP, "-fsyntax-only", *target.flags)
    rights = {name: Right(here(), words, text) for name, text in texts.items()}
    for name in (new := [name for name, right in rights.items() if not right]):
        (folder / name).write_text(texts[name])
    if new:
        compile_c(folder, *words, *new)
    for name in new:
        rights[name].note()


@cache
def here():
    """The compiler of this machine, and what the machine executes."""
    command = find_compiler().command
    return command, stamps(command[0]), tuple(target.name for target in host_targets())


def intrinsics(target, flags):
    """Flags that have gcc take its header of intrinsics as it has read it, kept for all runs."""
    here = platform.machine(), system_name()
    job = jobs.LibraryJob("", "kernel", target, flags, dict, OBJECT, "", *here)
    header = jobs.intrinsics(job, find_compiler(), KernelStore(kept("headers")))
    return ("-include", str(header)) if header else ()


def initialiser(value):
    """How C spells the value of a field.

    >>> initialiser({"parts": 2, "input": (4, 1)})
    '{ .parts = 2, .input = { 4, 1 } }'
    """
    if isinstance(value, dict):
        fields = (f".{name} = {initialiser(item)}" for name, item in value.items())
        return "{ " + ", ".join(fields) + " }"
    return (
        "{ " + ", ".join(map(initialiser, value)) + " }"
        if isinstance(value, tuple)
        else repr(value)
    )


class Call(NamedTuple):
    """One call: its struct, what lies between its buffers (offset, step, bytes), its threads."""

    struct: dict
    gaps: list
    threads: int


def calls_of(spec, works):
    """Return calls whose buffers lie apart; half of them flush denormals."""
    calls = []
    for index, work in enumerate(works):
        struct = spec.values(work, flush_denormals=index % 2 == 1)
        calls.append(Call(struct, apart(struct, spec.buffers(work)), work.threads))
    return calls


def apart(struct, buffers):
    """Move the buffers of a call apart; return what is between them: (offset, step, bytes)."""
    gaps, own, shared = [], 0, 0
    for name in sorted(buffers, key=lambda name: not buffers[name].shared):  # the shared ones first
        size, step = int(buffers[name].bytes), -(-int(buffers[name].bytes) // 64) * 64 + 64
        used = size + -size % 8  # of which the sanitizer can tell
        gaps.append((shared + own + used, not buffers[name].shared, step - used))
        struct[name] = (shared + own, not buffers[name].shared)
        if buffers[name].shared:
            shared += step
        else:
            own += step
    for name in buffers:
        struct[name] = (struct[name][0], own * struct[name][1])
    struct |= {"thread_bytes": own, "shared_bytes": shared}
    return [(offset, own * step, size) for offset, step, size in gaps]


@cache
def has(*sanitizers):
    """Whether the compiler has these sanitizers, and the machine runs them."""
    words = (*find_compiler().command, *sanitizers, "probe.c", "-o", "probe")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "probe.c").write_text("int main(void) { return 0; }\n")
        runs = (subprocess.run(command, cwd=folder, capture_output=True)
                for command in (words, ["./probe"]))  # fmt: skip
        return all(run.returncode == 0 for run in runs)


def check(folder, kind, spec, calls, known, fill=0xFF, sanitizers=SANITIZERS, elsewhere=None):
    """Run the calls, each in allocations of just the right size.

    ``kind``: whose definition in `sanitized_<kind>.h` the results are compared with. ``known``:
    lines of C with what the definition knows besides. ``fill``: a byte of which no result is made.
    ``elsewhere``: another CPU, which has no sanitizers here; kernels are optimised for it.
    """
    if elsewhere is None and not has(*sanitizers):
        pytest.skip("this compiler or machine has no such sanitizers")
    lines = [
        cdef(spec),
        f"enum {{ FILL = {fill}, BUFFERS = {len(calls[0].gaps)} }};",
        "static const winogen_conv calls[] = {",
        *(f"    {initialiser(call.struct)}," for call in calls),
        "};",
        f"static const int threads[] = {{ {', '.join(str(call.threads) for call in calls)} }};",
        "static const gap gaps[][BUFFERS + 1] = {",
        *(f"    {initialiser((*call.gaps, (0, 0, 0)))}," for call in calls),
        "};",
        *known,
        "",
    ]
    threads = resources.folder("csrc") / "threads.c"
    texts = {
        "calls.h": "\n".join(lines),
        "kernel.c": render(spec),
        "driver.c": (FOLDER / "sanitized.c").read_text(),
        "definition.h": (FOLDER / f"sanitized_{kind}.h").read_text(),
    }
    where = (elsewhere, elsewhere.identity) if elsewhere else (sanitizers, here())
    how = threads.read_text(), Path(__file__).read_text()
    right = Right(where, how, spec.target.flags, texts)
    if right and sanitizers != RACES:
        return
    for name, text in texts.items():
        (folder / name).write_text(text)
    run_under(folder, spec, calls, threads, sanitizers, elsewhere)
    right.note()


def run_under(folder, spec, calls, threads, sanitizers, elsewhere):
    """Compile what `check` has written, and run it."""
    if elsewhere:
        words = ("-ffp-contract=fast", *WARNINGS, *spec.target.flags)
        elsewhere.compile(folder, "-O1", *words, "-c", "kernel.c")
        how, objects = ["-DNO_GUARDS"], ["kernel.o", "driver.o"]
        if elsewhere.threads:
            elsewhere.compile(folder, "-O1", *WARNINGS, "-c", str(threads))
            objects.append("threads.o")
        else:
            how.append("-DNO_THREADS")
        elsewhere.compile(folder, "-O2", *how, *WARNINGS, "-c", "driver.c")
        elsewhere.compile(folder, *elsewhere.linking, *objects, "-o", "driver", "-lm")
        drive(folder, spec, calls, [*elsewhere.runner, "./driver"])
        return
    quick = ("-O0", "-g1", *sanitizers, *WARNINGS)
    flags = (*quick, *spec.target.flags)
    header = intrinsics(spec.target, ("-std=gnu11", *flags))
    compile_c(folder, *flags, *header, "-c", "kernel.c")
    pool = threads_object(folder.parent, quick)
    words = () if "address" in sanitizers[0] else ("-DNO_GUARDS",)
    compile_c(folder, "-O1", *words, *WARNINGS, "-c", "driver.c")
    compile_c(folder, *sanitizers, "kernel.o", pool, "driver.o", "-o", "driver", "-lm")
    # Threads that wait keep what they have, which is no leak.
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
    drive(folder, spec, calls, ["./driver"], env=environment)


@cache
def threads_object(folder, flags):
    """The pool of threads, compiled once: it is the same for all kernels."""
    made = folder / f"threads{len(list(folder.glob('threads*.o')))}.o"
    compile_c(folder, *flags, "-c", resources.folder("csrc") / "threads.c", "-o", made)
    return made


def drive(folder, spec, calls, command, **options):
    """Run the driver: all its calls must be right."""
    run = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=300, **options
    )
    assert run.returncode == 0, f"{spec}\n{run.stdout[-2000:]}{run.stderr[-4000:]}"
    assert f"{len(calls)} calls are right" in run.stdout
