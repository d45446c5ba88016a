"""Settings shared by all tests: the same examples and the same plans on every run and machine."""

import importlib
import os
import shutil
import subprocess
import sys
import zlib
from importlib.machinery import PathFinder
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("winogen", derandomize=True, deadline=None)
settings.load_profile("winogen")

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


def pytest_addoption(parser):
    """Options of this project's tests."""
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite the files in tests/golden"
    )
    parser.addoption(
        "--unnamed-isa",
        action="store_true",
        help="only tests that name no instruction set: WINOGEN_ISA changes nothing of the others",
    )
    parser.addoption(
        "--share",
        type=int,
        default=1,
        metavar="N",
        help="one test in N; which ones changes with the files that were committed",
    )


def pytest_collection_modifyitems(config, items):
    """Keep the tests that `--unnamed-isa` and `--share` ask for."""
    kept = items
    if config.getoption("--unnamed-isa"):
        kept = [item for item in kept if not names_isa(item)]
    if (shares := config.getoption("--share")) > 1:
        turn = int(source_digest(config.rootpath), 16) % shares
        kept = [item for item in kept if share_of(item, shares) == turn]
    if len(kept) < len(items):
        of_use = set(map(id, kept))
        config.hook.pytest_deselected(items=[item for item in items if id(item) not in of_use])
        items[:] = kept


@pytest.fixture(scope="session")
def seed(pytestconfig):
    """A number that changes with the files that were committed, for tests that draw their cases."""
    return int(source_digest(pytestconfig.rootpath), 16)


@pytest.fixture
def on_m4(monkeypatch):
    """Imports one of the scripts that need an emulated Cortex-M4."""
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "scripts")
    board = importlib.import_module("board_m4")
    if missing := [tool for tool in board.TOOLS if shutil.which(tool) is None]:
        pytest.skip(f"needs {' and '.join(missing)}")
    return importlib.import_module


def source_digest(folder):
    """Return git's digest of the files that were committed; "0" where git knows nothing of them."""
    command = ["git", "-C", folder, "rev-parse", "--verify", "--quiet", "HEAD^{tree}"]
    try:
        found = subprocess.run(command, check=False, capture_output=True, text=True).stdout
    except OSError:
        found = ""
    return found.strip() or "0"


def share_of(item, shares):
    """Return the share of a test. Tests of a group, which share what is measured, are in one."""
    group = item.get_closest_marker("xdist_group")
    name = group.args[0] if group else item.nodeid
    return zlib.crc32(name.encode()) % shares


def names_isa(item):
    """Whether one of a test's parameters is a target, or the name of one with its extensions."""
    from winogen.records import TARGETS, Target
    from winogen.records.target import spelled

    values = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return any(
        isinstance(value, Target) or (isinstance(value, str) and spelled(value)[0] in TARGETS)
        for value in values
    )
