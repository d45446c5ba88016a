"""What the convolution tests share: one kernel cache, quick compiles, the reference importable."""

import os
from contextlib import contextmanager

import pytest
from kept.folders import LIMIT, kept


@contextmanager
def compiling_quickly():
    """Compile with -Og, into the test cache; yields the patch and usual flags."""
    from winogen.conv import stock

    flags = stock.FLAGS
    with pytest.MonkeyPatch.context() as patch:
        if "WINOGEN_CACHE" not in os.environ:
            patch.setenv("WINOGEN_CACHE", str(kept("kernels")))
            if "WINOGEN_CACHE_LIMIT" not in os.environ:
                patch.setenv("WINOGEN_CACHE_LIMIT", LIMIT)
        patch.setattr(stock, "FLAGS", (*flags, "-Og"))
        yield patch, flags


@pytest.fixture(autouse=True, scope="module")
def quick_kernels():
    """Compile quickly: optimisation is not the subject.

    Tests of the code as shipped ask for `shipped_kernels`.
    """
    from winogen.conv import execute

    with compiling_quickly() as (patch, flags):
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


@pytest.fixture(params=["numbers", "bytes"])
def written(request, monkeypatch):
    """Weights in files of C as numbers, and as bytes, which many are written as."""
    if request.param == "bytes":
        monkeypatch.setattr("winogen.codegen.constants.MANY", 8)
