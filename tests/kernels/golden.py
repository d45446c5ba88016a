"""Generated C by part: each different text once, and which file has which texts.

A part begins at a comment of the form ``/* ---- title`` and is named after it; its texts are what
blank lines separate. A function that every kernel has is a part of its own. Files of C share most
of their texts, so that a change of a template shows as one difference in one golden file. A text
that is nearly an earlier one is written as the numbers or lines that a setting changes in it.
"""

import fnmatch
import re
from collections.abc import Iterable, Mapping
from difflib import SequenceMatcher
from itertools import count, groupby

HEAD = "head"  # of a file, before its first part
_BEGIN = re.compile(r"^(?=/\* ---- )", re.MULTILINE)
_TITLE = re.compile(r"/\* ---- ([^\n]*?)(?: -+)?(?: \*/)?\n")
_SETTING = re.compile(r"(.*)_(|nchw|nhwc)_(|[a-z]+\d*)")
_ENTRY = re.compile(r"^\S.*\b(winogen_pack|pack_block|run_part)\(", re.MULTILINE)
_DIGITS = re.compile(r"\d+")
_COLUMNS = 100


def split(text: str) -> Iterable[tuple[str, str]]:
    """Yield the texts of a C file, each behind the name of its part.

    >>> list(split("a\\n\\nb\\n/* ---- load: 16 x float ----- */\\n\\nc\\n"))
    [('head', 'a'), ('head', 'b'), ('load', '/* ---- load: 16 x float ----- */'), ('load', 'c')]
    """
    for piece in filter(None, _BEGIN.split(text)):
        title = _TITLE.match(piece)
        name = title[1].partition(":")[0] if title else HEAD
        # Sizes are settings of a part, and so are points.
        words = re.sub(r"\bF\([^)]*\)|[^A-Za-z]+", " ", name).lower().split()
        for text in filter(None, piece.strip("\n").split("\n\n")):
            entry = _ENTRY.search(text)
            yield entry[1] if entry else "_".join(words), text


def documents(files: Mapping[str, str]) -> dict[str, str]:
    """Return the golden text of every part of all files, by name."""
    parts: dict[str, dict[str, list[str]]] = {}
    for file, text in files.items():
        for name, piece in split(text):
            parts.setdefault(name, {}).setdefault(file, []).append(piece)
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
        *names, last = _folded(who, uses)
        lines += _wrapped([*names, f"{last}:", *_ranges(seen)])
    for text, number in numbers.items():
        lines += _entry(number, text, dict(zip(numbers, range(1, number))))
    return "\n".join(lines) + "\n"


def _entry(number: int, text: str, earlier: Mapping[str, int]) -> list[str]:
    """A text, or what it has otherwise than an earlier one, if that is shorter."""
    entry = [f"==== {number}", *text.split("\n")]
    most = len(entry)
    for other, place in earlier.items():
        if changed := _numbers(other, text):
            lines = _wrapped([f"==== {number} is {place} with", *changed])
        else:
            gone, lines = _changes(other, text)
            words = [f"==== {number} is {place}", *gone, *(["but for"] if lines else [])]
            lines = [*_wrapped(words), *lines]
        if len(lines) < most:
            entry, most = lines, len(lines)
    return entry


def _changes(old: str, new: str) -> tuple[list[str], list[str]]:
    """Lines that a text is without; its new ones, behind those that they replace or, +, follow.

    >>> _changes("a\\nb\\nc\\nd", "A\\nb\\nd\\ne")
    (['without', '3'], ['    1| A', '   4+| e'])
    """
    were, are = old.split("\n"), new.split("\n")
    gone, lines = [], []
    for tag, begin, end, first, last in SequenceMatcher(None, were, are, False).get_opcodes():
        (place,) = _ranges(range(begin + 1, end + 1)) or (f"{begin}+",)
        if tag == "delete":
            gone += [place] if gone else ["without", place]
        elif tag != "equal":
            more = [f"     | {line}" for line in are[first + 1 : last]]
            lines += [f"{place:>5}| {are[first]}", *more]
    return gone, lines


def _numbers(old: str, new: str) -> list[str]:
    """The numbers that differ, old and new, where two texts differ in nothing else.

    >>> _numbers("a[8] = 1;", "a[16] = 1;"), _numbers("a[8];", "b[16];")
    (['8>16'], [])
    """
    if _DIGITS.sub("0", old) != _DIGITS.sub("0", new):
        return []
    pairs = zip(_DIGITS.findall(old), _DIGITS.findall(new))
    return [f"{was}>{now}" for was, now in pairs if was != now]


def _folded(who: Iterable[str], files: Iterable[str]) -> list[str]:
    """The names of some of these files, with * for all layouts or targets that there are.

    >>> _folded(["a_nchw_neon", "a_nhwc_neon"], ["a_nchw_neon", "a_nhwc_neon", "b"])
    ['a_*_*']
    """
    left, names = set(who), []
    for name in who:
        stem, layout, target = (_SETTING.fullmatch(name) or _SETTING.fullmatch("__")).groups()
        patterns = (
            f"{stem}_{{}}_{{}}".format(*both) for both in (("*",) * 2, (layout, "*"), ("*", target))
        )
        for pattern in ("*", *patterns, name):
            alike = fnmatch.filter(files, pattern)
            if name in left and alike and left.issuperset(alike):
                names.append(pattern)
                left -= set(alike)
    return names


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
