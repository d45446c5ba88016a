"""The table of a model's layers in the reports of all frameworks.

A layer has one time of winogen's and one of the framework's, both measured in turns. A prediction
takes the place of what was not measured, and says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from winogen.columns import aligned, filled, fitted, wrapped

# A layer that takes so many times as long as predicted, and so many seconds longer, was disturbed.
_FAR, _LONGER = 3.0, 100e-6
_PREDICTED = "~"
_DISTURBED = "?"
# Numbers that are the same along all axes, as in "pad 1,1,1,1"; names that say a name again.
_EQUAL = re.compile(r"\b(stride|pad|dilation) (\d+)(?:[,x]\2)+\b")
_AGAIN = re.compile(r"^(\w+) (?=\1_)")


class Line(NamedTuple):
    """A layer in a table; seconds are None where nobody knows them."""

    name: str
    what: str  # it computes
    runs: str  # by which algorithm, or the framework
    predicted: float | None = None  # winogen's seconds on an idle machine
    measured: float | None = None
    theirs: float | None = None  # measured of the framework, for the same
    error: float | None = None  # predicted, of the largest output
    note: str = ""  # a sentence that stands once below the table
    tolerance: float | None = None  # of the layer alone; None of all: no column has them
    share: float | None = None  # of the squared error at the network's output

    @property
    def is_disturbed(self) -> bool:
        """Whether its times are much longer than on an idle machine."""
        if self.measured is None or self.predicted is None:
            return False
        return self.measured > max(_FAR * self.predicted, self.predicted + _LONGER)

    @property
    def is_predicted(self) -> bool:
        """Whether there is no time but the predicted one."""
        return self.measured is None and self.predicted is not None


def table(lines: Sequence[Line], framework: str, predicted: bool = False) -> list[str]:
    """Return the lines of text, with what their marks and notes mean below.

    ``predicted``: with a column of what was predicted of measured layers as well.
    """
    notes = list(dict.fromkeys(line.note for line in lines if line.note))
    head = ["layer", "computes", "runs", "predicted", "ms", framework, "gain", "error"]
    rows = [head, *(_cells(line, notes) for line in lines)]
    if any(line.tolerance is not None for line in lines):
        spent = (["tolerance", "of output"], *map(_spent, lines))
        rows = [[*row, *more] for row, more in zip(rows, spent)]
    if not predicted:
        rows = [[*row[:3], *row[4:]] for row in rows]
    made = aligned(fitted(filled(rows), 2), left=3)
    made.insert(1, "-" * max(map(len, made)))
    return [*made, *_legend(lines, notes, predicted)]


def _cells(line: Line, notes: Sequence[str]) -> list[str]:
    mark = f" [{notes.index(line.note) + 1}]" if line.note else ""
    doubt = _DISTURBED if line.is_disturbed else ""
    ours = _milliseconds(line.measured, doubt)
    if line.is_predicted:
        ours = _PREDICTED + _milliseconds(line.predicted)
    gain = f"{line.theirs / line.measured:.2f}" if line.theirs and line.measured else ""
    return [
        line.name,
        _EQUAL.sub(r"\1 \2", line.what),
        _AGAIN.sub("", line.runs) + mark,
        _milliseconds(line.predicted),
        ours,
        _milliseconds(line.theirs, doubt),
        gain,
        "" if line.error is None else f"{line.error:.1e}",
    ]


def _spent(line: Line) -> list[str]:
    tolerance = "" if line.tolerance is None else f"{line.tolerance:.1e}"
    return [tolerance, "" if line.share is None else f"{line.share:.0%}"]


def _legend(lines: Sequence[Line], notes: Sequence[str], predicted: bool) -> list[str]:
    made = [f"[{number}] {note}" for number, note in enumerate(notes, 1)]
    if any(line.is_predicted for line in lines):
        made.append(f"{_PREDICTED} predicted for an idle machine, not measured")
    if any(line.is_disturbed for line in lines):
        made.append(
            f"{_DISTURBED} over {_FAR:g} times what is predicted for an idle machine: others "
            "compute, do not rely on it"
        )
    if any(line.measured is not None for line in lines):
        made.append("ms: the least of several calls of the layer alone, both sides in turns")
    if any(line.tolerance is not None for line in lines):
        made.append("of output: part of the squared error at the output, predicted from gains")
    if predicted:
        made.append("predicted: milliseconds on an idle machine")
    return [part for text in made for part in wrapped(text)]


def _milliseconds(seconds: float | None, mark: str = "") -> str:
    """Three digits, with a place for the mark that other rows may have.

    >>> _milliseconds(0.0116), _milliseconds(1.2345e-5), _milliseconds(1.234)
    ('11.6', '0.0123', '1234')
    """
    if seconds is None:
        return ""
    thousandths = 1e3 * seconds
    text = f"{thousandths:.0f}" if thousandths >= 1000 else f"{thousandths:#.3g}".rstrip(".")
    return text + mark
