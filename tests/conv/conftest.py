"""What the convolution tests share: one kernel cache, quick compiles, the reference importable."""

import os
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
from conv.precompiled import intrinsics
from filelock import FileLock
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
        headers = _precompiled(kept("headers"))
        patch.setattr(stock, "FLAGS", (*flags, "-Og", *headers))
        yield patch, flags


@cache
def _precompiled(folder: Path) -> tuple[str, ...]:
    """Flags that have gcc read its header of intrinsics once, for every target of this CPU.

    Kernels with narrow numbers are compiled with flags of their own.
    """
    from winogen.errors import BuildError
    from winogen.records import FILTER_TYPES
    from winogen.toolchain import host_targets
    from winogen.toolchain.compiler import flags_for

    plain, words = host_targets(), ()
    targets = [one.storing(*numbers) for one in plain for numbers in ((), *zip(FILTER_TYPES))]
    try:
        with FileLock(folder / "lock"):
            for flags in dict.fromkeys(map(flags_for, targets)):
                words = intrinsics(folder, (*flags, "-Og"))
    except BuildError:
        return ()
    return words


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
