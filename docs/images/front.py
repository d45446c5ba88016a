"""Draws front.png beside this file: error against multiplications per output, three kernels.

python docs/images/front.py [FILE]

The figures are in front.json. `winogen lab front --trials 20 --results docs/images/front.json`
writes them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from winogen_lab.fronts.front_plot import save_plot

HERE = Path(__file__).parent

if __name__ == "__main__":
    document = json.loads((HERE / "front.json").read_text("utf-8"))
    save_plot(document, sys.argv[1] if len(sys.argv) > 1 else HERE / "front.png")
