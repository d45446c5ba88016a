"""What the convolution tests share: one kernel cache, quick compiles, the reference importable."""

import os
from contextlib import contextmanager

import pytest


@contextmanager
def compiling_quickly(request, tmp_path_factory):
    """Compile with -Og, into a cache that outlives the run; yields the patch and usual flags."""
    from winogen.conv import stock

    flags = stock.FLAGS
    with pytest.MonkeyPatch.context() as patch:
        if "WINOGEN_CACHE" not in os.environ:
            kept = getattr(request.config, "cache", None)  # pytest's own, which may be off
            folder = kept.mkdir("winogen-kernels") if kept else tmp_path_factory.mktemp("kernels")
            patch.setenv("WINOGEN_CACHE", str(folder))
        patch.setattr(stock, "FLAGS", (*flags, "-Og"))
        yield patch, flags


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
