"""What tests do with compilers for CPUs that this machine does not have."""

import subprocess
from pathlib import Path

import pytest
from kept.outcomes import stamps

from winogen.toolchain import elsewhere
from winogen.toolchain.compiler import BASE_FLAGS


class Elsewhere(elsewhere.Elsewhere):
    """A kind of CPU whose compiler a test may lack."""

    @property
    def identity(self):
        """What its programs and files are here."""
        return stamps(*self.compiler, *self.runner, *self.needs)

    def need(self, *tools):
        """Skip the test where the compiler, a file or another tool is missing."""
        missing = self.lacking(*tools)
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


ELSEWHERE = {name: Elsewhere(**vars(one)) for name, one in elsewhere.ELSEWHERE.items()}
ELSEWHERE["wasm"] = Elsewhere(
    ("clang-16", "--target=wasm32-wasi"),
    # With threads that compile, node 20 may crash when a program has ended.
    ("node", "--no-warnings", "--single-threaded", str(Path(__file__).with_name("wasi.mjs"))),
    linking=(),
    threads=False,
    archiver="llvm-ar-16",
    needs=("/usr/lib/wasm32-wasi/libc.a", "/usr/bin/wasm-ld-16"),
)
ELSEWHERE["wasm-relaxed"] = ELSEWHERE["wasm"]

# No emulator at hand has AVX-512. Its kernels are compiled as C in which every intrinsic is a
# function (Debian's libsimde-dev): instructions that compilers find by themselves are not tried.
_INTRINSICS = Path(__file__).with_name("intrinsics")
SIMULATED = {
    "avx512": Elsewhere(
        (str(_INTRINSICS / "gcc"),),
        ("env",),
        linking=("-pthread",),
        needs=("/usr/include/simde/x86/avx512.h",),
    )
}
