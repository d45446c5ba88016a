"""Arrays that files of C define, as numbers and as strings of bytes."""

import shutil
import subprocess

import numpy as np
import pytest

from winogen.codegen import constants
from winogen.codegen.constants import MANY, Constant
from winogen.codegen.templates import environment
from winogen.toolchain import find_compiler

STRICT = ("-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Wtrigraphs", "-Werror", "-O1")
FILES = """
#include <stdint.h>
#include <stdio.h>
{% import "parts/constants.h.j2" as kept %}
{{ kept.reads_bytes([one]) }}
{{ kept.declare(one) }}
{% if defines %}
{{ kept.define(one, 64) }}
{% else %}
int main(void)
{
    static const {{ one.type }} *const address = net_w;    /* a constant, however it is written */
    const size_t numbers = sizeof net_w / sizeof *net_w;
    return fwrite(address, sizeof *address, numbers, stdout) != {{ one.numbers }};
}
{% endif %}
"""


@pytest.mark.parametrize("many", [MANY, 10**9])
@pytest.mark.parametrize("number", ["float32", "float64", "int8", "uint16", "int32"])
def test_compilers_read_what_was_written(number, many, tmp_path, seed, monkeypatch):
    """Every byte before every other, digits, quotes and question marks among them."""
    monkeypatch.setattr(constants, "MANY", many)
    array = np.frombuffer(np.random.default_rng(seed).bytes(200_000 + 8), number)[:-1]
    if array.dtype.kind == "f":
        array = np.where(np.isfinite(array), array, np.array(-0.0, number))
    type_ = {"float32": "float", "float64": "double"}.get(number, f"{number}_t")
    one = Constant(type_, "net_w", array, "All.")
    assert bool(one.in_bytes) == (many == MANY)
    template = environment().from_string(FILES)
    for defines in (False, True):
        file = tmp_path / f"{'weights' if defines else 'main'}.c"
        file.write_text(template.render(one=one, defines=defines))
    found = [find_compiler().command] + [("clang-16",)] * (shutil.which("clang-16") is not None)
    for compiler in found if many == MANY else found[:1]:
        words = [*compiler, *STRICT, "main.c", "weights.c", "-o", "program"]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[:2000]
        printed = subprocess.run([tmp_path / "program"], capture_output=True, check=True).stdout
        assert printed == array.tobytes()


def test_a_string_is_shorter_than_what_every_compiler_reads():
    one = Constant("float", "w", np.zeros(MANY + 1, "f4"), "")
    lines = one.rows.splitlines()
    assert len(lines) == one.in_bytes == MANY // 16 + 1
    assert max(map(len, lines)) < 4095 and lines[-1] == r'    "\0\0\0\0",'
