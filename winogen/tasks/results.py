"""Results of tasks on disk: one line of JSON per task, so that a killed search loses nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from winogen.errors import InvalidValue
from winogen.files import check_regular

_OURS = b'{"task": '  # how `Results.add` begins a line
_ALLOWED = "a new file, or one that an earlier search wrote"


def key_of(task: dict) -> str:
    """The same text for the same task."""
    return json.dumps(task, sort_keys=True)


class Results:
    """Results of tasks, kept in memory and, if a path is given, as JSON lines in a file.

    One line is written per result, as soon as it is there. A last line that was cut off is dropped
    when the file is opened again, but only where a search certainly wrote it. One file may serve
    many searches: a result is found by its task.

    ``check`` raises InvalidValue for an entry ``{"task", "result"}`` that no such search writes.

    Raises InvalidValue for a file with anything else in it, and leaves the file as it is.
    """

    def __init__(self, path: str | Path | None, check: Callable[[Any], None]):
        self._check = check
        self._by_task: dict[str, Any] = {}
        self._file: BinaryIO | None = None
        if path is None:
            return
        path = Path(path)
        check_regular("results", path, _ALLOWED)
        try:
            data = path.read_bytes() if path.exists() else b""
            size, complete = self._read(data, path)
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a+b")
            if size < len(data):
                self._file.truncate(size)
            elif not complete:
                self._write(b"\n")
        except OSError as error:
            raise InvalidValue(
                f"results: got {str(path)!r} ({error.strerror}); allowed: {_ALLOWED}"
            ) from None

    def _read(self, data: bytes, path: Path) -> tuple[int, bool]:
        """Take in all lines; return how many bytes they are, and whether a newline ends them."""
        size = 0
        lines = data.split(b"\n")
        complete = lines[-1] == b""  # behind the newline that ends the last line
        for number, line in enumerate(lines[:-1] if complete else lines, 1):
            last = number == len(lines)
            try:
                entry = json.loads(line)
                self._check(entry)
            except (ValueError, TypeError, KeyError, RecursionError) as error:
                broken = isinstance(error, json.JSONDecodeError | UnicodeDecodeError)
                if broken and last and (size or line.startswith(_OURS)):
                    return size, True  # cut off when an earlier search was stopped
                why = f" ({error})" if isinstance(error, InvalidValue) else ""
                raise InvalidValue(
                    f"results: got line {number} of {path}, which is no result of a search{why}; "
                    f"allowed: {_ALLOWED}"
                ) from None
            self._by_task[key_of(entry["task"])] = entry["result"]
            size += len(line) + 1
        return min(size, len(data)), complete

    def __contains__(self, task: dict) -> bool:
        return key_of(task) in self._by_task

    def __getitem__(self, task: dict) -> Any:
        return self._by_task[key_of(task)]

    def get(self, task: dict) -> Any:
        """Return the result of a task; None if there is none."""
        return self._by_task.get(key_of(task))

    def __len__(self) -> int:
        return len(self._by_task)

    def add(self, task: dict, result: Any) -> None:
        """Keep a result, in memory and on disk."""
        self._by_task[key_of(task)] = result
        self._write(json.dumps({"task": task, "result": result}).encode() + b"\n")

    def _write(self, data: bytes) -> None:
        if self._file is not None:
            self._file.write(data)
            self._file.flush()

    def close(self) -> None:
        """Close the file; results stay readable."""
        if self._file is not None:
            self._file.close()
            self._file = None
