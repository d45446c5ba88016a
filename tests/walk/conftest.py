"""A walk: what the pages promise, done as a user does it, in environments of their own."""

import os
from pathlib import Path

import pytest
from filelock import FileLock
from kept.folders import kept
from walk.environments import copied, installed


def pytest_collection_modifyitems(items):
    """All tests here are walks; README's, the longest, begins, lest it end alone."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.walk)
    items.sort(key=lambda item: item.path.name != "test_readme.py")


@pytest.fixture(scope="session", name="kept")
def kept_folder():
    """The folder that outlives a run, with environments and kernels."""
    return kept("walk")


@pytest.fixture(scope="session")
def source(tmp_path_factory):
    """A copy of the clone's files, one for all processes of a run."""
    folder = tmp_path_factory.getbasetemp()
    folder = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "source"
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            copied(folder)
    return folder


@pytest.fixture(scope="session")
def models(kept, source):
    """An environment as for models: `pip install '.[torch,onnx]'`."""
    return installed("torch,onnx", kept, source)


@pytest.fixture(scope="session")
def plain(kept, source):
    """An environment without extras: `pip install .`"""
    return installed("", kept, source)
