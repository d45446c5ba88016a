"""The pages as programs: their blocks of code, and the commands of a shell block."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = {
    str(path.relative_to(ROOT)): path
    for path in (
        *map(ROOT.joinpath, ("README.md", "CONTRIBUTING.md", "examples/README.md")),
        *ROOT.glob("docs/*.md"),
    )
}
# Commands of winogen that take minutes: only their options are checked.
SLOW = (
    "demo", "bench", "search", "report", "calibrate", "onnx", "bundle", "compress",
    "generate model.onnx", "lab search-loops", "lab regret", "lab explain", "lab stack",
    "lab strassen", "lab front", "lab joined", "lab fourier", "lab low-rank", "lab ranks",
    "lab ways", "lab word-lengths",
)  # fmt: skip


@dataclass(frozen=True)
class Block:
    """A fenced block; ``printed`` is the ```text that follows a ```sh."""

    language: str
    text: str
    line: int
    printed: str | None = None


def blocks(page: str) -> list[Block]:
    """Return the blocks of a page in order."""
    text = PAGES[page].read_text("utf-8")
    found: list[Block] = []
    for fence in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        language, body = fence.groups()
        if language == "text" and found and found[-1].language == "sh" and not found[-1].printed:
            found[-1] = Block("sh", found[-1].text, found[-1].line, body)
        else:
            found.append(Block(language, body, text.count("\n", 0, fence.start(2)) + 1))
    count = sum(1 + (block.printed is not None) for block in found)
    assert text.count("\n```") == 2 * count, f"{page}: a fence that is not closed or has spaces"
    return found


def commands(text: str) -> list[str]:
    """The commands of a shell block: continued lines joined, comments left out."""
    lines = text.replace("\\\n", " ").splitlines()
    return [line for line in lines if shlex.split(line, comments=True)]
