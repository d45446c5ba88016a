"""README from its first command to its last, copied from the page, as a new user does it.

Who becomes another user here is one without rights and with an empty home. The clone is a copy of
this one's files.
"""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from walk.environments import Environment, constraints, copied, other_user
from walk.pages import blocks, commands
from walk.test_commands import EXCUSED, SECONDS, may_be_interrupted

# Runs the examples of a page in one namespace, as tests/docs/test_pages.py does.
EXAMPLES = """
import doctest, sys
failed, tried = doctest.testfile(sys.argv[1], module_relative=False)
assert tried and not failed
"""


@pytest.fixture
def folder(tmp_path_factory):
    """A folder that every user may enter, which pytest's own are not."""
    root = Path(os.environ.get("TMPDIR", "/tmp"))
    folder = root / f"winogen-walk-{os.getpid()}"
    folder.mkdir(mode=0o755)
    yield folder
    shutil.rmtree(folder)


def python_for(user):
    """Return an interpreter that a user may run, with `venv`; None if there is none."""
    for python in (sys.executable, "/usr/bin/python3"):
        command = [os.path.realpath(python), "-c", "import ensurepip, venv"]
        try:
            done = subprocess.run(command, user=user, cwd="/", capture_output=True, check=False)
        except OSError:
            continue
        if done.returncode == 0:
            return command[0]
    return None


def test_readme_by_copy_and_paste(folder):
    user = other_user()
    python = python_for(user)
    if python is None:
        user, python = None, sys.executable
    clone = copied(folder / "clone")
    if user:
        subprocess.run(["chown", "-R", user, folder], check=True)
    environment = Environment(Path(python), user)
    more = {"PIP_CONSTRAINT": str(constraints(folder)), "PIP_NO_CACHE_DIR": "1"}
    environment.succeeds(f"{python} -m venv {folder}/environment", clone, **more)
    environment = Environment(folder / "environment" / "bin" / "python", user)
    (clone / "examples.py").write_text(EXAMPLES)
    examples_ran = False
    for block in blocks("README.md"):
        if block.language == "c":
            name = block.text.split()[1]
            (clone / name).write_text(block.text)
        elif block.language == "python" and not examples_ran:
            environment.succeeds("python examples.py README.md", clone, **more)
            examples_ran = True
        elif block.language == "sh":
            said = walk(block, environment, clone, more)
            if block.printed is not None:
                assert said == block.printed, f"README.md, line {block.line}"


def walk(block, environment, clone, more):
    """Run the commands of a block; return what they print."""
    said = ""
    for command in commands(block.text):
        words = shlex.split(command, comments=True)
        if command.startswith("make test") or " ".join(words) in EXCUSED:
            continue  # the first thing that .ci/run does
        limit = SECONDS if may_be_interrupted(command) and words[0] == "winogen" else None
        ended = environment.run(command, clone, limit, **more)
        assert ended.status in (0, None), f"README.md: {command}\n{ended.said}"
        said += ended.said
    return said
