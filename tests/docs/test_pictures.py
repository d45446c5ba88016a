"""The pictures on the pages are drawn by scripts beside them, and small enough to keep."""

import subprocess
import sys
from pathlib import Path

import pytest

IMAGES = Path(__file__).parents[2] / "docs" / "images"
SCRIPTS = sorted(path.stem for path in IMAGES.glob("*.py"))
MOST_BYTES = 300 << 10


def test_every_picture_has_its_script():
    assert SCRIPTS == sorted(path.stem for path in IMAGES.glob("*.png"))


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_script_draws_it(name, tmp_path):
    drawn = tmp_path / "drawn.png"
    subprocess.run([sys.executable, str(IMAGES / f"{name}.py"), str(drawn)], check=True)
    for picture in (drawn, IMAGES / f"{name}.png"):
        data = picture.read_bytes()
        assert data.startswith(b"\x89PNG") and 10_000 < len(data) <= MOST_BYTES
