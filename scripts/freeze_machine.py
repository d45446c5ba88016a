"""A machine of our choice, on which nothing is compiled: for `freeze.py`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from cffi import FFI

from winogen.algebra import BilinearAlgorithm
from winogen.codegen import transforms
from winogen.conv import execute, stock
from winogen.graph import choose
from winogen.onnx import drafting
from winogen.onnx.proof import Verdict
from winogen.records import Machine, Target
from winogen.records.costs import COSTS, costs_of
from winogen.records.machines import KNOWN, known_machine
from winogen.records.target import TARGETS, spelled
from winogen.testing import every_layer
from winogen.toolchain import host, loader, machine

ISAS = (
    "avx512+vnni+f16c+vbmi+bf16+fp16", "avx512", "avx512+vnni+amx", "avx2+f16c", "avx2+avxvnni",
    "sse4.2", "sse2", "sve256", "neon+dotprod+i8mm+fp16", "neon", "rvv128", "wasm",
    "wasm-relaxed", "generic",
)  # fmt: skip
CPUS = ("", *KNOWN)
CORES = ("", *filter(None, COSTS))


class _Code:
    """The functions of a library that was not compiled: packed filters are zeros."""

    def __init__(self, ffi: FFI) -> None:
        self._ffi = ffi

    def winogen_pack(self, struct: Any, *arguments: Any) -> None:
        packed, size = arguments[-2], int(struct.packed_bytes)
        self._ffi.memmove(packed, bytes(size), size)

    def winogen_lay_map(self, *_: Any) -> int:
        return 1  # part

    def winogen_relayout_parts(self, *_: Any) -> int:
        return 1


class _Declarations(FFI):
    """Functions that were not compiled are nowhere."""

    def addressof(self, cdata: Any, *names: str) -> Any:
        return self.NULL if isinstance(cdata, _Code) else super().addressof(cdata, *names)


@cache
def _declared(cdef: str) -> FFI:
    ffi = _Declarations()
    ffi.cdef(cdef)
    return ffi


def _loaded(build: loader.Build) -> loader.Library:
    ffi = _declared(build.cdef)
    return loader.Library(ffi, _Code(ffi), Path())


_here: dict[str, Any] = {}  # the target and the machine of the problem at hand


def _targets(*_: Any) -> tuple[Target, ...]:
    """The target, and those behind it that its CPU runs, too."""
    target = _here["target"]
    names = list(TARGETS)
    behind = [TARGETS[name] for name in names[names.index(target.name) + 1 :]]
    return (target, *(one for one in behind if one.family in ("", target.family)))


def _machine() -> machine._Known:
    return machine._Known(_here["machine"], None, "of a freeze")


def _unsearched(key: list[Any], *_: Any) -> Any:
    """A transform that does not ship, its rows summed one by one: searching takes a minute."""
    _, algorithm, name, source, command = key
    made = BilinearAlgorithm.from_dict(algorithm)
    return transforms.from_algorithm(made, name, source=source, command=command, order="naive")


@contextmanager
def frozen() -> Iterator[None]:
    """Plan for machines of our choice, without a compiler and without what was measured here."""
    with tempfile.TemporaryDirectory() as folder:
        given = {"WINOGEN_CALIBRATE": "0", "WINOGEN_WISDOM": "0", "WINOGEN_CACHE": folder}
        kept = {name: value for name, value in os.environ.items() if "WINOGEN_" not in name}
        with (
            patch.dict(os.environ, kept | given, clear=True),
            patch.object(loader.Build, "load", _loaded),
            patch.object(host, "_targets", _targets),
            patch.object(machine, "_known", _machine),
            patch.object(stock, "lack", cache(lambda *_: "")),
            patch.object(transforms, "kept", _unsearched),
            patch.object(drafting, "compare", lambda *_: Verdict()),
            every_layer(),
        ):
            yield


def at(target: Target, machine: Machine) -> None:
    """Plan what follows for this target and machine, as in a new process."""
    _here.update(target=target, machine=machine)
    execute.forget()
    choose.forget()


def drawn(random: Random) -> tuple[dict[str, str], Target, Machine]:
    """Return a target and a machine, and what they are called."""
    isa, cpu = random.choice(ISAS), random.choice(CPUS)
    name, extensions = spelled(isa)
    core = random.choice(CORES) if TARGETS[name].family == "x86" else ""
    target = replace(TARGETS[name].adjusted(extensions), core=core)
    known = known_machine(cpu, target.vector_bytes, core) or Machine(costs=costs_of(core))
    return {"isa": isa, "core": core, "cpu": cpu}, target, known
