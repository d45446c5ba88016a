"""Compilers of the tests' cache: the same file again, and never another's."""

import os
import shutil
import subprocess

import pytest
from kept import compilers

SOURCE = """#include <stdio.h>
#include "number.h"
int main(void) { int unused; printf("%d\\n", NUMBER); return 0; }
"""

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")


@pytest.fixture
def gcc(tmp_path, monkeypatch):
    """``gcc(words)`` compiles in a folder; the file of the log says how often the real one did.

    A program that logs stands for the real one, behind a cache of its own.
    """
    real = shutil.which("gcc", path=compilers.without(os.environ["PATH"]))
    behind, log, here = tmp_path / "bin", tmp_path / "log", tmp_path / "here"
    behind.mkdir(), here.mkdir(), log.touch()
    script = f'#!/bin/sh\ncase "$* " in *" -o "*) echo x >> {log};; esac\nexec {real} "$@"\n'
    (behind / "gcc").write_text(script)
    (behind / "gcc").chmod(0o755)
    (here / "main.c").write_text(SOURCE)
    (here / "number.h").write_text("#define NUMBER 1\n")
    monkeypatch.setenv("WINOGEN_TEST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", os.pathsep.join((str(behind), "/usr/bin", "/bin")))
    compilers.install()
    assert shutil.which("gcc") == str(compilers.folder_of_compilers() / "gcc")

    def run(*words, folder=here):
        done = subprocess.run(["gcc", *words], cwd=folder, capture_output=True, text=True)
        return done.returncode, done.stderr, len(log.read_text().split())

    run.folder = here
    return run


def printed(folder):
    return subprocess.run([folder / "main"], capture_output=True, text=True).stdout


LINK = ("-Wall", "main.c", "-o", "main")


def test_the_same_compile_is_done_once_with_the_same_warnings(gcc, tmp_path):
    status, warnings, runs = gcc(*LINK)
    assert (status, runs) == (0, 1) and "unused" in warnings
    other = shutil.copytree(gcc.folder, tmp_path / "other")
    (other / "main").unlink()
    assert gcc(*LINK, folder=other) == (0, warnings, 1)
    assert printed(other) == "1\n"


def test_what_tests_of_a_run_share_lies_in_folders_of_other_names(gcc, tmp_path):
    """pytest numbers the folders of its runs."""
    for name in ("run-1", "run-2", "run-3"):
        (tmp_path / name).mkdir()
        here = shutil.copytree(gcc.folder, tmp_path / name / "test")
        header = tmp_path / name / "shared.h"
        header.write_text(f"enum {{ SHARED = {int(name == 'run-3')} }};\n")
        runs = gcc("-include", str(header), *LINK, folder=here)[2]
        assert runs == (2 if name == "run-3" else 1)


def test_a_header_that_changed_is_another_compile(gcc):
    gcc(*LINK)
    (gcc.folder / "number.h").write_text("#define NUMBER 2\n")
    assert gcc(*LINK)[2] == 2 and printed(gcc.folder) == "2\n"


def test_other_words_and_objects_are_other_compiles(gcc):
    gcc(*LINK)
    assert gcc("-O2", *LINK)[2] == 2
    (gcc.folder / "number.h").write_text("#define NUMBER 3\n")
    assert gcc("-c", "main.c", "-o", "main.o")[2] == 3
    assert gcc("main.o", "-o", "main")[2] == 4 and printed(gcc.folder) == "3\n"
    (gcc.folder / "number.h").write_text("#define NUMBER 4\n")
    assert gcc("-c", "main.c", "-o", "main.o")[2] == 5
    assert gcc("main.o", "-o", "main")[2] == 6 and printed(gcc.folder) == "4\n"
    assert gcc("main.o", "-o", "main")[2] == 6


def test_what_assembly_takes_in_is_read_anew(gcc):
    (gcc.folder / "data.S").write_text('.incbin "data.bin"\n')
    for data in (b"one", b"two"):
        (gcc.folder / "data.bin").write_bytes(data)
        assert gcc("-c", "data.S", "-o", "data.o")[0] == 0
        assert data in (gcc.folder / "data.o").read_bytes()


def test_what_fails_fails_again(gcc):
    (gcc.folder / "number.h").write_text("#error no number\n")
    for _ in range(2):
        status, message, _ = gcc(*LINK)
        assert status != 0 and "no number" in message


def test_another_compiler_is_another_compile(gcc, tmp_path):
    gcc(*LINK)
    script = tmp_path / "bin" / "gcc"
    script.write_text(script.read_text() + "\n")
    assert gcc(*LINK)[2] == 2


def test_a_compiler_of_another_path_may_call_it(gcc, tmp_path, monkeypatch):
    """As the strict one of the tests of pages does."""
    strict = tmp_path / "strict"
    strict.mkdir()
    (strict / "gcc").write_text(f'#!/bin/sh\nexec {shutil.which("gcc")} -Wextra "$@"\n')
    (strict / "gcc").chmod(0o755)
    monkeypatch.setenv("PATH", f"{strict}{os.pathsep}{os.environ['PATH']}")
    assert gcc(*LINK)[0] == 0 and printed(gcc.folder) == "1\n"


def test_what_was_not_used_for_longest_goes_first(gcc, tmp_path):
    gcc(*LINK), gcc("-O1", *LINK), gcc("-O2", *LINK)
    files = sorted((tmp_path / "cache" / "compiled").glob("*/*"), key=lambda p: p.stat().st_mtime)
    os.utime(files[0])
    compilers.prune(files[0].stat().st_size + files[2].stat().st_size + 100)
    assert [path.exists() for path in files] == [True, False, True]
