"""Compilers for CPUs that this machine does not have, and what runs their programs here."""

import shutil
import subprocess
from typing import NamedTuple

import pytest

from winogen.toolchain.compiler import BASE_FLAGS


class Elsewhere(NamedTuple):
    """Debian's cross compiler for a kind of CPU, user-mode emulation, and that CPU's C library."""

    compiler: str
    runner: str
    root: str

    def need(self, *tools):
        """Skip the test where the compiler or another tool is missing."""
        missing = [tool for tool in (self.compiler, *tools) if not shutil.which(tool)]
        if missing:
            pytest.skip(f"needs {' and '.join(missing)}")

    def compile(self, folder, *words):
        """Run the compiler without a word from it."""
        command = [self.compiler, "-std=gnu11", *words]
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert run.returncode == 0 and not run.stderr, run.stderr[:4000]

    def disassembled(self, folder, source, *flags):
        """Compile C as kernels are compiled for users, and return its instructions as text."""
        objdump = self.compiler.replace("gcc", "objdump")
        self.need(objdump)
        asked = [self.compiler, "-dumpversion"]
        version = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
        if version.split(".")[0].strip() != "12":
            pytest.skip(f"reads what gcc 12 emits; {self.compiler} is {version.strip()}")
        words = [flag for flag in (*BASE_FLAGS, *flags) if flag != "-shared"]
        self.compile(folder, *words, "-c", source, "-o", "listed.o")
        command = [objdump, "-d", "--no-show-raw-insn", "listed.o"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
        return done.stdout


# By the instruction set that is tried there.
ELSEWHERE = {
    "neon": Elsewhere("aarch64-linux-gnu-gcc", "qemu-aarch64", "/usr/aarch64-linux-gnu"),
    "armv7": Elsewhere("arm-linux-gnueabihf-gcc", "qemu-arm", "/usr/arm-linux-gnueabihf"),
    "generic": Elsewhere("arm-linux-gnueabihf-gcc", "qemu-arm", "/usr/arm-linux-gnueabihf"),
}
