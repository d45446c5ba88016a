"""What a person sees while C compiles."""

from winogen.progress import compiling
from winogen.toolchain import host_target, load


def test_a_compile_is_reported_on_stderr_and_a_cached_kernel_is_not(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WINOGEN_CACHE", str(tmp_path))
    with compiling() as say:
        say("testing")
        for _ in range(2):
            load("int one(void) { return 1; }", "int one(void);", host_target(), name="one")
    captured = capsys.readouterr()
    assert captured.err.count(f"compiled one for {host_target().name} in ") == 1
    assert not captured.out
