"""C in fewer lines, of files that are read as a whole: lists in rows, nothing that does nothing."""

from __future__ import annotations

import re

from winogen.codegen.templates import wrapped

_MARK = re.compile(r"^ *MARK\(\d\);\n", re.M)
_CONSTANTS = re.compile(r"(?:^    const real \w+ = [^;,\n]+;\n){2,}", re.M)
_SHUFFLE = re.compile(r"SHUFFLE\(\n +a, b,\n +([\d, ]+)\);")
_FIELDS = re.compile(r"(?<=\{\n)(?:    \.\w+ = [^\n]+,\n){2,}(?=\};)")
_FIELD = re.compile(r"(\.\w+ = (?:\{[^{}]*\}|[^{},]+)),\s*")


def compact(text: str) -> str:
    """Return C in fewer lines, the same program.

    >>> print(compact("    const real a = 1;\\n    const real b = 2;\\n    MARK(1);\\n"), end="")
        const real a = 1, b = 2;
    """
    text = _CONSTANTS.sub(_in_rows, _MARK.sub("", text))
    text = _SHUFFLE.sub(lambda found: f"SHUFFLE(a, b, {found[1]});", text)
    return _FIELDS.sub(lambda found: _fields_in_rows(found[0]), text)


def _in_rows(found: re.Match[str]) -> str:
    """Constants of one declaration."""
    named = [line.removeprefix("    const real ")[:-1] for line in found[0].splitlines()]
    return "    const real " + wrapped(named, 15, ", ").lstrip() + ";\n"


def _fields_in_rows(rows: str) -> str:
    """The initialisers of a struct, as many in a row as there is room for."""
    return wrapped(_FIELD.findall(rows), 4, ", ", ",") + "\n"
