"""What the convolution tests share: one kernel cache, quick compiles, the reference importable."""

import os
from contextlib import contextmanager

import pytest


@contextmanager
def compiling_quickly(request, tmp_path_factory):
    """Compile with -Og, into a cache that outlives the run; yields the patch and what loaded."""
    from winogen.conv import execute

    def quickly(source, cdef, target, flags=(), **options):
        return load(source, cdef, target, (*flags, "-Og"), **options)

    load = execute.load
    with pytest.MonkeyPatch.context() as patch:
        if "WINOGEN_CACHE" not in os.environ:
            kept = getattr(request.config, "cache", None)  # pytest's own, which may be off
            folder = kept.mkdir("winogen-kernels") if kept else tmp_path_factory.mktemp("kernels")
            patch.setenv("WINOGEN_CACHE", str(folder))
        patch.setattr(execute, "load", quickly)
        yield patch, load


@pytest.fixture(autouse=True, scope="module")
def quick_kernels(request, tmp_path_factory):
    """Compile quickly: optimisation is not the subject.

    Tests of the code as shipped ask for `shipped_kernels`.
    """
    from winogen.conv import execute

    with compiling_quickly(request, tmp_path_factory) as (patch, load):
        # Threads that wait in a spin loop for a busy machine are slow; those tests ask for them.
        patch.setenv("OMP_NUM_THREADS", "1")
        yield load
    execute.forget()


@pytest.fixture
def shipped_kernels(monkeypatch, quick_kernels):
    """Compile with the flags that users get."""
    from winogen.conv import execute

    monkeypatch.setattr(execute, "load", quick_kernels)
    execute.forget()
    yield
    execute.forget()
