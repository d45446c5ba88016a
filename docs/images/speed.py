"""Draws speed.png beside this file: how fast whole nets are beside the fastest rival, on one CPU.

python docs/images/speed.py [FILE]

The figures are in speed.json; `scripts/speed_page.py` takes them from `winogen bench --nets`, and
writes all pages that tell them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from winogen_lab.nets.plot import save_plot

HERE = Path(__file__).parent

if __name__ == "__main__":
    document = json.loads((HERE / "speed.json").read_text("utf-8"))
    save_plot(document, sys.argv[1] if len(sys.argv) > 1 else HERE / "speed.png")
