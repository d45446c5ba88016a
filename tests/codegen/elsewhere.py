"""Compilers for CPUs that this machine does not have, and what runs their programs here."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from winogen.toolchain.compiler import BASE_FLAGS


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

    def need(self, *tools):
        """Skip the test where the compiler, a file or another tool is missing."""
        missing = [tool for tool in (self.compiler[0], *tools) if not shutil.which(tool)]
        missing += [path for path in self.needs if not Path(path).exists()]
        if missing:
            pytest.skip(f"needs {' and '.join(missing)}")

    def compile(self, folder, *words):
        """Run the compiler without a word from it."""
        command = [*self.compiler, "-std=gnu11", *words]
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert run.returncode == 0 and not run.stderr, run.stderr[:4000]

    def disassembled(self, folder, source, *flags):
        """Compile C as kernels are compiled for users, and return its instructions as text."""
        compiler = self.compiler[0]
        objdump = self.objdump or compiler.replace("gcc", "objdump")
        self.need(objdump)
        asked = [compiler, "-dumpversion"]
        version = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
        if version.split(".")[0].strip() != self.major:
            pytest.skip(f"reads what version {self.major} emits; {compiler} is {version.strip()}")
        words = [flag for flag in (*BASE_FLAGS, *flags, *self.listing) if flag != "-shared"]
        self.compile(folder, *words, "-c", source, "-o", "listed.o")
        command = [objdump, "-d", "--no-show-raw-insn", "listed.o"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
        return done.stdout


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
    "wasm": Elsewhere(
        ("clang-16", "--target=wasm32-wasi"),
        # With threads that compile, node 20 may crash when a program has ended.
        ("node", "--no-warnings", "--single-threaded", str(Path(__file__).with_name("wasi.mjs"))),
        linking=(),
        threads=False,
        archiver="llvm-ar-16",
        needs=("/usr/lib/wasm32-wasi/libc.a", "/usr/bin/wasm-ld-16"),
    ),
    "x86-64-v2": Elsewhere(_X86, ("qemu-x86_64", "-cpu", "Nehalem")),
    "x86-64-v3": Elsewhere(_X86, ("qemu-x86_64", "-cpu", "Haswell")),
}
