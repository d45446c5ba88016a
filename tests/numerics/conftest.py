"""Compiled C goes into the test cache."""

import os

import pytest
from kept.folders import kept


@pytest.fixture(autouse=True)
def kernel_cache(monkeypatch):
    if "WINOGEN_CACHE" not in os.environ:
        monkeypatch.setenv("WINOGEN_CACHE", str(kept("kernels")))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
