"""What came out right is known again, and nothing else is."""

import os

import pytest
from codegen.sanitized import no_warning
from kept import outcomes
from kept.outcomes import Right, stamps

from winogen.toolchain import host_target


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("WINOGEN_TEST_CACHE", str(tmp_path / "kept"))


def test_what_was_noted_is_known_and_nothing_else():
    assert not Right("a", 1)
    Right("a", 1).note()
    assert Right("a", 1)
    assert not Right("a", 2) and not Right("a", "1") and not Right("a")


def test_notes_that_nobody_uses_go():
    for name in ("used", "left"):
        Right(name).note()
        os.utime(Right(name).path, (1, 1))
    assert Right("used")  # now
    outcomes.prune(Right("used").path.stat().st_mtime + 1)
    assert Right("used") and not Right("left")


def test_a_program_that_changes_is_another(tmp_path, monkeypatch):
    program = tmp_path / "program"
    program.write_text("1")
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    before = stamps("program", "none such")
    assert len(before) == 1
    program.write_text("12")
    assert stamps("program", "none such") != before


def test_only_what_is_new_is_compiled_and_a_warning_is_never_kept(tmp_path, monkeypatch):
    target = host_target()
    good, bad = "int f(void) { return 1; }\n", "int g(void) { int unused; return 1; }\n"
    no_warning(tmp_path, {"good.c": good}, target)
    for _ in range(2):
        with pytest.raises(AssertionError, match="unused"):
            no_warning(tmp_path, {"good.c": good, "bad.c": bad}, target)
    monkeypatch.setattr("codegen.sanitized.compile_c", lambda *_: pytest.fail("compiled again"))
    no_warning(tmp_path, {"good.c": good}, target)
