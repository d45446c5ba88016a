"""The speed on the pages is that of docs/images/speed.json, put there by scripts/speed_page.py."""

import subprocess
import sys
from pathlib import Path

import pytest

from winogen_lab.nets import report

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "speed_page.py"
PAGES = ("README.md", "docs/faster-models.md", "docs/benchmark.md")


@pytest.fixture
def put(tmp_path):
    """Run the script on copies of the pages; return their texts."""

    def run(document, date):
        report.save(document, tmp_path / "nets.json")
        for page in PAGES:
            (tmp_path / page).parent.mkdir(exist_ok=True)
            (tmp_path / page).write_text((ROOT / page).read_text("utf-8"), "utf-8")
        (tmp_path / "docs" / "images").mkdir(exist_ok=True)
        options = ["nets.json", "--date", date, "--root", "."]
        subprocess.run([sys.executable, str(SCRIPT), *options], cwd=tmp_path, check=True)
        return [(tmp_path / page).read_text("utf-8") for page in PAGES]

    return run


def test_the_pages_have_what_was_measured(put):
    document = report.load(ROOT / "docs" / "images" / "speed.json")
    assert put(document, document["date"]) == [(ROOT / page).read_text("utf-8") for page in PAGES]


def test_other_measurements_replace_the_present_ones(put, tmp_path):
    document = report.load(ROOT / "docs" / "images" / "speed.json")
    document["nets"] = document["nets"][:1]
    document["machine"]["cpu"] = "Abacus"
    readme, models, benchmark = put(document, "some day")
    lines = [" ".join(text.split()) for text in (readme, models)]  # wherever they are broken
    assert all("an Abacus" in text and "some day" in text for text in lines)
    begin, end = "<!-- speed: begin -->", "<!-- speed: end -->"
    rows = benchmark.partition(begin)[2].partition(end)[0].strip().splitlines()
    assert [row.split()[1] for row in rows if row.startswith("|")] == ["net", "---", "vgg16"]
    assert (tmp_path / "docs" / "images" / "speed.png").stat().st_size > 10_000
