"""Draws why.png beside this file: the stages of the 27 layers, and their limits.

python docs/images/why.py [FILE]

The figures are in why.json; `scripts/why_page.py` takes them from what `winogen lab explain` said.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from winogen_lab.bench.explain_plot import save_plot

HERE = Path(__file__).parent

if __name__ == "__main__":
    document = json.loads((HERE / "why.json").read_text("utf-8"))
    save_plot(document, sys.argv[1] if len(sys.argv) > 1 else HERE / "why.png")
