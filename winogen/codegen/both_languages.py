"""C that a compiler of C++17 takes as well, without a warning at -Wall -Wextra -Wpedantic.

Kernels are C11. What they have of it that C++17 lacks is rewritten here: designated initialisers
and compound literals are marked as extensions, which both languages' compilers then take in
silence, fields follow the order of their structs and none is left out, pointers to anything are
cast, and `restrict` is spelled as compilers of C++ spell it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_STRUCT = re.compile(r"^typedef struct(?: \w+)? \{\n(.*?)^\} (\w+);", re.M | re.S)
_COMMENT = re.compile(r"/\*.*?\*/", re.S)
_ALIAS = re.compile(r"^typedef (\w+) (\w+);$", re.M)
# A variable of a struct, or a literal of one, whose fields are named.
_NAMED = re.compile(r"(?:\b(\w+) \w+ = |\((\w+)\))\{(?=\s*\.\w+ = )")
_LITERAL = re.compile(r"(?<!__extension__ )\((\w+)\)\{")
_DECLARED = re.compile(r"^( *)((?:static )?(?:const )?\w+ \w+ = \{\s*\.\w+ = )", re.M)
_ZERO = re.compile(r"(?<!__extension__ )\((\w+)\)\{0\}")
_ZEROS = re.compile(r"((?:\[[^\[\]]*\])+) = \{ ?0 ?\};")
_ANYTHING = re.compile(r"^( *(const \w+|\w+) \*\w+ = )context;$", re.M)


def both_languages(text: str) -> str:
    """Return C11 in words that C++17 takes, too; it defines ZERO(type) where it has zeros.

    >>> print(both_languages("typedef struct {\\n    int a, b;\\n} pair;\\n"
    ...                      "    const pair p = { .b = 1, .a = 2 };\\n"), end="")
    typedef struct {
        int a, b;
    } pair;
        __extension__ const pair p = { .a = 2, .b = 1 };
    """
    structs = {name: list(_fields(body)) for body, name in _STRUCT.findall(text)}
    structs |= {new: structs[old] for old, new in _ALIAS.findall(text) if old in structs}
    text = _ordered(text, structs)
    text = _ANYTHING.sub(r"\1(\2 *)context;", text)
    text = _ZERO.sub(r"ZERO(\1)", text)
    text = _ZEROS.sub(lambda found: f"{found[1]} = {_nested_zero(found[1].count('['))};", text)
    text = _LITERAL.sub(r"__extension__ (\1){", text)
    text = _DECLARED.sub(r"\1__extension__ \2", text)
    return re.sub(r"\brestrict\b", "__restrict", text)


def _nested_zero(depth: int) -> str:
    """The first number of an array of so many axes: the others are zeros, too."""
    return "{ " * depth + "0" + " }" * depth


def _fields(body: str) -> Iterator[str]:
    """The names of a struct's fields, in their order."""
    for declaration in _COMMENT.sub("", body).split(";"):
        function = re.search(r"\(\*(\w+)\)", declaration)
        if function:
            yield function[1]
            continue
        for one in declaration.split(","):
            if found := re.search(r"(\w+)\s*(?:\[[^\]]*\]\s*)*$", one):
                yield found[1]


def _ordered(text: str, structs: dict[str, list[str]]) -> str:
    """The text with all fields of initialisers, in the order of their structs."""
    done, place = [], 0
    while found := _NAMED.search(text, place):
        begin, end = found.end(), _closing(text, found.end())
        done.append(text[place:begin])
        done.append(_initialised(text[begin:end], structs[found[1] or found[2]]))
        place = end
    return "".join([*done, text[place:]])


def _closing(text: str, begin: int) -> int:
    """Where the brace stands that closes the one before ``begin``."""
    depth = 1
    for place in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if not depth:
            return place
    raise AssertionError(f"no closing brace behind {text[begin - 60 : begin]!r}")


def _initialised(inside: str, names: list[str]) -> str:
    """What stands in the braces, complete and in order; unchanged if it already is."""
    starts = [
        one.start() for one in re.finditer(r"\.\w+ = ", inside) if _outer(inside, one.start())
    ]
    pieces = [inside[a:b] for a, b in zip(starts, [*starts[1:], len(inside)])]
    given = {piece[1 : piece.index(" ")]: piece.rstrip().rstrip(",") for piece in pieces}
    if list(given) == names:
        return inside
    before, behind = inside[: starts[0]], inside[len(inside.rstrip()) :]
    between = "," + (before or " ")
    last = "," if inside.rstrip().endswith(",") else ""
    values = (given.get(name, f".{name} = 0") for name in names)
    return before + between.join(values) + last + behind


def _outer(text: str, place: int) -> bool:
    """Whether a field is one of the struct itself, not of a struct in it."""
    before = text[:place]
    return before.count("{") == before.count("}") and before.count("(") == before.count(")")
