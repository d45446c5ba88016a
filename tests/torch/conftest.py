"""Without torch, nothing here runs; kernels compile quickly, into a cache that outlives the run."""

import sys
from pathlib import Path

import pytest
from conv.conftest import compiling_quickly

from winogen.testing import every_layer

# What lies beside the tests: no package of theirs can have the name of this folder.
sys.path.append(str(Path(__file__).parent))

try:
    import torch
except ImportError:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(autouse=True, scope="module")
def quick_kernels():
    """Compile with -Og: optimisation is not the subject."""
    from winogen.conv import execute

    with compiling_quickly():
        execute.forget()
        yield
    execute.forget()


@pytest.fixture(autouse=True)
def numbers():
    """The same random numbers in every test, one thread, no compiled graph of another."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # others would wait in a spin loop for a busy machine
    torch.default_generator.manual_seed(0)  # torch.manual_seed notes the stack for GPUs
    if "torch._dynamo" in sys.modules:
        torch._dynamo.reset()
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def never_torch():
    """Nothing depends on a clock: all layers run by winogen unless a test says otherwise."""
    with every_layer():
        yield


@pytest.fixture
def x():
    return torch.randn(1, 3, 12, 10)
