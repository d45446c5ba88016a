"""Stack accesses in the inner loops of compiled kernels: where vectors found no register.

A disassembler lists a kernel's library. Of every function this finds the innermost loops, and what
has no loop of its own inside a larger one counts as that loop. It counts their arithmetic on
vectors, and the vectors that they load from the stack and store to it. Some belong there, such as
the rows of a tile between its two transforms; those of a loop without such an array are spills.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from winogen.codegen.render import cdef, render
from winogen.conv import Conv2d
from winogen.errors import WinogenError
from winogen.kernels.kind import Spec
from winogen.toolchain import load
from winogen.tuning.layers import BenchLayer

_TOOLS = ("objdump", "llvm-objdump")


@dataclass(frozen=True)
class _Syntax:
    """How a disassembler writes what is counted, as regular expressions for `re.match`."""

    arithmetic: str  # on vectors
    loads: str  # of vectors from the stack, a stack operand of an instruction included
    stores: str
    jump: str  # whose first group is the address


_X86 = _Syntax(
    r"v?(add|sub|mul|div|max|min|fn?m(add|sub)\d*)p[sdh]\b|vp?dp\w+",
    r"v\w+p[sdh]\s.*\(%rsp.*,%[xyz]mm|(mov[au]|add|sub|mul)p[sdh]\s.*\(%rsp.*,%xmm"
    r"|v?movdq[au]\w*\s.*\(%rsp.*,%[xyz]mm",
    r"v?mov([au]p[sdh]|dq[au]\w*)\s+%[xyz]mm\d+,.*\(%rsp",
    r"j\w+\s+(?:0x)?([0-9a-f]+)",
)
_ARM = _Syntax(
    r"(fadd|fsub|fmul|fmla|fmls|fmlal2?|fdiv|[su]dot|[su]mmla)\s+[vz]",
    r"ld(r|p|1\w*)\s+\{?[qz]\d+.*,.*\[(sp|x29)",
    r"st(r|p|1\w*)\s+\{?[qz]\d+.*,.*\[(sp|x29)",
    r"(?:b\.?\w*|cbn?z|tbn?z)\s+(?:.*,\s*)?(?:0x)?([0-9a-f]+)\b",
)
_ARM32 = _Syntax(
    r"v(add|sub|mul|ml[as]|fm[as]|fn?m[as])\.f32\s+q",
    r"vld(r|1\.\d+|mia)\s.*(\[sp|\bsp,|\[fp|\[r7\b)",
    r"vst(r|1\.\d+|mia)\s.*(\[sp|\bsp,|\[fp|\[r7\b)",
    r"(?:b\w{0,2}(?:\.[nw])?|cbn?z)\s+(?:\w+,\s*)?(?:0x)?([0-9a-f]+)\b",
)
# The address of a place on the stack is computed into another register; whole registers, of any
# length, are loaded from there and stored to it, and from nowhere else.
_RISCV = _Syntax(
    r"vf(add|r?sub|mul|div|max|min|n?m(acc|sac|add|sub))\.v[vf]\s",
    r"vl[1248]re?\d*\.v\s|vle\d+\.v\s.*\(sp",
    r"vs[1248]r\.v\s|vse\d+\.v\s.*\(sp",
    r"(?:b\w+|j)\s+(?:.*,\s*)?(?:0x)?([0-9a-f]+)\b",
)


@dataclass(frozen=True)
class Loop:
    """An innermost loop of a function."""

    function: str
    instructions: int
    arithmetic: int  # instructions on vectors that compute
    loads: int  # of vectors from the stack
    stores: int  # of vectors to the stack


def loops(listing: str) -> Iterator[Loop]:
    """Yield the innermost loops that compute with vectors, as a disassembler's text has them.

    >>> text = '''
    ... 0000000000000040 <sum>:
    ...   40:\\tvmovaps (%rsi),%ymm0
    ...   44:\\tvaddps -0x20(%rsp),%ymm0,%ymm0
    ...   4a:\\tvmovaps %ymm0,-0x20(%rsp)
    ...   50:\\tjne    40 <sum>
    ... '''
    >>> next(loops(text))
    Loop(function='sum', instructions=4, arithmetic=1, loads=1, stores=1)
    """
    for name, body in re.findall(r"^[0-9a-f]+ <(.+?)>:\n((?:.+\n?)*)", listing, re.MULTILINE):
        lines = re.findall(r"^\s*([0-9a-f]+):\s+(\S.*?)\s*$", body, re.MULTILINE)
        code = [(int(address, 16), text) for address, text in lines]
        syntax = _syntax(text for _, text in code)
        for first, last in _innermost(code, syntax):
            inside = [text for address, text in code if first <= address <= last]
            arithmetic, loads, stores = (
                sum(bool(re.match(pattern, text)) for text in inside)
                for pattern in (syntax.arithmetic, syntax.loads, syntax.stores)
            )
            if arithmetic:
                yield Loop(name, len(inside), arithmetic, loads, stores)


def _syntax(code: Iterable[str]) -> _Syntax:
    """The syntax of a function's instructions."""
    text = "\n".join(code)
    if re.search("%[a-z]", text):
        return _X86
    if re.search(r"\bvseti?vli\s", text):
        return _RISCV
    return _ARM if re.search(r"\b[xw]\d+\b|\bv\d+\.", text) else _ARM32


def _innermost(code: Sequence[tuple[int, str]], syntax: _Syntax) -> list[tuple[int, int]]:
    """First and last address of the loops that have no other inside.

    All jumps back to one address are of one loop.
    """
    found: dict[int, int] = {}
    for address, text in code:
        jump = re.match(syntax.jump, text)
        if jump and code[0][0] <= int(jump[1], 16) <= address:
            found[int(jump[1], 16)] = address
    return sorted(
        (first, last)
        for first, last in found.items()
        if not any(first < other and end <= last for other, end in found.items())
    )


def disassembled(library: Path) -> str:
    """Return the text of a disassembler; raises WinogenError without one."""
    tool = next(filter(None, map(shutil.which, _TOOLS)), None)
    if tool is None:
        raise WinogenError(
            f"no disassembler: {' and '.join(_TOOLS)} are not on the path; install binutils or llvm"
        )
    done = subprocess.run(
        [tool, "-d", "--no-show-raw-insn", library], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise WinogenError(f"{tool} could not read {library}: {done.stderr.strip()}")
    return done.stdout


def of_layers(layers: Sequence[BenchLayer], layout: str, **options: Any) -> list[dict]:
    """Return the loops of every kernel that the plans of layers use: {"kernel", "layers", "loops"}.

    ``options`` are those of `Conv2d`. Raises what it raises, BuildError, and WinogenError without
    a disassembler.
    """
    users: dict[Spec, list[str]] = {}
    for layer in layers:
        weight = np.zeros(layer.weight, np.float32)
        conv = Conv2d(weight, **{**layer.options, **options, "layout": layout})
        batch, channels, height, width = layer.input
        shape = (batch, height, width, channels) if layout == "NHWC" else layer.input
        for call in conv._prepare(shape).calls:
            names = users.setdefault(call.kernel.spec, [])
            names.extend([layer.name] * (layer.name not in names))
    found = []
    for spec, names in users.items():
        library = load(render(spec), cdef(spec), spec.target, name=spec.name)
        rows = [asdict(loop) for loop in loops(disassembled(library.path))]
        found.append({"kernel": spec.name, "layers": names, "loops": rows})
    return found
