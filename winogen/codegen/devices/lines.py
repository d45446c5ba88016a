"""Lines of generated kernels: indented, and broken where they would be too long."""

from __future__ import annotations

import re
from collections.abc import Iterable

COLUMNS = 100
INDENT = "    "

# Before what a line may be broken: what follows a comma, and an operator.
_BREAK = re.compile(r"(?<=,) | (?=[-+*/%?:] |&& |\|\| )")
_WEAKEST_FIRST = ("?:", "|", "&", "+-", "*/%")


def indented(lines: Iterable[str]) -> list[str]:
    """Return lines one level further in; empty ones stay empty."""
    return [f"{INDENT}{line}" if line else "" for line in lines]


def block(head: str, body: list[str], braces: bool = False) -> list[str]:
    """Return ``head`` with what belongs to it, in braces unless that is a single line.

    >>> block("if (i < 4)", ["x[i] = 0;"])
    ['if (i < 4)', '    x[i] = 0;']
    >>> block("if (i < 4)", ["x[i] = 0;", "y[i] = 0;"])
    ['if (i < 4) {', '    x[i] = 0;', '    y[i] = 0;', '}']
    """
    if len(body) == 1 and not braces:
        return [head, *indented(body)]
    return [f"{head} {{", *indented(body), "}"]


def broken(line: str, columns: int = COLUMNS) -> list[str]:
    """Return a line in several that fit, broken where brackets are nested least.

    >>> broken("    sum = a[i + 1] * b[i] + c[i];", 26)
    ['    sum = a[i + 1] * b[i]', '        + c[i];']
    """
    indent = len(line) - len(line.lstrip())
    lines = []
    while len(line) > columns and (at := _place(line, columns)):
        lines.append(line[:at])
        line = " " * indent + INDENT + line[at + 1 :]
    return [*lines, line]


def _place(line: str, columns: int) -> int:
    """The space at which a line is broken best; 0 where there is none."""
    indent = len(line) - len(line.lstrip())
    found = (one.start() for one in _BREAK.finditer(line, indent + 2 * len(INDENT), columns + 4))
    places = [at for at in found if at <= columns]
    return max(places, key=lambda at: (-_depth(line[:at]), -_binding(line[at + 1]), at), default=0)


def _depth(text: str) -> int:
    """How many brackets are open at the end of a text."""
    return sum((char in "([{") - (char in ")]}") for char in text)


def _binding(operator: str) -> int:
    """How much an operator binds, by its first character; what follows a comma not at all."""
    return next((i for i, some in enumerate(_WEAKEST_FIRST, 1) if operator in some), 0)
