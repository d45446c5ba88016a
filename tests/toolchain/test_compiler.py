"""find_compiler: CC, the path, what is refused and why."""

import os

import pytest

from winogen.errors import CompilerNotFound
from winogen.toolchain import find_compiler, host_target, load
from winogen.toolchain.compiler import _compilers


def test_cc_is_taken_with_its_words(monkeypatch, real_cc):
    monkeypatch.setenv("CC", f"{real_cc} -DONE=1 '-DTWO=a b'")
    assert find_compiler().command == (real_cc, "-DONE=1", "-DTWO=a b")


def test_a_relative_compiler_works_from_every_folder(tmp_path, monkeypatch, fake_cc, twice):
    path = fake_cc().path
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CC", f"./{path.name} -DONE=1")
    assert find_compiler().command == (str(path), "-DONE=1")
    assert load(twice.source, twice.cdef, host_target()).lib.twice(2) == 4
    monkeypatch.delenv("CC")
    path.rename(tmp_path / "cc")
    monkeypatch.setenv("PATH", f".:{os.environ['PATH']}")
    assert find_compiler().command == (str(tmp_path / "cc"),)
    assert load(twice.source + "\n", twice.cdef, host_target()).lib.twice(2) == 4


def test_a_link_to_a_compiler_keeps_its_name(tmp_path, monkeypatch, real_cc):
    (tmp_path / "linked-cc").symlink_to(real_cc)
    monkeypatch.setenv("CC", str(tmp_path / "linked-cc"))
    assert find_compiler().command == (str(tmp_path / "linked-cc"),)


def test_the_path_is_searched_in_order(tmp_path, monkeypatch, fake_cc, real_cc):
    cc = fake_cc()
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    cc.path.rename(tmp_path / "cc")
    assert find_compiler().command == (str(tmp_path / "cc"),)


def test_a_cc_that_does_not_exist_is_named(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(CompilerNotFound, match="CC: got 'no-such-compiler'.*install gcc >= 9"):
        find_compiler()


def test_no_compiler_at_all_says_what_to_install(no_compiler_on_path):
    with pytest.raises(CompilerNotFound, match="no C compiler.*apt install gcc.*set CC"):
        find_compiler()


@pytest.mark.parametrize(
    "script, reason",
    [
        ("exit 1", "does not run"),
        ("exit 0", "neither gcc nor clang"),
        ('echo "#define __GNUC__ 8"; exit 0', "gcc 8, too old"),
        ('printf "#define __GNUC__ 4\\n#define __clang_major__ 9\\n"; exit 0', "clang 9, too old"),
    ],
)
def test_a_program_that_will_not_do_is_refused_with_the_reason(script, reason, fake_cc):
    fake_cc(script)
    with pytest.raises(CompilerNotFound, match=reason):
        find_compiler()


def test_an_old_compiler_on_the_path_is_passed_over(tmp_path, monkeypatch, fake_cc, real_cc):
    old = fake_cc('echo "#define __GNUC__ 8"; exit 0')
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", str(tmp_path))
    old.path.rename(tmp_path / "cc")
    with pytest.raises(CompilerNotFound, match="gcc 8, too old"):
        find_compiler()
    (tmp_path / "gcc").symlink_to(real_cc)
    assert find_compiler().command == (str(tmp_path / "gcc"),)


def test_answers_are_kept_on_disk_until_the_compiler_changes(cache, fake_cc):
    cc = fake_cc()
    first = find_compiler()
    asked = len(cc.runs())
    assert list(cache.glob("compilers/*.json"))
    _compilers.clear()  # as a new process would find it
    assert find_compiler() == first
    assert len(cc.runs()) == asked
    os.utime(cc.path, (1, 1))
    assert find_compiler() == first
    assert len(cc.runs()) > asked


def test_a_spoilt_memo_is_asked_again(cache, fake_cc):
    fake_cc()
    first = find_compiler()
    for spoilt in ("", "[]", '{"expires": 9e99}', '{"expires": 0}'):
        for memo in cache.glob("compilers/*.json"):
            memo.write_text(spoilt)
        _compilers.clear()
        assert find_compiler() == first


ISOLATED = """
try:
    import numpy, winogen
    from winogen.toolchain import find_compiler
    find_compiler()
    print("found")
except Exception as error:
    print(f"{type(error).__name__}: {error}")
"""


def test_an_isolated_subinterpreter_is_told_why_it_gets_no_kernel(python):
    """Newer releases of numpy refuse to be imported there, in words of their own."""
    code = f"""
        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters
        interpreters.run_string(interpreters.create(), {ISOLATED!r})
    """
    said = python(code).finish()
    refused = "CompilerNotFound" in said and "cannot be run (" in said
    assert refused or said.startswith("ImportError") or said == "found"


def test_what_a_compiler_writes_when_it_is_asked_stays_nowhere(tmp_path, monkeypatch, fake_cc):
    """As zig does for macOS: its version and an `a.o`."""
    fake_cc('case "$*" in *--version*) touch a.o;; esac')
    monkeypatch.chdir(tmp_path)
    find_compiler()
    assert not (tmp_path / "a.o").exists()
