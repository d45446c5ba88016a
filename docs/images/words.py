"""Draws words.png beside this file: quality of whole nets against the bits of their words.

python docs/images/words.py [FILE]

The figures are in words.json; `winogen lab word-lengths --json > docs/images/words.json` writes
them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from winogen_lab.nets.word_plot import save_plot

HERE = Path(__file__).parent

if __name__ == "__main__":
    document = json.loads((HERE / "words.json").read_text("utf-8"))
    save_plot(document, sys.argv[1] if len(sys.argv) > 1 else HERE / "words.png")
