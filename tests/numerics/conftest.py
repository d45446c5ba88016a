"""Compiled C goes into a cache that outlives the run."""

import os

import pytest


@pytest.fixture(autouse=True)
def kernel_cache(request, tmp_path_factory, monkeypatch):
    if "WINOGEN_CACHE" not in os.environ:
        kept = getattr(request.config, "cache", None)  # pytest's own, which may be off
        folder = kept.mkdir("winogen-kernels") if kept else tmp_path_factory.mktemp("kernels")
        monkeypatch.setenv("WINOGEN_CACHE", str(folder))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
