"""Networks of real size through every door, in an environment that has what the pages say."""

import shutil

import pytest
from walk.environments import ROOT

nets = pytest.importorskip("walk.nets", reason="torch is not installed")
pytest.importorskip("onnxruntime")

WALKS = [(name, door) for name, one in nets.SUBJECTS.items() for door in one.doors]


@pytest.mark.parametrize(("name", "door"), WALKS)
def test_a_network_comes_through(name, door, models, kept, tmp_path):
    for file in ("nets.py", "through.py"):
        shutil.copy(ROOT / "tests" / "walk" / file, tmp_path)
    folder = tmp_path / "here"
    folder.mkdir()
    said = models.succeeds(
        f"python {tmp_path}/through.py {name} {door}", folder, WINOGEN_CACHE=str(kept / "kernels")
    )
    print(said)
