"""Generated C by part: each different text once, and which file has which texts.

A part begins at a comment of the form ``/* ---- title`` and is named after it; its texts are what
blank lines separate. Files of C share most of their texts, so that a change of a template shows as
one difference in one golden file. A text that is nearly an earlier one is written as what a setting
changes in it.
"""

import re
from collections.abc import Iterable, Mapping
from difflib import unified_diff
from itertools import count, groupby, islice

HEAD = "head"  # of a file, before its first part
_BEGIN = re.compile(r"^(?=/\* ---- )", re.MULTILINE)
_TITLE = re.compile(r"/\* ---- ([^\n]*?)(?: -+)?(?: \*/)?\n")
_COLUMNS = 100


def split(text: str) -> Iterable[tuple[str, list[str]]]:
    """Yield the parts of a C file: name, texts. A name may come twice.

    >>> list(split("a\\n\\nb\\n/* ---- load: 16 x float ----- */\\n\\nc\\n"))
    [('head', ['a', 'b']), ('load', ['/* ---- load: 16 x float ----- */', 'c'])]
    """
    for piece in filter(None, _BEGIN.split(text)):
        title = _TITLE.match(piece)
        name = title[1].partition(":")[0] if title else HEAD
        # Sizes are settings of a part, and so are points.
        words = re.sub(r"\bF\([^)]*\)|[^A-Za-z]+", " ", name).lower().split()
        yield "_".join(words), [text for text in piece.strip("\n").split("\n\n") if text]


def documents(files: Mapping[str, str]) -> dict[str, str]:
    """Return the golden text of every part of all files, by name."""
    parts: dict[str, dict[str, list[str]]] = {}
    for file, text in files.items():
        for name, texts in split(text):
            parts.setdefault(name, {}).setdefault(file, []).extend(texts)
    return {name: _document(name, uses) for name, uses in parts.items()}


def _document(name: str, uses: Mapping[str, list[str]]) -> str:
    """Who has which texts, then the texts in the order in which they were met."""
    numbers: dict[str, int] = {}
    alike: dict[tuple[int, ...], list[str]] = {}
    for file, texts in uses.items():
        seen = tuple(numbers.setdefault(text, len(numbers) + 1) for text in texts)
        alike.setdefault(seen, []).append(file)
    lines = [f"Part of generated C: {name}. Files, and which of the texts below they have.", ""]
    for seen, who in alike.items():
        lines += _wrapped([*who[:-1], f"{who[-1]}:", *_ranges(seen)])
    for text, number in numbers.items():
        lines += _entry(number, text, dict(zip(numbers, range(1, number))))
    return "\n".join(lines) + "\n"


def _entry(number: int, text: str, earlier: Mapping[str, int]) -> list[str]:
    """A text, or what it has otherwise than an earlier one, if that is much shorter."""
    shortest = [f"==== {number}", *text.split("\n")]
    if len(shortest) > 3:
        for other, place in earlier.items():
            changes = unified_diff(other.split("\n"), text.split("\n"), n=0, lineterm="")
            lines = [f"==== {number} is {place} but for", *islice(changes, 2, None)]
            shortest = min(shortest, lines, key=lambda lines: sum(map(len, lines)))
    return shortest


def _ranges(numbers: Iterable[int]) -> list[str]:
    """
    >>> _ranges([1, 2, 3, 7, 4])
    ['1-3', '7', '4']
    """
    found, counter = [], count()
    for _, group in groupby(numbers, lambda number: number - next(counter)):
        run = list(group)
        found.append(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]))
    return found


def _wrapped(words: Iterable[str]) -> list[str]:
    lines = [""]
    for word in words:
        if lines[-1] and len(lines[-1]) + 1 + len(word) > _COLUMNS:
            lines.append("   ")
        lines[-1] = f"{lines[-1]} {word}" if lines[-1] else word
    return lines
