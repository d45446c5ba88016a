"""Which pieces of a text of C are used: static functions, macros and types that are not leave it.

Templates share parts that define what any kernel may call; a kernel calls some of it. A text is a
list of pieces, as the templates lay them out: directives, comments and definitions, which begin in
the first column. What others can see is used, and so is what it names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

_COMMENT = re.compile(r"/\*.*?\*/", re.S)
_STRING = re.compile(r'"(?:\\.|[^"\\])*"')
_ATTRIBUTE = re.compile(r"__attribute__\s*\(\((?:[^()]|\([^()]*(?:\([^()]*\)[^()]*)*\))*\)\)")
_WORD = re.compile(r"[A-Za-z_]\w*")
_DEFINE = re.compile(r"#define (\w+)")
_FUNCTION = re.compile(r"(?:static|INLINE|NOINLINE)\b[^=;{]*?\b(\w+)\s*\(")
_VARIABLE = re.compile(r"static\b[^(;{=]*?\b(\w+)\s*(?:\[[^=;]*\]\s*)*(?:=|;)")
_POINTER = re.compile(r"typedef\b[^;{]*\(\*(\w+)\)")
_TYPE = re.compile(r"typedef\b.*?\b(\w+)\s*(?:\[[^\]]*\])?\s*;\s*\Z", re.S)


@dataclass(frozen=True)
class Passage:
    """Lines that belong together.

    ``kind``: "blank", "comment", "directive", "macro", "definition", or "code", which is used in
    any case. Macros and definitions have a ``name``.
    """

    kind: str
    lines: Sequence[str]
    name: str = ""

    @property
    def words(self) -> frozenset[str]:
        """The names in it, those of comments and strings aside."""
        text = _bare("\n".join(self.lines))
        return frozenset(_WORD.findall(text)) - {self.name}


def used_only(text: str) -> str:
    """Return a text without the functions, macros and types that nothing in it uses.

    >>> text = "INLINE int one(void) { return 1; }\\nINLINE int two(void) { return 2; }\\n"
    >>> print(used_only(text + "int run(void) { return two(); }\\n"), end="")
    INLINE int two(void) { return 2; }
    int run(void) { return two(); }
    """
    pieces = list(_pieces(text.split("\n")))
    kept = _reached(pieces)
    return "\n".join(line for piece in _tidy(pieces, kept) for line in piece.lines)


def _bare(text: str) -> str:
    return _STRING.sub('""', _COMMENT.sub(" ", text))


def _pieces(lines: Sequence[str]) -> Iterator[Passage]:
    begin = 0
    while begin < len(lines):
        line = lines[begin]
        if not line.strip():
            kind, end = "blank", begin + 1
        elif line.startswith("#"):
            kind, end = "directive", begin + 1
            while lines[end - 1].endswith("\\"):
                end += 1
        elif line.startswith("/*"):
            end = _closed(lines, begin)
            kind = "comment" if lines[end - 1].rstrip().endswith("*/") else "code"
        else:
            kind, end = "code", _end_of_code(lines, begin)
        yield _named(kind, lines[begin:end])
        begin = end


def _closed(lines: Sequence[str], begin: int) -> int:
    """The line behind the one that closes the last comment of a line."""
    end = begin + 1
    while lines[end - 1].rfind("*/") < lines[end - 1].rfind("/*") or (
        end > begin + 1 and "*/" not in lines[end - 1]
    ):
        end += 1
    return end


def _end_of_code(lines: Sequence[str], begin: int) -> int:
    """The line behind a definition: behind the brace in the first column that closes it."""
    end = begin
    while end < len(lines) and lines[end].strip():
        end = _closed(lines, end)
        code = _bare("\n".join(lines[begin:end])).rstrip()
        if code.endswith("{"):
            while not lines[end].startswith("}"):
                end += 1
            return _closed(lines, end)
        if code.endswith((";", "}")) and code.count("{") == code.count("}"):
            return end
    return end


def _named(kind: str, lines: Sequence[str]) -> Passage:
    text = _ATTRIBUTE.sub("", _bare("\n".join(lines))).strip()
    if kind == "directive":
        found = _DEFINE.match(text)
        return Passage("macro", lines, found[1]) if found else Passage(kind, lines)
    if kind == "code":
        for pattern in (_FUNCTION, _VARIABLE, _POINTER, _TYPE):
            found = pattern.match(text)
            if found:
                return Passage("definition", lines, found[1])
    return Passage(kind, lines)


def _reached(pieces: Iterable[Passage]) -> set[str]:
    """The names that are used: by what others see, or by what is used itself."""
    words: dict[str, set[str]] = {}
    pasted: dict[str, list[str]] = {}
    waiting = set[str]()
    for piece in pieces:
        if piece.name:
            words.setdefault(piece.name, set()).update(piece.words)
            pasted.setdefault(piece.name, []).extend(_pasted(piece))
        elif piece.kind != "comment":
            waiting |= piece.words
    reached = set[str]()
    while waiting:
        name = waiting.pop()
        if name in words and name not in reached:
            reached.add(name)
            waiting |= words[name]
            waiting.update(one for begin in pasted[name] for one in words if one.startswith(begin))
    return reached


def _pasted(piece: Passage) -> list[str]:
    """How names begin that a macro puts together, but for those that it defines."""
    text = re.sub(r"static \w+ \w+##", "", _bare("\n".join(piece.lines)))
    return re.findall(r"(\w+)##", text) if piece.kind == "macro" else []


def _tidy(pieces: Sequence[Passage], reached: set[str]) -> Iterator[Passage]:
    """What is used, without comments on what is not, empty conditions and blank lines in a row."""
    kept = [not piece.name or piece.name in reached for piece in pieces]
    _drop_comments(pieces, kept)
    _drop_conditions(pieces, kept)
    _drop_headings(pieces, kept)
    blank = False
    for piece, keep in zip(pieces, kept):
        if not keep:
            continue
        if piece.kind == "blank":
            blank = True
            continue
        if blank:
            yield Passage("blank", [""])
        blank = False
        yield piece
    if blank:
        yield Passage("blank", [""])


def _drop_comments(pieces: Sequence[Passage], kept: list[bool]) -> None:
    """Leave out a comment if all that follows it up to a blank line or the next comment left."""
    for place, piece in enumerate(pieces):
        if piece.kind != "comment":
            continue
        behind = place + 1
        while behind < len(pieces) and pieces[behind].name:
            behind += 1
        if behind > place + 1 and not any(kept[place + 1 : behind]):
            kept[place] = behind < len(pieces) and pieces[behind].kind == "code"


def _drop_headings(pieces: Sequence[Passage], kept: list[bool]) -> None:
    """Leave out the heading of a section that has nothing left."""
    heading = None
    for place, piece in enumerate(pieces):
        if piece.lines[0].startswith("/* ---- "):
            if heading is not None:
                kept[heading] = False
            heading = place
        elif kept[place] and piece.kind != "blank":
            heading = None


def _drop_conditions(pieces: Sequence[Passage], kept: list[bool]) -> None:
    """Leave out the lines of a condition whose branches are empty, those inside first."""
    open_: list[list[int]] = []  # the places of #if, #else and #endif of each
    full: list[bool] = []  # whether something is left in it
    for place, piece in enumerate(pieces):
        first = piece.lines[0]
        if piece.kind == "directive" and first.startswith("#if"):
            open_.append([place])
            full.append(False)
        elif piece.kind == "directive" and first.startswith(("#el", "#endif")) and open_:
            open_[-1].append(place)
            if first.startswith("#endif"):
                places, filled = open_.pop(), full.pop()
                for one in places if not filled else ():
                    kept[one] = False
                if filled and full:
                    full[-1] = True
        elif full and kept[place] and piece.kind != "blank":
            full[-1] = True
