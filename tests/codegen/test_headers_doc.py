"""docs/headers.md: each program in it compiles without a warning and prints what the page says."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from winogen import resources

PAGE = (Path(__file__).parents[2] / "docs" / "headers.md").read_text("utf-8")
PROGRAMS = re.findall(r"```c\n(.*?)```.*?```text\n(.*?)```", PAGE, re.S)
CC = os.environ.get("CC") or next((c for c in ("cc", "gcc", "clang") if shutil.which(c)), None)


def test_the_page_has_its_programs():
    assert len(PROGRAMS) == PAGE.count("```c\n") == 2


@pytest.mark.skipif(CC is None, reason="no C compiler")
@pytest.mark.parametrize("program, printed", PROGRAMS)
def test_a_program_of_the_page(tmp_path, program, printed):
    (tmp_path / "first.c").write_text(program)
    include = f"-I{resources.folder('transforms')}"
    flags = ("-std=c11", "-O3", "-Wall", "-Wextra", "-Werror")
    subprocess.run(
        [*CC.split(), *flags, include, "first.c", "-o", "first"], cwd=tmp_path, check=True
    )
    done = subprocess.run([tmp_path / "first"], capture_output=True, text=True, check=True)
    assert done.stdout == printed
