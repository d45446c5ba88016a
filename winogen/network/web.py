"""A network for browsers and node: WebAssembly with and without relaxed SIMD, and an ES module."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import Any

from winogen.codegen.ctext import commented
from winogen.codegen.templates import Context
from winogen.errors import CompileFailed, CompilerNotFound
from winogen.network.reading import Array
from winogen.network.trial import Program, Runner
from winogen.records import TARGETS, Target

STACK = 1 << 18  # bytes of each thread's
_PAGE = 1 << 16
_LEVEL = ("-std=c11", "-O3")
# Memory is made by the module, for all threads; instances begin with its constants once.
_SHARED = ("-matomics", "-mbulk-memory")
_LINKING = (
    "-nostartfiles",
    "-Wl,--no-entry,--import-memory,--shared-memory,--max-memory=4294967296,--stack-first",
    f"-Wl,-z,stack-size={STACK},--export=__stack_pointer",
    # Functions of C's mathematics are compiled without atomic instructions, and need none.
    "-Wl,--no-check-features,--strip-all",
)
_OLDEST, _NEWEST = 16, 25  # versions of clang that are looked for by name
_TRIAL = """
#include <math.h>
#include <string.h>
__attribute__((export_name("run"))) float run(char *to, float x);
float run(char *to, float x) { memset(to, 0, (size_t)x); return expf(x); }
"""
_WANTED = (
    "clang >= 16 with the linker and the C library for WebAssembly (Debian, Ubuntu: apt install "
    "clang-16 lld-16 wasi-libc libclang-rt-16-dev-wasm32; anywhere: wasi-sdk, and CC set to its "
    "bin/clang)"
)
_FILES = "module.js", "worker.js", "types.d.ts", "package.json", "README.md", "web.c"


@dataclass(frozen=True)
class WasmFile:
    """One of the modules of WebAssembly, which are the same network for several engines."""

    relaxed: bool
    wasm: str  # the name of its file, and of that of its weights
    weights: str
    pages: int  # of memory, that it has constants and a stack in


@dataclass(frozen=True, kw_only=True)
class WebContext(Context, templates=tuple(f"hosts/web/{one}.j2" for one in _FILES)):
    """What the templates of the module know."""

    name: str
    NAME: str  # in capitals, as macros have it
    command: str
    inputs: Sequence[Array]
    outputs: Sequence[Array]
    sizes: Mapping[str, int]  # of each array, in numbers
    places: Sequence[str]  # of all arrays in a list of pointers
    builds: Sequence[WasmFile]
    stack: int
    result: str  # what takes the outputs, in an example
    returned: str  # their type


class WebBuilder:
    """Compiles networks to WebAssembly, and writes the module that loads them."""

    def __init__(self) -> None:
        self.compiler = _compiler()

    def __call__(self, name: str, programs: Sequence[Program], command: str) -> dict[str, bytes]:
        """Return all files by name; raises CompileFailed.

        ``programs``: the network for wasm and for wasm-relaxed, in parts, with weights in files.
        """
        one = programs[0]
        arrays = (*one.inputs, *one.outputs)
        names = [array.identifier for array in one.outputs]
        single = len(names) == 1
        known: dict[str, Any] = {
            "name": name,
            "NAME": name.upper(),
            "command": commented(command),
            "inputs": one.inputs,
            "outputs": one.outputs,
            "sizes": {array.name: prod(array.shape) for array in arrays},
            "places": [f"arrays[{place}]" for place in range(len(arrays))],
            "stack": STACK,
            "result": names[0] if single else f"{{ {', '.join(names)} }}",
            "returned": "Float32Array"
            if single
            else f"{{ {'; '.join(f'{each}: Float32Array' for each in names)} }}",
        }
        shim = WebContext(**known, builds=()).render("hosts/web/web.c.j2")
        builds: list[WasmFile] = []
        contents: dict[str, bytes] = {}
        # An engine takes the first one that it knows.
        for program in reversed(programs):
            relaxed = "-mrelaxed-simd" in program.target.flags
            suffix = "_relaxed" if relaxed else ""
            weights = program.contents[f"{name}_weights.bin"]
            file = f"{name}_weights.bin"
            if contents.get(file, weights) != weights:
                file = f"{name}{suffix}_weights.bin"
            code, pages = self._compiled(program, shim)
            contents |= {f"{name}{suffix}.wasm": code, file: weights}
            builds.append(WasmFile(relaxed, f"{name}{suffix}.wasm", file, pages))
        written = WebContext(**known, builds=builds)
        return contents | {
            file: written.render(f"hosts/web/{template}.j2").encode()
            for file, template in {
                f"{name}.js": "module.js",
                f"{name}_worker.js": "worker.js",
                f"{name}.d.ts": "types.d.ts",
                "package.json": "package.json",
                "README.md": "README.md",
            }.items()
        }

    def _compiled(self, program: Program, shim: str) -> tuple[bytes, int]:
        """The module of a program, and the pages of its memory."""
        with TemporaryDirectory(prefix="winogen-") as name:
            folder = Path(name)
            program.write(folder)
            (folder / "web.c").write_text(shim)
            return _module(self.compiler, program.target, folder, [*program.sources, "web.c"])


def _module(
    compiler: Sequence[str], target: Target, folder: Path, sources: Sequence[str]
) -> tuple[bytes, int]:
    """The module of sources in a folder, and the pages of its memory; raises CompileFailed."""
    flags = (*target.flags, *_SHARED)
    runner = Runner(tuple(compiler), flags, _LINKING, (), "", _LEVEL)
    objects = runner.objects(folder, sources)
    # No object has more constants than bytes.
    total = STACK + sum((folder / one).stat().st_size for one in objects)
    pages = -(-total // _PAGE) + 1
    made = runner.linked(folder, objects, "net.wasm", f"-Wl,--initial-memory={pages * _PAGE}")
    return made.read_bytes(), pages


def _compiler() -> tuple[str, ...]:
    """The first compiler that makes such modules; raises CompilerNotFound."""
    trouble = ""
    for command in _candidates():
        try:
            with TemporaryDirectory(prefix="winogen-") as name:
                (Path(name) / "trial.c").write_text(_TRIAL)
                _module(command, TARGETS["wasm-relaxed"], Path(name), ["trial.c"])
        except CompileFailed as problem:
            trouble = trouble or f"; {str(problem).splitlines()[-1]}"
        else:
            return command
    raise CompilerNotFound(f"host: got 'web', which takes {_WANTED}{trouble}")


def _candidates() -> Iterator[tuple[str, ...]]:
    """Compilers that may make such modules: CC, then clang, the newest last version first."""
    names = [*_words(os.environ.get("CC", "")), "clang"]
    names += [f"clang-{version}" for version in range(_NEWEST, _OLDEST - 1, -1)]
    for name in names:
        program = which(name)
        if program is not None:
            yield (program, "--target=wasm32-wasi")


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)[:1]
    except ValueError:  # a quote without its other half, which `find_compiler` refuses
        return []
