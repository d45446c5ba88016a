"""winogen transforms: write, then check; a changed byte is found."""

import pytest

from winogen.codegen import catalog

CATALOG = """
[[default_points]]
r = 3
m = [2]

[[transform]]
m = 2
r = 3
tag = "other"
points = "0, 1, 2, inf"
source = "a test"
"""


@pytest.fixture(autouse=True)
def shipped(tmp_path, monkeypatch):
    """The folder of what ships."""
    monkeypatch.setattr(catalog, "_resolve", lambda folder: tmp_path)


@pytest.fixture
def folder(tmp_path, winogen):
    (tmp_path / "catalog.toml").write_text(CATALOG)
    result = winogen("transforms", "write")
    assert result.exit_code == 0
    assert "5 files changed" in result.stdout
    return tmp_path


def test_what_was_written_passes_the_check(winogen, folder):
    result = winogen("transforms", "check")
    assert (result.exit_code, result.stdout) == (0, "every header is as generated\n")


def test_writing_again_changes_nothing(winogen, folder):
    assert winogen("transforms", "write").stdout == "nothing changed\n"


@pytest.mark.thorough
def test_a_changed_byte_is_found_and_repaired(winogen, folder):
    header = folder / "f2_3_other.h"
    header.write_text(header.read_text().replace("+", "-", 1))
    result = winogen("transforms", "check")
    assert result.exit_code == 1
    assert result.stdout.startswith(f"{header}: differs from line ")
    assert "winogen transforms write" in result.stderr
    assert str(header) in winogen("transforms", "write").stdout
    assert winogen("transforms", "check").exit_code == 0


def test_a_bad_catalog_is_one_line(refused, tmp_path):
    (tmp_path / "catalog.toml").write_text("[[transform]\n")
    assert "which is not TOML" in refused("transforms", "check")
