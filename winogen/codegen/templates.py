"""The Jinja2 templates in ``csrc/``, and what they call to write regular pieces of C."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

from winogen import resources

_COLUMNS = 100


@cache
def environment() -> Any:
    """Return the environment that every template is loaded from; undefined names are errors."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(resources.folder("csrc")),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["continued"] = continued
    made.filters["code"] = code_span
    made.globals.update(
        image_of=image_of,
        blended=blended,
        fitted=fitted,
        crossed=crossed,
        grouped=grouped,
        instances=instances,
        numbers=numbers,
        swapped=swapped,
        table=table,
        turned=turned,
        narrowed_bytes=narrowed_bytes,
        narrowed_ends=narrowed_ends,
        widened_bytes=widened_bytes,
        widened_halves=widened_halves,
        zipped=zipped,
    )
    return made


@dataclass(frozen=True)
class Context:
    """What templates know: a record whose fields are the names in their text.

    Each kind of text has a class of its own, a dataclass of keywords. It lists the templates below
    ``csrc/`` that are filled in from it, or patterns as of `fnmatch`:
    ``class TileContext(Context, templates=("tile.c.j2",))``. So a name that a template needs is
    missing when the record is made, before any text is. `tests/codegen/test_contexts.py` compares
    the fields with what templates, and all that they include, ask for.
    """

    templates: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, templates: tuple[str, ...] = ()) -> None:
        super().__init_subclass__()
        cls.templates = templates

    def names(self) -> dict[str, Any]:
        """Return the value of each name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def render(self, path: str | Path = "") -> str:
        """Return the text of one of its templates; the only one need not be named.

        ``path``: below ``csrc/``, or absolute for a variant from elsewhere. Raises LookupError for
        a template that is filled in from another record.
        """
        file = Path(path or self.templates[0])
        if file.is_absolute():
            made = environment().from_string(file.read_text("utf-8"))
        elif any(fnmatchcase(file.as_posix(), pattern) for pattern in self.templates):
            made = environment().get_template(file.as_posix())
        else:
            allowed = ", ".join(self.templates)
            raise LookupError(f"template of {type(self).__name__}: got {file}; allowed: {allowed}")
        return str(made.render(self.names()))


def continued(text: str) -> str:
    """Return the lines of a macro with a backslash at the end of each but the last.

    >>> print(continued("#define ONE\\n    1\\n").replace(" " * 60, " ... "))
    #define ONE ...                             \\
        1
    <BLANKLINE>
    """
    *lines, last = text.rstrip("\n").split("\n")
    return "\n".join([*(f"{line:<{_COLUMNS - 1}}\\" for line in lines), last]) + "\n"


def code_span(text: str) -> str:
    """Return text as code of Markdown, whatever is in it.

    >>> code_span("make"), code_span("a`b")
    ('`make`', '`` a`b ``')
    """
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence, space = "`" * (longest + 1), " " * (longest > 0)
    return f"{fence}{space}{text}{space}{fence}"


def wrapped(items: Iterable[str], indent: int, separator: str = " ", last: str = "") -> str:
    """Return items in lines of at most 100 columns.

    >>> print(wrapped(["GEMM(1)", "GEMM(2)"], indent=4))
        GEMM(1) GEMM(2)
    """
    lines: list[str] = []
    words = [f"{item}{separator.rstrip()}" for item in items]
    words[-1] = words[-1].removesuffix(separator.rstrip()) + last
    line = ""
    for word in words:
        if line and indent + len(line) + 1 + len(word) > _COLUMNS:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    return textwrap.indent("\n".join([*lines, line]), " " * indent)


def fitted(line: str) -> str:
    """Return a call or the head of a function in lines of at most 100 columns.

    >>> print(fitted("run(" + "x" * 50 + ", " + "y" * 50 + ");").replace("x" * 50, "x"))
    run(x,
        yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy);
    """
    if len(line) <= _COLUMNS:
        return line
    head, arguments = line[: line.index("(") + 1], line[line.index("(") + 1 :]
    return head + wrapped(arguments.split(", "), len(head), ", ").lstrip()


def numbers(values: Iterable[int], indent: int) -> str:
    """Return numbers with commas between them, in lines of at most 100 columns."""
    return wrapped(map(str, values), indent, ", ")


def swapped(lanes: int, size: int, which: int) -> list[int]:
    """Return the lanes of a pair of vectors after their off-diagonal blocks changed places.

    >>> swapped(4, 2, 0), swapped(4, 2, 1)
    ([0, 1, 4, 5], [2, 3, 6, 7])
    """
    if which == 0:
        return [lanes + j - size if j % (2 * size) >= size else j for j in range(lanes)]
    return [lanes + j if j % (2 * size) >= size else j + size for j in range(lanes)]


def blended(lanes: int, size: int) -> list[int]:
    """Return the lanes of every other block of ``size`` of one vector, and the others of another.

    >>> blended(8, 2)
    [0, 1, 10, 11, 4, 5, 14, 15]
    """
    return [j + (lanes if j // size % 2 else 0) for j in range(lanes)]


def crossed(lanes: int, size: int) -> list[int]:
    """Return the lanes that `blended` leaves out, each block beside the one of its own vector.

    >>> crossed(8, 2)
    [2, 3, 8, 9, 6, 7, 12, 13]
    """
    return [j - size + lanes if j // size % 2 else j + size for j in range(lanes)]


def zipped(lanes: int, which: int) -> list[int]:
    """Return the lanes of the lower or upper half of a pair of vectors, element by element.

    >>> zipped(4, 0), zipped(4, 1)
    ([0, 4, 1, 5], [2, 6, 3, 7])
    """
    return [(j + which * lanes) // 2 + (lanes if j % 2 else 0) for j in range(lanes)]


def grouped(lanes: int, size: int, which: int) -> list[int]:
    """Return for every lane that of one channel of its group, ``size`` channels each.

    >>> grouped(8, 4, 1)
    [1, 1, 1, 1, 5, 5, 5, 5]
    """
    return [lane // size * size + which for lane in range(lanes)]


def turned(lanes: int, rows: int) -> list[int]:
    """Return the lanes of a vector of ``rows`` columns side by side after its transposition.

    >>> turned(8, 2)
    [0, 2, 4, 6, 1, 3, 5, 7]
    """
    cols = lanes // rows
    return [lane % cols * rows + lane // cols for lane in range(lanes)]


def widened_bytes(lanes: int, size: int, wide: int, begin: int = 0) -> list[int]:
    """Return which packed byte becomes each of the lanes' ``wide`` bytes, 255 for a zero.

    ``size`` bytes are stored of each number, from ``begin`` on.

    >>> widened_bytes(2, 3, 4), widened_bytes(1, 5, 8, 6)
    ([255, 0, 1, 2, 255, 3, 4, 5], [255, 255, 255, 6, 7, 8, 9, 10])
    """
    zeros = [255] * (wide - size)
    places = range(begin, begin + lanes * size, size)
    return [byte for first in places for byte in (*zeros, *range(first, first + size))]


def narrowed_bytes(lanes: int, size: int, wide: int) -> list[int]:
    """Return which byte of a vector becomes each of the packed ones.

    >>> narrowed_bytes(2, 3, 4)
    [1, 2, 3, 5, 6, 7]
    """
    ends = range(wide, lanes * wide + 1, wide)
    return [byte for end in ends for byte in range(end - size, end)]


def widened_halves(lanes: int, size: int, wide: int) -> list[int]:
    """Return `widened_bytes` where each half of the lanes comes within a register of its own.

    Both have half as many bytes as a vector; the later one ends with the last byte.

    >>> widened_halves(2, 5, 8)
    [255, 255, 255, 0, 1, 2, 3, 4, 255, 255, 255, 11, 12, 13, 14, 15]
    """
    half = lanes // 2
    later = widened_bytes(half, size, wide, 16 - half * size)
    return [*widened_bytes(half, size, wide), *later]


def narrowed_ends(lanes: int, size: int, wide: int) -> list[int]:
    """Return the first eight of `narrowed_bytes`, and the last eight: some may be among both.

    >>> narrowed_ends(2, 5, 8)
    [3, 4, 5, 6, 7, 11, 12, 13, 5, 6, 7, 11, 12, 13, 14, 15]
    """
    every = narrowed_bytes(lanes, size, wide)
    return [*every[:8], *every[-8:]]


def _counts(dimension: int | list[int]) -> list[int]:
    return list(dimension) if isinstance(dimension, list) else list(range(1, dimension + 1))


def instances(macro: str, *dimensions: Any) -> str:
    """Return calls of a C macro for all sizes, 1 to each dimension or those listed.

    A dimension may be a text, which every call gets as it is.

    >>> print(instances("GEMM", 2, 2, "_half"))
    GEMM(1, 1, _half) GEMM(1, 2, _half) GEMM(2, 1, _half) GEMM(2, 2, _half)
    """
    ranges = [[d] if isinstance(d, str) else _counts(d) for d in dimensions]
    calls = (f"{macro}({', '.join(map(str, sizes))})" for sizes in product(*ranges))
    return wrapped(calls, 0)


def table(name: str, *dimensions: Any) -> str:
    """Return the initialiser of a table of functions name_<size>_<size>.

    Dimensions are as for `instances`; a list of one size adds no level.

    >>> print(table("gemm", 2, 2))
    {
        { gemm_1_1, gemm_1_2 },
        { gemm_2_1, gemm_2_2 },
    }
    """
    first, *inner = dimensions
    if isinstance(first, list) and inner:
        return table(f"{name}_{first[0]}", *inner)
    if not inner:
        items = [f"{name}_{size}" for size in _counts(first)]
        line = "{ " + ", ".join(items) + " }"
        return line if len(line) < _COLUMNS - 44 else "{\n" + wrapped(items, 4, ", ", ",") + "\n}"
    rows = []
    for size in _counts(first):
        row = table(f"{name}_{size}", *inner)
        if "\n" in row or len(row) > _COLUMNS - 8:
            items = [f"{name}_{size}_{last}" for last in _counts(inner[-1])]
            row = "{\n" + wrapped(items, 8, ", ", ",") + "\n    }"
        rows.append(f"    {row},")
    return "{\n" + "\n".join(rows) + "\n}"


def image_of(strides: str, rank: int, image: str = "image") -> str:
    """Return the C of where an image begins in an array with ``strides``.

    >>> image_of("s->", 2)
    'image * s->image'
    """
    if rank == 2:
        return f"{image} * {strides}image"
    pointer = strides[:-2] if strides.endswith("->") else f"&{strides[:-1]}"
    return f"image_at({pointer}, {image})"
