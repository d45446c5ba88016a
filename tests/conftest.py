"""Settings shared by all tests: the same examples and the same plans on every run and machine."""

import gc
import importlib
import os
import shutil
import sys
import time
from importlib.machinery import PathFinder
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("winogen", derandomize=True, deadline=None)
settings.load_profile("winogen")

# numpy's threads wait in a loop for each other: with those of another process that runs tests, a
# product of matrices takes several times as long.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ["WINOGEN_CALIBRATE"] = "0"
os.environ["WINOGEN_WISDOM"] = "0"


class Helpers:
    """Finds helpers in other folders, as in `from conv.reference import convolve`.

    The tests are not on `sys.path`, where tests/torch would pass for torch if that is missing.
    """

    FOLDER = Path(__file__).parent
    OTHERS = ("torch", "onnx")  # packages of these names are not ours

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        """As importlib asks for it."""
        if path is None and name not in cls.OTHERS and (cls.FOLDER / name).is_dir():
            return PathFinder.find_spec(name, [str(cls.FOLDER)])
        return None


if not any(getattr(finder, "FOLDER", None) == Helpers.FOLDER for finder in sys.meta_path):
    sys.meta_path.append(Helpers)

choice, compilers, outcomes = map(
    importlib.import_module, ("kept.choice", "kept.compilers", "kept.outcomes")
)
compilers.install()


@pytest.fixture(autouse=True, scope="session")
def no_limit():
    """`optimize` has the time that it wants, however busy the machine: tests of limits have one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("winogen.tasks.limit.clock", lambda: 0.0)
        yield


def pytest_addoption(parser):
    """Options of this project's tests."""
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite the files in tests/golden"
    )
    choice.add_options(parser)


@pytest.hookimpl(trylast=True)  # after -k and -m, which need not be tried again
def pytest_collection_modifyitems(config, items):
    """Keep the tests that `choice` is asked for, in its order."""
    found = choice.chosen(config, items)
    if len(found) < len(items):
        of_use = set(map(id, found))
        config.hook.pytest_deselected(items=[item for item in items if id(item) not in of_use])
    items[:] = found


def pytest_collection_finish():
    """Let the collector leave alone what is loaded: with torch a look at all of it takes 0.3 s."""
    gc.collect()
    gc.freeze()


def pytest_runtest_teardown(item, nextitem):
    """The same of what the tests of a file leave: what they imported, and what is remembered."""
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()


def pytest_runtest_setup(item):
    """Begin no test once the time of a run is over, and say so; CI's next run begins with those."""
    if choice.is_late():
        pytest.skip(choice.LATE)


def pytest_runtest_logreport(report):
    """Note what passed, in the process that all reports reach."""
    path = os.environ.get("WINOGEN_PASSED")
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    if path and report.when == "call" and report.passed:
        choice.note(path, report.nodeid)
    if choice.late() and report.skipped and choice.LATE in str(report.longrepr):
        choice.note(choice.late(), report.nodeid)


def pytest_sessionfinish(session):
    """The last of the processes of a run looks how much they keep."""
    if not hasattr(session.config, "workerinput"):
        compilers.prune()
        outcomes.prune(time.time())


@pytest.fixture(scope="session")
def seed(pytestconfig):
    """A number that changes with the files that were committed, for tests that draw their cases."""
    return int(choice.source_digest(pytestconfig.rootpath), 16)


@pytest.fixture
def own_memory(monkeypatch, tmp_path):
    """What is measured of nets is kept in a folder of the test, where it waits for no other."""
    measured = importlib.import_module("winogen.graph.measured")
    cache_dir = importlib.import_module("winogen.toolchain").cache_dir
    monkeypatch.setattr(measured, "is_every_layer", lambda: False)
    monkeypatch.setattr(measured.wisdom, "path", lambda: cache_dir() / "wisdom.jsonl")
    monkeypatch.setattr(measured.texts.blobs, "cache_root", lambda: tmp_path)
    monkeypatch.setattr(measured, "cache_root", lambda: tmp_path)


@pytest.fixture
def on_m4(monkeypatch):
    """Imports one of the scripts that need an emulated Cortex-M4."""
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "scripts")
    board = importlib.import_module("board_m4")
    if missing := [tool for tool in board.TOOLS if shutil.which(tool) is None]:
        pytest.skip(f"needs {' and '.join(missing)}")
    return importlib.import_module
