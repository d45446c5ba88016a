"""Every command of every page that `tests/docs/test_pages.py` only looks at, run for real.

Each runs in a folder with what the page speaks of: a model of real size, pictures, weights.
Measurements are interrupted after `SECONDS`, sooner without extras, as they begin the same way
there and nothing heavy is imported; all others run to their end. A command is right, or
it says in a sentence which package it wants.
"""

import json
import os
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
from walk.environments import ROOT, installed
from walk.pages import PAGES, SLOW, blocks, commands

SECONDS = float(os.environ.get("WINOGEN_WALK_SECONDS", "4"))
# Commands that measure, draw or search, for as long as one likes.
MEASURES = (
    "bench", "report", "demo", "search", "calibrate", "lab", "python -m winogen_lab",
    "python examples/train",
)  # fmt: skip
NO_GAIN = ("because it would not become faster", "got one that winogen leaves to torch")
# What no walk can do, and why.
EXCUSED = {
    "--jobs tcp://scheduler:8786": "needs a cluster",
    "pip install": "installs; tests/walk/test_readme.py walks README's own",
    "git clone": "needs a network",
    "make test": "the first thing that .ci/run does",
    "make demo": "tests/walk/test_readme.py",
    "pytest": "tests of the clone",
}
MODEL = """
import sys, numpy as np, torch
sys.path.insert(0, {tests!r})
import nets
torch.set_grad_enabled(False)
model, x = nets.prepared({name!r}), torch.randn(1, 3, 224, 224)
torch.onnx.export(model, (x,), "model.onnx", input_names=["x"], opset_version=17, dynamo=False,
                  dynamic_axes={{"x": {{0: "n", 2: "h", 3: "w"}}}})
torch.export.save(torch.export.export(model, (x,)), "model.pt2")
"""


def walked(page):
    """The commands of a page that are run here, in order."""
    found = [
        one for block in blocks(page) if block.language == "sh" for one in commands(block.text)
    ]
    return [one for one in found if is_slow(one) and not any(what in one for what in EXCUSED)]


def is_slow(command):
    """Whether the tests of pages leave it out."""
    words = [
        word for word in shlex.split(command, comments=True) if not re.match(r"[A-Z_]+=", word)
    ]
    if words[0] == "winogen":
        return bool({words[1], " ".join(words[1:3])} & {*SLOW})
    return words[0] == "python" and words[1] in ("-m", "examples/train_low_rank.py")


def may_be_interrupted(command):
    """Whether it goes on for as long as one likes."""
    return any(f"{what} " in f"{command} " for what in MEASURES)


def gains_nothing(ended):
    """Whether a command says that another's program is faster."""
    return any(one in ended.said for one in NO_GAIN)


WALKED = [page for page in sorted(PAGES) if walked(page)]


@pytest.fixture(scope="session")
def with_lab(kept, source):
    """An environment with what models and pictures need."""
    pytest.importorskip("torch")
    pytest.importorskip("onnxruntime")
    return installed("torch,onnx", kept, source, lab=True)


@pytest.fixture(scope="session")
def things(with_lab, tmp_path_factory):
    """A folder with the files that pages speak of."""
    folder = tmp_path_factory.mktemp("things")
    random = np.random.default_rng(0)
    script = MODEL.format(tests=str(ROOT / "tests" / "walk"), name="unet")
    (folder / "model.py").write_text(script)
    with_lab.succeeds("python model.py", folder)
    pictures = random.standard_normal((8, 3, 64, 64), np.float32)
    np.save(folder / "pictures.npy", pictures)
    np.savez(folder / "inputs.npz", x=pictures)
    np.save(folder / "w.npy", random.standard_normal((64, 64, 3, 3), np.float32))
    np.save(folder / "x.npy", random.standard_normal((1, 64, 56, 56), np.float32))
    layer = {"name": "mine", "input": [1, 32, 28, 28], "weight": [32, 32, 3, 3], "padding": 1}
    (folder / "mine.json").write_text(json.dumps([layer]))
    return folder


def parents(word):
    """The folders of a path, as words of commands name them."""
    return [str(path) for path in Path(word).parents if path.name]


def walk(page, environment, folder, kept, lab=True):
    """Run the page's commands. ``lab``: whether the laboratory is installed, which some name."""
    for name in ("examples", "transforms", "csrc", "docs", "tests"):
        (folder / name).symlink_to(ROOT / name)
    earlier = folder.parent / "earlier"
    earlier.mkdir()
    (earlier / ".venv").symlink_to(environment.python.parents[1])
    variables = {"WINOGEN_CACHE": str(kept / "kernels"), "WINOGEN_WISDOM": str(folder / "wisdom")}
    missing = set()  # words of commands that were not done to their end: files among them
    for command in walked(page):
        seconds = SECONDS if lab else SECONDS * 0.6
        limit = seconds if may_be_interrupted(command) else None
        ended = environment.run(command, folder, limit, **variables)
        if gains_nothing(ended):  # what runs beside may have disturbed what was measured
            ended = environment.run(command, folder, limit, **variables)
        given = shlex.split(command, comments=True)[2:]
        words = {part for word in given for part in (word, *parents(word))}
        absent = not lab and "python -m winogen_lab" in command
        right = ended.status in (0, None) or "pip install" in ended.said or words & missing
        # With a lesser instruction set than onnxruntime has, that may be faster everywhere; and
        # where others compute, either may, as other walks do.
        beside = "PYTEST_XDIST_WORKER" in os.environ or "others took" in ended.said
        may_be = beside or "WINOGEN_ISA" in os.environ
        right = right or (may_be and gains_nothing(ended))
        assert right or absent, f"{page}: {command}\n{ended.status}: {ended.said}"
        if ended.status != 0:
            missing |= {word for word in words if "." in word or not word.startswith("-")}


@pytest.mark.parametrize("page", WALKED)
def test_commands_of_a_page(page, with_lab, things, kept, tmp_path):
    folder = tmp_path / "here"
    shutil.copytree(things, folder)
    walk(page, with_lab, folder, kept)


@pytest.mark.parametrize("page", WALKED)
def test_commands_of_a_page_without_any_extra(page, plain, things, kept, tmp_path):
    folder = tmp_path / "here"
    shutil.copytree(things, folder)
    walk(page, plain, folder, kept, lab=False)
