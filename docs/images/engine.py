"""Draws engine.png beside this file: what of an engine is busy, layer by layer and by schedule.

python docs/images/engine.py [FILE]
"""

from __future__ import annotations

import sys
from pathlib import Path

from winogen_lab.engine_plot import save_utilisation

if __name__ == "__main__":
    save_utilisation(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_name("engine.png"))
