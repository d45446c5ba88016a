"""What the convolution tests share: one kernel cache, quick compiles, the reference importable."""

import os
import subprocess
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
from filelock import FileLock


@contextmanager
def compiling_quickly(request, tmp_path_factory):
    """Compile with -Og, into a cache that outlives the run; yields the patch and usual flags."""
    from winogen.conv import stock

    flags = stock.FLAGS
    kept = getattr(request.config, "cache", None)  # pytest's own, which may be off
    with pytest.MonkeyPatch.context() as patch:
        if "WINOGEN_CACHE" not in os.environ:
            folder = kept.mkdir("winogen-kernels") if kept else tmp_path_factory.mktemp("kernels")
            patch.setenv("WINOGEN_CACHE", str(folder))
        headers = _precompiled(kept.mkdir("winogen-headers")) if kept else ()
        patch.setattr(stock, "FLAGS", (*flags, "-Og", *headers))
        yield patch, flags


@cache
def _precompiled(folder: Path) -> tuple[str, ...]:
    """Flags that have gcc read its header of intrinsics once: half the time of a quick compile.

    Where gcc finds that what it kept does not fit, it reads the header itself.
    """
    from winogen.errors import BuildError
    from winogen.toolchain import find_compiler, host_targets
    from winogen.toolchain.compiler import flags_for

    try:
        compiler = find_compiler()
    except BuildError:
        return ()
    header, made = folder / "intrinsics.h", folder / "intrinsics.h.gch"
    with FileLock(folder / "lock"):
        if not made.exists():
            text = "#if defined(__AVX2__) && !defined(__clang__)\n#include <immintrin.h>\n#endif\n"
            header.write_text(text)
            draft = folder / "draft"
            draft.mkdir(exist_ok=True)
            for target in host_targets():
                flags = (*flags_for(target), "-Og", "-x", "c-header", str(header))
                command = [*compiler.command, *flags, "-o", str(draft / target.name)]
                if compiler.family == "gcc":
                    subprocess.run(command, check=True)
            draft.rename(made)
    return ("-include", str(header)) if compiler.family == "gcc" else ()


@pytest.fixture(autouse=True, scope="module")
def quick_kernels(request, tmp_path_factory):
    """Compile quickly: optimisation is not the subject.

    Tests of the code as shipped ask for `shipped_kernels`.
    """
    from winogen.conv import execute

    with compiling_quickly(request, tmp_path_factory) as (patch, flags):
        # Threads that wait in a spin loop for a busy machine are slow; those tests ask for them.
        patch.setenv("OMP_NUM_THREADS", "1")
        yield flags
    execute.forget()


@pytest.fixture
def shipped_kernels(monkeypatch, quick_kernels):
    """Compile with the flags that users get."""
    from winogen.conv import execute, stock

    monkeypatch.setattr(stock, "FLAGS", quick_kernels)
    execute.forget()
    yield
    execute.forget()
