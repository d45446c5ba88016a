"""Without torch, nothing here runs; kernels are compiled into a cache that outlives the run."""

import pytest

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def kernel_cache(request, tmp_path_factory, monkeypatch):
    kept = getattr(request.config, "cache", None)  # pytest's own, which may be off
    folder = kept.mkdir("winogen-kernels") if kept else tmp_path_factory.mktemp("kernels")
    monkeypatch.setenv("WINOGEN_CACHE", str(folder))


@pytest.fixture(autouse=True)
def numbers():
    """The same random numbers in every test; no compiled graph of another."""
    torch.manual_seed(0)
    torch._dynamo.reset()
