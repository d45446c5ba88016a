"""scripts/freeze.py writes what is planned: twice the same, and other text for another plan."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
WRITE = """
import sys
sys.path.insert(0, {folder!r})
import freeze
from winogen.conv import tolerance
tolerance.MARGIN *= {times}
print(*freeze.PROBLEMS, *freeze.NETWORKS)
print(*freeze.lines({share}), sep="\\n")
"""
SHARE = 0.003  # of each kind but one at least one


def written(monkeypatch, seed, times=1):
    """A process that writes, where Python orders sets by a seed."""
    monkeypatch.setenv("PYTHONHASHSEED", str(seed))
    text = WRITE.format(folder=str(SCRIPTS), times=times, share=SHARE)
    return subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)


@pytest.mark.thorough
def test_what_is_planned_is_written_and_another_rule_is_seen(monkeypatch):
    runs = written(monkeypatch, 1), written(monkeypatch, 2), written(monkeypatch, 1, 20)
    (kinds, *lines), again, others = (run.communicate()[0].splitlines() for run in runs)
    assert not any(run.returncode for run in runs)
    records = [json.loads(line) for line in lines]
    assert {one["of"]["kind"] for one in records} == {*kinds.split()} - {"tuned"}
    assert sum("error" in one for one in records) < len(records) // 2
    assert again == [kinds, *lines]
    assert len(others) == len(again) and others != again
