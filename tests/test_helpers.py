"""The folders of the tests are no packages that others could take for theirs."""

import sys
from importlib.machinery import PathFinder
from pathlib import Path

TESTS = Path(__file__).parent


def test_folders_of_tests_do_not_pass_for_packages():
    assert (TESTS / "torch").is_dir()
    assert str(TESTS) not in sys.path
    elsewhere = [path for path in sys.path if "site-packages" not in path]
    assert PathFinder.find_spec("torch", elsewhere) is None
    ours = [finder for finder in sys.meta_path if getattr(finder, "FOLDER", None) == TESTS]
    assert len(ours) == 1 and ours[0].find_spec("torch") is None
    assert ours[0].find_spec("kernels") is not None
