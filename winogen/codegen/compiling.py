"""How files of C say what they are compiled for: flags, pragmas, and errors where these lack."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from typing import Any

from winogen.codegen.templates import wrapped
from winogen.records import Target
from winogen.records.target import OLDEST

_COMPILE = "with `cc -O3 -fopenmp -c`; without -fopenmp it runs on one thread."
_ALONE = "with `cc -O3 -c`."  # where threads are the caller's
_BARE = "with `arm-none-eabi-gcc -O3 {0} -c`."

_LENGTH = "sve-vector-bits="
# By the instruction set: how compilers name its CPUs, and whether they lack instructions. Files of
# these may be compiled elsewhere, too, to pack weights, so that instructions are missed on these
# CPUs alone.
_ONLY_THERE = {
    "armv7": ("__arm__", "!defined(__ARM_NEON)"),
    "rvv128": ("__riscv", "!defined(__riscv_vector)"),
    "wasm": ("__wasm__", "!defined(__wasm_simd128__)"),
    "wasm-relaxed": ("__wasm__", "!defined(__wasm_relaxed_simd__)"),
}
# By the instruction set: what compilers cannot make a file of, and what to do there.
_REFUSED = {
    "neon": (
        "defined(__arm__) && !defined(__aarch64__)",
        "neon is for 64-bit ARM; for 32 bits generate the file with --isa armv7 or generic",
    ),
    "rvv128": (
        "defined(__riscv) && !defined(__clang__) && __GNUC__ < 14",
        "gcc makes vectors of RISC-V from version 14 on: take clang, or --isa generic",
    ),
}


def compiling(target: Target, alone: bool = False) -> str:
    """Return how a file is compiled, in words; ``alone``: whether it knows nothing of threads."""
    return _BARE.format(" ".join(target.told)) if target.bare else _ALONE if alone else _COMPILE


def spelled_target(target: Target) -> dict[str, Any]:
    """Return how the C says what it needs: flags, gcc's features, and a test by macros."""
    features = [flag.removeprefix("-m") for flag in target.flags if flag.startswith("-m")]
    sized = any(name.startswith(_LENGTH) for name in features)
    only, missing = "", _continued(" || ".join(_lacks(features)))
    if target.name in _ONLY_THERE:
        cpu, missing = _ONLY_THERE[target.name]
        only = f"defined({cpu}) && "
    elif sized:
        only, missing = "defined(__aarch64__) && ", f"({missing})"
    # What gcc cannot be told in a file: it does not compile for WebAssembly, and takes the length
    # of SVE's vectors and the instructions of RISC-V as flags only.
    if target.family in ("riscv", "wasm") or sized:
        features = []
    lines = wrapped(features, 22, ", ").split("\n") if features else []
    newer = [one for one in target.used if one.gcc > OLDEST["gcc"]]
    return {
        "only": only,
        "licences": [flag.removeprefix("-f") for flag in target.flags if flag.startswith("-f")],
        "flags": _continued(" ".join(target.flags)),
        "oldest": max((one.gcc for one in newer), default=0),
        "newest": ", ".join(one.name for one in newer),
        "features": [line.strip(" ,").replace(" ", "") for line in lines],
        "missing": only + missing if missing else "",
        "refused": _REFUSED.get(target.name),
    }


# Where a macro of 64-bit ARM is not called as its feature is.
_ARM_MACROS = {"i8mm": "MATMUL_INT8", "fp16": "FP16_VECTOR_ARITHMETIC"}


def _lacks(features: Sequence[str]) -> list[str]:
    """Conditions of which one holds where a compiler was not asked for all of these features."""
    names = [name for name in features if "=" not in name]
    macros = [f"__{re.sub('[-.]', '_', name.upper())}__" for name in names]
    # Of 64-bit ARM, where extensions are part of the architecture: arch=armv8.2-a+dotprod.
    arm = [name for name in features if name.startswith("arch=")]
    ones = [one for name in arm for one in name.split("+")[1:]]
    macros += [f"__ARM_FEATURE_{_ARM_MACROS.get(one, one.upper())}" for one in ones]
    lengths = [name.removeprefix(_LENGTH) for name in features if name.startswith(_LENGTH)]
    return [
        *(f"!defined({macro})" for macro in macros),
        *(f"__ARM_FEATURE_SVE_BITS != {bits}" for bits in lengths),
    ]


def _continued(text: str) -> str:
    """A text of the preprocessor in lines that leave room for a directive before the first."""
    return " \\\n    ".join(textwrap.wrap(text, 80, break_on_hyphens=False))
