"""The script that measures first calls of layers."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "first_calls.py"


def test_a_first_call_takes_longer_than_the_mean(tmp_path):
    path = tmp_path / "layers.json"
    path.write_text(json.dumps([{"name": "one", "input": [1, 8, 6, 6], "weight": [8, 8, 1, 1]}]))
    words = [sys.executable, str(SCRIPT), str(path), "--calls"]
    done = subprocess.run([*words, "5"], capture_output=True, text=True, check=True)
    head, row = done.stdout.splitlines()
    assert head.split()[:3] == ["layer", "first,", "ms"]
    name, first, again, mean, *ratios = row.split()
    assert name == "one" and float(first) > float(mean) > 0 < float(again)
    assert len(ratios) == 2 and float(ratios[0]) > 1
    refused = subprocess.run([*words, "0"], capture_output=True, text=True, check=False)
    assert refused.returncode == 2 and "calls: got 0" in refused.stderr
