"""Compilers for CPUs that this machine does not have, and what runs their programs here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from shutil import which


@dataclass(frozen=True)
class Elsewhere:
    """Debian's compiler for a kind of CPU, and what runs programs of that CPU."""

    compiler: tuple[str, ...]
    runner: tuple[str, ...]
    root: str = ""  # the folder of that CPU's C library
    linking: tuple[str, ...] = ("-static", "-pthread")
    threads: bool = True
    archiver: str = "ar"
    needs: tuple[str, ...] = ()  # files besides
    objdump: str = ""  # what lists its instructions; that of gcc where it has no other name
    major: str = "12"  # the version of the compiler whose instructions are read
    listing: tuple[str, ...] = ()  # flags by which these can be read

    def lacking(self, *tools: str) -> list[str]:
        """Return which of the compiler, its files and other tools are not there."""
        missing = [tool for tool in (self.compiler[0], *tools) if not which(tool)]
        return missing + [path for path in self.needs if not Path(path).exists()]


_AARCH64, _ARM = "/usr/aarch64-linux-gnu", "/usr/arm-linux-gnueabihf"
_RISCV = "/usr/riscv64-linux-gnu"
_X86 = ("x86_64-linux-gnu-gcc",)
# By the instruction set that is tried there. Levels of x86-64 run on the first CPU of each, which
# has no other instructions; no emulator at hand has those of the fourth.
ELSEWHERE = {
    "neon": Elsewhere(("aarch64-linux-gnu-gcc",), ("qemu-aarch64",), _AARCH64),
    "sve256": Elsewhere(
        ("aarch64-linux-gnu-gcc",), ("qemu-aarch64", "-cpu", "max,sve256=on"), _AARCH64
    ),
    "armv7": Elsewhere(("arm-linux-gnueabihf-gcc",), ("qemu-arm",), _ARM),
    "generic": Elsewhere(("arm-linux-gnueabihf-gcc",), ("qemu-arm",), _ARM),
    "rvv128": Elsewhere(
        # gcc has the instructions from version 14 on.
        ("clang-16", "--target=riscv64-linux-gnu"),
        ("qemu-riscv64", "-cpu", "rv64,v=true,vlen=128,vext_spec=v1.0"),
        _RISCV,
        archiver="riscv64-linux-gnu-ar",
        needs=(f"{_RISCV}/lib/libc.a", "/usr/bin/riscv64-linux-gnu-ld"),
        objdump="riscv64-linux-gnu-objdump",
        major="16",
        listing=("-mno-relax",),  # else the linker is to say where jumps go
    ),
    "x86-64-v2": Elsewhere(_X86, ("qemu-x86_64", "-cpu", "Nehalem")),
    "x86-64-v3": Elsewhere(_X86, ("qemu-x86_64", "-cpu", "Haswell")),
}
