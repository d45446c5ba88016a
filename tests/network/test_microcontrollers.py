"""Networks for microcontrollers: their own Makefile compiles them, and they link with little."""

import re
import shutil
import subprocess

import pytest
from network.test_network import small

from winogen.network import generate
from winogen.records.target import MICROCONTROLLERS

pytestmark = pytest.mark.thorough  # they need a compiler for other CPUs

STRICT = "-Wall -Wextra -Wconversion -Wpedantic -Wshadow -Werror"
# What all files of a network want together: see docs/standalone.md.
ALLOWED = {"memcpy", "memset", "memmove"}
OWN = ("__aeabi_", "__gnu_thumb1_case_")  # of the library that belongs to the compiler


@pytest.mark.parametrize("isa", ["cortex-m0", "cortex-m7"])
def test_a_network_calls_nothing_else(isa, tmp_path):
    if not shutil.which("arm-none-eabi-gcc"):
        pytest.skip("needs arm-none-eabi-gcc")
    generate(small((1, 4, 8, 8)), isa=isa).write(tmp_path)
    assert " ".join(MICROCONTROLLERS[isa]) in (tmp_path / "Makefile").read_text()

    def run(*words):
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0 and not done.stderr, done.stderr[:3000]
        return done.stdout

    run("make", "-s", f"CFLAGS=-Os {STRICT}")
    run("arm-none-eabi-ld", "-r", "--whole-archive", "libnet.a", "-o", "all.o")
    names = set(re.findall(r"U (\S+)", run("arm-none-eabi-nm", "-u", "all.o")))
    assert {name for name in names if not name.startswith(OWN)} <= ALLOWED
