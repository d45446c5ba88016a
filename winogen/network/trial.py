"""The files of a network compiled and run, here or on an emulated CPU, on numbers of our choice."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from winogen.codegen.templates import Context
from winogen.errors import CompileFailed, CompilerNotFound, VerificationError
from winogen.network.reading import Array
from winogen.records import Target
from winogen.toolchain import find_compiler, host_targets
from winogen.toolchain.compiler import mode
from winogen.toolchain.elsewhere import ELSEWHERE

# Kernels are compiled to be compared, not to be fast.
_FLAGS = ("-std=c11", "-O1")
_C = {"float32": "float", "uint8": "uint8_t", "int8": "int8_t"}
_SECONDS = 900  # of a program that ends
_LINES = 12  # of what a compiler says
# Objects of this process, by all that they follow from: choices of tolerances, and the network that
# is handed out, have most of their kernels in common.
_MADE: dict[str, bytes] = {}
_MOST = 1000  # of them
_COMMENT = re.compile(rb"/\*.*?\*/", re.DOTALL)  # the first one of a file differs
_OUTSIDE, _UNSTEADY, _WEIGHTS = 3, 4, 6  # as in csrc/network/trial.c.j2


@dataclass(frozen=True, kw_only=True)
class TrialContext(Context, templates=("network/trial.c.j2",)):
    """What the template of the program knows that runs a network."""

    name: str
    NAME: str  # in capitals, as macros have it
    inputs: Sequence[Array]
    outputs: Sequence[Array]
    types: Mapping[str, str]  # of each array, in C
    where: str  # "file": weights are in one
    file_bytes: int  # of that
    function: str
    arguments: Sequence[str]  # of the first call
    arguments_again: Sequence[str]  # of the second, whose outputs are others
    shared: bool  # whether the second runs in parts
    pieces: int  # of each signal, where they come in some; 0: of no signals


@dataclass(frozen=True)
class Program:
    """The files of a network for a target, and the arrays that a caller gives, in their order."""

    name: str
    contents: Mapping[str, bytes]
    target: Target
    inputs: Sequence[Array]
    outputs: Sequence[Array]
    in_file: bool  # whether weights are in a file
    shared: bool = False  # whether it runs in parts, too
    pieces: int = 0  # of each signal that it runs on, where it is one in pieces

    def runner(self) -> Runner:
        """Return what compiles and runs it; raises CompilerNotFound, which says what lacks."""
        if mode() == "off":
            raise CompilerNotFound("WINOGEN_COMPILE=off")
        wanted = self.target
        for one in host_targets():
            if one.name == wanted.name and wanted.extensions <= one.extensions:
                compiler = find_compiler()
                # What kernels do without, a program needs.
                flags = [f for f in compiler.spelled(wanted.flags) if f != "-nostdlib"]
                return Runner(compiler.command, tuple(flags), (), (), "compiled here")
        other = ELSEWHERE.get(wanted.name)
        if other is None:
            raise CompilerNotFound(f"no CPU with {wanted.name} is here")
        missing = other.lacking(other.runner[0])
        if missing:
            raise CompilerNotFound(f"there is no {' and no '.join(missing)}")
        how = f"run by {other.runner[0]}"
        return Runner(other.compiler, tuple(wanted.flags), other.linking, other.runner, how)

    def run(self, runner: Runner, feeds: Sequence[Mapping[str, Any]]) -> list[list[np.ndarray]]:
        """Return the outputs for each feed, which has arrays by the names of inputs.

        Raises VerificationError where the program does what none may: it does not compile, writes
        beside its arrays, depends on what memory held, or makes arrays of other sizes.
        """
        with TemporaryDirectory(prefix="winogen-") as name:
            folder = Path(name)
            self.write(folder)
            (folder / "trial.c").write_text(self._source())
            objects = runner.objects(folder, [*self.sources, "trial.c"])
            program = runner.linked(folder, objects, "trial")
            with open(folder / "inputs.bin", "wb") as given:
                for feed in feeds:
                    for one_feed in self._fed(feed):
                        for array in one_feed:
                            given.write(np.ascontiguousarray(array).tobytes())
            self._check(_finished([*runner.words, str(program)], folder))
            data = (folder / "outputs.bin").read_bytes()
        made = self._split(data, len(feeds) * max(self.pieces, 1))
        return made if not self.pieces else self._joined(made)

    def _fed(self, feed: Mapping[str, Any]) -> list[tuple[np.ndarray, ...]]:
        """The inputs of each call, in their order."""
        arrays = [np.asarray(feed[one.name], _dtype(one)) for one in self.inputs]
        if not self.pieces:
            return [tuple(arrays)]
        return [*zip(*(np.split(array, self.pieces, -1) for array in arrays))]

    def _joined(self, made: list[list[np.ndarray]]) -> list[list[np.ndarray]]:
        """The outputs of whole signals, of those of all pieces."""
        signals = range(0, len(made), self.pieces)
        return [
            [np.concatenate(one, -1) for one in zip(*made[first : first + self.pieces])]
            for first in signals
        ]

    @property
    def fed(self) -> dict[str, tuple[int, ...]]:
        """The sizes of what a feed has: of signals, all pieces."""
        times = max(self.pieces, 1)
        return {
            one.name: (*one.shape[:-1], times * one.shape[-1]) if self.pieces else one.shape
            for one in self.inputs
        }

    def write(self, folder: Path) -> None:
        """Write all files into a folder."""
        for file, data in self.contents.items():
            (folder / file).write_bytes(data)

    @property
    def sources(self) -> list[str]:
        """The names of what is compiled, but for the network's own test."""
        own = f"{self.name}_test.c"
        return [file for file in self.contents if file.endswith((".c", ".S")) and file != own]

    def _source(self) -> str:
        arrays = (*self.inputs, *self.outputs)
        weights = self.contents.get(f"{self.name}_weights.bin", b"")
        return TrialContext(
            name=self.name,
            NAME=self.name.upper(),
            inputs=self.inputs,
            outputs=self.outputs,
            types={one.name: _C[_dtype(one).name] for one in arrays},
            where="file" if self.in_file else "",
            file_bytes=len(weights),
            function=f"{self.name}_run" + "_with" * self.in_file,
            arguments=[self._argument(one, "of") for one in arrays],
            arguments_again=[
                self._argument(one, "again" if one in self.outputs else "of") for one in arrays
            ],
            shared=self.shared,
            pieces=self.pieces,
        ).render()

    def _argument(self, one: Array, which: str) -> str:
        return f"({_C[_dtype(one).name]} *)(void *){which}_{one.identifier}.data"

    def _check(self, run: subprocess.CompletedProcess[str]) -> None:
        status, printed = run.returncode, run.stdout.split()
        sizes = [prod(one.shape) * _dtype(one).itemsize for one in self.outputs]
        for one, size, found in zip(self.outputs, sizes, printed):
            if found.isdigit() and int(found) != size:
                raise VerificationError(
                    f"output {one.name}: the C has {found} bytes for it; the model has {size}"
                )
        where = run.stdout.strip().rpartition("\n")[2]
        if status == _OUTSIDE:
            raise VerificationError(f"network: the C writes beside {where}")
        if status == _UNSTEADY:
            raise VerificationError(f"output {where}: two runs of the C on the same numbers differ")
        if status == _WEIGHTS:
            raise VerificationError("network: the C does not take its file of weights")
        if status:
            why = f"signal {-status}" if status < 0 else f"status {status}"
            raise VerificationError(f"network: the C ends by {why}\n{run.stderr[-400:]}".strip())

    def _split(self, data: bytes, count: int) -> list[list[np.ndarray]]:
        sizes = [prod(one.shape) * _dtype(one).itemsize for one in self.outputs]
        if len(data) != count * sum(sizes):
            raise VerificationError("network: the C has other numbers of inputs than the model has")
        made, place = [], 0
        for _ in range(count):
            outputs = []
            for one, size in zip(self.outputs, sizes):
                part = data[place : place + size]
                outputs.append(np.frombuffer(part, _dtype(one)).reshape(one.shape))
                place += size
            made.append(outputs)
        return made


class Runner(NamedTuple):
    """A compiler, and what runs its programs here."""

    compiler: tuple[str, ...]
    flags: tuple[str, ...]
    linking: tuple[str, ...]
    words: tuple[str, ...]  # before a program; none where this CPU runs it
    how: str  # in words
    level: tuple[str, ...] = _FLAGS  # how well it is compiled

    @property
    def is_emulated(self) -> bool:
        """Whether programs take many times as long as on their CPU."""
        return bool(self.words)

    def objects(self, folder: Path, sources: Sequence[str]) -> list[str]:
        """Return the names of the objects of these sources in a folder; raises CompileFailed."""

        def compiled(source: str) -> str:
            words = [*self.compiler, *self.level, *self.flags]
            sha = hashlib.sha256(repr(words).encode())
            for text in _read(folder, source, set()):
                sha.update(_COMMENT.sub(b"", text))
            made, key = folder / f"{source}.o", sha.hexdigest()
            if key in _MADE:
                made.write_bytes(_MADE[key])
            else:
                self._succeed([*words, "-c", source, "-o", made.name], folder)
                if len(_MADE) < _MOST:
                    _MADE[key] = made.read_bytes()
            return made.name

        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            return list(pool.map(compiled, sources))

    def linked(self, folder: Path, objects: Sequence[str], name: str, *more: str) -> Path:
        """Return the program of these objects; ``more``: flags. Raises CompileFailed."""
        program = folder / name
        flags = (*self.flags, *self.linking, *more)
        self._succeed([*self.compiler, *objects, *flags, "-lm", "-o", str(program)], folder)
        return program

    def _succeed(self, words: list[str], folder: Path) -> None:
        run = _finished(words, folder)
        if run.returncode:
            lines = "\n".join((run.stderr or run.stdout).strip().splitlines()[:_LINES])
            raise CompileFailed(f"network: {words[0]} does not compile the C:\n{lines}")


def _read(folder: Path, file: str, seen: set[str]) -> Iterator[bytes]:
    """A file, and every other of the folder that it includes."""
    if file in seen or not (folder / file).exists():
        return
    seen.add(file)
    text = (folder / file).read_bytes()
    yield text
    for name in re.findall(rb'#\s*include\s*"([^"]+)"', text):
        yield from _read(folder, name.decode(), seen)


def _dtype(one: Array) -> np.dtype:
    return np.dtype(getattr(one, "dtype", "float32"))


def _finished(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program to its end."""
    kept = {**os.environ, "LC_ALL": "C", "TMPDIR": str(folder)}
    try:
        return subprocess.run(
            words,
            cwd=folder,
            env=kept,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise VerificationError(f"network: the C does not end within {_SECONDS} seconds") from None
