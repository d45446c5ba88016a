"""Another process compiles: whoever asks for it goes on at once."""

import subprocess
import sys

CDEF = "int f(int x);"


def test_nobody_waits_for_what_is_compiled_in_the_background(fake_cc, python, tmp_path):
    gate = tmp_path / "gate"
    fake_cc(f'case "$*" in *kernel.c*) while [ ! -e {gate} ]; do sleep 0.05; done;; esac')
    code = f"""
    import threading
    from winogen.toolchain import background, host_target
    from winogen.toolchain.loader import Build
    # More than a pipe holds.
    texts = [f"int f(int x) {{{{ return x + {{n}}; }}}}" + " " * 200_000 for n in range(8)]
    builds = [Build(text, {CDEF!r}, host_target(), name="adds") for text in texts]
    asks = threading.Thread(target=background.compile, args=(builds,))
    asks.start()
    asks.join(60)
    print(asks.is_alive())
    open({str(gate)!r}, "w").close()
    asks.join()
    background.finish()
    print(all(build.at_hand() for build in builds))
    """
    assert python(code).finish().split() == ["False", "True"]


def test_a_process_that_ends_leaves_its_worker_without_a_word(fake_cc, tmp_path):
    gate = tmp_path / "gate"
    fake_cc(f'case "$*" in *kernel.c*) while [ ! -e {gate} ]; do sleep 0.05; done;; esac')
    code = f"""
from winogen.toolchain import background, host_target
from winogen.toolchain.loader import Build
background.compile([Build("int f(int x) {{ return x; }}", {CDEF!r}, host_target(), name="same")])
"""
    command = [sys.executable, "-X", "dev", "-c", code]
    run = subprocess.run(command, capture_output=True, text=True)
    gate.touch()
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
